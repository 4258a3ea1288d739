// Factorisations against the products they promise, transforms against sums.
#include "kernels/linalg/linalg.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "kernels/linalg/fft.h"

namespace sluice::linalg {
namespace {

constexpr uint32_t kLinalgSeed = 20210608;

using Values = std::vector<std::complex<double>>;
using Sizes = std::vector<std::pair<int64_t, int64_t>>;

template <typename T>
std::vector<T> Draw(int64_t n, std::mt19937* rng) {
  std::normal_distribution<RealOf<T>> draw;
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) {
    if constexpr (std::is_same_v<T, RealOf<T>>)
      x = draw(*rng);
    else
      x = T(draw(*rng), draw(*rng));
  }
  return v;
}

template <typename T>
Values Widen(const std::vector<T>& v) {
  return Values(v.begin(), v.end());
}

// op(a)[m, k] * op(b)[k, n], where op is the adjoint if asked.
Values Times(const Values& a, const Values& b, int64_t m, int64_t k, int64_t n,
             bool adjoint_a = false, bool adjoint_b = false) {
  Values out(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l) {
        const auto x = adjoint_a ? std::conj(a[static_cast<size_t>(l * m + i)])
                                 : a[static_cast<size_t>(i * k + l)];
        const auto y = adjoint_b ? std::conj(b[static_cast<size_t>(j * k + l)])
                                 : b[static_cast<size_t>(l * n + j)];
        out[static_cast<size_t>(i * n + j)] += x * y;
      }
  return out;
}

Values Identity(int64_t n) {
  Values out(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i * n + i)] = 1;
  return out;
}

double Distance(const Values& a, const Values& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    // (NaN must not compare as near.)
    const double d = std::abs(a[i] - b[i]);
    most = d <= most ? most : d;
  }
  return most;
}

template <typename T>
class LinalgTest : public ::testing::Test {
 protected:
  void SetUp() override {
    RecordProperty("seed", static_cast<int>(kLinalgSeed));
  }
  // The tolerance of about n^2 roundings of numbers around 1.
  static double Near(int64_t n) {
    const double eps = std::numeric_limits<RealOf<T>>::epsilon();
    return 10 * eps * static_cast<double>(n * n + 1);
  }
  std::mt19937 rng_{kLinalgSeed};
};
using Types =
    ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(LinalgTest, Types);

TYPED_TEST(LinalgTest, TriangularFactorsMultiplyToTheMatrix) {
  using T = TypeParam;
  for (int64_t n : {1, 2, 5, 17, 40}) {
    SCOPED_TRACE(n);
    const auto a = Draw<T>(n * n, &this->rng_);
    std::vector<T> lu(a.size());
    std::vector<int64_t> p(static_cast<size_t>(n));
    ASSERT_TRUE(Lu(a.data(), n, lu.data(), p.data()));
    Values l = Identity(n), u(a.size()), rows(a.size());
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const auto at = static_cast<size_t>(i * n + j);
        (j < i ? l : u)[at] = lu[at];
        rows[at] = a[static_cast<size_t>(p[static_cast<size_t>(i)] * n + j)];
      }
    EXPECT_LT(Distance(Times(l, u, n, n, n), rows), this->Near(n));

    // A positive definite matrix from the same numbers.
    Values square = Times(Widen(a), Widen(a), n, n, n, false, true);
    std::vector<T> positive(a.size()), root(a.size());
    for (int64_t i = 0; i < n; ++i)
      square[static_cast<size_t>(i * n + i)] += static_cast<double>(n);
    for (size_t i = 0; i < a.size(); ++i) {
      if constexpr (std::is_same_v<T, RealOf<T>>)
        positive[i] = static_cast<T>(square[i].real());
      else
        positive[i] = T(square[i]);
    }
    ASSERT_TRUE(Cholesky(positive.data(), n, root.data()));
    EXPECT_LT(Distance(Times(Widen(root), Widen(root), n, n, n, false, true),
                       Widen(positive)),
              static_cast<double>(n) * this->Near(n));
  }
}

