// Shared by the ops that resize images [batch, height, width, channels].
#ifndef SLUICE_OPS_IMAGE_RESIZE_H_
#define SLUICE_OPS_IMAGE_RESIZE_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "exec/core/kernel.h"
#include "graph/shape_context.h"
#include "kernels/image/resample.h"

namespace sluice::resize {

inline constexpr char kImageTypes[] =
    "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, "
    "bfloat16}";

// The attributes align_corners and half_pixel_centers.
struct Alignment {
  bool corners = false;
  bool half_pixel_centers = false;

  // InvalidArgument if both are set.
  static Result<Alignment> Read(const Node& n);
  // Input pixels per output pixel.
  float Scale(int64_t in, int64_t out) const;
};
#define SLUICE_ALIGNMENT_ATTRS \
  .Attr("align_corners: bool = false").Attr("half_pixel_centers: bool = false")
// The same attributes, for the op's gradient.
AttrMap AlignmentOf(const Node& n);

// What the state of a kernel, K, gets from its node.
template <typename K>
class Aligned {
 public:
  static Result<std::shared_ptr<K>> Make(const Node& n) {
    auto k = std::make_shared<K>();
    SLUICE_ASSIGN_OR_RETURN(k->alignment_, Alignment::Read(n));
    k->type_ = n.TypeAttr("T");
    return k;
  }

 protected:
  Alignment alignment_;
  DType type_ = DType::kInvalid;
};

// Images and what they become.
struct Sizes {
  image::ImageSize in;
  int64_t height, width;  // Of the output.
  Shape output() const { return Shape({in.batch, height, width, in.channels}); }
};

// Two positive int32: height and width.
Status ReadPair(const Tensor& t, const char* name, int64_t* height,
                int64_t* width);

// Of an op that resizes input 0 to the size in input 1.
Result<Sizes> ReadSizes(const KernelContext& ctx);

// [batch, input 1, channels] of input 0.
Status ResizeShape(ShapeContext& c);
// [batch of input 0, height and width of input 1, channels of input 0].
Status ResizeGradShape(ShapeContext& c);

// The taps of a forward op along axis 0 (rows) or 1 (columns).
using TapsFn =
    absl::FunctionRef<Result<image::Taps>(int axis, int64_t out, int64_t in)>;

// Computes output 0, of type t, from the gradients in input 0.
Status RunGradient(KernelContext& ctx, DType t, TapsFn taps);

}  // namespace sluice::resize

#endif  // SLUICE_OPS_IMAGE_RESIZE_H_
