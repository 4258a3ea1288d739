// Pooling over windows of images and volumes, and its gradients.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/dnn/pool.h"
#include "ops/grad_util.h"
#include "ops/math_dispatch.h"
#include "ops/nn_window.h"
#include "ops/type_lists.h"

namespace sluice {
namespace {

// ---- Shapes -----------------------------------------------------------------

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

Status MaxPoolShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w,
                          WindowAttrs::Read(c.node(), /*pools_channels=*/true));
  return PooledShape(c, w);
}

std::vector<int64_t> ListOf(const Tensor& t) {
  return {t.data<int32_t>(), t.data<int32_t>() + t.num_elements()};
}

Status PoolV2Shape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(WindowAttrs w, WindowAttrs::Read(c.node()));
  const Tensor* ksize = c.constant(1);
  const Tensor* strides = c.constant(2);
  if (ksize == nullptr || strides == nullptr) {
    SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRank(0, 4));
    const int64_t unknown[] = {-1, -1};  // And the channels may be pooled.
    c.set_output(0, w.Image(in.dim(0), unknown, -1));
    return OkStatus();
  }
  SLUICE_RETURN_IF_ERROR(w.SetPooling(ListOf(*ksize), ListOf(*strides)));
  return PooledShape(c, w);
}

// MaxPoolGrad: the shape of the image. MaxPoolGradGrad: of the pooled one.
Status ImageShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w,
                          WindowAttrs::Read(c.node(), /*pools_channels=*/true));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRank(0, w.rank()));
  c.set_output(0, in);
  return OkStatus();
}

Status GradGradShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w,
                          WindowAttrs::Read(c.node(), /*pools_channels=*/true));
  SLUICE_ASSIGN_OR_RETURN(PartialShape s, c.WithRank(1, w.rank()));
  c.set_output(0, std::move(s));
  return OkStatus();
}

Status ShapeFromSizes(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape s, c.InputAsShape(0));
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w, WindowAttrs::Read(c.node()));
  SLUICE_ASSIGN_OR_RETURN(s, s.MergeWith(PartialShape::OfRank(w.rank())));
  c.set_output(0, std::move(s));
  return OkStatus();
}

// ---- Kernels ----------------------------------------------------------------

// A pooling of an image, and the shape that comes of it.
struct Pooling {
  dnn::PoolGeometry s;
  Shape out;
};

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
  // Each window of channels is a column of one image; side by side are the
  // pixels where all of one channel come first.
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

// Zeros where no window covers anything.
bool Empty(const dnn::PoolGeometry& s, Tensor& out) {
  if (s.batch > 0 && s.channels > 0 && !dnn::AnyEmpty({s.d, s.h, s.w}))
    return false;
  if (out.num_elements() > 0) std::memset(out.raw(), 0, out.bytes());
  return true;
}

// What all pooling kernels keep. Immutable.
struct PoolBase {
  template <typename K>
  static Result<std::shared_ptr<K>> MakeOf(const Node& n,
                                           bool pools_channels = false) {
    auto k = std::make_shared<K>();
    SLUICE_ASSIGN_OR_RETURN(k->window, WindowAttrs::Read(n, pools_channels));
    k->include_batch = n.BoolAttr("include_batch_in_index");
    if (n.FindAttr("TInput") && n.TypeAttr("TInput") != n.TypeAttr("T"))
      return NoKernelFor(n, n.TypeAttr("TInput"));
    return k;
  }
  WindowAttrs window;
  bool include_batch = false;
};

// Windows of channels: unlike in those of pixels, a NaN that comes first wins,
// and -inf counts.
template <typename T>
void MaxOfChannels(const dnn::PoolGeometry& s, const T* in, T* out) {
  const int64_t k = s.h.window, n = s.channels;
  ParallelFor(s.batch, std::max<int64_t>(1, 32768 / (k * n)),
              [&](int64_t begin, int64_t end) {
                for (int64_t o = begin * n; o < end * n; ++o) {
                  const T* window = in + o / n * k * n + o % n;
                  out[o] = window[0];
                  for (int64_t i = 1; i < k; ++i)
                    if (out[o] < window[i * n]) out[o] = window[i * n];
                }
              });
}

