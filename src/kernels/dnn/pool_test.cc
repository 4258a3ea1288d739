#include "kernels/dnn/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "tensor/half.h"

namespace sluice::dnn {
namespace {

// WindowDim: in, window, stride, dilation, pad_before, pad_after.
const PoolGeometry kShapes[] = {
    {Layout::kNhwc, 1, 1, {1, 1}, {1, 1}},
    {Layout::kNhwc, 3, 5, {6, 2, 2}, {8, 2, 2}},
    {Layout::kNhwc, 2, 16, {7, 3, 2, 1, 1, 1}, {6, 3, 2, 1, 0, 1}},
    {Layout::kNhwc, 2, 37, {5, 3, 1, 1, 1, 1}, {5, 2, 1, 1, 1, 0}},
    {Layout::kNhwc, 1, 150, {5, 3, 1, 1, 2, 2}, {4, 4, 3}},
    {Layout::kNhwc, 2, 3, {9, 2, 4}, {9, 1, 3}},
    {Layout::kNhwc, 0, 3, {9, 2, 4}, {9, 1, 3}},
    {Layout::kNhwc, 2, 0, {9, 2, 4}, {9, 1, 3}},
    {Layout::kNhwc, 2, 3, {1, 2}, {9, 1, 3}},
    {Layout::kNhwc, 2, 5, {4, 2, 2}, {5, 2, 1}, {3, 2, 1, 1, 1, 0}},
    {Layout::kNhwc, 1, 80, {4, 3, 2, 1, 1, 1}, {3, 2, 2}, {5, 3, 2, 1, 2, 1}},
};

struct Sizes {
  int64_t d, h, w;
};
int64_t Index(const PoolGeometry& s, Sizes of, int64_t n, int64_t z, int64_t y,
              int64_t x, int64_t c) {
  return s.layout == Layout::kNhwc
             ? (((n * of.d + z) * of.h + y) * of.w + x) * s.channels + c
             : (((n * s.channels + c) * of.d + z) * of.h + y) * of.w + x;
}

// Calls fn(output index, indices of its window's inputs).
template <typename Fn>
void ForEachOutput(const PoolGeometry& s, Fn fn) {
  const Sizes in{s.d.in, s.h.in, s.w.in};
  const Sizes out{s.d.out(), s.h.out(), s.w.out()};
  for (int64_t nz = 0; nz < s.batch * out.d; ++nz)
    for (int64_t y = 0; y < s.h.out(); ++y)
      for (int64_t x = 0; x < s.w.out(); ++x)
        for (int64_t c = 0; c < s.channels; ++c) {
          std::vector<int64_t> inputs;
          const int64_t n = nz / out.d, z = nz % out.d;
          for (int64_t i = 0; i < s.d.window * s.h.window; ++i)
            for (int64_t j = 0; j < s.w.window; ++j) {
              const int64_t iz =
                  z * s.d.stride - s.d.pad_before + i / s.h.window;
              const int64_t iy =
                  y * s.h.stride - s.h.pad_before + i % s.h.window;
              const int64_t ix = x * s.w.stride - s.w.pad_before + j;
              if (iz >= 0 && iz < s.d.in && iy >= 0 && iy < s.h.in && ix >= 0 &&
                  ix < s.w.in)
                inputs.push_back(Index(s, in, n, iz, iy, ix, c));
            }
          fn(Index(s, out, n, z, y, x, c), inputs);
        }
}

// Few distinct values, so that windows have ties.
template <typename T>
std::vector<T> DrawTied(std::mt19937& rng, int64_t n) {
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) x = T(static_cast<float>(rng() % 9) - 4.0f);
  return v;
}

template <typename T>
void ExpectNear(const std::vector<T>& got, const std::vector<double>& want,
                double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), want[i],
                tolerance * (1 + std::abs(want[i])))
        << "element " << i;
}

template <typename T>
class PoolTest : public ::testing::Test {};
using PoolTypes = ::testing::Types<float, double, half, bfloat16>;
TYPED_TEST_SUITE(PoolTest, PoolTypes);

TYPED_TEST(PoolTest, MatchesTheDefinition) {
  using T = TypeParam;
  constexpr unsigned kSeed = 31;
  std::mt19937 rng(kSeed);
  const double tolerance = std::is_same_v<T, double>  ? 1e-14
                           : std::is_same_v<T, float> ? 1e-6
                           : std::is_same_v<T, half>  ? 5e-3
                                                      : 4e-2;
  for (PoolGeometry s : kShapes) {
    for (Layout layout : {Layout::kNhwc, Layout::kNchw}) {
      s.layout = layout;
      SCOPED_TRACE("seed " + std::to_string(kSeed) + " shape " +
                   std::to_string(&s - kShapes));
      ASSERT_TRUE(Validate(s).ok()) << Validate(s);
      const auto in = DrawTied<T>(rng, s.in_size());
      const auto d_out = DrawTied<T>(rng, s.out_size());
      std::vector<double> max(d_out.size()), avg(d_out.size()),
          max_grad(in.size()), avg_grad(in.size()), grad_grad(d_out.size());
      std::vector<int64_t> where(d_out.size());
      ForEachOutput(s, [&](int64_t o, const std::vector<int64_t>& inputs) {
        int64_t best = inputs[0];
        for (int64_t i : inputs) {
          if (in[best] < in[i]) best = i;
          avg[o] += static_cast<double>(in[i]);
          avg_grad[i] += static_cast<double>(d_out[o]) /
                         static_cast<double>(inputs.size());
        }
        avg[o] /= static_cast<double>(inputs.size());
        max[o] = static_cast<double>(in[best]);
        max_grad[best] += static_cast<double>(d_out[o]);
        grad_grad[o] = static_cast<double>(in[best]);
        where[o] = best;
      });
      for (int threads : {1, 3}) {
        ScopedIntraOpThreads scope(threads);
        std::vector<T> y(d_out.size()), dx(in.size(), T(9));
        MaxPool(s, in.data(), y.data());
        ExpectNear(y, max, 0);
        AvgPool(s, in.data(), y.data());
        ExpectNear(y, avg, tolerance);
        MaxPoolGrad(s, in.data(), d_out.data(), dx.data());
        ExpectNear(dx, max_grad, 0);
        AvgPoolGrad(s, d_out.data(), dx.data());
        ExpectNear(dx, avg_grad, tolerance);
        MaxPoolGradGrad(s, in.data(), in.data(), y.data());
        ExpectNear(y, grad_grad, 0);
        std::vector<int64_t> argmax(d_out.size());
        MaxPoolWithArgmax(s, true, in.data(), y.data(), argmax.data());
        EXPECT_EQ(argmax, where);
        ExpectNear(y, max, 0);
      }
    }
  }
}

