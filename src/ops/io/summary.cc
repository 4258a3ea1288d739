// Ops that make summaries, which summary/event_writer.h writes to files.
#include "summary/summary.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "summary/proto/summary.pb.h"

namespace sluice {
namespace {

constexpr char kNoSummaryGradient[] = "a summary is not a number";

Status SetSummary(KernelContext& ctx, const proto::Summary& summary) {
  std::string bytes;
  if (!summary.SerializeToString(&bytes))
    return ResourceExhausted("summary: expected at most 2 GiB, got ",
                             summary.ByteSizeLong(), " bytes");
  ctx.set_output(0, Tensor::Scalar(std::move(bytes)));
  return OkStatus();
}

Result<std::string> TagInput(const KernelContext& ctx, int i,
                             const char* what) {
  const Tensor& t = ctx.input(i);
  if (t.rank() != 0)
    return InvalidArgument(what, ": expected a scalar, got shape ",
                           t.shape().ToString());
  return t.raw_scalar<std::string>();
}

// ---- Numbers ----------------------------------------------------------------

template <typename T>
struct ScalarSummaryKernel {
  static Status Run(KernelContext& ctx) {
    const Tensor& tags = ctx.input(0);
    const Tensor& values = ctx.input(1);
    const int64_t n = tags.num_elements();
    if (tags.shape() != values.shape())
      return InvalidArgument("values: expected the shape of tags, ",
                             tags.shape().ToString(), ", got ",
                             values.shape().ToString(), SingleTag(tags));
    proto::Summary summary;
    for (int64_t i = 0; i < n; ++i)
      AddScalarSummary(tags.raw<std::string>()[i],
                       static_cast<float>(values.raw<T>()[i]), &summary);
    return SetSummary(ctx, summary);
  }

 private:
  static std::string SingleTag(const Tensor& tags) {
    if (tags.num_elements() != 1) return "";
    return " (tag '" + tags.raw<std::string>()[0] + "')";
  }
};

Status RunHistogramSummary(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::string tag, TagInput(ctx, 0, "tag"));
  proto::Summary summary;
  const Status s = AddHistogramSummary(tag, ctx.input(1), &summary);
  if (!s.ok()) return Annotate(s, "histogram '" + tag + "'");
  return SetSummary(ctx, summary);
}

// ---- Images and sounds ------------------------------------------------------

// Immutable.
class ImageSummaryKernel {
 public:
  static Result<std::shared_ptr<ImageSummaryKernel>> Make(const Node& n) {
    auto k = std::make_shared<ImageSummaryKernel>();
    k->max_images_ = n.IntAttr("max_images");
    k->bad_color_ = n.AttrOr<Tensor>("bad_color", Tensor());
    if (!k->bad_color_.valid() || k->bad_color_.dtype() != DType::kUint8 ||
        k->bad_color_.rank() != 1)
      return InvalidArgument("bad_color: expected a vector of uint8, got ",
                             k->bad_color_.ToString());
    return k;
  }
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const std::string tag, TagInput(ctx, 0, "tag"));
    proto::Summary summary;
    SLUICE_RETURN_IF_ERROR(AddImageSummary(
        tag, ctx.input(1),
        {.max_images = max_images_, .bad_color = bad_color_.flat<uint8_t>()},
        &summary));
    return SetSummary(ctx, summary);
  }

 private:
  int64_t max_images_ = 0;
  Tensor bad_color_;
};

Status AddSound(KernelContext& ctx, float sample_rate, int64_t max_outputs) {
  SLUICE_ASSIGN_OR_RETURN(const std::string tag, TagInput(ctx, 0, "tag"));
  proto::Summary summary;
  SLUICE_RETURN_IF_ERROR(
      AddAudioSummary(tag, ctx.input(1), sample_rate, max_outputs, &summary));
  return SetSummary(ctx, summary);
}

// Immutable.
class AudioSummaryKernel {
 public:
  explicit AudioSummaryKernel(const Node& n)
      : max_outputs_(n.IntAttr("max_outputs")),
        sample_rate_(n.AttrOr<float>("sample_rate", 0)) {}
  Status Run(KernelContext& ctx) const {
    if (ctx.num_inputs() < 3) return AddSound(ctx, sample_rate_, max_outputs_);
    const Tensor& rate = ctx.input(2);
    if (rate.num_elements() != 1)
      return InvalidArgument("sample_rate: expected one number, got shape ",
                             rate.shape().ToString());
    return AddSound(ctx, rate.raw<float>()[0], max_outputs_);
  }

 private:
  const int64_t max_outputs_;
  const float sample_rate_;  // Of AudioSummary; an input of AudioSummaryV2.
};

// ---- Tensors ----------------------------------------------------------------

// (Its value has the node's name instead of a tag.)
Status RunTensorSummary(KernelContext& ctx) {
  proto::Summary summary;
  SLUICE_RETURN_IF_ERROR(
      AddTensorSummary("", ctx.input(0), std::nullopt, &summary));
  summary.mutable_value(0)->set_node_name(std::string(ctx.node().name()));
  return SetSummary(ctx, summary);
}