template <typename T>
struct MaxPool : PoolBase {
  static auto Make(const Node& n) {
    return MakeOf<MaxPool>(n, /*pools_channels=*/true);
  }
  Status Run(KernelContext& ctx) const {
    WindowAttrs w = window;
    if (ctx.num_inputs() == 3)
      SLUICE_RETURN_IF_ERROR(
          w.SetPooling(ListOf(ctx.input(1)), ListOf(ctx.input(2))));
    const Tensor& in = ctx.input(0);
    SLUICE_ASSIGN_OR_RETURN(const Pooling p, PoolingOf(w, in.shape()));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), p.out));
    if (Empty(p.s, ctx.output(0))) return OkStatus();
    T* largest = ctx.output(0).template data<T>();
    if (w.channel_window > 1)
      MaxOfChannels(p.s, in.data<T>(), largest);
    else
      dnn::MaxPool<T>(p.s, in.data<T>(), largest);
    return OkStatus();
  }
};

template <typename T>
struct MaxPoolGrad : PoolBase {
  static auto Make(const Node& n) {
    return MakeOf<MaxPoolGrad>(n, /*pools_channels=*/true);
  }
  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    const Tensor& dy = ctx.input(2);
    SLUICE_ASSIGN_OR_RETURN(const Pooling p, PoolingOf(window, in.shape()));
    SLUICE_RETURN_IF_ERROR(RequireShape("orig_output", ctx.input(1), p.out));
    SLUICE_RETURN_IF_ERROR(RequireShape("grad", dy, p.out));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), in.shape()));
    if (!Empty(p.s, ctx.output(0)))
      dnn::MaxPoolGrad<T>(p.s, in.data<T>(), dy.data<T>(),
                          ctx.output(0).template data<T>());
    return OkStatus();
  }
};

template <typename T>
struct MaxPoolGradGrad : PoolBase {
  static auto Make(const Node& n) {
    return MakeOf<MaxPoolGradGrad>(n, /*pools_channels=*/true);
  }
  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    const Tensor& ddx = ctx.input(2);
    SLUICE_ASSIGN_OR_RETURN(const Pooling p, PoolingOf(window, in.shape()));
    SLUICE_RETURN_IF_ERROR(RequireShape("orig_output", ctx.input(1), p.out));
    SLUICE_RETURN_IF_ERROR(RequireShape("grad", ddx, in.shape()));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), p.out));
    if (!Empty(p.s, ctx.output(0)))
      dnn::MaxPoolGradGrad<T>(p.s, in.data<T>(), ddx.data<T>(),
                              ctx.output(0).template data<T>());
    return OkStatus();
  }
};

template <typename T>
struct AvgPool : PoolBase {
  static auto Make(const Node& n) { return MakeOf<AvgPool>(n); }
  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    SLUICE_ASSIGN_OR_RETURN(const Pooling p, PoolingOf(window, in.shape()));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), p.out));
    if (!Empty(p.s, ctx.output(0)))
      dnn::AvgPool<T>(p.s, in.data<T>(), ctx.output(0).template data<T>());
    return OkStatus();
  }
};

template <typename T>
struct AvgPoolGrad : PoolBase {
  static auto Make(const Node& n) { return MakeOf<AvgPoolGrad>(n); }
  Status Run(KernelContext& ctx) const {
    const Tensor& sizes = ctx.input(0);
    const Tensor& dy = ctx.input(1);
    if (sizes.rank() != 1 || sizes.dim(0) != window.rank())
      return InvalidArgument("orig_input_shape: expected a vector of ",
                             window.rank(), ", got shape ",
                             sizes.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(const Shape in, Shape::Make(ListOf(sizes)));
    SLUICE_ASSIGN_OR_RETURN(const Pooling p, PoolingOf(window, in));
    SLUICE_RETURN_IF_ERROR(RequireShape("grad", dy, p.out));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), in));
    if (!Empty(p.s, ctx.output(0)))
      dnn::AvgPoolGrad<T>(p.s, dy.data<T>(), ctx.output(0).template data<T>());
    return OkStatus();
  }
};