TYPED_TEST(LinalgTest, OrthogonalFactorsMultiplyToTheMatrix) {
  using T = TypeParam;
  for (const auto& [m, n] :
       Sizes{{1, 1}, {4, 4}, {7, 3}, {3, 7}, {40, 25}, {25, 40}, {33, 33}}) {
    for (bool full : {false, true}) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << ", " << full);
      const auto a = Draw<T>(m * n, &this->rng_);
      const int64_t least = std::min(m, n), of_u = full ? m : least,
                    of_v = full ? n : least;
      const double near = this->Near(m + n);
      std::vector<T> q(static_cast<size_t>(m * of_u));
      std::vector<T> r(static_cast<size_t>(of_u * n));
      Qr(a.data(), m, n, full, q.data(), r.data());
      EXPECT_LT(Distance(Times(Widen(q), Widen(r), m, of_u, n), Widen(a)),
                near);
      EXPECT_LT(Distance(Times(Widen(q), Widen(q), of_u, m, of_u, true),
                         Identity(of_u)),
                near);
      for (int64_t i = 0; i < of_u; ++i)
        for (int64_t j = 0; j < std::min(i, n); ++j)
          EXPECT_EQ(r[static_cast<size_t>(i * n + j)], T(0));

      std::vector<RealOf<T>> s(static_cast<size_t>(least));
      std::vector<T> u(static_cast<size_t>(m * of_u));
      std::vector<T> v(static_cast<size_t>(n * of_v));
      ASSERT_TRUE(Svd(a.data(), m, n, full, s.data(), u.data(), v.data()));
      EXPECT_TRUE(std::is_sorted(s.rbegin(), s.rend()));
      Values scaled(static_cast<size_t>(of_u * of_v));
      for (int64_t i = 0; i < least; ++i)
        scaled[static_cast<size_t>(i * of_v + i)] = s[static_cast<size_t>(i)];
      EXPECT_LT(Distance(Times(Times(Widen(u), scaled, m, of_u, of_v), Widen(v),
                               m, of_v, n, false, true),
                         Widen(a)),
                near);
      EXPECT_LT(Distance(Times(Widen(v), Widen(v), of_v, n, of_v, true),
                         Identity(of_v)),
                near);
      std::vector<RealOf<T>> alone(s.size());
      ASSERT_TRUE(Svd<T>(a.data(), m, n, full, alone.data(), nullptr, nullptr));
      EXPECT_LT(Distance(Widen(alone), Widen(s)), near);
    }
  }
}

TYPED_TEST(LinalgTest, RecoversConstructedSingularValues) {
  using T = TypeParam;
  // Many zeros, equal ones, and different magnitudes.
  const std::vector<std::vector<double>> values = {
      {},
      {2},
      {3, 2, 1, 1, 1, 1, 1},
      {1, 1e-2, 1e-4, 1e-6, 1e-12, 1e-30},
      {1e20, 5}};
  for (const auto& [m, n] : Sizes{{20, 20}, {45, 20}, {17, 40}}) {
    for (const std::vector<double>& made : values) {
      SCOPED_TRACE(::testing::Message()
                   << m << " x " << n << ", " << made.size());
      const int64_t least = std::min(m, n);
      // The product of two orthogonal factors.
      const auto factor = [&](int64_t rows) {
        const auto drawn = Draw<T>(rows * least, &this->rng_);
        std::vector<T> q(drawn.size());
        std::vector<T> r(static_cast<size_t>(least * least));
        Qr(drawn.data(), rows, least, false, q.data(), r.data());
        return Widen(q);
      };
      Values left = factor(m);
      for (int64_t i = 0; i < m * least; ++i) {
        const auto j = static_cast<size_t>(i % least);
        left[static_cast<size_t>(i)] *= j < made.size() ? made[j] : 0;
      }
      const Values wide = Times(left, factor(n), m, least, n, false, true);
      std::vector<T> a(wide.size());
      for (size_t i = 0; i < a.size(); ++i) {
        if constexpr (std::is_same_v<T, RealOf<T>>)
          a[i] = static_cast<T>(wide[i].real());
        else
          a[i] = T(wide[i]);
      }
      const double near = this->Near(least) * (made.empty() ? 1 : made[0]) / 10;
      std::vector<RealOf<T>> s(static_cast<size_t>(least));
      std::vector<T> u(static_cast<size_t>(m * least)),
          v(static_cast<size_t>(n * least));
      ASSERT_TRUE(Svd(a.data(), m, n, false, s.data(), u.data(), v.data()));
      Values stretched = Widen(u);
      for (size_t i = 0; i < stretched.size(); ++i)
        stretched[i] *= s[i % static_cast<size_t>(least)];
      EXPECT_LT(Distance(Times(stretched, Widen(v), m, least, n, false, true),
                         Widen(a)),
                near);
      for (const auto& [x, rows] : {std::pair(Widen(u), m), {Widen(v), n}})
        EXPECT_LT(
            Distance(Times(x, x, least, rows, least, true), Identity(least)),
            this->Near(least));
      for (size_t i = 0; i < s.size(); ++i)
        EXPECT_NEAR(s[i], i < made.size() ? made[i] : 0, near) << i;
    }
  }
}

