// Householder reflections and the QR factors that they produce, for row-major
// matrices; shared by the files of this folder. (Plain loops: Eigen's take a
// minute to compile. The signs are those of LAPACK and Eigen: the first element
// of a reflected vector changes its sign.)
#ifndef SLUICE_KERNELS_LINALG_HOUSEHOLDER_H_
#define SLUICE_KERNELS_LINALG_HOUSEHOLDER_H_

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/linalg/linalg.h"
#include "kernels/linalg/rows.h"

namespace sluice::linalg {

// std::conj of a real number is complex.
inline float Conj(float x) { return x; }
inline double Conj(double x) { return x; }
template <typename T>
std::complex<T> Conj(std::complex<T> x) {
  return std::conj(x);
}
// |x|^2.
template <typename T>
RealOf<T> Square(T x) {
  return std::real(x) * std::real(x) + std::imag(x) * std::imag(x);
}

template <typename T>
std::vector<T> AdjointOf(const T* a, int64_t rows, int64_t columns) {
  std::vector<T> out(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      out[static_cast<size_t>(j * rows + i)] = Conj(a[i * columns + j]);
  return out;
}

template <typename T>
void SetIdentity(T* a, int64_t rows, int64_t columns) {
  std::fill(a, a + rows * columns, T(0));
  for (int64_t i = 0; i < std::min(rows, columns); ++i) a[i * columns + i] = 1;
}

// Computes u = (1, v) such that (I - tau u u^H) x = beta e_0 with a real beta.
// x[1..n), `stride` apart, becomes v, and x[0] beta. Returns tau.
template <typename T>
T Reflect(T* x, int64_t n, int64_t stride) {
  using Real = RealOf<T>;
  constexpr Real kTiny = std::numeric_limits<Real>::min();
  Real tail = 0;
  for (int64_t i = 1; i < n; ++i) tail += Square(x[i * stride]);
  const T first = x[0];
  if (tail <= kTiny && std::imag(first) * std::imag(first) <= kTiny) {
    for (int64_t i = 1; i < n; ++i) x[i * stride] = T(0);
    x[0] = T(std::real(first));
    return T(0);
  }
  Real beta = std::sqrt(Square(first) + tail);
  if (std::real(first) >= 0) beta = -beta;
  const T by = first - T(beta);
  for (int64_t i = 1; i < n; ++i) x[i * stride] /= by;
  x[0] = T(beta);
  return Conj((T(beta) - first) / T(beta));
}

// a[m, n] P = Q R, with P = I if not pivoting, else the column with the largest
// remaining norm comes next. A value type; not thread-safe.
template <typename T>
class HouseholderQr {
 public:
  using Real = RealOf<T>;

  HouseholderQr(const T* a, int64_t m, int64_t n, bool pivoting)
      : m_(m),
        n_(n),
        least_(std::min(m, n)),
        made_(a, a + m * n),
        tau_(static_cast<size_t>(least_)),
        work_(static_cast<size_t>(std::max(m, n))),
        order_(static_cast<size_t>(n)) {
    std::iota(order_.begin(), order_.end(), int64_t{0});
    if (pivoting) StartNorms();
    for (int64_t k = 0; k < least_; ++k) {
      if (pivoting) BringLargest(k);
      T* x = At(k, k);
      tau_[static_cast<size_t>(k)] = Reflect(x, m_ - k, n_);
      ApplyReflection(x, n_, tau_[static_cast<size_t>(k)], m_ - k, n_ - k - 1,
                      n_, x + 1, work_.data());
      if (pivoting) UpdateNorms(k);
    }
  }

  // Column i of a P is column order()[i] of a.
  const std::vector<int64_t>& order() const { return order_; }
  T r(int64_t i, int64_t j) const {
    return i <= j ? made_[static_cast<size_t>(i * n_ + j)] : T(0);
  }
  // The numerical rank according to the pivots.
  int64_t Rank() const {
    Real largest = 0;
    for (int64_t i = 0; i < least_; ++i)
      largest = std::max(largest, std::abs(r(i, i)));
    const Real bound = largest * std::numeric_limits<Real>::epsilon() *
                       static_cast<Real>(least_);
    int64_t rank = 0;
    for (int64_t i = 0; i < least_; ++i) rank += std::abs(r(i, i)) > bound;
    return rank;
  }
  // x[m, columns] = Q x.
  void ApplyQ(T* x, int64_t columns) {
    work_.resize(static_cast<size_t>(std::max(m_, columns)));
    for (int64_t k = least_; k-- > 0;)
      ApplyReflection(At(k, k), n_, Conj(tau_[static_cast<size_t>(k)]), m_ - k,
                      columns, columns, x + k * columns, work_.data());
  }
  // x[m, columns] = Q^H x.
  void ApplyAdjointQ(T* x, int64_t columns) {
    work_.resize(static_cast<size_t>(std::max(m_, columns)));
    for (int64_t k = 0; k < least_; ++k)
      ApplyReflection(At(k, k), n_, tau_[static_cast<size_t>(k)], m_ - k,
                      columns, columns, x + k * columns, work_.data());
  }

 private:
  T* At(int64_t i, int64_t j) { return made_.data() + i * n_ + j; }

  Real NormBelow(int64_t row, int64_t column) {
    Real sum = 0;
    for (int64_t i = row; i < m_; ++i) sum += Square(*At(i, column));
    return std::sqrt(sum);
  }
  void StartNorms() {
    for (int64_t j = 0; j < n_; ++j) norms_.push_back(NormBelow(0, j));
    exact_ = norms_;
  }
  void BringLargest(int64_t k) {
    const auto at = std::max_element(norms_.begin() + k, norms_.end());
    const int64_t from = at - norms_.begin();
    if (from == k) return;
    for (int64_t i = 0; i < m_; ++i) std::swap(*At(i, k), *At(i, from));
    const auto a = static_cast<size_t>(k), b = static_cast<size_t>(from);
    std::swap(norms_[a], norms_[b]);
    std::swap(exact_[a], exact_[b]);
    std::swap(order_[a], order_[b]);
  }
  // The remaining norm of each column; recomputed where cancellation is too
  // large (Drmac and Bujanovic 2008, as in LAPACK).
  void UpdateNorms(int64_t k) {
    const Real least = std::sqrt(std::numeric_limits<Real>::epsilon());
    for (int64_t j = k + 1; j < n_; ++j) {
      Real& norm = norms_[static_cast<size_t>(j)];
      Real& exact = exact_[static_cast<size_t>(j)];
      if (norm == 0) continue;
      const Real part = std::abs(*At(k, j)) / norm;
      const Real rest = std::max(Real(0), (1 + part) * (1 - part));
      if (rest * (norm / exact) * (norm / exact) <= least)
        norm = exact = NormBelow(k + 1, j);
      else
        norm *= std::sqrt(rest);
    }
  }

  const int64_t m_, n_, least_;
  std::vector<T> made_;  // R above the diagonal, the reflections below it.
  std::vector<T> tau_, work_;
  std::vector<int64_t> order_;
  std::vector<Real> norms_, exact_;
};

}  // namespace sluice::linalg

#endif  // SLUICE_KERNELS_LINALG_HOUSEHOLDER_H_
