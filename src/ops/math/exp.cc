// Elementwise exponentials, logarithms, trigonometric and hyperbolic functions,
// the error function and related functions.
#include <cmath>
#include <numbers>

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
using grad::Square;
using grad::Sub;
using simd::BinaryOp;
using simd::UnaryOp;

// Sampled on [low, high), which lies inside the domain.
OpDefBuilder Unary(const char* name, const char* types, UnaryOp op, double low,
                   double high, GradFn gradient, const char* doc) {
  OpDefBuilder b(name);
  b.Input("x: T")
      .Output("y: T")
      .Attr(types)
      .Family("math")
      .Shape(UnchangedShape)
      .Kernel(MakeUnary(op))
      .Grad(gradient)
      .Sample({{.shape = {2, 3}, .low = low, .high = high}})
      .Sample({{.low = low, .high = high}})
      .Doc(doc);
  return b;
}

// The gradient of y = f(x) as dy * Slope(conj(x), conj(y)).
template <Output (*Slope)(Output x, Output y)>
Status ChainRule(GradContext& c) {
  c.grads[0] = Mul(c.dy[0], Slope(Conj(c.input(0)), Conj(c.output(0))));
  return OkStatus();
}

// The gradient of y = f(x) as the fused op of (conj(y), dy).
Status TanhGradient(GradContext& c) {
  c.grads[0] = Build("TanhGrad", {Conj(c.output(0)), c.dy[0]});
  return OkStatus();
}
Status SigmoidGradient(GradContext& c) {
  c.grads[0] = Build("SigmoidGrad", {Conj(c.output(0)), c.dy[0]});
  return OkStatus();
}

Output Call(const char* op, Output x) { return Build(op, {x}); }
Output OnePlus(Output x) { return Add(Number(x, 1), x); }
Output OneLess(Output x) { return Sub(Number(x, 1), x); }
Output Reciprocal(Output x) { return Call("Reciprocal", x); }

Output ExpSlope(Output, Output y) { return y; }
Output Expm1Slope(Output x, Output) { return Call("Exp", x); }
Output LogSlope(Output x, Output) { return Reciprocal(x); }
Output Log1pSlope(Output x, Output) { return Reciprocal(OnePlus(x)); }
Output SinSlope(Output x, Output) { return Call("Cos", x); }
Output CosSlope(Output x, Output) { return Neg(Call("Sin", x)); }
Output TanSlope(Output x, Output) { return Square(Reciprocal(Call("Cos", x))); }
Output AsinSlope(Output x, Output) {
  return Reciprocal(Call("Sqrt", OneLess(Square(x))));
}
Output AcosSlope(Output x, Output y) { return Neg(AsinSlope(x, y)); }
Output AtanSlope(Output x, Output) { return Reciprocal(OnePlus(Square(x))); }
Output SinhSlope(Output x, Output) { return Call("Cosh", x); }
Output CoshSlope(Output x, Output) { return Call("Sinh", x); }
Output AsinhSlope(Output, Output y) { return Reciprocal(Call("Cosh", y)); }
Output AcoshSlope(Output, Output y) { return Reciprocal(Call("Sinh", y)); }
Output AtanhSlope(Output x, Output) { return Reciprocal(OneLess(Square(x))); }

const OpRegistrar kExponentials[] = {
    Unary("Exp", kFloatOrComplexTypes, UnaryOp::kExp, -2, 2,
          ChainRule<ExpSlope>, "e to the power of x, elementwise."),
    Unary("Expm1", kFloatOrComplexTypes, UnaryOp::kExpm1, -2, 2,
          ChainRule<Expm1Slope>, "exp(x) - 1, exact for small x."),
    Unary("Log", kFloatOrComplexTypes, UnaryOp::kLog, 0.2, 4,
          ChainRule<LogSlope>, "The natural logarithm, elementwise."),
    Unary("Log1p", kFloatOrComplexTypes, UnaryOp::kLog1p, -0.5, 3,
          ChainRule<Log1pSlope>, "log(1 + x), exact for small x."),
};

const OpRegistrar kTrigonometric[] = {
    Unary("Sin", kFloatOrComplexTypes, UnaryOp::kSin, -3, 3,
          ChainRule<SinSlope>, "The sine, elementwise."),
    Unary("Cos", kFloatOrComplexTypes, UnaryOp::kCos, -3, 3,
          ChainRule<CosSlope>, "The cosine, elementwise."),
    Unary("Tan", kFloatOrComplexTypes, UnaryOp::kTan, -1, 1,
          ChainRule<TanSlope>, "The tangent, elementwise."),
    Unary("Asin", kFloatOrComplexTypes, UnaryOp::kAsin, -0.8, 0.8,
          ChainRule<AsinSlope>, "The inverse sine, elementwise."),
    Unary("Acos", kFloatOrComplexTypes, UnaryOp::kAcos, -0.8, 0.8,
          ChainRule<AcosSlope>, "The inverse cosine, elementwise."),
    Unary("Atan", kFloatOrComplexTypes, UnaryOp::kAtan, -3, 3,
          ChainRule<AtanSlope>, "The inverse tangent, elementwise."),
};

