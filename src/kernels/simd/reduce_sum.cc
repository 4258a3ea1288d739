// Sums, means and functions of sums of squares.
#include <cmath>
#include <type_traits>

#include "kernels/simd/reduce.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/reduce_sum.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {

template <class T>
inline constexpr bool kIsComplex =
    std::is_same_v<T, complex64> || std::is_same_v<T, complex128>;

// float -> double, complex64 -> complex128, other types unchanged.
template <class T>
using Widened = std::conditional_t<
    std::is_same_v<T, float>, double,
    std::conditional_t<std::is_same_v<T, complex64>, complex128, T>>;

template <class R, class W>
R Narrow(W x) {
  if constexpr (kIsComplex<R>) {
    using Part = typename R::value_type;
    return R(static_cast<Part>(x.real()), static_cast<Part>(x.imag()));
  } else if constexpr (k16Bit<R>) {
    return R(static_cast<float>(x));
  } else {
    return static_cast<R>(x);
  }
}

template <class T>
struct Sum {
  using Value = T;
  using Total = Widened<T>;
  template <class A>
  static A Identity() {
    return A(0);
  }
  static Value Load(T x) { return x; }
  template <class A>
  static A Combine(A a, A b) {
    return static_cast<A>(a + b);
  }
  template <class R>
  static R Finish(Total x, int64_t) {
    return Narrow<R>(x);
  }
};

template <class T>
struct Mean : Sum<T> {
  // Integers are added up in 64 bits.
  using Value = std::conditional_t<
      std::is_integral_v<T>,
      std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>, T>;
  using Total = Widened<Value>;
  static Value Load(T x) { return static_cast<Value>(x); }
  template <class A>
  static A Combine(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<uint64_t>(a) +
                            static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
  template <class R>
  static R Finish(Total x, int64_t count) {
    if constexpr (std::is_integral_v<T>) {
      if (count == 0) return R(0);
      return static_cast<R>(x / static_cast<Total>(count));
    } else if constexpr (kIsComplex<T>) {
      using Part = typename Total::value_type;
      return Narrow<R>(Total(x.real() / static_cast<Part>(count),
                             x.imag() / static_cast<Part>(count)));
    } else {
      return Narrow<R>(x / static_cast<Total>(count));
    }
  }
};

template <class T>
struct SumSquares : Sum<T> {
  static T Load(T x) {
    if constexpr (kIsComplex<T>) {
      return T(x.real() * x.real() + x.imag() * x.imag(), 0);
    } else if constexpr (std::is_integral_v<T> && sizeof(T) < 4) {
      return static_cast<T>(static_cast<uint32_t>(x) * x);
    } else {
      return x * x;
    }
  }
};

template <class T>
struct EuclideanNorm : SumSquares<T> {
  template <class R>
  static R Finish(typename Sum<T>::Total x, int64_t) {
    if constexpr (std::is_integral_v<R>) {
      return static_cast<R>(std::sqrt(static_cast<double>(x)));
    } else {
      return Narrow<R>(std::sqrt(x));
    }
  }
};

template <template <class> class Op>
ReduceKernel Pick(DType t) {
  if (IsFloating(t)) return PickReduceFloats<Op>(t);
  return IsComplex(t) ? PickReduceComplex<Op>(t) : PickReduceUnsigned<Op>(t);
}

}  // namespace

ReduceKernel SumKernel(ReduceOp op, DType t) {
  switch (op) {
    case ReduceOp::kSum:
      return Pick<Sum>(t);
    case ReduceOp::kMean:
      if (IsComplex(t)) return PickReduceComplex<Mean>(t);
      return IsFloating(t) ? PickReduceFloats<Mean>(t)
                           : PickReduceInts<Mean>(t);
    case ReduceOp::kSumSquares:
      return Pick<SumSquares>(t);
    case ReduceOp::kEuclideanNorm:
      return Pick<EuclideanNorm>(t);
    default:
      return {};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(SumKernel);
ReduceKernel GetReduceSum(ReduceOp op, DType t) {
  return HWY_DYNAMIC_DISPATCH(SumKernel)(op, t);
}
}  // namespace sluice::simd
#endif