TYPED_TEST(LinalgTest, EigenvectorsScaleByTheirEigenvalues) {
  using T = TypeParam;
  for (int64_t n : {1, 2, 3, 20, 45}) {
    SCOPED_TRACE(n);
    auto a = Draw<T>(n * n, &this->rng_);
    Values whole = Widen(a);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        auto& lower = whole[static_cast<size_t>(i * n + j)];
        if (i == j) lower = lower.real();
        whole[static_cast<size_t>(j * n + i)] = std::conj(lower);
      }
    std::vector<RealOf<T>> e(static_cast<size_t>(n)), alone(e.size());
    std::vector<T> v(a.size());
    ASSERT_TRUE(SelfAdjointEig(a.data(), n, e.data(), v.data()));
    EXPECT_TRUE(std::is_sorted(e.begin(), e.end()));
    Values stretched = Widen(v);
    for (size_t i = 0; i < stretched.size(); ++i)
      stretched[i] *= e[i % static_cast<size_t>(n)];
    EXPECT_LT(Distance(Times(whole, Widen(v), n, n, n), stretched),
              2 * this->Near(n));
    ASSERT_TRUE(SelfAdjointEig<T>(a.data(), n, alone.data(), nullptr));
    EXPECT_LT(Distance(Widen(alone), Widen(e)), this->Near(n));
  }
}

TYPED_TEST(LinalgTest, SolvesSystemsAndAdjoints) {
  using T = TypeParam;
  for (int64_t n : {1, 2, 6, 30}) {
    for (bool adjoint : {false, true}) {
      SCOPED_TRACE(::testing::Message() << n << ", " << adjoint);
      auto a = Draw<T>(n * n, &this->rng_);
      for (int64_t i = 0; i < n; ++i)
        a[static_cast<size_t>(i * n + i)] += T(static_cast<RealOf<T>>(3 * n));
      const auto b = Draw<T>(n * 2, &this->rng_);
      std::vector<T> x(b.size()), inverse(a.size());
      ASSERT_TRUE(Solve(a.data(), b.data(), n, 2, adjoint, x.data()));
      EXPECT_LT(Distance(Times(Widen(a), Widen(x), n, n, 2, adjoint), Widen(b)),
                this->Near(n));
      ASSERT_TRUE(Invert(a.data(), n, adjoint, inverse.data()));
      EXPECT_LT(Distance(Times(Widen(a), Widen(inverse), n, n, n, adjoint),
                         Identity(n)),
                this->Near(n));
      for (bool lower : {false, true}) {
        Values half = Widen(a);
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j)
            if (lower ? j > i : j < i) half[static_cast<size_t>(i * n + j)] = 0;
        SolveTriangular(a.data(), b.data(), n, 2, lower, adjoint, x.data());
        EXPECT_LT(Distance(Times(half, Widen(x), n, n, 2, adjoint), Widen(b)),
                  this->Near(n));
      }
    }
  }
}

