#include "client/nn/convolutions.h"

#include <algorithm>

#include "client/nn/layer_scope.h"
#include "client/nn/windows.h"
#include "client/operators.h"
#include "client/types_and_shapes.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {

std::vector<int64_t> EachOf(const char* layer, const char* what,
                            const Extents& e, int n) {
  std::vector<int64_t> sizes = e.sizes;
  if (sizes.size() == 1) sizes.resize(static_cast<size_t>(n), sizes[0]);
  if (sizes.size() != static_cast<size_t>(n)) {
    BuildError(InvalidArgument(layer, ": expected 1 or ", n, " ", what,
                               ", got ", sizes.size()));
    return {};
  }
  for (const int64_t size : sizes)
    if (!PositiveSize(layer, what, size)) return {};
  return sizes;
}

std::vector<int64_t> WithBatchAndChannels(std::vector<int64_t> spatial,
                                          DataFormat format) {
  const bool first = format == DataFormat::kChannelsFirst;
  spatial.insert(spatial.begin(), first ? 2 : 1, 1);
  if (!first) spatial.push_back(1);
  return spatial;
}

std::string FormatName(DataFormat format, int n) {
  const std::string spatial = n == 3 ? "DHW" : n == 2 ? "HW" : "W";
  return format == DataFormat::kChannelsFirst ? "NC" + spatial
                                              : "N" + spatial + "C";
}

const char* PaddingName(Padding padding) {
  return padding == Padding::kSame ? "SAME" : "VALID";
}

namespace {

// A convolution over n spatial dimensions: its input and options, checked.
struct Convolution {
  const char* layer;
  int n;
  int64_t filters;
  ConvOptions options;
  Output x = {};
  int64_t channels = 0;
  std::vector<int64_t> window = {}, strides = {}, dilations = {};

  bool Check(const Operand& input, const Extents& extents) {
    x = LayerInput(layer, input, n + 2, n + 2);
    if (!x.valid() || !PositiveSize(layer, "filters", filters)) return false;
    channels = KnownSize(layer, x, ChannelAxis(options.format));
    window = EachOf(layer, "window sizes", extents, n);
    strides = EachOf(layer, "strides", options.strides, n);
    dilations = EachOf(layer, "dilations", options.dilations, n);
    if (channels < 0 || window.empty() || strides.empty() || dilations.empty())
      return false;
    const auto more = [](int64_t v) { return v > 1; };
    if (std::any_of(strides.begin(), strides.end(), more) &&
        std::any_of(dilations.begin(), dilations.end(), more)) {
      BuildError(InvalidArgument(
          layer, ": expected strides or dilations of 1, got more of both"));
      return false;
    }
    return true;
  }

  // The kernel; null after an error.
  Output Kernel(int64_t second_last, int64_t last) const {
    std::vector<int64_t> shape = window;
    shape.push_back(second_last);
    shape.push_back(last);
    Result<Shape> made = Shape::Make(shape);
    if (!made.ok()) return BuildError(Annotate(made.status(), layer));
    const Var kernel =
        Weight("kernel", *made, RemoveRef(x.dtype()),
               {options.kernel_initializer, options.kernel_regularizer,
                options.trainable, options.kernel_constraint});
    return kernel.valid() ? kernel.Read({}) : CurrentGraph().Failure();
  }

  // Bias, and the activation if it takes an output of another rank: an op.
  Output Finish(Output y, bool same_rank = true) const {
    if (options.use_bias) {
      const Var bias =
          Weight("bias", {filters}, RemoveRef(x.dtype()),
                 {options.bias_initializer, options.bias_regularizer,
                  options.trainable, options.bias_constraint});
      if (!bias.valid()) return CurrentGraph().Failure();
      const bool first = options.format == DataFormat::kChannelsFirst;
      if (first && n == 3)
        y = y +
            ops::Reshape(bias, {filters, int64_t{1}, int64_t{1}, int64_t{1}});
      else
        y = ops::BiasAdd(y, bias, {.data_format = first ? "NCHW" : "NHWC"});
    }
    return same_rank || options.activation.is_op()
               ? options.activation.OrIdentity(y)
               : y;
  }

