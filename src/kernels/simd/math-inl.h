// Vector functions for the target being compiled, correct for all inputs: NaN,
// infinities and arguments outside the range of Highway's polynomials are
// either clamped or, if rare, evaluated by the C library lane by lane.
//
// An op is a struct with
//   template <class D, class V> static V F(D d, V x);    the vector function
//   template <class D, class V> static M Bad(D d, V x);  lanes F is wrong for
//   template <class T> static T Libm(T x);               what those get
// where the last two are left out if F is right everywhere.
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/simd/by_dtype.h"
#include "kernels/simd/half-inl.h"

#if defined(SLUICE_KERNELS_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_SIMD_MATH_INL_H_
#undef SLUICE_KERNELS_SIMD_MATH_INL_H_
#else
#define SLUICE_KERNELS_SIMD_MATH_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Op>
concept HasBadLanes = requires {
  Op::template Libm<float>(0.f);
};

template <class Op, class D, class V, class M>
HWY_NOINLINE V Repair(D d, V x, V y, M bad) {
  using T = hn::TFromD<D>;
  constexpr size_t kMaxLanes = HWY_MAX_BYTES / sizeof(T);
  alignas(HWY_MAX_BYTES) T in[kMaxLanes];
  alignas(HWY_MAX_BYTES) T out[kMaxLanes];
  alignas(HWY_MAX_BYTES) T is_bad[kMaxLanes];
  hn::Store(x, d, in);
  hn::Store(y, d, out);
  hn::Store(hn::IfThenElseZero(bad, hn::Set(d, T(1))), d, is_bad);
  for (size_t i = 0; i < hn::Lanes(d); ++i)
    if (is_bad[i] != T(0)) out[i] = Op::template Libm<T>(in[i]);
  return hn::Load(d, out);
}

template <class Op, class D, class V>
HWY_INLINE V Eval(D d, V x) {
  V y = Op::F(d, x);
  if constexpr (HasBadLanes<Op>) {
    const auto bad = Op::Bad(d, x);
    if (HWY_UNLIKELY(!hn::AllFalse(d, bad))) y = Repair<Op>(d, x, y, bad);
  }
  return y;
}

// out = Op(in). The last vector overlaps the one before it; it is read before
// anything is written, so that in == out is allowed.
template <class Op, class T>
HWY_NOINLINE void Map(const T* in, T* out, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (n < lanes) {
    alignas(HWY_MAX_BYTES) T buffer[HWY_MAX_BYTES / sizeof(T)] = {};
    for (int64_t i = 0; i < n; ++i) buffer[i] = in[i];
    hn::Store(Eval<Op>(d, hn::Load(d, buffer)), d, buffer);
    for (int64_t i = 0; i < n; ++i) out[i] = buffer[i];
    return;
  }
  const auto last = hn::LoadU(d, in + n - lanes);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(Eval<Op>(d, hn::LoadU(d, in + i)), d, out + i);
  if (i < n) hn::StoreU(Eval<Op>(d, last), d, out + n - lanes);
}

template <class Op, class T>
void MapFn(const void* in, void* out, int64_t n) {
  Map<Op, T>(static_cast<const T*>(in), static_cast<T*>(out), n);
}

// A 16-bit type computed in float.
template <class Op, class T16>
void MapVia(const void* in, void* out, int64_t n) {
  alignas(64) float f[kBlock];
  const T16* p = static_cast<const T16*>(in);
  T16* q = static_cast<T16*>(out);
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = n - i < kBlock ? n - i : kBlock;
    ToFloat(p + i, f, m);
    Map<Op, float>(f, f, m);
    FromFloat(f, q + i, m);
  }
}

using MapPtr = void (*)(const void* in, void* out, int64_t n);

template <class Op>
MapPtr PickMap(DType t) {
  return ByDType<MapPtr>(FloatTypes(), t, []<class T>() -> MapPtr {
    if constexpr (std::is_floating_point_v<T>)
      return MapFn<Op, T>;
    else
      return MapVia<Op, T>;
  });
}

// Beyond these bounds exp is infinity; Highway's is correct up to them.
template <class D>
HWY_INLINE hn::Vec<D> ExpLimit(D d) {
  using T = hn::TFromD<D>;
  return hn::Set(d, sizeof(T) == 4 ? T(104) : T(720));
}

