#include "kernels/dnn/conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "kernels/dnn/conv_plain.h"
#include "tensor/half.h"

namespace sluice::dnn {
namespace {

struct Case {
  const char* name;
  ConvGeometry shape;
};

ConvGeometry Make(int64_t batch, int64_t ic, int64_t oc, WindowDim h,
                  WindowDim w, int64_t groups = 1, WindowDim d = kNoDepth) {
  return {Layout::kNhwc, batch, ic, ic / groups, oc, h, w, d};
}

// WindowDim: in, window, stride, dilation, pad_before, pad_after.
const Case kCases[] = {
    {"one pixel", Make(1, 1, 1, {1, 1}, {1, 1})},
    {"1x1", Make(2, 5, 7, {4, 1}, {3, 1})},
    {"image 5x5 same", Make(3, 1, 32, {9, 5, 1, 1, 2, 2}, {8, 5, 1, 1, 2, 2})},
    {"3x3 same", Make(2, 16, 24, {7, 3, 1, 1, 1, 1}, {9, 3, 1, 1, 1, 1})},
    {"odd channels", Make(2, 17, 13, {6, 3, 1, 1, 1, 1}, {6, 3, 1, 1, 1, 1})},
    {"asymmetric pads", Make(2, 3, 8, {6, 4, 2, 1, 1, 2}, {8, 4, 2, 1, 0, 3})},
    {"stride beyond window", Make(1, 4, 4, {11, 2, 3}, {10, 1, 4})},
    {"unread tail", Make(1, 4, 8, {6, 3, 2}, {8, 3, 4})},
    {"dilated", Make(2, 4, 8, {11, 3, 1, 2, 2, 2}, {12, 3, 1, 3, 3, 3})},
    {"dilated strided", Make(1, 8, 8, {13, 3, 2, 2, 2, 1}, {9, 2, 2, 3, 0, 1})},
    {"pads beyond window",
     Make(1, 2, 3, {3, 2, 1, 1, 4, 3}, {3, 2, 1, 1, 2, 5})},
    {"groups", Make(2, 8, 12, {6, 3, 1, 1, 1, 1}, {5, 3, 1, 1, 1, 1}, 4)},
    {"depthwise", Make(2, 16, 16, {7, 3, 2, 1, 1, 1}, {7, 3, 1, 1, 1, 1}, 16)},
    {"depthwise times 2", Make(2, 6, 12, {7, 3, 1, 1, 1, 1}, {7, 3}, 6)},
    {"dilated and strided far beyond the image",
     Make(1, 2, 3, {4, 2, 1, 0x7fffffff, 0x3fffffff, 0x40000000},
          {4, 2, 0x7fffffff, 1, 0, 1})},
    {"volume", Make(2, 5, 7, {4, 3, 1, 1, 1, 1}, {5, 3, 1, 1, 1, 1}, 1,
                    {3, 3, 1, 1, 1, 1})},
    {"volume strided",
     Make(1, 16, 16, {6, 3, 2, 1, 0, 1}, {5, 2, 2}, 1, {7, 3, 3, 1, 1, 2})},
    {"volume dilated",
     Make(2, 3, 8, {7, 3, 1, 2, 2, 2}, {6, 2, 1, 3}, 1, {9, 3, 2, 2, 1, 1})},
    {"volume in groups",
     Make(1, 4, 6, {4, 2}, {4, 3, 1, 1, 1, 1}, 2, {3, 2, 1, 1, 1, 0})},
};

int64_t At(const ConvGeometry& s, bool output, int64_t n, int64_t z, int64_t y,
           int64_t x, int64_t c) {
  const int64_t d = output ? s.d.out() : s.d.in;
  const int64_t h = output ? s.h.out() : s.h.in;
  const int64_t w = output ? s.w.out() : s.w.in;
  const int64_t channels = output ? s.out_channels : s.in_channels;
  return s.layout == Layout::kNhwc
             ? (((n * d + z) * h + y) * w + x) * channels + c
             : (((n * channels + c) * d + z) * h + y) * w + x;
}

// Calls fn(in index, filter index, out index) for every product of the sum.
template <typename Fn>
void ForEachProduct(const ConvGeometry& s, Fn fn) {
  const int64_t oc_group = s.out_channels / s.groups();
  for (int64_t n = 0; n < s.batch * s.d.out(); ++n)
    for (int64_t oy = 0; oy < s.h.out(); ++oy)
      for (int64_t ox = 0; ox < s.w.out(); ++ox)
        for (int64_t ky = 0; ky < s.d.window * s.h.window; ++ky)
          for (int64_t kx = 0; kx < s.w.window; ++kx) {
            const int64_t oz = n % s.d.out();
            const int64_t iz = oz * s.d.stride +
                               ky / s.h.window * s.d.dilation - s.d.pad_before;
            if (iz < 0 || iz >= s.d.in) continue;
            const int64_t iy = oy * s.h.stride +
                               ky % s.h.window * s.h.dilation - s.h.pad_before;
            const int64_t ix =
                ox * s.w.stride + kx * s.w.dilation - s.w.pad_before;
            if (iy < 0 || iy >= s.h.in || ix < 0 || ix >= s.w.in) continue;
            for (int64_t o = 0; o < s.out_channels; ++o)
              for (int64_t i = 0; i < s.filter_in_channels; ++i) {
                const int64_t c = o / oc_group * s.filter_in_channels + i;
                fn(At(s, false, n / s.d.out(), iz, iy, ix, c),
                   ((ky * s.w.window + kx) * s.filter_in_channels + i) *
                           s.out_channels +
                       o,
                   At(s, true, n / s.d.out(), oz, oy, ox, o));
              }
          }
}

// Small multiples of 1/4: exact in every type, and so are their products'
// sums in float, so that even half must agree to its last bit.
template <typename T>
std::vector<T> Draw(std::mt19937& rng, int64_t n) {
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) {
    const int k = static_cast<int>(rng() % 9) - 4;
    if constexpr (std::is_integral_v<T>) {
      x = k;
    } else {
      x = T(static_cast<float>(k) * 0.25f);
    }
  }
  return v;
}

template <typename T>
std::vector<T> Rounded(const std::vector<double>& v) {
  std::vector<T> r;
  for (double x : v) {
    if constexpr (sizeof(T) == 2) {
      r.push_back(T(static_cast<float>(x)));
    } else {
      r.push_back(static_cast<T>(x));
    }
  }
  return r;
}

template <typename T>
void ExpectSame(const std::vector<T>& got, const std::vector<T>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(static_cast<double>(got[i]), static_cast<double>(want[i]))
        << "element " << i;
}

template <typename T>
class ConvTest : public ::testing::Test {};
using ConvTypes = ::testing::Types<float, double, half, bfloat16, int32_t>;
TYPED_TEST_SUITE(ConvTest, ConvTypes);

TYPED_TEST(ConvTest, AllPassesMatchThePlainSum) {
  using T = TypeParam;
  constexpr unsigned kSeed = 23;
  SCOPED_TRACE(kSeed);
  std::mt19937 rng(kSeed);
  for (const Case& c : kCases) {
    for (Layout layout : {Layout::kNhwc, Layout::kNchw}) {
      SCOPED_TRACE(std::string(c.name) +
                   (layout == Layout::kNhwc ? " NHWC" : " NCHW"));
      ConvGeometry s = c.shape;
      s.layout = layout;
      const auto in = Draw<T>(rng, s.in_size());
      const auto filter = Draw<T>(rng, s.filter_size());
      const auto d_out = Draw<T>(rng, s.out_size());
      const auto bias = Draw<T>(rng, s.out_channels);
      std::vector<double> out(d_out.size()), d_in(in.size()),
          d_filter(filter.size());
      ForEachProduct(s, [&](int64_t i, int64_t f, int64_t o) {
        const double x = static_cast<double>(in[i]);
        const double w = static_cast<double>(filter[f]);
        const double g = static_cast<double>(d_out[o]);
        out[o] += x * w;
        d_in[i] += g * w;
        d_filter[f] += g * x;
      });
      std::vector<double> fused = out;
      for (size_t i = 0; i < fused.size(); ++i) {
        const size_t pixels = static_cast<size_t>(s.out_pixels());
        const size_t oc = static_cast<size_t>(s.out_channels);
        const size_t channel =
            layout == Layout::kNhwc ? i % oc : i / pixels % oc;
        fused[i] = std::max(0.0, fused[i] + static_cast<double>(bias[channel]));
      }
      for (int threads : {1, 2}) {
        ScopedIntraOpThreads scope(threads);
        const auto plan = *ConvPlan<T>::Make(s);
        for (int repeat = 0; repeat < 2; ++repeat) {
          std::vector<T> y(out.size()), dx(in.size()), dw(filter.size());
          ASSERT_TRUE(plan->Forward(in.data(), filter.data(), y.data()).ok());
          ExpectSame(y, Rounded<T>(out));
          ASSERT_TRUE(
              plan->BackwardData(filter.data(), d_out.data(), dx.data()).ok());
          ExpectSame(dx, Rounded<T>(d_in));
          ASSERT_TRUE(
              plan->BackwardFilter(in.data(), d_out.data(), dw.data()).ok());
          ExpectSame(dw, Rounded<T>(d_filter));
        }
        const auto with = *ConvPlan<T>::Make(s, {.bias = true, .relu = true});
        std::vector<T> y(out.size());
        ASSERT_TRUE(
            with->Forward(in.data(), filter.data(), y.data(), bias.data())
                .ok());
        ExpectSame(y, Rounded<T>(fused));
      }
    }
  }
}

TYPED_TEST(ConvTest, EmptyOperandsGiveZerosOfTheRightSize) {
  using T = TypeParam;
  const T one = T(1);
  const auto check = [&](const ConvGeometry& s) {
    const auto plan = *ConvPlan<T>::Make(s);
    std::vector<T> in(s.in_size(), one), f(s.filter_size(), one),
        g(s.out_size(), one), y(s.out_size(), one), dx(s.in_size(), one),
        dw(s.filter_size(), one);
    EXPECT_TRUE(plan->Forward(in.data(), f.data(), y.data()).ok());
    EXPECT_TRUE(plan->BackwardData(f.data(), g.data(), dx.data()).ok());
    EXPECT_TRUE(plan->BackwardFilter(in.data(), g.data(), dw.data()).ok());
    for (const auto* v : {&y, &dx, &dw})
      for (T x : *v) EXPECT_EQ(static_cast<float>(x), 0.0f);
  };
  for (Layout layout : {Layout::kNhwc, Layout::kNchw}) {
    ConvGeometry s = Make(0, 3, 4, {5, 3}, {5, 3});  // No images.
    s.layout = layout;
    check(s);
    s = Make(2, 3, 0, {5, 3}, {5, 3});  // No outputs.
    s.layout = layout;
    check(s);
    s = Make(2, 3, 4, {2, 3}, {5, 3});  // Window larger than the image.
    s.layout = layout;
    check(s);
    s = {layout, 2, 0, 0, 4, {5, 3}, {5, 3}};  // No input channels.
    check(s);
    s = {layout, 2, 0, 3, 4, {5, 3}, {5, 3}};  // The same, by groups.
    check(s);
  }
}

TEST(ConvPlanTest, NativeLoopsMatchOneDnnOnRealLayer) {
  std::mt19937 rng(3);
  const ConvGeometry s =
      Make(2, 32, 64, {14, 5, 1, 1, 2, 2}, {14, 5, 1, 1, 2, 2});
  const auto in = Draw<float>(rng, s.in_size());
  const auto f = Draw<float>(rng, s.filter_size());
  const auto plan = *ConvPlan<float>::Make(s);
  std::vector<float> a(s.out_size()), b(s.out_size());
  ASSERT_TRUE(plan->Forward(in.data(), f.data(), a.data()).ok());
  PlainForward<float>(s, {}, in.data(), f.data(), b.data(), nullptr);
  ExpectSame(a, b);
}

TEST(ConvPlanTest, BackwardPassOfLargeImagesMatchesNativeLoops) {
  std::mt19937 rng(5);
  for (const ConvGeometry& s :
       {Make(2, 64, 80, {28, 3, 1, 1, 1, 1}, {28, 3, 1, 1, 1, 1}),
        Make(1, 72, 64, {31, 4, 1, 1, 0, 3}, {29, 5, 1, 1, 4, 1}),
        Make(1, 64, 64, {40, 1}, {30, 3, 1, 1, 1, 0}),
        Make(1, 64, 64, {30, 3, 1, 1, 1, 3}, {30, 3})}) {
    SCOPED_TRACE(s.h.in);
    const auto f = Draw<float>(rng, s.filter_size());
    const auto g = Draw<float>(rng, s.out_size());
    std::vector<float> want(s.in_size());
    PlainBackwardData<float>(s, f.data(), g.data(), want.data());
    const auto plan = *ConvPlan<float>::Make(s);
    for (int threads : {1, 2}) {
      ScopedIntraOpThreads scope(threads);
      std::vector<float> got(want.size());
      ASSERT_TRUE(plan->BackwardData(f.data(), g.data(), got.data()).ok());
      ExpectSame(got, want);
    }
  }
}

TEST(ConvPlanTest, PlanServesConcurrentThreads) {
  std::mt19937 rng(4);
  const ConvGeometry s =
      Make(4, 8, 16, {10, 3, 1, 1, 1, 1}, {10, 3, 1, 1, 1, 1});
  const auto f = Draw<float>(rng, s.filter_size());
  const auto plan = *ConvPlan<float>::Make(s);
  std::vector<std::vector<float>> in, want(4), got(4);
  for (int t = 0; t < 4; ++t) {
    in.push_back(Draw<float>(rng, s.in_size()));
    want[t].resize(s.out_size());
    got[t].resize(s.out_size());
    PlainForward<float>(s, {}, in[t].data(), f.data(), want[t].data(), nullptr);
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      ScopedIntraOpThreads scope(1 + t % 2);
      for (int i = 0; i < 20; ++i) {
        std::fill(got[t].begin(), got[t].end(), -1.0f);
        EXPECT_TRUE(plan->Forward(in[t].data(), f.data(), got[t].data()).ok());
        ExpectSame(got[t], want[t]);
      }
    });
  }
  for (auto& t : threads) t.join();
}