TYPED_TEST(LinalgTest, TridiagonalSolveMatchesDenseSolve) {
  using T = TypeParam;
  for (int64_t n : {1, 2, 3, 4, 9, 60}) {
    for (bool pivots : {true, false}) {
      SCOPED_TRACE(::testing::Message() << n << ", " << pivots);
      auto d = Draw<T>(3 * n, &this->rng_);
      if (!pivots)
        for (int64_t i = 0; i < n; ++i) d[static_cast<size_t>(n + i)] += T(9);
      const auto b = Draw<T>(n * 2, &this->rng_);
      Values whole(static_cast<size_t>(n * n));
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j : {i - 1, i, i + 1})
          if (j >= 0 && j < n)
            whole[static_cast<size_t>(i * n + j)] =
                d[static_cast<size_t>((i - j + 1) * n + i)];
      std::vector<T> x(b.size());
      ASSERT_TRUE(SolveTridiagonal(d.data(), d.data() + n, d.data() + 2 * n,
                                   b.data(), n, 2, {.partial_pivoting = pivots},
                                   x.data()));
      // (Random diagonals may be ill-conditioned, so relative to x.)
      double size = 1;
      for (const auto& v : Widen(x)) size = std::max(size, std::abs(v));
      EXPECT_LT(Distance(Times(whole, Widen(x), n, n, 2), Widen(b)),
                size * this->Near(4));
    }
  }
}

TYPED_TEST(LinalgTest, ExponentialMatchesPowerSeries) {
  using T = TypeParam;
  for (double size : {1e-3, 0.1, 0.5, 1.0, 4.0}) {
    SCOPED_TRACE(size);
    const int64_t n = 4;
    auto a = Draw<T>(n * n, &this->rng_);
    for (T& x : a) x *= T(static_cast<RealOf<T>>(size));
    Values sum = Identity(n), term = sum;
    for (int k = 1; k < 120; ++k) {
      term = Times(term, Widen(a), n, n, n);
      for (auto& x : term) x /= k;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
    }
    double largest = 1;
    for (const auto& x : sum) largest = std::max(largest, std::abs(x));
    std::vector<T> out(a.size());
    ASSERT_TRUE(Exponential(a.data(), n, out.data()));
    EXPECT_LT(Distance(Widen(out), sum), largest * this->Near(8));
  }
}

TEST(Linalg, LeastSquaresResidualIsOrthogonal) {
  std::mt19937 rng(kLinalgSeed);
  using C = std::complex<double>;
  for (const auto& [m, n] : Sizes{{6, 3}, {3, 6}}) {
    const auto a = Draw<C>(m * n, &rng), b = Draw<C>(m * 2, &rng);
    std::vector<C> x(static_cast<size_t>(n * 2)), other(x.size());
    ASSERT_TRUE(LeastSquares(a.data(), b.data(), m, n, 2, 0, x.data()));
    Values rest = Times(a, x, m, n, 2);
    for (size_t i = 0; i < rest.size(); ++i) rest[i] -= b[i];
    EXPECT_LT(Distance(Times(a, rest, n, m, 2, true), Values(x.size())), 1e-11);
    LeastSquaresAnyRank(a.data(), b.data(), m, n, 2, other.data());
    EXPECT_LT(Distance(x, other), 1e-11);
  }
}

// ---- Fourier transforms -----------------------------------------------------

Values SlowFft(const Values& x, bool inverse) {
  const auto n = static_cast<int64_t>(x.size());
  Values out(x.size());
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t i = 0; i < n; ++i)
      out[static_cast<size_t>(k)] +=
          x[static_cast<size_t>(i)] *
          std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi *
                              static_cast<double>(i * k % n) /
                              static_cast<double>(n));
    if (inverse) out[static_cast<size_t>(k)] /= static_cast<double>(n);
  }
  return out;
}

