// Products, maxima, minima, any and all.
#include <limits>
#include <type_traits>

#include "kernels/simd/reduce.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/reduce_order.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Plain {
  using Value = T;
  using Total = T;
  static Value Load(T x) { return x; }
  template <class R>
  static R Finish(Total x, int64_t) {
    return R(x);
  }
};

template <class T>
struct Prod : Plain<T> {
  template <class A>
  static A Identity() {
    return A(1);
  }
  template <class A>
  static A Combine(A a, A b) {
    if constexpr (std::is_integral_v<A> && sizeof(A) < 4) {
      return static_cast<A>(static_cast<uint32_t>(a) * b);
    } else if constexpr (std::is_arithmetic_v<A>) {
      return a * b;
    } else {
      return A(a.real() * b.real() - a.imag() * b.imag(),
               a.real() * b.imag() + a.imag() * b.real());
    }
  }
};

template <class T>
struct Max : Plain<T> {
  static constexpr bool kVectors = std::is_floating_point_v<T>;
  template <class V>
  static V CombineVectors(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(b)), b, a);
  }
  template <class A>
  static A Identity() {
    using L = std::numeric_limits<A>;
    return L::has_infinity ? -L::infinity() : L::lowest();
  }
  template <class A>
  static A Combine(A a, A b) {
    if constexpr (std::is_floating_point_v<A>) {
      return ((a < b) | (b != b)) ? b : a;
    } else {
      return a < b ? b : a;
    }
  }
};

template <class T>
struct Min : Plain<T> {
  static constexpr bool kVectors = std::is_floating_point_v<T>;
  template <class V>
  static V CombineVectors(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
  }
  template <class A>
  static A Identity() {
    using L = std::numeric_limits<A>;
    return L::has_infinity ? L::infinity() : L::max();
  }
  template <class A>
  static A Combine(A a, A b) {
    if constexpr (std::is_floating_point_v<A>) {
      return ((b < a) | (b != b)) ? b : a;
    } else {
      return b < a ? b : a;
    }
  }
};

// bool is stored as the bytes 0 and 1.
struct Any : Plain<uint8_t> {
  template <class A>
  static A Identity() {
    return 0;
  }
  static uint8_t Combine(uint8_t a, uint8_t b) { return a | b; }
};
struct All : Plain<uint8_t> {
  template <class A>
  static A Identity() {
    return 1;
  }
  static uint8_t Combine(uint8_t a, uint8_t b) { return a & b; }
};

}  // namespace

ReduceKernel OrderKernel(ReduceOp op, DType t) {
  const bool floating = IsFloating(t);
  switch (op) {
    case ReduceOp::kProd:
      if (IsComplex(t)) return PickReduceComplex<Prod>(t);
      return floating ? PickReduceFloats<Prod>(t) : PickReduceUnsigned<Prod>(t);
    case ReduceOp::kMax:
      return floating ? PickReduceFloats<Max>(t) : PickReduceInts<Max>(t);
    case ReduceOp::kMin:
      return floating ? PickReduceFloats<Min>(t) : PickReduceInts<Min>(t);
    case ReduceOp::kAny:
      if (t == DType::kBool) return MakeReduce<Any, uint8_t>();
      return {};
    case ReduceOp::kAll:
      if (t == DType::kBool) return MakeReduce<All, uint8_t>();
      return {};
    default:
      return {};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(OrderKernel);
ReduceKernel GetReduceOrder(ReduceOp op, DType t) {
  return HWY_DYNAMIC_DISPATCH(OrderKernel)(op, t);
}
}  // namespace sluice::simd
#endif
