// Resizing by the nearest pixel, and its gradient.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "exec/batching/batch_form.h"
#include "graph/op_def.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/image/resize.h"

namespace sluice {
namespace {

using resize::Alignment;
using resize::Sizes;

// Input pixel of each output pixel.
std::vector<int64_t> NearestPixels(const Alignment& a, int64_t out,
                                   int64_t in) {
  const float scale = a.Scale(in, out);
  std::vector<int64_t> all(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    const float at =
        (static_cast<float>(i) + (a.half_pixel_centers ? 0.5f : 0.0f)) * scale;
    all[static_cast<size_t>(i)] = std::min(
        in - 1,
        static_cast<int64_t>(a.corners ? std::round(at) : std::floor(at)));
  }
  return all;
}

// For all types: pixels are copied. Immutable.
class ResizeNearest : public resize::Aligned<ResizeNearest> {
 public:
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Sizes s, resize::ReadSizes(ctx));
    const Tensor& images = ctx.input(0);
    constexpr int64_t kExact = 1 << 24;  // Float holds every integer below.
    if (s.in.height >= kExact || s.in.width >= kExact)
      return InvalidArgument(
          "images: expected a height and width below 2^24, got shape ",
          images.shape().ToString());
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, images.dtype(), s.output()));
    if (images.num_elements() == 0) return OkStatus();
    const auto rows = NearestPixels(alignment_, s.height, s.in.height);
    const auto columns = NearestPixels(alignment_, s.width, s.in.width);
    Tensor& out = ctx.output(0);
    array::ByElement(images.dtype(), [&](auto tag) {
      using E = typename decltype(tag)::type;
      if constexpr (std::is_trivially_copyable_v<E>) {
        const int64_t c = s.in.channels, out_row = s.width * c;
        ParallelFor(s.in.batch * s.height, 16384 / out_row + 1,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t o = begin; o < end; ++o) {
                        const E* from =
                            images.raw<E>() +
                            (o / s.height * s.in.height +
                             rows[static_cast<size_t>(o % s.height)]) *
                                s.in.width * c;
                        E* to = out.raw<E>() + o * out_row;
                        for (const int64_t x : columns)
                          for (int64_t i = 0; i < c; ++i)
                            *to++ = from[x * c + i];
                      }
                    });
      }
    });
    return OkStatus();
  }
};

// Immutable.
template <typename T>
class ResizeNearestGrad : public resize::Aligned<ResizeNearestGrad<T>> {
 public:
  Status Run(KernelContext& ctx) const {
    const Tensor& grads = ctx.input(0);
    if (grads.rank() != 4)
      return InvalidArgument(
          "grads: expected [batch, height, width, channels], got shape ",
          grads.shape().ToString());
    int64_t height, width;
    SLUICE_RETURN_IF_ERROR(
        resize::ReadPair(ctx.input(1), "size", &height, &width));
    const int64_t c = grads.dim(3);
    const Shape shape({grads.dim(0), height, width, c});
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, grads.dtype(), shape));
    T* const out = ctx.output(0).template raw<T>();
    if (grads.num_elements() == 0) {
      std::fill_n(out, shape.num_elements(), T{});
      return OkStatus();
    }
    const auto rows = NearestPixels(this->alignment_, grads.dim(1), height);
    const auto columns = NearestPixels(this->alignment_, grads.dim(2), width);
    // 16-bit floats are summed in float.
    using S = ComputeType<T>;
    const T* const in = grads.raw<T>();
    const int64_t in_height = grads.dim(1), in_row = grads.dim(2) * c;
    ParallelFor(shape.dim(0) * height, 16384 / (width * c) + 1,
                [&](int64_t begin, int64_t end) {
                  std::vector<S> sum(static_cast<size_t>(width * c));
                  for (int64_t o = begin; o < end; ++o) {
                    std::fill(sum.begin(), sum.end(), S{});
                    // The rows of the gradient that were copied from this one.
                    const auto copies =
                        std::equal_range(rows.begin(), rows.end(), o % height);
                    for (auto y = copies.first; y != copies.second; ++y) {
                      const T* from =
                          in + (o / height * in_height + (y - rows.begin())) *
                                   in_row;
                      for (const int64_t x : columns)
                        for (int64_t i = 0; i < c; ++i)
                          Add(*from++, &sum[static_cast<size_t>(x * c + i)]);
                    }
                    std::transform(sum.begin(), sum.end(), out + o * width * c,
                                   [](S v) { return static_cast<T>(v); });
                  }
                });
    return OkStatus();
  }

 private:
  template <typename S>
  static void Add(T v, S* sum) {
    if constexpr (std::is_integral_v<T>) {  // Wraps.
      *sum = static_cast<S>(static_cast<uint64_t>(*sum) +
                            static_cast<uint64_t>(v));
    } else {
      *sum += static_cast<S>(v);
    }
  }
};

