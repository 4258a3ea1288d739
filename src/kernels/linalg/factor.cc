// The gradient of Cholesky, QR, and least squares.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/linalg/householder.h"
#include "kernels/linalg/linalg.h"

namespace sluice::linalg {
namespace {

// Keeps the lower triangle, with half of the diagonal.
template <typename T>
void KeepLowerHalf(T* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    a[i * n + i] *= T(0.5);
    std::fill(a + i * n + i + 1, a + (i + 1) * n, T(0));
  }
}

}  // namespace

// l^-H P l^-1, made symmetric, where P is the lower triangle of l^H dl with
// half of its diagonal.
template <typename T>
void CholeskyGrad(const T* l, const T* dl, int64_t n, T* out) {
  if (n == 0) return;
  const auto size = static_cast<size_t>(n * n);
  std::vector<T> factor(l, l + size), grad(dl, dl + size), middle(size);
  for (int64_t i = 0; i < n; ++i) {
    std::fill_n(factor.begin() + i * n + i + 1, n - i - 1, T(0));
    std::fill_n(grad.begin() + i * n + i + 1, n - i - 1, T(0));
  }
  const std::vector<T> adjoint = AdjointOf(factor.data(), n, n);
  Multiply(adjoint.data(), grad.data(), n, n, n, middle.data());
  KeepLowerHalf(middle.data(), n);
  SolveTriangular(l, middle.data(), n, n, true, true, grad.data());
  const std::vector<T> rest = AdjointOf(grad.data(), n, n);
  SolveTriangular(l, rest.data(), n, n, true, true, middle.data());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      out[i * n + j] = (middle[static_cast<size_t>(i * n + j)] +
                        Conj(middle[static_cast<size_t>(j * n + i)])) *
                       T(0.5);
}

template <typename T>
void Qr(const T* a, int64_t m, int64_t n, bool full, T* q, T* r) {
  const int64_t least = std::min(m, n);
  const int64_t columns = full ? m : least;
  SetIdentity(q, m, columns);
  if (least == 0) return;  // (r is empty, or q is the identity.)
  HouseholderQr<T> made(a, m, n, false);
  made.ApplyQ(q, columns);
  for (int64_t i = 0; i < columns; ++i)
    for (int64_t j = 0; j < n; ++j)
      r[i * n + j] = i < least ? made.r(i, j) : T(0);
}

template <typename T>
bool LeastSquares(const T* a, const T* b, int64_t m, int64_t n, int64_t k,
                  double l2, T* x) {
  if (m == 0 || n == 0 || k == 0) {
    std::fill(x, x + n * k, T(0));
    return true;
  }
  // a^H a x = a^H b, or x = a^H z with a a^H z = b.
  const bool tall = m >= n;
  const int64_t least = std::min(m, n);
  const std::vector<T> adjoint = AdjointOf(a, m, n);
  std::vector<T> gramian(static_cast<size_t>(least * least));
  std::vector<T> factor(gramian.size());
  if (tall)
    Multiply(adjoint.data(), a, n, m, n, gramian.data());
  else
    Multiply(a, adjoint.data(), m, n, m, gramian.data());
  for (int64_t i = 0; i < least; ++i)
    gramian[static_cast<size_t>(i * least + i)] +=
        T(static_cast<RealOf<T>>(l2));
  if (!Cholesky(gramian.data(), least, factor.data())) return false;
  std::vector<T> right(b, b + least * k), half(right.size());
  if (tall) Multiply(adjoint.data(), b, n, m, k, right.data());
  SolveTriangular(factor.data(), right.data(), least, k, true, false,
                  half.data());
  SolveTriangular(factor.data(), half.data(), least, k, true, true,
                  tall ? x : right.data());
  if (!tall) Multiply(adjoint.data(), right.data(), n, m, k, x);
  return true;
}

// a P = Q R, of which the first `rank` rows are T^H Z^H: then x = P Z y with
// T^H y = Q^H b.
template <typename T>
void LeastSquaresAnyRank(const T* a, const T* b, int64_t m, int64_t n,
                         int64_t k, T* x) {
  std::fill(x, x + n * k, T(0));
  // (As in TensorFlow, a matrix with NaN has no rank.)
  if (std::any_of(a, a + m * n, [](T v) { return v != v; })) return;
  if (m == 0 || n == 0 || k == 0) return;
  HouseholderQr<T> made(a, m, n, true);
  const int64_t rank = made.Rank();
  if (rank == 0) return;
  std::vector<T> right(b, b + m * k);
  made.ApplyAdjointQ(right.data(), k);
  std::vector<T> rows(static_cast<size_t>(n * rank));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < rank; ++j)
      rows[static_cast<size_t>(i * rank + j)] = Conj(made.r(j, i));
  HouseholderQr<T> other(rows.data(), n, rank, false);
  std::vector<T> upper(static_cast<size_t>(rank * rank));
  for (int64_t i = 0; i < rank; ++i)
    for (int64_t j = 0; j < rank; ++j)
      upper[static_cast<size_t>(i * rank + j)] = other.r(i, j);
  std::vector<T> y(static_cast<size_t>(n * k));
  SolveTriangular(upper.data(), right.data(), rank, k, false, true, y.data());
  other.ApplyQ(y.data(), k);
  for (int64_t i = 0; i < n; ++i)
    std::copy_n(y.begin() + i * k, k,
                x + made.order()[static_cast<size_t>(i)] * k);
}

#define SLUICE_INSTANTIATE(T)                                               \
  template void Qr(const T*, int64_t, int64_t, bool, T*, T*);               \
  template bool LeastSquares(const T*, const T*, int64_t, int64_t, int64_t, \
                             double, T*);                                   \
  template void LeastSquaresAnyRank(const T*, const T*, int64_t, int64_t,   \
                                    int64_t, T*);
SLUICE_LINALG_TYPES(SLUICE_INSTANTIATE)
#undef SLUICE_INSTANTIATE

template void CholeskyGrad(const float*, const float*, int64_t, float*);
template void CholeskyGrad(const double*, const double*, int64_t, double*);

}  // namespace sluice::linalg
