// Eigenvalues and eigenvectors of self-adjoint matrices: reduction to
// tridiagonal form by reflections, then QR steps with Wilkinson's shift (Golub
// and Van Loan, 8.3). The signs of the vectors are those of Eigen, and
// therefore of TensorFlow.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/linalg/householder.h"
#include "kernels/linalg/linalg.h"

namespace sluice::linalg {
namespace {

// ---- Tridiagonal form -------------------------------------------------------

// w = A x for the self-adjoint matrix of order r whose lower triangle is in the
// columns `a`, n apart: element (i, j) is a[j * n + i].
template <typename T>
void TimesSelfAdjoint(const T* a, int64_t n, int64_t r, const T* x, T* w) {
  std::fill(w, w + r, T(0));
  for (int64_t j = 0; j < r; ++j) {
    const T* column = a + j * n;
    w[j] += T(std::real(column[j])) * x[j];
    w[j] += AddRowAndDot(column + j + 1, x[j], x + j + 1, r - j - 1, w + j + 1);
  }
}

// a = Q T Q^H. `a` contains columns of the lower triangle, and afterwards the
// reflections, whose factors are `tau`.
template <typename T>
void Tridiagonalize(T* a, int64_t n, RealOf<T>* diagonal, RealOf<T>* beside,
                    T* tau) {
  std::vector<T> x(static_cast<size_t>(n)), w(x.size());
  for (int64_t i = 0; i + 1 < n; ++i) {
    const int64_t r = n - i - 1;
    T* v = a + i * n + i + 1;
    T* rest = v + n;
    tau[i] = Reflect(v, r, 1);
    beside[i] = std::real(v[0]);
    v[0] = T(1);
    const T h = Conj(tau[i]);
    for (int64_t k = 0; k < r; ++k) x[static_cast<size_t>(k)] = h * v[k];
    TimesSelfAdjoint(rest, n, r, x.data(), w.data());
    T dot(0);
    for (int64_t k = 0; k < r; ++k)
      dot += Conj(w[static_cast<size_t>(k)]) * v[k];
    const T by = h * T(-0.5) * dot;
    for (int64_t k = 0; k < r; ++k) w[static_cast<size_t>(k)] += by * v[k];
    for (int64_t j = 0; j < r; ++j) {
      const T wj = Conj(w[static_cast<size_t>(j)]), vj = Conj(v[j]);
      SubtractRows(v + j, wj, w.data() + j, vj, r - j, rest + j * n + j);
    }
  }
  for (int64_t i = 0; i < n; ++i) diagonal[i] = std::real(a[i * n + i]);
}

// The transpose of Q.
template <typename T>
std::vector<T> TransposedQ(const T* a, int64_t n, const T* tau) {
  std::vector<T> q(static_cast<size_t>(n * n)), work(static_cast<size_t>(n));
  SetIdentity(q.data(), n, n);
  for (int64_t i = n - 1; i-- > 0;)
    ApplyReflection(a + i * n + i + 1, 1, Conj(tau[i]), n - i - 1, n - i - 1, n,
                    q.data() + (i + 1) * n + i + 1, work.data());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j)
      std::swap(q[static_cast<size_t>(i * n + j)],
                q[static_cast<size_t>(j * n + i)]);
  return q;
}

// ---- To one -----------------------------------------------------------------

// Rotates (x, -z) to (r, 0).
template <typename Real>
PlaneRotation<Real> RotationOf(Real x, Real z) {
  if (z == 0) return {x < 0 ? Real(-1) : Real(1), 0};
  if (x == 0) return {0, z < 0 ? Real(1) : Real(-1)};
  if (std::abs(x) > std::abs(z)) {
    const Real t = z / x;
    const Real u = std::copysign(std::sqrt(1 + t * t), x);
    return {1 / u, -t / u};
  }
  const Real t = x / z;
  const Real u = std::copysign(std::sqrt(1 + t * t), z);
  return {t / u, -1 / u};
}

template <typename Real>
Real WilkinsonShift(const Real* diagonal, const Real* beside, int64_t last) {
  const Real td = (diagonal[last - 1] - diagonal[last]) / 2;
  const Real e = beside[last - 1];
  if (td == 0) return diagonal[last] - std::abs(e);
  if (e == 0) return diagonal[last];
  const Real h = std::copysign(std::hypot(td, e), td);
  if (e * e == 0) return diagonal[last] - e / ((td + h) / e);
  return diagonal[last] - e * e / (td + h);
}

// One step for rows first..last; its rotations of the rows of q are stored in
// `by`.
template <typename Real>
void QrStep(Real* d, Real* e, int64_t first, int64_t last,
            std::vector<PlaneRotation<Real>>* by) {
  Real x = d[first] - WilkinsonShift(d, e, last);
  Real z = e[first];
  for (int64_t k = first; k < last && z != 0; ++k) {
    const auto [c, s] = RotationOf(x, z);
    const Real sdk = s * d[k] + c * e[k];
    const Real next = s * e[k] + c * d[k + 1];
    d[k] = c * (c * d[k] - s * e[k]) - s * (c * e[k] - s * d[k + 1]);
    d[k + 1] = s * sdk + c * next;
    e[k] = c * sdk - s * next;
    if (k > first) e[k - 1] = c * e[k - 1] - s * z;
    x = e[k];
    if (k + 1 < last) {
      z = -s * e[k + 1];
      e[k + 1] *= c;
    }
    by->push_back({c, -s});
  }
}

// False: did not converge.
template <typename T>
bool Diagonalize(RealOf<T>* d, RealOf<T>* e, T* q, int64_t n) {
  using Real = RealOf<T>;
  constexpr Real kTiny = std::numeric_limits<Real>::min();
  constexpr Real kInverse = 1 / std::numeric_limits<Real>::epsilon();
  constexpr int64_t kStepsPerValue = 30;
  std::vector<PlaneRotation<Real>> by;
  int64_t last = n - 1, first = 0;
  for (int64_t steps = 0; last > 0;) {
    for (int64_t i = first; i < last; ++i) {
      const Real scaled = kInverse * e[i];
      if (std::abs(e[i]) < kTiny ||
          scaled * scaled <= std::abs(d[i]) + std::abs(d[i + 1]))
        e[i] = 0;
    }
    while (last > 0 && e[last - 1] == 0) --last;
    if (last == 0) break;
    if (++steps > kStepsPerValue * n) return false;
    first = last - 1;
    while (first > 0 && e[first - 1] != 0) --first;
    by.clear();
    QrStep(d, e, first, last, &by);
    if (q != nullptr) TurnRows(by, first, n, q);
  }
  return true;
}

}  // namespace

