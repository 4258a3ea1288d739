#include "exec/core/rendezvous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/sanitizers.h"

namespace sluice {
namespace {

using Outcome = Rendezvous::Outcome;

// Arrive and Await only store what Ready points to.
Ready SomeRecv(Iteration* it) {
  static const PlanNode node = {};
  return {&node, it};
}

TEST(Rendezvous, EarlyTokenIsKeptForItsRecv) {
  Rendezvous r;
  Iteration it;
  TokenMessage in{3, false, false, {7, 2}, Tensor::Scalar<int32_t>(41)};
  Ready ready;
  EXPECT_EQ(r.Arrive(3, in, &ready), Outcome::kStored);
  EXPECT_EQ(r.parked(), 1u);
  TokenMessage out;
  ASSERT_EQ(r.Await(3, {7, 2}, SomeRecv(&it), &out), Outcome::kMatched);
  EXPECT_FALSE(out.dead);
  EXPECT_EQ(out.value.scalar<int32_t>(), 41);
  EXPECT_EQ(r.parked(), 0u);
  EXPECT_EQ(r.waiting(), 0);
}

TEST(Rendezvous, EarlyRecvIsReturnedWithItsToken) {
  Rendezvous r;
  Iteration it;
  TokenMessage out;
  EXPECT_EQ(r.Await(3, {7, 2}, SomeRecv(&it), &out), Outcome::kStored);
  EXPECT_EQ(r.waiting(), 1);
  TokenMessage in{3, true, false, {7, 2}, Tensor()};
  Ready ready;
  ASSERT_EQ(r.Arrive(3, in, &ready), Outcome::kMatched);
  EXPECT_EQ(ready.iteration, &it);
  EXPECT_EQ(r.waiting(), 0);
}

TEST(Rendezvous, DistinguishesEdgesFramesAndIterations) {
  Rendezvous r;
  Iteration it;
  Ready ready;
  TokenMessage out;
  TokenMessage in{3, false, false, {7, 2}, Tensor::Scalar<int32_t>(1)};
  EXPECT_EQ(r.Arrive(3, in, &ready), Outcome::kStored);
  EXPECT_EQ(r.Await(4, {7, 2}, SomeRecv(&it), &out), Outcome::kStored);
  EXPECT_EQ(r.Await(3, {8, 2}, SomeRecv(&it), &out), Outcome::kStored);
  EXPECT_EQ(r.Await(3, {7, 3}, SomeRecv(&it), &out), Outcome::kStored);
  EXPECT_EQ(r.waiting(), 3);
  EXPECT_EQ(r.parked(), 1u);
  r.Clear();
  EXPECT_EQ(r.waiting(), 0);
  EXPECT_EQ(r.parked(), 0u);
}

TEST(Rendezvous, ASecondTokenOrRecvOfAKeyIsReportedAndChangesNothing) {
  Rendezvous r;
  Iteration it;
  Ready ready;
  TokenMessage out;
  TokenMessage first{3, false, false, {7, 2}, Tensor::Scalar<int32_t>(1)};
  TokenMessage second{3, false, false, {7, 2}, Tensor::Scalar<int32_t>(2)};
  EXPECT_EQ(r.Arrive(3, first, &ready), Outcome::kStored);
  EXPECT_EQ(r.Arrive(3, second, &ready), Outcome::kRepeated);
  ASSERT_EQ(r.Await(3, {7, 2}, SomeRecv(&it), &out), Outcome::kMatched);
  EXPECT_EQ(out.value.scalar<int32_t>(), 1);
  EXPECT_EQ(r.Await(3, {7, 2}, SomeRecv(&it), &out), Outcome::kStored);
  Iteration other;
  EXPECT_EQ(r.Await(3, {7, 2}, SomeRecv(&other), &out), Outcome::kRepeated);
  EXPECT_EQ(r.waiting(), 1);
  ASSERT_EQ(r.Arrive(3, second, &ready), Outcome::kMatched);
  EXPECT_EQ(ready.iteration, &it);
  EXPECT_EQ(r.waiting(), 0);
}

TEST(NameHash, IsFnv1aOf128Bits) {
  EXPECT_EQ(NameHash("a"),
            absl::MakeUint128(0xd228cb696f1a8caf, 0x78912b704e4a8964));
  EXPECT_EQ(NameHash("abc"),
            absl::MakeUint128(0xa68d622cec8b5822, 0x836dbc7977af7f3b));
}

// Two of the names for which FNV-1a of 64 bits collides.
TEST(FrameTag, TellsApartNamesThatCollideIn64Bits) {
  EXPECT_NE(FrameTag({0, 0}, NameHash("8yn0iYCKYHlIj4-BwPqk")),
            FrameTag({0, 0}, NameHash("GReLUrM4wMqfg9yzV3KQ")));
}

// Frames of three nested loops and of recursive calls. Neither half of the tags
// collides, and 32 of their bits collide as often as random numbers do.
TEST(FrameTag, ManyFramesHaveTagsLikeRandomNumbers) {
  // (Fewer under sanitizers: the numbers are those of any build.)
  constexpr size_t kCalls = kSanitized ? 100'000 : 500'000;
  std::vector<absl::uint128> tags = {0};
  for (const char* name : {"outer", "middle", "inner"}) {
    const size_t known = tags.size();
    for (size_t f = 0; f < known; ++f)
      for (int64_t i = 0; i < (kSanitized ? 46 : 80); ++i)
        tags.push_back(FrameTag({tags[f], i}, NameHash(name)));
  }
  std::vector<absl::uint128> calls = {0};
  for (size_t f = 0; calls.size() < kCalls; ++f)
    for (const char* name : {"fib/left", "fib/right"})
      calls.push_back(FrameTag({calls[f], 0}, NameHash(name)));
  tags.insert(tags.end(), calls.begin() + 1, calls.end());
  const size_t n = tags.size();
  ASSERT_GT(n, 2 * kCalls);
  for (const bool high : {false, true})
    for (int shift = 0; shift <= 32; shift += 16) {
      std::vector<uint64_t> whole, half;
      for (const absl::uint128& t : tags) {
        whole.push_back(high ? absl::Uint128High64(t) : absl::Uint128Low64(t));
        half.push_back(whole.back() >> shift & 0xffffffffu);
      }
      const auto distinct = [](std::vector<uint64_t>& v) {
        std::sort(v.begin(), v.end());
        return static_cast<size_t>(std::unique(v.begin(), v.end()) - v.begin());
      };
      EXPECT_EQ(distinct(whole), n);
      if (kSanitized) break;  // (Too few to expect so many collisions.)
      const double collisions = static_cast<double>(n - distinct(half));
      const double random =
          static_cast<double>(n) * static_cast<double>(n) / 2 / 4294967296.0;
      EXPECT_NEAR(collisions, random, 0.2 * random) << high << shift;
    }
}

TEST(FrameTag, DependsOnEachPartAndIsNeverZero) {
  const absl::uint128 inner = FrameTag({0, 0}, NameHash("while"));
  EXPECT_NE(inner, 0u);
  EXPECT_EQ(inner, FrameTag({0, 0}, NameHash("while")));
  EXPECT_NE(inner, FrameTag({0, 1}, NameHash("while")));
  EXPECT_NE(inner, FrameTag({1, 0}, NameHash("while")));
  EXPECT_NE(inner, FrameTag({0, 0}, NameHash("while_1")));
}

}  // namespace
}  // namespace sluice
