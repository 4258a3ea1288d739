// The attributes of ops that slide a window over images: strides, padding,
// layout.
#ifndef SLUICE_OPS_NN_WINDOW_H_
#define SLUICE_OPS_NN_WINDOW_H_

#include <cstdint>
#include <span>
#include <string>

#include "graph/graph.h"
#include "graph/shape_context.h"
#include "kernels/dnn/window.h"

namespace sluice {

// What a node says about its window. Immutable once read. Index 0 is the
// height, 1 the width.
struct WindowAttrs {
  dnn::Layout layout = dnn::Layout::kNhwc;
  std::string padding = "VALID";
  int64_t window[2] = {1, 1};  // Pooling only: a convolution has a filter.
  int64_t stride[2] = {1, 1};
  int64_t dilation[2] = {1, 1};
  int64_t before[2] = {0, 0};  // Where padding is EXPLICIT.
  int64_t after[2] = {0, 0};

  // Reads data_format, padding, explicit_paddings, strides, dilations and
  // ksize, as far as the op has them. InvalidArgument for what cannot be: a
  // stride over the batch, a padded channel.
  static Result<WindowAttrs> Read(const Node& n);
  // Sets stride and window from values given at run time (MaxPoolV2).
  Status SetPooling(std::span<const int64_t> ksize,
                    std::span<const int64_t> strides);

  // Positions of the dimensions of an image batch.
  int height() const { return layout == dnn::Layout::kNhwc ? 1 : 2; }
  int width() const { return height() + 1; }
  int channel() const { return layout == dnn::Layout::kNhwc ? 3 : 1; }

  // Along dimension i: the output's extent, -1 if unknown.
  Result<int64_t> OutputSize(int i, int64_t in, int64_t window_size) const;
  // The same with everything that a kernel needs.
  Result<dnn::WindowDim> Resolve(int i, int64_t in, int64_t window_size) const;

  // [batch, h, w, channels] in the order of the layout.
  PartialShape Image(int64_t batch, int64_t h, int64_t w, int64_t c) const;
};

}  // namespace sluice

#endif  // SLUICE_OPS_NN_WINDOW_H_
