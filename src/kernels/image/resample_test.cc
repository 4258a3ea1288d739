#include "kernels/image/resample.h"

#include <gtest/gtest.h>

#include <random>

#include "base/parallel.h"

namespace sluice::image {
namespace {

std::vector<float> Drawn(int64_t n) {
  std::mt19937 rng(7);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = draw(rng);
  return v;
}

float ScaleOf(int64_t out, int64_t in) {
  return static_cast<float>(in) / static_cast<float>(out);
}

TEST(Taps, TransposedExchangesOutputsAndInputs) {
  const Taps taps = BicubicTaps(7, 4, ScaleOf(7, 4), true);
  const Taps back = Transposed(Transposed(taps, 4), 7);
  ASSERT_EQ(back.first, taps.first);
  // (Taps of one output may be in another order.)
  for (int64_t o = 0; o < 7; ++o)
    for (int64_t i = 0; i < 4; ++i) {
      const auto sum = [&](const Taps& t) {
        float all = 0;
        for (int64_t k = t.first[static_cast<size_t>(o)];
             k < t.first[static_cast<size_t>(o) + 1]; ++k)
          if (t.index[static_cast<size_t>(k)] == i)
            all += t.weight[static_cast<size_t>(k)];
        return all;
      };
      EXPECT_FLOAT_EQ(sum(back), sum(taps)) << o << " " << i;
    }
}

TEST(Taps, WeightsOfEachOutputSumToOne) {
  for (const auto& [out, in] :
       {std::pair<int64_t, int64_t>{5, 13}, {13, 5}, {1, 9}, {9, 1}})
    for (const Taps& t : {BilinearTaps(out, in, ScaleOf(out, in), true),
                          BicubicTaps(out, in, ScaleOf(out, in), false),
                          BicubicTaps(out, in, ScaleOf(out, in), true),
                          AreaTaps(out, in, ScaleOf(out, in)),
                          FilterTaps(Filter::kLanczos3, out, in,
                                     1 / ScaleOf(out, in), 0, true)}) {
      ASSERT_EQ(t.outputs(), out);
      for (size_t o = 0; o < static_cast<size_t>(out); ++o) {
        float sum = 0;
        for (int64_t k = t.first[o]; k < t.first[o + 1]; ++k) {
          EXPECT_GE(t.index[static_cast<size_t>(k)], 0);
          EXPECT_LT(t.index[static_cast<size_t>(k)], in);
          sum += t.weight[static_cast<size_t>(k)];
        }
        EXPECT_NEAR(sum, 1, 1e-5) << out << " of " << in << " at " << o;
      }
    }
}

// The fast bilinear path and the general one agree, for any number of channels
// and threads.
TEST(ResampleBilinear, AgreesWithTaps) {
  for (const int threads : {1, 2})
    for (const int64_t c : {1, 2, 3, 4, 5, 16, 19})
      for (const auto& [h, w] :
           {std::pair<int64_t, int64_t>{9, 11}, {1, 2}, {40, 30}, {4, 90}}) {
        const ScopedIntraOpThreads team(threads);
        const ImageSize size{2, 7, 10, c};
        const std::vector<float> in = Drawn(2 * 7 * 10 * c);
        const size_t n = static_cast<size_t>(2 * h * w * c);
        std::vector<float> fast(n), plain(n);
        ASSERT_TRUE(ResampleBilinear(
            DType::kFloat, in.data(), size,
            BilinearPositions(h, 7, ScaleOf(h, 7), true),
            BilinearPositions(w, 10, ScaleOf(w, 10), true), fast.data()));
        ASSERT_TRUE(Resample(DType::kFloat, in.data(), size,
                             BilinearTaps(h, 7, ScaleOf(h, 7), true),
                             BilinearTaps(w, 10, ScaleOf(w, 10), true),
                             plain.data()));
        for (size_t i = 0; i < n; ++i)
          ASSERT_NEAR(fast[i], plain[i], 1e-6)
              << "channels " << c << ", " << h << " x " << w << " at " << i;
      }
}

TEST(ResampleBilinear, EqualPixelsKeepTheirValue) {
  for (const int64_t c : {1, 3, 8}) {
    const std::vector<uint8_t> in(static_cast<size_t>(5 * 6 * c), 253);
    std::vector<float> out(static_cast<size_t>(17 * 4 * c));
    ASSERT_TRUE(ResampleBilinear(DType::kUint8, in.data(), {1, 5, 6, c},
                                 BilinearPositions(17, 5, ScaleOf(17, 5), true),
                                 BilinearPositions(4, 6, ScaleOf(4, 6), true),
                                 out.data()));
    for (const float v : out) ASSERT_EQ(v, 253);
  }
}

TEST(Resample, RefusesOtherTypes) {
  const Taps one = BilinearTaps(1, 1, 1, true);
  const uint64_t in = 1;
  float out;
  EXPECT_FALSE(Resample(DType::kString, &in, {1, 1, 1, 1}, one, one, &out));
  EXPECT_FALSE(
      ResampleBilinear(DType::kString, &in, {1, 1, 1, 1}, {}, {}, &out));
}

}  // namespace
}  // namespace sluice::image
