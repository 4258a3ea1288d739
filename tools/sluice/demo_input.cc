#include "tools/sluice/demo_input.h"

#include <algorithm>
#include <vector>

namespace sluice::demo {

Batch MakeBatch(const ImageSet& set, const int64_t* rows, int64_t count) {
  Batch b = {Tensor(DType::kFloat, Shape({count, kPixels})),
             Tensor(DType::kInt32, Shape({count}))};
  float* to = b.images.data<float>();
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* from = set.image(rows[i]);
    for (int p = 0; p < kPixels; ++p)
      *to++ = static_cast<float>(from[p]) * (1.0f / 255);
    b.labels.data<int32_t>()[i] = set.labels[static_cast<size_t>(rows[i])];
  }
  return b;
}

// An element is a batch: a row of the order of the epoch says which images it
// has.
BatchPipeline::BatchPipeline(int64_t count, int batch, int64_t epochs,
                             uint64_t seed)
    : pixels_(Placeholder<uint8_t>({count, kPixels}, "all_images")),
      labels_(Placeholder<uint8_t>({count}, "all_labels")) {
  const int64_t steps = count / batch;
  const auto epoch = [&](const Output&) {
    const Output order =
        ops::RandomShuffle(ops::Range(0, static_cast<int32_t>(count), 1),
                           {.seed = static_cast<int64_t>(seed), .seed2 = 1});
    return Dataset::FromTensors({ops::Reshape(
        ops::Slice(order, {0}, {static_cast<int32_t>(steps * batch)}),
        {static_cast<int32_t>(steps), batch})});
  };
  const auto make = [this](const Output& rows) {
    return std::vector<Output>{
        ops::Cast(ops::GatherV2(pixels_, rows, 0), DType::kFloat) *
            (1.0f / 255),
        ops::Cast(ops::GatherV2(labels_, rows, 0), DType::kInt32)};
  };
  batches_ = Dataset::Range(epochs)
                 .FlatMap(epoch)
                 .Map(make, {.parallel = 1})
                 .Prefetch(4)
                 .MakeIterator("input");
}

ModelInputs BatchPipeline::Next() {
  const std::vector<Output> next = batches_.Next();
  return {ops::PlaceholderWithDefault(next[0], {-1, kPixels}),
          ops::PlaceholderWithDefault(next[1], {-1})};
}

Status BatchPipeline::Start(Session& session, const ImageSet& set) {
  const int64_t count = set.count();
  Tensor pixels(DType::kUint8, Shape({count, kPixels}));
  Tensor labels(DType::kUint8, Shape({count}));
  std::copy(set.pixels.begin(), set.pixels.end(), pixels.data<uint8_t>());
  std::copy(set.labels.begin(), set.labels.end(), labels.data<uint8_t>());
  return batches_.Start(session, {{pixels_, pixels}, {labels_, labels}});
}

}  // namespace sluice::demo
