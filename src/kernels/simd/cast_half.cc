// Casts between float and the 16-bit floats, and plain casts whose speed
// depends on the instruction set.
#include "kernels/simd/cast.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/cast_half.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {

template <class T16>
void Widen(const void* in, void* out, int64_t n) {
  ToFloat(static_cast<const T16*>(in), static_cast<float*>(out), n);
}

template <class T16>
void Narrow(const void* in, void* out, int64_t n) {
  FromFloat(static_cast<const float*>(in), static_cast<T16*>(out), n);
}

template <class From, class To>
void Across(const void* pin, void* pout, int64_t n) {
  const From* in = static_cast<const From*>(pin);
  To* out = static_cast<To*>(pout);
  alignas(64) float f[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = n - i < kBlock ? n - i : kBlock;
    ToFloat(in + i, f, m);
    FromFloat(f, out + i, m);
  }
}

template <class From, class To>
void Plain(const void* pin, void* pout, int64_t n) {
  const From* in = static_cast<const From*>(pin);
  To* out = static_cast<To*>(pout);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<To>(in[i]);
}

// bool is stored as the bytes 0 and 1.
template <class To>
CastFn FromByte(DType from) {
  return from == DType::kBool || from == DType::kUint8 ? Plain<uint8_t, To>
                                                       : nullptr;
}

}  // namespace

CastFn CastHalfFn(DType from, DType to) {
  const bool from_half = from == DType::kHalf;
  const bool from_bfloat16 = from == DType::kBfloat16;
  switch (to) {
    case DType::kFloat:
      if (from_half) return Widen<half>;
      if (from_bfloat16) return Widen<bfloat16>;
      if (from == DType::kDouble) return Plain<double, float>;
      if (from == DType::kInt32) return Plain<int32_t, float>;
      return FromByte<float>(from);
    case DType::kDouble:
      return from == DType::kFloat ? Plain<float, double> : nullptr;
    case DType::kHalf:
      if (from == DType::kFloat) return Narrow<half>;
      return from_bfloat16 ? Across<bfloat16, half> : nullptr;
    case DType::kBfloat16:
      if (from == DType::kFloat) return Narrow<bfloat16>;
      return from_half ? Across<half, bfloat16> : nullptr;
    case DType::kInt32:
      return FromByte<int32_t>(from);
    case DType::kInt64:
      if (from == DType::kInt32) return Plain<int32_t, int64_t>;
      return FromByte<int64_t>(from);
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(CastHalfFn);
CastFn GetCastHalf(DType from, DType to) {
  return HWY_DYNAMIC_DISPATCH(CastHalfFn)(from, to);
}
}  // namespace sluice::simd
#endif
