#include "kernels/simd/layer_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/parallel.h"

namespace sluice::simd {
namespace {

template <typename T>
struct Normed {
  std::vector<T> y, mean, scale, dx, dgamma, dbeta;
  bool operator==(const Normed&) const = default;
};

template <typename T>
struct NormCase {
  RowsShape shape;
  double epsilon = 1e-3;
  std::vector<T> x, gamma, beta, dy;
};

template <typename T>
NormCase<T> DrawCase(RowsShape shape, std::mt19937& rng) {
  std::normal_distribution<double> normal;
  const auto draw = [&](int64_t n, double mean) {
    std::vector<T> v(static_cast<size_t>(n));
    for (T& e : v) e = static_cast<T>(mean + normal(rng));
    return v;
  };
  const int64_t n = shape.columns, all = shape.rows * n;
  return {shape, 1e-3, draw(all, 3), draw(n, 1), draw(n, 0), draw(all, 0.2)};
}

template <typename T>
constexpr DType kTypeOf = sizeof(T) == 8 ? DType::kDouble : DType::kFloat;

template <typename T>
Normed<T> ByKernel(const NormCase<T>& c, bool in_place) {
  const auto rows = static_cast<size_t>(c.shape.rows),
             n = static_cast<size_t>(c.shape.columns);
  Normed<T> out = {in_place ? c.x : std::vector<T>(rows * n),
                   std::vector<T>(rows),
                   std::vector<T>(rows),
                   in_place ? c.dy : std::vector<T>(rows * n),
                   std::vector<T>(n, T(7)),
                   std::vector<T>(n, T(7))};
  std::vector<T> room(static_cast<size_t>(LayerNormGradRoom(c.shape)), T(9));
  EXPECT_TRUE(LayerNorm(kTypeOf<T>, c.shape, c.epsilon,
                        in_place ? out.y.data() : c.x.data(), c.gamma.data(),
                        c.beta.data(), out.y.data(), out.mean.data(),
                        out.scale.data()));
  EXPECT_TRUE(LayerNormGrad(
      kTypeOf<T>, c.shape, in_place ? out.dx.data() : c.dy.data(), c.x.data(),
      c.gamma.data(), out.mean.data(), out.scale.data(), out.dx.data(),
      out.dgamma.data(), out.dbeta.data(), room.data()));
  return out;
}

// By the formulas of the header, in long double.
template <typename T>
Normed<long double> Plain(const NormCase<T>& c) {
  using W = long double;
  const auto rows = static_cast<size_t>(c.shape.rows),
             n = static_cast<size_t>(c.shape.columns);
  Normed<W> out = {std::vector<W>(rows * n), std::vector<W>(rows),
                   std::vector<W>(rows),     std::vector<W>(rows * n),
                   std::vector<W>(n),        std::vector<W>(n)};
  const W count = static_cast<W>(n);
  for (size_t r = 0; r < rows; ++r) {
    const T *x = &c.x[r * n], *dy = &c.dy[r * n];
    W sum = 0, squares = 0, level = 0, along = 0;
    for (size_t i = 0; i < n; ++i) sum += x[i];
    const W mean = out.mean[r] = sum / count;
    for (size_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const W scale = out.scale[r] =
        1 / std::sqrt(squares / count + static_cast<W>(c.epsilon));
    const auto normal = [&](size_t i) { return (x[i] - mean) * scale; };
    for (size_t i = 0; i < n; ++i) {
      out.y[r * n + i] = normal(i) * c.gamma[i] + c.beta[i];
      const W g = static_cast<W>(dy[i]) * c.gamma[i];
      level += g / count;
      along += g * normal(i) / count;
      out.dgamma[i] += dy[i] * normal(i);
      out.dbeta[i] += dy[i];
    }
    for (size_t i = 0; i < n; ++i)
      out.dx[r * n + i] = scale * (static_cast<W>(dy[i]) * c.gamma[i] - level -
                                   normal(i) * along);
  }
  return out;
}

template <typename T>
void ExpectNear(const std::vector<T>& got, const std::vector<long double>& want,
                double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(static_cast<long double>(got[i]) - want[i]),
              tolerance * (1 + std::abs(want[i])))
        << what << " element " << i << ": " << got[i] << " for " << want[i];
}

// Sizes around those of vectors, of unrolled loops and of the blocks of sums.
template <typename T>
void ExpectFormulas(double tolerance) {
  constexpr unsigned kSeed = 41;
  std::mt19937 rng(kSeed);
  for (const RowsShape shape :
       {RowsShape{1, 1}, RowsShape{3, 2}, RowsShape{5, 7}, RowsShape{2, 64},
        RowsShape{40, 67}, RowsShape{300, 131}, RowsShape{3, 4097},
        RowsShape{2, 9001}, RowsShape{0, 5}}) {
    const NormCase<T> c = DrawCase<T>(shape, rng);
    const std::string what = "seed " + std::to_string(kSeed) + ", " +
                             std::to_string(shape.rows) + " x " +
                             std::to_string(shape.columns) + ", ";
    const Normed<long double> want = Plain(c);
    const Normed<T> got = ByKernel(c, false);
    ExpectNear(got.y, want.y, tolerance, what + "y");
    ExpectNear(got.mean, want.mean, tolerance, what + "mean");
    ExpectNear(got.scale, want.scale, tolerance, what + "scale");
    ExpectNear(got.dx, want.dx, tolerance, what + "dx");
    ExpectNear(got.dgamma, want.dgamma, tolerance, what + "dgamma");
    ExpectNear(got.dbeta, want.dbeta, tolerance, what + "dbeta");
    EXPECT_TRUE(ByKernel(c, true) == got) << what << "in place";
    const ScopedIntraOpThreads threads(3);
    EXPECT_TRUE(ByKernel(c, false) == got) << what << "three threads";
  }
}

TEST(LayerNormTest, FloatsAreThoseOfTheFormulas) {
  ExpectFormulas<float>(3e-5);
}
TEST(LayerNormTest, DoublesAreThoseOfTheFormulas) {
  ExpectFormulas<double>(1e-12);
}

// The variance is about the mean, so a large mean does not cancel it.
TEST(LayerNormTest, ALargeMeanLeavesTheVariance) {
  NormCase<float> c = {{1, 200},
                       0,
                       {},
                       std::vector<float>(200, 1),
                       std::vector<float>(200, 0),
                       std::vector<float>(200, 0)};
  for (int i = 0; i < 200; ++i) c.x.push_back(i % 2 == 0 ? 10001.f : 9999.f);
  const Normed<float> got = ByKernel(c, false);
  for (int i = 0; i < 200; ++i)
    EXPECT_NEAR(got.y[static_cast<size_t>(i)], i % 2 == 0 ? 1 : -1, 1e-3);
}

// The float mean of such rows has a rounding error of up to 1e-6 of the mean,
// which must count neither as variance nor as what y is off.
TEST(LayerNormTest, TheMeansRoundingErrorIsNoVariance) {
  constexpr unsigned kSeed = 43;
  std::mt19937 rng(kSeed);
  for (const int64_t n : {3, 17, 256, 768, 5000}) {
    NormCase<float> c = DrawCase<float>({4, n}, rng);
    const auto row = [&](int64_t r) { return c.x.begin() + r * n; };
    std::fill_n(row(0), n, 12345.678f);
    std::fill_n(row(1), n, -0.1f);
    // As many above as below, in a random order.
    for (int64_t i = 0; i < n; ++i)
      *(row(2) + i) = i == n / 2 && n % 2 == 1 ? 1e6f
                      : i < n / 2              ? 999999.f
                                               : 1000001.f;
    std::shuffle(row(2), row(3), rng);
    std::fill_n(row(3), n, 3e9f);
    const Normed<long double> want = Plain(c);
    const Normed<float> got = ByKernel(c, false);
    const std::string what =
        "seed " + std::to_string(kSeed) + ", n " + std::to_string(n) + ", ";
    ExpectNear(got.y, want.y, 1e-5, what + "y");
    ExpectNear(got.scale, want.scale, 1e-5, what + "scale");
    ExpectNear(got.mean, want.mean, 1e-7, what + "mean");
    ExpectNear(got.dx, want.dx, 1e-4, what + "dx");
  }
}

TEST(LayerNormTest, HugeDeviationsLeaveBetaAndInfiniteElementsNothing) {
  NormCase<float> c = {{1, 100}, 1e-3, {}, std::vector<float>(100, 2), {}, {}};
  for (int i = 0; i < 100; ++i) {
    c.x.push_back(i % 2 == 0 ? 1e20f : -1e20f);
    c.beta.push_back(static_cast<float>(i));
  }
  c.dy.assign(100, 1);
  Normed<float> got = ByKernel(c, false);
  EXPECT_EQ(got.y, c.beta);
  EXPECT_EQ(got.scale[0], 0);
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    c.x[60] = bad;
    got = ByKernel(c, false);
    for (const float y : got.y) EXPECT_TRUE(std::isnan(y)) << y;
  }
}

TEST(LayerNormTest, OtherTypesAreRefused) {
  EXPECT_FALSE(LayerNorm(DType::kHalf, {1, 1}, 0, nullptr, nullptr, nullptr,
                         nullptr, nullptr, nullptr));
  EXPECT_FALSE(LayerNormGrad(DType::kInt32, {1, 1}, nullptr, nullptr, nullptr,
                             nullptr, nullptr, nullptr, nullptr, nullptr,
                             nullptr));
}

}  // namespace
}  // namespace sluice::simd
