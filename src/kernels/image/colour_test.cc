#include "kernels/image/colour.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace sluice::image {
namespace {

TEST(ColourTest, ConvertsPixelsOfAnyNumberInPlace) {
  std::mt19937 rng(7);
  std::uniform_real_distribution<float> unit(0, 1);
  for (const int64_t n : {0, 1, 5, 8, 37}) {
    std::vector<float> hsv;
    for (int64_t i = 0; i < 3 * n; ++i) hsv.push_back(unit(rng));
    std::vector<float> rgb = hsv;
    HsvToRgb(rgb.data(), n, rgb.data());
    for (int64_t p = 0; p < n; ++p) {
      const float* at = hsv.data() + 3 * p;
      // By the sector of the hue.
      const double h = at[0] * 6.0, s = at[1], v = at[2];
      const double rise = h - std::floor(h);
      const double low = v * (1 - s), up = v * (1 - s * (1 - rise));
      const double down = v * (1 - s * rise);
      const double want[6][3] = {{v, up, low}, {down, v, low},
                                 {low, v, up}, {low, down, v},
                                 {up, low, v}, {v, low, down}};
      const int sector = std::min(5, static_cast<int>(h));
      for (int64_t c = 0; c < 3; ++c)
        EXPECT_NEAR(rgb[static_cast<size_t>(3 * p + c)], want[sector][c], 1e-6)
            << "pixel " << p << " of " << n << ", channel " << c;
    }
  }
}

}  // namespace
}  // namespace sluice::image
