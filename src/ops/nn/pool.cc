// Pooling over windows of images and volumes, and its gradients.
#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "exec/batching/batch_form.h"
#include "graph/builder.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/nn/pool_window.h"

namespace sluice::pooling {
namespace {

// ---- Shapes -----------------------------------------------------------------

std::vector<int64_t> ListOf(const Tensor& t) {
  return {t.raw<int32_t>(), t.raw<int32_t>() + t.num_elements()};
}

Status MaxPoolShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w,
                          WindowAttrs::Read(c.node(), /*pools_channels=*/true));
  return PooledShape(c, w);
}

Status PoolV2Shape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(WindowAttrs w, WindowAttrs::Read(c.node()));
  const Tensor* ksize = c.constant(1);
  const Tensor* strides = c.constant(2);
  if (ksize == nullptr || strides == nullptr) {
    SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRank(0, 4));
    const int64_t unknown[] = {-1, -1};  // (Channels may be pooled too.)
    c.set_output(0, w.Image(in.dim(0), unknown, -1));
    return OkStatus();
  }
  SLUICE_RETURN_IF_ERROR(w.SetPooling(ListOf(*ksize), ListOf(*strides)));
  return PooledShape(c, w);
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

// The window of a step: from the node or, for ops with a run-time window, from
// the two inputs after the first `others`.
Result<WindowAttrs> WindowIn(const KernelContext& ctx, int others,
                             WindowAttrs w) {
  if (ctx.num_inputs() > others)
    SLUICE_RETURN_IF_ERROR(
        w.SetPooling(ListOf(ctx.input(others)), ListOf(ctx.input(others + 1))));
  return w;
}

// Windows over channels: unlike in windows over pixels, a NaN that comes first
// is chosen, and so is -inf.
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
    SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w, WindowIn(ctx, 1, window));
    const Tensor& in = ctx.input(0);
    SLUICE_ASSIGN_OR_RETURN(const Pooling p, PoolingOf(w, in.shape()));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), p.out));
    if (Empty(p.s, ctx.output(0))) return OkStatus();
    T* largest = ctx.output(0).template raw<T>();
    if (w.channel_window > 1)
      MaxOfChannels(p.s, in.raw<T>(), largest);
    else
      dnn::MaxPool<T>(p.s, in.raw<T>(), largest);
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
    SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w, WindowIn(ctx, 3, window));
    SLUICE_ASSIGN_OR_RETURN(const Pooling p, PoolingOf(w, in.shape()));
    SLUICE_RETURN_IF_ERROR(RequireShape("orig_output", ctx.input(1), p.out));
    SLUICE_RETURN_IF_ERROR(RequireShape("grad", dy, p.out));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), in.shape()));
    if (Empty(p.s, ctx.output(0))) return OkStatus();
    T* dx = ctx.output(0).template raw<T>();
    if constexpr (std::is_floating_point_v<ComputeType<T>>) {
      if (w.spatial == 3) {
        dnn::MaxPoolGradToAll<T>(p.s, in.raw<T>(), ctx.input(1).raw<T>(),
                                 dy.raw<T>(), dx);
        return OkStatus();
      }
    }
    dnn::MaxPoolGrad<T>(p.s, in.raw<T>(), dy.raw<T>(), dx);
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
    SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w, WindowIn(ctx, 3, window));
    SLUICE_ASSIGN_OR_RETURN(const Pooling p, PoolingOf(w, in.shape()));
    SLUICE_RETURN_IF_ERROR(RequireShape("orig_output", ctx.input(1), p.out));
    SLUICE_RETURN_IF_ERROR(RequireShape("grad", ddx, in.shape()));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), p.out));
    if (!Empty(p.s, ctx.output(0)))
      dnn::MaxPoolGradGrad<T>(p.s, in.raw<T>(), ddx.raw<T>(),
                              ctx.output(0).template raw<T>());
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
      dnn::AvgPool<T>(p.s, in.raw<T>(), ctx.output(0).template raw<T>());
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
      dnn::AvgPoolGrad<T>(p.s, dy.raw<T>(), ctx.output(0).template raw<T>());
    return OkStatus();
  }
};

// ---- Gradients --------------------------------------------------------------

