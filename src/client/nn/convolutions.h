// Convolutional layers.
//
//   Output h = Conv2D(images, 32, 3, {.padding = Padding::kSame,
//                                     .activation = ops::Relu});
//   h = Conv2D(h, 64, {3, 5}, {.strides = 2});           // "conv2d_1/kernel"
//   Output up = Conv2DTranspose(h, 32, 4, {.strides = 2});
//
// As in client/nn/layers.h, variables have TensorFlow's names and shapes. The
// number of channels must be known.
#ifndef SLUICE_CLIENT_NN_CONVOLUTIONS_H_
#define SLUICE_CLIENT_NN_CONVOLUTIONS_H_

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "client/nn/layers.h"

namespace sluice {

// A number for each spatial dimension, or one for all of them: 3, {3, 5}.
struct Extents {
  Extents(int64_t all) : sizes({all}) {}                          // NOLINT
  Extents(std::initializer_list<int64_t> each) : sizes(each) {}   // NOLINT
  Extents(std::vector<int64_t> each) : sizes(std::move(each)) {}  // NOLINT

  std::vector<int64_t> sizes;
};

// What windows see beyond the edges.
enum class Padding : uint8_t {
  kValid,  // Nothing: they stay within, and the result is smaller.
  kSame,   // Zeros: with strides of 1, the result has the size of the input.
};

struct ConvOptions {
  Extents strides = 1;
  Padding padding = Padding::kValid;
  Extents dilations = 1;  // The distances of a window's elements.
  DataFormat format = DataFormat::kChannelsLast;
  Activation activation = nullptr;
  bool use_bias = true;
  InitializerFn kernel_initializer = nullptr;  // The scope's, or Glorot's.
  InitializerFn bias_initializer = init::Zeros();
  Regularizer kernel_regularizer = nullptr;
  Regularizer bias_regularizer = nullptr;
  bool trainable = true;
  std::string name = "";  // "": "conv1d", "conv2d", "conv3d".
};

// activation(x * kernel + bias), where x has 1, 2 or 3 spatial dimensions
// beside batch and channels, and the result `filters` channels. Strides and
// dilations other than 1 exclude each other. Variables: "kernel" [window...,
// channels, filters], "bias" [filters].
Output Conv1D(const Operand& x, int64_t filters, const Extents& window,
              const ConvOptions& options = {}, SourceLoc loc = CallerLoc());
Output Conv2D(const Operand& x, int64_t filters, const Extents& window,
              const ConvOptions& options = {}, SourceLoc loc = CallerLoc());
Output Conv3D(const Operand& x, int64_t filters, const Extents& window,
              const ConvOptions& options = {}, SourceLoc loc = CallerLoc());

// The transposed convolution, as in the gradient of Conv2D and Conv3D: a size
// of n becomes n * stride with kSame, and n * stride + max(window - stride, 0)
// with kValid. No dilations. Variables: "kernel" [window..., filters,
// channels], "bias" [filters], named after "conv2d_transpose".
Output Conv2DTranspose(const Operand& x, int64_t filters, const Extents& window,
                       const ConvOptions& options = {},
                       SourceLoc loc = CallerLoc());
Output Conv3DTranspose(const Operand& x, int64_t filters, const Extents& window,
                       const ConvOptions& options = {},
                       SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_CONVOLUTIONS_H_
