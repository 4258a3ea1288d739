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

}  // namespace
}  // namespace sluice
