// Factorisations of one dense row-major matrix and related operations. T is
// float, double, complex64 or complex128. Each call runs on the calling thread;
// calls are thread-safe. Outputs must not overlap inputs. Sizes may be zero.
#ifndef SLUICE_KERNELS_LINALG_LINALG_H_
#define SLUICE_KERNELS_LINALG_LINALG_H_

#include <complex>
#include <cstdint>

namespace sluice::linalg {

template <typename T>
struct RealOfType {
  using type = T;
};
template <typename T>
struct RealOfType<std::complex<T>> {
  using type = T;
};
template <typename T>
using RealOf = typename RealOfType<T>::type;

// ---- Square systems (solve.cc) ----------------------------------------------

// False, except for Cholesky: a pivot is zero.

// out[n, n] = the inverse of a[n, n], or of its adjoint.
template <typename T>
bool Invert(const T* a, int64_t n, bool adjoint, T* out);

// a * out[n, k] = b[n, k], or with a's adjoint.
template <typename T>
bool Solve(const T* a, const T* b, int64_t n, int64_t k, bool adjoint, T* out);

// Rows p[i] of a, in order, are L * U; both in `lu`, where L has a diagonal of
// ones that is not stored.
template <typename T>
bool Lu(const T* a, int64_t n, T* lu, int64_t* p);

// det(a) = sign * exp(*log_abs); 0 and -inf for a singular matrix.
template <typename T>
void LogDeterminant(const T* a, int64_t n, T* sign, RealOf<T>* log_abs);

// With a triangle of a; the other one is not read. Zeros on the diagonal give
// inf and NaN.
template <typename T>
void SolveTriangular(const T* a, const T* b, int64_t n, int64_t k, bool lower,
                     bool adjoint, T* out);

// out[m, n] = a[m, k] * b[k, n].
template <typename T>
void Multiply(const T* a, const T* b, int64_t m, int64_t k, int64_t n, T* out);

// a = out * out^H of the lower triangle of a. False: not positive definite.
template <typename T>
bool Cholesky(const T* a, int64_t n, T* out);

// ---- Factors and least squares (factor.cc) ----------------------------------

// The gradient of a, symmetric, given the gradient `dl` of l = Cholesky(a);
// only the lower triangles of both are read.
template <typename T>
void CholeskyGrad(const T* l, const T* dl, int64_t n, T* out);

// a[m, n] = q * r: q[m, m], r[m, n] if full, else q[m, min], r[min, n].
template <typename T>
void Qr(const T* a, int64_t m, int64_t n, bool full, T* q, T* r);

// The x[n, k] that minimises |a x - b|^2 + l2 |x|^2, for a[m, n] and b[m, k];
// if m < n and l2 is 0, the shortest x with a x = b. By normal equations.
// False: a does not have full rank.
template <typename T>
bool LeastSquares(const T* a, const T* b, int64_t m, int64_t n, int64_t k,
                  double l2, T* x);
// The shortest x that minimises |a x - b|, for a of any rank.
template <typename T>
void LeastSquaresAnyRank(const T* a, const T* b, int64_t m, int64_t n,
                         int64_t k, T* x);

// ---- Spectra (eig.cc, svd.cc, exponential.cc) -------------------------------

// Eigenvalues in ascending order of the self-adjoint matrix whose lower
// triangle is in a; eigenvectors as columns of v unless v is null. False: did
// not converge. For non-finite input the results are NaN and unit vectors.
template <typename T>
bool SelfAdjointEig(const T* a, int64_t n, RealOf<T>* e, T* v);

// a[m, n] = u * diag(s) * v^H, s descending; u[m, m] and v[n, n] if full, else
// with min(m, n) columns; null u and v are not computed. False: a has NaN or
// inf.
template <typename T>
bool Svd(const T* a, int64_t m, int64_t n, bool full, RealOf<T>* s, T* u, T* v);

// out = exp(a). False: a has NaN or inf, for which scaling would not terminate.
template <typename T>
bool Exponential(const T* a, int64_t n, T* out);

// ---- Bands (tridiagonal.cc) -------------------------------------------------

// How Tridiagonal treats pivots.
struct TridiagonalOptions {
  bool partial_pivoting = true;
  bool perturb_singular = false;
};

// Solves for x[n, k] the system whose matrix has these diagonals: upper[i] to
// the right of diagonal[i] (the last one is not read), lower[i] to the left of
// it (the first one is not read). False: a pivot is zero.
template <typename T>
bool SolveTridiagonal(const T* upper, const T* diagonal, const T* lower,
                      const T* b, int64_t n, int64_t k,
                      const TridiagonalOptions& options, T* x);

}  // namespace sluice::linalg

// Instantiates a template (a macro with a type argument) for the four types.
#define SLUICE_LINALG_TYPES(Instantiate)                                  \
  Instantiate(float) Instantiate(double) Instantiate(std::complex<float>) \
      Instantiate(std::complex<double>)

#endif  // SLUICE_KERNELS_LINALG_LINALG_H_