// Lengths with small factors, with a factor that is just not small, primes.
TEST(Fft, MatchesTheDirectSum) {
  std::mt19937 rng(kLinalgSeed);
  for (int64_t n :
       {1,  2,  3,  4,  5,  6,   7,   8,   9,   12,  16,  25,  30,
        49, 61, 64, 67, 97, 122, 134, 128, 210, 251, 256, 499, 512}) {
    SCOPED_TRACE(n);
    const int64_t dims[] = {n};
    const auto x = Draw<std::complex<double>>(n, &rng);
    for (bool inverse : {false, true}) {
      auto y = x;
      Fft<double>(dims, 1, inverse, y.data());
      EXPECT_LT(Distance(y, SlowFft(x, inverse)), 1e-11);
      std::vector<std::complex<float>> f(x.begin(), x.end());
      Fft<float>(dims, 1, inverse, f.data());
      EXPECT_LT(Distance(Widen(f), SlowFft(x, inverse)),
                2e-6 * static_cast<double>(n));
    }
    std::vector<double> real(static_cast<size_t>(n)), back(real.size());
    Values whole(real.size());
    for (size_t i = 0; i < real.size(); ++i) whole[i] = real[i] = x[i].real();
    Values half(static_cast<size_t>(n / 2 + 1)), want = SlowFft(whole, false);
    RealFft<double>(dims, 1, real.data(), half.data());
    want.resize(half.size());
    EXPECT_LT(Distance(half, want), 1e-11);
    InverseRealFft<double>(dims, 1, half.data(), back.data());
    EXPECT_LT(Distance(Widen(back), whole), 1e-12);
  }
}

// As many lines as fill vectors, fewer, and more; contiguous and in columns.
template <typename T>
void CheckLines(double tolerance) {
  std::mt19937 rng(kLinalgSeed);
  for (int64_t n : {1, 2, 3, 5, 6, 7, 8, 11, 12, 20, 31, 67, 75, 100, 127}) {
    for (int64_t lines : {2, 3, 9, 13}) {
      SCOPED_TRACE(::testing::Message() << n << " x " << lines);
      const auto exact = Draw<std::complex<double>>(n * lines, &rng);
      const std::vector<std::complex<T>> x(exact.begin(), exact.end());
      for (bool inverse : {false, true}) {
        Values want;
        for (int64_t i = 0; i < lines; ++i) {
          const auto* line = x.data() + i * n;
          const Values one = SlowFft(Values(line, line + n), inverse);
          want.insert(want.end(), one.begin(), one.end());
        }
        auto rows = x;
        Fft<T>(std::vector<int64_t>{n}, lines, inverse, rows.data());
        EXPECT_LT(Distance(Widen(rows), want), tolerance);
        // The lines as columns of two blocks, and each a plane's second line.
        std::vector<std::complex<T>> columns(2 * x.size());
        for (int64_t i = 0; i < lines; ++i)
          for (int64_t k = 0; k < n; ++k)
            columns[static_cast<size_t>(k * lines + i)] =
                columns[static_cast<size_t>((n + k) * lines + i)] =
                    x[static_cast<size_t>(i * n + k)];
        Fft<T>(std::vector<int64_t>{n, lines}, 2, inverse, columns.data());
        // (Undo the transform along the rows.)
        Fft<T>(std::vector<int64_t>{lines}, 2 * n, !inverse, columns.data());
        Values got(x.size()), again(x.size());
        for (int64_t i = 0; i < lines; ++i)
          for (int64_t k = 0; k < n; ++k) {
            const auto at = static_cast<size_t>(i * n + k);
            got[at] = columns[static_cast<size_t>(k * lines + i)];
            again[at] = columns[static_cast<size_t>((n + k) * lines + i)];
          }
        EXPECT_LT(Distance(got, want), tolerance);
        EXPECT_LT(Distance(again, want), tolerance);
      }
    }
  }
}

TEST(Fft, LinesBesideEachOtherAreTransformedAlike) {
  CheckLines<double>(1e-12);
  CheckLines<float>(2e-4);
}

