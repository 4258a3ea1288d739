// Shared by our own matrix products (gemm_simd.h), for the target being
// compiled.
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

// Calls macro(T, Name) for each element type: HWY_EXPORT takes no templates, so
// each needs a function of its own.
#ifndef SLUICE_GEMM_TYPES
#define SLUICE_GEMM_TYPES(macro)                                    \
  macro(float, Float) macro(double, Double) macro(uint32_t, Uint32) \
      macro(uint64_t, Uint64)
#endif

#if defined(SLUICE_KERNELS_DNN_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_DNN_GEMM_INL_H_
#undef SLUICE_KERNELS_DNN_GEMM_INL_H_
#else
#define SLUICE_KERNELS_DNN_GEMM_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::dnn {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// a * b + c, rounded once for floats; integers wrap.
template <class V>
HWY_INLINE V MulAdd(V a, V b, V c) {
  if constexpr (std::is_floating_point_v<hn::TFromV<V>>) {
    return hn::MulAdd(a, b, c);
  } else {
    return hn::Add(hn::Mul(a, b), c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::dnn
HWY_AFTER_NAMESPACE();

#endif