template <class D, class V>
HWY_INLINE auto IsNumber(D, V x) {
  return hn::Eq(x, x);
}

struct Exp {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    const V y = hn::Exp(d, hn::Min(x, ExpLimit(d)));
    return hn::IfThenElse(IsNumber(d, x), y, x);
  }
};

// exp of an argument known to be at most 0 and not NaN.
template <class D, class V>
HWY_INLINE V ExpNonPositive(D d, V x) {
  return hn::Exp(d, x);
}

// Added to a float below 2^22, this rounds it to an integer, which is then in
// the low bits of the sum.
inline constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23.

// y * 2^n, where z is kRounder + n and the product is a normal number.
template <class D, class V>
HWY_INLINE V TimesPow2(D d, V y, V z) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(
      d, hn::Add(hn::BitCast(di, y), hn::ShiftLeft<23>(hn::BitCast(di, z))));
}

// (2^f - 1) / f for |f| <= 0.5, as a polynomial: 2^f to 1e-7.
inline constexpr float kExp2[5] = {0.693147242f, 0.240222394f, 0.055502817f,
                                   0.00967165548f, 0.00134135783f};

// For floats: an odd polynomial near 0, and 1 - 2 / (exp(2|x|) + 1) further
// out, which hides most of the error of the exp. Both are one polynomial whose
// coefficients are selected lane by lane: selecting costs less than
// multiplying.
struct Tanh {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    if constexpr (sizeof(hn::TFromD<D>) == 8) {
      return hn::Tanh(d, x);
    } else {
      const V one = hn::Set(d, 1.0f);
      const V t = hn::Min(hn::Abs(x), hn::Set(d, 9.5f));  // tanh is 1 there.
      const auto far = hn::Gt(t, hn::Set(d, 0.6f));
      const V rounder = hn::Set(d, kRounder);
      const V scale = hn::Set(d, 2.88539008f);  // 2 / ln 2
      const V z = hn::MulAdd(t, scale, rounder);
      const V f = hn::MulSub(t, scale, hn::Sub(z, rounder));
      const V t2 = hn::Mul(t, t);
      const V v = hn::IfThenElse(far, f, t2);
      constexpr float kNear[] = {-0.333332896f, 0.133317485f, -0.0537713133f,
                                 0.0207590498f, -0.00585649116f};
      const auto c = [&](int i) HWY_ATTR {
        return hn::IfThenElse(far, hn::Set(d, kExp2[i]), hn::Set(d, kNear[i]));
      };
      V y = c(4);
      for (int i = 3; i >= 0; --i) y = hn::MulAdd(y, v, c(i));
      y = hn::MulAdd(y, hn::IfThenElse(far, f, hn::Mul(t, t2)),
                     hn::IfThenElse(far, one, t));
      const V e = TimesPow2(d, y, z);  // exp(2t) in the far lanes.
      const V y_far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
      y = hn::IfThenElse(far, y_far, y);
      return hn::IfThenElse(IsNumber(d, x), hn::CopySign(y, x), x);
    }
  }
};

struct Expm1 {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    const V y = hn::Expm1(d, hn::Min(x, ExpLimit(d)));
    // Keeps NaN, and the sign of zero.
    const auto plain = hn::Or(hn::Lt(x, hn::Zero(d)), hn::Gt(x, hn::Zero(d)));
    return hn::IfThenElse(plain, y, x);
  }
};

struct Log {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    return hn::Log(d, x);
  }
  template <class D, class V>
  static HWY_INLINE auto Bad(D d, V x) {
    using T = hn::TFromD<D>;
    return hn::Not(
        hn::And(hn::Gt(x, hn::Zero(d)),
                hn::Lt(x, hn::Set(d, std::numeric_limits<T>::infinity()))));
  }
  template <class T>
  static T Libm(T x) {
    return std::log(x);
  }
};

struct Log1p {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    return hn::Log1p(d, x);
  }
  template <class D, class V>
  static HWY_INLINE auto Bad(D d, V x) {
    using T = hn::TFromD<D>;
    return hn::Not(
        hn::And(hn::Gt(x, hn::Set(d, T(-1))),
                hn::Lt(x, hn::Set(d, std::numeric_limits<T>::infinity()))));
  }
  template <class T>
  static T Libm(T x) {
    return std::log1p(x);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#endif
