// Shared by the loss of connectionist temporal classification and its decoders.
#ifndef SLUICE_OPS_NN_CTC_LABELS_H_
#define SLUICE_OPS_NN_CTC_LABELS_H_

#include <cmath>
#include <limits>

namespace sluice {

// The logarithm of zero.
template <typename T>
inline constexpr T kLogZero = -std::numeric_limits<T>::infinity();

// The logarithm of the sum of the numbers whose logarithms are a and b.
template <typename T>
T LogSum(T a, T b) {
  if (a == kLogZero<T> && b == kLogZero<T>) return a;
  return a > b ? a + std::log1p(std::exp(b - a))
               : b + std::log1p(std::exp(a - b));
}

}  // namespace sluice

#endif  // SLUICE_OPS_NN_CTC_LABELS_H_
