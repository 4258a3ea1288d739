// Conversion of 32-bit words to numbers, bit for bit as in TensorFlow's random
// ops. Inline, since the kernels of more specialised distributions (gamma,
// Poisson, multinomial) build on them.
#ifndef SLUICE_KERNELS_RANDOM_DISTRIBUTIONS_H_
#define SLUICE_KERNELS_RANDOM_DISTRIBUTIONS_H_

#include <math.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/random/philox.h"
#include "tensor/half.h"

namespace sluice::random {

// [0, 1): a number in [1, 2) from the low mantissa bits, minus 1.
inline float UniformFloat(uint32_t x) {
  return std::bit_cast<float>((127u << 23) | (x & 0x7fffffu)) - 1.0f;
}
// `hi` gives the upper 20 bits of the mantissa, `lo` the lower 32.
inline double UniformDouble(uint32_t hi, uint32_t lo) {
  const uint64_t mantissa = uint64_t{hi & 0xfffffu} << 32 | lo;
  return std::bit_cast<double>(uint64_t{1023} << 52 | mantissa) - 1.0;
}
inline half UniformHalf(uint32_t x) {
  half h;
  h.bits = static_cast<uint16_t>((15u << 10) | (x & 0x3ffu));
  return half(static_cast<float>(h) - 1.0f);
}
inline bfloat16 UniformBfloat16(uint32_t x) {
  bfloat16 b;
  b.bits = static_cast<uint16_t>((127u << 7) | (x & 0x7fu));
  return bfloat16(static_cast<float>(b) - 1.0f);
}

// Two independent standard normals from two words (Box-Muller).
inline std::array<float, 2> BoxMullerFloat(uint32_t x0, uint32_t x1) {
  constexpr float kEpsilon = 1.0e-7f;  // Keeps the logarithm finite.
  float u1 = UniformFloat(x0);
  if (u1 < kEpsilon) u1 = kEpsilon;
  // The product is taken in double and rounded once, as TensorFlow does.
  const float v1 = static_cast<float>(2.0f * M_PI * UniformFloat(x1));
  const float u2 = std::sqrt(-2.0f * std::log(u1));
  float s, c;
  sincosf(v1, &s, &c);
  return {s * u2, c * u2};
}

// Two independent standard normals from four words.
inline std::array<double, 2> BoxMullerDouble(uint32_t x0, uint32_t x1,
                                             uint32_t x2, uint32_t x3) {
  constexpr double kEpsilon = 1.0e-7;
  double u1 = UniformDouble(x0, x1);
  if (u1 < kEpsilon) u1 = kEpsilon;
  const double v1 = 2 * M_PI * UniformDouble(x2, x3);
  const double u2 = std::sqrt(-2.0 * std::log(u1));
  double s, c;
  sincos(v1, &s, &c);
  return {s * u2, c * u2};
}

// a + b for a representable sum, even if b itself is not representable: both
// halves of b are. Avoids signed overflow.
template <typename Int>
Int SignedAdd(Int a, std::make_unsigned_t<Int> b) {
  const auto half_b = b >> 1;
  return static_cast<Int>(a + static_cast<Int>(half_b) +
                          static_cast<Int>(b - half_b));
}

inline uint64_t Join64(uint32_t lo, uint32_t hi) {
  return uint64_t{lo} | uint64_t{hi} << 32;
}

// A distribution turns one block into kCount elements of type Element. These
// use exactly one block for each group of kCount.

template <typename T>
struct UniformReal {
  using Element = T;
  static constexpr int kCount = sizeof(T) == 8 ? 2 : 4;
  std::array<T, kCount> operator()(const Philox::Block& x) const {
    if constexpr (std::is_same_v<T, double>) {
      return {UniformDouble(x[0], x[1]), UniformDouble(x[2], x[3])};
    } else if constexpr (std::is_same_v<T, float>) {
      return {UniformFloat(x[0]), UniformFloat(x[1]), UniformFloat(x[2]),
              UniformFloat(x[3])};
    } else if constexpr (std::is_same_v<T, half>) {
      return {UniformHalf(x[0]), UniformHalf(x[1]), UniformHalf(x[2]),
              UniformHalf(x[3])};
    } else {
      static_assert(std::is_same_v<T, bfloat16>);
      return {UniformBfloat16(x[0]), UniformBfloat16(x[1]),
              UniformBfloat16(x[2]), UniformBfloat16(x[3])};
    }
  }
};

template <typename T>
struct NormalReal {
  using Element = T;
  static constexpr int kCount = sizeof(T) == 8 ? 2 : 4;
  std::array<T, kCount> operator()(const Philox::Block& x) const {
    if constexpr (std::is_same_v<T, double>) {
      return BoxMullerDouble(x[0], x[1], x[2], x[3]);
    } else {
      const std::array<float, 2> a = BoxMullerFloat(x[0], x[1]);
      const std::array<float, 2> b = BoxMullerFloat(x[2], x[3]);
      return {T(a[0]), T(a[1]), T(b[0]), T(b[1])};
    }
  }
};

// [lo, hi) by remainder (a slight bias for wide ranges is TensorFlow's).
// REQUIRES: lo < hi.
template <typename T>
class UniformInt {
 public:
  using Element = T;
  using Unsigned = std::make_unsigned_t<T>;
  static constexpr int kCount = sizeof(T) == 8 ? 2 : 4;
  UniformInt(T lo, T hi)
      : lo_(lo),
        range_(static_cast<Unsigned>(hi) - static_cast<Unsigned>(lo)) {}
  std::array<T, kCount> operator()(const Philox::Block& x) const {
    if constexpr (sizeof(T) == 8) {
      return {At(Join64(x[0], x[1])), At(Join64(x[2], x[3]))};
    } else {
      return {At(x[0]), At(x[1]), At(x[2]), At(x[3])};
    }
  }

