// Functions of the normal distribution: erfc, and the inverses of erf and of
// the distribution function.
#include <cmath>
#include <limits>

#include "kernels/simd/target.h"
#include "kernels/simd/unary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/unary_normal.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {

// For floats: exp(-a^2) p(q) / (1 + 2a), where a = |x|, q = (a - 2) / (a + 2)
// and the polynomial p is within 1.4e-8 of (1 + 2a) exp(a^2) erfc(a) up to
// 10.1, from where on erfc is 0 in floats. (Such a q: Shepherd and Laframboise,
// "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", 1981.)
struct Erfc {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    const V one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f);
    const V a = hn::Min(hn::Abs(x), hn::Set(d, 10.1f));
    const V q = hn::Div(hn::Sub(a, two), hn::Add(a, two));
    constexpr float kP[] = {1.27697837f,     -0.0927639827f, -0.16603142f,
                            0.164055347f,    -0.0542043f,    -0.00805987604f,
                            0.00863168295f,  0.00131352409f, -0.00122992927f,
                            -0.000400578341f};
    V p = hn::Set(d, kP[9]);
    for (int i = 8; i >= 0; --i) p = hn::MulAdd(p, q, hn::Set(d, kP[i]));
    // a^2 = square + rest.
    const V square = hn::Mul(a, a);
#if HWY_NATIVE_FMA
    const V rest = hn::MulSub(a, a, square);
#else  // (That would be 0. Products of halves of the bits are exact.)
    const V high = hn::And(
        a, hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), 0xfffff000u)));
    const V low = hn::Sub(a, high);
    const V rest =
        hn::MulAdd(low, hn::Add(a, high), hn::Sub(hn::Mul(high, high), square));
#endif
    V y = hn::Mul(hn::Exp(d, hn::Neg(square)),
                  hn::Div(p, hn::MulAdd(two, a, one)));
    y = hn::NegMulAdd(y, rest, y);
    y = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(two, y), y);
    return hn::IfThenElse(IsNumber(d, x), y, x);
  }
};

template <class D>
HWY_INLINE hn::Vec<D> Ratio(D d, hn::Vec<D> r, const double (&above)[8],
                            const double (&below)[8]) {
  auto a = hn::Set(d, above[7]), b = hn::Set(d, below[7]);
  for (int i = 6; i >= 0; --i) {
    a = hn::MulAdd(a, r, hn::Set(d, above[i]));
    b = hn::MulAdd(b, r, hn::Set(d, below[i]));
  }
  return hn::Div(a, b);
}

