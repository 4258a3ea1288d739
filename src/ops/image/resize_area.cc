// Resizing by averages.
#include "graph/grad.h"
#include "graph/op_def.h"
#include "ops/image/resize.h"

namespace sluice {
namespace {

// Immutable.
class ResizeArea {
 public:
  explicit ResizeArea(const Node& n) {
    alignment_.corners = n.BoolAttr("align_corners");
  }
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const resize::Sizes s, resize::ReadSizes(ctx));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kFloat, s.output()));
    const Tensor& images = ctx.input(0);
    if (images.num_elements() == 0) return OkStatus();
    image::Resample(images.dtype(), images.raw(), s.in,
                    image::AreaTaps(s.height, s.in.height,
                                    alignment_.Scale(s.in.height, s.height)),
                    image::AreaTaps(s.width, s.in.width,
                                    alignment_.Scale(s.in.width, s.width)),
                    ctx.output(0).raw<float>());
    return OkStatus();
  }

 private:
  resize::Alignment alignment_;
};

SLUICE_OP(ResizeArea)
    .Input("images: T")
    .Input("size: int32")
    .Output("resized_images: float")
    .Attr(resize::kImageTypes)
    .Attr("align_corners: bool = false")
    .Family("image")
    .HostInput("size")
    .Shape(resize::ResizeShape)
    .Kernel(CpuState<ResizeArea>(/*expensive=*/true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {2, 3, 4, 3}}, {.shape = {2}, .values = {5, 2}}})
    .Sample({{.shape = {1, 7, 5, 2}}, {.shape = {2}, .values = {3, 2}}},
            {{"align_corners", true}})
    .Doc(
        "Resizes images: each pixel is the average of the area that it "
        "covers.");

}  // namespace
}  // namespace sluice
