// Square systems, by Gaussian elimination with partial pivoting, Cholesky
// factors, and products.
// This file contains the operations for which Eigen compiles at a reasonable
// cost: one line of it takes the compiler a second per type.
#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/linalg/eigen.h"
#include "kernels/linalg/linalg.h"

namespace sluice::linalg {
namespace {

template <typename T>
using Elimination = Eigen::PartialPivLU<Matrix<T>>;

template <typename T>
bool Invertible(const Elimination<T>& lu) {
  const auto pivots = lu.matrixLU().diagonal();
  for (int64_t i = 0; i < pivots.size(); ++i)
    if (pivots(i) == T(0)) return false;
  return true;
}

template <typename T>
Elimination<T> Eliminate(const T* a, int64_t n, bool adjoint) {
  if (adjoint) return Elimination<T>(Matrix<T>(View(a, n, n).adjoint()));
  return Elimination<T>(View(a, n, n));
}

// x / |x|; zero and NaN are unchanged.
template <typename T>
T SignOf(T x) {
  if constexpr (std::is_same_v<T, RealOf<T>>) {
    return x > 0 ? T(1) : x < 0 ? T(-1) : x;
  } else {
    return x == T(0) ? x : x / std::abs(x);
  }
}

}  // namespace

template <typename T>
bool Solve(const T* a, const T* b, int64_t n, int64_t k, bool adjoint, T* out) {
  if (n == 0 || k == 0) return true;
  const Elimination<T> made = Eliminate(a, n, adjoint);
  if (!Invertible(made)) return false;
  // (Eigen's permutation gives the destination of a row.)
  for (int64_t i = 0; i < n; ++i)
    std::copy_n(b + i * k, k, out + made.permutationP().indices()(i) * k);
  const T* lu = made.matrixLU().data();
  auto x = View(out, n, k);
  View(lu, n, n).template triangularView<Eigen::UnitLower>().solveInPlace(x);
  View(lu, n, n).template triangularView<Eigen::Upper>().solveInPlace(x);
  return true;
}

template <typename T>
bool Invert(const T* a, int64_t n, bool adjoint, T* out) {
  std::vector<T> one(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) one[static_cast<size_t>(i * n + i)] = T(1);
  return Solve(a, one.data(), n, n, adjoint, out);
}

template <typename T>
bool Lu(const T* a, int64_t n, T* lu, int64_t* p) {
  if (n == 0) return true;
  const Elimination<T> made = Eliminate(a, n, false);
  if (!Invertible(made)) return false;
  View(lu, n, n) = made.matrixLU();
  // (Eigen's permutation gives the destination of a row, ours its source.)
  for (int64_t i = 0; i < n; ++i) p[made.permutationP().indices()(i)] = i;
  return true;
}

template <typename T>
void LogDeterminant(const T* a, int64_t n, T* sign, RealOf<T>* log_abs) {
  using Real = RealOf<T>;
  *sign = T(1);
  *log_abs = 0;
  if (n == 0) return;
  const Elimination<T> lu = Eliminate(a, n, false);
  *sign = T(static_cast<Real>(lu.permutationP().determinant()));
  for (int64_t i = 0; i < n; ++i) {
    const T pivot = lu.matrixLU()(i, i);
    *log_abs += std::log(std::abs(pivot));
    *sign *= SignOf(pivot);
  }
}

template <typename T>
void SolveTriangular(const T* a, const T* b, int64_t n, int64_t k, bool lower,
                     bool adjoint, T* out) {
  if (n == 0 || k == 0) return;
  Matrix<T> adjoint_a;
  if (adjoint) adjoint_a = View(a, n, n).adjoint();
  const auto matrix = View(adjoint ? std::as_const(adjoint_a).data() : a, n, n);
  auto x = View(out, n, k);
  x = View(b, n, k);
  if (lower != adjoint)
    matrix.template triangularView<Eigen::Lower>().solveInPlace(x);
  else
    matrix.template triangularView<Eigen::Upper>().solveInPlace(x);
}

template <typename T>
bool Cholesky(const T* a, int64_t n, T* out) {
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(a + i * n, i + 1, out + i * n);
    std::fill(out + i * n + i + 1, out + (i + 1) * n, T(0));
  }
  if (n == 0) return true;
  // In place, in the lower triangle. (NaN is no error to it.)
  Eigen::Map<Matrix<T>> factor = View(out, n, n);
  return Eigen::LLT<Eigen::Ref<Matrix<T>>>(factor).info() == Eigen::Success;
}

template <typename T>
void Multiply(const T* a, const T* b, int64_t m, int64_t k, int64_t n, T* out) {
  View(out, m, n).noalias() = View(a, m, k) * View(b, k, n);
}

#define SLUICE_INSTANTIATE(T)                                                \
  template bool Invert(const T*, int64_t, bool, T*);                         \
  template bool Solve(const T*, const T*, int64_t, int64_t, bool, T*);       \
  template bool Lu(const T*, int64_t, T*, int64_t*);                         \
  template void LogDeterminant(const T*, int64_t, T*, RealOf<T>*);           \
  template void Multiply(const T*, const T*, int64_t, int64_t, int64_t, T*); \
  template bool Cholesky(const T*, int64_t, T*);                             \
  template void SolveTriangular(const T*, const T*, int64_t, int64_t, bool,  \
                                bool, T*);
SLUICE_LINALG_TYPES(SLUICE_INSTANTIATE)
#undef SLUICE_INSTANTIATE

}  // namespace sluice::linalg
