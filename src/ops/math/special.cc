// Special functions of one, two and three arguments, computed in double.
#include "kernels/simd/special.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <type_traits>

#include "base/parallel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/simd/broadcast.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/math/elementwise.h"

namespace sluice {
namespace {

using grad::Add;
using grad::Mul;
using grad::Neg;
using grad::Number;
using grad::Sub;
using grad::SumToShape;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kEps = std::numeric_limits<double>::epsilon();
constexpr double kMaxLog = 709.0;  // exp(-kMaxLog) is still normal.

// ---- The incomplete gamma function ------------------------------------------

// A value and its derivative with respect to `a`. Series and fractions below
// are computed with doubles, or with these if the derivative is wanted.
struct Dual {
  Dual(double value = 0, double slope = 0) : v(value), d(slope) {}
  double v, d;
};
Dual operator+(Dual x, Dual y) { return {x.v + y.v, x.d + y.d}; }
Dual operator-(Dual x, Dual y) { return {x.v - y.v, x.d - y.d}; }
Dual operator*(Dual x, Dual y) { return {x.v * y.v, x.d * y.v + x.v * y.d}; }
Dual operator/(Dual x, Dual y) {
  const double inverse = 1 / y.v, v = x.v / y.v;
  return {v, (x.d - v * y.d) * inverse};
}

double ValueOf(double x) { return x; }
double ValueOf(Dual x) { return x.v; }
// times a + b.
template <typename N>
N Linear(double times, double a, double b) {
  if constexpr (std::is_same_v<N, Dual>)
    return {times * a + b, times};
  else
    return times * a + b;
}

bool Settled(double now, double before, double eps) {
  return std::abs(now - before) <= eps * std::abs(now);
}
bool Settled(Dual now, Dual before, double eps) {
  return Settled(now.v, before.v, eps) && Settled(now.d, before.d, eps);
}

// x^a e^-x / gamma(a).
template <typename N>
N GammaDensity(double a, double x) {
  const double log = a * std::log(x) - x - simd::Lgamma(a);
  const double v = log < -kMaxLog ? 0 : std::exp(log);
  if constexpr (std::is_same_v<N, Dual>)
    return {v, v * (std::log(x) - simd::Digamma(a))};
  else
    return v;
}

constexpr int kMaxTerms = 20000;

// P(a, x) for x <= max(a, 1): the power series.
template <typename N>
N LowerSeries(double a, double x, double eps) {
  N term = 1, sum = 1;
  for (int n = 1; n <= kMaxTerms; ++n) {
    term = term * (N(x) / Linear<N>(1, a, n));
    const N before = sum;
    sum = sum + term;
    if (Settled(sum, before, eps)) break;
  }
  return GammaDensity<N>(a, x) * sum / Linear<N>(1, a, 0);
}

// Q(a, x) = 1 - P(a, x) for larger x: the continued fraction.
template <typename N>
N UpperFraction(double a, double x, double eps) {
  constexpr double kBig = 4503599627370496.0;  // 2^52
  const N density = GammaDensity<N>(a, x);
  if (ValueOf(density) == 0) return 0;  // (Squares of x may be infinite.)
  N y = Linear<N>(-1, a, 1), z = Linear<N>(-1, a, x + 2);
  N p2 = 1, q2 = x, p1 = x + 1, q1 = z * N(x);
  N result = p1 / q1;
  for (int c = 1; c < kMaxTerms; ++c) {
    y = y + N(1);
    z = z + N(2);
    const N yc = y * N(c);
    const N p = p1 * z - p2 * yc, q = q1 * z - q2 * yc;
    p2 = p1, p1 = p, q2 = q1, q1 = q;
    if (ValueOf(q) != 0) {
      const N before = result;
      result = p / q;
      if (Settled(result, before, eps)) break;
    }
    if (std::abs(ValueOf(p)) > kBig)
      for (N* n : {&p1, &p2, &q1, &q2}) *n = *n * N(1 / kBig);
  }
  return density * result;
}

// P(a, x).
template <typename N>
N LowerGamma(double a, double x, double eps) {
  if (x == 0) return 0;  // For any a, as in TensorFlow.
  if (std::isnan(a) || std::isnan(x) || x < 0 || a <= 0)
    return Linear<N>(kNan, kNan, kNan);
  if (std::isinf(x)) return std::isinf(a) ? 0.0 : 1.0;
  if (std::isinf(a)) return 0;
  if (x > 1 && x > a) return N(1) - UpperFraction<N>(a, x, eps);
  return LowerSeries<N>(a, x, eps);
}

// `eps`: the precision of the results, here and below.
// (Clamped to 1, which the series may exceed.)
double Igamma(double a, double x, double eps) {
  const double p = LowerGamma<double>(a, x, eps);
  return p > 1 ? 1 : p;
}
double IgammaGradA(double a, double x, double eps) {
  return LowerGamma<Dual>(a, x, eps).d;
}
// The derivative of a gamma sample with respect to alpha, with P(a, x) fixed.
double GammaSampleGrad(double a, double x, double eps) {
  if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) return kNan;
  if (a == 0 || x == 0) return 0;
  const double density = GammaDensity<double>(a, x);
  if (density == 0) return 0;  // No sample has this value.
  return -LowerGamma<Dual>(a, x, eps).d * x / density;
}
double Igammac(double a, double x, double eps) {
  if (x < 0 || std::isnan(a) || a <= 0) return kNan;
  if (std::isinf(x)) return 0;  // Even if a is infinite, like Igamma.
  if (x >= 1 && x >= a) return UpperFraction<double>(a, x, eps);
  return 1 - Igamma(a, x, kEps);  // (It may cancel.)
}

// ---- Zeta, polygamma --------------------------------------------------------

// Hurwitz's zeta function: the sum of (q + n)^-x, by the Euler-Maclaurin
// formula.
double Zeta(double x, double q, double eps) {
  // B2k / (2k)!.
  constexpr double kB[] = {1 / 12.0,
                           -1 / 720.0,
                           1 / 30240.0,
                           -1 / 1209600.0,
                           1 / 47900160.0,
                           -1 / 1.8924375803183791606e9,
                           1 / 7.47242496e10,
                           -1 / 2.950130727918164224e12,
                           1 / 1.1646782814350067249e14,
                           -1 / 4.5979787224074726105e15,
                           1 / 1.8152105401943546773e17,
                           -1 / 7.1661652561756670113e18};
  if (x == 1) return kInf;
  if (std::isnan(x) || std::isnan(q) || x < 1) return kNan;
  if (q <= 0) {
    if (q == std::floor(q))
      return std::isinf(x) || std::fmod(x, 2) == 0 ? kInf : kNan;
    if (x != std::floor(x)) return kNan;
  }
  if (std::isinf(q) || (std::isinf(x) && q > 1)) return 0;  // Of such terms.
  // (The error of the product is multiplied in the result: by less than 750,
  // beyond which that is 0 or infinite.)
  const bool rough = eps > kEps && q > 0 && std::isfinite(x);
  const auto power = [&](double v) {
    return rough ? std::exp(-x * std::log(v)) : std::pow(v, -x);
  };
  double sum = power(q), a = q, b = 0;
  for (int i = 0; i < 9 || a <= 9; ++i) {
    a += 1;
    b = power(a);
    sum += b;
    // (Terms decrease while a is positive: after a zero term all are zero.)
    if ((b == 0 && a > 0) || std::abs(b) < eps * std::abs(sum)) return sum;
  }
  sum += b * a / (x - 1);
  sum -= 0.5 * b;
  const double inverse = 1 / a;
  double factor = 1, k = 0;
  for (const double c : kB) {
    factor *= x + k;
    b *= inverse;
    const double t = factor * b * c;
    sum += t;
    if (std::abs(t) < eps * std::abs(sum)) break;
    k += 1;
    factor *= x + k;
    b *= inverse;
    k += 1;
  }
  return sum;
}

double Polygamma(double n, double x, double eps) {
  if (n < 0 || n != std::floor(n)) return kNan;
  if (n == 0) return simd::Digamma(x);
  const double sign = std::fmod(n, 2) == 0 ? -1 : 1;
  return sign * std::exp(simd::Lgamma(n + 1)) * Zeta(n + 1, x, eps);
}

// ---- The incomplete beta function -------------------------------------------

// The continued fraction of I_x(a, b), by Lentz's method.
double BetaFraction(double a, double b, double x, double eps) {
  constexpr double kTiny = 1e-300;
  const auto nudge = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / nudge(1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m < kMaxTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / nudge(1 + even * d);
    c = nudge(1 + even / c);
    h *= d * c;
    const double odd =
        -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / nudge(1 + odd * d);
    c = nudge(1 + odd / c);
    const double step = d * c;
    h *= step;
    if (std::abs(step - 1) < eps) break;
  }
  return h;
}

double Betainc(double a, double b, double x, double eps) {
  if (!(a > 0) || !(b > 0) || !(x >= 0) || !(x <= 1)) return kNan;
  if (x == 0 || x == 1) return x;
  const double log = simd::Lgamma(a + b) - simd::Lgamma(a) - simd::Lgamma(b) +
                     a * std::log(x) + b * std::log1p(-x);
  const double front = std::exp(log);
  return x < (a + 1) / (a + b + 2)
             ? front * BetaFraction(a, b, x, eps) / a
             : 1 - front * BetaFraction(b, a, 1 - x, eps) / b;
}

// ---- Bessel functions -------------------------------------------------------

// e^-|x| I_order(|x|).
double ScaledBessel(int order, double x) {
  if (std::isnan(x)) return kNan;
  if (std::isinf(x)) return 0;
  if (x < 50) {  // The power series, whose terms are all positive.
    const long double quarter = static_cast<long double>(x) * x / 4;
    long double term = order == 0 ? 1 : static_cast<long double>(x) / 2;
    long double sum = term;
    for (int k = 1; term > kEps * kEps * sum; ++k) {
      term *= quarter / (k * (k + order));
      sum += term;
    }
    return static_cast<double>(sum * std::exp(-static_cast<long double>(x)));
  }
  double term = 1, sum = 1;  // The asymptotic series.
  const double mu = 4.0 * order * order;
  for (int k = 1; k < 30; ++k) {
    const double odd = 2.0 * k - 1;
    term *= -(mu - odd * odd) / (8.0 * k * x);
    sum += term;
    if (std::abs(term) < kEps) break;
  }
  return sum / std::sqrt(2 * std::numbers::pi * x);
}
double BesselI0e(double x) { return ScaledBessel(0, std::abs(x)); }
double BesselI1e(double x) {
  return std::copysign(ScaledBessel(1, std::abs(x)), x);
}

// ---- Kernels ----------------------------------------------------------------

constexpr int64_t kGrain = 1024;

template <double (*F)(double)>
struct One {
  template <typename T>
  struct Of {
    explicit Of(const Node&) {}
    Status Run(KernelContext& ctx) const {
      const Tensor& x = ctx.input(0);
      SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, x.dtype(), x.shape()));
      const T* in = x.raw<T>();
      T* out = ctx.output(0).template raw<T>();
      ParallelFor(x.num_elements(), kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          out[i] = T(F(static_cast<ComputeType<T>>(in[i])));
      });
      return OkStatus();
    }
  };
};

