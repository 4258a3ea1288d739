// Activation functions of neural networks and their gradients. Sigmoid and Tanh
// are in ops/math/exp.cc, the softmaxes in softmax.cc.
#include <type_traits>

#include "exec/fusion/block_form.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/math/elementwise.h"

namespace sluice {
namespace {

using grad::Add;
using grad::Div;
using grad::Mul;
using grad::Number;
using simd::BinaryOp;
using simd::UnaryOp;

constexpr char kReluTypes[] =
    "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, "
    "half, uint32, uint64, qint8}";

// ---- Functions --------------------------------------------------------------

// dx by the fused gradient op `Op`, of (dy, y) or of (dy, x).
template <const char* Op>
Status FromOutput(GradContext& c) {
  c.grads[0] = Build(Op, {c.dy[0], c.output(0)});
  return OkStatus();
}
template <const char* Op>
Status FromInput(GradContext& c) {
  c.grads[0] = Build(Op, {c.dy[0], c.input(0)});
  return OkStatus();
}
constexpr char kReluGrad[] = "ReluGrad";
constexpr char kRelu6Grad[] = "Relu6Grad";
constexpr char kEluGrad[] = "EluGrad";
constexpr char kSeluGrad[] = "SeluGrad";
constexpr char kSoftplusGrad[] = "SoftplusGrad";
constexpr char kSoftsignGrad[] = "SoftsignGrad";

OpDefBuilder Activation(const char* name, const char* types, UnaryOp op,
                        GradFn gradient, const char* doc) {
  OpDefBuilder b(name);
  b.Input("features: T")
      .Output("activations: T")
      .Attr(types)
      .Family("nn")
      .Shape(UnchangedShape)
      .Kernel(MakeUnary(op))
      .Grad(gradient)
      .Sample({{.shape = {2, 3}, .low = -3, .high = 3}})
      .Sample({{.low = -3, .high = 3}})
      .Doc(doc);
  return b;
}

const OpRegistrar kActivations[] = {
    Activation("Relu", kReluTypes, UnaryOp::kRelu, FromOutput<kReluGrad>,
               "max(features, 0), elementwise.")
        .Kind(OpKind::kRelu),
    Activation("Relu6", kRealTypes, UnaryOp::kRelu6, FromOutput<kRelu6Grad>,
               "min(max(features, 0), 6), elementwise.")
        .Kind(OpKind::kRelu6),
    Activation("Elu", kFloatTypes, UnaryOp::kElu, FromOutput<kEluGrad>,
               "features where features > 0, else exp(features) - 1.")
        .Kind(OpKind::kElu),
    Activation("Selu", kFloatTypes, UnaryOp::kSelu, FromOutput<kSeluGrad>,
               "The scaled exponential linear function, elementwise.")
        .Kind(OpKind::kSelu),
    Activation("Softplus", kFloatTypes, UnaryOp::kSoftplus,
               FromInput<kSoftplusGrad>, "log(exp(features) + 1), elementwise.")
        .Kind(OpKind::kSoftplus),
    Activation("Softsign", kFloatTypes, UnaryOp::kSoftsign,
               FromInput<kSoftsignGrad>,
               "features / (|features| + 1), elementwise.")
        .Kind(OpKind::kSoftsign),
};

// ---- Their gradients --------------------------------------------------------

// ReluGrad and Relu6Grad for integers, which need not be fast.
template <typename T>
struct IntegerReluGrad {
  explicit IntegerReluGrad(const Node& n) : six(n.op_name() == kRelu6Grad) {}

  Status Run(KernelContext& ctx) const {
    SLUICE_RETURN_IF_ERROR(RequireEqualShapes(ctx, 0, 1));
    const Tensor& dy = ctx.input(0);
    const Tensor& x = ctx.input(1);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), dy.shape()));
    const T* pdy = dy.raw<T>();
    const T* px = x.raw<T>();
    T* out = ctx.output(0).raw<T>();
    for (int64_t i = 0; i < dy.num_elements(); ++i)
      out[i] = px[i] > 0 && (!six || px[i] < 6) ? pdy[i] : T{0};
    return OkStatus();
  }

  bool six;
};

template <BinaryOp op>
Status MakeReluGrad(const Node& n, Kernel* k) {
  if (IsFloating(n.input_type(0))) return MakeSameShapeBinary(op)(n, k);
  return CpuStateFor<IntegerReluGrad, int8_t, int16_t, int32_t, int64_t,
                     uint8_t, uint16_t, uint32_t, uint64_t>("T")(n, k);
}

