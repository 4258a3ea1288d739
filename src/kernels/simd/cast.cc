#include "kernels/simd/cast.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace sluice::simd {
namespace {

constexpr int32_t kCastGrain = 32768;

template <class T>
inline constexpr bool kIs16Bit =
    std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;
template <class T>
inline constexpr bool kIsComplex =
    std::is_same_v<T, complex64> || std::is_same_v<T, complex128>;
template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || kIs16Bit<T>;

// Out-of-range values are undefined in the language; here they give the result
// of x86-64's conversion: the lowest 32-bit integer (64-bit for the types that
// are converted through 64 bits), truncated to the type.
template <class To, class From>
To FloatToInt(From x) {
  constexpr bool kBy32 = sizeof(To) < 4 || std::is_same_v<To, int32_t>;
  using Signed = std::conditional_t<kBy32, int32_t, int64_t>;
  // Truncation brings values above -2^31 - 1 into 32 bits; at 64 bits, and in
  // float, there are no values between -2^k - 1 and -2^k.
  constexpr From kEnd =
      static_cast<From>(kBy32 ? 2147483648.0 : 9223372036854775808.0);
  constexpr From kLeast = kBy32 && sizeof(From) == 8 ? -kEnd - From(1) : -kEnd;
  const bool above = kBy32 && sizeof(From) == 8 ? x > kLeast : x >= kLeast;
  if (above && x < kEnd) return static_cast<To>(static_cast<Signed>(x));
  if constexpr (std::is_same_v<To, uint64_t>) {
    if (x >= kEnd && x < 2 * kEnd)
      return static_cast<uint64_t>(static_cast<Signed>(x - kEnd)) +
             (uint64_t{1} << 63);
  }
  return static_cast<To>(std::numeric_limits<Signed>::min());
}

template <class To, class From>
To Convert(From x) {
  if constexpr (kIsComplex<From>) {
    if constexpr (kIsComplex<To>) {
      using Part = typename To::value_type;
      return To(static_cast<Part>(x.real()), static_cast<Part>(x.imag()));
    } else if constexpr (std::is_same_v<To, bool>) {
      return x != From(0);
    } else {
      return Convert<To>(x.real());
    }
  } else if constexpr (kIsComplex<To>) {
    return To(Convert<typename To::value_type>(x), 0);
  } else if constexpr (kIs16Bit<From>) {
    return Convert<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (kIs16Bit<To>) {
    if constexpr (std::is_same_v<From, double>)
      return DoubleTo16<To>(x);
    else
      return To(static_cast<float>(x));
  } else if constexpr (kIsFloat<From> && std::is_integral_v<To>) {
    return FloatToInt<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
void Loop(const void* pin, void* pout, int64_t n) {
  const From* in = static_cast<const From*>(pin);
  To* out = static_cast<To*>(pout);
  for (int64_t i = 0; i < n; ++i) out[i] = Convert<To>(in[i]);
}

template <int kSize>
void Copy(const void* in, void* out, int64_t n) {
  if (in != out && n > 0) std::memcpy(out, in, static_cast<size_t>(n) * kSize);
}

UnaryFn PickCopy(size_t size) {
  switch (size) {
    case 1:
      return Copy<1>;
    case 2:
      return Copy<2>;
    case 4:
      return Copy<4>;
    case 8:
      return Copy<8>;
    case 16:
      return Copy<16>;
    default:
      return nullptr;
  }
}

template <class From>
UnaryFn PickTo(DType to) {
  switch (to) {
    case DType::kBool:
      return Loop<From, bool>;
    case DType::kInt8:
      return Loop<From, int8_t>;
    case DType::kInt16:
      return Loop<From, int16_t>;
    case DType::kInt32:
      return Loop<From, int32_t>;
    case DType::kInt64:
      return Loop<From, int64_t>;
    case DType::kUint8:
      return Loop<From, uint8_t>;
    case DType::kUint16:
      return Loop<From, uint16_t>;
    case DType::kUint32:
      return Loop<From, uint32_t>;
    case DType::kUint64:
      return Loop<From, uint64_t>;
    case DType::kHalf:
      return Loop<From, half>;
    case DType::kBfloat16:
      return Loop<From, bfloat16>;
    case DType::kFloat:
      return Loop<From, float>;
    case DType::kDouble:
      return Loop<From, double>;
    case DType::kComplex64:
      return Loop<From, complex64>;
    case DType::kComplex128:
      return Loop<From, complex128>;
    default:
      return nullptr;
  }
}

UnaryFn Pick(DType from, DType to) {
  switch (from) {
    case DType::kBool:
      return PickTo<bool>(to);
    case DType::kInt8:
      return PickTo<int8_t>(to);
    case DType::kInt16:
      return PickTo<int16_t>(to);
    case DType::kInt32:
      return PickTo<int32_t>(to);
    case DType::kInt64:
      return PickTo<int64_t>(to);
    case DType::kUint8:
      return PickTo<uint8_t>(to);
    case DType::kUint16:
      return PickTo<uint16_t>(to);
    case DType::kUint32:
      return PickTo<uint32_t>(to);
    case DType::kUint64:
      return PickTo<uint64_t>(to);
    case DType::kHalf:
      return PickTo<half>(to);
    case DType::kBfloat16:
      return PickTo<bfloat16>(to);
    case DType::kFloat:
      return PickTo<float>(to);
    case DType::kDouble:
      return PickTo<double>(to);
    case DType::kComplex64:
      return PickTo<complex64>(to);
    case DType::kComplex128:
      return PickTo<complex128>(to);
    default:
      return nullptr;
  }
}

// Clears the bits of the wider number that the narrower one cannot hold, so
// that rounding has no effect.
template <class From, class To>
void Truncated(const void* pin, void* pout, int64_t n) {
  using Bits = std::conditional_t<sizeof(From) == 8, uint64_t, uint32_t>;
  constexpr int kFrom = sizeof(From) == 8 ? 52 : 23;
  constexpr int kTo = std::is_same_v<To, float>  ? 23
                      : std::is_same_v<To, half> ? 10
                                                 : 7;
  constexpr Bits kLost = (Bits{1} << (kFrom - kTo)) - 1;
  const From* in = static_cast<const From*>(pin);
  To* out = static_cast<To*>(pout);
  for (int64_t i = 0; i < n; ++i) {
    const From x = in[i];
    out[i] = Convert<To>(
        x != x ? x : std::bit_cast<From>(std::bit_cast<Bits>(x) & ~kLost));
  }
}

UnaryFn PickTruncated(DType from, DType to) {
  if (from == DType::kDouble) {
    if (to == DType::kFloat) return Truncated<double, float>;
    if (to == DType::kHalf) return Truncated<double, half>;
    if (to == DType::kBfloat16) return Truncated<double, bfloat16>;
  } else if (from == DType::kFloat) {
    if (to == DType::kHalf) return Truncated<float, half>;
    if (to == DType::kBfloat16) return Truncated<float, bfloat16>;
  }
  return nullptr;
}

}  // namespace

UnaryKernel GetCast(DType from, DType to, bool truncate) {
  UnaryKernel k;
  k.grain = kCastGrain;
  k.fn = truncate ? PickTruncated(from, to) : nullptr;
  if (k.fn == nullptr && from == to && Pick(from, to) != nullptr)
    k.fn = PickCopy(DTypeSize(from));
  if (k.fn == nullptr) k.fn = GetCastHalf(from, to);
  if (k.fn == nullptr) k.fn = Pick(from, to);
  if (k.fn == nullptr) return UnaryKernel();
  k.in_size = static_cast<uint8_t>(DTypeSize(from));
  k.out_size = static_cast<uint8_t>(DTypeSize(to));
  return k;
}

}  // namespace sluice::simd