// The precision to compute results of type T with. (A series of a float settles
// at far less than its rounding, since what is cut off may be many times the
// last term.)
template <typename T>
constexpr double kEpsOf = sizeof(T) == 8 ? kEps : 0x1p-40;

template <double (*F)(double, double, double)>
struct Two {
  template <typename T>
  struct Of {
    explicit Of(const Node&) {}
    Status Run(KernelContext& ctx) const {
      const Tensor& a = ctx.input(0);
      const Tensor& b = ctx.input(1);
      const auto span = [](const Tensor& t) {
        return absl::Span<const int64_t>(t.shape().dims().data(),
                                         t.shape().dims().size());
      };
      simd::Broadcast<2> plan;
      if (!plan.Build({span(a), span(b)}))
        return IncompatibleShapes(a.shape(), b.shape());
      SLUICE_ASSIGN_OR_RETURN(
          const Shape shape,
          Shape::Make({plan.shape().data(), plan.shape().size()}));
      SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, a.dtype(), shape));
      const T *pa = a.raw<T>(), *pb = b.raw<T>();
      T* out = ctx.output(0).template raw<T>();
      const int last = plan.rank() - 1;
      const int64_t step_a = plan.stride(0, last),
                    step_b = plan.stride(1, last);
      plan.ForEachInner(0, plan.outer(), [&](int64_t at, const auto& offsets) {
        const T *ra = pa + offsets[0], *rb = pb + offsets[1];
        ParallelFor(plan.inner(), kGrain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            out[at + i] =
                T(F(static_cast<ComputeType<T>>(ra[i * step_a]),
                    static_cast<ComputeType<T>>(rb[i * step_b]), kEpsOf<T>));
        });
      });
      return OkStatus();
    }
  };
};