template <typename T>
struct MaxPoolWithArgmax : PoolBase {
  static auto Make(const Node& n) { return MakeOf<MaxPoolWithArgmax>(n); }
  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    SLUICE_ASSIGN_OR_RETURN(const Pooling p, PoolingOf(window, in.shape()));
    const DType index = ctx.node().output_type(1);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), p.out));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, index, p.out));
    const bool empty = Empty(p.s, ctx.output(0));
    if (empty && Empty(p.s, ctx.output(1))) return OkStatus();
    T* largest = ctx.output(0).template data<T>();
    if (index == DType::kInt32)
      dnn::MaxPoolWithArgmax<T, int32_t>(
          p.s, include_batch, in.data<T>(), largest,
          ctx.output(1).template data<int32_t>());
    else
      dnn::MaxPoolWithArgmax<T, int64_t>(
          p.s, include_batch, in.data<T>(), largest,
          ctx.output(1).template data<int64_t>());
    return OkStatus();
  }
};

template <typename T>
struct MaxPoolGradWithArgmax : PoolBase {
  static auto Make(const Node& n) { return MakeOf<MaxPoolGradWithArgmax>(n); }
  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    const Tensor& dy = ctx.input(1);
    const Tensor& argmax = ctx.input(2);
    SLUICE_ASSIGN_OR_RETURN(const Pooling p, PoolingOf(window, in.shape()));
    SLUICE_RETURN_IF_ERROR(RequireShape("grad", dy, p.out));
    SLUICE_RETURN_IF_ERROR(RequireShape("argmax", argmax, p.out));
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0),
                            Tensor::Zeros(DTypeOf<T>(), in.shape()));
    T* dx = ctx.output(0).template data<T>();
    const int64_t images = include_batch ? 1 : p.s.batch;
    if (images == 0 || dy.num_elements() == 0) return OkStatus();
    const int64_t image = in.num_elements() / images;
    const int64_t per_image = dy.num_elements() / images;
    const T* from = dy.data<T>();
    for (int64_t i = 0; i < dy.num_elements(); ++i) {
      const int64_t at = argmax.dtype() == DType::kInt32
                             ? argmax.data<int32_t>()[i]
                             : argmax.data<int64_t>()[i];
      if (at < 0 || at >= image)
        return InvalidArgument("argmax: expected an index in [0, ", image,
                               "), got ", at);
      T& to = dx[i / per_image * image + at];
      to = static_cast<T>(static_cast<ComputeType<T>>(to) +
                          static_cast<ComputeType<T>>(from[i]));
    }
    return OkStatus();
  }
};

// ---- Gradients --------------------------------------------------------------

AttrMap PoolAttrs(const Node& n) {
  AttrMap attrs;
  for (const char* name :
       {"ksize", "strides", "padding", "explicit_paddings", "data_format"})
    if (const AttrValue* a = n.FindAttr(name)) attrs[name] = *a;
  return attrs;
}

// The ops of images, and of volumes.
struct PoolFamily {
  const char *max_grad, *max_grad_grad, *avg, *avg_grad;
};
constexpr PoolFamily kImages = {"MaxPoolGrad", "MaxPoolGradGrad", "AvgPool",
                                "AvgPoolGrad"};
constexpr PoolFamily kVolumes = {"MaxPool3DGrad", "MaxPool3DGradGrad",
                                 "AvgPool3D", "AvgPool3DGrad"};

template <const PoolFamily& F>
Status MaxPoolGradient(GradContext& c) {
  c.grads[0] =
      Build(F.max_grad, {c.input(0), c.output(0), c.dy[0]}, PoolAttrs(*c.op));
  return OkStatus();
}

Status MaxPoolV2Gradient(GradContext& c) {
  const std::optional<Tensor> ksize = ConstantValue(c.input(1));
  const std::optional<Tensor> strides = ConstantValue(c.input(2));
  if (!ksize.has_value() || !strides.has_value())
    return Unimplemented(
        "gradient of MaxPoolV2: expected a constant ksize and strides");
  AttrMap attrs = PoolAttrs(*c.op);
  attrs["ksize"] = ListOf(*ksize);
  attrs["strides"] = ListOf(*strides);
  c.grads[0] = Build("MaxPoolGrad", {c.input(0), c.output(0), c.dy[0]}, attrs);
  return OkStatus();
}

