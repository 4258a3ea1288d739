// Casts between float and the 16-bit floats, plain casts whose speed depends on
// the instruction set, and casts through a third type.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

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

void DoubleToInt32(const void* pin, void* pout, int64_t n) {
  const double* in = static_cast<const double*>(pin);
  int32_t* out = static_cast<int32_t*>(pout);
  const hn::ScalableTag<double> d;
  const hn::Rebind<int32_t, decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Halfway beyond the ends, where truncation still fits.
  const auto low = hn::Set(d, -2147483649.0), high = hn::Set(d, 2147483648.0);
  const auto least = hn::Set(d, -2147483648.0);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::LoadU(d, in + i);
    const auto fits = hn::And(hn::Gt(x, low), hn::Lt(x, high));
    hn::StoreU(hn::DemoteTo(di, hn::IfThenElse(fits, x, least)), di, out + i);
  }
  for (; i < n; ++i)
    out[i] = in[i] > -2147483649.0 && in[i] < 2147483648.0
                 ? static_cast<int32_t>(in[i])
                 : std::numeric_limits<int32_t>::min();
}

// Of each pair of neighbours between which x lies, the float whose last bit is
// set: rounded again to 16 bits, it gives what x itself would.
void DoubleToOddFloat(const double* in, float* out, int64_t n) {
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<float, decltype(d)> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lost = hn::Set(du, (uint64_t{1} << 29) - 1);
  const auto last = hn::Set(du, uint64_t{1} << 29);
  const auto one = [&](auto x) HWY_ATTR {
    const auto bits = hn::BitCast(du, x);
    const auto exact = hn::Eq(hn::And(bits, lost), hn::Zero(du));
    const auto odd = hn::Or(hn::AndNot(lost, bits), last);
    return hn::BitCast(d, hn::IfThenElse(exact, bits, odd));
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::DemoteTo(df, one(hn::LoadU(d, in + i))), df, out + i);
  for (; i < n; ++i) {
    uint64_t bits = std::bit_cast<uint64_t>(in[i]);
    constexpr uint64_t kLost = (uint64_t{1} << 29) - 1;
    if ((bits & kLost) != 0) bits = (bits & ~kLost) | (kLost + 1);
    out[i] = static_cast<float>(std::bit_cast<double>(bits));
  }
}

// Floats below the least normal one have fewer bits, so these are not made by
// DoubleToOddFloat; they are zero in half, and seldom.
template <class T16>
void DoubleTo16Bits(const void* pin, void* pout, int64_t n) {
  const double* in = static_cast<const double*>(pin);
  T16* out = static_cast<T16*>(pout);
  alignas(64) float f[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = n - i < kBlock ? n - i : kBlock;
    DoubleToOddFloat(in + i, f, m);
    FromFloat(f, out + i, m);
    if constexpr (std::is_same_v<T16, bfloat16>) {
      for (int64_t j = i; j < i + m; ++j)
        if (std::abs(in[j]) < 0x1p-126 && in[j] != 0)
          out[j] = DoubleTo16<T16>(in[j]);
    }
  }
}

// Whether a number differs from 0; for integers, of their bits.
template <class From>
void Truth(const void* pin, void* pout, int64_t n) {
  const From* in = static_cast<const From*>(pin);
  uint8_t* out = static_cast<uint8_t*>(pout);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    out[i] = static_cast<uint8_t>(in[i] != From(0) ? 1 : 0);
}

// Both steps on one block after the other.
template <class Middle, UnaryFn first, UnaryFn second, size_t in_size,
          size_t out_size>
void Through(const void* in, void* out, int64_t n) {
  alignas(64) Middle middle[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = n - i < kBlock ? n - i : kBlock;
    first(static_cast<const char*>(in) + i * static_cast<int64_t>(in_size),
          middle, m);
    second(middle, static_cast<char*>(out) + i * static_cast<int64_t>(out_size),
           m);
  }
}

