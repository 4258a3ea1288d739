// Binary arithmetic with broadcasting. Comparisons and bitwise ops are in
// compare.cc.
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/math/elementwise.h"

namespace sluice {
namespace {

using grad::Add;
using grad::Conj;
using grad::Div;
using grad::Mul;
using grad::Neg;
using grad::Number;
using grad::Select;
using grad::Square;
using grad::Sub;
using grad::SumToShape;
using simd::BinaryOp;

constexpr char kAllTypes[] =
    "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, "
    "int64, complex64, complex128, uint32, uint64}";
constexpr char kIntegerSteps[] =
    "piecewise constant: the gradient is zero or undefined";

// z = op(x, y), sampled on equal shapes, on broadcast ones and on scalars; y is
// drawn from [low, high).
OpDefBuilder Binary(const char* name, const char* types, BinaryOp op,
                    double low = -2, double high = 2, const char* x = "x: T",
                    const char* y = "y: T", const char* z = "z: T") {
  OpDefBuilder b(name);
  b.Input(x)
      .Input(y)
      .Output(z)
      .Attr(types)
      .Family("math")
      .Shape(BroadcastBinaryShape)
      .Kernel(MakeBinary(op))
      .Sample({{.shape = {2, 3}, .low = low, .high = high},
               {.shape = {2, 3}, .low = low, .high = high}})
      .Sample({{.shape = {2, 1, 3}, .low = low, .high = high},
               {.shape = {4, 1}, .low = low, .high = high}})
      .Sample({{.low = low, .high = high}, {.low = low, .high = high}});
  return b;
}

// Sets both gradients, reduced to the shapes of the inputs.
Status Reduced(GradContext& c, Output dx, Output dy) {
  const Output x = c.input(0), y = c.input(1);
  c.grads[0] = SumToShape(dx, x, y);
  c.grads[1] = SumToShape(dy, y, x);
  return OkStatus();
}

// 1 where x is not zero, else 0.
Output NotZero(Output x) {
  if (!x.valid()) return x;
  return grad::Cast(Build("NotEqual", {x, Number(x, 0)}), x.dtype());
}

Status AddGrad(GradContext& c) { return Reduced(c, c.dy[0], c.dy[0]); }

Status SubGrad(GradContext& c) { return Reduced(c, c.dy[0], Neg(c.dy[0])); }

Status MulGrad(GradContext& c) {
  const Output dz = c.dy[0];
  if (c.input(0).SameAs(c.input(1))) {  // Two equal summands.
    const Output half = Mul(dz, Conj(c.input(0)));
    c.grads[0] = Mul(half, grad::Number(half, 2));
    return OkStatus();
  }
  return Reduced(c, Mul(dz, Conj(c.input(1))), Mul(Conj(c.input(0)), dz));
}

Status MulNoNanGrad(GradContext& c) {
  const Output dz = c.dy[0];
  return Reduced(c, Build("MulNoNan", {dz, c.input(1)}),
                 Build("MulNoNan", {c.input(0), dz}));
}

// For each of the division ops: the gradient divides by the same op.
template <const char* Op>
Status DivideGrad(GradContext& c) {
  const Output x = Conj(c.input(0)), y = Conj(c.input(1)), dz = c.dy[0];
  const Output slope = Build(Op, {Build(Op, {Neg(x), y}), y});
  return Reduced(c, Build(Op, {dz, y}), Mul(dz, slope));
}
constexpr char kDivOp[] = "Div";
constexpr char kRealDivOp[] = "RealDiv";
constexpr char kDivNoNanOp[] = "DivNoNan";

Status FloorModGrad(GradContext& c) {
  const Output x = c.input(0), y = c.input(1), dz = c.dy[0];
  return Reduced(c, dz, Mul(dz, Neg(Build("FloorDiv", {x, y}))));
}

Status TruncateModGrad(GradContext& c) {
  const Output x = c.input(0), y = c.input(1), dz = c.dy[0];
  return Reduced(c, dz, Mul(dz, Neg(Build("TruncateDiv", {x, y}))));
}

Status PowGrad(GradContext& c) {
  const Output x = Conj(c.input(0)), y = Conj(c.input(1));
  const Output z = Conj(c.output(0)), dz = c.dy[0];
  const Output dx = Mul(Mul(dz, y), Build("Pow", {x, Sub(y, Number(y, 1))}));
  if (!x.valid()) return OkStatus();
  // 0 replaces the real log(x) at x = 0 (where 0^y is constant in y) and below
  // (where it is undefined).
  const char* mask = IsComplex(grad::TypeOf(x)) ? "NotEqual" : "Greater";
  const Output has_log = Build(mask, {x, Number(x, 0)});
  const Output safe_x = Select(has_log, x, grad::OnesLike(x));
  const Output log_x =
      Select(has_log, Build("Log", {safe_x}), grad::ZerosLike(x));
  return Reduced(c, dx, Mul(Mul(dz, z), log_x));
}

// x where `op` is true (ties go to x), else y.
Status ExtremeGrad(GradContext& c, const char* op) {
  const Output dz = c.dy[0];
  const Output takes_x = Build(op, {c.input(0), c.input(1)});
  const Output zero = Number(dz, 0);
  return Reduced(c, Select(takes_x, dz, zero), Select(takes_x, zero, dz));
}
Status MaximumGrad(GradContext& c) { return ExtremeGrad(c, "GreaterEqual"); }
Status MinimumGrad(GradContext& c) { return ExtremeGrad(c, "LessEqual"); }

Status SquaredDifferenceGrad(GradContext& c) {
  const Output dz = c.dy[0];
  const Output dx = Mul(Mul(Number(dz, 2), dz), Sub(c.input(0), c.input(1)));
  c.grads[0] = SumToShape(dx, c.input(0), c.input(1));
  c.grads[1] = Neg(SumToShape(dx, c.input(1), c.input(0)));
  return OkStatus();
}

Status Atan2Grad(GradContext& c) {
  const Output y = c.input(0), x = c.input(1);
  const Output scaled = Div(c.dy[0], Add(Square(x), Square(y)));
  return Reduced(c, Mul(x, scaled), Mul(Neg(y), scaled));
}

Status XlogyGrad(GradContext& c) {
  const Output x = c.input(0), y = c.input(1), dz = c.dy[0];
  return Reduced(c, Mul(Build("Xlogy", {NotZero(x), y}), dz),
                 Mul(Build("Xdivy", {x, y}), dz));
}

Status Xlog1pyGrad(GradContext& c) {
  const Output x = c.input(0), y = c.input(1), dz = c.dy[0];
  return Reduced(c, Mul(Build("Xlog1py", {NotZero(x), y}), dz),
                 Mul(Build("Xdivy", {x, Add(y, Number(y, 1))}), dz));
}

Status XdivyGrad(GradContext& c) {
  const Output x = c.input(0), y = c.input(1), dz = c.dy[0];
  return Reduced(c, Mul(Build("Xdivy", {NotZero(x), y}), dz),
                 Mul(Build("Xdivy", {Neg(x), Square(y)}), dz));
}

Status NextAfterGrad(GradContext& c) {
  return Reduced(c, c.dy[0], grad::ZerosLike(c.dy[0]));
}

// ---- Strings ----------------------------------------------------------------

// Only Add also concatenates strings.
Status RunAddStrings(KernelContext& ctx) {
  const Tensor a = ctx.input(0), b = ctx.input(1);
  simd::Broadcast<2> plan;
  const auto span = [](const Tensor& t) {
    return absl::Span<const int64_t>(t.shape().dims().data(),
                                     t.shape().dims().size());
  };
  if (!plan.Build({span(a), span(b)}))
    return IncompatibleShapes(a.shape(), b.shape());
  SLUICE_ASSIGN_OR_RETURN(
      const Shape shape,
      Shape::Make({plan.shape().data(), plan.shape().size()}));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, shape));
  const std::string* pa = a.raw<std::string>();
  const std::string* pb = b.raw<std::string>();
  std::string* out = ctx.output(0).raw<std::string>();
  const int last = plan.rank() - 1;
  plan.ForEachInner(0, plan.outer(), [&](int64_t at, const auto& offsets) {
    for (int64_t i = 0; i < plan.inner(); ++i)
      out[at + i] = absl::StrCat(pa[offsets[0] + i * plan.stride(0, last)],
                                 pb[offsets[1] + i * plan.stride(1, last)]);
  });
  return OkStatus();
}

