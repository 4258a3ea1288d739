// Singular values and vectors: by Jacobi rotations for few columns, else by
// reduction to bidiagonal form and QR steps.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "kernels/linalg/householder.h"
#include "kernels/linalg/linalg.h"

namespace sluice::linalg {
namespace {

// Up to this many columns: two-sided Jacobi rotations as in TensorFlow (Eigen),
// to obtain the same signs; its method for more columns has no such order.
constexpr int64_t kTwoSided = 16;
// An upper limit in case rounding prevents convergence; about ten are needed.
constexpr int kMaxSweeps = 100;

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

  // `w`: d x d, to become diagonal while f's u w v^H does not change.
  TwoSided(std::vector<T> w, Factors<T>* f)
      : d_(f->least), w_(std::move(w)), f_(*f) {}

  void Run() {
    for (int64_t i = 0; i < d_; ++i)
      largest_ = std::max(largest_, std::abs(At(i, i)));
    bool more = true;
    for (int sweep = 0; more && sweep < kMaxSweeps; ++sweep) {
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

  // Makes the 2 x 2 matrix of rows and columns p, q real. Returns false if it
  // is then diagonal.
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

  // Makes the real 2 x 2 matrix diagonal: one rotation makes it symmetric, then
  // a Jacobi rotation.
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

// Sorts the singular values in descending order, with their vectors.
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

// ---- By two diagonals -------------------------------------------------------

// a[m, n] = Q B P^H, m >= n, where B is real and upper bidiagonal. A value
// type; not thread-safe.
template <typename T>
class Bidiagonal {
 public:
  Bidiagonal(std::vector<T> a, int64_t m, int64_t n)
      : m_(m),
        n_(n),
        made_(std::move(a)),
        left_(static_cast<size_t>(n)),
        right_(left_),
        work_(static_cast<size_t>(m)) {
    for (int64_t k = 0; k < n; ++k) {
      T* const column = At(k, k);
      T* const row = column + 1;
      const int64_t rest = n - k - 1;
      T& left = left_[static_cast<size_t>(k)];
      left = Reflect(column, m - k, n);
      diagonal.push_back(std::real(column[0]));
      ApplyReflection(column, n, left, m - k, rest, n, row, work_.data());
      if (rest == 0) break;
      for (int64_t j = 0; j < rest; ++j) row[j] = Conj(row[j]);
      T& right = right_[static_cast<size_t>(k)];
      right = Reflect(row, rest, 1);
      above.push_back(std::real(row[0]));
      ApplyReflectionRight(row, Conj(right), m - k - 1, rest, n, row + n);
    }
  }

  std::vector<double> diagonal, above;

  // The first columns of Q and P, computed from those of identities whose rows
  // are `pitch` apart.
  void MakeQ(T* x, int64_t columns, int64_t pitch) {
    for (int64_t k = n_; k-- > 0;)
      ApplyReflection(At(k, k), n_, Conj(left_[static_cast<size_t>(k)]), m_ - k,
                      columns - k, pitch, x + k * pitch + k, work_.data());
  }
  void MakeP(T* x) {
    for (int64_t k = n_ - 1; k-- > 0;)
      ApplyReflection(At(k, k + 1), 1, Conj(right_[static_cast<size_t>(k)]),
                      n_ - k - 1, n_ - k - 1, n_, x + (k + 1) * (n_ + 1),
                      work_.data());
  }

 private:
  T* At(int64_t i, int64_t j) { return made_.data() + i * n_ + j; }

  const int64_t m_, n_;
  std::vector<T> made_;  // Reflections: for columns below, for rows above.
  std::vector<T> left_, right_, work_;
};

// (x, y) becomes (r, 0).
PlaneRotation<double> RotationOf(double x, double y, double* r) {
  *r = std::hypot(x, y);
  if (*r == 0) return {1, 0};
  return {x / *r, y / *r};
}

// The smaller singular value of [a b; 0 c].
double SmallerValue(double a, double b, double c) {
  a = std::abs(a), c = std::abs(c);
  const double larger = (std::hypot(a + c, b) + std::hypot(a - c, b)) / 2;
  return larger == 0 ? 0 : a / larger * c;
}

// The singular values of a bidiagonal matrix, in double, and the rotations of
// its QR steps.
template <typename T>
class BidiagonalQr {
 public:
  using Real = RealOf<T>;
  using Rotations = std::vector<PlaneRotation<Real>>;

  // `turns`: whether to keep the rotations.
  BidiagonalQr(std::vector<double> diagonal, std::vector<double> above,
               bool turns)
      : turns_(turns), d_(std::move(diagonal)), e_(std::move(above)) {
    constexpr size_t kStepsPerValue = 30;  // Two or three are needed.
    double largest = 0;
    for (double x : d_) largest = std::max(largest, std::abs(x));
    for (double x : e_) largest = std::max(largest, std::abs(x));
    const double least = largest * std::numeric_limits<Real>::min();
    size_t last = d_.size() - 1;
    for (size_t steps = kStepsPerValue * d_.size(); last > 0 && steps > 0;) {
      for (size_t i = 0; i < last; ++i) {
        const double beside = std::abs(d_[i]) + std::abs(d_[i + 1]);
        if (std::abs(e_[i]) <= std::max(least, kEps * beside)) e_[i] = 0;
      }
      if (e_[last - 1] == 0) {
        --last;
        continue;
      }
      size_t first = last - 1;
      while (first > 0 && e_[first - 1] != 0) --first;
      const double shift = Shift(first, last);
      if (shift == 0)
        StepWithoutShift(first, last);
      else
        Step(first, last, shift);
      if (turns_) steps_.emplace_back(first, last);
      --steps;
    }
    converged_ = last == 0;
    order_.resize(d_.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [this](size_t x, size_t y) {
      return std::abs(d_[x]) > std::abs(d_[y]);
    });
  }

  // Whether the superdiagonal has vanished; if not, the other results are
  // meaningless.
  bool converged() const { return converged_; }
  // In descending order of magnitude, of either sign.
  double value(size_t i) const { return d_[order_[i]]; }
  const Rotations& left() const { return left_; }
  const Rotations& right() const { return right_; }

  // Applies the rotations to the first columns of x, whose rows are `pitch`
  // apart, and orders the columns by singular value.
  void TurnColumns(const Rotations& by, int64_t rows, int64_t pitch,
                   T* x) const {
    // The rows processed at once, transposed, fit four of the widest vectors:
    // they stay in the cache for all steps.
    constexpr int64_t kRows = 256 / sizeof(T);
    const size_t n = d_.size();
    std::vector<T> panel(n * kRows);
    for (int64_t row = 0; row < rows; row += kRows) {
      const int64_t some = std::min(kRows, rows - row);
      T* const at = x + row * pitch;
      for (size_t j = 0; j < n; ++j)
        for (int64_t i = 0; i < some; ++i)
          panel[j * kRows + static_cast<size_t>(i)] =
              at[i * pitch + static_cast<int64_t>(j)];
      const PlaneRotation<Real>* next = by.data();
      for (const auto& [first, last] : steps_) {
        // (Complex numbers are pairs of real ones.)
        RotateRows(next, static_cast<int64_t>(last - first),
                   kRows * static_cast<int64_t>(sizeof(T) / sizeof(Real)),
                   reinterpret_cast<Real*>(panel.data() + first * kRows));
        next += last - first;
      }
      for (size_t j = 0; j < n; ++j)
        for (int64_t i = 0; i < some; ++i)
          at[i * pitch + static_cast<int64_t>(j)] =
              panel[order_[j] * kRows + static_cast<size_t>(i)];
    }
  }

 private:
  static constexpr double kEps = std::numeric_limits<Real>::epsilon();

  // 0 if a value is so small that a nonzero shift would lose it.
  double Shift(size_t first, size_t last) const {
    double bound = std::abs(d_[first]), least = bound, largest = bound;
    for (size_t i = first; i < last; ++i) {
      const double d = std::abs(d_[i + 1]), e = std::abs(e_[i]);
      bound = d * (bound / (bound + e));
      least = std::min(least, bound);
      largest = std::max({largest, d, e});
    }
    if (least <= kEps * largest) return 0;
    const double shift = SmallerValue(d_[last - 1], e_[last - 1], d_[last]);
    const double part = shift / d_[first];
    return part * part < kEps ? 0 : shift;
  }

  void Step(size_t first, size_t last, double shift) {
    double f = (std::abs(d_[first]) - shift) *
               (std::copysign(1.0, d_[first]) + shift / d_[first]);
    double g = e_[first], r = 0;
    for (size_t i = first; i < last; ++i) {
      const auto right = RotationOf(f, g, &r);
      if (i > first) e_[i - 1] = r;
      f = right.c * d_[i] + right.s * e_[i];
      e_[i] = right.c * e_[i] - right.s * d_[i];
      g = right.s * d_[i + 1];
      d_[i + 1] *= right.c;
      const auto left = RotationOf(f, g, &d_[i]);
      f = left.c * e_[i] + left.s * d_[i + 1];
      d_[i + 1] = left.c * d_[i + 1] - left.s * e_[i];
      if (i + 1 < last) {
        g = left.s * e_[i + 1];
        e_[i + 1] *= left.c;
      }
      Keep(left, right);
    }
    e_[last - 1] = f;
  }

  void StepWithoutShift(size_t first, size_t last) {
    PlaneRotation<double> right{1, 0}, left{1, 0};
    double r = 0;
    for (size_t i = first; i < last; ++i) {
      right = RotationOf(d_[i] * right.c, e_[i], &r);
      if (i > first) e_[i - 1] = left.s * r;
      left = RotationOf(left.c * r, d_[i + 1] * right.s, &d_[i]);
      Keep(left, right);
    }
    const double h = d_[last] * right.c;
    d_[last] = h * left.c;
    e_[last - 1] = h * left.s;
  }

  void Keep(PlaneRotation<double> left, PlaneRotation<double> right) {
    if (!turns_) return;
    left_.push_back({static_cast<Real>(left.c), static_cast<Real>(left.s)});
    right_.push_back({static_cast<Real>(right.c), static_cast<Real>(right.s)});
  }

  const bool turns_;
  std::vector<double> d_, e_;
  std::vector<size_t> order_;
  bool converged_ = false;
  std::vector<std::pair<size_t, size_t>> steps_;  // First and last rows.
  Rotations left_, right_;
};

// m >= n. Null u and v are not computed.
template <typename T>
bool SvdByDiagonals(std::vector<T> a, int64_t m, int64_t n, bool full,
                    RealOf<T>* s, T* u, T* v) {
  // For many rows, first reduce to a square matrix.
  std::optional<HouseholderQr<T>> qr;
  if (2 * m > 3 * n) {
    qr.emplace(a.data(), m, n, false);
    a.resize(static_cast<size_t>(n * n));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        a[static_cast<size_t>(i * n + j)] = qr->r(i, j);
  }
  const int64_t rows = qr ? n : m, columns = full ? m : n;
  Bidiagonal<T> b(std::move(a), rows, n);
  const BidiagonalQr<T> diagonal(b.diagonal, b.above,
                                 u != nullptr || v != nullptr);
  if (!diagonal.converged()) return false;
  for (int64_t i = 0; i < n; ++i)
    s[i] = static_cast<RealOf<T>>(
        std::abs(diagonal.value(static_cast<size_t>(i))));
  if (u != nullptr) {
    SetIdentity(u, m, columns);
    b.MakeQ(u, qr ? n : columns, columns);
    diagonal.TurnColumns(diagonal.left(), rows, columns, u);
    if (qr) qr->ApplyQ(u, columns);
  }
  if (v == nullptr) return true;
  SetIdentity(v, n, n);
  b.MakeP(v);
  diagonal.TurnColumns(diagonal.right(), n, n, v);
  for (int64_t j = 0; j < n; ++j)
    if (diagonal.value(static_cast<size_t>(j)) < 0)
      for (int64_t i = 0; i < n; ++i) v[i * n + j] = -v[i * n + j];
  return true;
}

}  // namespace

template <typename T>
bool Svd(const T* a, int64_t m, int64_t n, bool full, RealOf<T>* s, T* u,
         T* v) {
  using Real = RealOf<T>;
  if (std::min(m, n) == 0) {
    // Any basis will do, since the other side is empty.
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
  if (n < kTwoSided) {
    // (Vectors that were not requested have the minimal length.)
    Factors<T> f(m, n, full && u != nullptr);
    SvdTwoSided(scaled, m, n, &f);
    std::copy(f.s.begin(), f.s.end(), s);
    if (u != nullptr) std::copy(f.u.begin(), f.u.end(), u);
    if (v != nullptr) std::copy(f.v.begin(), f.v.end(), v);
  } else if (!(m >= n ? SvdByDiagonals(std::move(scaled), m, n, full, s, u, v)
                      : SvdByDiagonals(AdjointOf(scaled.data(), m, n), n, m,
                                       full, s, v, u))) {
    return false;
  }
  for (int64_t i = 0; i < std::min(m, n); ++i) s[i] *= scale;
  return true;
}

#define SLUICE_INSTANTIATE(T) \
  template bool Svd(const T*, int64_t, int64_t, bool, RealOf<T>*, T*, T*);
SLUICE_LINALG_TYPES(SLUICE_INSTANTIATE)
#undef SLUICE_INSTANTIATE

}  // namespace sluice::linalg