// For equal shapes, with scalars fitting any shape.
template <typename T>
struct BetaincKernel {
  explicit BetaincKernel(const Node&) {}
  Status Run(KernelContext& ctx) const {
    Shape shape;
    for (int i = 0; i < 3; ++i)
      if (ctx.input(i).rank() > 0) shape = ctx.input(i).shape();
    int64_t step[3];
    const T* in[3];
    for (int i = 0; i < 3; ++i) {
      const Tensor& t = ctx.input(i);
      if (t.rank() > 0 && !(t.shape() == shape))
        return InvalidArgument("a, b and x: expected equal shapes, got ",
                               t.shape().ToString(), " and ", shape.ToString());
      step[i] = t.rank() > 0 ? 1 : 0;
      in[i] = t.raw<T>();
    }
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), shape));
    T* out = ctx.output(0).template raw<T>();
    for (int64_t i = 0; i < shape.num_elements(); ++i)
      out[i] = static_cast<T>(Betainc(in[0][i * step[0]], in[1][i * step[1]],
                                      in[2][i * step[2]], kEpsOf<T>));
    return OkStatus();
  }
};

// ---- Gradients --------------------------------------------------------------

Output Unary(const char* op, Output x) { return Build(op, {x}); }

// x^(a-1) e^-x / gamma(a): the derivative of Igamma along x.
Output GammaSlope(Output a, Output x) {
  const Output power = Mul(Sub(a, Number(a, 1)), Unary("Log", x));
  return Unary("Exp", Sub(Add(Neg(x), power), Unary("Lgamma", a)));
}

