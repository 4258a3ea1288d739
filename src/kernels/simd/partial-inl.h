// Loads and stores of partial vectors, for the last elements of an array. On
// targets without masked instructions, Highway's masked loads touch the
// excluded elements and require alignment.
#if defined(SLUICE_KERNELS_SIMD_PARTIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_SIMD_PARTIAL_INL_H_
#undef SLUICE_KERNELS_SIMD_PARTIAL_INL_H_
#else
#define SLUICE_KERNELS_SIMD_PARTIAL_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// p[i] where the mask (from FirstN) is set, and 0 elsewhere. Reads no other
// elements. T is float or double.
template <class D, class M, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadFirst(M mask, D d, const T* p) {
#if HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(mask, d, p);
#else
  HWY_ALIGN T all[HWY_MAX_BYTES / sizeof(T)] = {};
  const size_t n = hn::CountTrue(d, mask);
  for (size_t i = 0; i < n; ++i) all[i] = p[i];
  return hn::Load(d, all);
#endif
}

// Writes v[i] to p[i] where the mask (from FirstN) is set, and nothing else.
template <class D, class M, class T = hn::TFromD<D>>
HWY_INLINE void StoreFirst(hn::Vec<D> v, M mask, D d, T* p) {
#if HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(v, mask, d, p);
#else
  HWY_ALIGN T all[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, d, all);
  const size_t n = hn::CountTrue(d, mask);
  for (size_t i = 0; i < n; ++i) p[i] = all[i];
#endif
}

// Calls body(offset, load, store) for each vector of n elements; the last one
// may be partial, which only load and store need to handle.
template <class D, class Body>
HWY_INLINE void ForVectors(D d, int64_t n, Body body) {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    body(
        i, [d](const T* p) HWY_ATTR { return hn::LoadU(d, p); },
        [d](V v, T* p) HWY_ATTR { hn::StoreU(v, d, p); });
  }
  if (i < n) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(n - i));
    body(
        i, [d, mask](const T* p) HWY_ATTR { return LoadFirst(mask, d, p); },
        [d, mask](V v, T* p) HWY_ATTR { StoreFirst(v, mask, d, p); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#endif
