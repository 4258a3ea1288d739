// Singular values and vectors, by Jacobi's rotations after a QR factor.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/linalg/householder.h"
#include "kernels/linalg/linalg.h"

namespace sluice::linalg {
namespace {

// As many columns as that: the rotations of TensorFlow (of Eigen), from both
// sides, whose signs we then have; its method for more has no such order.
constexpr int64_t kTwoSided = 16;
// Ends what rounding keeps from ending; about ten are needed.
constexpr int kMostSweeps = 100;

// Row-major; the columns of `u` and `v` are vectors.
template <typename T>
struct Factors {
  Factors(int64_t m, int64_t n, bool full)
      : least(std::min(m, n)),
        rows_u(m),
        rows_v(n),
        columns_u(full ? m : least),
        columns_v(full ? n : least),
        u(static_cast<size_t>(m * columns_u)),
        v(static_cast<size_t>(n * columns_v)),
        s(static_cast<size_t>(least)) {}

  int64_t least, rows_u, rows_v, columns_u, columns_v;
  std::vector<T> u, v;
  std::vector<RealOf<T>> s;
};

// x = Q of the QR factors.
template <typename T>
void SetQ(HouseholderQr<T>* qr, int64_t rows, int64_t columns,
          std::vector<T>* x) {
  SetIdentity(x->data(), rows, columns);
  qr->ApplyQ(x->data(), columns);
}

// x[n, n] = the permutation P with (a P)_i = a_order[i].
template <typename T>
void SetPermutation(const std::vector<int64_t>& order, std::vector<T>* x) {
  const auto n = static_cast<int64_t>(order.size());
  std::fill(x->begin(), x->end(), T(0));
  for (int64_t i = 0; i < n; ++i)
    (*x)[static_cast<size_t>(order[static_cast<size_t>(i)] * n + i)] = T(1);
}

// ---- From both sides --------------------------------------------------------

// A rotation of two rows or columns x, y: (c x + conj(s) y, conj(c) y - s x).
template <typename T>
struct Turn {
  T c = T(1), s = T(0);

  void Apply(T* x, T* y, int64_t n, int64_t stride) const {
    for (int64_t i = 0; i < n; ++i) {
      const T xi = x[i * stride], yi = y[i * stride];
      x[i * stride] = c * xi + Conj(s) * yi;
      y[i * stride] = Conj(c) * yi - s * xi;
    }
  }
};

template <typename T>
class TwoSided {
 public:
  using Real = RealOf<T>;

  // `w`: d x d, to become diagonal while f's u w v^H stays what it is.
  TwoSided(std::vector<T> w, Factors<T>* f)
      : d_(f->least), w_(std::move(w)), f_(*f) {}

  void Run() {
    for (int64_t i = 0; i < d_; ++i)
      largest_ = std::max(largest_, std::abs(At(i, i)));
    bool more = true;
    for (int sweep = 0; more && sweep < kMostSweeps; ++sweep) {
      more = false;
      for (int64_t p = 1; p < d_; ++p)
        for (int64_t q = 0; q < p; ++q) {
          if (!Above(p, q, 2)) continue;
          more = true;
          if (MakeReal(p, q)) Rotate(p, q);
        }
    }
    for (int64_t i = 0; i < d_; ++i) {
      const T x = At(i, i);
      const Real size = std::abs(x);
      f_.s[static_cast<size_t>(i)] = size;
      if (std::abs(std::imag(x)) > kTiny)
        ScaleColumn(f_.u.data(), f_.rows_u, f_.columns_u, i, x / size);
      else if (std::real(x) < 0)
        ScaleColumn(f_.u.data(), f_.rows_u, f_.columns_u, i, T(-1));
    }
  }

 private:
  static constexpr Real kTiny = std::numeric_limits<Real>::min();
  static constexpr Real kEps = std::numeric_limits<Real>::epsilon();

