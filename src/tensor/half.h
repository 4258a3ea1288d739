// 16-bit floating-point storage types. Arithmetic is done in float; both
// conversions round to nearest even and keep NaN a NaN.
#ifndef SLUICE_TENSOR_HALF_H_
#define SLUICE_TENSOR_HALF_H_

#include <bit>
#include <cstdint>

namespace sluice {

namespace internal {

inline float HalfBitsToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exp = (h >> 10) & 0x1fu;
  const uint32_t man = h & 0x3ffu;
  if (exp == 0x1f)  // Infinity or NaN.
    return std::bit_cast<float>(sign | 0x7f800000u | (man << 13));
  if (exp == 0) {  // Zero or subnormal: man * 2^-24, exact in float.
    const float f = static_cast<float>(man) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(f) | sign);
  }
  return std::bit_cast<float>(sign | ((exp + 112) << 23) | (man << 13));
}

inline uint16_t FloatToHalfBits(float f) {
  const uint32_t x = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>((x >> 16) & 0x8000u);
  const uint32_t a = x & 0x7fffffffu;
  if (a > 0x7f800000u)  // NaN: quiet it, keep the top of the payload.
    return static_cast<uint16_t>(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
  if (a >= 0x477ff000u)  // Rounds past the largest half: infinity.
    return static_cast<uint16_t>(sign | 0x7c00u);
  if (a < 0x38800000u) {  // Subnormal or zero: let the FPU round at 2^-24.
    const float r = std::bit_cast<float>(a) + 0.5f;
    return static_cast<uint16_t>(
        sign | (std::bit_cast<uint32_t>(r) - std::bit_cast<uint32_t>(0.5f)));
  }
  const uint32_t rounded = a + 0xfffu + ((a >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

inline float Bfloat16BitsToFloat(uint16_t b) {
  return std::bit_cast<float>(static_cast<uint32_t>(b) << 16);
}

inline uint16_t FloatToBfloat16Bits(float f) {
  const uint32_t x = std::bit_cast<uint32_t>(f);
  if ((x & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((x >> 16) | 0x40u);
  return static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
}

}  // namespace internal

// IEEE 754 binary16.
struct half {
  uint16_t bits = 0;
  half() = default;
  explicit half(float f) : bits(internal::FloatToHalfBits(f)) {}
  operator float() const { return internal::HalfBitsToFloat(bits); }
};

// The upper half of an IEEE 754 binary32.
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float f) : bits(internal::FloatToBfloat16Bits(f)) {}
  operator float() const { return internal::Bfloat16BitsToFloat(bits); }
};

}  // namespace sluice

#endif  // SLUICE_TENSOR_HALF_H_
