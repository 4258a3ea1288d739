// 16-bit floats to float and back, n elements, for the target being compiled.
// Rounds to nearest even and preserves NaN, as tensor/half.h does.
#include <bit>
#include <cstdint>

#include "hwy/highway.h"
#include "tensor/half.h"

#if defined(SLUICE_KERNELS_SIMD_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_SIMD_HALF_INL_H_
#undef SLUICE_KERNELS_SIMD_HALF_INL_H_
#else
#define SLUICE_KERNELS_SIMD_HALF_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {

// Block size for callers that convert to float and back: small enough that a
// few blocks stay in the first-level cache.
inline constexpr int64_t kBlock = 256;

[[maybe_unused]] inline void ToFloat(const bfloat16* in, float* out,
                                     int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(in[i].bits) << 16);
}

[[maybe_unused]] inline void FromFloat(const float* in, bfloat16* out,
                                       int64_t n) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::LoadU(d, in + i);
    const auto bits = hn::BitCast(di, x);
    const hn::RebindToUnsigned<decltype(d)> du;
    const auto high = hn::ShiftRight<16>(hn::BitCast(du, bits));
    const auto odd = hn::And(hn::BitCast(di, high), hn::Set(di, 1));
    const auto sum = hn::Add(bits, hn::Add(odd, hn::Set(di, 0x7fff)));
    const auto rounded = hn::ShiftRight<16>(hn::BitCast(du, sum));
    const auto nan = hn::Or(high, hn::Set(du, 0x40u));
    const auto number = hn::RebindMask(du, hn::Eq(x, x));
    // (At most 16 bits, so that the signed narrowing does not saturate.)
    const auto done = hn::BitCast(di, hn::IfThenElse(number, rounded, nan));
    hn::StoreU(hn::DemoteTo(d16, done), d16,
               reinterpret_cast<uint16_t*>(out + i));
  }
  for (; i < n; ++i) out[i] = bfloat16(in[i]);
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
[[maybe_unused]] inline void ToFloat(const half* in, float* out, int64_t n) {
  const hwy::HWY_NAMESPACE::ScalableTag<float> d;
  const hwy::HWY_NAMESPACE::Rebind<hwy::float16_t, decltype(d)> d16;
  const int64_t lanes = static_cast<int64_t>(Lanes(d));
  const auto* p = reinterpret_cast<const hwy::float16_t*>(in);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    StoreU(PromoteTo(d, LoadU(d16, p + i)), d, out + i);
  for (; i < n; ++i) out[i] = in[i];
}

[[maybe_unused]] inline void FromFloat(const float* in, half* out, int64_t n) {
  const hwy::HWY_NAMESPACE::ScalableTag<float> d;
  const hwy::HWY_NAMESPACE::Rebind<hwy::float16_t, decltype(d)> d16;
  const int64_t lanes = static_cast<int64_t>(Lanes(d));
  auto* p = reinterpret_cast<hwy::float16_t*>(out);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    StoreU(DemoteTo(d16, LoadU(d, in + i)), d16, p + i);
  for (; i < n; ++i) out[i] = half(in[i]);
}
#else
[[maybe_unused]] inline void ToFloat(const half* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = in[i];
}

[[maybe_unused]] inline void FromFloat(const float* in, half* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = half(in[i]);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#endif
