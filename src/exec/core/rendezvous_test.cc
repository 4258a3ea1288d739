#include "exec/core/rendezvous.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

// Arrive and Await only store what Ready points to.
Ready SomeRecv(Iteration* it) {
  static const PlanNode node = {};
  return {&node, it};
}

TEST(Rendezvous, ATokenThatComesFirstIsKeptForItsRecv) {
  Rendezvous r;
  Iteration it;
  TokenMessage in{3, false, false, {7, 2}, Tensor::Scalar<int32_t>(41)};
  Ready ready;
  EXPECT_FALSE(r.Arrive(3, in, &ready));
  EXPECT_EQ(r.parked(), 1u);
  TokenMessage out;
  ASSERT_TRUE(r.Await(3, {7, 2}, SomeRecv(&it), &out));
  EXPECT_FALSE(out.dead);
  EXPECT_EQ(out.value.scalar<int32_t>(), 41);
  EXPECT_EQ(r.parked(), 0u);
  EXPECT_EQ(r.waiting(), 0);
}

TEST(Rendezvous, ARecvThatComesFirstIsGivenBackWithItsToken) {
  Rendezvous r;
  Iteration it;
  TokenMessage out;
  EXPECT_FALSE(r.Await(3, {7, 2}, SomeRecv(&it), &out));
  EXPECT_EQ(r.waiting(), 1);
  TokenMessage in{3, true, false, {7, 2}, Tensor()};
  Ready ready;
  ASSERT_TRUE(r.Arrive(3, in, &ready));
  EXPECT_EQ(ready.iteration, &it);
  EXPECT_EQ(r.waiting(), 0);
}

TEST(Rendezvous, EdgesFramesAndIterationsAreKeptApart) {
  Rendezvous r;
  Iteration it;
  Ready ready;
  TokenMessage out;
  TokenMessage in{3, false, false, {7, 2}, Tensor::Scalar<int32_t>(1)};
  EXPECT_FALSE(r.Arrive(3, in, &ready));
  EXPECT_FALSE(r.Await(4, {7, 2}, SomeRecv(&it), &out));
  EXPECT_FALSE(r.Await(3, {8, 2}, SomeRecv(&it), &out));
  EXPECT_FALSE(r.Await(3, {7, 3}, SomeRecv(&it), &out));
  EXPECT_EQ(r.waiting(), 3);
  EXPECT_EQ(r.parked(), 1u);
  r.Clear();
  EXPECT_EQ(r.waiting(), 0);
  EXPECT_EQ(r.parked(), 0u);
}

TEST(FrameTag, DependsOnEachPartAndIsNeverTheRoots) {
  const uint64_t inner = FrameTag({0, 0}, NameHash("while"));
  EXPECT_NE(inner, 0u);
  EXPECT_EQ(inner, FrameTag({0, 0}, NameHash("while")));
  EXPECT_NE(inner, FrameTag({0, 1}, NameHash("while")));
  EXPECT_NE(inner, FrameTag({1, 0}, NameHash("while")));
  EXPECT_NE(inner, FrameTag({0, 0}, NameHash("while_1")));
}

}  // namespace
}  // namespace sluice
