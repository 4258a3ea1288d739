// The unary kernels of one to a few instructions.
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/simd/by_dtype.h"
#include "kernels/simd/target.h"
#include "kernels/simd/unary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/unary_simple.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {

// Each iteration depends only on its own element, so in == out is allowed.
template <class Op, class T>
void Loop(const void* pin, void* pout, int64_t n) {
  using R = decltype(Op::template F<T>(T()));
  const T* in = static_cast<const T*>(pin);
  R* out = static_cast<R*>(pout);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = Op::template F<T>(in[i]);
}

// A 16-bit type computed in float.
template <class Op, class T16>
void LoopVia(const void* pin, void* pout, int64_t n) {
  using R = decltype(Op::template F<float>(0.f));
  const T16* in = static_cast<const T16*>(pin);
  alignas(64) float f[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = n - i < kBlock ? n - i : kBlock;
    ToFloat(in + i, f, m);
    if constexpr (std::is_same_v<R, bool>) {
      Loop<Op, float>(f, static_cast<bool*>(pout) + i, m);
    } else {
      Loop<Op, float>(f, f, m);
      FromFloat(f, static_cast<T16*>(pout) + i, m);
    }
  }
}

template <class T>
inline constexpr bool kFloating = std::is_floating_point_v<T>;

struct Neg {
  template <class T>
  static T F(T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(T(0) - x);
    else
      return -x;
  }
};
struct Square {
  template <class T>
  static T F(T x) {
    if constexpr (std::is_integral_v<T> && sizeof(T) < 4) {
      return static_cast<T>(static_cast<uint32_t>(x) * x);
    } else {
      return x * x;
    }
  }
};
struct Sign {
  template <class T>
  static T F(T x) {
    if constexpr (kFloating<T>) {
      // (Differences of bools would be made one by one.)
      const T s = (x > T(0) ? T(1) : T(0)) - (x < T(0) ? T(1) : T(0));
      return x == x ? s : x;
    } else {
      return static_cast<T>((x > T(0)) - (x < T(0)));
    }
  }
};
struct Abs {
  template <class T>
  static T F(T x) {
    if constexpr (kFloating<T>) {
      return std::fabs(x);
    } else if constexpr (std::is_unsigned_v<T>) {
      return x;
    } else {
      using U = std::make_unsigned_t<T>;
      const U u = static_cast<U>(x);
      return static_cast<T>(x < 0 ? static_cast<U>(U(0) - u) : u);
    }
  }
};
struct Relu {
  template <class T>
  static T F(T x) {
    return x < T(0) ? T(0) : x;
  }
};
struct Relu6 {
  template <class T>
  static T F(T x) {
    const T y = x < T(0) ? T(0) : x;
    return y > T(6) ? T(6) : y;
  }
};
struct Identity {
  template <class T>
  static T F(T x) {
    return x;
  }
};
struct Softsign {
  template <class T>
  static T F(T x) {
    return x / (T(1) + std::fabs(x));
  }
};
struct Reciprocal {
  template <class T>
  static T F(T x) {
    return T(1) / x;
  }
};
struct IsNan {
  template <class T>
  static bool F(T x) {
    return x != x;
  }
};
struct IsInf {
  template <class T>
  static bool F(T x) {
    return std::fabs(x) == std::numeric_limits<T>::infinity();
  }
};
struct IsFinite {
  template <class T>
  static bool F(T x) {
    return std::fabs(x) <= std::numeric_limits<T>::max();
  }
};
struct LogicalNot {
  template <class T>
  static T F(T x) {
    return x ^ T(1);
  }
};
struct Invert {
  template <class T>
  static T F(T x) {
    return static_cast<T>(~x);
  }
};
struct PopulationCount {
  template <class T>
  static uint8_t F(T x) {
    return static_cast<uint8_t>(std::popcount(x));
  }
};
struct Conj {
  template <class T>
  static T F(T x) {
    return T(x.real(), -x.imag());
  }
};
struct Real {
  template <class T>
  static auto F(T x) {
    return x.real();
  }
};
struct Imag {
  template <class T>
  static auto F(T x) {
    return x.imag();
  }
};

// x[i] > 0 ? value[i] : alpha * value[i].
template <class T>
void LeakyLoop(float alpha, const void* pvalue, const void* px, void* pout,
               int64_t n) {
  const T* value = static_cast<const T*>(pvalue);
  const T* x = static_cast<const T*>(px);
  T* out = static_cast<T*>(pout);
  if constexpr (kFloating<T>) {
    const T slope = static_cast<T>(alpha);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const T scaled = value[i] * slope;
      out[i] = x[i] > T(0) ? value[i] : scaled;
    }
  } else {
    alignas(64) float fv[kBlock];
    alignas(64) float fx[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = n - i < kBlock ? n - i : kBlock;
      ToFloat(value + i, fv, m);
      ToFloat(x + i, fx, m);
      LeakyLoop<float>(alpha, fv, fx, fv, m);
      FromFloat(fv, out + i, m);
    }
  }
}

