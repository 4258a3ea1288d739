// Casts between float and the 16-bit floats, and plain casts whose speed
// depends on the instruction set.
#include <algorithm>
#include <limits>

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

namespace hn = hwy::HWY_NAMESPACE;

// Like FloatToInt in cast.cc: out-of-range values give the lowest integer.
void ToInt32(const float* in, int32_t* out, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto convert = [&](auto x) HWY_ATTR {
    const auto end = hn::Set(d, 2147483648.0f);
    const auto fits = hn::And(hn::Ge(x, hn::Neg(end)), hn::Lt(x, end));
    return hn::IfThenElse(hn::RebindMask(di, fits), hn::ConvertTo(di, x),
                          hn::Set(di, std::numeric_limits<int32_t>::min()));
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(convert(hn::LoadU(d, in + i)), di, out + i);
  if (i == n) return;
  alignas(HWY_MAX_BYTES) float rest[HWY_MAX_BYTES / sizeof(float)] = {};
  alignas(HWY_MAX_BYTES) int32_t done[HWY_MAX_BYTES / sizeof(int32_t)];
  std::copy(in + i, in + n, rest);
  hn::Store(convert(hn::Load(d, rest)), di, done);
  std::copy(done, done + (n - i), out + i);
}

void FloatToInt32(const void* in, void* out, int64_t n) {
  ToInt32(static_cast<const float*>(in), static_cast<int32_t*>(out), n);
}

// Through 32 bits, truncated to the type.
template <class To>
void FloatToSmall(const void* pin, void* pout, int64_t n) {
  const float* in = static_cast<const float*>(pin);
  To* out = static_cast<To*>(pout);
  alignas(64) int32_t wide[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = n - i < kBlock ? n - i : kBlock;
    ToInt32(in + i, wide, m);
    Plain<int32_t, To>(wide, out + i, m);
  }
}

// bool is stored as the bytes 0 and 1.
template <class To>
UnaryFn FromByte(DType from) {
  return from == DType::kBool || from == DType::kUint8 ? Plain<uint8_t, To>
                                                       : nullptr;
}

}  // namespace

UnaryFn CastHalfFn(DType from, DType to) {
  const bool from_half = from == DType::kHalf;
  const bool from_bfloat16 = from == DType::kBfloat16;
  switch (to) {
    case DType::kFloat:
      if (from_half) return Widen<half>;
      if (from_bfloat16) return Widen<bfloat16>;
      if (from == DType::kDouble) return Plain<double, float>;
      if (from == DType::kInt32) return Plain<int32_t, float>;
      if (from == DType::kInt64) return Plain<int64_t, float>;
      return FromByte<float>(from);
    case DType::kDouble:
      if (from == DType::kInt32) return Plain<int32_t, double>;
      return from == DType::kFloat ? Plain<float, double> : nullptr;
    case DType::kHalf:
      if (from == DType::kFloat) return Narrow<half>;
      return from_bfloat16 ? Across<bfloat16, half> : nullptr;
    case DType::kBfloat16:
      if (from == DType::kFloat) return Narrow<bfloat16>;
      return from_half ? Across<half, bfloat16> : nullptr;
    case DType::kInt8:
      return from == DType::kFloat ? FloatToSmall<int8_t> : nullptr;
    case DType::kUint8:
      return from == DType::kFloat ? FloatToSmall<uint8_t> : nullptr;
    case DType::kInt32:
      if (from == DType::kFloat) return FloatToInt32;
      if (from == DType::kInt64) return Plain<int64_t, int32_t>;
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
UnaryFn GetCastHalf(DType from, DType to) {
  return HWY_DYNAMIC_DISPATCH(CastHalfFn)(from, to);
}
}  // namespace sluice::simd
#endif