const OpRegistrar kHyperbolic[] = {
    Unary("Sinh", kFloatOrComplexTypes, UnaryOp::kSinh, -2, 2,
          ChainRule<SinhSlope>, "The hyperbolic sine, elementwise."),
    Unary("Cosh", kFloatOrComplexTypes, UnaryOp::kCosh, -2, 2,
          ChainRule<CoshSlope>, "The hyperbolic cosine, elementwise."),
    Unary("Tanh", kFloatOrComplexTypes, UnaryOp::kTanh, -2, 2, TanhGradient,
          "The hyperbolic tangent, elementwise.")
        .Kind(OpKind::kTanh),
    Unary("Asinh", kFloatOrComplexTypes, UnaryOp::kAsinh, -3, 3,
          ChainRule<AsinhSlope>, "The inverse hyperbolic sine, elementwise."),
    Unary("Acosh", kFloatOrComplexTypes, UnaryOp::kAcosh, 1.2, 4,
          ChainRule<AcoshSlope>, "The inverse hyperbolic cosine, elementwise."),
    Unary("Atanh", kFloatOrComplexTypes, UnaryOp::kAtanh, -0.8, 0.8,
          ChainRule<AtanhSlope>,
          "The inverse hyperbolic tangent, elementwise."),
    Unary("Sigmoid", kFloatOrComplexTypes, UnaryOp::kSigmoid, -3, 3,
          SigmoidGradient, "1 / (1 + exp(-x)), elementwise.")
        .Kind(OpKind::kSigmoid),
};

// ---- The error and gamma functions ------------------------------------------

Output ErfSlope(Output x, Output) {
  return Mul(Call("Exp", Neg(Square(x))),
             Number(x, 2 * std::numbers::inv_sqrtpi));
}
Output ErfcSlope(Output x, Output) {
  return Mul(Call("Exp", Neg(Square(x))),
             Number(x, -2 * std::numbers::inv_sqrtpi));
}
Output ErfinvSlope(Output, Output y) {
  return Mul(Call("Exp", Square(y)),
             Number(y, std::sqrt(std::numbers::pi) / 2));
}
Output NdtriSlope(Output, Output y) {
  return Mul(Call("Exp", Div(Square(y), Number(y, 2))),
             Number(y, std::sqrt(2 * std::numbers::pi)));
}
Output LgammaSlope(Output x, Output) { return Call("Digamma", x); }
Output DigammaSlope(Output x, Output) {
  return Build("Polygamma", {Number(x, 1), x});
}

const OpRegistrar kSpecial[] = {
    Unary("Erf", kFloatTypes, UnaryOp::kErf, -2, 2, ChainRule<ErfSlope>,
          "The error function, elementwise."),
    Unary("Erfc", kFloatTypes, UnaryOp::kErfc, -2, 2, ChainRule<ErfcSlope>,
          "1 - erf(x), accurate for large x."),
    Unary("Erfinv", kFloatTypes, UnaryOp::kErfinv, -0.8, 0.8,
          ChainRule<ErfinvSlope>, "The inverse of the error function."),
    Unary("Ndtri", kFloatTypes, UnaryOp::kNdtri, 0.1, 0.9,
          ChainRule<NdtriSlope>,
          "The inverse of the normal distribution function."),
    Unary("Lgamma", kFloatTypes, UnaryOp::kLgamma, 0.5, 4,
          ChainRule<LgammaSlope>,
          "The logarithm of the absolute value of the gamma function."),
    Unary("Digamma", kFloatTypes, UnaryOp::kDigamma, 0.5, 4,
          ChainRule<DigammaSlope>,
          "The derivative of the logarithm of the gamma function."),
};

// ---- Fused gradients --------------------------------------------------------

OpDefBuilder FusedGrad(const char* name, BinaryOp op, GradFn gradient,
                       const char* doc) {
  OpDefBuilder b(name);
  b.Input("y: T")
      .Input("dy: T")
      .Output("z: T")
      .Attr(kFloatOrComplexTypes)
      .Family("math")
      .Shape(MergeBothShape)
      .Kernel(MakeSameShapeBinary(op))
      .Grad(gradient)
      .Sample({{.shape = {2, 3}, .low = 0.1, .high = 0.9}, {.shape = {2, 3}}})
      .Doc(doc);
  return b;
}

Status TanhGradGrad(GradContext& c) {
  const Output y = Conj(c.input(0)), b = Conj(c.input(1)), dy = c.dy[0];
  c.grads[0] = Mul(Mul(Mul(dy, Number(dy, -2)), b), y);
  c.grads[1] = Build("TanhGrad", {y, dy});
  return OkStatus();
}

Status SigmoidGradGrad(GradContext& c) {
  const Output y = Conj(c.input(0)), dy = c.dy[0];
  const Output product = Mul(dy, Conj(c.input(1)));
  c.grads[0] = Sub(product, Mul(Mul(product, Number(dy, 2)), y));
  c.grads[1] = Build("SigmoidGrad", {y, dy});
  return OkStatus();
}

const OpRegistrar kExpGrads[] = {
    FusedGrad("TanhGrad", BinaryOp::kTanhGrad, TanhGradGrad,
              "The gradient of Tanh, whose result is y: dy * (1 - y * y)."),
    FusedGrad("SigmoidGrad", BinaryOp::kSigmoidGrad, SigmoidGradGrad,
              "The gradient of Sigmoid, whose result is y: dy * y * (1 - y)."),
};

}  // namespace
}  // namespace sluice
