// Bicubic resizing and its gradient.
#include <utility>

#include "exec/batching/batch_form.h"
#include "graph/op_def.h"
#include "ops/common/grad_nodes.h"
#include "ops/image/resize.h"

namespace sluice {
namespace {

using resize::Alignment;
using resize::Sizes;

// Immutable.
class ResizeBicubic : public resize::Aligned<ResizeBicubic> {
 public:
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Sizes s, resize::ReadSizes(ctx));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kFloat, s.output()));
    const Tensor& images = ctx.input(0);
    if (images.num_elements() == 0) return OkStatus();
    const auto taps = [&](int64_t out, int64_t in) {
      return image::BicubicTaps(out, in, alignment_.Scale(in, out),
                                alignment_.half_pixel_centers);
    };
    image::Resample(images.dtype(), images.raw(), s.in,
                    taps(s.height, s.in.height), taps(s.width, s.in.width),
                    ctx.output(0).raw<float>());
    return OkStatus();
  }
};

// Immutable.
class ResizeBicubicGrad : public resize::Aligned<ResizeBicubicGrad> {
 public:
  Status Run(KernelContext& ctx) const {
    return resize::RunGradient(ctx, type_, [&](int, int64_t out, int64_t in) {
      return image::BicubicTaps(out, in, alignment_.Scale(in, out),
                                alignment_.half_pixel_centers);
    });
  }
};

AttrMap BicubicAttrs(const GradContext& c) {
  return resize::AlignmentOf(*c.op);
}

Status ResizeBicubicGradient(GradContext& c) {
  // (The gradient op has no other types.)
  const DType t = grad::TypeOf(c.input(0));
  if (t == DType::kFloat || t == DType::kDouble)
    c.grads[0] =
        Build("ResizeBicubicGrad", {c.dy[0], c.input(0)}, BicubicAttrs(c));
  return OkStatus();
}

// It is linear in `grads`, and its transpose is the forward op.
Status ResizeBicubicGradGradient(GradContext& c) {
  const Output size =
      Build("Slice", {grad::ShapeOf(c.input(0)), Constant(Tensor::Vector({1})),
                      Constant(Tensor::Vector({2}))});
  c.grads[0] = Build("ResizeBicubic", {c.dy[0], size}, BicubicAttrs(c));
  return OkStatus();
}

SLUICE_OP(ResizeBicubic)
    .Input("images: T")
    .Input("size: int32")
    .Output("resized_images: float")
    .Attr(resize::kImageTypes) SLUICE_ALIGNMENT_ATTRS.Family("image")
    .HostInput("size")
    .Shape(resize::ResizeShape)
    .Kernel(CpuState<ResizeBicubic>(/*expensive=*/true))
    .Grad(ResizeBicubicGradient)
    .Sample({{.shape = {2, 3, 4, 3}, .dtype = DType::kFloat},
             {.shape = {2}, .values = {5, 2}}})
    .Sample({{.shape = {1, 5, 4, 2}, .dtype = DType::kFloat},
             {.shape = {2}, .values = {3, 7}}},
            {{"half_pixel_centers", true}})
    .Sample({{.shape = {1, 5, 3, 1}}, {.shape = {2}, .values = {4, 5}}},
            {{"align_corners", true}})
    .Doc("Resizes images by cubic convolution of 16 pixels.");

SLUICE_OP(ResizeBicubicGrad)
    .Input("grads: float")
    .Input("original_image: T")
    .Output("output: T")
    .Attr("T: {float, double}") SLUICE_ALIGNMENT_ATTRS.Family("image")
    .Shape(resize::ResizeGradShape)
    .Kernel(CpuState<ResizeBicubicGrad>(/*expensive=*/true))
    .Grad(ResizeBicubicGradGradient)
    .Sample({{.shape = {2, 5, 2, 3}},
             {.shape = {2, 3, 4, 3}, .dtype = DType::kFloat}})
    .Sample({{.shape = {1, 3, 7, 2}},
             {.shape = {1, 5, 4, 2}, .dtype = DType::kFloat}},
            {{"half_pixel_centers", true}})
    .Doc("The gradient of ResizeBicubic.");

const BatchFormRegistrar resize_bicubic_batch("ResizeBicubic",
                                              RowByRow<1 << 1>);

}  // namespace
}  // namespace sluice
