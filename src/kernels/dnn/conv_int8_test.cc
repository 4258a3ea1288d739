#include "kernels/dnn/conv_int8.h"

#include <cmath>
#include <random>

#include "gtest/gtest.h"
#include "kernels/dnn/gemm_onednn.h"

namespace sluice::dnn {
namespace {

struct ByteCase {
  int64_t batch, size, in, out, window, stride;
  bool same;
};

ByteLayer MakeByteLayer(const ByteCase& p, bool is_signed, ByteOut out,
                        bool relu, std::mt19937* random) {
  ByteLayer l;
  l.shape.batch = p.batch;
  l.shape.in_channels = l.shape.filter_in_channels = p.in;
  l.shape.out_channels = p.out;
  for (WindowDim* d : {&l.shape.h, &l.shape.w}) {
    d->in = p.size;
    d->window = p.window;
    d->stride = p.stride;
    if (p.same) ResolveSame(d);
  }
  l.signed_image = is_signed;
  l.out = out;
  l.relu = relu;
  // Sums reach some 10,000 times the root of the number of taps.
  std::uniform_real_distribution<float> scale(0.002f, 0.01f);
  std::uniform_real_distribution<float> bias(-5000, 5000);
  for (int64_t c = 0; c < p.out; ++c) {
    l.scale.push_back(scale(*random));
    l.bias.push_back(std::floor(bias(*random)));
  }
  return l;
}

// Our loops and oneDNN's differ where a scaled product is rounded differently
// and lies between two numbers.
TEST(ConvInt8Test, OneDnnMatchesReferenceLoops) {
  if (!ByteSumsAreExact())
    GTEST_SKIP()
        << "expected a processor that sums products of bytes in 32 bits "
           "(VNNI); on others oneDNN is not used";
  std::mt19937 random(7);
  const ByteCase cases[] = {{2, 7, 3, 5, 3, 1, true},
                            {1, 9, 16, 32, 3, 2, false},
                            {3, 5, 1, 8, 5, 1, true},
                            {1, 1, 37, 11, 1, 1, false},
                            {2, 6, 64, 17, 1, 1, true}};
  for (const ByteCase& p : cases) {
    for (const bool is_signed : {false, true}) {
      for (const ByteOut out :
           {ByteOut::kUint8, ByteOut::kInt8, ByteOut::kFloat}) {
        const ByteLayer l =
            MakeByteLayer(p, is_signed, out, p.stride == 1, &random);
        std::vector<int8_t> filter(static_cast<size_t>(l.shape.filter_size()));
        for (int8_t& v : filter)
          v = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
        std::vector<uint8_t> image(static_cast<size_t>(l.shape.in_size()));
        for (uint8_t& v : image) v = static_cast<uint8_t>(random());
        const auto n = static_cast<size_t>(l.shape.out_size());
        std::vector<float> got(n), want(n);
        const auto fast = ByteConvPlan::Make(l, filter.data());
        const auto plain = ByteConvPlan::Make(l, filter.data(), true);
        ASSERT_TRUE(fast.ok() && plain.ok());
        ASSERT_TRUE((*fast)->Run(image.data(), got.data()).ok());
        ASSERT_TRUE((*plain)->Run(image.data(), want.data()).ok());
        for (size_t i = 0; i < n; ++i) {
          if (out == ByteOut::kFloat) {
            ASSERT_NEAR(got[i], want[i], 1e-4f * (1 + std::fabs(want[i])));
          } else {
            const auto at = [&](const std::vector<float>& v) {
              const uint8_t b = reinterpret_cast<const uint8_t*>(v.data())[i];
              return out == ByteOut::kInt8 ? int{static_cast<int8_t>(b)}
                                           : int{b};
            };
            ASSERT_NEAR(at(got), at(want), 1);
          }
        }
      }
    }
  }
}

TEST(ConvInt8Test, SumsBeyondSixteenBitsAreExact) {
  // 255 * 127 * 2 is beyond 2^15.
  ByteLayer l;
  l.shape.batch = 1;
  l.shape.in_channels = l.shape.filter_in_channels = 64;
  l.shape.out_channels = 16;
  l.shape.h.in = l.shape.w.in = 1;
  l.out = ByteOut::kFloat;
  l.scale.assign(16, 1.0f);
  l.bias.assign(16, 0.0f);
  const std::vector<int8_t> filter(64 * 16, 127);
  const std::vector<uint8_t> image(64, 255);
  for (const bool plain : {false, true}) {
    std::vector<float> out(16);
    const auto plan = ByteConvPlan::Make(l, filter.data(), plain);
    ASSERT_TRUE(plan.ok());
    ASSERT_TRUE((*plan)->Run(image.data(), out.data()).ok());
    for (const float v : out) EXPECT_EQ(v, 64 * 255 * 127);
  }
}

TEST(ConvInt8Test, RoundsTiesToEvenAndSaturates) {
  ByteLayer l;
  l.shape.batch = 1;
  l.shape.in_channels = l.shape.filter_in_channels = 1;
  l.shape.out_channels = 4;
  l.shape.h.in = l.shape.w.in = 1;
  l.scale = {0.5f, 0.5f, 1000.0f, -1.0f};
  l.bias.assign(4, 0.0f);
  const int8_t filter[] = {1, 3, 5, 1};
  const uint8_t image[] = {1};
  for (const bool plain : {false, true}) {
    uint8_t out[4] = {};
    const auto plan = ByteConvPlan::Make(l, filter, plain);
    ASSERT_TRUE(plan.ok());
    ASSERT_TRUE((*plan)->Run(image, out).ok());
    EXPECT_EQ(out[0], 0);
    EXPECT_EQ(out[1], 2);
    EXPECT_EQ(out[2], 255);
    EXPECT_EQ(out[3], 0);
  }
}

}  // namespace
}  // namespace sluice::dnn