template <typename T>
bool SelfAdjointEig(const T* a, int64_t n, RealOf<T>* e, T* v) {
  using Real = RealOf<T>;
  if (n == 0) return true;
  Real scale = 0;
  bool finite = true;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      const Real size = std::abs(a[i * n + j]);
      finite = finite && std::isfinite(size);
      scale = std::max(scale, size);
    }
  if (!finite) {
    std::fill(e, e + n, std::numeric_limits<Real>::quiet_NaN());
    if (v != nullptr) SetIdentity(v, n, n);
    return true;
  }
  if (n == 1) {
    e[0] = std::real(a[0]);
    if (v != nullptr) v[0] = T(1);
    return true;
  }
  if (scale == 0) scale = 1;
  std::vector<T> columns(static_cast<size_t>(n * n));
  std::vector<T> tau(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j)
      columns[static_cast<size_t>(j * n + i)] = a[i * n + j] / scale;
  std::vector<Real> beside(static_cast<size_t>(n));
  Tridiagonalize(columns.data(), n, e, beside.data(), tau.data());
  std::vector<T> q;
  if (v != nullptr) q = TransposedQ(columns.data(), n, tau.data());
  if (!Diagonalize(e, beside.data(), v == nullptr ? nullptr : q.data(), n))
    return false;
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (auto at = order.begin(); at != order.end(); ++at)
    std::iter_swap(at, std::min_element(at, order.end(), [&](auto x, auto y) {
                     return e[x] < e[y];
                   }));
  for (int64_t j = 0; j < n && v != nullptr; ++j)
    for (int64_t i = 0; i < n; ++i)
      v[i * n + j] =
          q[static_cast<size_t>(order[static_cast<size_t>(j)] * n + i)];
  std::sort(e, e + n);
  for (int64_t i = 0; i < n; ++i) e[i] *= scale;
  return true;
}

#define SLUICE_INSTANTIATE(T) \
  template bool SelfAdjointEig(const T*, int64_t, RealOf<T>*, T*);
SLUICE_LINALG_TYPES(SLUICE_INSTANTIATE)
#undef SLUICE_INSTANTIATE

}  // namespace sluice::linalg