  T& At(int64_t i, int64_t j) { return w_[static_cast<size_t>(i * d_ + j)]; }
  bool Above(int64_t p, int64_t q, int times) {
    const Real bound = std::max(kTiny, times * kEps * largest_);
    return std::abs(At(p, q)) > bound || std::abs(At(q, p)) > bound;
  }
  void Enlarge(int64_t p, int64_t q) {
    largest_ = std::max({largest_, std::abs(At(p, p)), std::abs(At(q, q))});
  }
  static void ScaleColumn(T* a, int64_t rows, int64_t columns, int64_t j,
                          T by) {
    for (int64_t i = 0; i < rows; ++i) a[i * columns + j] *= by;
  }
  void ScaleRow(int64_t i, T by) {
    for (int64_t j = 0; j < d_; ++j) At(i, j) *= by;
    ScaleColumn(f_.u.data(), f_.rows_u, f_.columns_u, i, Conj(by));
  }
  static T Phase(T x) { return T(std::abs(x)) / x; }
  void TurnColumns(std::vector<T>* a, int64_t rows, int64_t columns, int64_t p,
                   int64_t q, Turn<T> t) {
    t.Apply(a->data() + p, a->data() + q, rows, columns);
  }

  // Makes rows and columns p, q a real 2 x 2 matrix. False: it is diagonal
  // then.
  bool MakeReal(int64_t p, int64_t q) {
    if constexpr (std::is_same_v<T, Real>) {
      return true;
    } else {
      const Real n = std::sqrt(Square(At(p, p)) + Square(At(q, p)));
      if (n == 0) {
        At(p, p) = At(q, p) = T(0);
        if (std::abs(std::imag(At(p, q))) > kTiny) ScaleRow(p, Phase(At(p, q)));
      } else {
        const Turn<T> turn{Conj(At(p, p)) / n, At(q, p) / n};
        turn.Apply(&At(p, 0), &At(q, 0), d_, 1);
        TurnColumns(&f_.u, f_.rows_u, f_.columns_u, p, q,
                    {Conj(turn.c), Conj(turn.s)});
        if (std::abs(std::imag(At(p, q))) > kTiny) {
          const T z = Phase(At(p, q));
          ScaleColumn(w_.data(), d_, d_, q, z);
          ScaleColumn(f_.v.data(), f_.rows_v, f_.columns_v, q, z);
        }
      }
      if (std::abs(std::imag(At(q, q))) > kTiny) ScaleRow(q, Phase(At(q, q)));
      Enlarge(p, q);
      return Above(p, q, 1);
    }
  }

  // Makes the real 2 x 2 matrix diagonal: symmetric by one rotation, then as
  // Jacobi did.
  void Rotate(int64_t p, int64_t q) {
    Real a = std::real(At(p, p)), b = std::real(At(p, q));
    const Real c = std::real(At(q, p)), d = std::real(At(q, q));
    Turn<Real> first, right;
    if (std::abs(c - b) >= kTiny) {
      const Real u = (a + d) / (c - b);
      const Real size = std::sqrt(1 + u * u);
      first = {u / size, 1 / size};
    }
    const Real last = first.c * d - first.s * b;
    a = first.c * a + first.s * c;
    b = first.c * b + first.s * d;
    if (2 * std::abs(b) >= kTiny) {
      const Real tau = (a - last) / (2 * std::abs(b));
      const Real w = std::sqrt(tau * tau + 1);
      const Real t = 1 / (tau > 0 ? tau + w : tau - w);
      right.c = 1 / std::sqrt(t * t + 1);
      right.s = -(b / std::abs(b)) * t * right.c;
    }
    const Turn<T> left{T(first.c * right.c + first.s * right.s),
                       T(first.s * right.c - first.c * right.s)};
    left.Apply(&At(p, 0), &At(q, 0), d_, 1);
    TurnColumns(&f_.u, f_.rows_u, f_.columns_u, p, q, left);
    const Turn<T> other{T(right.c), T(-right.s)};
    TurnColumns(&w_, d_, d_, p, q, other);
    TurnColumns(&f_.v, f_.rows_v, f_.columns_v, p, q, other);
    Enlarge(p, q);
  }

