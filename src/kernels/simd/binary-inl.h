// The loops of the binary kernels, for the target being compiled. They are
// plain C++ that the compiler vectorises: each op is one to a few instructions,
// so hand-written code would gain nothing.
//
// An op is a struct with `template <class T> static R F(T a, T b)`.
#include <cstdint>
#include <type_traits>

#include "kernels/simd/binary.h"
#include "kernels/simd/by_dtype.h"
#include "kernels/simd/half-inl.h"

#if defined(SLUICE_KERNELS_SIMD_BINARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_SIMD_BINARY_INL_H_
#undef SLUICE_KERNELS_SIMD_BINARY_INL_H_
#else
#define SLUICE_KERNELS_SIMD_BINARY_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {

// in == out is allowed, so each iteration depends only on its own elements, as
// the simd pragma asserts.
template <class Op, class T>
bool Loop(Operands mode, const void* pa, const void* pb, void* po, int64_t n) {
  using R = decltype(Op::template F<T>(T(), T()));
  const T* a = static_cast<const T*>(pa);
  const T* b = static_cast<const T*>(pb);
  R* out = static_cast<R*>(po);
  switch (mode) {
    case Operands::kVectorVector:
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = Op::template F<T>(a[i], b[i]);
      break;
    case Operands::kScalarVector: {
      if (n == 0) break;
      const T s = *a;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = Op::template F<T>(s, b[i]);
      break;
    }
    case Operands::kVectorScalar: {
      if (n == 0) break;
      const T s = *b;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = Op::template F<T>(a[i], s);
      break;
    }
  }
  return true;
}

// A 16-bit type computed in float. R is T16, or bool for comparisons.
template <class Op, class T16>
bool LoopVia(Operands mode, const void* pa, const void* pb, void* po,
             int64_t n) {
  constexpr bool kPredicate =
      std::is_same_v<decltype(Op::template F<float>(0.f, 0.f)), bool>;
  const T16* a = static_cast<const T16*>(pa);
  const T16* b = static_cast<const T16*>(pb);
  alignas(64) float fa[kBlock];
  alignas(64) float fb[kBlock];
  if (n == 0) return true;
  if (mode == Operands::kScalarVector) fa[0] = *a;
  if (mode == Operands::kVectorScalar) fb[0] = *b;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = n - i < kBlock ? n - i : kBlock;
    if (mode != Operands::kScalarVector) ToFloat(a + i, fa, m);
    if (mode != Operands::kVectorScalar) ToFloat(b + i, fb, m);
    if constexpr (kPredicate) {
      Loop<Op, float>(mode, fa, fb, static_cast<bool*>(po) + i, m);
    } else {
      float* result = mode == Operands::kScalarVector ? fb : fa;
      Loop<Op, float>(mode, fa, fb, result, m);
      FromFloat(result, static_cast<T16*>(po) + i, m);
    }
  }
  return true;
}

template <class Op>
BinaryFn PickFloats(DType t) {
  return ByDType<BinaryFn>(FloatTypes(), t, []<class T>() -> BinaryFn {
    if constexpr (std::is_floating_point_v<T>)
      return Loop<Op, T>;
    else
      return LoopVia<Op, T>;
  });
}

// For ops whose result has the same bits for signed and unsigned operands.
template <class Op>
BinaryFn PickUnsigned(DType t) {
  return ByDType<BinaryFn>(IntTypes(), t, []<class T>() -> BinaryFn {
    return Loop<Op, std::make_unsigned_t<T>>;
  });
}

template <class Op>
BinaryFn PickInts(DType t) {
  return ByDType<BinaryFn>(IntTypes(), t,
                           []<class T>() -> BinaryFn { return Loop<Op, T>; });
}

template <class Op>
BinaryFn PickComplex(DType t) {
  return ByDType<BinaryFn>(ComplexTypes(), t,
                           []<class T>() -> BinaryFn { return Loop<Op, T>; });
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#endif
