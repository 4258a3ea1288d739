// Powers and angles of floats, and of half and bfloat16 through float. Powers
// are computed in double, so that the errors that exp2 magnifies are below the
// precision of float. Powers of doubles are the C library's, except of a few
// exponents.
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/simd/binary.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/binary_pow.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/contrib/math/math-inl.h"
#include "kernels/simd/half-inl.h"
#include "kernels/simd/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {

// The polynomial with these coefficients, the constant one first.
template <class D, class V, size_t n>
HWY_INLINE V Polynomial(D d, V x, const double (&c)[n]) {
  V y = hn::Set(d, c[n - 1]);
  for (size_t i = n - 1; i-- > 0;) y = hn::MulAdd(y, x, hn::Set(d, c[i]));
  return y;
}

// log2 of a number >= 0: relative error 2^-35. x = 2^k * m, m within a factor
// of sqrt(2) of 1.
template <class D, class V>
HWY_INLINE V Log2OfPositive(D d, V x) {
  static constexpr double kLog2[] = {
      // log2(1 + r) / r.
      1.4426950408687051,   -0.721347520868758,   0.4808983613956398,
      -0.3606736748276617,  0.2885372934638715,   -0.24045316560984967,
      0.2061753595502834,   -0.18030060068975334, 0.15876980159465665,
      -0.14315647102785461, 0.144748451798657,    -0.14283926678729286,
      0.07737030052804869};
  const hn::RebindToUnsigned<D> du;
  const auto one = hn::Set(du, uint64_t{0x3FF0000000000000});
  const auto bits = hn::BitCast(du, x);
  // 1023 + k in the exponent's place.
  const auto scaled =
      hn::Add(bits, hn::Sub(one, hn::Set(du, uint64_t{0x3FE6A09E667F3BCD})));
  const auto exponent =
      hn::And(scaled, hn::Set(du, uint64_t{0x7FF0000000000000}));
  const V r = hn::Sub(hn::BitCast(d, hn::Add(hn::Sub(bits, exponent), one)),
                      hn::Set(d, 1.0));
  // An integer in the low bits of 2^52.
  const V k =
      hn::Sub(hn::BitCast(d, hn::Or(hn::ShiftRight<52>(exponent),
                                    hn::Set(du, uint64_t{0x4330000000000000}))),
              hn::Set(d, 0x1p52 + 1023));
  const V y = hn::MulAdd(r, Polynomial(d, r, kLog2), k);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)),
                        hn::Set(d, -std::numeric_limits<double>::infinity()),
                        y);
}

// 2^x to 2^-29; beyond a float's range the result is out of range on the same
// side.
template <class D, class V>
HWY_INLINE V Exp2(D d, V x) {
  static constexpr double kExp2[] = {1,
                                     0.6931472062483354,
                                     0.24022651345915966,
                                     0.05550327791053181,
                                     0.009618003890391498,
                                     0.0013400269701070167,
                                     0.00015476300017382423};
  const hn::RebindToUnsigned<D> du;
  x = hn::Min(hn::Max(x, hn::Set(d, -200.0)), hn::Set(d, 200.0));
  const V rounder = hn::Set(d, 0x1.8p52);
  const V z = hn::Add(x, rounder);  // The rounded x is in its low bits.
  const V y = Polynomial(d, hn::Sub(x, hn::Sub(z, rounder)), kExp2);
  return hn::BitCast(
      d, hn::Add(hn::BitCast(du, y), hn::ShiftLeft<52>(hn::BitCast(du, z))));
}

// |x|^y in double; for non-NaN arguments.
template <class D, class V>
HWY_INLINE V Magnitude(D d, V x, V y) {
  const V p = hn::Mul(y, Log2OfPositive(d, hn::Abs(x)));
  // 0 to the 0 is 1.
  return Exp2(d, hn::IfThenZeroElse(hn::Eq(y, hn::Zero(d)), p));
}

