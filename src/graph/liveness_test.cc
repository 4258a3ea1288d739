#include "graph/liveness.h"

#include "client/control/loops.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

class LivenessTest : public ::testing::Test {
 protected:
  LivenessTest() : use_(graph_) {}

  static Output Input(DType t = DType::kFloat) {
    return Build("Placeholder", {},
                 {{"dtype", t}, {"shape", PartialShape::Scalar()}});
  }
  static Output Enter(Output o, bool constant = false) {
    return Build("Enter", {o},
                 {{"frame_name", "loop"}, {"is_constant", constant}});
  }
  static std::pair<Output, Output> Switch(Output x, Output p) {
    const Output s = Build("Switch", {x, p});
    return {s, Output(s.node, 1)};
  }
  void Find() {
    const auto order = TopologicalOrder(graph_);
    ASSERT_TRUE(order.ok()) << order.status();
    Result<Frames> frames = Frames::Of(graph_, *order);
    ASSERT_TRUE(frames.ok()) << frames.status();
    frames_ = std::make_unique<Frames>(*std::move(frames));
    found_ = std::make_unique<Liveness>(Liveness::Of(graph_, *order, *frames_));
  }
  int Of(Output o) const { return found_->condition(o); }
  int Only(Output p, bool value) {
    return found_->conditions().One(found_->PredicateLiteral(p, value));
  }

  Graph graph_;
  WithGraph use_;
  std::unique_ptr<Frames> frames_;
  std::unique_ptr<Liveness> found_;
};

TEST_F(LivenessTest, ASwitchMakesItsOutputsConditional) {
  const Output p = Input(DType::kBool), x = Input();
  const auto [no, yes] = Switch(x, p);
  const Output y = Build("AddV2", {yes, x});
  Find();
  EXPECT_EQ(Of(x), Conditions::kAlways);
  EXPECT_EQ(Of(no), Only(p, false));
  EXPECT_EQ(Of(y), Only(p, true));
}

TEST_F(LivenessTest, PredicateIsRecognizedThroughAliases) {
  const Output p = Input(DType::kBool), x = Input();
  const auto a = Switch(x, p), b = Switch(x, Build("Identity", {p}));
  Find();
  EXPECT_EQ(Of(a.second), Of(b.second));
}

TEST_F(LivenessTest, MergeOfBothBranchesIsLiveLikeItsConditional) {
  const Output p = Input(DType::kBool), q = Input(DType::kBool), x = Input();
  const Output under_q = Switch(x, q).second;
  const auto [no, yes] = Switch(under_q, p);
  const Output merge = Build("Merge", {no, yes});
  Find();
  EXPECT_EQ(Of(merge), Only(q, true));
}

TEST_F(LivenessTest, DeadControlInputDoesNotMakeMergeDead) {
  const Output p = Input(DType::kBool), x = Input();
  const auto [no, yes] = Switch(x, p);
  const Output side = Build("Neg", {yes});
  const ControlDependencies after({side.node});
  const Output merge = Build("Merge", {no, yes});
  Find();
  EXPECT_EQ(Of(merge), Conditions::kAlways);
}

TEST_F(LivenessTest, AControlTriggerIsNeverDead) {
  const Output p = Input(DType::kBool), x = Input();
  const Output side = Build("Neg", {Switch(x, p).second});
  Node* trigger = nullptr;
  {
    const ControlDependencies after({side.node});
    trigger = BuildNode("ControlTrigger", {}, {});
  }
  const ControlDependencies after({side.node});
  Node* const no_op = BuildNode("NoOp", {}, {});
  Find();
  EXPECT_EQ(found_->condition(trigger, -1), Conditions::kAlways);
  EXPECT_EQ(found_->condition(no_op, -1), Only(p, true));
}