  const int64_t d_;
  std::vector<T> w_;
  Factors<T>& f_;
  Real largest_ = 0;
};

// Falling singular values; the vectors with them.
template <typename T>
void SortFactors(Factors<T>* f) {
  const auto swap_columns = [](std::vector<T>* a, int64_t columns, size_t i,
                               size_t j) {
    for (auto row = a->begin(); row != a->end(); row += columns)
      std::swap(row[static_cast<int64_t>(i)], row[static_cast<int64_t>(j)]);
  };
  for (size_t i = 0; i < f->s.size(); ++i) {
    const auto at = static_cast<size_t>(
        std::max_element(f->s.begin() + static_cast<int64_t>(i), f->s.end()) -
        f->s.begin());
    if (at == i) continue;
    std::swap(f->s[i], f->s[at]);
    swap_columns(&f->u, f->columns_u, i, at);
    swap_columns(&f->v, f->columns_v, i, at);
  }
}

template <typename T>
void SvdTwoSided(const std::vector<T>& a, int64_t m, int64_t n, Factors<T>* f) {
  std::vector<T> w;
  if (m == n) {
    w = a;
    SetIdentity(f->u.data(), m, m);
    SetIdentity(f->v.data(), n, n);
  } else {
    const bool tall = m > n;
    const std::vector<T> adjoint =
        tall ? std::vector<T>() : AdjointOf(a.data(), m, n);
    HouseholderQr<T> qr((tall ? a : adjoint).data(), std::max(m, n), f->least,
                        true);
    for (int64_t i = 0; i < f->least; ++i)
      for (int64_t j = 0; j < f->least; ++j)
        w.push_back(tall ? qr.r(i, j) : Conj(qr.r(j, i)));
    if (tall) {
      SetQ(&qr, m, f->columns_u, &f->u);
      SetPermutation(qr.order(), &f->v);
    } else {
      SetQ(&qr, n, f->columns_v, &f->v);
      SetPermutation(qr.order(), &f->u);
    }
  }
  TwoSided<T>(std::move(w), f).Run();
  SortFactors(f);
}

// ---- From one side ----------------------------------------------------------

// Turns rows of g[n, n], and of j along with them, until each is at right
// angles to all others (Hestenes).
template <typename T>
void Orthogonalize(T* g, T* j, int64_t n) {
  using Real = RealOf<T>;
  const Real eps =
      std::numeric_limits<Real>::epsilon() * std::sqrt(static_cast<Real>(n));
  bool more = true;
  for (int sweep = 0; more && sweep < kMostSweeps; ++sweep) {
    more = false;
    for (int64_t p = 0; p + 1 < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        T* const x = g + p * n;
        T* const y = g + q * n;
        Real xx = 0, yy = 0;
        T xy(0);
        for (int64_t i = 0; i < n; ++i) {
          xx += Square(x[i]);
          yy += Square(y[i]);
          xy += Conj(x[i]) * y[i];
        }
        const Real size = std::abs(xy);
        if (!(size > eps * std::sqrt(xx) * std::sqrt(yy)) ||
            size < std::numeric_limits<Real>::min())
          continue;
        more = true;
        const Real tau = (yy - xx) / (2 * size);
        const Real t =
            std::copysign(1 / (std::abs(tau) + std::hypot(Real(1), tau)), tau);
        const Real c = 1 / std::sqrt(1 + t * t);
        const Turn<T> by{T(c), -(xy / size) * T(c * t)};
        by.Apply(x, y, n, 1);
        by.Apply(j + p * n, j + q * n, n, 1);
      }
  }
}

// a[m, n], m >= n. a P = Q R; J R has orthogonal rows, falling; its adjoint is
// Z D with D all but diagonal: a = (Q J^H) D (P Z)^H.
template <typename T>
void SvdOneSided(const std::vector<T>& a, int64_t m, int64_t n, bool full,
                 std::vector<T>* u, std::vector<T>* v,
                 std::vector<RealOf<T>>* s) {
  using Real = RealOf<T>;
  const auto size = static_cast<size_t>(n * n);
  HouseholderQr<T> qr(a.data(), m, n, true);
  std::vector<T> g(size), j(size);
  for (int64_t row = 0; row < n; ++row)
    for (int64_t column = 0; column < n; ++column)
      g[static_cast<size_t>(row * n + column)] = qr.r(row, column);
  SetIdentity(j.data(), n, n);
  Orthogonalize(g.data(), j.data(), n);
  std::vector<Real> norms(static_cast<size_t>(n));
  for (size_t i = 0; i < size; ++i)
    norms[i / static_cast<size_t>(n)] += Square(g[i]);
  std::vector<int64_t> order(norms.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
    return norms[static_cast<size_t>(x)] > norms[static_cast<size_t>(y)];
  });
  std::vector<T> sorted(size);
  for (int64_t i = 0; i < n; ++i)
    std::copy_n(g.begin() + order[static_cast<size_t>(i)] * n, n,
                sorted.begin() + i * n);
  const std::vector<T> adjoint = AdjointOf(sorted.data(), n, n);
  HouseholderQr<T> last(adjoint.data(), n, n, false);
  const int64_t columns = full ? m : n;
  SetIdentity(u->data(), m, columns);
  for (int64_t k = 0; k < n; ++k) {
    const Real d = std::real(last.r(k, k));
    (*s)[static_cast<size_t>(k)] = std::abs(d);
    const T sign(d < 0 ? Real(-1) : Real(1));
    const int64_t from = order[static_cast<size_t>(k)];
    for (int64_t i = 0; i < n; ++i)
      (*u)[static_cast<size_t>(i * columns + k)] =
          sign * Conj(j[static_cast<size_t>(from * n + i)]);
  }
  qr.ApplyQ(u->data(), columns);
  SetIdentity(sorted.data(), n, n);
  last.ApplyQ(sorted.data(), n);
  for (int64_t i = 0; i < n; ++i)
    std::copy_n(sorted.begin() + i * n, n,
                v->begin() + qr.order()[static_cast<size_t>(i)] * n);
}

}  // namespace

