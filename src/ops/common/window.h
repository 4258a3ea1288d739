// The attributes of ops that slide a window over images: strides, padding,
// layout.
#ifndef SLUICE_OPS_COMMON_WINDOW_H_
#define SLUICE_OPS_COMMON_WINDOW_H_

#include <cstdint>
#include <span>
#include <string>

#include "graph/node.h"
#include "graph/shape_context.h"
#include "kernels/dnn/window.h"

namespace sluice {

// The window attributes of a node. Immutable once read. For images, index 0 is
// the height and 1 the width; for volumes, 0 is the depth, 1 the height and 2
// the width.
struct WindowAttrs {
  dnn::Layout layout = dnn::Layout::kNhwc;
  int spatial = 2;  // The number of dimensions that the window slides over.
  std::string padding = "VALID";
  int64_t window[3] = {1, 1, 1};  // Pooling only: a convolution has a filter.
  // Pooling only: more than 1 if a window consists of that many channels of one
  // pixel; windows do not overlap.
  int64_t channel_window = 1;
  int64_t stride[3] = {1, 1, 1};
  int64_t dilation[3] = {1, 1, 1};
  int64_t before[3] = {0, 0, 0};  // If padding is EXPLICIT.
  int64_t after[3] = {0, 0, 0};

  // Reads data_format, padding, explicit_paddings, strides, dilations and
  // ksize, as far as the op has them. InvalidArgument for unsupported
  // combinations: a stride over the batch, a padded channel, or a window over
  // channels unless the op `pools_channels`.
  static Result<WindowAttrs> Read(const Node& n, bool pools_channels = false);
  // Sets stride and window from values given at run time (MaxPoolV2).
  Status SetPooling(std::span<const int64_t> ksize,
                    std::span<const int64_t> strides);

  // The rank of a batch, and the positions of its dimensions.
  int rank() const { return spatial + 2; }
  int position(int i) const {
    return i + (layout == dnn::Layout::kNhwc ? 1 : 2);
  }
  int channel() const { return layout == dnn::Layout::kNhwc ? spatial + 1 : 1; }

  // Along dimension i: the output's extent, -1 if unknown.
  Result<int64_t> OutputSize(int i, int64_t in, int64_t window_size) const;
  // The output of a batch `image`, with windows of `sizes` and c channels.
  Result<PartialShape> OutputShape(const PartialShape& image,
                                   std::span<const int64_t> sizes,
                                   int64_t c) const;
  // The number of channels after pooling `c` channels (-1: unknown).
  Result<int64_t> PooledChannels(int64_t c) const;
  // Sets the spatial dimensions that a kernel needs: `to` is a geometry of
  // kernels/dnn, whose d, h and w are set.
  template <typename Geometry>
  Status Resolve(const Shape& image, std::span<const int64_t> sizes,
                 Geometry* to) const {
    dnn::WindowDim* dims[] = {&to->d, &to->h, &to->w};
    for (int i = 0; i < spatial; ++i) {
      SLUICE_ASSIGN_OR_RETURN(
          *dims[i + 3 - spatial],
          ResolveDim(i, image.dim(position(i)), sizes[static_cast<size_t>(i)]));
    }
    return OkStatus();
  }
  // The output shape for a geometry set by Resolve.
  template <typename Geometry>
  Result<Shape> OutputOf(const Geometry& g, int64_t c) const {
    const int64_t out[] = {g.d.out(), g.h.out(), g.w.out()};
    return Image(g.batch, std::span(out).last(static_cast<size_t>(spatial)), c)
        .ToShape();
  }

  // [batch, extents..., channels] in the order of the layout.
  PartialShape Image(int64_t batch, std::span<const int64_t> extents,
                     int64_t c) const;

 private:
  Status SetChannelStride(int64_t channel_stride);
  Result<dnn::WindowDim> ResolveDim(int i, int64_t in,
                                    int64_t window_size) const;
};

}  // namespace sluice

#endif  // SLUICE_OPS_COMMON_WINDOW_H_
