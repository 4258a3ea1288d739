#include "kernels/dnn/batch_norm.h"

#include <cmath>
#include <random>
#include <vector>

#include "base/parallel.h"
#include "gtest/gtest.h"

namespace sluice::dnn {
namespace {

std::vector<float> NormNumbers(int64_t n, float mean, uint64_t seed) {
  std::vector<float> v(static_cast<size_t>(n));
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(mean, 1);
  for (float& f : v) f = normal(random);
  return v;
}

const NormShape kNormShapes[] = {{1, 1},    {3, 5},     {7, 16},  {100, 33},
                                 {1000, 8}, {5000, 64}, {40, 700}};

TEST(BatchNormTest, MomentsMatchDoublePrecisionFarFromZero) {
  for (const NormShape& s : kNormShapes) {
    for (const float centre : {0.0f, 1000.0f}) {
      const auto x = NormNumbers(s.rows * s.channels, centre, 7);
      std::vector<float> mean(static_cast<size_t>(s.channels)), var = mean;
      ChannelMoments(s, x.data(), mean.data(), var.data());
      for (int64_t c = 0; c < s.channels; ++c) {
        double m = 0, v = 0;
        for (int64_t r = 0; r < s.rows; ++r)
          m += x[static_cast<size_t>(r * s.channels + c)];
        m /= static_cast<double>(s.rows);
        for (int64_t r = 0; r < s.rows; ++r)
          v += std::pow(x[static_cast<size_t>(r * s.channels + c)] - m, 2);
        v /= static_cast<double>(s.rows);
        const auto at = static_cast<size_t>(c);
        EXPECT_NEAR(mean[at], m, 1e-5 + 2e-7 * std::fabs(m));
        EXPECT_NEAR(var[at], v, 1e-4 * (1e-3 + v));
      }
    }
  }
}

TEST(BatchNormTest, EachPassFollowsItsFormula) {
  for (const NormShape& s : kNormShapes) {
    const int64_t n = s.rows * s.channels;
    const auto x = NormNumbers(n, 1, 1), dy = NormNumbers(n, 0, 2);
    const auto mean = NormNumbers(s.channels, 1, 3);
    const auto slope = NormNumbers(s.channels, 2, 4);
    const auto offset = NormNumbers(s.channels, 0, 5);
    const auto along = NormNumbers(s.channels, 0, 6);
    std::vector<float> y(static_cast<size_t>(n)), dx = y;
    std::vector<float> sum(static_cast<size_t>(s.channels)), product = sum;
    Normalize(s, x.data(), mean.data(), slope.data(), offset.data(), y.data());
    NormalizeGradSums(s, dy.data(), x.data(), mean.data(), sum.data(),
                      product.data());
    NormalizeGrad(s, dy.data(), x.data(), mean.data(), slope.data(),
                  offset.data(), along.data(), dx.data());
    std::vector<double> want_sum(sum.size()), want_product(sum.size());
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t c = i % static_cast<size_t>(s.channels);
      const double off = double{x[i]} - mean[c];
      want_sum[c] += dy[i];
      want_product[c] += dy[i] * off;
      EXPECT_NEAR(y[i], off * slope[c] + offset[c], 1e-5);
      EXPECT_NEAR(dx[i], slope[c] * (dy[i] - offset[c] - off * along[c]), 1e-4);
    }
    for (size_t c = 0; c < sum.size(); ++c) {
      EXPECT_NEAR(sum[c], want_sum[c], 1e-3);
      EXPECT_NEAR(product[c], want_product[c], 1e-3);
    }
  }
}

TEST(BatchNormTest, ResultsDoNotDependOnThreadCount) {
  const NormShape s = {5000, 70};
  const auto x = NormNumbers(s.rows * s.channels, 3, 9);
  std::vector<float> mean(70), var(70), sum(70), product(70);
  const auto run = [&](int threads) {
    const ScopedIntraOpThreads use(threads);
    ChannelMoments(s, x.data(), mean.data(), var.data());
    NormalizeGradSums(s, x.data(), x.data(), mean.data(), sum.data(),
                      product.data());
    std::vector<float> all = mean;
    for (const auto* v : {&var, &sum, &product})
      all.insert(all.end(), v->begin(), v->end());
    return all;
  };
  EXPECT_EQ(run(1), run(3));
}

}  // namespace
}  // namespace sluice::dnn