  std::vector<int64_t> Wide(const std::vector<int64_t>& spatial) const {
    return WithBatchAndChannels(spatial, options.format);
  }
};

Output Convolve2D(const Convolution& c, const Output& x, const Output& kernel,
                  const std::vector<int64_t>& strides,
                  const std::vector<int64_t>& dilations) {
  return c.Finish(
      ops::Conv2D(x, kernel, c.Wide(strides), PaddingName(c.options.padding),
                  {.data_format = FormatName(c.options.format, 2),
                   .dilations = c.Wide(dilations)}),
      /*same_rank=*/c.n == 2);
}

// The sizes of the result of a transposed convolution, for its input's.
Output TransposedShape(const Convolution& c) {
  const int at = FirstSpatialAxis(c.options.format);
  std::vector<Operand> parts(static_cast<size_t>(c.n + 2), Operand(0));
  const auto set = [&](int i, const Operand& size) {
    parts[static_cast<size_t>(i)] = size;
  };
  set(0, DimOf(c.x, 0, {}));
  set(at == 2 ? 1 : c.n + 1, static_cast<int32_t>(c.filters));
  for (int i = 0; i < c.n; ++i) {
    const auto k = static_cast<size_t>(i);
    const int64_t more = c.options.padding == Padding::kValid
                             ? std::max(c.window[k] - c.strides[k], int64_t{0})
                             : 0;
    set(at + i, DimOf(c.x, at + i, {}) * static_cast<int32_t>(c.strides[k]) +
                    static_cast<int32_t>(more));
  }
  return ops::Pack(parts);
}

Output Transposed(int n, const Operand& x, int64_t filters,
                  const Extents& window, const ConvOptions& options,
                  SourceLoc loc) {
  const AtLine at(loc);
  const char* const layer = n == 2 ? "Conv2DTranspose" : "Conv3DTranspose";
  Convolution c = {
      .layer = layer, .n = n, .filters = filters, .options = options};
  if (!c.Check(x, window)) return CurrentGraph().Failure();
  for (const int64_t d : c.dilations)
    if (d != 1)
      return BuildError(
          InvalidArgument(layer, ": expected no dilations, got ", d));
  const LayerScope scope(options.name,
                         n == 2 ? "conv2d_transpose" : "conv3d_transpose", loc);
  const Output kernel = c.Kernel(filters, c.channels);
  if (!kernel.valid()) return kernel;
  const std::string format = FormatName(options.format, n);
  const char* const padding = PaddingName(options.padding);
  const Output shape = TransposedShape(c);
  Output y =
      n == 2 ? ops::Conv2DBackpropInput(shape, kernel, c.x, c.Wide(c.strides),
                                        padding, {.data_format = format})
             : ops::Conv3DBackpropInputV2(shape, kernel, c.x, c.Wide(c.strides),
                                          padding, {.data_format = format});
  return c.Finish(y);
}

// What depthwise convolutions share with plain ones.
template <typename Options>
ConvOptions PlainOptions(const Options& o) {
  return {.strides = o.strides,
          .padding = o.padding,
          .dilations = o.dilations,
          .format = o.format,
          .activation = o.activation,
          .use_bias = o.use_bias,
          .bias_initializer = o.bias_initializer,
          .bias_regularizer = o.bias_regularizer,
          .bias_constraint = o.bias_constraint,
          .trainable = o.trainable};
}

// The kernel of one step, as a variable of rank n + 2; with a dimension of 1 in
// front for n = 1, where the input is an image with one row.
Output KernelOf(const Convolution& c, const char* name,
                const std::vector<int64_t>& spatial, int64_t in, int64_t out,
                const WeightOptions& options) {
  std::vector<int64_t> dims = spatial;
  dims.push_back(in);
  dims.push_back(out);
  Result<Shape> shape = Shape::Make(dims);
  if (!shape.ok()) return BuildError(Annotate(shape.status(), c.layer));
  const Var kernel = Weight(name, *shape, RemoveRef(c.x.dtype()), options);
  if (!kernel.valid()) return CurrentGraph().Failure();
  const Output value = kernel.Read({});
  return c.n == 1 ? ops::ExpandDims(value, 0) : value;
}

// A depthwise convolution, a pointwise one if it has `pointwise_options`, bias
// and activation.
template <typename Options>
Output Depthwise(Convolution c, const Operand& x, const Extents& window,
                 const Options& o, const WeightOptions* pointwise_options,
                 const char* preset, SourceLoc loc) {
  if (!c.Check(x, window) ||
      !PositiveSize(c.layer, "depth_multiplier", o.depth_multiplier))
    return CurrentGraph().Failure();
  for (const int64_t s : c.strides)
    if (s != c.strides[0])
      return BuildError(InvalidArgument(c.layer,
                                        ": expected strides that are the same, "
                                        "got ",
                                        c.strides[0], " and ", s));
  const int64_t deep = MultiplyOrNegative(c.channels, o.depth_multiplier);
  if (!PositiveSize(c.layer, "channels * depth_multiplier", deep))
    return CurrentGraph().Failure();
  const LayerScope scope(o.name, preset, loc);
  const Output depthwise =
      KernelOf(c, "depthwise_kernel", c.window, c.channels, o.depth_multiplier,
               {o.depthwise_initializer, o.depthwise_regularizer, o.trainable,
                o.depthwise_constraint});
  if (!depthwise.valid()) return depthwise;
  Output pointwise;
  if (pointwise_options != nullptr) {
    const std::vector<int64_t> one(static_cast<size_t>(c.n), 1);
    pointwise = KernelOf(c, "pointwise_kernel", one, deep, c.filters,
                         *pointwise_options);
    if (!pointwise.valid()) return pointwise;
  } else {
    c.filters = deep;
  }
  const int row = FirstSpatialAxis(o.format);
  std::vector<int64_t> strides = c.strides, dilations = c.dilations;
  Output y = c.x;
  if (c.n == 1) {
    y = ops::ExpandDims(y, row);
    strides.push_back(strides[0]);
    dilations.insert(dilations.begin(), 1);
  }
  const std::string format = FormatName(o.format, 2);
  y = ops::DepthwiseConv2dNative(
      y, depthwise, c.Wide(strides), PaddingName(o.padding),
      {.data_format = format, .dilations = c.Wide(dilations)});
  if (pointwise.valid())
    y = ops::Conv2D(y, pointwise, {1, 1, 1, 1}, "VALID",
                    {.data_format = format});
  y = c.Finish(y, /*same_rank=*/c.n == 2);
  if (c.n == 2) return y;
  y = ops::Squeeze(y, {.squeeze_dims = {row}});
  return o.activation.is_op() ? y : o.activation.OrIdentity(y);
}

Output Separable(int n, const Operand& x, int64_t filters,
                 const Extents& window, const SeparableConvOptions& o,
                 SourceLoc loc) {
  const AtLine at(loc);
  const WeightOptions pointwise = {o.pointwise_initializer,
                                   o.pointwise_regularizer, o.trainable,
                                   o.pointwise_constraint};
  return Depthwise({.layer = n == 1 ? "SeparableConv1D" : "SeparableConv2D",
                    .n = n,
                    .filters = filters,
                    .options = PlainOptions(o)},
                   x, window, o, &pointwise,
                   n == 1 ? "separable_conv1d" : "separable_conv2d", loc);
}

Output DepthwiseAlone(int n, const Operand& x, const Extents& window,
                      const DepthwiseConvOptions& o, SourceLoc loc) {
  const AtLine at(loc);
  return Depthwise({.layer = n == 1 ? "DepthwiseConv1D" : "DepthwiseConv2D",
                    .n = n,
                    .filters = 1,  // Until the channels are known.
                    .options = PlainOptions(o)},
                   x, window, o, nullptr,
                   n == 1 ? "depthwise_conv1d" : "depthwise_conv2d", loc);
}

}  // namespace