Status RunTensorSummaryV2(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::string tag, TagInput(ctx, 0, "tag"));
  SLUICE_ASSIGN_OR_RETURN(const std::string metadata,
                          TagInput(ctx, 2, "serialized_summary_metadata"));
  proto::Summary summary;
  SLUICE_RETURN_IF_ERROR(
      AddTensorSummary(tag, ctx.input(1), metadata, &summary));
  return SetSummary(ctx, summary);
}

// (A message whose values are those of several is their bytes, one after the
// other.)
Status RunMergeSummary(KernelContext& ctx) {
  std::string merged;
  std::set<std::string_view> tags;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    for (const std::string& bytes : ctx.input(i).raw_flat<std::string>()) {
      Status twice;
      const bool whole =
          ForEachSummaryValue(bytes, [&](const SummaryValueView& value) {
            // (Values of TensorSummary have no tag.)
            if (!value.tag.empty() && !tags.insert(value.tag).second)
              twice = InvalidArgument(
                  "inputs: expected different tags, got '",
                  std::string(value.tag), "' twice (Duplicate tag ",
                  std::string(value.tag), " found in summary inputs)");
          });
      if (!whole)
        return InvalidArgument("input ", i, ": expected a serialised Summary, ",
                               "got ", bytes.size(), " bytes that are none");
      SLUICE_RETURN_IF_ERROR(twice);
      merged += bytes;
    }
  }
  ctx.set_output(0, Tensor::Scalar(std::move(merged)));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(ScalarSummary)
    .Input("tags: string")
    .Input("values: T")
    .Output("summary: string")
    .Attr("T: realnumbertype")
    .Family("io")
    .Shape(ScalarShape)
    .Kernel(CpuFor<ScalarSummaryKernel, float, double, half, bfloat16, int8_t,
                   int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                   uint64_t>("T"))
    .NoGradient(kNoSummaryGradient)
    .Doc("Makes a Summary message of numbers and their tags.");

SLUICE_OP(HistogramSummary)
    .Input("tag: string")
    .Input("values: T")
    .Output("summary: string")
    .Attr("T: realnumbertype = DT_FLOAT")
    .Family("io")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunHistogramSummary, /*expensive=*/true))
    .NoGradient(kNoSummaryGradient)
    .Doc(
        "Makes a Summary message with a histogram of all elements. Fails for "
        "NaN and infinities.");

SLUICE_OP(ImageSummary)
    .Input("tag: string")
    .Input("tensor: T")
    .Output("summary: string")
    .Attr("max_images: int >= 1 = 3")
    .Attr("T: {uint8, float, half, double} = DT_FLOAT")
    .Attr("bad_color: tensor = uint8 [255, 0, 0, 255]")
    .Family("io")
    .Shape(ScalarShape)
    .Kernel(CpuState<ImageSummaryKernel>(/*expensive=*/true))
    .NoGradient(kNoSummaryGradient)
    .Doc(
        "Makes a Summary message of the first images of a batch [batch, "
        "height, width, channels], as PNG files. Floats are scaled for each "
        "image; pixels that are not finite become bad_color.");

SLUICE_OP(AudioSummary)
    .Input("tag: string")
    .Input("tensor: float")
    .Output("summary: string")
    .Attr("sample_rate: float")
    .Attr("max_outputs: int >= 1 = 3")
    .Family("io")
    .Shape(ScalarShape)
    .Kernel(CpuState<AudioSummaryKernel>(/*expensive=*/true))
    .NoGradient(kNoSummaryGradient)
    .Doc("As AudioSummaryV2, with sample_rate as an attribute.");

SLUICE_OP(AudioSummaryV2)
    .Input("tag: string")
    .Input("tensor: float")
    .Input("sample_rate: float")
    .Output("summary: string")
    .Attr("max_outputs: int >= 1 = 3")
    .Family("io")
    .Shape(ScalarShape)
    .Kernel(CpuState<AudioSummaryKernel>(/*expensive=*/true))
    .NoGradient(kNoSummaryGradient)
    .Doc(
        "Makes a Summary message of the first sounds of a batch [batch, "
        "frames, channels] or [batch, frames], as WAV files.");

SLUICE_OP(TensorSummary)
    .Input("tensor: T")
    .Output("summary: string")
    .Attr("T: type")
    .Attr("description: string = \"\"")
    .Attr("labels: list(string) = []")
    .Attr("display_name: string = \"\"")
    .Family("io")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunTensorSummary))
    .NoGradient(kNoSummaryGradient)
    .Doc("Makes a Summary message of a tensor, under the node's name.");

SLUICE_OP(TensorSummaryV2)
    .Input("tag: string")
    .Input("tensor: T")
    .Input("serialized_summary_metadata: string")
    .Output("summary: string")
    .Attr("T: type")
    .Family("io")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunTensorSummaryV2))
    .NoGradient(kNoSummaryGradient)
    .Doc(
        "Makes a Summary message of a tensor, with metadata that says what "
        "shows it.");

SLUICE_OP(MergeSummary)
    .Input("inputs: N * string")
    .Output("summary: string")
    .Attr("N: int >= 1")
    .Family("io")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunMergeSummary))
    .NoGradient(kNoSummaryGradient)
    .Doc("Merges Summary messages into one. Fails if a tag occurs twice.");

}  // namespace
}  // namespace sluice