template <const PoolFamily& F>
Status MaxPoolGradGradient(GradContext& c) {
  AttrMap attrs = PoolAttrs(*c.op);
  attrs.erase("explicit_paddings");
  c.grads[0] = grad::ZerosLike(c.input(0));
  c.grads[1] = grad::ZerosLike(c.input(1));
  c.grads[2] = Build(F.max_grad_grad, {c.input(0), c.input(1), c.dy[0]}, attrs);
  return OkStatus();
}

template <const PoolFamily& F>
Status MaxPoolGradGradGradient(GradContext& c) {
  c.grads[0] = grad::ZerosLike(c.input(0));
  c.grads[1] = grad::ZerosLike(c.input(1));
  c.grads[2] =
      Build(F.max_grad, {c.input(0), c.input(1), c.dy[0]}, PoolAttrs(*c.op));
  return OkStatus();
}

Status MaxPoolWithArgmaxGradient(GradContext& c) {
  AttrMap attrs = PoolAttrs(*c.op);
  attrs["include_batch_in_index"] = c.op->BoolAttr("include_batch_in_index");
  c.grads[0] = Build("MaxPoolGradWithArgmax",
                     {c.input(0), c.dy[0], Output(c.op, 1)}, attrs);
  return OkStatus();
}

// Each element of grad went to the place that argmax names, in its image or in
// the whole batch.
Status MaxPoolGradWithArgmaxGradient(GradContext& c) {
  const Output argmax = c.input(2), axis = Constant(int32_t{0});
  if (c.op->BoolAttr("include_batch_in_index")) {
    c.grads[1] =
        Build("GatherV2",
              {Build("Reshape", {c.dy[0], IntVector({-1})}), argmax, axis});
    return OkStatus();
  }
  const Output batch = Build(
      "StridedSlice",
      {grad::ShapeOf(argmax), IntVector({0}), IntVector({1}), IntVector({1})});
  const Output flat = Build("ConcatV2", {batch, IntVector({-1}), axis});
  c.grads[1] = grad::ReshapeLike(
      Build("GatherV2",
            {Build("Reshape", {c.dy[0], flat}),
             Build("Reshape", {argmax, flat}), Constant(int32_t{1})},
            {{"batch_dims", 1}}),
      argmax);
  return OkStatus();
}

template <const PoolFamily& F>
Status AvgPoolGradient(GradContext& c) {
  c.grads[0] =
      Build(F.avg_grad, {grad::ShapeOf(c.input(0)), c.dy[0]}, PoolAttrs(*c.op));
  return OkStatus();
}