Status MakeAdd(const Node& n, Kernel* k) {
  if (n.input_type(0) != DType::kString)
    return MakeBinary(BinaryOp::kAdd)(n, k);
  k->run = RunAddStrings;
  return OkStatus();
}

// RealDiv has kernels for types with fractions, as in TensorFlow.
Status MakeRealDiv(const Node& n, Kernel* k) {
  if (IsInteger(n.input_type(0))) return NoKernelFor(n, n.input_type(0));
  return MakeBinary(BinaryOp::kDiv)(n, k);
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(Add)
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr(
        "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, "
        "complex64, complex128, string}")
    .Kind(OpKind::kAdd)
    .Family("math")
    .Shape(BroadcastBinaryShape)
    .Kernel(MakeAdd)
    .Grad(AddGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {2, 3}}})
    .Sample({{.shape = {2, 1}}, {.shape = {3}}})
    .Doc("x + y with broadcasting; concatenates strings.");

const OpRegistrar kSums[] = {
    Binary("AddV2",
           "T: {bfloat16, half, float, double, uint8, uint16, uint32, uint64, "
           "int8, int16, int32, int64, complex64, complex128}",
           BinaryOp::kAdd)
        .Kind(OpKind::kAdd)
        .Commutative()
        .Grad(AddGrad)
        .Doc("x + y with broadcasting."),
    Binary("Sub", kAllTypes, BinaryOp::kSub)
        .Kind(OpKind::kSub)
        .Grad(SubGrad)
        .Doc("x - y with broadcasting."),
    Binary("SquaredDifference",
           "T: {bfloat16, half, float, double, int32, int64, complex64, "
           "complex128}",
           BinaryOp::kSquaredDifference)
        .Commutative()
        .Grad(SquaredDifferenceGrad)
        .Doc("(x - y) * (x - y) with broadcasting."),
};