TEST(PoolRulesTest, MaximumWorksForIntegers) {
  const PoolGeometry s{Layout::kNhwc, 1, 1, {1, 1}, {4, 2, 2}};
  const std::vector<int8_t> in{-128, -7, 5, 127};
  std::vector<int8_t> out(2);
  MaxPool(s, in.data(), out.data());
  EXPECT_EQ(out, (std::vector<int8_t>{-7, 127}));
}

TEST(PoolRulesTest, ArgmaxIndexesWithinImageOrBatch) {
  const PoolGeometry s{Layout::kNhwc, 2, 1, {1, 1}, {2, 2}};
  const std::vector<float> in{1, 2, 4, 3};
  std::vector<float> out(2);
  std::vector<int32_t> at(2);
  MaxPoolWithArgmax(s, false, in.data(), out.data(), at.data());
  EXPECT_EQ(at, (std::vector<int32_t>{1, 0}));
  MaxPoolWithArgmax(s, true, in.data(), out.data(), at.data());
  EXPECT_EQ(at, (std::vector<int32_t>{1, 2}));
}

// Windows of three in a row; recorded from TensorFlow 2.21.
template <typename T>
void ExpectNanRules(int64_t channels, const std::vector<int>& winners) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T inf = std::numeric_limits<T>::infinity();
  const T low = std::numeric_limits<T>::lowest();
  const std::vector<T> row{nan,  1,    2,   1,   nan,  2,    1,    2,
                           nan,  nan,  nan, nan, -inf, -inf, -inf, nan,
                           -inf, -inf, 1,   1,   1,    -inf, nan,  -inf};
  const int64_t windows = static_cast<int64_t>(row.size()) / 3;
  const std::vector<T> max{2, 2, 2, low, low, low, 1, low};
  for (Layout layout : {Layout::kNhwc, Layout::kNchw}) {
    const PoolGeometry s{layout, 1, channels, {1, 1}, {windows * 3, 3, 3}};
    std::vector<T> in(s.in_size()), out(s.out_size()), d_in(s.in_size());
    const auto at = [&](int64_t x, int64_t width, int64_t c) {
      return layout == Layout::kNhwc ? x * channels + c : c * width + x;
    };
    for (int64_t x = 0; x < windows * 3; ++x)
      for (int64_t c = 0; c < channels; ++c) in[at(x, windows * 3, c)] = row[x];
    MaxPool(s, in.data(), out.data());
    const std::vector<T> ones(s.out_size(), T(1));
    MaxPoolGrad(s, in.data(), ones.data(), d_in.data());
    for (int64_t w = 0; w < windows; ++w) {
      for (int64_t c = 0; c < channels; ++c) {
        EXPECT_EQ(out[at(w, windows, c)], max[w]) << w;
        for (int64_t i = 0; i < 3; ++i)
          EXPECT_EQ(d_in[at(w * 3 + i, windows * 3, c)],
                    T(winners[w] == i ? 1 : 0))
              << w << " " << i;
      }
    }
  }
}

TEST(PoolRulesTest, NanAndInfinityMatchTensorFlow) {
  for (int64_t channels : {1, 16}) {
    ExpectNanRules<float>(channels, {2, 2, 1, 0, 0, 0, 0, 0});
    ExpectNanRules<double>(channels, {0, 2, 1, 0, 0, 0, 0, 0});
  }
}

TEST(PoolRulesTest, ArgmaxKeepsLeadingNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const PoolGeometry s{Layout::kNhwc, 1, 1, {1, 1}, {9, 3, 3}};
  const std::vector<float> in{nan, 1, 2, 1, nan, 2, -inf, nan, -inf};
  std::vector<float> out(3);
  std::vector<int64_t> at(3);
  MaxPoolWithArgmax(s, false, in.data(), out.data(), at.data());
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], 2);
  EXPECT_EQ(out[2], -inf);
  EXPECT_EQ(at, (std::vector<int64_t>{0, 5, 6}));
}

TEST(PoolRulesTest, ErrorsDescribeInvalidShapes) {
  PoolGeometry s{Layout::kNhwc, 1, 1, {4, 2, 1, 1, 2, 0}, {4, 2}};
  EXPECT_EQ(Validate(s).message(),
            "pooling's height: expected paddings from 0 to less than the "
            "window of 2, got 2 and 0");
  s.h = {4, 2, 0};
  EXPECT_FALSE(Validate(s).ok());
  s.h = {4, 2, 1, 2};
  EXPECT_FALSE(Validate(s).ok());
}

}  // namespace
}  // namespace sluice::dnn
