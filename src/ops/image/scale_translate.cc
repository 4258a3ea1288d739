// Resampling by a filter, scaled and shifted, and its gradient.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "graph/op_def.h"
#include "ops/common/grad_nodes.h"
#include "ops/image/resize.h"

namespace sluice {
namespace {

// The filters have at most this many weights for all rows or columns.
constexpr double kMaxWeights = 1 << 25;

Result<image::Filter> ReadFilter(const Node& n) {
  const auto name = n.AttrOr<std::string>("kernel_type", "");
  for (const auto& [known, filter] :
       {std::pair("lanczos1", image::Filter::kLanczos1),
        std::pair("lanczos3", image::Filter::kLanczos3),
        std::pair("lanczos5", image::Filter::kLanczos5),
        std::pair("gaussian", image::Filter::kGaussian),
        std::pair("box", image::Filter::kBox),
        std::pair("triangle", image::Filter::kTriangle),
        std::pair("keyscubic", image::Filter::kKeysCubic),
        std::pair("mitchellcubic", image::Filter::kMitchellCubic)})
    if (name == known) return filter;
  return InvalidArgument(
      "kernel_type: expected lanczos1, lanczos3, lanczos5, gaussian, box, "
      "triangle, keyscubic or mitchellcubic, got '",
      name, "'");
}

Status CheckTwo(const Tensor& t, const char* name) {
  if (t.rank() != 1 || t.dim(0) != 2)
    return InvalidArgument(name,
                           ": expected one number for rows and one for "
                           "columns, got shape ",
                           t.shape().ToString());
  return OkStatus();
}

// Attributes of both ops. Immutable.
class FilterState {
 public:
  Status Init(const Node& n) {
    SLUICE_ASSIGN_OR_RETURN(filter_, ReadFilter(n));
    antialias_ = n.BoolAttr("antialias");
    return OkStatus();
  }
  // Checks inputs 2 and 3.
  Status Check(const KernelContext& ctx) const {
    const Tensor& scale = ctx.input(2);
    SLUICE_RETURN_IF_ERROR(CheckTwo(scale, "scale"));
    SLUICE_RETURN_IF_ERROR(CheckTwo(ctx.input(3), "translation"));
    for (const float v : scale.raw_flat<float>())
      if (!(v > 0))
        return InvalidArgument("scale: expected positive numbers, got ", v);
    return OkStatus();
  }
  // axis: 0 for rows, 1 for columns. REQUIRES: Check passed.
  Result<image::Taps> Axis(const KernelContext& ctx, int axis, int64_t out,
                           int64_t in) const {
    const float scale = ctx.input(2).raw<float>()[axis];
    const double most =
        image::MaxFilterTaps(filter_, out, in, scale, antialias_);
    if (most > kMaxWeights)
      return ResourceExhausted("scale: expected at most ", kMaxWeights,
                               " weights, got ", most, " for ", in,
                               " pixels that become ", out);
    return image::FilterTaps(filter_, out, in, scale,
                             ctx.input(3).raw<float>()[axis], antialias_);
  }

 private:
  image::Filter filter_ = image::Filter::kLanczos3;
  bool antialias_ = true;
};

// Immutable.
class ScaleAndTranslate {
 public:
  static Result<std::shared_ptr<ScaleAndTranslate>> Make(const Node& n) {
    auto k = std::make_shared<ScaleAndTranslate>();
    SLUICE_RETURN_IF_ERROR(k->state_.Init(n));
    return k;
  }
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const resize::Sizes s, resize::ReadSizes(ctx));
    SLUICE_RETURN_IF_ERROR(state_.Check(ctx));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kFloat, s.output()));
    const Tensor& images = ctx.input(0);
    if (images.num_elements() == 0) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(const image::Taps rows,
                            state_.Axis(ctx, 0, s.height, s.in.height));
    SLUICE_ASSIGN_OR_RETURN(const image::Taps columns,
                            state_.Axis(ctx, 1, s.width, s.in.width));
    image::Resample(images.dtype(), images.raw(), s.in, rows, columns,
                    ctx.output(0).raw<float>());
    return OkStatus();
  }

 private:
  FilterState state_;
};

// Immutable.
class ScaleAndTranslateGrad {
 public:
  static Result<std::shared_ptr<ScaleAndTranslateGrad>> Make(const Node& n) {
    auto k = std::make_shared<ScaleAndTranslateGrad>();
    SLUICE_RETURN_IF_ERROR(k->state_.Init(n));
    return k;
  }
  Status Run(KernelContext& ctx) const {
    SLUICE_RETURN_IF_ERROR(state_.Check(ctx));
    return resize::RunGradient(ctx, DType::kFloat,
                               [&](int axis, int64_t out, int64_t in) {
                                 return state_.Axis(ctx, axis, out, in);
                               });
  }

 private:
  FilterState state_;
};

Status ScaleAndTranslateGradient(GradContext& c) {
  // (The gradient op has no other types.)
  if (grad::TypeOf(c.input(0)) == DType::kFloat)
    c.grads[0] = Build(
        "ScaleAndTranslateGrad", {c.dy[0], c.input(0), c.input(2), c.input(3)},
        {{"kernel_type", c.op->AttrOr<std::string>("kernel_type", "lanczos3")},
         {"antialias", c.op->BoolAttr("antialias")}});
  return OkStatus();
}

SLUICE_OP(ScaleAndTranslate)
    .Input("images: T")
    .Input("size: int32")
    .Input("scale: float")
    .Input("translation: float")
    .Output("resized_images: float")
    .Attr(
        "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, "
        "float, double}")
    .Attr("kernel_type: string = 'lanczos3'")
    .Attr("antialias: bool = true")
    .Family("image")
    .HostInput("size")
    .Shape(resize::ResizeShape)
    .Kernel(CpuState<ScaleAndTranslate>(/*expensive=*/true))
    .Grad(ScaleAndTranslateGradient)
    .Sample({{.shape = {2, 5, 6, 2}, .dtype = DType::kFloat},
             {.shape = {2}, .values = {3, 8}},
             {.shape = {2}, .values = {0.6, 1.4}},
             {.shape = {2}, .values = {0.25, -0.5}}})
    .Sample({{.shape = {1, 3, 4, 2}},
             {.shape = {2}, .values = {4, 3}},
             {.shape = {2}, .values = {1.5, 0.5}},
             {.shape = {2}, .values = {0, 1}}},
            {{"kernel_type", std::string("triangle")}, {"antialias", false}})
    .Doc("Scales and shifts images, resampled by a filter.");

SLUICE_OP(ScaleAndTranslateGrad)
    .Input("grads: T")
    .Input("original_image: T")
    .Input("scale: float")
    .Input("translation: float")
    .Output("output: T")
    .Attr("T: {float}")
    .Attr("kernel_type: string = 'lanczos3'")
    .Attr("antialias: bool = true")
    .Family("image")
    .Shape(resize::ResizeGradShape)
    .Kernel(CpuState<ScaleAndTranslateGrad>(/*expensive=*/true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {2, 3, 8, 2}},
             {.shape = {2, 5, 6, 2}},
             {.shape = {2}, .values = {0.6, 1.4}},
             {.shape = {2}, .values = {0.25, -0.5}}})
    .Doc("The gradient of ScaleAndTranslate by its images.");

}  // namespace
}  // namespace sluice
