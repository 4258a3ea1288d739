#include "kernels/simd/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/parallel.h"

namespace sluice::simd {
namespace {

using Rounding = Quantization::Rounding;
constexpr float kEndless = Quantization::kInfinity;

// One number, by the C library.
int32_t Plain(const Quantization& q, float v) {
  if (v > q.max) v = q.max;
  if (v < q.min) v = q.min;
  volatile float product = (v - q.base) * q.scale;  // Rounded by itself.
  float y = product - q.shift;
  y = q.rounding == Rounding::kHalfAway     ? std::round(y)
      : q.rounding == Rounding::kHalfToEven ? std::nearbyint(y)
                                            : std::floor(y);
  y -= q.offset;
  if (!(y > q.low)) y = q.low;
  if (!(y < q.high)) y = q.high;
  if (!(y >= -2147483648.0f && y < 2147483648.0f)) return INT32_MIN;
  return static_cast<int32_t>(y);
}

TEST(QuantizeTest, RoundsAsTheCLibraryDoes) {
  std::mt19937 rng(7);
  std::vector<float> in = {
      0.0f,         -0.0f,      0.5f,     -0.5f,     1.5f,
      2.5f,         -2.5f,      kEndless, -kEndless, std::nanf(""),
      0.49999997f,  8388609.f,  3e9f,     -3e9f,     2147483648.f,
      -0.49999997f, 8388607.5f, 127.5f,   254.5f};
  for (int i = 0; i < 700; ++i)
    in.push_back(static_cast<float>(static_cast<int>(rng() % 2048) - 1024) / 4);
  for (const float scale : {1.0f, 0.37f, 1e6f})
    for (const Rounding rounding :
         {Rounding::kHalfAway, Rounding::kHalfToEven, Rounding::kDown})
      for (const Quantization& q :
           {Quantization{.scale = scale, .rounding = rounding},
            Quantization{.min = -100,
            .max = 77.5f,
            .base = -100,
            .scale = scale,
            .shift = 128,
            .rounding = rounding},
            Quantization{.scale = scale,
            .rounding = rounding,
            .offset = 12,
            .low = -128,
            .high = 127}})
        for (const size_t bytes : {1, 2, 4}) {
          std::vector<char> out(in.size() * bytes);
          Quantize(q, in.data(), static_cast<int64_t>(in.size()), bytes,
                   out.data());
          for (size_t i = 0; i < in.size(); ++i) {
            const int32_t want = Plain(q, in[i]);
            ASSERT_EQ(std::memcmp(&out[i * bytes], &want, bytes), 0)
                << in[i] << " to " << want << ", scale " << scale;
          }
        }
}

TEST(QuantizeTest, GradientsPassWithinTheRange) {
  ScopedIntraOpThreads threads(3);
  std::mt19937 rng(7);
  for (const int64_t n : {1, 7, 33, 100000}) {
    std::vector<float> x, dy;
    for (int64_t i = 0; i < n; ++i) {
      x.push_back(static_cast<float>(rng() % 9) - 4);
      dy.push_back(static_cast<float>(rng() % 100) - 50);
    }
    x[0] = std::nanf("");
    std::vector<float> dx(x.size(), 1);
    double below = 1, above = 2, want_below = 1, want_above = 2;
    ClampGradient(-2, 3, dy.data(), x.data(), n, dx.data(), &below, &above);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(dx[i], x[i] >= -2 && x[i] <= 3 ? dy[i] : 0) << x[i];
      if (x[i] < -2) want_below += dy[i];
      if (x[i] > 3) want_above += dy[i];
    }
    EXPECT_EQ(below, want_below);
    EXPECT_EQ(above, want_above);
  }
}

}  // namespace
}  // namespace sluice::simd