Output Conv1D(const Operand& x, int64_t filters, const Extents& window,
              const ConvOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  Convolution c = {
      .layer = "Conv1D", .n = 1, .filters = filters, .options = options};
  if (!c.Check(x, window)) return CurrentGraph().Failure();
  const LayerScope scope(options.name, "conv1d", loc);
  const Output kernel = c.Kernel(c.channels, filters);
  if (!kernel.valid()) return kernel;
  // An image with one row.
  const int row = FirstSpatialAxis(options.format);
  const Output y = ops::Squeeze(
      Convolve2D(c, ops::ExpandDims(c.x, row), ops::ExpandDims(kernel, 0),
                 {1, c.strides[0]}, {1, c.dilations[0]}),
      {.squeeze_dims = {row}});
  return options.activation.is_op() ? y : options.activation.OrIdentity(y);
}

Output Conv2D(const Operand& x, int64_t filters, const Extents& window,
              const ConvOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  Convolution c = {
      .layer = "Conv2D", .n = 2, .filters = filters, .options = options};
  if (!c.Check(x, window)) return CurrentGraph().Failure();
  const LayerScope scope(options.name, "conv2d", loc);
  const Output kernel = c.Kernel(c.channels, filters);
  if (!kernel.valid()) return kernel;
  return Convolve2D(c, c.x, kernel, c.strides, c.dilations);
}

Output Conv3D(const Operand& x, int64_t filters, const Extents& window,
              const ConvOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  Convolution c = {
      .layer = "Conv3D", .n = 3, .filters = filters, .options = options};
  if (!c.Check(x, window)) return CurrentGraph().Failure();
  const LayerScope scope(options.name, "conv3d", loc);
  const Output kernel = c.Kernel(c.channels, filters);
  if (!kernel.valid()) return kernel;
  return c.Finish(ops::Conv3D(c.x, kernel, c.Wide(c.strides),
                              PaddingName(options.padding),
                              {.data_format = FormatName(options.format, 3),
                               .dilations = c.Wide(c.dilations)}));
}

Output Conv2DTranspose(const Operand& x, int64_t filters, const Extents& window,
                       const ConvOptions& options, SourceLoc loc) {
  return Transposed(2, x, filters, window, options, loc);
}

Output Conv3DTranspose(const Operand& x, int64_t filters, const Extents& window,
                       const ConvOptions& options, SourceLoc loc) {
  return Transposed(3, x, filters, window, options, loc);
}

Output DepthwiseConv1D(const Operand& x, const Extents& window,
                       const DepthwiseConvOptions& options, SourceLoc loc) {
  return DepthwiseAlone(1, x, window, options, loc);
}

Output DepthwiseConv2D(const Operand& x, const Extents& window,
                       const DepthwiseConvOptions& options, SourceLoc loc) {
  return DepthwiseAlone(2, x, window, options, loc);
}

Output SeparableConv1D(const Operand& x, int64_t filters, const Extents& window,
                       const SeparableConvOptions& options, SourceLoc loc) {
  return Separable(1, x, filters, window, options, loc);
}

Output SeparableConv2D(const Operand& x, int64_t filters, const Extents& window,
                       const SeparableConvOptions& options, SourceLoc loc) {
  return Separable(2, x, filters, window, options, loc);
}

}  // namespace sluice
