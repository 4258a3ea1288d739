// Graphs that a plan rejects, and nodes that it omits.
#include "exec/core/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sanitizers.h"
#include "graph/builder.h"
#include "graph/graph.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PlanTest : public ::testing::Test {
 protected:
  PlanTest() : graph_(std::make_shared<Graph>()), use_(*graph_) {}

  Output Arg(DType t = DType::kFloat) {
    return Build("_Arg", {}, {{"T", t}, {"index", int64_t{num_args_++}}});
  }
  Node* Retval(Output o) {
    return BuildNode("_Retval", {o}, {{"index", int64_t{0}}});
  }
  Output Enter(Output o, const std::string& frame, int parallel = 10) {
    return Build("Enter", {o},
                 {{"frame_name", frame}, {"parallel_iterations", parallel}});
  }
  Result<std::shared_ptr<const Plan>> Compile() {
    EXPECT_TRUE(graph_->status().ok()) << graph_->status();
    return Plan::Build(graph_, [](const Node&, std::shared_ptr<Kernel>* k) {
      *k = std::make_shared<Kernel>();
      return OkStatus();
    });
  }
  std::string Error() {
    auto plan = Compile();
    EXPECT_FALSE(plan.ok());
    return plan.ok() ? "" : plan.status().ToString();
  }

  std::shared_ptr<Graph> graph_;
  WithGraph use_;
  int num_args_ = 0;
};

TEST_F(PlanTest, ANodeTakesItsInputsFromOneFrame) {
  Output x = Arg();
  Build("AddV2", {Enter(x, "loop"), x}, {}, "mixed");
  EXPECT_THAT(Error(), AllOf(HasSubstr("'mixed'"), HasSubstr("'loop'")));
}

TEST_F(PlanTest, AnExitOutsideAFrameIsRefused) {
  Build("Exit", {Arg()}, {}, "out");
  EXPECT_THAT(Error(), AllOf(HasSubstr("'out'"), HasSubstr("inside a frame")));
}

TEST_F(PlanTest, ANextIterationOutsideAFrameIsRefused) {
  Build("NextIteration", {Arg()}, {}, "next");
  EXPECT_THAT(Error(), HasSubstr("'next'"));
}

TEST_F(PlanTest, TheEntersOfAFrameAgreeOnItsParallelIterations) {
  Output x = Arg();
  Enter(x, "loop", 4);
  Enter(x, "loop", 5);
  EXPECT_THAT(Error(), AllOf(HasSubstr("expected 4"), HasSubstr("got 5")));
}

TEST_F(PlanTest, ZeroParallelIterationsIsRefused) {
  Enter(Arg(), "loop", 0);
  EXPECT_THAT(Error(), HasSubstr("expected at least 1, got 0"));
}

TEST_F(PlanTest, AFetchInsideAFrameIsRefused) {
  const Output inside = Enter(Arg(), "loop");
  Retval(inside);
  EXPECT_THAT(Error(), AllOf(HasSubstr("outside loops"),
                             HasSubstr("; " + inside.node->Describe())));
}

TEST_F(PlanTest, AnOpenBackEdgeIsRefused) {
  NodeSpec s;
  s.op = "Merge";
  s.name = "open";
  s.inputs = {Enter(Arg(), "loop"), Output()};
  s.pending_input_types = {DType::kFloat, DType::kFloat};
  ASSERT_TRUE(graph_->AddNode(std::move(s)).ok());
  EXPECT_THAT(Error(), AllOf(HasSubstr("'open'"), HasSubstr("back edge")));
}

TEST_F(PlanTest, ConstantsAndIdentitiesDoNotRun) {
  Output c = Constant(Tensor::Scalar<float>(2));
  Output x = Build("Identity", {Build("Identity", {Arg()})});
  Retval(Build("AddV2", {x, c}, {}, "sum"));
  auto plan = Compile();
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::string> names;
  for (const PlanNode& n : (*plan)->nodes) names.push_back(n.node->op_name());
  EXPECT_THAT(names, ::testing::ElementsAre("_Arg", "AddV2", "_Retval"));
  EXPECT_EQ((*plan)->constants.size(), 1u);
  EXPECT_FALSE((*plan)->has_control_flow);
}

TEST_F(PlanTest, ConstantWithControlInputIsWaitedFor) {
  Output x = Arg();
  Node* first = BuildNode("Neg", {x});
  Output c;
  {
    ControlDependencies after({first});
    c = Constant(Tensor::Scalar<float>(2));
  }
  Node* sum = BuildNode("AddV2", {x, Build("Identity", {c})});
  Retval(sum);
  auto plan = Compile();
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const PlanNode& n : (*plan)->nodes)
    if (n.node == sum) {
      EXPECT_EQ((*plan)->frames[0].initial_pending[n.local], 2u);
    }
}

TEST_F(PlanTest, ChainedConstantsAreVisitedOnce) {
  Output a = Arg(), b = a;
  for (int layer = 0; layer < 60; ++layer) {  // 2^60 paths.
    ControlDependencies after({a.node, b.node});
    a = Constant(2.f);
    b = Constant(3.f);
  }
  Retval(Build("Neg", {a}));
  auto plan = Compile();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LT((*plan)->edges.size(), 300u);
}

TEST_F(PlanTest, LongChainsOfConstantsCompile) {
  Output c = Arg();
  for (int i = 0; i < (kSanitized ? 10'000 : 100'000); ++i) {
    ControlDependencies after({c.node});
    c = Constant(2.f);
  }
  Retval(c);
  auto plan = Compile();
  EXPECT_TRUE(plan.ok()) << plan.status();
}

TEST_F(PlanTest, ErrorsDistinguishFramesOfEqualName) {
  const Output x = Arg();
  const Output a =
      Build("Enter", {Enter(x, "outer")},
            {{"frame_name", "loop"}, {"parallel_iterations", 10}}, "one");
  const Output b =
      Build("Enter", {x}, {{"frame_name", "loop"}, {"parallel_iterations", 10}},
            "two");
  Build("AddV2", {a, b});
  EXPECT_THAT(
      Error(),
      AllOf(HasSubstr("frame 'loop' (entered at 'one') in frame 'outer'"),
            HasSubstr("frame 'loop' (entered at 'two')")));
}

}  // namespace
}  // namespace sluice
