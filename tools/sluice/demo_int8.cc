#include "tools/sluice/demo_int8.h"

#include <algorithm>

#include "deploy/quantize.h"
#include "sluice/sluice.h"

namespace sluice::demo {
namespace {

constexpr int64_t kInferenceBatch = 100;

// Images [begin, end) of a set, in the format of the models' inputs.
Tensor Images(const ImageSet& set, int64_t begin, int64_t end) {
  Tensor t(DType::kFloat, Shape({end - begin, kPixels}));
  std::transform(
      set.image(begin), set.image(end), t.data<float>(),
      [](uint8_t v) { return static_cast<float>(v) * (1.0f / 255); });
  return t;
}

// Runs all batches; sets the accuracy, and the time if it is the best so far.
Status MeasureOnce(const Session::Callable& step, const ImageSet& set,
                   const std::vector<Tensor>& batches,
                   InferenceFigures* figures) {
  int64_t right = 0, at = 0, ns = 0;
  for (const Tensor& batch : batches) {
    const int64_t start = NowNs();
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> out, step.Run({batch}));
    ns += NowNs() - start;
    for (int64_t i = 0; i < batch.dim(0); ++i, ++at) {
      const float* row = out[0].data<float>() + i * kClasses;
      right += std::max_element(row, row + kClasses) - row ==
               set.labels[static_cast<size_t>(at)];
    }
  }
  const auto count = static_cast<double>(at);
  figures->accuracy = static_cast<double>(right) / count;
  figures->images_per_second = std::max(
      figures->images_per_second, count / (static_cast<double>(ns) * 1e-9));
  return OkStatus();
}

}  // namespace

Result<Int8Figures> MeasureInt8(Session& session, const Model& model,
                                const ImageData& data) {
  SLUICE_ASSIGN_OR_RETURN(
      const InferenceGraph frozen,
      Freeze(session, {model.images}, {model.probabilities}));
  std::vector<std::vector<Tensor>> calibration;
  const int64_t some = std::min<int64_t>(data.train.count(), 1000);
  for (int64_t i = 0; i < some; i += kInferenceBatch)
    calibration.push_back(
        {Images(data.train, i, std::min(some, i + kInferenceBatch))});
  SLUICE_ASSIGN_OR_RETURN(const QuantizedGraph small,
                          Quantize(frozen, calibration));

  std::vector<Tensor> batches;
  for (int64_t i = 0; i < data.test.count(); i += kInferenceBatch)
    batches.push_back(
        Images(data.test, i, std::min(data.test.count(), i + kInferenceBatch)));
  Int8Figures figures;
  Session before(*frozen.graph), after(*small.graph);
  SLUICE_ASSIGN_OR_RETURN(const Session::Callable float_step,
                          before.MakeCallable(frozen.feeds, frozen.fetches));
  SLUICE_ASSIGN_OR_RETURN(const Session::Callable int8_step,
                          after.MakeCallable(small.feeds, small.fetches));
  for (int turn = 0; turn < 3; ++turn) {
    SLUICE_RETURN_IF_ERROR(
        MeasureOnce(float_step, data.test, batches, &figures.before));
    SLUICE_RETURN_IF_ERROR(
        MeasureOnce(int8_step, data.test, batches, &figures.after));
  }
  const auto size = [](const Graph& g) -> Result<int64_t> {
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ExportGraphDef(g));
    return static_cast<int64_t>(bytes.size());
  };
  SLUICE_ASSIGN_OR_RETURN(figures.before.bytes, size(*frozen.graph));
  SLUICE_ASSIGN_OR_RETURN(figures.after.bytes, size(*small.graph));
  return figures;
}

}  // namespace sluice::demo
