#include "client/nn/pooling.h"

#include "client/nn/layer_scope.h"
#include "client/nn/windows.h"
#include "client/operators.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

Output Pool(bool max, const Operand& input, const Extents& extents,
            const PoolingOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const char* const layer = max ? "MaxPooling" : "AveragePooling";
  Output x = LayerInput(layer, input, 3, 5);
  if (!x.valid()) return x;
  const int n = x.shape().rank() - 2;
  std::vector<int64_t> window = EachOf(layer, "window sizes", extents, n);
  if (window.empty()) return CurrentGraph().Failure();
  std::vector<int64_t> strides =
      options.strides.sizes.empty()
          ? window
          : EachOf(layer, "strides", options.strides, n);
  if (strides.empty()) return CurrentGraph().Failure();
  const NameScope scope(max ? "max_pooling" : "average_pooling");
  const int row = FirstSpatialAxis(options.format);
  if (n == 1) {  // An image with one row.
    x = ops::ExpandDims(x, row);
    window.insert(window.begin(), 1);
    strides.insert(strides.begin(), 1);
  }
  const std::vector<int64_t> size =
      WithBatchAndChannels(window, options.format);
  const std::vector<int64_t> step =
      WithBatchAndChannels(strides, options.format);
  const char* const padding = PaddingName(options.padding);
  const std::string format = FormatName(options.format, n == 3 ? 3 : 2);
  Output y;
  if (n == 3)
    y = max ? ops::MaxPool3D(x, size, step, padding, {.data_format = format})
            : ops::AvgPool3D(x, size, step, padding, {.data_format = format});
  else
    y = max ? ops::MaxPool(x, size, step, padding, {.data_format = format})
            : ops::AvgPool(x, size, step, padding, {.data_format = format});
  return n == 1 ? ops::Squeeze(y, {.squeeze_dims = {row}}) : y;
}

Output PoolAll(bool max, const Operand& input, DataFormat format,
               SourceLoc loc) {
  const AtLine at(loc);
  const Output x = LayerInput(max ? "GlobalMaxPooling" : "GlobalAveragePooling",
                              input, 3, 5);
  if (!x.valid()) return x;
  std::vector<int32_t> axes;
  for (int i = 0; i < x.shape().rank() - 2; ++i)
    axes.push_back(FirstSpatialAxis(format) + i);
  const NameScope scope(max ? "global_max_pooling" : "global_average_pooling");
  return max ? ops::Max(x, IntVector(axes)) : ops::Mean(x, IntVector(axes));
}

}  // namespace

Output MaxPooling(const Operand& x, const Extents& window,
                  const PoolingOptions& options, SourceLoc loc) {
  return Pool(true, x, window, options, loc);
}
Output AveragePooling(const Operand& x, const Extents& window,
                      const PoolingOptions& options, SourceLoc loc) {
  return Pool(false, x, window, options, loc);
}
Output GlobalMaxPooling(const Operand& x, DataFormat format, SourceLoc loc) {
  return PoolAll(true, x, format, loc);
}
Output GlobalAveragePooling(const Operand& x, DataFormat format,
                            SourceLoc loc) {
  return PoolAll(false, x, format, loc);
}

}  // namespace sluice