TEST(ConvPlanTest, CacheKeepsPlansByShapeAndEpilogue) {
  ConvPlanCache<float> cache;
  const ConvGeometry a = Make(1, 2, 3, {4, 3}, {4, 3});
  ConvGeometry b = a;
  b.batch = 2;
  const auto first = *cache.Get(a);
  EXPECT_NE(*cache.Get(b), first);
  EXPECT_NE(*cache.Get(a, {.relu = true}), first);
  EXPECT_EQ(*cache.Get(a), first);
  for (int64_t n = 3; n < 20; ++n) {
    b.batch = n;
    ASSERT_TRUE(cache.Get(b).ok());
  }
  EXPECT_NE(*cache.Get(a), first);  // Pushed out, not invalid.
  EXPECT_EQ(first->shape(), a);
}

TEST(ConvPlanTest, ErrorsDescribeInvalidShapes) {
  ConvGeometry s = Make(1, 6, 4, {5, 3}, {5, 3});
  s.filter_in_channels = 4;
  EXPECT_EQ(Validate(s).message(),
            "convolution's input channels: expected a multiple of the filter's "
            "4, got 6");
  s.filter_in_channels = 2;
  EXPECT_EQ(Validate(s).message(),
            "convolution's output channels: expected a multiple of the 3 "
            "groups, got 4");
  s = Make(1, 6, 4, {5, 3, 0}, {5, 3});
  EXPECT_FALSE(Validate(s).ok());
  s = Make(1, 6, 4, {5, 3}, {5, 3, 1, 1, -1, 0});
  EXPECT_FALSE(Validate(s).ok());
  const auto plan = ConvPlan<float>::Make(s);
  EXPECT_FALSE(plan.ok());
}

TEST(WindowTest, SamePaddingMatchesTensorFlow) {
  const auto pads = [](WindowDim d) {
    ResolveSame(&d);
    return std::make_pair(d.pad_before, d.pad_after);
  };
  EXPECT_EQ(pads({28, 5, 1}), std::make_pair(int64_t{2}, int64_t{2}));
  EXPECT_EQ(pads({5, 2, 1}), std::make_pair(int64_t{0}, int64_t{1}));
  EXPECT_EQ(pads({5, 3, 2}), std::make_pair(int64_t{1}, int64_t{1}));
  EXPECT_EQ(pads({6, 3, 2}), std::make_pair(int64_t{0}, int64_t{1}));
  EXPECT_EQ(pads({4, 1, 3}), std::make_pair(int64_t{0}, int64_t{0}));
  EXPECT_EQ(pads({7, 3, 1, 2}), std::make_pair(int64_t{2}, int64_t{2}));
}

}  // namespace
}  // namespace sluice::dnn