template <const PoolFamily& F>
Status AvgPoolGradGradient(GradContext& c) {
  c.grads[1] = Build(F.avg, {c.dy[0]}, PoolAttrs(*c.op));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

constexpr char kPadding[] = "padding: {'SAME', 'VALID'}";
constexpr char kExplicitPadding[] = "padding: {'SAME', 'VALID', 'EXPLICIT'}";
constexpr char kPoolFormats[] = "data_format: {'NHWC', 'NCHW'} = 'NHWC'";

void AddWindow(OpDefBuilder& b) {
  b.Attr("ksize: list(int) >= 4").Attr("strides: list(int) >= 4").Family("nn");
}

AttrMap PoolSampleAttrs() {
  return {{"ksize", AttrValue::Ints{1, 2, 2, 1}},
          {"strides", AttrValue::Ints{1, 2, 2, 1}},
          {"padding", "SAME"}};
}

AttrMap ChannelPoolAttrs() {
  return {{"ksize", AttrValue::Ints{1, 1, 1, 3}},
          {"strides", AttrValue::Ints{1, 1, 1, 3}},
          {"padding", "VALID"}};
}

OpDefBuilder MaxPoolOp() {
  OpDefBuilder b("MaxPool");
  b.Input("input: T").Output("output: T");
  AddWindow(b);
  b.Attr(kExplicitPadding)
      .Attr("explicit_paddings: list(int) = []")
      .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
      .Attr(
          "T: {half, bfloat16, float, double, int32, int64, uint8, int16, "
          "int8, uint16, qint8} = DT_FLOAT")
      .Shape(MaxPoolShape)
      .Kernel(CpuStateFor<MaxPool, float, double, half, bfloat16, int32_t,
                          int64_t, uint8_t, int16_t, int8_t, uint16_t>(
          "T", /*expensive=*/true))
      .Grad(MaxPoolGradient<kImages>)
      .Sample({{.shape = {2, 5, 5, 2}}}, PoolSampleAttrs())
      .Sample({{.shape = {2, 3, 2, 6}}}, ChannelPoolAttrs())
      .Doc("The largest element of each window of images, or of channels.");
  return b;
}

OpDefBuilder MaxPoolV2Op() {
  OpDefBuilder b("MaxPoolV2");
  b.Input("input: T")
      .Input("ksize: int32")
      .Input("strides: int32")
      .Output("output: T")
      .Attr(
          "T: {half, bfloat16, float, double, int32, int64, uint8, int16, "
          "int8, uint16, qint8} = DT_FLOAT")
      .Attr(kPadding)
      .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
      .Family("nn")
      .Shape(PoolV2Shape)
      .Kernel(CpuStateFor<MaxPool, float, double, half, bfloat16, int32_t,
                          int64_t, uint8_t, int16_t, int8_t, uint16_t>(
          "T", /*expensive=*/true))
      .Grad(MaxPoolV2Gradient)
      .Sample({{.shape = {2, 5, 5, 2}},
               {.shape = {4}, .values = {1, 2, 2, 1}},
               {.shape = {4}, .values = {1, 2, 2, 1}}},
              {{"padding", "SAME"}})
      .Sample({{.shape = {2, 3, 2, 6}},
               {.shape = {4}, .values = {1, 1, 1, 3}},
               {.shape = {4}, .values = {1, 1, 1, 3}}},
              {{"padding", "SAME"}})
      .Doc("MaxPool with the window given at run time.");
  return b;
}

OpDefBuilder MaxPoolGradOp() {
  OpDefBuilder b("MaxPoolGrad");
  b.Input("orig_input: T")
      .Input("orig_output: T")
      .Input("grad: T")
      .Output("output: T");
  AddWindow(b);
  b.Attr(kExplicitPadding)
      .Attr("explicit_paddings: list(int) = []")
      .Attr(kPoolFormats)
      .Attr(
          "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, "
          "uint16, half, uint32, uint64} = DT_FLOAT")
      .Shape(ImageShape)
      .Kernel(CpuStateFor<MaxPoolGrad, float, double, half, bfloat16, int8_t,
                          int16_t, int32_t, int64_t, uint8_t, uint16_t,
                          uint32_t, uint64_t>("T", /*expensive=*/true))
      .Grad(MaxPoolGradGradient<kImages>)
      .Sample({{.shape = {2, 5, 5, 2}},
               {.shape = {2, 3, 3, 2}},
               {.shape = {2, 3, 3, 2}}},
              PoolSampleAttrs())
      .Sample({{.shape = {2, 3, 2, 6}},
               {.shape = {2, 3, 2, 2}},
               {.shape = {2, 3, 2, 2}}},
              ChannelPoolAttrs())
      .Doc("The gradient of MaxPool: to the first largest of each window.");
  return b;
}

OpDefBuilder MaxPoolGradGradOp() {
  OpDefBuilder b("MaxPoolGradGrad");
  b.Input("orig_input: T")
      .Input("orig_output: T")
      .Input("grad: T")
      .Output("output: T");
  AddWindow(b);
  b.Attr(kPadding)
      .Attr(kPoolFormats)
      .Attr(kRealTypes)
      .Shape(GradGradShape)
      .Kernel(CpuStateFor<MaxPoolGradGrad, float, double, half, bfloat16,
                          int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                          uint32_t, uint64_t>("T", /*expensive=*/true))
      .Grad(MaxPoolGradGradGradient<kImages>)
      .Sample({{.shape = {2, 5, 5, 2}},
               {.shape = {2, 3, 3, 2}},
               {.shape = {2, 5, 5, 2}}},
              PoolSampleAttrs())
      .Doc("The second-order gradient of MaxPool.");
  return b;
}

OpDefBuilder AvgPoolOp() {
  OpDefBuilder b("AvgPool");
  b.Input("value: T").Output("output: T");
  AddWindow(b);
  b.Attr(kPadding)
      .Attr(kPoolFormats)
      .Attr("T: {half, bfloat16, float, double}")
      .Shape(PoolShape)
      .Kernel(CpuStateFor<AvgPool, float, double, half, bfloat16>(
          "T", /*expensive=*/true))
      .Grad(AvgPoolGradient<kImages>)
      .Sample({{.shape = {2, 5, 5, 2}}}, PoolSampleAttrs())
      .Doc("The mean of each window of images, padding not counted.");
  return b;
}

OpDefBuilder AvgPoolGradOp() {
  OpDefBuilder b("AvgPoolGrad");
  b.Input("orig_input_shape: int32").Input("grad: T").Output("output: T");
  AddWindow(b);
  b.Attr(kPadding)
      .Attr(kPoolFormats)
      .Attr("T: {half, bfloat16, float, double}")
      .Shape(ShapeFromSizes)
      .Kernel(CpuStateFor<AvgPoolGrad, float, double, half, bfloat16>(
          "T", /*expensive=*/true))
      .Grad(AvgPoolGradGradient<kImages>)
      .Sample({{.shape = {4}, .values = {2, 5, 5, 2}}, {.shape = {2, 3, 3, 2}}},
              PoolSampleAttrs())
      .Doc("The gradient of AvgPool.");
  return b;
}

OpDefBuilder MaxPoolWithArgmaxOp() {
  OpDefBuilder b("MaxPoolWithArgmax");
  b.Input("input: T").Output("output: T").Output("argmax: Targmax");
  AddWindow(b);
  b.Attr("Targmax: {int32, int64} = DT_INT64")
      .Attr(kPadding)
      .Attr("include_batch_in_index: bool = false")
      .Attr(kRealTypes)
      .Shape(PoolShape)
      .Kernel(CpuStateFor<MaxPoolWithArgmax, float, double, half, bfloat16,
                          int32_t, int64_t, uint8_t, int16_t, int8_t, uint16_t,
                          uint32_t, uint64_t>("T", /*expensive=*/true))
      .Grad(MaxPoolWithArgmaxGradient)
      .Sample({{.shape = {2, 5, 5, 2}}}, PoolSampleAttrs())
      .Doc("MaxPool, and where in the image each largest element was.");
  return b;
}

OpDefBuilder MaxPoolGradWithArgmaxOp() {
  OpDefBuilder b("MaxPoolGradWithArgmax");
  b.Input("input: T")
      .Input("grad: T")
      .Input("argmax: Targmax")
      .Output("output: T");
  AddWindow(b);
  b.Attr(kPadding)
      .Attr("include_batch_in_index: bool = false")
      .Attr("Targmax: {int32, int64}")
      .Attr(kRealTypes)
      .Shape(ImageShape)
      .Kernel(CpuStateFor<MaxPoolGradWithArgmax, float, double, half, bfloat16,
                          int32_t, int64_t, uint8_t, int16_t, int8_t, uint16_t,
                          uint32_t, uint64_t>("T", /*expensive=*/true))
      .Grad(MaxPoolGradWithArgmaxGradient)
      .Sample({{.shape = {1, 4, 4, 1}},
               {.shape = {1, 2, 2, 1}},
               {.shape = {1, 2, 2, 1}, .values = {0, 3, 9, 10}}},
              PoolSampleAttrs())
      .Doc("The gradient of MaxPoolWithArgmax.");
  return b;
}

// ---- Volumes ----------------------------------------------------------------

OpDefBuilder VolumePool(const char* name,
                        std::initializer_list<const char*> inputs) {
  OpDefBuilder b(name);
  for (const char* input : inputs) b.Input(input);
  b.Output("output: T")
      .Attr("ksize: list(int) >= 5")
      .Attr("strides: list(int) >= 5")
      .Attr(kPadding)
      .Attr("data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'")
      .Family("nn");
  return b;
}

AttrMap VolumePoolAttrs() {
  return {{"ksize", AttrValue::Ints{1, 2, 2, 2, 1}},
          {"strides", AttrValue::Ints{1, 2, 1, 2, 1}},
          {"padding", "SAME"}};
}

const OpRegistrar kPools[] = {
    MaxPoolOp(),
    MaxPoolV2Op(),
    MaxPoolGradOp(),
    MaxPoolGradGradOp(),
    AvgPoolOp(),
    AvgPoolGradOp(),
    MaxPoolWithArgmaxOp(),
    MaxPoolGradWithArgmaxOp(),
    VolumePool("MaxPool3D", {"input: T"})
        .Attr("T: {half, bfloat16, float}")
        .Shape(PoolShape)
        .Kernel(CpuStateFor<MaxPool, float, half, bfloat16>("T",
                                                            /*expensive=*/true))
        .Grad(MaxPoolGradient<kVolumes>)
        .Sample({{.shape = {1, 4, 3, 4, 2}}}, VolumePoolAttrs())
        .Doc("The largest element of each window of volumes."),
    VolumePool("MaxPool3DGrad",
               {"orig_input: TInput", "orig_output: TInput", "grad: T"})
        .Attr("T: {half, bfloat16, float} = DT_FLOAT")
        .Attr("TInput: {half, bfloat16, float} = DT_FLOAT")
        .Shape(ImageShape)
        .Kernel(CpuStateFor<MaxPoolGrad, float, half, bfloat16>(
            "T", /*expensive=*/true))
        .Grad(MaxPoolGradGradient<kVolumes>)
        .Sample({{.shape = {1, 4, 3, 4, 2}},
                 {.shape = {1, 2, 3, 2, 2}},
                 {.shape = {1, 2, 3, 2, 2}}},
                VolumePoolAttrs())
        .Doc("The gradient of MaxPool3D: to the first largest of each window."),
    VolumePool("MaxPool3DGradGrad",
               {"orig_input: T", "orig_output: T", "grad: T"})
        .Attr(kRealTypes)
        .Shape(GradGradShape)
        .Kernel(CpuStateFor<MaxPoolGradGrad, float, double, half, bfloat16,
                            int8_t, int16_t, int32_t, int64_t, uint8_t,
                            uint16_t, uint32_t, uint64_t>("T",
                                                          /*expensive=*/true))
        .Grad(MaxPoolGradGradGradient<kVolumes>)
        .Sample({{.shape = {1, 4, 3, 4, 2}},
                 {.shape = {1, 2, 3, 2, 2}},
                 {.shape = {1, 4, 3, 4, 2}}},
                VolumePoolAttrs())
        .Doc("The second-order gradient of MaxPool3D."),
    VolumePool("AvgPool3D", {"input: T"})
        .Attr("T: {half, bfloat16, float, double}")
        .Shape(PoolShape)
        .Kernel(CpuStateFor<AvgPool, float, double, half, bfloat16>(
            "T", /*expensive=*/true))
        .Grad(AvgPoolGradient<kVolumes>)
        .Sample({{.shape = {1, 4, 3, 4, 2}}}, VolumePoolAttrs())
        .Doc("The mean of each window of volumes, padding not counted."),
    VolumePool("AvgPool3DGrad", {"orig_input_shape: int32", "grad: T"})
        .Attr("T: {half, bfloat16, float, double}")
        .Shape(ShapeFromSizes)
        .Kernel(CpuStateFor<AvgPoolGrad, float, double, half, bfloat16>(
            "T", /*expensive=*/true))
        .Grad(AvgPoolGradGradient<kVolumes>)
        .Sample({{.shape = {5}, .values = {1, 4, 3, 4, 2}},
                 {.shape = {1, 2, 3, 2, 2}}},
                VolumePoolAttrs())
        .Doc("The gradient of AvgPool3D."),
};

}  // namespace
}  // namespace sluice