 private:
  T At(Unsigned bits) const {
    if constexpr (std::is_signed_v<T>) {
      return SignedAdd(lo_, bits % range_);
    } else {
      return lo_ + bits % range_;
    }
  }
  T lo_;
  Unsigned range_;
};

// All values of the type.
template <typename T>
struct UniformFullInt {
  using Element = T;
  static constexpr int kCount = sizeof(T) == 8 ? 2 : 4;
  std::array<T, kCount> operator()(const Philox::Block& x) const {
    if constexpr (sizeof(T) == 8) {
      return {static_cast<T>(Join64(x[0], x[1])),
              static_cast<T>(Join64(x[2], x[3]))};
    } else {
      return {static_cast<T>(x[0]), static_cast<T>(x[1]), static_cast<T>(x[2]),
              static_cast<T>(x[3])};
    }
  }
};

// Standard normals redrawn until they lie within (-2, 2): a varying number of
// words for each group of kCount elements.
template <typename T>
struct TruncatedNormalReal {
  using Element = T;
  static constexpr int kCount = sizeof(T) == 8 ? 2 : 4;
  std::array<T, kCount> operator()(SingleSamples& next) const {
    std::array<T, kCount> out;
    for (int have = 0;;) {
      const uint32_t x0 = next(), x1 = next();
      if constexpr (std::is_same_v<T, double>) {
        const uint32_t x2 = next(), x3 = next();
        for (double d : BoxMullerDouble(x0, x1, x2, x3)) {
          if (!(std::abs(d) < 2.0)) continue;
          out[have++] = d;
          if (have == kCount) return out;
        }
      } else {
        for (float f : BoxMullerFloat(x0, x1)) {
          if (!(std::abs(f) < 2.0f)) continue;
          out[have++] = T(f);
          if (have == kCount) return out;
        }
      }
    }
  }
};

}  // namespace sluice::random

#endif  // SLUICE_KERNELS_RANDOM_DISTRIBUTIONS_H_
