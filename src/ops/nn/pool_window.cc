#include "ops/nn/pool_window.h"

#include <cstring>

namespace sluice::pooling {

void AddWindow(OpDefBuilder& b) {
  b.Attr("ksize: list(int) >= 4").Attr("strides: list(int) >= 4").Family("nn");
}

AttrMap SampleAttrs() {
  return {{"ksize", AttrValue::Ints{1, 2, 2, 1}},
          {"strides", AttrValue::Ints{1, 2, 2, 1}},
          {"padding", "SAME"}};
}

AttrMap WindowOf(const Node& n) {
  AttrMap attrs;
  for (const char* name :
       {"ksize", "strides", "padding", "explicit_paddings", "data_format"})
    if (const AttrValue* a = n.FindAttr(name)) attrs[name] = *a;
  return attrs;
}

Status PooledShape(ShapeContext& c, const WindowAttrs& w) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRank(0, w.rank()));
  SLUICE_ASSIGN_OR_RETURN(const int64_t channels,
                          w.PooledChannels(in.dim(w.channel())));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape out,
                          w.OutputShape(in, w.window, channels));
  c.set_all_outputs(out);
  return OkStatus();
}

Status PoolShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w, WindowAttrs::Read(c.node()));
  return PooledShape(c, w);
}

Status ImageShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w,
                          WindowAttrs::Read(c.node(), /*pools_channels=*/true));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRank(0, w.rank()));
  c.set_output(0, in);
  return OkStatus();
}

Result<Pooling> PoolingOf(const WindowAttrs& w, const Shape& image) {
  if (image.rank() != w.rank())
    return InvalidArgument("pooling: expected an image of rank ", w.rank(),
                           ", got shape ", image.ToString());
  Pooling p;
  p.s.layout = w.layout;
  p.s.batch = image.dim(0);
  p.s.channels = image.dim(w.channel());
  SLUICE_RETURN_IF_ERROR(w.Resolve(image, w.window, &p.s));
  SLUICE_RETURN_IF_ERROR(Validate(p.s));
  SLUICE_ASSIGN_OR_RETURN(const int64_t channels,
                          w.PooledChannels(p.s.channels));
  SLUICE_ASSIGN_OR_RETURN(p.out, w.OutputOf(p.s, channels));
  if (w.channel_window == 1 || image.num_elements() == 0) return p;
  // Each window of channels becomes a column of an image; with channels first,
  // the pixels become its channels.
  const int64_t k = w.channel_window;
  const bool first = w.layout == dnn::Layout::kNchw;
  const int64_t pixels = p.s.in_pixels();
  p.s = {.batch = p.s.batch * channels * (first ? 1 : pixels),
         .channels = first ? pixels : 1,
         .h = {.in = k, .window = k, .stride = k},
         .w = {.in = 1}};
  return p;
}

Status RequireShape(const char* what, const Tensor& t, const Shape& expected) {
  if (t.shape() == expected) return OkStatus();
  return InvalidArgument(what, ": expected shape ", expected.ToString(),
                         ", got ", t.shape().ToString());
}

bool Empty(const dnn::PoolGeometry& s, Tensor& out) {
  if (s.batch > 0 && s.channels > 0 && !dnn::AnyEmpty({s.d, s.h, s.w}))
    return false;
  if (out.num_elements() > 0) std::memset(out.raw(), 0, out.bytes());
  return true;
}

}  // namespace sluice::pooling
