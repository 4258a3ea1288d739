// Barriers, staging areas and accumulators in steps that wait and end early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "client/operators.h"
#include "client/variables.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MeetingPointsTest : public ::testing::Test {
 protected:
  MeetingPointsTest() : use_(graph_) {}
  // A step that is to wait until its deadline.
  static void WaitsInVain(Session& session, const std::vector<Output>& fetches,
                          const std::vector<Node*>& targets = {}) {
    RunOptions late;
    late.timeout_ms = 20;
    const Status s = session.Run({}, fetches, targets, late).status();
    EXPECT_EQ(s.code(), StatusCode::kDeadlineExceeded) << s;
    EXPECT_THAT(s.ToString(), HasSubstr("still waits"));
  }
  static std::vector<float> Numbers(const Result<Tensor>& t) {
    EXPECT_TRUE(t.ok()) << t.status();
    return t.ok() ? t->ToVector<float>() : std::vector<float>();
  }
  static int Count(const Result<Tensor>& t) {
    EXPECT_TRUE(t.ok()) << t.status();
    return t.ok() ? t->scalar<int32_t>() : -1;
  }
  Graph graph_;
  WithGraph use_;
};

TEST_F(MeetingPointsTest, ABarrierGivesElementsThatAreComplete) {
  const PartialShape scalar((Shape()));
  const AttrValue::Types types = {DType::kFloat, DType::kFloat};
  const Output barrier = Build("Barrier", {},
                               {{"component_types", types},
                                {"shapes", AttrValue::Shapes{scalar, scalar}}});
  const auto insert = [&](std::vector<std::string> keys, int64_t component,
                          std::vector<float> values) {
    return BuildNode("BarrierInsertMany",
                     {barrier, Constant(Tensor::Vector<std::string>(keys)),
                      Constant(Tensor::Vector<float>(values))},
                     {{"component_index", component}});
  };
  Node* const first = insert({"a", "b"}, 0, {1, 2});
  Node* const second = insert({"b", "a"}, 1, {20, 10});
  Node* const partly = insert({"c", "a"}, 0, {3, 4});
  const Output take = Build("BarrierTakeMany", {barrier, Constant(2)},
                            {{"component_types", types}});
  const Output ready = Build("BarrierReadySize", {barrier});
  const Output incomplete = Build("BarrierIncompleteSize", {barrier});
  Node* const close = BuildNode("BarrierClose", {barrier});
  Node* const wrong =
      BuildNode("BarrierInsertMany",
                {barrier, Constant(Tensor::Vector<std::string>({"x"})),
                 Constant(Tensor::Vector<int32_t>({1}))},
                {{"component_index", int64_t{0}}});
  Session session(graph_);
  EXPECT_THAT(session.RunTargets({wrong}).ToString(),
              HasSubstr("values: expected type float"));
  ASSERT_TRUE(session.RunTargets({first}).ok());
  WaitsInVain(session, {take});
  // (All keys or none.)
  EXPECT_EQ(session.RunTargets({partly}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Count(session.Run(incomplete)), 2);
  std::thread waits([&] {
    const auto got = session.Run({Output(take.node, 2), Output(take.node, 3)});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_THAT((*got)[0].ToVector<float>(), ElementsAre(2, 1));
    EXPECT_THAT((*got)[1].ToVector<float>(), ElementsAre(20, 10));
  });
  ASSERT_TRUE(session.RunTargets({second}).ok());
  waits.join();
  EXPECT_EQ(Count(session.Run(ready)), 0);
  // A closed barrier waits for what may still become complete, and not longer.
  ASSERT_TRUE(session.RunTargets({first}).ok());
  ASSERT_TRUE(session.RunTargets({close}).ok());
  WaitsInVain(session, {take});
  ASSERT_TRUE(session.RunTargets({second}).ok());
  EXPECT_TRUE(session.Run(take).ok());
  EXPECT_EQ(session.Run(take).status().code(), StatusCode::kOutOfRange);
}

TEST_F(MeetingPointsTest, AStagingAreaHoldsBackAndGivesInOrder) {
  const AttrMap area = {{"capacity", int64_t{2}}, {"shared_name", "area"}};
  AttrMap typed = area;
  typed["dtypes"] = AttrValue::Types{DType::kFloat};
  const Output x = Placeholder<float>({}, "x");
  Node* const put = BuildNode("Stage", {x}, area);
  Node* const full = BuildNode("Stage", {Constant(9.0f)}, area);
  const Output take = Build("Unstage", {}, typed);
  const Output second = Build("StagePeek", {Constant(1)}, typed);
  const Output size = Build("StageSize", {}, typed);
  Node* const clear = BuildNode("StageClear", {}, typed);
  typed["dtypes"] = AttrValue::Types{DType::kInt32};
  const Output wrong = Build("Unstage", {}, typed);
  Session session(graph_);
  WaitsInVain(session, {take});
  for (const float v : {1.0f, 2.0f})
    ASSERT_TRUE(session.RunTargets({put}, {{x, Tensor::Scalar(v)}}).ok());
  WaitsInVain(session, {}, {full});
  EXPECT_EQ(session.Run(wrong).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Numbers(session.Run(second)), ElementsAre(2));
  std::thread waits([&] { EXPECT_TRUE(session.RunTargets({full}).ok()); });
  EXPECT_THAT(Numbers(session.Run(take)), ElementsAre(1));
  waits.join();
  EXPECT_EQ(Count(session.Run(size)), 2);
  EXPECT_THAT(Numbers(session.Run(take)), ElementsAre(2));
  ASSERT_TRUE(session.RunTargets({clear}).ok());
  EXPECT_EQ(Count(session.Run(size)), 0);
}

TEST_F(MeetingPointsTest, OperationsOnOtherKeysDoNotWaitForEachOther) {
  const auto types = AttrValue::Types{DType::kFloat, DType::kFloat};
  const AttrMap area = {{"dtypes", types}, {"shared_name", "area"}};
  const Output both = Constant(Tensor::Vector<int32_t>({0, 1}));
  const auto stage = [&](int64_t key, int32_t index, float value) {
    return BuildNode("OrderedMapStage",
                     {Constant(key), Constant(Tensor::Vector<int32_t>({index})),
                      Constant(value)},
                     area);
  };
  const auto get = [&](const std::string& op, int64_t key) {
    return Build("OrderedMap" + op, {Constant(key), both}, area);
  };
  Node* const one = stage(1, 0, 10);
  Node* const two = stage(1, 1, 11);
  const Output take = get("Unstage", 1), other = get("Unstage", 2);
  const Output peek = get("Peek", 1);
  Session session(graph_);
  RunOptions options;
  Cancellation cancellation;
  options.cancellation = &cancellation;
  std::thread waits([&] {
    EXPECT_EQ(session.Run({}, {other}, {}, options).status().code(),
              StatusCode::kCancelled);
  });
  ASSERT_TRUE(session.RunTargets({one}).ok());
  WaitsInVain(session, {take});
  EXPECT_EQ(session.RunTargets({one}).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(session.RunTargets({two}).ok());
  EXPECT_THAT(Numbers(session.Run(Output(peek.node, 1))), ElementsAre(11));
  EXPECT_THAT(Numbers(session.Run(take)), ElementsAre(10));
  cancellation.Cancel();
  waits.join();
}

TEST_F(MeetingPointsTest, AnAccumulatorWaitsForEnoughGradients) {
  const Output accumulator =
      Build("ConditionalAccumulator", {},
            {{"dtype", DType::kFloat}, {"shape", PartialShape({2})}});
  const Output x = Placeholder<float>(PartialShape({-1}), "x");
  const Output step = Placeholder<int64_t>({}, "step");
  Node* const add =
      BuildNode("AccumulatorApplyGradient", {accumulator, step, x});
  const Output take =
      Build("AccumulatorTakeGradient", {accumulator, Constant(2)},
            {{"dtype", DType::kFloat}});
  const Output count = Build("AccumulatorNumAccumulated", {accumulator});
  Session session(graph_);
  const auto apply = [&](int64_t at, std::vector<float> v) {
    return session.RunTargets(
        {add}, {{step, Tensor::Scalar(at)}, {x, Tensor::Vector<float>(v)}});
  };
  EXPECT_THAT(apply(0, {1, 2, 3}).ToString(), HasSubstr("Shape mismatch"));
  ASSERT_TRUE(apply(0, {1, 2}).ok());
  WaitsInVain(session, {take});
  std::thread waits(
      [&] { EXPECT_THAT(Numbers(session.Run(take)), ElementsAre(2, 4)); });
  ASSERT_TRUE(apply(0, {3, 6}).ok());
  waits.join();
  ASSERT_TRUE(apply(0, {9, 9}).ok());  // Of an earlier step.
  EXPECT_EQ(Count(session.Run(count)), 0);
  ASSERT_TRUE(apply(1, {9, 9}).ok());
  EXPECT_EQ(Count(session.Run(count)), 1);
}

// What TensorFlow takes and refuses, and how it words that.
TEST_F(MeetingPointsTest, ASparseAccumulatorComparesTheShapesItKnows) {
  const Output indices = ops::Placeholder(DType::kInt64);
  const Output values = ops::Placeholder(DType::kFloat);
  const Output shape = ops::Placeholder(DType::kInt64);
  struct Made {
    Node* add;
    std::vector<Output> take;
  };
  const auto make = [&](const PartialShape& declared, bool known) {
    const Output a = Build("SparseConditionalAccumulator", {},
                           {{"dtype", DType::kFloat}, {"shape", declared}});
    Node* const take = BuildNode("SparseAccumulatorTakeGradient",
                                 {a, Constant(1)}, {{"dtype", DType::kFloat}});
    return Made{
        BuildNode("SparseAccumulatorApplyGradient",
                  {a, Constant(int64_t{9}), indices, values, shape},
                  {{"dtype", DType::kFloat}, {"has_known_shape", known}}),
        {Output(take, 0), Output(take, 1), Output(take, 2)}};
  };
  const Made any = make(PartialShape(), true);
  const Made scalar = make(PartialShape::Scalar(), true);
  const Made rows = make(PartialShape({3}), false);
  const Made some = make(PartialShape({-1, 2}), true);
  const Made all = make(PartialShape({3, 2}), true);
  const Made unsaid = make(PartialShape({3, 2}), false);
  Session session(graph_);
  const auto apply = [&](const Made& m, std::vector<int64_t> at,
                         const Shape& of, std::vector<int64_t> said) {
    return session
        .RunTargets({m.add}, {{indices, Tensor::Vector<int64_t>(at)},
                              {values, *Tensor::Zeros(DType::kFloat, of)},
                              {shape, Tensor::Vector<int64_t>(said)}})
        .ToString();
  };
  const auto taken = [&](const Made& m) {
    const auto got = session.Run(m.take);
    EXPECT_TRUE(got.ok()) << got.status();
    return got.ok() ? (*got)[2].ToVector<int64_t>() : std::vector<int64_t>();
  };
  for (const Made& m : {any, scalar}) {
    EXPECT_EQ(apply(m, {0, 1}, {2, 2}, {}), "OK");
    EXPECT_EQ(apply(m, {7, 8}, {2, 2}, {1}), "OK");
    EXPECT_THAT(apply(m, {0}, {1, 3}, {}),
                HasSubstr("expected values dim 1 to be 2, got 3"));
    EXPECT_THAT(apply(m, {0}, {1, 2, 1}, {}),
                HasSubstr("expected values rank 2, got 3"));
    EXPECT_THAT(taken(m), ElementsAre(-1, 2));
    EXPECT_EQ(apply(m, {0, 1}, {2}, {3}), "OK");
    EXPECT_THAT(taken(m), ElementsAre(-1));
  }
  EXPECT_EQ(apply(rows, {0, 2}, {2, 5}, {}), "OK");
  EXPECT_THAT(apply(rows, {3}, {1, 5}, {}),
              HasSubstr("index of slice 0 exceeded limits of shape; index is "
                        "3 exceeded 3"));
  EXPECT_THAT(taken(rows), ElementsAre(3, 5));
  EXPECT_EQ(apply(some, {9}, {1, 2}, {10, 2}), "OK");
  EXPECT_THAT(apply(some, {0}, {1}, {3}),
              HasSubstr("expected shape rank at least 2, got 1"));
  EXPECT_THAT(apply(some, {0}, {1, 3}, {3, 3}),
              HasSubstr("expected shape dim 1 to be 2, got 3"));
  EXPECT_THAT(apply(all, {0}, {1, 2}, {4, 2}),
              HasSubstr("expected shape dim 0 to be 3, got 4"));
  EXPECT_EQ(apply(all, {0}, {1, 2, 4}, {3, 2, 4}), "OK");
  EXPECT_THAT(taken(all), ElementsAre(3, 2, 4));
  EXPECT_THAT(apply(unsaid, {0}, {1}, {}),
              HasSubstr("expected values rank at least 2, got 1"));
  EXPECT_THAT(apply(unsaid, {0}, {1, 3}, {}),
              HasSubstr("expected values dim 1 to be 2, got 3"));
  EXPECT_THAT(apply(unsaid, {0, 1}, {1, 2}, {}),
              HasSubstr("Expected 2 non-empty input values, got 1"));
  EXPECT_THAT(apply(unsaid, {-1}, {1, 2}, {}), HasSubstr("expected >= 0"));
}

}  // namespace
}  // namespace sluice