Status IgammaGradient(GradContext& c, bool upper) {
  const Output a = c.input(0), x = c.input(1);
  const Output dy = upper ? Neg(c.dy[0]) : c.dy[0];
  c.grads[0] = SumToShape(Mul(Build("IgammaGradA", {a, x}), dy), a, x);
  c.grads[1] = SumToShape(Mul(GammaSlope(a, x), dy), x, a);
  return OkStatus();
}
Status LowerGradient(GradContext& c) { return IgammaGradient(c, false); }
Status UpperGradient(GradContext& c) { return IgammaGradient(c, true); }

Status ZetaGradient(GradContext& c) {
  const Output x = c.input(0), q = c.input(1);
  const Output slope = Mul(Neg(x), Build("Zeta", {Add(x, Number(x, 1)), q}));
  c.grads[1] = SumToShape(Mul(slope, c.dy[0]), q, x);
  return OkStatus();
}

Status PolygammaGradient(GradContext& c) {
  const Output n = c.input(0), x = c.input(1);
  const Output slope = Build("Polygamma", {Add(n, Number(n, 1)), x});
  c.grads[1] = SumToShape(Mul(slope, c.dy[0]), x, n);
  return OkStatus();
}

Status BetaincGradient(GradContext& c) {
  const Output a = c.input(0), b = c.input(1), x = c.input(2);
  const Output log_beta = Sub(Add(Unary("Lgamma", a), Unary("Lgamma", b)),
                              Unary("Lgamma", Add(a, b)));
  const Output log = Sub(Add(Build("Xlog1py", {Sub(b, Number(b, 1)), Neg(x)}),
                             Build("Xlogy", {Sub(a, Number(a, 1)), x})),
                         log_beta);
  c.grads[2] = grad::SumToShapeOf(Mul(Unary("Exp", log), c.dy[0]), x);
  return OkStatus();
}

Status BesselI0eGradient(GradContext& c) {
  const Output x = c.input(0);
  c.grads[0] = Mul(
      c.dy[0], Sub(Unary("BesselI1e", x), Mul(Unary("Sign", x), c.output(0))));
  return OkStatus();
}