const OpRegistrar kProducts[] = {
    Binary("Mul", kAllTypes, BinaryOp::kMul)
        .Kind(OpKind::kMul)
        .Commutative()
        .Grad(MulGrad)
        .Doc("x * y with broadcasting."),
    Binary("MulNoNan", kFloatOrComplexTypes, BinaryOp::kMulNoNan)
        .Grad(MulNoNanGrad)
        .Doc("x * y, and 0 where y is 0 for any x."),
    Binary("Pow",
           "T: {bfloat16, float, half, double, int8, int16, int32, int64, "
           "complex64, complex128}",
           BinaryOp::kPow, 0.5, 2)
        .Grad(PowGrad)
        .Doc("x to the power of y with broadcasting."),
};

const OpRegistrar kQuotients[] = {
    Binary("Div", kAllTypes, BinaryOp::kDiv, 0.5, 3)
        .Kind(OpKind::kDiv)
        .Grad(DivideGrad<kDivOp>)
        .Doc("x / y with broadcasting; integer division rounds towards zero."),
    Binary("RealDiv", kAllTypes, BinaryOp::kDiv, 0.5, 3)
        .Kind(OpKind::kDiv)
        .Kernel(MakeRealDiv)
        .Grad(DivideGrad<kRealDivOp>)
        .Doc("x / y for real or complex numbers, with broadcasting."),
    Binary("DivNoNan",
           "T: {half, float, bfloat16, double, complex64, complex128}",
           BinaryOp::kDivNoNan, 0.5, 3)
        .Grad(DivideGrad<kDivNoNanOp>)
        .Doc("x / y, and 0 where y is 0."),
    Binary("FloorDiv", kAllTypes, BinaryOp::kFloorDiv, 0.5, 3)
        .Kind(OpKind::kFloorDiv)
        .NoGradient(kIntegerSteps)
        .Doc("x / y rounded down, with broadcasting."),
    Binary("TruncateDiv", kAllTypes, BinaryOp::kTruncateDiv, 0.5, 3)
        .NoGradient(kIntegerSteps)
        .Doc("x / y rounded towards zero, with broadcasting."),
};

const OpRegistrar kRemainders[] = {
    Binary("FloorMod",
           "T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
           "bfloat16, half, float, double}",
           BinaryOp::kFloorMod, 0.5, 3)
        .Kind(OpKind::kFloorMod)
        .Grad(FloorModGrad)
        .Doc("x - floor(x / y) * y: the remainder with the sign of y."),
    Binary("TruncateMod", "T: {int32, int64, bfloat16, half, float, double}",
           BinaryOp::kTruncateMod, 0.5, 3)
        .Grad(TruncateModGrad)
        .Doc("x - trunc(x / y) * y: the remainder with the sign of x."),
    Binary("Mod", "T: {int32, int64, half, half, bfloat16, float, double}",
           BinaryOp::kTruncateMod, 0.5, 3)
        .Grad(TruncateModGrad)
        .Doc("The remainder with the sign of x, like fmod in C."),
};

const OpRegistrar kExtremes[] = {
    Binary("Maximum", kRealTypes, BinaryOp::kMaximum)
        .Kind(OpKind::kMaximum)
        .Grad(MaximumGrad)
        .Doc("The larger of x and y with broadcasting; NaN if either is."),
    Binary("Minimum", kRealTypes, BinaryOp::kMinimum)
        .Kind(OpKind::kMinimum)
        .Grad(MinimumGrad)
        .Doc("The smaller of x and y with broadcasting; NaN if either is."),
};

const OpRegistrar kLogarithmic[] = {
    Binary("Xlogy", "T: {half, bfloat16, float, double, complex64, complex128}",
           BinaryOp::kXlogy, 0.5, 3)
        .Grad(XlogyGrad)
        .Doc("x * log(y), and 0 where x is 0."),
    Binary("Xlog1py",
           "T: {half, bfloat16, float, double, complex64, complex128}",
           BinaryOp::kXlog1py, 0.5, 3)
        .Grad(Xlog1pyGrad)
        .Doc("x * log(1 + y), and 0 where x is 0."),
    Binary("Xdivy", "T: {half, bfloat16, float, double, complex64, complex128}",
           BinaryOp::kXdivy, 0.5, 3)
        .Grad(XdivyGrad)
        .Doc("x / y, and 0 where x is 0."),
};

const OpRegistrar kOthers[] = {
    Binary("Atan2", kFloatTypes, BinaryOp::kAtan2, 0.5, 3, "y: T", "x: T")
        .Grad(Atan2Grad)
        .Doc("The angle of the point (x, y), in [-pi, pi]."),
    Binary("NextAfter", "T: {double, float} = DT_FLOAT", BinaryOp::kNextAfter,
           -2, 2, "x1: T", "x2: T", "output: T")
        .Grad(NextAfterGrad)
        .Doc("The next representable number after x1 towards x2."),
};

}  // namespace
}  // namespace sluice
