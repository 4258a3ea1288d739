// The values here were recorded from TensorFlow 2.21 in one graph-mode session
// run three times (so that the state's advance is seen too). Whole buffers of
// exact arithmetic are compared by a hash; those that go through the C
// library's logarithm and sine by samples, since libraries differ by a
// rounding.
#include "kernels/random/fill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "kernels/random/distributions.h"

namespace sluice::random {
namespace {

constexpr int64_t kN = 100003;
constexpr int64_t kSeed = 123, kSeed2 = 456;

template <typename T>
uint64_t Hash(const std::vector<T>& v) {  // FNV-1a over the bytes.
  uint64_t h = 14695981039346656037u;
  const auto* p = reinterpret_cast<const unsigned char*>(v.data());
  for (size_t i = 0; i < v.size() * sizeof(T); ++i)
    h = (h ^ p[i]) * 1099511628211u;
  return h;
}

template <typename T>
void ExpectUniformRuns(uint64_t first, uint64_t second, uint64_t third) {
  GuardedPhilox state(kSeed, kSeed2);
  for (uint64_t want : {first, second, third}) {
    std::vector<T> v(kN);
    FillUniform(state.ReserveOutputs(kN), v.data(), kN);
    EXPECT_EQ(Hash(v), want);
  }
}

TEST(RandomFillTest, StatefulUniformMatchesTensorFlowExactly) {
  ExpectUniformRuns<float>(0x380961e3057d726a, 0x61d68e56d26df523,
                           0x4b614f555cc7a582);
  ExpectUniformRuns<double>(0x8652894b99a97de6, 0x3ebf978f58a05384,
                            0xb15820768f729894);
  ExpectUniformRuns<half>(0xa7fbc23b76b00f88, 0x104ba845010e980,
                          0xd8ac75710d4dd2c3);
  ExpectUniformRuns<bfloat16>(0x52eb44c466d7201e, 0x56b8a98136e4b6db,
                              0xe6203b7a2057f040);
}

TEST(RandomFillTest, FirstUniformFloatsMatchTheRecording) {
  GuardedPhilox state(kSeed, kSeed2);
  float v[4];
  FillUniform(state.ReserveOutputs(kN), v, 4);
  EXPECT_EQ(v[0], 0.08804428577423096f);
  EXPECT_EQ(v[1], 0.13335824012756348f);
  EXPECT_EQ(v[2], 0.8889684677124023f);
  EXPECT_EQ(v[3], 0.9699921607971191f);
  FillUniform(state.ReserveOutputs(kN), v, 4);
  EXPECT_EQ(v[0], 0.3697834014892578f);
}

template <typename T>
void ExpectIntRuns(T lo, T hi, uint64_t first, uint64_t second,
                   uint64_t third) {
  constexpr int64_t n = 1003;
  GuardedPhilox state(kSeed, kSeed2);
  for (uint64_t want : {first, second, third}) {
    std::vector<T> v(n);
    FillUniformInt<T>(state.ReserveOutputs(n), lo, hi, v.data(), n);
    EXPECT_EQ(Hash(v), want);
    EXPECT_GE(*std::min_element(v.begin(), v.end()), lo);
    EXPECT_LT(*std::max_element(v.begin(), v.end()), hi);
  }
}

TEST(RandomFillTest, StatefulUniformIntMatchesTensorFlowExactly) {
  ExpectIntRuns<int32_t>(-5, 1000, 0x47dd3c849231f60f, 0xbbb95e7996f9014e,
                         0xe99f4fc351c21344);
  ExpectIntRuns<int64_t>(-5, 1000, 0xefb59e5840f95c40, 0xb28bcf8016217aca,
                         0x1c3922b75263097e);
  // The widest ranges there are: their width overflows the signed type.
  ExpectIntRuns<int32_t>(
      std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(),
      0x8211c4b77d7f673b, 0xab235ad3abd417d8, 0xcb5ecacb71ccee4);
  ExpectIntRuns<int64_t>(
      std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
      0xf018c13ee035e78b, 0xce87d53b82f216ea, 0xe7bafd476f29b49a);
}

// Elements 0, 1, 2, 50000, 50001, n-3, n-2, n-1 of the first and third run.
template <typename T, typename Fill>
void ExpectSamples(Fill fill, const std::vector<double>& first,
                   const std::vector<double>& third, double tolerance) {
  GuardedPhilox state(kSeed, kSeed2);
  for (int run = 0; run < 3; ++run) {
    std::vector<T> v(kN);
    fill(state.ReserveOutputs(kN), v.data(), kN);
    if (run == 1) continue;
    const std::vector<double>& want = run == 0 ? first : third;
    const int64_t at[] = {0, 1, 2, 50000, 50001, kN - 3, kN - 2, kN - 1};
    for (int i = 0; i < 8; ++i) {
      EXPECT_NEAR(static_cast<double>(v[at[i]]), want[i],
                  tolerance * std::abs(want[i]))
          << "run " << run << " element " << at[i];
    }
  }
}

TEST(RandomFillTest, StatefulNormalMatchesTensorFlow) {
  ExpectSamples<float>(
      FillNormal<float>,
      {1.6384953260421753, 1.4748436212539673, -0.09093482047319412,
       -0.3884587585926056, 1.1147292852401733, -2.1574513912200928,
       -1.3223247528076172, -1.8478437662124634},
      {0.14183908700942993, 0.5404272675514221, 0.5099164247512817,
       0.09451473504304886, 2.5691254138946533, 0.5998762249946594,
       -1.7109302282333374, -0.9074668288230896},
      1e-6);
  ExpectSamples<double>(
      FillNormal<double>,
      {0.540722770357069, 0.6391914636919254, -1.7359450879327358,
       0.4557157708352772, -1.4270854868400074, -0.2825657042044569,
       0.5869017223790289, -1.787646720919101},
      {0.230261548658863, -0.5352776389126935, 0.8271947338852408,
       1.0764678885225725, -0.2243519442338075, 0.8563148545955183,
       0.7560348474204772, 0.013673060143675055},
      1e-14);
  ExpectSamples<half>(
      FillNormal<half>,
      {1.638671875, 1.474609375, -0.0909423828125, -0.388427734375,
       1.1142578125, -2.158203125, -1.322265625, -1.84765625},
      {0.141845703125, 0.54052734375, 0.509765625, 0.09454345703125,
       2.568359375, 0.60009765625, -1.7109375, -0.9072265625},
      0);
  ExpectSamples<bfloat16>(FillNormal<bfloat16>,
                          {1.640625, 1.4765625, -0.0908203125, -0.388671875,
                           1.1171875, -2.15625, -1.3203125, -1.8515625},
                          {0.1416015625, 0.5390625, 0.51171875, 0.0947265625,
                           2.5625, 0.6015625, -1.7109375, -0.90625},
                          0);
}

TEST(RandomFillTest, StatefulTruncatedNormalMatchesTensorFlow) {
  ExpectSamples<float>(
      FillTruncatedNormal<float>,
      {1.6384953260421753, 1.4748436212539673, -0.09093482047319412,
       1.6410207748413086, -0.47133201360702515, 0.09285097569227219,
       -1.0664113759994507, -0.5851318836212158},
      {0.14183908700942993, 0.5404272675514221, 0.5099164247512817,
       -0.23400171101093292, 0.6498141288757324, 0.3753196895122528,
       0.3594677746295929, 0.7950413823127747},
      1e-6);
  ExpectSamples<double>(
      FillTruncatedNormal<double>,
      {0.540722770357069, 0.6391914636919254, -0.24922186840968688,
       0.43108640794693315, -0.33186167730455407, 0.7359671472418697,
       -0.8950980228469697, 1.203788600483618},
      {0.230261548658863, -0.5352776389126935, -0.9748031952249381,
       -0.6732242928447124, -1.3923488293434985, -0.09745856799645933,
       0.10831061045865921, 1.4476263895129713},
      1e-14);
  ExpectSamples<half>(
      FillTruncatedNormal<half>,
      {1.638671875, 1.474609375, -0.0909423828125, 1.640625, -0.471435546875,
       0.09283447265625, -1.06640625, -0.5849609375},
      {0.141845703125, 0.54052734375, 0.509765625, -0.2340087890625,
       0.64990234375, 0.375244140625, 0.359375, 0.794921875},
      0);
  ExpectSamples<bfloat16>(FillTruncatedNormal<bfloat16>,
                          {1.640625, 1.4765625, -0.0908203125, 1.640625,
                           -0.470703125, 0.0927734375, -1.0703125, -0.5859375},
                          {0.1416015625, 0.5390625, 0.51171875, -0.234375,
                           0.6484375, 0.375, 0.359375, 0.796875},
                          0);
}

TEST(RandomFillTest, StatelessOpsMatchTensorFlow) {
  constexpr int64_t n = 1003;
  const Philox gen = StatelessPhilox(7, -9);
  const auto uniform = [&](auto tag) {
    std::vector<decltype(tag)> v(n);
    FillUniform(gen, v.data(), n);
    return Hash(v);
  };
  EXPECT_EQ(uniform(float{}), 0xb799d1162ab07a14);
  EXPECT_EQ(uniform(double{}), 0x8cb13f95615ec87a);
  EXPECT_EQ(uniform(half{}), 0xfb931d0d076dc687);
  EXPECT_EQ(uniform(bfloat16{}), 0x2a5de2cb5a126fd7);
  const auto full = [&](auto tag) {
    std::vector<decltype(tag)> v(n);
    FillUniformFullInt(gen, v.data(), n);
    return Hash(v);
  };
  EXPECT_EQ(full(int32_t{}), 0xd002dbb9d43825e0);
  EXPECT_EQ(full(uint32_t{}), 0xd002dbb9d43825e0);
  EXPECT_EQ(full(int64_t{}), 0x114ffd13d951fdd1);
  EXPECT_EQ(full(uint64_t{}), 0x114ffd13d951fdd1);
  const auto ranged = [&](auto lo) {
    std::vector<decltype(lo)> v(n);
    FillUniformInt<decltype(lo)>(gen, lo, 1000, v.data(), n);
    return Hash(v);
  };
  EXPECT_EQ(ranged(int32_t{-5}), 0x4a096b425f3d8f49);
  EXPECT_EQ(ranged(int64_t{-5}), 0x976bd3f42be0fceb);

  std::vector<double> v(n);
  FillNormal(gen, v.data(), n);
  EXPECT_DOUBLE_EQ(v[0], -0.0660393945976438);
  EXPECT_DOUBLE_EQ(v[n - 1], 0.07539682039766862);
  FillTruncatedNormal(gen, v.data(), n);
  EXPECT_DOUBLE_EQ(v[2], 0.6827497460347481);
  EXPECT_DOUBLE_EQ(v[n - 1], 0.7045812602888704);
}

TEST(RandomFillTest, ShuffleMatchesTensorFlow) {
  GuardedPhilox state(kSeed, kSeed2);
  std::vector<int32_t> p(15);
  FillShuffle(state.ReserveWords(14), p.data(), 15);
  EXPECT_EQ(p, std::vector<int32_t>(
                   {1, 9, 14, 7, 3, 11, 5, 13, 10, 2, 8, 4, 12, 0, 6}));
  FillShuffle(state.ReserveWords(14), p.data(), 15);
  EXPECT_EQ(p, std::vector<int32_t>(
                   {5, 9, 10, 7, 4, 11, 3, 8, 14, 12, 2, 1, 13, 6, 0}));

  GuardedPhilox large(kSeed, kSeed2);
  for (uint64_t want : {0xfb0da808778b2ab3u, 0x1c6a25ecb25e741bu,
                        uint64_t{0x551197f484fa597b}}) {
    std::vector<int32_t> q(1003);
    FillShuffle(large.ReserveWords(1002), q.data(), 1003);
    EXPECT_EQ(Hash(q), want);
  }
}

TEST(RandomFillTest, ShuffledValuesAreInTheOrderOfThePermutation) {
  for (int64_t n : {1, 2, 3, 63, 64, 65, 66, 129, 1000}) {
    SCOPED_TRACE(n);
    std::vector<int64_t> order(static_cast<size_t>(n));
    FillShuffle(Philox(3, 4), order.data(), n);
    std::vector<uint16_t> values, want;
    for (int64_t i = 0; i < n; ++i)
      values.push_back(static_cast<uint16_t>(i * 7 + 1));
    for (const int64_t i : order)
      want.push_back(values[static_cast<size_t>(i)]);
    Shuffle(Philox(3, 4), values.data(), n);
    EXPECT_EQ(values, want);
  }
}

TEST(RandomFillTest, ShuffleHandlesZeroAndOneElements) {
  int64_t one = 7;
  FillShuffle<int64_t>(Philox(1, 2), &one, 0);
  EXPECT_EQ(one, 7);
  FillShuffle<int64_t>(Philox(1, 2), &one, 1);
  EXPECT_EQ(one, 0);
}

TEST(RandomFillTest, BitsDoNotDependOnThreadCount) {
  for (int64_t n : {0, 1, 3, 4, 5, 2047, 99991}) {
    std::vector<std::vector<float>> uniform, normal, truncated;
    for (int threads : {1, 2, 3, 7}) {
      ScopedIntraOpThreads scope(threads);
      std::vector<float> v(n);
      FillUniform(Philox(5, 6), v.data(), n);
      uniform.push_back(v);
      FillNormal(Philox(5, 6), v.data(), n);
      normal.push_back(v);
      FillTruncatedNormal(Philox(5, 6), v.data(), n);
      truncated.push_back(v);
    }
    for (size_t i = 1; i < uniform.size(); ++i) {
      EXPECT_EQ(uniform[i], uniform[0]);
      EXPECT_EQ(normal[i], normal[0]);
      EXPECT_EQ(truncated[i], truncated[0]);
    }
  }
}

TEST(PhiloxTest, MatchesPublishedTestVectors) {
  // From the known-answer file of Random123 (philox4x32, 10 rounds).
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0})(),
            (Philox::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t f = 0xffffffff;
  EXPECT_EQ(Philox({f, f, f, f}, {f, f})(),
            (Philox::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0})(),
            (Philox::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, SkipEqualsDrawingAcrossCarries) {
  Philox drawn(1, 2), skipped(1, 2);
  for (int i = 0; i < 1000; ++i) drawn();
  skipped.Skip(1000);
  EXPECT_EQ(drawn.counter(), skipped.counter());

  const uint32_t f = 0xffffffff;
  Philox wrap({f, f, f, 0}, {0, 0});
  wrap();
  EXPECT_EQ(wrap.counter(), (Philox::Block{0, 0, 0, 1}));
  Philox jump({f, f, f, 0}, {0, 0});
  jump.Skip(1);
  EXPECT_EQ(jump.counter(), (Philox::Block{0, 0, 0, 1}));
  Philox wide({5, 0, 0, 0}, {0, 0});
  wide.Skip(uint64_t{3} << 32 | 2);
  EXPECT_EQ(wide.counter(), (Philox::Block{7, 3, 0, 0}));
}

TEST(PhiloxTest, SingleSamplesSkipEqualsDrawing) {
  for (int before = 0; before < 5; ++before) {
    for (int skip = 0; skip < 14; ++skip) {
      Philox a(3, 4), b(3, 4);
      SingleSamples drawn(&a), skipped(&b);
      for (int i = 0; i < before; ++i) EXPECT_EQ(drawn(), skipped());
      for (int i = 0; i < skip; ++i) drawn();
      skipped.Skip(skip);
      for (int i = 0; i < 6; ++i)
        EXPECT_EQ(drawn(), skipped()) << before << " " << skip;
    }
  }
}

TEST(PhiloxTest, StatelessSeedGivesKeyAndCounter) {
  uint64_t key[1], counter[2];
  StatelessSeedToKeyCounter(7, -9, key, counter);
  EXPECT_EQ(key[0], 18086304192461037487u);
  EXPECT_EQ(counter[0], 0u);
  EXPECT_EQ(counter[1], 12479374517594410729u);
  Philox a = Philox::FromMemory(counter, key), b = StatelessPhilox(7, -9);
  EXPECT_EQ(a(), b());
}

TEST(PhiloxTest, UnseededStreamsDiffer) {
  GuardedPhilox a(0, 0), b(0, 0);
  EXPECT_NE(a.ReserveBlocks(0)(), b.ReserveBlocks(0)());
}

TEST(PhiloxTest, ConcurrentReservationsNeverOverlap) {
  GuardedPhilox state(1, 1);
  std::vector<std::vector<uint32_t>> got(4);
  std::vector<std::thread> threads;
  for (auto& mine : got) {
    threads.emplace_back([&state, &mine] {
      for (int i = 0; i < 500; ++i)
        mine.push_back(state.ReserveBlocks(3).counter()[0]);
    });
  }
  for (auto& t : threads) t.join();
  std::set<uint32_t> all;
  for (const auto& mine : got) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 2000u);
  EXPECT_EQ(*all.rbegin(), 3u * 1999);
}

TEST(RandomDistributionsTest, UniformConversionsKeepTheirBounds) {
  EXPECT_EQ(UniformFloat(0), 0.0f);
  EXPECT_EQ(UniformFloat(0xffffffff), 1.0f - 0x1p-23f);
  EXPECT_EQ(UniformDouble(0xffffffff, 0xffffffff), 1.0 - 0x1p-52);
  EXPECT_EQ(static_cast<float>(UniformHalf(0xffff)), 1.0f - 0x1p-10f);
  EXPECT_EQ(static_cast<float>(UniformBfloat16(0xffff)), 1.0f - 0x1p-7f);
  // A zero uniform must not reach the logarithm.
  EXPECT_TRUE(std::isfinite(BoxMullerFloat(0, 1)[0]));
  EXPECT_TRUE(std::isfinite(BoxMullerDouble(0, 0, 0, 1)[0]));
}

}  // namespace
}  // namespace sluice::random
