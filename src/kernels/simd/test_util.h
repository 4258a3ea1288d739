// Shared by the tests of the numeric kernels: seeded data that includes the
// edge cases of each type, sizes around the vector lengths, distances in units
// in the last place.
#ifndef SLUICE_KERNELS_SIMD_TEST_UTIL_H_
#define SLUICE_KERNELS_SIMD_TEST_UTIL_H_

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

#include "tensor/dtype.h"

namespace sluice::simd {

inline constexpr uint32_t kTestSeed = 20160;  // Printed by SCOPED_TRACE users.
inline constexpr int64_t kTestSizes[] = {0, 1, 7, 15, 16, 17, 64, 257, 1000};
inline constexpr int64_t kLargeTestSize = 100003;

template <class T>
inline constexpr bool kIs16BitFloat =
    std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;
template <class T>
inline constexpr bool kIsComplexType =
    std::is_same_v<T, complex64> || std::is_same_v<T, complex128>;

// An array that starts one element past an aligned address. (vector<bool> does
// not store an array.)
template <class T>
class Unaligned {
 public:
  explicit Unaligned(int64_t n)
      : size_(n), storage_(new T[static_cast<size_t>(n) + 1]()) {}
  T* data() { return storage_.get() + 1; }
  const T* data() const { return storage_.get() + 1; }
  int64_t size() const { return size_; }
  T& operator[](int64_t i) { return data()[i]; }
  const T& operator[](int64_t i) const { return data()[i]; }

 private:
  int64_t size_;
  std::unique_ptr<T[]> storage_;
};

// Random elements; about one in eight is an edge case of the type.
template <class T>
Unaligned<T> RandomArray(int64_t n, std::mt19937_64& rng,
                         bool with_edges = true) {
  Unaligned<T> v(n);
  for (int64_t i = 0; i < n; ++i) {
    const bool edge = with_edges && rng() % 8 == 0;
    if constexpr (std::is_same_v<T, bool>) {
      v[i] = rng() % 2 == 0;
    } else if constexpr (std::is_integral_v<T>) {
      const T edges[] = {std::numeric_limits<T>::min(),
                         std::numeric_limits<T>::max(), T(0), T(1),
                         static_cast<T>(-1)};
      v[i] = edge ? edges[rng() % 5] : static_cast<T>(rng());
    } else if constexpr (kIsComplexType<T>) {
      std::uniform_real_distribution<double> u(-3, 3);
      using R = typename T::value_type;
      const double re = u(rng), im = u(rng);
      v[i] = edge ? T(0) : T(static_cast<R>(re), static_cast<R>(im));
    } else {
      std::uniform_real_distribution<double> u(-3, 3);
      const float inf = std::numeric_limits<float>::infinity();
      const float edges[] = {0.0f,
                             -0.0f,
                             inf,
                             -inf,
                             1.0f,
                             -1.0f,
                             std::numeric_limits<float>::quiet_NaN()};
      v[i] = edge ? static_cast<T>(edges[rng() % 7])
                  : static_cast<T>(static_cast<float>(u(rng)));
    }
  }
  return v;
}

// Distance of two floating-point numbers counted in representable numbers;
// 0 for two NaNs, huge for a NaN and a number.
template <class T>
double UlpDistance(T a, T b) {
  if constexpr (kIs16BitFloat<T>) {
    const bool na = std::isnan(static_cast<float>(a));
    const bool nb = std::isnan(static_cast<float>(b));
    if (na || nb) return na && nb ? 0 : 1e30;
    const auto line = [](uint16_t u) {
      return u & 0x8000 ? -static_cast<int>(u & 0x7fff) : static_cast<int>(u);
    };
    return std::abs(line(a.bits) - line(b.bits));
  } else {
    if (std::isnan(a) || std::isnan(b))
      return std::isnan(a) && std::isnan(b) ? 0 : 1e30;
    using I = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    const auto line = [](T x) {
      const I i = std::bit_cast<I>(x);
      return static_cast<double>(
          i < 0 ? -static_cast<double>(i & std::numeric_limits<I>::max())
                : static_cast<double>(i));
    };
    if (a == b) return 0;
    const I ia = std::bit_cast<I>(a);
    const I ib = std::bit_cast<I>(b);
    if ((ia < 0) == (ib < 0))
      return std::abs(static_cast<double>(static_cast<int64_t>(ia) -
                                          static_cast<int64_t>(ib)));
    return std::abs(line(a) - line(b));
  }
}

// Equal within `ulps`; NaN equals NaN, and zeros of either sign are equal.
template <class T>
bool Near(T a, T b, double ulps) {
  if constexpr (kIsComplexType<T>) {
    using R = typename T::value_type;
    const R scale = std::abs(a) + std::abs(b);
    return a == b || std::abs(a - b) <= static_cast<R>(ulps) * scale *
                                            std::numeric_limits<R>::epsilon();
  } else if constexpr (std::is_integral_v<T>) {
    return a == b;
  } else {
    return UlpDistance(a, b) <= ulps;
  }
}

// For messages.
template <class T>
double AsDouble(T x) {
  if constexpr (kIsComplexType<T>)
    return static_cast<double>(x.real());
  else
    return static_cast<double>(x);
}

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_TEST_UTIL_H_
