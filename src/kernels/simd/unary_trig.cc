// The circular functions and the inverses of the hyperbolic ones.
#include <cmath>
#include <limits>

#include "kernels/simd/target.h"
#include "kernels/simd/unary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/unary_trig.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {

// Lanes where |x| <= limit is false (including NaN).
template <class D, class V>
HWY_INLINE auto Beyond(D d, V x, hn::TFromD<D> limit) {
  return hn::Not(hn::Le(hn::Abs(x), hn::Set(d, limit)));
}

// Highway's argument reduction is accurate up to this bound.
inline constexpr int kCircularLimit = 39000;

struct Sin {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    // Keeps the sign of zero.
    return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, hn::Sin(d, x));
  }
  template <class D, class V>
  static HWY_INLINE auto Bad(D d, V x) {
    return Beyond(d, x, hn::TFromD<D>(kCircularLimit));
  }
  template <class T>
  static T Libm(T x) {
    return std::sin(x);
  }
};

struct Cos {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    return hn::Cos(d, x);
  }
  template <class D, class V>
  static HWY_INLINE auto Bad(D d, V x) {
    return Beyond(d, x, hn::TFromD<D>(kCircularLimit));
  }
  template <class T>
  static T Libm(T x) {
    return std::cos(x);
  }
};

struct Asin {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    return hn::Asin(d, x);
  }
  template <class D, class V>
  static HWY_INLINE auto Bad(D d, V x) {
    return Beyond(d, x, hn::TFromD<D>(1));
  }
  template <class T>
  static T Libm(T x) {
    return std::asin(x);
  }
};

struct Acos {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    return hn::Acos(d, x);
  }
  template <class D, class V>
  static HWY_INLINE auto Bad(D d, V x) {
    return Beyond(d, x, hn::TFromD<D>(1));
  }
  template <class T>
  static T Libm(T x) {
    return std::acos(x);
  }
};

struct Atan {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    return hn::Atan(d, x);
  }
};

struct Asinh {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    return hn::Asinh(d, x);
  }
  template <class D, class V>
  static HWY_INLINE auto Bad(D d, V x) {
    return Beyond(d, x, std::numeric_limits<hn::TFromD<D>>::max());
  }
  template <class T>
  static T Libm(T x) {
    return std::asinh(x);
  }
};

struct Acosh {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    return hn::Acosh(d, x);
  }
  template <class D, class V>
  static HWY_INLINE auto Bad(D d, V x) {
    using T = hn::TFromD<D>;
    return hn::Not(
        hn::And(hn::Ge(x, hn::Set(d, T(1))),
                hn::Le(x, hn::Set(d, std::numeric_limits<T>::max()))));
  }
  template <class T>
  static T Libm(T x) {
    return std::acosh(x);
  }
};

struct Atanh {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    return hn::Atanh(d, x);
  }
  template <class D, class V>
  static HWY_INLINE auto Bad(D d, V x) {
    return hn::Not(hn::Lt(hn::Abs(x), hn::Set(d, hn::TFromD<D>(1))));
  }
  template <class T>
  static T Libm(T x) {
    return std::atanh(x);
  }
};

}  // namespace

UnaryFn TrigFn(UnaryOp op, DType t) {
  switch (op) {
    case UnaryOp::kSin:
      return PickMap<Sin>(t);
    case UnaryOp::kCos:
      return PickMap<Cos>(t);
    case UnaryOp::kAsin:
      return PickMap<Asin>(t);
    case UnaryOp::kAcos:
      return PickMap<Acos>(t);
    case UnaryOp::kAtan:
      return PickMap<Atan>(t);
    case UnaryOp::kAsinh:
      return PickMap<Asinh>(t);
    case UnaryOp::kAcosh:
      return PickMap<Acosh>(t);
    case UnaryOp::kAtanh:
      return PickMap<Atanh>(t);
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(TrigFn);
UnaryFn GetUnaryTrig(UnaryOp op, DType t) {
  return HWY_DYNAMIC_DISPATCH(TrigFn)(op, t);
}
}  // namespace sluice::simd
#endif
