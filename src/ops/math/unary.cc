// Elementwise functions of one array: signs, powers, rounding, complex parts.
// Exponentials and trigonometry are in exp.cc.
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/math/elementwise.h"

namespace sluice {
namespace {

using grad::Conj;
using grad::Div;
using grad::Mul;
using grad::Neg;
using grad::Number;
using simd::BinaryOp;
using simd::UnaryOp;

constexpr char kSignedTypes[] =
    "T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, "
    "complex128}";
constexpr char kRealSignedTypes[] =
    "T: {bfloat16, half, float, double, int8, int16, int32, int64}";
constexpr char kStep[] =
    "piecewise constant: the gradient is zero or undefined";

// "x: T" -> `output`, sampled on [low, high).
OpDefBuilder Unary(const char* name, const char* types, const char* output,
                   UnaryOp op, double low, double high) {
  OpDefBuilder b(name);
  b.Input("x: T")
      .Output(output)
      .Attr(types)
      .Family("math")
      .Shape(UnchangedShape)
      .Kernel(MakeUnary(op))
      .Sample({{.shape = {2, 3}, .low = low, .high = high}})
      .Sample({{.low = low, .high = high}});
  return b;
}

Status NegGrad(GradContext& c) {
  c.grads[0] = Neg(c.dy[0]);
  return OkStatus();
}

Status AbsGrad(GradContext& c) {
  c.grads[0] = Mul(c.dy[0], Build("Sign", {c.input(0)}));
  return OkStatus();
}

Status SignGrad(GradContext& c) {
  c.grads[0] = grad::ZerosLike(c.input(0));
  return OkStatus();
}

Status SquareGrad(GradContext& c) {
  const Output x = Conj(c.input(0));
  c.grads[0] = Mul(c.dy[0], Mul(x, Number(x, 2)));
  return OkStatus();
}

// Ops whose gradient is a fused op of (y, dy).
Status SqrtGradient(GradContext& c) {
  c.grads[0] = Build("SqrtGrad", {c.output(0), c.dy[0]});
  return OkStatus();
}
Status RsqrtGradient(GradContext& c) {
  c.grads[0] = Build("RsqrtGrad", {c.output(0), c.dy[0]});
  return OkStatus();
}
Status ReciprocalGradient(GradContext& c) {
  c.grads[0] = Build("ReciprocalGrad", {c.output(0), c.dy[0]});
  return OkStatus();
}

const OpRegistrar kSigns[] = {
    Unary("Neg", kSignedTypes, "y: T", UnaryOp::kNeg, -3, 3)
        .Kind(OpKind::kNeg)
        .Grad(NegGrad)
        .Doc("-x, elementwise."),
    Unary("Abs", kRealSignedTypes, "y: T", UnaryOp::kAbs, -3, 3)
        .Grad(AbsGrad)
        .Doc("|x|, elementwise."),
    Unary("Sign", kSignedTypes, "y: T", UnaryOp::kSign, -3, 3)
        .Grad(SignGrad)
        .Doc("-1, 0 or 1 by the sign of x; of complex x, x / |x|."),
};

const OpRegistrar kPowers[] = {
    Unary("Square",
          "T: {bfloat16, half, float, double, int8, int16, int32, int64, "
          "uint8, uint16, uint32, uint64, complex64, complex128}",
          "y: T", UnaryOp::kSquare, -3, 3)
        .Grad(SquareGrad)
        .Doc("x * x, elementwise."),
    Unary("Sqrt", kFloatOrComplexTypes, "y: T", UnaryOp::kSqrt, 0.2, 4)
        .Kind(OpKind::kSqrt)
        .Grad(SqrtGradient)
        .Doc("The square root of x, elementwise."),
    Unary("Rsqrt", kFloatOrComplexTypes, "y: T", UnaryOp::kRsqrt, 0.2, 4)
        .Grad(RsqrtGradient)
        .Doc("1 / sqrt(x), elementwise."),
    Unary("Reciprocal", kSignedTypes, "y: T", UnaryOp::kReciprocal, 0.4, 3)
        .Grad(ReciprocalGradient)
        .Doc("1 / x, elementwise."),
    Unary("Inv", kSignedTypes, "y: T", UnaryOp::kReciprocal, 0.4, 3)
        .Grad(ReciprocalGradient)
        .Doc("1 / x, elementwise; the older name of Reciprocal."),
};

const OpRegistrar kRounding[] = {
    Unary("Floor", kFloatTypes, "y: T", UnaryOp::kFloor, -3, 3)
        .NoGradient(kStep)
        .Doc("The largest integer less than or equal to x, elementwise."),
    Unary("Ceil", kFloatTypes, "y: T", UnaryOp::kCeil, -3, 3)
        .NoGradient(kStep)
        .Doc("The smallest integer greater than or equal to x, elementwise."),
    Unary("Round", kSignedTypes, "y: T", UnaryOp::kRound, -3, 3)
        .NoGradient(kStep)
        .Doc("Rounds to the nearest integer, ties to even, elementwise."),
    Unary("Rint", kFloatTypes, "y: T", UnaryOp::kRint, -3, 3)
        .NoGradient(kStep)
        .Doc("Rounds to the nearest integer, ties to even, elementwise."),
};

const OpRegistrar kTests[] = {
    Unary("IsNan", kFloatTypes, "y: bool", UnaryOp::kIsNan, -3, 3)
        .NoGradient(kStep)
        .Doc("Whether each element is NaN."),
    Unary("IsInf", kFloatTypes, "y: bool", UnaryOp::kIsInf, -3, 3)
        .NoGradient(kStep)
        .Doc("Whether each element is infinite."),
    Unary("IsFinite", kFloatTypes, "y: bool", UnaryOp::kIsFinite, -3, 3)
        .NoGradient(kStep)
        .Doc("Whether each element is finite."),
};

const OpRegistrar kBits[] = {
    Unary("Invert", kIntTypes, "y: T", UnaryOp::kInvert, 0, 100)
        .NoGradient("its outputs are integers")
        .Doc("Flips every bit, elementwise."),
    Unary("PopulationCount", kIntTypes, "y: uint8", UnaryOp::kPopulationCount,
          0, 100)
        .NoGradient("its outputs are integers")
        .Doc("The number of set bits, elementwise."),
};

SLUICE_OP(LogicalNot)
    .Input("x: bool")
    .Output("y: bool")
    .Family("math")
    .Shape(UnchangedShape)
    .Kernel(MakeUnary(UnaryOp::kLogicalNot))
    .NoGradient("its output is boolean")
    .Sample({{.shape = {3}, .values = {1, 0, 1}}})
    .Doc("True where x is false, and false where it is true.");

// ---- Complex numbers --------------------------------------------------------

Output ComplexOf(Output re, Output im) {
  if (!re.valid() || !im.valid()) return Output();
  const DType t = grad::TypeOf(re) == DType::kDouble ? DType::kComplex128
                                                     : DType::kComplex64;
  return Build("Complex", {re, im}, {{"Tout", t}});
}

Output PartOf(const char* op, Output z) {
  if (!z.valid()) return z;
  const DType t =
      grad::TypeOf(z) == DType::kComplex128 ? DType::kDouble : DType::kFloat;
  return Build(op, {z}, {{"Tout", t}});
}

Status RealGrad(GradContext& c) {
  c.grads[0] = ComplexOf(c.dy[0], Number(c.dy[0], 0));
  return OkStatus();
}

Status ImagGrad(GradContext& c) {
  c.grads[0] = ComplexOf(Number(c.dy[0], 0), c.dy[0]);
  return OkStatus();
}

Status ConjGrad(GradContext& c) {
  c.grads[0] = Conj(c.dy[0]);
  return OkStatus();
}

Status AngleGrad(GradContext& c) {
  const Output z = c.input(0);
  const Output swapped =
      Build("Reciprocal", {ComplexOf(PartOf("Imag", z), PartOf("Real", z))});
  c.grads[0] = Neg(Mul(ComplexOf(c.dy[0], Number(c.dy[0], 0)), swapped));
  return OkStatus();
}

Status ComplexAbsGrad(GradContext& c) {
  const Output zero = Number(c.dy[0], 0);
  c.grads[0] = Build("DivNoNan", {Mul(ComplexOf(c.dy[0], zero), c.input(0)),
                                  ComplexOf(c.output(0), zero)});
  return OkStatus();
}

Status ComplexGrad(GradContext& c) {
  const Output re = c.input(0), im = c.input(1);
  c.grads[0] = grad::SumToShape(PartOf("Real", c.dy[0]), re, im);
  c.grads[1] = grad::SumToShape(PartOf("Imag", c.dy[0]), im, re);
  return OkStatus();
}

OpDefBuilder ComplexPart(const char* name, UnaryOp op) {
  OpDefBuilder b(name);
  b.Input("input: T")
      .Output("output: Tout")
      .Attr("T: {complex64, complex128} = DT_COMPLEX64")
      .Attr("Tout: {float, double} = DT_FLOAT")
      .Family("math")
      .Shape(UnchangedShape)
      .Kernel(MakeUnary(op))
      .Sample({{.shape = {2, 3}, .low = 0.5, .high = 2}});
  return b;
}

const OpRegistrar kComplexParts[] = {
    ComplexPart("Real", UnaryOp::kReal)
        .Grad(RealGrad)
        .Doc("The real parts of "
             "complex numbers."),
    ComplexPart("Imag", UnaryOp::kImag)
        .Grad(ImagGrad)
        .Doc("The imaginary parts of complex numbers."),
    ComplexPart("Angle", UnaryOp::kAngle)
        .Grad(AngleGrad)
        .Doc("The arguments (angles) of complex numbers, in (-pi, pi]."),
};

SLUICE_OP(ComplexAbs)
    .Input("x: T")
    .Output("y: Tout")
    .Attr("T: {complex64, complex128} = DT_COMPLEX64")
    .Attr("Tout: {float, double} = DT_FLOAT")
    .Family("math")
    .Shape(UnchangedShape)
    .Kernel(MakeUnary(UnaryOp::kAbs))
    .Grad(ComplexAbsGrad)
    .Sample({{.shape = {2, 3}, .low = 0.5, .high = 2}})
    .Doc("The absolute values of complex numbers.");

SLUICE_OP(Conj)
    .Input("input: T")
    .Output("output: T")
    .Attr("T: {complex64, complex128, variant} = DT_COMPLEX64")
    .Family("math")
    .Shape(UnchangedShape)
    .Kernel(MakeUnary(UnaryOp::kConj))
    .Grad(ConjGrad)
    .Sample({{.shape = {2, 3}}})
    .Doc("The complex conjugates.");

SLUICE_OP(Complex)
    .Input("real: T")
    .Input("imag: T")
    .Output("out: Tout")
    .Attr("T: {float, double} = DT_FLOAT")
    .Attr("Tout: {complex64, complex128} = DT_COMPLEX64")
    .Family("math")
    .Shape(BroadcastBinaryShape)
    .Kernel(MakeBinary(BinaryOp::kComplex))
    .Grad(ComplexGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {2, 3}}})
    .Sample({{.shape = {2, 1}}, {.shape = {3}}})
    .Doc("Builds complex numbers from real and imaginary parts.");