// Integers of 8 or 16 bits, of numbers with a fraction: through 32 bits,
// truncated to the type. `To` is unsigned for both.
template <class To>
UnaryFn ToSmall(DType from) {
  constexpr UnaryFn kCut = Plain<int32_t, To>;
  switch (from) {
    case DType::kFloat:
      return Through<int32_t, FloatToInt32, kCut, 4, sizeof(To)>;
    case DType::kDouble:
      return Through<int32_t, DoubleToInt32, kCut, 8, sizeof(To)>;
    case DType::kHalf:
      return Through<float, Widen<half>,
                     Through<int32_t, FloatToInt32, kCut, 4, sizeof(To)>, 2,
                     sizeof(To)>;
    case DType::kBfloat16:
      return Through<float, Widen<bfloat16>,
                     Through<int32_t, FloatToInt32, kCut, 4, sizeof(To)>, 2,
                     sizeof(To)>;
    case DType::kInt16:
    case DType::kUint16:
      return Plain<uint16_t, To>;
    case DType::kInt32:
    case DType::kUint32:
      return Plain<uint32_t, To>;
    case DType::kInt64:
    case DType::kUint64:
      return Plain<uint64_t, To>;
    case DType::kInt8:
      return Plain<int8_t, To>;
    case DType::kBool:
    case DType::kUint8:
      return Plain<uint8_t, To>;
    default:
      return nullptr;
  }
}

UnaryFn ToBool(DType from) {
  switch (from) {
    case DType::kFloat:
      return Truth<float>;
    case DType::kDouble:
      return Truth<double>;
    case DType::kHalf:
      return Through<float, Widen<half>, Truth<float>, 2, 1>;
    case DType::kBfloat16:
      return Through<float, Widen<bfloat16>, Truth<float>, 2, 1>;
    case DType::kInt8:
    case DType::kUint8:
      return Truth<uint8_t>;
    case DType::kInt16:
    case DType::kUint16:
      return Truth<uint16_t>;
    case DType::kInt32:
    case DType::kUint32:
      return Truth<uint32_t>;
    case DType::kInt64:
    case DType::kUint64:
      return Truth<uint64_t>;
    default:
      return nullptr;
  }
}

// Integers, as floats that are rounded again.
template <class T16>
UnaryFn To16Bits(DType from) {
  switch (from) {
    case DType::kFloat:
      return Narrow<T16>;
    case DType::kDouble:
      return DoubleTo16Bits<T16>;
    case DType::kBool:
    case DType::kUint8:
      return Through<float, Plain<uint8_t, float>, Narrow<T16>, 1, 2>;
    case DType::kInt8:
      return Through<float, Plain<int8_t, float>, Narrow<T16>, 1, 2>;
    case DType::kInt16:
      return Through<float, Plain<int16_t, float>, Narrow<T16>, 2, 2>;
    case DType::kUint16:
      return Through<float, Plain<uint16_t, float>, Narrow<T16>, 2, 2>;
    case DType::kInt32:
      return Through<float, Plain<int32_t, float>, Narrow<T16>, 4, 2>;
    case DType::kInt64:
      return Through<float, Plain<int64_t, float>, Narrow<T16>, 8, 2>;
    default:
      return nullptr;
  }
}

// bool is stored as the bytes 0 and 1.
template <class To>
UnaryFn FromByte(DType from) {
  return from == DType::kBool || from == DType::kUint8 ? Plain<uint8_t, To>
                                                       : nullptr;
}

// From 16-bit floats to a type of 32 bits or more.
template <UnaryFn second, size_t out_size>
UnaryFn From16Bits(DType from) {
  if (from == DType::kHalf)
    return Through<float, Widen<half>, second, 2, out_size>;
  if (from == DType::kBfloat16)
    return Through<float, Widen<bfloat16>, second, 2, out_size>;
  return nullptr;
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
      if (from == DType::kFloat) return Plain<float, double>;
      return From16Bits<Plain<float, double>, 8>(from);
    case DType::kHalf:
      return from_bfloat16 ? Across<bfloat16, half> : To16Bits<half>(from);
    case DType::kBfloat16:
      return from_half ? Across<half, bfloat16> : To16Bits<bfloat16>(from);
    case DType::kBool:
      return ToBool(from);
    case DType::kInt8:
    case DType::kUint8:
      return ToSmall<uint8_t>(from);
    case DType::kInt16:
    case DType::kUint16:
      return ToSmall<uint16_t>(from);
    case DType::kInt32:
      if (from == DType::kFloat) return FloatToInt32;
      if (from == DType::kDouble) return DoubleToInt32;
      if (from == DType::kInt64) return Plain<int64_t, int32_t>;
      if (from_half || from_bfloat16) return From16Bits<FloatToInt32, 4>(from);
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