template <typename T>
void CheckRealLines(double tolerance) {
  std::mt19937 rng(kLinalgSeed);
  for (int64_t n : {1, 2, 3, 4, 5, 9, 10, 15, 16, 67, 74, 100, 134, 202}) {
    for (int64_t lines : {2, 3, 8, 9, 13}) {
      SCOPED_TRACE(::testing::Message() << n << " x " << lines);
      const int64_t half = n / 2 + 1;
      const auto drawn = Draw<double>(n * lines, &rng);
      const std::vector<T> x(drawn.begin(), drawn.end());
      std::vector<std::complex<T>> y(static_cast<size_t>(half * lines));
      RealFft<T>(std::vector<int64_t>{n}, lines, x.data(), y.data());
      Values want;
      for (int64_t i = 0; i < lines; ++i) {
        const Values one =
            SlowFft(Values(x.data() + i * n, x.data() + (i + 1) * n), false);
        want.insert(want.end(), one.begin(), one.begin() + half);
      }
      EXPECT_LT(Distance(Widen(y), want), tolerance);
      // What must be zero is ignored.
      for (int64_t i = 0; i < lines; ++i) {
        y[static_cast<size_t>(i * half)] += std::complex<T>(0, 3);
        if (n % 2 == 0)
          y[static_cast<size_t>(i * half + half - 1)] += std::complex<T>(0, 2);
      }
      std::vector<T> back(x.size());
      InverseRealFft<T>(std::vector<int64_t>{n}, lines, y.data(), back.data());
      EXPECT_LT(Distance(Widen(back), Widen(x)), tolerance);
    }
  }
}

TEST(Fft, RealLinesOfAnyLengthAndNumber) {
  CheckRealLines<double>(1e-12);
  CheckRealLines<float>(2e-4);
}

TEST(Fft, LinesDoNotAffectEachOther) {
  std::mt19937 rng(kLinalgSeed);
  for (int64_t n : {6, 64, 67}) {
    SCOPED_TRACE(n);
    const auto x = Draw<std::complex<double>>(n * 5, &rng);
    auto whole = x, spoilt = x;
    for (int64_t k = 0; k < n; ++k)
      spoilt[static_cast<size_t>(2 * n + k)] = std::nan("");
    Fft<double>(std::vector<int64_t>{n}, 5, false, whole.data());
    Fft<double>(std::vector<int64_t>{n}, 5, false, spoilt.data());
    for (int64_t i = 0; i < 5 * n; ++i) {
      const auto at = static_cast<size_t>(i);
      if (i / n == 2)
        EXPECT_TRUE(std::isnan(spoilt[at].real()));
      else
        EXPECT_EQ(spoilt[at], whole[at]);
    }
  }
}

TEST(Fft, MultipleDimensionsAreSeparable) {
  std::mt19937 rng(kLinalgSeed);
  const int64_t dims[] = {3, 4, 5};
  const auto x = Draw<std::complex<double>>(2 * 60, &rng);
  auto want = x;
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t n = dims[axis], stride = axis == 0 ? 20 : axis == 1 ? 5 : 1;
    for (int64_t i = 0; i < 120; ++i) {
      if (i / stride % n != 0) continue;
      Values line;
      for (int64_t k = 0; k < n; ++k)
        line.push_back(want[static_cast<size_t>(i + k * stride)]);
      line = SlowFft(line, false);
      for (int64_t k = 0; k < n; ++k)
        want[static_cast<size_t>(i + k * stride)] =
            line[static_cast<size_t>(k)];
    }
  }
  auto got = x;
  Fft<double>(dims, 2, false, got.data());
  EXPECT_LT(Distance(got, want), 1e-12);
  Fft<double>(dims, 2, true, got.data());
  EXPECT_LT(Distance(got, x), 1e-13);
}

TEST(Fft, ResultsDoNotDependOnThreadCount) {
  std::mt19937 rng(kLinalgSeed);
  const int64_t dims[] = {64, 67};
  const auto x = Draw<std::complex<double>>(30 * 64 * 67, &rng);
  auto one = x, many = x;
  Fft<double>(dims, 30, false, one.data());
  {
    ScopedIntraOpThreads threads(4);
    Fft<double>(dims, 30, false, many.data());
  }
  EXPECT_EQ(one, many);
}

}  // namespace
}  // namespace sluice::linalg