// ---- Gradients as ops of their own ------------------------------------------

// (y, dy) -> dx, for equal shapes.
OpDefBuilder FusedGrad(const char* name, BinaryOp op, const char* doc) {
  OpDefBuilder b(name);
  b.Input("y: T")
      .Input("dy: T")
      .Output("z: T")
      .Attr(kFloatOrComplexTypes)
      .Family("math")
      .Shape(MergeBothShape)
      .Kernel(MakeSameShapeBinary(op))
      .Sample({{.shape = {2, 3}, .low = 0.5, .high = 2}, {.shape = {2, 3}}})
      .Doc(doc);
  return b;
}

Status SqrtGradGrad(GradContext& c) {
  const Output y = c.input(0), dy = c.dy[0];
  const Output ratio = Div(dy, y);
  c.grads[0] = Neg(Mul(Conj(ratio), c.output(0)));
  c.grads[1] = Mul(ratio, Number(dy, 0.5));
  return OkStatus();
}

Status RsqrtGradGrad(GradContext& c) {
  const Output y = Conj(c.input(0)), b = c.input(1), dy = Conj(c.dy[0]);
  c.grads[0] = Mul(Mul(Mul(dy, Number(dy, -1.5)), b), grad::Square(y));
  c.grads[1] = Build("RsqrtGrad", {y, c.dy[0]});
  return OkStatus();
}