template <typename T>
bool Svd(const T* a, int64_t m, int64_t n, bool full, RealOf<T>* s, T* u,
         T* v) {
  using Real = RealOf<T>;
  if (std::min(m, n) == 0) {
    // A basis of what there is, whatever it is mapped to.
    if (u != nullptr && full) SetIdentity(u, m, m);
    if (v != nullptr && full) SetIdentity(v, n, n);
    return true;
  }
  Real scale = 0;
  for (int64_t i = 0; i < m * n; ++i) {
    const Real size = std::abs(a[i]);
    if (!std::isfinite(size)) return false;
    scale = std::max(scale, size);
  }
  if (scale == 0) scale = 1;
  std::vector<T> scaled(a, a + m * n);
  for (T& x : scaled) x /= scale;
  // (Vectors that nobody asked for are as short as can be.)
  Factors<T> f(m, n, full && u != nullptr);
  if (n < kTwoSided) {
    SvdTwoSided(scaled, m, n, &f);
  } else if (m >= n) {
    SvdOneSided(scaled, m, n, full && u != nullptr, &f.u, &f.v, &f.s);
  } else {
    const std::vector<T> adjoint = AdjointOf(scaled.data(), m, n);
    SvdOneSided(adjoint, n, m, full && u != nullptr, &f.v, &f.u, &f.s);
  }
  for (size_t i = 0; i < f.s.size(); ++i) s[i] = f.s[i] * scale;
  if (u != nullptr) std::copy(f.u.begin(), f.u.end(), u);
  if (v != nullptr) std::copy(f.v.begin(), f.v.end(), v);
  return true;
}

#define SLUICE_INSTANTIATE(T) \
  template bool Svd(const T*, int64_t, int64_t, bool, RealOf<T>*, T*, T*);
SLUICE_LINALG_TYPES(SLUICE_INSTANTIATE)
#undef SLUICE_INSTANTIATE

}  // namespace sluice::linalg
