// Floats that become indices or elements: conversion without overflow.
#ifndef SLUICE_OPS_IMAGE_FLOAT_INDEX_H_
#define SLUICE_OPS_IMAGE_FLOAT_INDEX_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace sluice {

// v without its fraction, within [-2^62, 2^62]; 0 for NaN.
inline int64_t IndexOfFloat(double v) {
  constexpr double kMost = 4611686018427387904.0;
  return v == v ? static_cast<int64_t>(std::clamp(v, -kMost, kMost)) : 0;
}

// v as a T; integers are without the fraction, and the nearest that T has.
template <typename T>
T ElementOfFloat(float v) {
  if constexpr (std::is_integral_v<T>) {
    constexpr T most = std::numeric_limits<T>::max();
    constexpr T least = std::numeric_limits<T>::min();
    if (v != v) return 0;
    if (v >= static_cast<float>(most)) return most;
    if (v <= static_cast<float>(least)) return least;
  }
  return static_cast<T>(v);
}

}  // namespace sluice

#endif  // SLUICE_OPS_IMAGE_FLOAT_INDEX_H_
