// Square systems, by Gaussian elimination with partial pivoting, Cholesky
// factors, and products, for the instruction set being compiled; each file that
// includes this has its own copy of Eigen.
// This file contains the operations for which Eigen compiles at a reasonable
// cost: one line of it takes the compiler a second per type.
#include <Eigen/Cholesky>
#include <Eigen/LU>

#include "kernels/linalg/eigen.h"
#include "kernels/linalg/solve.h"

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

template <typename T>
bool SolveHere(const T* a, const T* b, int64_t n, int64_t k, bool adjoint,
               T* out) {
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
bool InvertHere(const T* a, int64_t n, bool adjoint, T* out) {
  std::vector<T> one(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) one[static_cast<size_t>(i * n + i)] = T(1);
  return SolveHere(a, one.data(), n, n, adjoint, out);
}

template <typename T>
bool LuHere(const T* a, int64_t n, T* lu, int64_t* p) {
  if (n == 0) return true;
  const Elimination<T> made = Eliminate(a, n, false);
  if (!Invertible(made)) return false;
  View(lu, n, n) = made.matrixLU();
  // (Eigen's permutation gives the destination of a row, ours its source.)
  for (int64_t i = 0; i < n; ++i) p[made.permutationP().indices()(i)] = i;
  return true;
}

template <typename T>
void LogDeterminantHere(const T* a, int64_t n, T* sign, RealOf<T>* log_abs) {
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
void SolveTriangularHere(const T* a, const T* b, int64_t n, int64_t k,
                         bool lower, bool adjoint, T* out) {
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
bool CholeskyHere(const T* a, int64_t n, T* out) {
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
void MultiplyHere(const T* a, const T* b, int64_t m, int64_t k, int64_t n,
                  T* out) {
  View(out, m, n).noalias() = View(a, m, k) * View(b, k, n);
}

template <typename T>
SquareSystems<T> SquareSystemsHere() {
  return {InvertHere<T>,         SolveHere<T>,    LuHere<T>,
          LogDeterminantHere<T>, MultiplyHere<T>, CholeskyHere<T>,
          SolveTriangularHere<T>};
}

}  // namespace
}  // namespace sluice::linalg
