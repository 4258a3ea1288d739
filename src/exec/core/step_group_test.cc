// Manually built partitions, in the form that passes/partition.h makes.
#include "exec/core/step_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "graph/builder.h"
#include "graph/graph.h"
#include "graph/op_def.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kParallel = 4;

class StepGroupTest : public ::testing::Test {
 protected:
  static AttrMap EdgeAttrs(int edge, int group, const std::string& name) {
    return {{"tensor_name", name},
            {"send_device", "there"},
            {"recv_device", "here"},
            {"edge", int64_t{edge}},
            {"group", int64_t{group}}};
  }
  static Node* Send(Output o, int destination, int edge, int group = 0,
                    bool leads = true) {
    AttrMap a = EdgeAttrs(edge, group, o.name());
    a["destination"] = int64_t{destination};
    a["leads_group"] = leads;
    return BuildNode("_Send", {o}, a);
  }
  static Output Recv(DType t, int edge, int group = 0, Node* after = nullptr) {
    AttrMap a = EdgeAttrs(edge, group, "edge " + std::to_string(edge));
    a["T"] = t;
    std::vector<Node*> controls;
    if (after != nullptr) controls.push_back(after);
    ControlDependencies in_order(controls);
    return Build("_Recv", {}, a);
  }
  static Output Enter(Output o) {
    return Build("Enter", {o},
                 {{"frame_name", "loop"},
                  {"is_constant", false},
                  {"parallel_iterations", int64_t{kParallel}}});
  }
  static Output OpenMerge(Output enter) {
    NodeSpec s;
    s.op = "Merge";
    s.inputs = {enter, Output()};
    s.pending_input_types = {enter.dtype(), enter.dtype()};
    Result<Node*> n = CurrentGraph().AddNode(std::move(s));
    EXPECT_TRUE(n.ok()) << n.status();
    return Output(*n);
  }
  static void Close(Output merge, Output next) {
    const Status s = CurrentGraph().SetBackEdge(merge.node, 1,
                                                Build("NextIteration", {next}));
    EXPECT_TRUE(s.ok()) << s;
  }
  static void Fetch(Output o, int index) {
    BuildNode("_Retval", {o}, {{"index", int64_t{index}}});
  }

  // Figure 6: A counts to `n` and has the predicate, B adds `step` to x in
  // every iteration; x is sent back and forth.
  void BuildLoop(int n, Output (*body)(Output)) {
    {
      WithGraph use(*a_);
      Output i = OpenMerge(Enter(Constant(0)));
      Output x = OpenMerge(Enter(Constant(1.0f)));
      Output more = Build("LoopCond", {Build("Less", {i, Constant(n)})});
      Send(more, 1, 0, 0);
      Node* si = BuildNode("Switch", {i, more});
      Node* sx = BuildNode("Switch", {x, more});
      Output one;
      {
        ControlDependencies in_loop({Build("Identity", {Output(si, 1)}).node});
        one = Constant(1);
      }
      Close(i, Build("Add", {Output(si, 1), one}));
      Send(Output(sx, 1), 1, 1, 1);
      Close(x, Recv(DType::kFloat, 0, 0, i.node));
      Fetch(Build("Exit", {Output(sx, 0)}), 0);
    }
    {
      WithGraph use(*b_);
      Output turn = OpenMerge(Enter(Constant(true)));
      Output more = Recv(DType::kBool, 0, 0, turn.node);
      Node* s = BuildNode("Switch", {turn, more});
      Close(turn, Output(s, 1));
      Output x = Recv(DType::kFloat, 1, 1, turn.node);
      Send(body(x), 0, 0);
    }
  }

  // Partition a waits for a token that b, which computes a constant, does not
  // send.
  void CompileRecvWithoutSend() {
    {
      WithGraph use(*a_);
      Fetch(Recv(DType::kFloat, 0), 0);
    }
    {
      WithGraph use(*b_);
      Fetch(Constant(1.0f), 1);
    }
    Compile();
  }
  void Compile() {
    std::vector<PartitionPlan> parts;
    for (const auto& g : {a_, b_}) {
      ASSERT_TRUE(g->status().ok()) << g->status();
      auto plan = Plan::Build(g, [](const Node& n, std::shared_ptr<Kernel>* k) {
        *k = std::make_shared<Kernel>();
        return n.op().kernel(n, k->get());
      });
      ASSERT_TRUE(plan.ok()) << plan.status();
      parts.push_back({*plan, &cpu_});
    }
    group_ = std::make_unique<StepGroup>(std::move(parts));
  }
  void Start(uint64_t seed = 0) {
    options_.scheduler_seed = seed;
    options_.step.resources = &resources_;
    group_->Start(options_);
  }