TEST_F(LivenessTest, MergeOfUnrelatedBranchesHasItsOwnCondition) {
  const Output p = Input(DType::kBool), q = Input(DType::kBool), x = Input();
  const Output merge =
      Build("Merge", {Switch(x, p).second, Switch(x, q).second});
  Find();
  const Conditions::Set& own = found_->conditions().set(Of(merge));
  ASSERT_EQ(own.size(), 1u);
  EXPECT_FALSE(found_->predicate(own[0]).valid());
}

// while (i < 3) i = -i, begun only if `begin` is live.
struct SimpleLoop {
  Output enter, merge, pred, body, next, exit;
};
SimpleLoop BuildLoop(Output begin) {
  SimpleLoop l;
  l.enter =
      Build("Enter", {begin}, {{"frame_name", "loop"}, {"is_constant", false}});
  l.merge = OpenMerge(l.enter);
  l.pred = Build("LoopCond", {Build("Less", {l.merge, Constant(3.0f)})});
  const Output s = Build("Switch", {l.merge, l.pred});
  l.body = Build("Neg", {Output(s.node, 1)});
  l.next = Build("NextIteration", {l.body});
  CloseMerge(l.merge, l.next);
  l.exit = Build("Exit", {s});
  return l;
}

TEST_F(LivenessTest, LoopIsLiveLikeItsEntries) {
  const Output p = Input(DType::kBool), x = Input();
  const SimpleLoop l = BuildLoop(Switch(x, p).second);
  const Output constant = Enter(Switch(x, p).second, true);
  const Output read = Build("AddV2", {l.body, constant});
  Find();
  const int loop = frames_->output_frame(l.enter.node);
  EXPECT_EQ(found_->Within(loop, Of(l.merge)), Conditions::kAlways);
  EXPECT_NE(Of(l.merge), Conditions::kAlways);
  EXPECT_EQ(found_->Within(loop, Of(l.body)), Only(l.pred, true));
  EXPECT_EQ(found_->Within(loop, Of(read)), Only(l.pred, true));
  EXPECT_EQ(Of(l.body), found_->going_on(loop));
  EXPECT_EQ(Of(l.exit), Only(p, true));
}

TEST_F(LivenessTest, EnteringValueExistsOnlyInFirstIteration) {
  const SimpleLoop l = BuildLoop(Input());
  const Output once = Build("Neg", {l.enter});
  Find();
  EXPECT_TRUE(found_->once(l.enter.node));
  EXPECT_TRUE(found_->once(once.node));
  EXPECT_FALSE(found_->once(l.merge.node));
  EXPECT_FALSE(found_->once(l.exit.node));
}

TEST_F(LivenessTest, AConditionOfTooManyPredicatesIsOpaque) {
  std::vector<Output> many;
  for (int i = 0; i < 1000; ++i)
    many.push_back(Switch(Input(), Input(DType::kBool)).second);
  const Output all =
      Build("AddN", many, {{"N", static_cast<int64_t>(many.size())}});
  Find();
  EXPECT_EQ(found_->conditions().set(Of(all)).size(), 1u);
}

TEST(Conditions, RecognizeContradictionsAndComplements) {
  Conditions c;
  const int p = c.One(2), not_p = c.One(Opposite(2)), q = c.One(4);
  EXPECT_TRUE(c.IsContradiction(c.And(p, not_p)));
  EXPECT_FALSE(c.IsContradiction(c.And(p, q)));
  EXPECT_EQ(c.Or({p, not_p}), Conditions::kAlways);
  EXPECT_EQ(c.Or({c.And(p, q), p}), p);
  EXPECT_EQ(c.Or({c.And(p, q), c.And(not_p, q)}), q);
  EXPECT_EQ(c.Or({p, q}), -1);
  EXPECT_EQ(c.Complement(c.And(p, q), c.And(not_p, q)),
            std::pair(Literal{2}, q));
  EXPECT_EQ(c.Complement(p, p).second, -1);
}

}  // namespace
}  // namespace sluice