// Gives r the sign of the power of x; NaN if x < 0 and y is not an integer.
template <class D, class V>
HWY_INLINE V Signed(D d, V x, V y, V r) {
  const V half = hn::Mul(y, hn::Set(d, 0.5f));
  const auto whole = hn::Eq(hn::Round(y), y);
  const auto even = hn::Eq(hn::Round(half), half);
  const V sign = hn::And(x, hn::SignBit(d));
  r = hn::IfThenElse(hn::And(whole, hn::Not(even)), hn::Or(r, sign), r);
  const auto none = hn::And(hn::Lt(x, hn::Zero(d)), hn::Not(whole));
  return hn::IfThenElse(none, hn::NaN(d), r);
}

template <class D, class V>
HWY_NOINLINE V ByLibm(D d, V x, V y) {
  alignas(HWY_MAX_BYTES) float a[HWY_MAX_BYTES / sizeof(float)];
  alignas(HWY_MAX_BYTES) float b[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(x, d, a);
  hn::Store(y, d, b);
  for (size_t i = 0; i < hn::Lanes(d); ++i) a[i] = std::pow(a[i], b[i]);
  return hn::Load(d, a);
}

template <class D, class V>
HWY_INLINE V Pow(D d, V x, V y) {
  const hn::Half<D> half;
  const hn::RepartitionToWide<D> wide;
  const auto low = Magnitude(wide, hn::PromoteTo(wide, hn::LowerHalf(half, x)),
                             hn::PromoteTo(wide, hn::LowerHalf(half, y)));
  const auto high = Magnitude(wide, hn::PromoteTo(wide, hn::UpperHalf(half, x)),
                              hn::PromoteTo(wide, hn::UpperHalf(half, y)));
  const V r = hn::Combine(d, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
  const V inf = hn::Set(d, std::numeric_limits<float>::infinity());
  const auto numbers =
      hn::And(hn::Lt(hn::Abs(x), inf), hn::Lt(hn::Abs(y), inf));
  if (HWY_UNLIKELY(!hn::AllTrue(d, numbers)))
    return hn::IfThenElse(numbers, Signed(d, x, y, r), ByLibm(d, x, y));
  return Signed(d, x, y, r);
}

// x to one of the exponents that are products, for all elements. False for
// another one.
template <typename T>
bool PowByProducts(const T* a, T exponent, T* out, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto set = [&](auto power) HWY_ATTR {
    ForVectors(d, n, [&](int64_t i, auto load, auto store) HWY_ATTR {
      store(power(load(a + i)), out + i);
    });
    return true;
  };
  if (exponent == T(2))
    return set([](auto x) HWY_ATTR { return hn::Mul(x, x); });
  if (exponent == T(1)) return set([](auto x) HWY_ATTR { return x; });
  if (exponent == T(3))
    return set([](auto x) HWY_ATTR { return hn::Mul(hn::Mul(x, x), x); });
  if (exponent == T(-1)) {
    const auto one = hn::Set(d, T(1));
    return set([one](auto x) HWY_ATTR { return hn::Div(one, x); });
  }
  return false;
}

bool PowDouble(Operands mode, const void* pa, const void* pb, void* po,
               int64_t n) {
  const double* a = static_cast<const double*>(pa);
  const double* b = static_cast<const double*>(pb);
  double* out = static_cast<double*>(po);
  if (n == 0) return true;
  // A scalar operand is read before anything is written.
  const double a0 = *a, b0 = *b;
  if (mode == Operands::kVectorScalar && PowByProducts(a, b0, out, n))
    return true;
  for (int64_t i = 0; i < n; ++i)
    out[i] = std::pow(mode == Operands::kScalarVector ? a0 : a[i],
                      mode == Operands::kVectorScalar ? b0 : b[i]);
  return true;
}

struct Power {
  template <class D, class V>
  static HWY_INLINE V F(D d, V a, V b) {
    return Pow(d, a, b);
  }
};

// The angle of (x, y), from the lesser of both divided by the greater.
struct Atan2 {
  template <class D, class V>
  static HWY_INLINE V F(D d, V y, V x) {
    const hn::RebindToSigned<D> di;
    const V zero = hn::Zero(d);
    const V ax = hn::Abs(x), ay = hn::Abs(y);
    const auto steep = hn::Gt(ay, ax);
    const V low = hn::IfThenElse(steep, ax, ay);
    const V high = hn::IfThenElse(steep, ay, ax);
    // 0 / 0 is 0, and infinity / infinity 1.
    const V same = hn::IfThenZeroElse(hn::Eq(high, zero), hn::Set(d, 1.0f));
    const V ratio = hn::IfThenElse(hn::Eq(low, high), same, hn::Div(low, high));
    V angle = hn::Atan(d, ratio);
    angle = hn::IfThenElse(steep,
                           hn::Sub(hn::Set(d, 1.57079637f),
                                   hn::Add(angle, hn::Set(d, 4.37113883e-8f))),
                           angle);
    const auto left =
        hn::RebindMask(d, hn::Lt(hn::BitCast(di, x), hn::Zero(di)));
    angle = hn::IfThenElse(left,
                           hn::Sub(hn::Set(d, 3.14159274f),
                                   hn::Add(angle, hn::Set(d, 8.74227766e-8f))),
                           angle);
    const auto defined = hn::And(hn::Eq(x, x), hn::Eq(y, y));
    return hn::IfThenElse(defined, hn::CopySign(angle, y), hn::Add(x, y));
  }
};

template <class Op>
bool FloatLoop(Operands mode, const void* pa, const void* pb, void* po,
               int64_t n) {
  const hn::ScalableTag<float> d;
  const float* a = static_cast<const float*>(pa);
  const float* b = static_cast<const float*>(pb);
  float* out = static_cast<float*>(po);
  if (n == 0) return true;
  if constexpr (std::is_same_v<Op, Power>) {
    if (mode == Operands::kVectorScalar && PowByProducts(a, *b, out, n))
      return true;
  }
  const auto a0 = hn::Set(d, *a), b0 = hn::Set(d, *b);
  ForVectors(d, n, [&](int64_t i, auto load, auto store) HWY_ATTR {
    store(Op::F(d, mode == Operands::kScalarVector ? a0 : load(a + i),
                mode == Operands::kVectorScalar ? b0 : load(b + i)),
          out + i);
  });
  return true;
}

template <class Op, class T16>
bool LoopVia(Operands mode, const void* pa, const void* pb, void* po,
             int64_t n) {
  const T16* a = static_cast<const T16*>(pa);
  const T16* b = static_cast<const T16*>(pb);
  T16* out = static_cast<T16*>(po);
  alignas(64) float fa[kBlock];
  alignas(64) float fb[kBlock];
  alignas(64) float result[kBlock];
  if (n == 0) return true;
  fa[0] = *a;
  fb[0] = *b;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = n - i < kBlock ? n - i : kBlock;
    if (mode != Operands::kScalarVector) ToFloat(a + i, fa, m);
    if (mode != Operands::kVectorScalar) ToFloat(b + i, fb, m);
    FloatLoop<Op>(mode, fa, fb, result, m);
    FromFloat(result, out + i, m);
  }
  return true;
}

template <class Op>
BinaryFn Pick(DType t) {
  switch (t) {
    case DType::kFloat:
      return FloatLoop<Op>;
    case DType::kHalf:
      return LoopVia<Op, half>;
    case DType::kBfloat16:
      return LoopVia<Op, bfloat16>;
    default:
      return nullptr;
  }
}

}  // namespace

BinaryFn PowFn(BinaryOp op, DType t) {
  if (op == BinaryOp::kPow)
    return t == DType::kDouble ? PowDouble : Pick<Power>(t);
  return op == BinaryOp::kAtan2 ? Pick<Atan2>(t) : nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(PowFn);
BinaryFn GetBinaryPow(BinaryOp op, DType t) {
  return HWY_DYNAMIC_DISPATCH(PowFn)(op, t);
}
}  // namespace sluice::simd
#endif
