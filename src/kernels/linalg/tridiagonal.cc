// Tridiagonal systems, in linear time and memory.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/linalg/linalg.h"

namespace sluice::linalg {
namespace {

// Gaussian elimination of one system. Rows of b become rows of x in place.
template <typename T>
class Elimination3 {
 public:
  Elimination3(int64_t n, int64_t k, T* x) : n_(n), k_(k), x_(x) {}

  // Without interchanges (Thomas).
  bool Plain(const T* upper, const T* diagonal, const T* lower) {
    std::vector<T> u(static_cast<size_t>(n_));
    for (int64_t i = 0; i < n_; ++i) {
      T pivot = diagonal[i];
      if (i > 0) {
        pivot -= lower[i] * u[static_cast<size_t>(i - 1)];
        Subtract(i, i - 1, lower[i]);
      }
      if (pivot == T(0)) return false;
      u[static_cast<size_t>(i)] = i + 1 < n_ ? upper[i] / pivot : T(0);
      Divide(i, pivot);
    }
    for (int64_t i = n_ - 1; i-- > 0;)
      Subtract(i, i + 1, u[static_cast<size_t>(i)]);
    return true;
  }

  // Swaps rows i and i + 1 if the lower one has the larger pivot, so that a row
  // of U has up to three elements.
  bool Pivoting(const T* upper, const T* diagonal, const T* lower,
                RealOf<T> least) {
    struct Row {
      T pivot = T(0), next = T(0), after = T(0);
    };
    std::vector<Row> u(static_cast<size_t>(n_));
    const auto upper_at = [&](int64_t i) {
      return i + 1 < n_ ? upper[i] : T(0);
    };
    u[0] = {diagonal[0], upper_at(0), T(0)};
    for (int64_t i = 0; i < n_; ++i) {
      Row& row = u[static_cast<size_t>(i)];
      const bool last = i + 1 == n_;
      if (last || std::abs(row.pivot) >= std::abs(lower[i + 1])) {
        if (std::abs(row.pivot) <= least)
          row.pivot = Enlarged(row.pivot, least);
        if (row.pivot == T(0)) return false;
        if (last) break;
        const T factor = lower[i + 1] / row.pivot;
        u[static_cast<size_t>(i + 1)] = {diagonal[i + 1] - factor * row.next,
                                         upper_at(i + 1), T(0)};
        Subtract(i + 1, i, factor);
      } else {
        const T factor = row.pivot / lower[i + 1];
        u[static_cast<size_t>(i + 1)] = {row.next - factor * diagonal[i + 1],
                                         -factor * upper_at(i + 1), T(0)};
        row = {lower[i + 1], diagonal[i + 1], upper_at(i + 1)};
        std::swap_ranges(x_ + i * k_, x_ + (i + 1) * k_, x_ + (i + 1) * k_);
        Subtract(i + 1, i, factor);
      }
    }
    for (int64_t i = n_; i-- > 0;) {
      const Row& row = u[static_cast<size_t>(i)];
      if (i + 1 < n_) Subtract(i, i + 1, row.next);
      if (i + 2 < n_) Subtract(i, i + 2, row.after);
      Divide(i, row.pivot);
    }
    return true;
  }

 private:
  static T Enlarged(T pivot, RealOf<T> least) {
    return std::real(pivot) < 0 ? T(-least) : T(least);
  }
  void Subtract(int64_t to, int64_t from, T factor) {
    for (int64_t j = 0; j < k_; ++j)
      x_[to * k_ + j] -= factor * x_[from * k_ + j];
  }
  void Divide(int64_t row, T by) {
    for (int64_t j = 0; j < k_; ++j) x_[row * k_ + j] /= by;
  }

  const int64_t n_, k_;
  T* const x_;
};

}  // namespace

template <typename T>
bool SolveTridiagonal(const T* upper, const T* diagonal, const T* lower,
                      const T* b, int64_t n, int64_t k,
                      const TridiagonalOptions& options, T* x) {
  if (n == 0 || k == 0) return true;
  std::copy_n(b, n * k, x);
  Elimination3<T> system(n, k, x);
  if (!options.partial_pivoting) return system.Plain(upper, diagonal, lower);
  RealOf<T> least = 0;
  if (options.perturb_singular) {
    RealOf<T> largest = 0;
    for (int64_t i = 0; i < n; ++i) {
      largest = std::max(largest, std::abs(diagonal[i]));
      if (i > 0) largest = std::max(largest, std::abs(lower[i]));
      if (i + 1 < n) largest = std::max(largest, std::abs(upper[i]));
    }
    least = std::max(std::numeric_limits<RealOf<T>>::epsilon() * largest,
                     4 * std::numeric_limits<RealOf<T>>::min());
  }
  return system.Pivoting(upper, diagonal, lower, least);
}

#define SLUICE_INSTANTIATE(T)                                                 \
  template bool SolveTridiagonal(const T*, const T*, const T*, const T*,      \
                                 int64_t, int64_t, const TridiagonalOptions&, \
                                 T*);
SLUICE_LINALG_TYPES(SLUICE_INSTANTIATE)
#undef SLUICE_INSTANTIATE

}  // namespace sluice::linalg
