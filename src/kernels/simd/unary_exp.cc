// exp, log and functions based on them.
#include <cmath>

#include "kernels/simd/target.h"
#include "kernels/simd/unary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/unary_exp.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {

struct Sigmoid {
  // For e = exp(-|x|), which cannot overflow: 1/(1+e), or e/(1+e) for negative
  // x.
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    const V one = hn::Set(d, hn::TFromD<D>(1));
    const V e = ExpNonPositive(d, hn::Neg(hn::Abs(x)));
    const V top = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one);
    return hn::IfThenElse(IsNumber(d, x), hn::Div(top, hn::Add(one, e)), x);
  }
};

struct Softplus {
  // max(x, 0) + log1p(exp(-|x|)).
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    const V e = ExpNonPositive(d, hn::Neg(hn::Abs(x)));
    const V y = hn::Add(hn::Max(x, hn::Zero(d)), hn::Log1p(d, e));
    return hn::IfThenElse(IsNumber(d, x), y, x);
  }
};

struct Elu {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    const V y = hn::Expm1(d, hn::Min(x, hn::Zero(d)));
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), y, x);
  }
};

struct Selu {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    using T = hn::TFromD<D>;
    const V scale = hn::Set(d, T(1.0507009873554804934193349852946));
    const V scale_alpha = hn::Set(d, T(1.7580993408473768599402175208123));
    const V y = hn::Expm1(d, hn::Min(x, hn::Zero(d)));
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(scale_alpha, y),
                          hn::Mul(scale, x));
  }
};

// Beyond this bound exp is close to overflow but sinh and cosh are not.
template <class D, class V>
HWY_INLINE auto BeyondHyperbolic(D d, V x) {
  using T = hn::TFromD<D>;
  const T limit = sizeof(T) == 4 ? T(88) : T(705);
  return hn::Not(hn::Le(hn::Abs(x), hn::Set(d, limit)));
}

struct Sinh {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    return hn::Sinh(d, x);
  }
  template <class D, class V>
  static HWY_INLINE auto Bad(D d, V x) {
    return BeyondHyperbolic(d, x);
  }
  template <class T>
  static T Libm(T x) {
    return std::sinh(x);
  }
};

struct Cosh {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    const V half = hn::Set(d, hn::TFromD<D>(0.5));
    const V e = hn::Exp(d, hn::Abs(x));
    return hn::Add(hn::Mul(half, e), hn::Div(half, e));
  }
  template <class D, class V>
  static HWY_INLINE auto Bad(D d, V x) {
    return BeyondHyperbolic(d, x);
  }
  template <class T>
  static T Libm(T x) {
    return std::cosh(x);
  }
};

// For floats: an odd polynomial near 0, and 1 - 2^q with another polynomial q
// further out; as in Tanh, a single polynomial whose coefficients are selected
// lane by lane.
struct Erf {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    const V one = hn::Set(d, 1.0f);
    const V t = hn::Min(hn::Abs(x), hn::Set(d, 4.0f));  // erf is 1 from 4 on.
    const auto far = hn::Gt(t, hn::Set(d, 0.9f));
    const auto c = [&](float is_far, float is_near) HWY_ATTR {
      return hn::IfThenElse(far, hn::Set(d, is_far), hn::Set(d, is_near));
    };
    const V v = hn::IfThenElse(far, t, hn::Mul(t, t));
    V y = c(2.84469075e-4f, -6.05344598e-4f);
    y = hn::MulAdd(y, v, c(-4.40828176e-3f, 5.00434591e-3f));
    y = hn::MulAdd(y, v, c(3.21389586e-2f, -2.67733987e-2f));
    y = hn::MulAdd(y, v, c(-1.50094047e-1f, 1.12819783e-1f));
    y = hn::MulAdd(y, v, c(-9.19083059e-1f, -3.76125067e-1f));
    y = hn::MulAdd(y, v, c(-1.62699866f, 1.28379151e-1f));
    y = hn::MulAdd(y, t, hn::IfThenElse(far, hn::Set(d, -2.56071915e-4f), t));
    const V rounder = hn::Set(d, kRounder);
    const V z = hn::Add(y, rounder);
    const V f = hn::Sub(y, hn::Sub(z, rounder));
    V e = hn::Set(d, kExp2[4]);
    for (int i = 3; i >= 0; --i) e = hn::MulAdd(e, f, hn::Set(d, kExp2[i]));
    e = TimesPow2(d, hn::MulAdd(e, f, one), z);
    y = hn::IfThenElse(far, hn::Sub(one, e), y);
    return hn::IfThenElse(IsNumber(d, x), hn::CopySign(y, x), x);
  }
};

MapPtr ErfFn(DType t) {
  switch (t) {
    case DType::kFloat:
      return MapFn<Erf, float>;
    case DType::kHalf:
      return MapVia<Erf, half>;
    case DType::kBfloat16:
      return MapVia<Erf, bfloat16>;
    default:  // Doubles: unary_scalar.cc.
      return nullptr;
  }
}

}  // namespace

UnaryFn ExpFn(UnaryOp op, DType t) {
  switch (op) {
    case UnaryOp::kErf:
      return ErfFn(t);
    case UnaryOp::kExp:
      return PickMap<Exp>(t);
    case UnaryOp::kExpm1:
      return PickMap<Expm1>(t);
    case UnaryOp::kLog:
      return PickMap<Log>(t);
    case UnaryOp::kLog1p:
      return PickMap<Log1p>(t);
    case UnaryOp::kSigmoid:
      return PickMap<Sigmoid>(t);
    case UnaryOp::kTanh:
      return PickMap<Tanh>(t);
    case UnaryOp::kSoftplus:
      return PickMap<Softplus>(t);
    case UnaryOp::kElu:
      return PickMap<Elu>(t);
    case UnaryOp::kSelu:
      return PickMap<Selu>(t);
    case UnaryOp::kSinh:
      return PickMap<Sinh>(t);
    case UnaryOp::kCosh:
      return PickMap<Cosh>(t);
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(ExpFn);
UnaryFn GetUnaryExp(UnaryOp op, DType t) {
  return HWY_DYNAMIC_DISPATCH(ExpFn)(op, t);
}
}  // namespace sluice::simd
#endif
