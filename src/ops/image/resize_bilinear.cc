// Bilinear resizing and its gradient.
#include <utility>

#include "exec/batching/batch_form.h"
#include "graph/op_def.h"
#include "kernels/simd/cast.h"
#include "ops/common/grad_nodes.h"
#include "ops/image/resize.h"

namespace sluice {
namespace {

using resize::Alignment;
using resize::Sizes;

// Immutable.
class ResizeBilinear : public resize::Aligned<ResizeBilinear> {
 public:
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Sizes s, resize::ReadSizes(ctx));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kFloat, s.output()));
    const Tensor& images = ctx.input(0);
    if (images.num_elements() == 0) return OkStatus();
    if (s.height == s.in.height && s.width == s.in.width) {
      simd::GetCast(images.dtype(), DType::kFloat)(
          images.raw(), ctx.output(0).raw(), images.num_elements());
      return OkStatus();
    }
    const bool half = alignment_.half_pixel_centers;
    image::ResampleBilinear(
        images.dtype(), images.raw(), s.in,
        image::BilinearPositions(s.height, s.in.height,
                                 alignment_.Scale(s.in.height, s.height), half),
        image::BilinearPositions(s.width, s.in.width,
                                 alignment_.Scale(s.in.width, s.width), half),
        ctx.output(0).raw<float>());
    return OkStatus();
  }
};

// Immutable.
class ResizeBilinearGrad : public resize::Aligned<ResizeBilinearGrad> {
 public:
  Status Run(KernelContext& ctx) const {
    return resize::RunGradient(ctx, type_, [&](int, int64_t out, int64_t in) {
      return image::BilinearTaps(out, in, alignment_.Scale(in, out),
                                 alignment_.half_pixel_centers);
    });
  }
};

Status ResizeBilinearGradient(GradContext& c) {
  // (Images of integers have no gradient.)
  if (IsFloating(grad::TypeOf(c.input(0))))
    c.grads[0] = Build("ResizeBilinearGrad", {c.dy[0], c.input(0)},
                       resize::AlignmentOf(*c.op));
  return OkStatus();
}

SLUICE_OP(ResizeBilinear)
    .Input("images: T")
    .Input("size: int32")
    .Output("resized_images: float")
    .Attr(resize::kImageTypes) SLUICE_ALIGNMENT_ATTRS.Family("image")
    .HostInput("size")
    .Shape(resize::ResizeShape)
    .Kernel(CpuState<ResizeBilinear>(/*expensive=*/true))
    .Grad(ResizeBilinearGradient)
    .Sample({{.shape = {2, 3, 4, 3}, .dtype = DType::kFloat},
             {.shape = {2}, .values = {5, 2}}})
    .Sample({{.shape = {1, 3, 4, 2}}, {.shape = {2}, .values = {5, 7}}},
            {{"half_pixel_centers", true}})
    .Sample({{.shape = {1, 5, 3, 1}, .dtype = DType::kFloat},
             {.shape = {2}, .values = {4, 5}}},
            {{"align_corners", true}})
    .Doc("Resizes images by linear interpolation between four pixels.");

SLUICE_OP(ResizeBilinearGrad)
    .Input("grads: float")
    .Input("original_image: T")
    .Output("output: T")
    .Attr("T: {float, bfloat16, half, double}") SLUICE_ALIGNMENT_ATTRS
    .Family("image")
    .Shape(resize::ResizeGradShape)
    .Kernel(CpuState<ResizeBilinearGrad>(/*expensive=*/true))
    .NoGradient("TensorFlow gives none for the gradient of a resize")
    .Sample({{.shape = {2, 5, 2, 3}}, {.shape = {2, 3, 4, 3}}})
    .Sample({{.shape = {1, 5, 7, 2}}, {.shape = {1, 3, 4, 2}}},
            {{"half_pixel_centers", true}})
    .Doc("The gradient of ResizeBilinear.");

const BatchFormRegistrar resize_bilinear_batch("ResizeBilinear",
                                               RowByRow<1 << 1>);

}  // namespace
}  // namespace sluice
