#include "ops/nn_window.h"

namespace sluice {
namespace {

using Ints = AttrValue::Ints;

// The entries of a list for height and width. The others must be 1.
Status Spatial(const char* what, std::span<const int64_t> list,
               const WindowAttrs& w, int64_t out[2]) {
  if (list.size() != 4)
    return InvalidArgument(what, ": expected 4 values, got ", list.size());
  const auto at = [&](int d) { return list[static_cast<size_t>(d)]; };
  if (at(0) != 1 || at(w.channel()) != 1)
    return InvalidArgument(what,
                           ": expected 1 for the batch and the channels, got ",
                           at(0), " and ", at(w.channel()));
  out[0] = at(w.height());
  out[1] = at(w.width());
  if (out[0] < 1 || out[1] < 1)
    return InvalidArgument(what, ": expected values > 0, got ", out[0], " and ",
                           out[1]);
  return OkStatus();
}

Status ReadExplicit(std::span<const int64_t> list, WindowAttrs* w) {
  if (w->padding != "EXPLICIT") {
    if (list.empty()) return OkStatus();
    return InvalidArgument("explicit_paddings: expected none with padding '",
                           w->padding, "', got ", list.size());
  }
  if (list.size() != 8)
    return InvalidArgument("explicit_paddings: expected 8 values, got ",
                           list.size());
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
  w->before[0] = at(w->height(), 0);
  w->after[0] = at(w->height(), 1);
  w->before[1] = at(w->width(), 0);
  w->after[1] = at(w->width(), 1);
  return OkStatus();
}

}  // namespace

Result<WindowAttrs> WindowAttrs::Read(const Node& n) {
  WindowAttrs w;
  const std::string format = n.AttrOr<std::string>("data_format", "NHWC");
  if (format == "NCHW")
    w.layout = dnn::Layout::kNchw;
  else if (format != "NHWC")
    return Unimplemented("data_format: expected 'NHWC' or 'NCHW', got '",
                         format, "'");
  w.padding = n.AttrOr<std::string>("padding", "VALID");
  SLUICE_RETURN_IF_ERROR(
      ReadExplicit(n.AttrOr<Ints>("explicit_paddings", {}), &w));
  if (const AttrValue* a = n.FindAttr("strides"); a && a->get<Ints>())
    SLUICE_RETURN_IF_ERROR(Spatial("strides", *a->get<Ints>(), w, w.stride));
  if (const AttrValue* a = n.FindAttr("ksize"); a && a->get<Ints>())
    SLUICE_RETURN_IF_ERROR(Spatial("ksize", *a->get<Ints>(), w, w.window));
  if (const AttrValue* a = n.FindAttr("dilations"); a && a->get<Ints>())
    SLUICE_RETURN_IF_ERROR(
        Spatial("dilations", *a->get<Ints>(), w, w.dilation));
  return w;
}

Status WindowAttrs::SetPooling(std::span<const int64_t> ksize,
                               std::span<const int64_t> strides) {
  SLUICE_RETURN_IF_ERROR(Spatial("ksize", ksize, *this, window));
  return Spatial("strides", strides, *this, stride);
}

Result<int64_t> WindowAttrs::OutputSize(int i, int64_t in,
                                        int64_t window_size) const {
  int64_t b = before[i], a = after[i];
  return WindowOutputSize(in, window_size, dilation[i], stride[i], padding, &b,
                          &a);
}

Result<dnn::WindowDim> WindowAttrs::Resolve(int i, int64_t in,
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

PartialShape WindowAttrs::Image(int64_t batch, int64_t h, int64_t w,
                                int64_t c) const {
  return layout == dnn::Layout::kNhwc ? PartialShape({batch, h, w, c})
                                      : PartialShape({batch, c, h, w});
}

}  // namespace sluice