// Linear in dy, and piecewise constant in x.
Status KinkedGradGrad(GradContext& c) {
  c.grads[0] = Build(c.op->op_name(), {c.dy[0], c.input(1)});
  c.grads[1] = grad::ZerosLike(c.input(1));
  return OkStatus();
}

// EluGrad, SeluGrad: the slope at y < 0 is y plus a constant.
Status ExponentialGradGrad(GradContext& c) {
  const Output y = c.input(1), dy = c.dy[0];
  c.grads[0] = Build(c.op->op_name(), {dy, y});
  c.grads[1] = grad::Select(Build("Less", {y, Number(y, 0)}),
                            Mul(dy, c.input(0)), grad::ZerosLike(y));
  return OkStatus();
}

Status SoftplusGradGrad(GradContext& c) {
  const Output x = c.input(1), dy = c.dy[0];
  const Output denominator =
      Add(Add(Build("Exp", {grad::Neg(x)}), Number(x, 2)), Build("Exp", {x}));
  c.grads[0] = Build("SoftplusGrad", {dy, x});
  c.grads[1] = Div(Mul(dy, c.input(0)), denominator);
  return OkStatus();
}

// d/dx (1 + |x|)^-2 = -2 sign(x) (1 + |x|)^-3.
Status SoftsignGradGrad(GradContext& c) {
  const Output x = c.input(1), dy = c.dy[0];
  const Output base = Add(Build("Abs", {x}), Number(x, 1));
  const Output slope = Div(Mul(Build("Sign", {x}), Number(x, -2)), base);
  c.grads[0] = Build("SoftsignGrad", {dy, x});
  c.grads[1] = Mul(Build("SoftsignGrad", {Mul(dy, c.input(0)), x}), slope);
  return OkStatus();
}

OpDefBuilder ActivationGrad(const char* name, const char* argument,
                            const char* types, KernelMaker kernel,
                            GradFn gradient, double low, const char* doc) {
  OpDefBuilder b(name);
  b.Input("gradients: T")
      .Input(argument)
      .Output("backprops: T")
      .Attr(types)
      .Family("nn")
      .Shape(MergeBothShape)
      .Kernel(std::move(kernel))
      .Grad(gradient)
      .Sample({{.shape = {2, 3}}, {.shape = {2, 3}, .low = low, .high = 3}})
      .Doc(doc);
  return b;
}

const OpRegistrar kGradients[] = {
    ActivationGrad(kReluGrad, "features: T", kRealTypes,
                   MakeReluGrad<BinaryOp::kReluGrad>, KinkedGradGrad, -3,
                   "gradients where features > 0, else 0."),
    ActivationGrad(kRelu6Grad, "features: T", kRealTypes,
                   MakeReluGrad<BinaryOp::kRelu6Grad>, KinkedGradGrad, -3,
                   "gradients where features lie between 0 and 6, else 0."),
    ActivationGrad(kEluGrad, "outputs: T", kFloatTypes,
                   MakeSameShapeBinary(BinaryOp::kEluGrad), ExponentialGradGrad,
                   -0.9, "The gradient of Elu, computed from its outputs."),
    ActivationGrad(kSeluGrad, "outputs: T", kFloatTypes,
                   MakeSameShapeBinary(BinaryOp::kSeluGrad),
                   ExponentialGradGrad, -1.5,
                   "The gradient of Selu, computed from its outputs."),
    ActivationGrad(kSoftplusGrad, "features: T", kFloatTypes,
                   MakeSameShapeBinary(BinaryOp::kSoftplusGrad),
                   SoftplusGradGrad, -3,
                   "The gradient of Softplus: gradients * sigmoid(features)."),
    ActivationGrad(kSoftsignGrad, "features: T", kFloatTypes,
                   MakeSameShapeBinary(BinaryOp::kSoftsignGrad),
                   SoftsignGradGrad, -3,
                   "The gradient of Softsign: gradients / (1 + |features|)^2."),
};

// ---- LeakyRelu --------------------------------------------------------------

struct LeakySlope {
  float alpha;
};

Status MakeLeaky(const Node& n, Kernel* k, Status (*run)(KernelContext&)) {
  if (!IsFloating(n.input_type(0))) return NoKernelFor(n, n.input_type(0));
  k->state =
      std::make_shared<LeakySlope>(LeakySlope{n.AttrOr<float>("alpha", 0.2f)});
  k->run = run;
  k->expensive = LooksBig(n);
  return OkStatus();
}

