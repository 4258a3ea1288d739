// Shared by the loss of connectionist temporal classification and its decoders.
#ifndef SLUICE_OPS_NN_CTC_LABELS_H_
#define SLUICE_OPS_NN_CTC_LABELS_H_

#include <cmath>
#include <limits>

namespace sluice {

// The logarithm of zero.
template <typename T>
inline constexpr T kLogZero = -std::numeric_limits<T>::infinity();

// The logarithm of the sum of the numbers whose logarithms are a and b. The
// smaller one's part is computed as float, as in TensorFlow, whose results for
// doubles differ from exact ones by more than their rounding.
template <typename T>
T LogSum(T a, T b) {
  if (a == kLogZero<T> && b == kLogZero<T>) return a;
  const auto less = static_cast<float>(a > b ? b - a : a - b);
  return (a > b ? a : b) + static_cast<T>(std::log1p(std::exp(less)));
}

}  // namespace sluice

#endif  // SLUICE_OPS_NN_CTC_LABELS_H_