// Written with Highway: in plain C++ these may set errno, and the compiler
// will not vectorise them.
struct Sqrt {
  template <class D, class V>
  static HWY_INLINE V F(D, V x) {
    return hn::Sqrt(x);
  }
};
struct Rsqrt {
  template <class D, class V>
  static HWY_INLINE V F(D d, V x) {
    return hn::Div(hn::Set(d, hn::TFromD<D>(1)), hn::Sqrt(x));
  }
};
struct Floor {
  template <class D, class V>
  static HWY_INLINE V F(D, V x) {
    return hn::Floor(x);
  }
};
struct Ceil {
  template <class D, class V>
  static HWY_INLINE V F(D, V x) {
    return hn::Ceil(x);
  }
};
struct Rint {
  template <class D, class V>
  static HWY_INLINE V F(D, V x) {
    return hn::Round(x);
  }
};

template <class Op>
UnaryFn PickFloats(DType t) {
  return ByDType<UnaryFn>(FloatTypes(), t, []<class T>() -> UnaryFn {
    if constexpr (std::is_floating_point_v<T>)
      return Loop<Op, T>;
    else
      return LoopVia<Op, T>;
  });
}
// For ops whose result has the same bits for signed and unsigned operands.
template <class Op>
UnaryFn PickUnsigned(DType t) {
  return ByDType<UnaryFn>(IntTypes(), t, []<class T>() -> UnaryFn {
    return Loop<Op, std::make_unsigned_t<T>>;
  });
}
template <class Op>
UnaryFn PickReal(DType t) {
  if (IsFloating(t)) return PickFloats<Op>(t);
  return ByDType<UnaryFn>(IntTypes(), t,
                          []<class T>() -> UnaryFn { return Loop<Op, T>; });
}
template <class Op>
UnaryFn PickComplex(DType t) {
  return ByDType<UnaryFn>(ComplexTypes(), t,
                          []<class T>() -> UnaryFn { return Loop<Op, T>; });
}

}  // namespace

UnaryFn SimpleFn(UnaryOp op, DType t) {
  switch (op) {
    case UnaryOp::kNeg:
      if (IsComplex(t)) return PickComplex<Neg>(t);
      return IsFloating(t) ? PickFloats<Neg>(t) : PickUnsigned<Neg>(t);
    case UnaryOp::kSquare:
      return IsFloating(t) ? PickFloats<Square>(t) : PickUnsigned<Square>(t);
    case UnaryOp::kSign:
      return PickReal<Sign>(t);
    case UnaryOp::kAbs:
      return PickReal<Abs>(t);
    case UnaryOp::kRelu:
      return PickReal<Relu>(t);
    case UnaryOp::kRelu6:
      return PickReal<Relu6>(t);
    case UnaryOp::kRound:
      return IsFloating(t) ? PickMap<Rint>(t) : PickUnsigned<Identity>(t);
    case UnaryOp::kSoftsign:
      return PickFloats<Softsign>(t);
    case UnaryOp::kReciprocal:
      return PickFloats<Reciprocal>(t);
    case UnaryOp::kIsNan:
      return PickFloats<IsNan>(t);
    case UnaryOp::kIsInf:
      return PickFloats<IsInf>(t);
    case UnaryOp::kIsFinite:
      return PickFloats<IsFinite>(t);
    case UnaryOp::kSqrt:
      return PickMap<Sqrt>(t);
    case UnaryOp::kRsqrt:
      return PickMap<Rsqrt>(t);
    case UnaryOp::kFloor:
      return PickMap<Floor>(t);
    case UnaryOp::kCeil:
      return PickMap<Ceil>(t);
    case UnaryOp::kRint:
      return PickMap<Rint>(t);
    // bool is stored as the bytes 0 and 1.
    case UnaryOp::kLogicalNot:
      return t == DType::kBool ? Loop<LogicalNot, uint8_t> : nullptr;
    case UnaryOp::kInvert:
      return PickUnsigned<Invert>(t);
    case UnaryOp::kPopulationCount:
      return PickUnsigned<PopulationCount>(t);
    case UnaryOp::kConj:
      return PickComplex<Conj>(t);
    case UnaryOp::kReal:
      return PickComplex<Real>(t);
    case UnaryOp::kImag:
      return PickComplex<Imag>(t);
    default:
      return nullptr;
  }
}

LeakyFn LeakyFnFor(DType t) {
  return ByDType<LeakyFn>(FloatTypes(), t,
                          []<class T>() -> LeakyFn { return LeakyLoop<T>; });
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(SimpleFn);
UnaryFn GetUnarySimple(UnaryOp op, DType t) {
  return HWY_DYNAMIC_DISPATCH(SimpleFn)(op, t);
}
HWY_EXPORT(LeakyFnFor);
LeakyFn GetLeaky(DType t) { return HWY_DYNAMIC_DISPATCH(LeakyFnFor)(t); }
}  // namespace sluice::simd
#endif