// The pooling ops of images, of images with a run-time window, and of volumes.
struct PoolFamily {
  const char *max_grad, *max_grad_grad, *avg, *avg_grad;
};
constexpr PoolFamily kImages = {"MaxPoolGrad", "MaxPoolGradGrad", "AvgPool",
                                "AvgPoolGrad"};
constexpr PoolFamily kSizedImages = {"MaxPoolGradV2", "MaxPoolGradGradV2",
                                     nullptr, nullptr};
constexpr PoolFamily kVolumes = {"MaxPool3DGrad", "MaxPool3DGradGrad",
                                 "AvgPool3D", "AvgPool3DGrad"};

// Appends to `inputs` the run-time window, if c's op has one after the first
// `others` inputs.
std::vector<Output> WithWindow(std::vector<Output> inputs, const GradContext& c,
                               int others) {
  for (int i = others; i < c.op->num_inputs(); ++i)
    inputs.push_back(c.input(i));
  return inputs;
}

template <const PoolFamily& F>
Status MaxPoolGradient(GradContext& c) {
  c.grads[0] =
      Build(F.max_grad, WithWindow({c.input(0), c.output(0), c.dy[0]}, c, 1),
            WindowOf(*c.op));
  return OkStatus();
}

template <const PoolFamily& F>
Status MaxPoolGradGradient(GradContext& c) {
  AttrMap attrs = WindowOf(*c.op);
  attrs.erase("explicit_paddings");
  c.grads[0] = grad::ZerosLike(c.input(0));
  c.grads[1] = grad::ZerosLike(c.input(1));
  c.grads[2] =
      Build(F.max_grad_grad,
            WithWindow({c.input(0), c.input(1), c.dy[0]}, c, 3), attrs);
  return OkStatus();
}

template <const PoolFamily& F>
Status MaxPoolGradGradGradient(GradContext& c) {
  c.grads[0] = grad::ZerosLike(c.input(0));
  c.grads[1] = grad::ZerosLike(c.input(1));
  c.grads[2] =
      Build(F.max_grad, WithWindow({c.input(0), c.input(1), c.dy[0]}, c, 3),
            WindowOf(*c.op));
  return OkStatus();
}

template <const PoolFamily& F>
Status AvgPoolGradient(GradContext& c) {
  c.grads[0] =
      Build(F.avg_grad, {grad::ShapeOf(c.input(0)), c.dy[0]}, WindowOf(*c.op));
  return OkStatus();
}

template <const PoolFamily& F>
Status AvgPoolGradGradient(GradContext& c) {
  c.grads[1] = Build(F.avg, {c.dy[0]}, WindowOf(*c.op));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

constexpr char kExplicitPadding[] = "padding: {'SAME', 'VALID', 'EXPLICIT'}";
constexpr char kPoolFormats[] = "data_format: {'NHWC', 'NCHW'} = 'NHWC'";

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
      .Kind(OpKind::kMaxPool)
      .Shape(MaxPoolShape)
      .Kernel(CpuStateFor<MaxPool, float, double, half, bfloat16, int32_t,
                          int64_t, uint8_t, int16_t, int8_t, uint16_t>(
          "T", /*expensive=*/true))
      .Grad(MaxPoolGradient<kImages>)
      .Sample({{.shape = {2, 5, 5, 2}}}, SampleAttrs())
      .Sample({{.shape = {2, 3, 2, 6}}}, ChannelPoolAttrs())
      .Doc(
          "Max pooling of images: the largest element of each window, or of "
          "each group of channels.");
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
      .Grad(MaxPoolGradient<kSizedImages>)
      .Sample({{.shape = {2, 5, 5, 2}},
               {.shape = {4}, .values = {1, 2, 2, 1}},
               {.shape = {4}, .values = {1, 2, 2, 1}}},
              {{"padding", "SAME"}})
      .Sample({{.shape = {2, 3, 2, 6}},
               {.shape = {4}, .values = {1, 1, 1, 3}},
               {.shape = {4}, .values = {1, 1, 1, 3}}},
              {{"padding", "SAME"}})
      .Doc("MaxPool with the window size given at run time.");
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
              SampleAttrs())
      .Sample({{.shape = {2, 3, 2, 6}},
               {.shape = {2, 3, 2, 2}},
               {.shape = {2, 3, 2, 2}}},
              ChannelPoolAttrs())
      .Doc(
          "The gradient of MaxPool: goes to the first largest element of each "
          "window.");
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
              SampleAttrs())
      .Doc("The second-order gradient of MaxPool.");
  return b;
}