// The formula is 0 / 0 at 0, where the derivative is 1/2.
Status BesselI1eGradient(GradContext& c) {
  const Output x = c.input(0);
  if (!x.valid()) return OkStatus();
  const Output is_tiny = Build("LessEqual", {Unary("Abs", x), Number(x, 1e-7)});
  const Output safe = grad::Select(is_tiny, grad::OnesLike(x), x);
  const Output slope = Sub(
      Unary("BesselI0e", safe),
      Mul(c.output(0), Add(Unary("Sign", safe), Unary("Reciprocal", safe))));
  c.grads[0] = Mul(c.dy[0], grad::Select(is_tiny, Number(x, 0.5), slope));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

constexpr char kDoubleTypes[] = "T: {float, double}";

OpDefBuilder Binary(const char* name, const char* a, const char* x,
                    const char* types, KernelMaker kernel, double low,
                    double high, const char* doc, const char* z = "z: T") {
  OpDefBuilder b(name);
  b.Input(a)
      .Input(x)
      .Output(z)
      .Attr(types)
      .Family("math")
      .Shape(BroadcastBinaryShape)
      .Kernel(std::move(kernel))
      .Sample({{.shape = {2, 3}, .low = low, .high = high},
               {.shape = {3}, .low = 0.5, .high = 4}})
      .Doc(doc);
  return b;
}

template <double (*F)(double, double, double)>
KernelMaker AllFloats() {
  return CpuStateFor<Two<F>::template Of, float, double, half, bfloat16>("T");
}

const OpRegistrar kBinary[] = {
    Binary("Igamma", "a: T", "x: T", kFloatTypes, AllFloats<Igamma>(), 0.5, 4,
           "The lower regularised incomplete gamma function P(a, x).")
        .Grad(LowerGradient),
    Binary("Igammac", "a: T", "x: T", kFloatTypes, AllFloats<Igammac>(), 0.5, 4,
           "The upper regularised incomplete gamma function Q(a, x).")
        .Grad(UpperGradient),
    Binary("IgammaGradA", "a: T", "x: T", kDoubleTypes,
           AllFloats<IgammaGradA>(), 0.5, 4,
           "The derivative of Igamma with respect to a.")
        .NoGradient("TensorFlow does not define one"),
    std::move(
        Binary(
            "RandomGammaGrad", "alpha: T", "sample: T", kDoubleTypes,
            CpuStateFor<Two<GammaSampleGrad>::template Of, float, double>("T"),
            0.5, 4, "The derivative of a gamma sample with respect to alpha.",
            "output: T")
            .Family("random")
            .NoGradient("TensorFlow does not define one")),
    Binary("Zeta", "x: T", "q: T", kDoubleTypes, AllFloats<Zeta>(), 1.5, 4,
           "Hurwitz's zeta function: the sum of (q + n)^-x over n >= 0.")
        .Grad(ZetaGradient),
};

SLUICE_OP(Polygamma)
    .Input("a: T")
    .Input("x: T")
    .Output("z: T")
    .Attr(kDoubleTypes)
    .Family("math")
    .Shape(BroadcastBinaryShape)
    .Kernel(AllFloats<Polygamma>())
    .Grad(PolygammaGradient)
    .Sample({{.shape = {3}, .values = {1, 2, 3}},
             {.shape = {2, 3}, .low = 0.5, .high = 4}})
    .Doc("The a-th derivative of the digamma function.");

Status BetaincShape(ShapeContext& c) {
  PartialShape all = PartialShape::Scalar();
  for (int i = 0; i < 3; ++i) {
    const PartialShape& s = c.input(i);
    if (!s.rank_known()) return OkStatus();
    if (s.rank() == 0) continue;
    if (all.rank() == 0) {
      all = s;
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(all, all.MergeWith(s));
  }
  c.set_output(0, std::move(all));
  return OkStatus();
}

SLUICE_OP(Betainc)
    .Input("a: T")
    .Input("b: T")
    .Input("x: T")
    .Output("z: T")
    .Attr(kDoubleTypes)
    .Family("math")
    .Shape(BetaincShape)
    .Kernel(CpuStateFor<BetaincKernel, float, double>("T"))
    .Grad(BetaincGradient)
    .Sample({{.shape = {2, 3}, .low = 0.5, .high = 4},
             {.shape = {2, 3}, .low = 0.5, .high = 4},
             {.shape = {2, 3}, .low = 0.1, .high = 0.9}})
    .Doc("The regularised incomplete beta function I_x(a, b).");

OpDefBuilder Bessel(const char* name, KernelMaker kernel, GradFn gradient,
                    const char* doc) {
  OpDefBuilder b(name);
  b.Input("x: T")
      .Output("y: T")
      .Attr(kFloatTypes)
      .Family("math")
      .Shape(UnchangedShape)
      .Kernel(std::move(kernel))
      .Grad(gradient)
      .Sample({{.shape = {2, 3}, .low = 0.2, .high = 4}})
      .Doc(doc);
  return b;
}

const OpRegistrar kBessel[] = {
    Bessel("BesselI0e",
           CpuStateFor<One<BesselI0e>::Of, float, double, half, bfloat16>("T"),
           BesselI0eGradient,
           "exp(-|x|) times the modified Bessel function of order 0."),
    Bessel("BesselI1e",
           CpuStateFor<One<BesselI1e>::Of, float, double, half, bfloat16>("T"),
           BesselI1eGradient,
           "exp(-|x|) times the modified Bessel function of order 1."),
};

}  // namespace
}  // namespace sluice