AttrMap NearestAttrs(const GradContext& c) {
  return resize::AlignmentOf(*c.op);
}

// Height and width of x.
Output SideLengths(Output x) {
  return Build("Slice", {grad::ShapeOf(x), Constant(Tensor::Vector({1})),
                         Constant(Tensor::Vector({2}))});
}

Status ResizeNearestGradient(GradContext& c) {
  c.grads[0] = Build("ResizeNearestNeighborGrad",
                     {c.dy[0], SideLengths(c.input(0))}, NearestAttrs(c));
  return OkStatus();
}

// It is linear, and its transpose is the forward op.
Status ResizeNearestGradGradient(GradContext& c) {
  c.grads[0] = Build("ResizeNearestNeighbor",
                     {c.dy[0], SideLengths(c.input(0))}, NearestAttrs(c));
  return OkStatus();
}

SLUICE_OP(ResizeNearestNeighbor)
    .Input("images: T")
    .Input("size: int32")
    .Output("resized_images: T")
    .Attr(resize::kImageTypes) SLUICE_ALIGNMENT_ATTRS.Family("image")
    .HostInput("size")
    .Shape(resize::ResizeShape)
    .Kernel(CpuState<ResizeNearest>(/*expensive=*/true))
    .Grad(ResizeNearestGradient)
    .Sample({{.shape = {2, 3, 4, 3}}, {.shape = {2}, .values = {5, 2}}})
    .Sample({{.shape = {1, 3, 4, 2}}, {.shape = {2}, .values = {5, 7}}},
            {{"half_pixel_centers", true}})
    .Sample({{.shape = {1, 5, 3, 1}}, {.shape = {2}, .values = {4, 5}}},
            {{"align_corners", true}})
    .Doc("Resizes images: each pixel is the nearest one.");

SLUICE_OP(ResizeNearestNeighborGrad)
    .Input("grads: T")
    .Input("size: int32")
    .Output("output: T")
    .Attr("T: {uint8, int8, int32, half, float, double, bfloat16}")
        SLUICE_ALIGNMENT_ATTRS.Family("image")
    .HostInput("size")
    .Shape(resize::ResizeShape)
    .Kernel(CpuStateFor<ResizeNearestGrad, uint8_t, int8_t, int32_t, half,
                        float, double, bfloat16>("T", /*expensive=*/true))
    .Grad(ResizeNearestGradGradient)
    .Sample({{.shape = {2, 5, 2, 3}}, {.shape = {2}, .values = {3, 4}}})
    .Sample({{.shape = {1, 4, 5, 1}}, {.shape = {2}, .values = {5, 3}}},
            {{"align_corners", true}})
    .Doc("The gradient of ResizeNearestNeighbor.");

const BatchFormRegistrar resize_nearest_batch("ResizeNearestNeighbor",
                                              RowByRow<1 << 1>);

}  // namespace
}  // namespace sluice