Status ReciprocalGradGrad(GradContext& c) {
  const Output y = Conj(c.input(0)), dy = Conj(c.dy[0]);
  c.grads[0] = Mul(Mul(Mul(dy, Number(dy, -2)), c.input(1)), y);
  c.grads[1] = Build("ReciprocalGrad", {y, c.dy[0]});
  return OkStatus();
}

const OpRegistrar kFusedGrads[] = {
    FusedGrad("SqrtGrad", BinaryOp::kSqrtGrad,
              "The gradient of Sqrt, whose result is y: dy * 0.5 / y.")
        .Grad(SqrtGradGrad),
    FusedGrad("RsqrtGrad", BinaryOp::kRsqrtGrad,
              "The gradient of Rsqrt, whose result is y: dy * -0.5 * y^3.")
        .Grad(RsqrtGradGrad),
    FusedGrad("ReciprocalGrad", BinaryOp::kReciprocalGrad,
              "The gradient of Reciprocal, whose result is y: -dy * y * y.")
        .Grad(ReciprocalGradGrad),
    FusedGrad("InvGrad", BinaryOp::kReciprocalGrad,
              "The gradient of Inv, whose result is y: -dy * y * y.")
        .Grad(ReciprocalGradGrad),
};

}  // namespace
}  // namespace sluice
