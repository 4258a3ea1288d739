#include "kernels/simd/lstm.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::simd {
namespace {

template <typename T>
std::vector<T> LstmNumbers(int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 2);
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) x = static_cast<T>(normal(random));
  return v;
}

double Logistic(double x) { return 1 / (1 + std::exp(-x)); }

template <typename T>
void ExpectSteps(DType t, double tolerance) {
  constexpr double kForget = 0.5;
  // Sizes around those of vectors, and several rows.
  for (const int64_t units : {1, 3, 4, 7, 8, 16, 17, 33, 70}) {
    for (const bool one_b : {false, true}) {
      SCOPED_TRACE(units);
      const int64_t rows = 3;
      const auto a = LstmNumbers<T>(rows * 4 * units, 1);
      const auto b = LstmNumbers<T>((one_b ? 1 : rows) * 4 * units, 2);
      const auto c_prev = LstmNumbers<T>(rows * units, 3);
      const auto dc = LstmNumbers<T>(rows * units, 4);
      const auto dh = LstmNumbers<T>(rows * units, 5);
      std::vector<T> gates = a;  // In place.
      std::vector<T> c(c_prev.size()), h(c_prev.size());
      ASSERT_TRUE(LstmForward(t, {rows, units}, kForget, gates.data(), b.data(),
                              one_b, c_prev.data(), gates.data(), c.data(),
                              h.data()));
      std::vector<T> dz = gates, dc_prev = dc;  // In place.
      ASSERT_TRUE(LstmBackward(t, {rows, units}, dz.data(), c_prev.data(),
                               dc_prev.data(), dh.data(), dz.data(),
                               dc_prev.data()));
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t u = 0; u < units; ++u) {
          const auto gate = [&](int64_t g) {
            return static_cast<size_t>((r * 4 + g) * units + u);
          };
          const auto z = [&](int64_t g) {
            return double{a[gate(g)]} +
                   b[static_cast<size_t>(((one_b ? 0 : r) * 4 + g) * units +
                                         u)];
          };
          const size_t at = static_cast<size_t>(r * units + u);
          const double i = Logistic(z(0)), j = std::tanh(z(1));
          const double f = Logistic(z(2) + kForget), o = Logistic(z(3));
          const double next = f * c_prev[at] + i * j, y = std::tanh(next);
          EXPECT_NEAR(gates[gate(0)], i, tolerance);
          EXPECT_NEAR(gates[gate(1)], j, tolerance);
          EXPECT_NEAR(gates[gate(2)], f, tolerance);
          EXPECT_NEAR(gates[gate(3)], o, tolerance);
          EXPECT_NEAR(c[at], next, 4 * tolerance);
          EXPECT_NEAR(h[at], o * y, 4 * tolerance);
          const double d = dc[at] + dh[at] * o * (1 - y * y);
          EXPECT_NEAR(dz[gate(0)], d * j * i * (1 - i), 20 * tolerance);
          EXPECT_NEAR(dz[gate(1)], d * i * (1 - j * j), 20 * tolerance);
          EXPECT_NEAR(dz[gate(2)], d * c_prev[at] * f * (1 - f),
                      40 * tolerance);
          EXPECT_NEAR(dz[gate(3)], dh[at] * y * o * (1 - o), 20 * tolerance);
          EXPECT_NEAR(dc_prev[at], d * f, 20 * tolerance);
        }
      }
    }
  }
}

TEST(Lstm, StepsAndGradientsFollowTheFormulas) {
  ExpectSteps<float>(DType::kFloat, 3e-7);
  ExpectSteps<double>(DType::kDouble, 1e-15);
}

TEST(Lstm, SaturatesAndPropagatesNan) {
  const float inf = std::numeric_limits<float>::infinity();
  const float a[] = {inf, 1000, -inf, 80};
  const float b[] = {0, 0, 0, 0}, c_prev[] = {5};
  float gates[4], c, h;
  ASSERT_TRUE(
      LstmForward(DType::kFloat, {1, 1}, 1, a, b, true, c_prev, gates, &c, &h));
  EXPECT_EQ(gates[0], 1);
  EXPECT_EQ(gates[1], 1);
  EXPECT_EQ(gates[2], 0);
  EXPECT_EQ(gates[3], 1);
  EXPECT_EQ(c, 1);
  const float bad[] = {std::nanf(""), 0, 0, 0};
  ASSERT_TRUE(LstmForward(DType::kFloat, {1, 1}, 1, bad, b, true, c_prev, gates,
                          &c, &h));
  EXPECT_TRUE(std::isnan(gates[0]));
  EXPECT_TRUE(std::isnan(c) && std::isnan(h));
}

TEST(Lstm, AcceptsEmptyInputsAndRejectsOtherTypes) {
  EXPECT_TRUE(LstmForward(DType::kFloat, {0, 4}, 1, nullptr, nullptr, true,
                          nullptr, nullptr, nullptr, nullptr));
  EXPECT_TRUE(LstmForward(DType::kFloat, {4, 0}, 1, nullptr, nullptr, true,
                          nullptr, nullptr, nullptr, nullptr));
  EXPECT_FALSE(LstmBackward(DType::kHalf, {0, 4}, nullptr, nullptr, nullptr,
                            nullptr, nullptr, nullptr));
}

}  // namespace
}  // namespace sluice::simd
