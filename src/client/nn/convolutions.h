// Convolutional layers.
//
//   Output h = Conv2D(images, 32, 3, {.padding = Padding::kSame,
//                                     .activation = ops::Relu});
//   h = Conv2D(h, 64, {3, 5}, {.strides = 2});           // "conv2d_1/kernel"
//   Output up = Conv2DTranspose(h, 32, 4, {.strides = 2});
//   h = DepthwiseConv2D(images, 3, {.depth_multiplier = 2});
//   h = SeparableConv2D(h, 64, 3, {.padding = Padding::kSame});
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
  Constraint kernel_constraint = nullptr;  // After each update.
  Constraint bias_constraint = nullptr;
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

struct DepthwiseConvOptions {
  Extents strides = 1;
  Padding padding = Padding::kValid;
  Extents dilations = 1;
  DataFormat format = DataFormat::kChannelsLast;
  int64_t depth_multiplier = 1;  // Results of each channel.
  Activation activation = nullptr;
  bool use_bias = true;
  InitializerFn depthwise_initializer = nullptr;  // The scope's, or Glorot's.
  InitializerFn bias_initializer = init::Zeros();
  Regularizer depthwise_regularizer = nullptr;
  Regularizer bias_regularizer = nullptr;
  Constraint depthwise_constraint = nullptr;  // After each update.
  Constraint bias_constraint = nullptr;
  bool trainable = true;
  std::string name = "";  // "": "depthwise_conv1d", "depthwise_conv2d".
};

// A convolution of each channel by itself, with `depth_multiplier` windows:
// result c * depth_multiplier + i is that of channel c and window i. All
// strides must be the same; strides and dilations other than 1 exclude each
// other. Variables: "depthwise_kernel" [window..., channels, depth_multiplier],
// "bias" [channels * depth_multiplier].
Output DepthwiseConv1D(const Operand& x, const Extents& window,
                       const DepthwiseConvOptions& options = {},
                       SourceLoc loc = CallerLoc());
Output DepthwiseConv2D(const Operand& x, const Extents& window,
                       const DepthwiseConvOptions& options = {},
                       SourceLoc loc = CallerLoc());

struct SeparableConvOptions {
  Extents strides = 1;
  Padding padding = Padding::kValid;
  Extents dilations = 1;
  DataFormat format = DataFormat::kChannelsLast;
  int64_t depth_multiplier = 1;
  Activation activation = nullptr;
  bool use_bias = true;
  InitializerFn depthwise_initializer = nullptr;  // The scope's, or Glorot's.
  InitializerFn pointwise_initializer = nullptr;
  InitializerFn bias_initializer = init::Zeros();
  Regularizer depthwise_regularizer = nullptr;
  Regularizer pointwise_regularizer = nullptr;
  Regularizer bias_regularizer = nullptr;
  Constraint depthwise_constraint = nullptr;  // After each update.
  Constraint pointwise_constraint = nullptr;
  Constraint bias_constraint = nullptr;
  bool trainable = true;
  std::string name = "";  // "": "separable_conv1d", "separable_conv2d".
};

// A depthwise convolution, and then a plain one with windows of one element,
// which mixes the channels; bias and activation follow. Variables:
// "depthwise_kernel" [window..., channels, depth_multiplier],
// "pointwise_kernel" [1..., channels * depth_multiplier, filters], "bias"
// [filters].
Output SeparableConv1D(const Operand& x, int64_t filters, const Extents& window,
                       const SeparableConvOptions& options = {},
                       SourceLoc loc = CallerLoc());
Output SeparableConv2D(const Operand& x, int64_t filters, const Extents& window,
                       const SeparableConvOptions& options = {},
                       SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_CONVOLUTIONS_H_
