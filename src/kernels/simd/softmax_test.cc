#include "kernels/simd/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "kernels/simd/test_util.h"
#include "kernels/simd/update.h"

namespace sluice::simd {
namespace {

template <class T>
double Tolerance() {
  if (std::is_same_v<T, double>) return 1e-14;
  if (std::is_same_v<T, float>) return 2e-6;
  return std::is_same_v<T, half> ? 2e-3 : 2e-2;
}

template <class T>
T Label(double x) {
  if constexpr (kIs16BitFloat<T>)
    return T(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

// log_softmax of a row, in double.
template <class T>
std::vector<double> LogReference(const T* x, int64_t n) {
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < n; ++i)
    max = std::max(max, static_cast<double>(x[i]));
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += std::exp(static_cast<double>(x[i]) - max);
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i)
    out.push_back(static_cast<double>(x[i]) - max - std::log(sum));
  return out;
}

template <class T>
class SoftmaxTest : public testing::Test {};
using Floats = testing::Types<float, double, half, bfloat16>;
TYPED_TEST_SUITE(SoftmaxTest, Floats);

TYPED_TEST(SoftmaxTest, HandlesRowsOfManyWidths) {
  using T = TypeParam;
  std::mt19937_64 rng(kTestSeed);
  ScopedIntraOpThreads threads(2);
  const double tolerance = Tolerance<T>();
  for (int64_t n : {1, 2, 7, 10, 15, 16, 17, 64, 1000}) {
    SCOPED_TRACE(testing::Message() << "seed " << kTestSeed << ", n " << n);
    const int64_t rows = 33;
    auto x = RandomArray<T>(rows * n, rng, false);
    Unaligned<T> soft(rows * n), log(rows * n), grad(rows * n), loss(rows);
    Unaligned<T> labels(rows * n), sparse_grad(rows * n), sparse_loss(rows);
    Unaligned<int32_t> classes(rows);
    for (int64_t r = 0; r < rows; ++r) {
      classes[r] = static_cast<int32_t>(rng() % static_cast<uint64_t>(n));
      labels[r * n + classes[r]] = Label<T>(1);
    }
    ASSERT_TRUE(Softmax(DTypeOf<T>(), rows, n, x.data(), soft.data()));
    ASSERT_TRUE(LogSoftmax(DTypeOf<T>(), rows, n, x.data(), log.data()));
    ASSERT_TRUE(SoftmaxCrossEntropy(DTypeOf<T>(), rows, n, x.data(), n,
                                    labels.data(), n, loss.data(),
                                    grad.data()));
    int64_t bad = 0;
    ASSERT_TRUE(SparseSoftmaxCrossEntropy(
        DTypeOf<T>(), DType::kInt32, rows, n, x.data(), classes.data(),
        sparse_loss.data(), sparse_grad.data(), &bad));
    EXPECT_EQ(bad, -1);
    for (int64_t r = 0; r < rows; ++r) {
      const auto want = LogReference(x.data() + r * n, n);
      const double scale = 1 + std::fabs(want[0]);
      for (int64_t i = 0; i < n; ++i) {
        const double p = std::exp(want[static_cast<size_t>(i)]);
        const int64_t at = r * n + i;
        ASSERT_NEAR(AsDouble(soft[at]), p, tolerance * p + 1e-7);
        ASSERT_NEAR(AsDouble(log[at]), want[static_cast<size_t>(i)],
                    tolerance * 4 * scale);
        const double g = p - (i == classes[r] ? 1 : 0);
        ASSERT_NEAR(AsDouble(grad[at]), g, tolerance);
        ASSERT_NEAR(AsDouble(sparse_grad[at]), g, tolerance);
      }
      const double l = -want[static_cast<size_t>(classes[r])];
      ASSERT_NEAR(AsDouble(loss[r]), l, tolerance * 4 * (1 + l));
      ASSERT_NEAR(AsDouble(sparse_loss[r]), l, tolerance * 4 * (1 + l));
    }
    // In place.
    const Unaligned<T>* kept = &soft;
    ASSERT_TRUE(Softmax(DTypeOf<T>(), rows, n, x.data(), x.data()));
    for (int64_t i = 0; i < rows * n; ++i)
      ASSERT_TRUE(Near(x[i], (*kept)[i], 0));
  }
}

TYPED_TEST(SoftmaxTest, GradientMayOverwriteTheLogits) {
  using T = TypeParam;
  std::mt19937_64 rng(kTestSeed);
  const int64_t rows = 3, n = 37;
  auto x = RandomArray<T>(rows * n, rng, false);
  const auto labels = RandomArray<T>(n, rng, false);
  Unaligned<T> loss(rows), grad(rows * n), loss2(rows);
  ASSERT_TRUE(SoftmaxCrossEntropy(DTypeOf<T>(), rows, n, x.data(), n,
                                  labels.data(), 0, loss.data(), grad.data()));
  ASSERT_TRUE(SoftmaxCrossEntropy(DTypeOf<T>(), rows, n, x.data(), n,
                                  labels.data(), 0, loss2.data(), x.data()));
  for (int64_t i = 0; i < rows * n; ++i) ASSERT_TRUE(Near(x[i], grad[i], 0));
  for (int64_t r = 0; r < rows; ++r) ASSERT_TRUE(Near(loss[r], loss2[r], 0));
}

TEST(SoftmaxEdgeTest, LargeInputsDoNotOverflowAndNanPropagates) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float x[] = {1e30f, 1e30f, -inf, nan, 0, 0, -inf, -inf, -inf};
  float out[9];
  ASSERT_TRUE(Softmax(DType::kFloat, 3, 3, x, out));
  EXPECT_EQ(out[0], 0.5f);
  EXPECT_EQ(out[2], 0);
  for (int i = 3; i < 9; ++i) EXPECT_TRUE(std::isnan(out[i])) << i;
  ASSERT_TRUE(LogSoftmax(DType::kFloat, 3, 3, x, out));
  EXPECT_NEAR(out[0], -std::log(2.f), 1e-7f);
  EXPECT_EQ(out[2], -inf);
  for (int i = 3; i < 9; ++i) EXPECT_TRUE(std::isnan(out[i])) << i;
}

TEST(SoftmaxEdgeTest, LabelsOutOfRangeAreReported) {
  const float x[] = {0, 0, 1, 1};
  const int64_t labels[] = {1, 2};
  float loss[2], grad[4];
  int64_t bad = -1;
  ASSERT_TRUE(SparseSoftmaxCrossEntropy(DType::kFloat, DType::kInt64, 2, 2, x,
                                        labels, loss, grad, &bad));
  EXPECT_EQ(bad, 1);
  EXPECT_FLOAT_EQ(loss[0], std::log(2.0f));
  EXPECT_TRUE(std::isnan(loss[1]));
  EXPECT_TRUE(std::isnan(grad[3]));
  EXPECT_FALSE(SparseSoftmaxCrossEntropy(DType::kFloat, DType::kFloat, 2, 2, x,
                                         labels, loss, grad, &bad));
  EXPECT_FALSE(Softmax(DType::kInt32, 1, 1, x, grad));
  EXPECT_TRUE(Softmax(DType::kFloat, 0, 5, nullptr, nullptr));
  EXPECT_TRUE(Softmax(DType::kFloat, 5, 0, nullptr, nullptr));
}

template <class T>
class UpdateTest : public testing::Test {};
TYPED_TEST_SUITE(UpdateTest, Floats);

TYPED_TEST(UpdateTest, FollowTheirFormulas) {
  using T = TypeParam;
  std::mt19937_64 rng(kTestSeed);
  ScopedIntraOpThreads threads(2);
  const DType t = DTypeOf<T>();
  const double tolerance = Tolerance<T>() * 4;
  for (int64_t n : {0, 1, 7, 16, 17, 300, 40000}) {
    const auto g = RandomArray<T>(n, rng, false);
    const auto w0 = RandomArray<T>(n, rng, false);
    auto a0 = RandomArray<T>(n, rng, false);
    for (int64_t i = 0; i < n; ++i)
      a0[i] = Label<T>(std::fabs(AsDouble(a0[i])) + 0.5);
    for (int rule = 0; rule < 6; ++rule) {
      Unaligned<T> w(n), a(n), v(n);
      for (int64_t i = 0; i < n; ++i) {
        w[i] = w0[i];
        a[i] = a0[i];
        v[i] = a0[i];
      }
      const bool flag = rule % 2 == 0;
      if (rule == 0) {
        ASSERT_TRUE(Axpy(t, -0.5, g.data(), w.data(), n));
      } else if (rule <= 2) {
        ASSERT_TRUE(
            AdagradUpdate(t, 0.1, 0.01, flag, g.data(), a.data(), w.data(), n));
      } else if (rule <= 4) {
        ASSERT_TRUE(
            MomentumUpdate(t, 0.1, 0.9, flag, g.data(), a.data(), w.data(), n));
      } else {
        ASSERT_TRUE(AdamUpdate(t, 0.1, 0.9, 0.99, 1e-3, flag, g.data(),
                               a.data(), v.data(), w.data(), n));
      }
      for (int64_t i = 0; i < n; ++i) {
        const double gi = AsDouble(g[i]);
        double wi = AsDouble(w0[i]), ai = AsDouble(a0[i]), vi = ai;
        if (rule == 0) {
          wi -= 0.5 * gi;
        } else if (rule <= 2) {
          if (flag) ai += gi * gi;
          wi -= 0.1 * gi / (std::sqrt(ai) + 0.01);
        } else if (rule <= 4) {
          ai = 0.9 * ai + gi;
          wi -= 0.1 * (flag ? gi + 0.9 * ai : ai);
        } else {
          ai += 0.1 * (gi - ai);
          vi += 0.01 * (gi * gi - vi);
          wi -= 0.1 * ai / (std::sqrt(vi) + 1e-3);
        }
        ASSERT_NEAR(AsDouble(w[i]), wi, tolerance * (1 + std::fabs(wi)))
            << "rule " << rule << " at " << i << " of " << n << ", seed "
            << kTestSeed;
        ASSERT_NEAR(AsDouble(a[i]), ai, tolerance * (1 + std::fabs(ai)));
        ASSERT_NEAR(AsDouble(v[i]), vi, tolerance * (1 + std::fabs(vi)));
      }
    }
  }
  EXPECT_FALSE(Axpy(DType::kInt32, 1, nullptr, nullptr, 0));
}

TEST(UpdateTest, AddNAddsAnyNumberOfInputs) {
  ScopedIntraOpThreads threads(2);
  for (int64_t n : {0, 1, 5000, 40000}) {
    for (size_t count : {1, 2, 3, 9}) {
      std::vector<std::vector<int32_t>> in(
          count, std::vector<int32_t>(static_cast<size_t>(n)));
      std::vector<const void*> pointers;
      for (size_t k = 0; k < count; ++k) {
        for (size_t i = 0; i < in[k].size(); ++i)
          in[k][i] = static_cast<int32_t>(i * (k + 1));
        pointers.push_back(in[k].data());
      }
      std::vector<int32_t> out(static_cast<size_t>(n));
      ASSERT_TRUE(AddN(DType::kInt32, pointers, out.data(), n));
      for (size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(out[i], static_cast<int32_t>(i * count * (count + 1) / 2));
      ASSERT_TRUE(AddN(DType::kInt32, pointers, in[0].data(), n));
      EXPECT_EQ(in[0], out);
    }
  }
  const void* none[] = {nullptr};
  EXPECT_FALSE(AddN(DType::kBool, none, nullptr, 0));
}

}  // namespace
}  // namespace sluice::simd