// The gradients of MaxPoolV2.
OpDefBuilder SizedPoolGrad(const char* name, Dims grad) {
  OpDefBuilder b(name);
  b.Input("orig_input: T")
      .Input("orig_output: T")
      .Input("grad: T")
      .Input("ksize: int32")
      .Input("strides: int32")
      .Output("output: T")
      .Attr(kPadding)
      .Attr(kPoolFormats)
      .Attr(kRealTypes)
      .Family("nn")
      .Sample({{.shape = {2, 5, 5, 2}},
               {.shape = {2, 3, 3, 2}},
               {.shape = std::move(grad)},
               {.shape = {4}, .values = {1, 2, 2, 1}},
               {.shape = {4}, .values = {1, 2, 2, 1}}},
              {{"padding", "SAME"}});
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
      .Sample({{.shape = {2, 5, 5, 2}}}, SampleAttrs())
      .Doc("Average pooling of images, excluding padding.");
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
              SampleAttrs())
      .Doc("The gradient of AvgPool.");
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
    SizedPoolGrad("MaxPoolGradV2", {2, 3, 3, 2})
        .Shape(ImageShape)
        .Kernel(CpuStateFor<MaxPoolGrad, float, double, half, bfloat16, int8_t,
                            int16_t, int32_t, int64_t, uint8_t, uint16_t,
                            uint32_t, uint64_t>("T", /*expensive=*/true))
        .Grad(MaxPoolGradGradient<kSizedImages>)
        .Doc("The gradient of MaxPoolV2: goes to the first largest element of "
             "each window."),
    SizedPoolGrad("MaxPoolGradGradV2", {2, 5, 5, 2})
        .Shape(GradGradShape)
        .Kernel(CpuStateFor<MaxPoolGradGrad, float, double, half, bfloat16,
                            int8_t, int16_t, int32_t, int64_t, uint8_t,
                            uint16_t, uint32_t, uint64_t>("T",
                                                          /*expensive=*/true))
        .Grad(MaxPoolGradGradGradient<kSizedImages>)
        .Doc("The second-order gradient of MaxPoolV2."),
    AvgPoolOp(),
    AvgPoolGradOp(),
    VolumePool("MaxPool3D", {"input: T"})
        .Attr("T: {half, bfloat16, float}")
        .Shape(PoolShape)
        .Kernel(CpuStateFor<MaxPool, float, half, bfloat16>("T",
                                                            /*expensive=*/true))
        .Grad(MaxPoolGradient<kVolumes>)
        .Sample({{.shape = {1, 4, 3, 4, 2}}}, VolumePoolAttrs())
        .Doc("Max pooling of volumes."),
    VolumePool("MaxPool3DGrad",
               {"orig_input: TInput", "orig_output: TInput", "grad: T"})
        .Attr("T: {half, bfloat16, float} = DT_FLOAT")
        .Attr("TInput: {half, bfloat16, float} = DT_FLOAT")
        .Shape(ImageShape)
        .Kernel(CpuStateFor<MaxPoolGrad, float, half, bfloat16>(
            "T", /*expensive=*/true))
        .Grad(MaxPoolGradGradient<kVolumes>)
        .Sample({{.shape = {1, 2, 2, 2, 1},
                  .values = {.125, .875, .25, .375, .5, -.5, .75, .625}},
                 {.shape = {1, 1, 2, 1, 1}, .values = {.875, .75}},
                 {.shape = {1, 1, 2, 1, 1}}},
                VolumePoolAttrs())
        .Doc("The gradient of MaxPool3D: goes to all elements within 1e-5 of "
             "the largest one of each window."),
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
        .Doc("Average pooling of volumes, excluding padding."),
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

const BatchFormRegistrar pool_batches[] = {
    {"MaxPool", RowByRow<>},   {"MaxPoolGrad", RowByRow<>},
    {"AvgPool", RowByRow<>},   {"MaxPool3D", RowByRow<>},
    {"AvgPool3D", RowByRow<>}, {"MaxPool3DGrad", RowByRow<>},
};

}  // namespace
}  // namespace sluice::pooling