Status RunLeakyRelu(KernelContext& ctx) {
  const DType t = ctx.input(0).dtype();
  const Shape shape = ctx.input(0).shape();
  const void* x = ctx.input(0).raw();
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, t, shape));
  simd::LeakyRelu(t, ctx.state<LeakySlope>().alpha, x, ctx.output(0).raw(),
                  shape.num_elements());
  return OkStatus();
}

Status RunLeakyReluGrad(KernelContext& ctx) {
  SLUICE_RETURN_IF_ERROR(RequireEqualShapes(ctx, 0, 1));
  const DType t = ctx.input(0).dtype();
  const Shape shape = ctx.input(0).shape();
  const void* dy = ctx.input(0).raw();
  const void* x = ctx.input(1).raw();
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0, 1}, 0, t, shape));
  simd::LeakyReluGrad(t, ctx.state<LeakySlope>().alpha, dy, x,
                      ctx.output(0).raw(), shape.num_elements());
  return OkStatus();
}

struct LeakyBlock {
  template <DType t>
  static bool Forward(const void* state, const void* const* in, uint32_t,
                      void* out, int64_t n) {
    const float alpha = static_cast<const LeakySlope*>(state)->alpha;
    return simd::LeakyRelu(t, alpha, in[0], out, n);
  }
  template <DType t>
  static bool Backward(const void* state, const void* const* in, uint32_t,
                       void* out, int64_t n) {
    const float alpha = static_cast<const LeakySlope*>(state)->alpha;
    return simd::LeakyReluGrad(t, alpha, in[0], in[1], out, n);
  }
  template <DType t>
  static BlockForm Of(const Kernel& k) {
    return {.fn = k.run == RunLeakyRelu ? Forward<t> : Backward<t>};
  }
};

const BlockFormRegistrar leaky_form(
    [](const Node& n, const Kernel& k) -> std::optional<BlockForm> {
      if (k.run != RunLeakyRelu && k.run != RunLeakyReluGrad)
        return std::nullopt;
      switch (n.input_type(0)) {
        case DType::kFloat:
          return LeakyBlock::Of<DType::kFloat>(k);
        case DType::kDouble:
          return LeakyBlock::Of<DType::kDouble>(k);
        case DType::kHalf:
          return LeakyBlock::Of<DType::kHalf>(k);
        default:
          return LeakyBlock::Of<DType::kBfloat16>(k);
      }
    });

Output LeakyGradOf(GradContext& c, Output x) {
  return Build("LeakyReluGrad", {c.dy[0], x},
               {{"alpha", c.op->AttrOr<float>("alpha", 0.2f)}});
}

Status LeakyReluGradient(GradContext& c) {
  c.grads[0] = LeakyGradOf(c, c.input(0));
  return OkStatus();
}

Status LeakyReluGradGrad(GradContext& c) {
  c.grads[0] = LeakyGradOf(c, c.input(1));
  c.grads[1] = grad::ZerosLike(c.input(1));
  return OkStatus();
}

SLUICE_OP(LeakyRelu)
    .Input("features: T")
    .Output("activations: T")
    .Attr("alpha: float = 0.2")
    .Attr("T: {half, bfloat16, float, double} = DT_FLOAT")
    .Kind(OpKind::kLeakyRelu)
    .Family("nn")
    .Shape(UnchangedShape)
    .Kernel([](const Node& n, Kernel* k) {
      return MakeLeaky(n, k, RunLeakyRelu);
    })
    .Grad(LeakyReluGradient)
    .Sample({{.shape = {2, 3}, .low = -3, .high = 3}})
    .Doc("features where features > 0, else alpha * features.");

SLUICE_OP(LeakyReluGrad)
    .Input("gradients: T")
    .Input("features: T")
    .Output("backprops: T")
    .Attr("alpha: float = 0.2")
    .Attr("T: {half, bfloat16, float, double} = DT_FLOAT")
    .Family("nn")
    .Shape(MergeBothShape)
    .Kernel([](const Node& n, Kernel* k) {
      return MakeLeaky(n, k, RunLeakyReluGrad);
    })
    .Grad(LeakyReluGradGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {2, 3}, .low = -3, .high = 3}})
    .Doc("gradients where features > 0, else alpha * gradients.");

}  // namespace
}  // namespace sluice