// The y, times `scale`, with P(|X| < |y|) = |x| for a normally distributed X
// and the sign of x, where tail = (1 - |x|) / 2 more precisely: Wichura,
// "Algorithm AS 241", 1988 (PPND16), for doubles.
template <class D>
HWY_INLINE hn::Vec<D> Quantile(D d, hn::Vec<D> x, hn::Vec<D> tail,
                               double scale) {
  using V = hn::Vec<D>;
  static constexpr double kCentre[2][8] = {
      {3.387132872796366608, 133.14166789178437745, 1971.5909503065514427,
       13731.693765509461125, 45921.953931549871457, 67265.770927008700853,
       33430.575583588128105, 2509.0809287301226727},
      {1, 42.313330701600911252, 687.1870074920579083, 5394.1960214247511077,
       21213.794301586595867, 39307.89580009271061, 28729.085735721942674,
       5226.495278852545925}};
  static constexpr double kNear[2][8] = {
      {1.42343711074968357734, 4.6303378461565452959, 5.7694972214606914055,
       3.64784832476320460504, 1.27045825245236838258, 0.24178072517745061177,
       0.0227238449892691845833, 7.7454501427834140764e-4},
      {1, 2.05319162663775882187, 1.6763848301838038494, 0.68976733498510000455,
       0.14810397642748007459, 0.0151986665636164571966,
       5.475938084995344946e-4, 1.05075007164441684324e-9}};
  static constexpr double kFar[2][8] = {
      {6.6579046435011037772, 5.4637849111641143699, 1.7848265399172913358,
       0.29656057182850489123, 0.026532189526576123093,
       0.0012426609473880784386, 2.71155556874348757815e-5,
       2.01033439929228813265e-7},
      {1, 0.59983220655588793769, 0.13692988092273580531,
       0.0148753612908506148525, 7.868691311456132591e-4,
       1.8463183175100546818e-5, 1.4215117583164458887e-7,
       2.04426310338993978564e-15}};
  const V half = hn::Set(d, 0.5), times = hn::Set(d, scale);
  const V q = hn::Mul(half, x);
  V y = hn::Mul(x, hn::Mul(hn::Mul(half, times),
                           Ratio(d, hn::NegMulAdd(q, q, hn::Set(d, 0.180625)),
                                 kCentre[0], kCentre[1])));
  const auto out = hn::Lt(tail, hn::Set(d, 0.075));
  if (hn::AllFalse(d, out)) return y;
  const V r = hn::Sqrt(hn::Neg(hn::Log(d, tail)));
  V z = Ratio(d, hn::Sub(r, hn::Set(d, 1.6)), kNear[0], kNear[1]);
  const auto far = hn::Gt(r, hn::Set(d, 5.0));
  if (HWY_UNLIKELY(!hn::AllFalse(d, far)))
    z = hn::IfThenElse(
        far, Ratio(d, hn::Sub(r, hn::Set(d, 5.0)), kFar[0], kFar[1]), z);
  y = hn::IfThenElse(out, hn::CopySign(hn::Mul(z, times), x), y);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  y = hn::IfThenElse(hn::Eq(tail, hn::Zero(d)),
                     hn::CopySign(hn::Set(d, kInf), x), y);
  return hn::IfThenElse(hn::Ge(tail, hn::Zero(d)), y, hn::NaN(d));
}

struct Erfinv {
  template <class D>
  static HWY_INLINE hn::Vec<D> Of(D d, hn::Vec<D> x) {
    const auto half = hn::Set(d, 0.5);
    return Quantile(d, x, hn::NegMulAdd(half, hn::Abs(x), half),
                    0.70710678118654752440);
  }
};

struct Ndtri {
  template <class D>
  static HWY_INLINE hn::Vec<D> Of(D d, hn::Vec<D> p) {
    const auto one = hn::Set(d, 1.0), minus_half = hn::Set(d, -0.5);
    const auto x = hn::Add(hn::Add(p, minus_half), hn::Add(p, minus_half));
    return Quantile(d, x, hn::Min(p, hn::Sub(one, p)), 1);
  }
};

// Floats are computed in double.
template <class Op>
struct InDouble {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    if constexpr (sizeof(hn::TFromD<D>) == 8) {
      return Op::Of(d, x);
    } else {
      const hn::Half<D> half;
      const hn::Rebind<double, decltype(half)> wide;
      const auto of = [&](auto part) HWY_ATTR {
        return hn::DemoteTo(half, Op::Of(wide, hn::PromoteTo(wide, part)));
      };
      return hn::Combine(d, of(hn::UpperHalf(half, x)),
                         of(hn::LowerHalf(half, x)));
    }
  }
};

}  // namespace

UnaryFn NormalFn(UnaryOp op, DType t) {
  switch (op) {
    case UnaryOp::kErfc:  // Doubles: unary_scalar.cc.
      return t == DType::kDouble ? nullptr : PickMap<Erfc>(t);
    case UnaryOp::kErfinv:
      return PickMap<InDouble<Erfinv>>(t);
    case UnaryOp::kNdtri:
      return PickMap<InDouble<Ndtri>>(t);
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(NormalFn);
UnaryFn GetUnaryNormal(UnaryOp op, DType t) {
  return HWY_DYNAMIC_DISPATCH(NormalFn)(op, t);
}
}  // namespace sluice::simd
#endif
