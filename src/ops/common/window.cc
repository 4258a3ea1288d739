#include "ops/common/window.h"

#include <utility>
#include <vector>

namespace sluice {
namespace {

using Ints = AttrValue::Ints;

// The list entries for the spatial dimensions. The others must be 1, except
// that of the channels if requested.
Status Spatial(const char* what, std::span<const int64_t> list,
               const WindowAttrs& w, int64_t out[3],
               int64_t* of_channels = nullptr) {
  if (list.size() != static_cast<size_t>(w.rank()))
    return InvalidArgument(what, ": expected ", w.rank(), " values, got ",
                           list.size());
  const auto at = [&](int d) { return list[static_cast<size_t>(d)]; };
  if (of_channels != nullptr) *of_channels = at(w.channel());
  if (at(0) != 1 || (of_channels == nullptr && at(w.channel()) != 1))
    return InvalidArgument(what,
                           ": expected 1 for the batch and the channels, got ",
                           at(0), " and ", at(w.channel()));
  for (int i = 0; i < w.spatial; ++i) {
    out[i] = at(w.position(i));
    if (out[i] < 1)
      return InvalidArgument(what, ": expected values > 0, got ", out[i]);
  }
  return OkStatus();
}

Status ReadExplicit(std::span<const int64_t> list, WindowAttrs* w) {
  if (w->padding != "EXPLICIT") {
    if (list.empty()) return OkStatus();
    return InvalidArgument("explicit_paddings: expected none with padding '",
                           w->padding, "', got ", list.size());
  }
  if (list.size() != 2 * static_cast<size_t>(w->rank()))
    return InvalidArgument("explicit_paddings: expected ", 2 * w->rank(),
                           " values, got ", list.size());
  const auto at = [&](int d, int side) {
    return list[static_cast<size_t>(2 * d + side)];
  };
  for (int64_t p : list)
    if (p < 0)
      return InvalidArgument("explicit_paddings: expected values >= 0, got ",
                             p);
  if (at(0, 0) + at(0, 1) + at(w->channel(), 0) + at(w->channel(), 1) != 0)
    return InvalidArgument(
        "explicit_paddings: expected 0 for the batch and the channels");
  for (int i = 0; i < w->spatial; ++i) {
    w->before[i] = at(w->position(i), 0);
    w->after[i] = at(w->position(i), 1);
  }
  return OkStatus();
}

}  // namespace

Result<WindowAttrs> WindowAttrs::Read(const Node& n, bool pools_channels) {
  WindowAttrs w;
  int64_t channel_stride = 1;
  const AttrValue* strides = n.FindAttr("strides");
  const bool volumes =
      strides && strides->get<Ints>() && strides->get<Ints>()->size() == 5;
  const std::string format =
      n.AttrOr<std::string>("data_format", volumes ? "NDHWC" : "NHWC");
  if (format == "NCHW" || format == "NCDHW")
    w.layout = dnn::Layout::kNchw;
  else if (format != "NHWC" && format != "NDHWC")
    return Unimplemented(
        "data_format: expected 'NHWC', 'NCHW', 'NDHWC' or 'NCDHW', got '",
        format, "'");
  w.spatial = static_cast<int>(format.size()) - 2;
  w.padding = n.AttrOr<std::string>("padding", "VALID");
  SLUICE_RETURN_IF_ERROR(
      ReadExplicit(n.AttrOr<Ints>("explicit_paddings", {}), &w));
  if (strides && strides->get<Ints>())
    SLUICE_RETURN_IF_ERROR(Spatial("strides", *strides->get<Ints>(), w,
                                   w.stride,
                                   pools_channels ? &channel_stride : nullptr));
  for (const char* name : {"ksize", "ksizes"})  // Pools, patches.
    if (const AttrValue* a = n.FindAttr(name); a && a->get<Ints>())
      SLUICE_RETURN_IF_ERROR(
          Spatial(name, *a->get<Ints>(), w, w.window,
                  pools_channels ? &w.channel_window : nullptr));
  for (const char* name : {"dilations", "rates"})  // Convolution, Dilation2D.
    if (const AttrValue* a = n.FindAttr(name); a && a->get<Ints>())
      SLUICE_RETURN_IF_ERROR(Spatial(name, *a->get<Ints>(), w, w.dilation));
  SLUICE_RETURN_IF_ERROR(w.SetChannelStride(channel_stride));
  return w;
}

Status WindowAttrs::SetPooling(std::span<const int64_t> ksize,
                               std::span<const int64_t> strides) {
  int64_t channel_stride = 1;
  SLUICE_RETURN_IF_ERROR(
      Spatial("ksize", ksize, *this, window, &channel_window));
  SLUICE_RETURN_IF_ERROR(
      Spatial("strides", strides, *this, stride, &channel_stride));
  return SetChannelStride(channel_stride);
}

// As in TensorFlow: adjacent windows, only for images, and not combined with
// windows over pixels, whose strides are ignored then. (A stride without a
// window is ignored too.)
Status WindowAttrs::SetChannelStride(int64_t channel_stride) {
  if (channel_window == 1 && (channel_stride == 1 || spatial == 2))
    return OkStatus();
  if (channel_window < 1 || channel_stride != channel_window || spatial != 2)
    return InvalidArgument(
        "ksize: expected 1 for the channels, or of images their stride, got ",
        channel_window, " with a stride of ", channel_stride);
  for (int i = 0; i < spatial; ++i) {
    if (window[i] != 1 || before[i] + after[i] != 0)
      return InvalidArgument(
          "ksize: expected windows over the channels or over the pixels, got "
          "both");
    stride[i] = 1;
  }
  return OkStatus();
}

Result<int64_t> WindowAttrs::PooledChannels(int64_t c) const {
  if (c < 0 || c % channel_window == 0) return c < 0 ? c : c / channel_window;
  return InvalidArgument("channels: expected a multiple of the window of ",
                         channel_window, ", got ", c);
}

Result<int64_t> WindowAttrs::OutputSize(int i, int64_t in,
                                        int64_t window_size) const {
  int64_t b = before[i], a = after[i];
  return WindowOutputSize(in, window_size, dilation[i], stride[i], padding, &b,
                          &a);
}

Result<dnn::WindowDim> WindowAttrs::ResolveDim(int i, int64_t in,
                                               int64_t window_size) const {
  dnn::WindowDim d;
  d.in = in;
  d.window = window_size;
  d.stride = stride[i];
  d.dilation = dilation[i];
  d.pad_before = before[i];
  d.pad_after = after[i];
  SLUICE_RETURN_IF_ERROR(WindowOutputSize(in, window_size, dilation[i],
                                          stride[i], padding, &d.pad_before,
                                          &d.pad_after)
                             .status());
  return d;
}

Result<PartialShape> WindowAttrs::OutputShape(const PartialShape& image,
                                              std::span<const int64_t> sizes,
                                              int64_t c) const {
  int64_t out[3];
  for (int i = 0; i < spatial; ++i) {
    SLUICE_ASSIGN_OR_RETURN(out[i], OutputSize(i, image.dim(position(i)),
                                               sizes[static_cast<size_t>(i)]));
  }
  return Image(image.dim(0), {out, static_cast<size_t>(spatial)}, c);
}

PartialShape WindowAttrs::Image(int64_t batch, std::span<const int64_t> extents,
                                int64_t c) const {
  std::vector<int64_t> dims{batch};
  dims.insert(dims.end(), extents.begin(), extents.end());
  dims.insert(layout == dnn::Layout::kNhwc ? dims.end() : dims.begin() + 1, c);
  return PartialShape(std::span<const int64_t>(dims));
}

}  // namespace sluice
