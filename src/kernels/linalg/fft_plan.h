// How lines of one length are transformed: the passes and their factors.
#ifndef SLUICE_KERNELS_LINALG_FFT_PLAN_H_
#define SLUICE_KERNELS_LINALG_FFT_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace sluice::linalg {

// Lengths with a larger prime factor use a convolution: a pass for a factor p
// takes p operations per element.
inline constexpr int64_t kLargestFftFactor = 61;

// One pass of a transform by decimation in frequency, whose results are in
// order (Stockham): x[k + j * columns], for j below the factor, become their
// transform r times the r-th power of the k-th root of a turn, at y[k * factor
// + r].
template <typename T>
struct FftPass {
  int64_t factor = 1, columns = 1;
  std::vector<T> twist_re, twist_im;  // [factor - 1][columns].
  std::vector<T> cosines, sines;      // Of a factor without its own code.
};

// Immutable once made; any number of threads use it.
template <typename T>
struct FftPlan {
  int64_t length = 1;  // Of a line.
  int64_t n = 1;       // What is transformed: half of a real even line.
  std::vector<FftPass<T>> passes;
  // For lengths with large factors: a convolution of this length with `filter`,
  // between products with `chirp`.
  std::shared_ptr<const FftPlan<T>> convolution;
  std::vector<T> chirp_re, chirp_im, filter_re, filter_im;
  std::vector<T> half_re, half_im;  // exp(-2 pi i k / length), k up to n.
};

// Numbers that one part of one line needs while it is transformed. (Rounded, so
// that arrays of so many are aligned, and not at the same place of their
// pages.)
template <typename T>
int64_t FftWorkSize(const FftPlan<T>& plan) {
  const int64_t n =
      std::max(plan.length + 1,
               plan.convolution != nullptr ? plan.convolution->n + 1 : 0);
  return (n + 15) / 16 * 16;
}

// The plan for lines of `length` elements, real or complex; the latest ones are
// kept.
template <typename T>
std::shared_ptr<const FftPlan<T>> PlanFft(int64_t length, bool real);

}  // namespace sluice::linalg

#endif  // SLUICE_KERNELS_LINALG_FFT_PLAN_H_