  const std::shared_ptr<Graph> a_ = std::make_shared<Graph>();
  const std::shared_ptr<Graph> b_ = std::make_shared<Graph>();
  CpuDevice cpu_{DeviceName()};
  ResourceManager resources_;
  ExecuteOptions options_;
  std::unique_ptr<StepGroup> group_;
};

TEST_F(StepGroupTest, LoopOverTwoPartitionsGivesOneResult) {
  BuildLoop(1000, [](Output x) { return Build("Add", {x, Constant(2.0f)}); });
  Compile();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Start(seed);
    const Status s = group_->Run({}, {});
    ASSERT_TRUE(s.ok()) << s << " seed " << seed;
    ASSERT_NE(group_->result(0), nullptr);
    EXPECT_EQ(group_->result(0)->scalar<float>(), 2001);
    group_->Finish();
  }
}

TEST_F(StepGroupTest, AnErrorInOnePartitionEndsTheOthers) {
  BuildLoop(10, [](Output x) {
    return Build("CheckNumerics", {Build("Log", {Build("Neg", {x})})},
                 {{"message", "negative"}});
  });
  Compile();
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Start(seed);
    const Status s = group_->Run({}, {});
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("CheckNumerics"));
    group_->Finish();
  }
}

TEST_F(StepGroupTest, DeadlineErrorNamesTheMissingToken) {
  CompileRecvWithoutSend();
  options_.deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  Start();
  const Status s = group_->Run({}, {});
  EXPECT_EQ(s.code(), StatusCode::kDeadlineExceeded) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("waits for 'edge 0'"));
  group_->Finish();
}

TEST_F(StepGroupTest, IsCancelledFromAnotherThreadWhileItWaits) {
  CompileRecvWithoutSend();
  Start();
  std::thread canceller([this] { group_->Cancel(Cancelled("enough")); });
  const Status s = group_->Run({}, {});
  canceller.join();
  EXPECT_EQ(s.code(), StatusCode::kCancelled) << s;
  group_->Finish();
  // The next step is not affected.
  Start();
  std::thread sender([this] {
    TokenMessage m{0, false, false, {}, Tensor::Scalar<float>(5)};
    group_->Deliver(0, std::span(&m, 1));
  });
  EXPECT_TRUE(group_->Run({}, {}).ok());
  sender.join();
  EXPECT_EQ(group_->result(0)->scalar<float>(), 5);
  group_->Finish();
}

TEST_F(StepGroupTest, RejectsTokensOfUnknownEdgesOrTypes) {
  CompileRecvWithoutSend();
  const TokenMessage wrong[] = {
      {7, false, false, {}, Tensor::Scalar<float>(1)},
      {7, true, true, {}, Tensor()},
      {0, false, false, {}, Tensor::Scalar<int32_t>(1)},
      {0, false, false, {}, Tensor()},
  };
  for (const TokenMessage& w : wrong) {
    Start();
    TokenMessage m = w;
    group_->Deliver(0, std::span(&m, 1));
    EXPECT_EQ(group_->Run({}, {}).code(), StatusCode::kInternal);
    group_->Finish();
  }
}

TEST_F(StepGroupTest, ASecondTokenOfAnEdgeIsAnErrorThatNamesTheRecv) {
  CompileRecvWithoutSend();
  for (const bool dead : {false, true}) {
    Start();
    TokenMessage twice[] = {
        {0, false, false, {5, 1}, Tensor::Scalar<float>(1)},
        {0, dead, dead, {5, 1}, dead ? Tensor() : Tensor::Scalar<float>(2)}};
    group_->Deliver(0, twice);
    const Status s = group_->Run({}, {});
    EXPECT_EQ(s.code(), StatusCode::kInternal) << s;
    EXPECT_THAT(std::string(s.message()),
                AllOf(HasSubstr("a second for edge 0"), HasSubstr("_Recv")));
    group_->Finish();
  }
}

}  // namespace
}  // namespace sluice
