// Each test breaks one property of correct partitions.
#include "passes/partition_properties.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/control/control_flow.h"
#include "client/control/functions.h"
#include "client/operators.h"
#include "passes/lower_functional.h"
#include "passes/partition.h"
#include "passes/passes.h"
#include "passes/properties.h"
#include "passes/stage.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::string PartDevice(int d) {
  return absl::StrCat("/job:localhost/replica:0/task:0/device:CPU:", d);
}

class PartitionPropertiesTest : public ::testing::Test {
 protected:
  PartitionPropertiesTest() : use_(graph_) {}

  // Builds with DeviceScope on(PartDevice(1)); other nodes are on 0.
  void Cut(const Output& fetch, const std::vector<Node*>& targets = {}) {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    Result<std::unique_ptr<Graph>> pruned =
        Prune(graph_, {{}, {fetch}, targets});
    ASSERT_TRUE(pruned.ok()) << pruned.status();
    whole_ = *std::move(pruned);
    ASSERT_TRUE(LowerFunctional(whole_.get(), graph_).ok());
    for (const auto& n : whole_->nodes())
      if (n->device().empty()) whole_->SetDevice(n.get(), PartDevice(0));
    Result<Partitions> cut = Partition(*whole_);
    ASSERT_TRUE(cut.ok()) << cut.status();
    cut_ = *std::move(cut);
    ASSERT_EQ(cut_.graphs.size(), 2u);
    ASSERT_EQ(cut_.devices[0], PartDevice(0));
    ASSERT_EQ(Breach(kPartitioned), "");
  }
  // A loop on device 0 with Sin(x) on device 1.
  void CutLoop() {
    Cut(While(
        std::vector<Output>{Constant(0), Constant(1.0f)},
        [](std::vector<Output> v) { return v[0] < 10; },
        [](std::vector<Output> v) -> std::vector<Output> {
          DeviceScope on(PartDevice(1));
          const Output y = ops::Sin(v[1]);
          DeviceScope off(PartDevice(0));
          return {v[0] + 1, y * 2.0f};
        })[1]);
  }

  std::string Breach(PartitionProperties p) const {
    return std::string(
        CheckPartitions(*whole_, cut_.graphs, cut_.devices, p).message());
  }
  // The node of an op in partition `p`, with `name` in its tensor_name.
  Node* Find(size_t p, const std::string& op, const std::string& name = "") {
    for (const auto& n : cut_.graphs[p]->nodes())
      if (n->op_name() == op &&
          n->AttrOr<std::string>("tensor_name", "").find(name) !=
              std::string::npos)
        return n.get();
    ADD_FAILURE() << "no " << op << " of '" << name << "' in partition " << p;
    return nullptr;
  }

  Graph graph_;
  WithGraph use_;
  std::unique_ptr<Graph> whole_;
  Partitions cut_;
};

TEST_F(PartitionPropertiesTest, AComputeNodeIsInThePartitionOfItsDevice) {
  CutLoop();
  whole_->SetDevice(whole_->FindNode("while/Sin"), PartDevice(0));
  EXPECT_THAT(Breach(kComplete),
              HasSubstr("complete: expected the node on " + PartDevice(0)));
}

TEST_F(PartitionPropertiesTest, NoNodeIsForgotten) {
  CutLoop();
  NodeSpec spec;
  spec.op = "NoOp";
  spec.name = "forgotten";
  ASSERT_TRUE(whole_->AddNode(std::move(spec)).ok());
  EXPECT_THAT(Breach(kComplete),
              HasSubstr("complete: expected the node in a partition, got it in "
                        "0"));
}

TEST_F(PartitionPropertiesTest, NoComputeNodeRunsTwice) {
  CutLoop();
  Node* sin = cut_.graphs[1]->FindNode("while/Sin");
  // Partition 2, on the same device, with a copy.
  cut_.graphs.push_back(std::make_unique<Graph>());
  cut_.devices.push_back(PartDevice(1));
  NodeSpec spec;
  spec.op = "Const";
  spec.attrs = {{"dtype", DType::kFloat}, {"value", Tensor::Scalar(1.0f)}};
  Node* value = *cut_.graphs[2]->AddNode(std::move(spec));
  cut_.graphs[2]->CopyNode(*sin, {Output(value)}, {});
  EXPECT_THAT(Breach(kComplete),
              HasSubstr("expected the node in one partition, got it in 2"));
}

TEST_F(PartitionPropertiesTest, ARecvHasItsSend) {
  CutLoop();
  Node* recv = Find(1, "_Recv");
  const int64_t edge = recv->IntAttr("edge");
  cut_.graphs[1]->SetAttr(recv, "edge", int64_t{77});
  EXPECT_THAT(Breach(kPaired), HasSubstr("expected a _Send of edge 77"));
  cut_.graphs[1]->SetAttr(recv, "edge", edge);
  EXPECT_EQ(Breach(kPaired), "");
}

TEST_F(PartitionPropertiesTest, ASendHasItsRecv) {
  CutLoop();
  Node* send = Find(1, "_Send");
  ASSERT_NE(send, nullptr);
  NodeSpec stray;
  stray.op = "_Send";
  stray.name = "stray";
  stray.inputs = send->inputs();
  stray.attrs = send->attrs();
  stray.attrs["edge"] = stray.attrs["group"] = int64_t{77};
  ASSERT_TRUE(cut_.graphs[1]->AddNode(std::move(stray)).ok());
  EXPECT_THAT(Breach(kPaired), HasSubstr("expected a _Recv of edge 77"));
}

TEST_F(PartitionPropertiesTest, AnEdgeHasOneSend) {
  CutLoop();
  cut_.graphs[0]->SetAttr(Find(0, "_Send", "LoopCond"), "edge",
                          Find(0, "_Send", "Identity_1")->IntAttr("edge"));
  EXPECT_THAT(Breach(kPaired), HasSubstr("paired: expected one _Send of edge"));
}

TEST_F(PartitionPropertiesTest, BothEndsHaveTheSameTypeAndGroup) {
  CutLoop();
  Node* recv = Find(1, "_Recv", "LoopCond");
  cut_.graphs[1]->SetAttr(recv, "T", DType::kInt32);
  EXPECT_THAT(Breach(kPaired), HasSubstr("paired: expected the type of"));
  cut_.graphs[1]->SetAttr(recv, "T", DType::kBool);
  cut_.graphs[1]->SetAttr(recv, "group", int64_t{77});
  EXPECT_THAT(Breach(kPaired), HasSubstr("paired: expected the group of"));
}

TEST_F(PartitionPropertiesTest, AGroupHasOneLeader) {
  CutLoop();
  cut_.graphs[0]->SetAttr(Find(0, "_Send", "LoopCond"), "leads_group", false);
  EXPECT_THAT(Breach(kPaired),
              HasSubstr("expected one _Send that leads its group, got 0"));
}

TEST_F(PartitionPropertiesTest, ARecvRunsInTheFrameOfItsSend) {
  CutLoop();
  cut_.graphs[1]->SetControlInputs(Find(1, "_Recv", "Identity_1"), {});
  EXPECT_EQ(Breach(kComplete | kPaired), "");
  // Sin and its _Send are in the root now, too.
  EXPECT_THAT(Breach(kSameFrame),
              HasSubstr("same frame: expected the _Recv in the root as its "
                        "_Send is, got it in frame 'while'"));
}

TEST_F(PartitionPropertiesTest, AControlLoopFollowsThePredicate) {
  CutLoop();
  Node* send = Find(0, "_Send", "LoopCond");
  ASSERT_TRUE(cut_.graphs[0]
                  ->ReplaceInput(send, 0, send->input(0).node->input(0))
                  .ok());
  EXPECT_EQ(Breach(kPaired | kSameFrame | kWindowed), "");
  EXPECT_THAT(Breach(kInStep),
              HasSubstr("got one that does not receive the predicate"));
}

TEST_F(PartitionPropertiesTest, EveryRunnerOfAFunctionHasItsCalls) {
  const Function down =
      DefineFunction("down", {DType::kFloat}, {DType::kFloat},
                     [](const Function& self, const std::vector<Output>& args) {
                       const Output x = args[0];
                       return Cond(
                           x < 1.0f, [&] { return x; },
                           [&] {
                             DeviceScope on(PartDevice(1));
                             const Output less = ops::Sin(x);
                             DeviceScope off(PartDevice(0));
                             return self({less})[0];
                           });
                     });
  Cut(down({Constant(3.0f)})[0]);
  Node* call = Find(1, "_Call");
  ASSERT_NE(call, nullptr);
  ASSERT_TRUE(cut_.graphs[1]->TurnIntoNoOp(call, call->control_inputs()).ok());
  EXPECT_EQ(Breach(kComplete | kPaired | kSameFrame), "");
  EXPECT_THAT(Breach(kInStep), HasSubstr("expected all 2 calls of function"));
}

TEST_F(PartitionPropertiesTest, TheOwnerOfALoopHearsFromAllItsRunners) {
  const Output y = While(
      std::vector<Output>{Constant(0)},
      [](std::vector<Output> v) { return v[0] < 10; },
      [](std::vector<Output> v) -> std::vector<Output> {
        DeviceScope on(PartDevice(1));
        Build("Neg", {v[0]}, {}, "aside");
        DeviceScope off(PartDevice(0));
        return {v[0] + 1};
      })[0];
  Cut(y, {graph_.FindNode("while/aside")});
  for (const size_t p : {0u, 1u}) {
    Node* end = Find(p, p == 1 ? "_SendSignal" : "_RecvSignal");
    ASSERT_NE(end, nullptr);
    ASSERT_TRUE(cut_.graphs[p]->TurnIntoNoOp(end, end->control_inputs()).ok());
  }
  EXPECT_EQ(Breach(kComplete | kPaired | kSameFrame | kInStep), "");
  EXPECT_THAT(Breach(kWindowed),
              HasSubstr("windowed: expected " + PartDevice(1) + " to send"));
}

TEST_F(PartitionPropertiesTest, AStagedStepHasTransfersForItsFetches) {
  CutLoop();
  EXPECT_FALSE(CheckProperties(*cut_.graphs[0], kOpenEnds).ok());
  const Result<OpenEnds> ends = OpenTheEnds(&cut_, 0, 1);
  ASSERT_TRUE(ends.ok()) << ends.status();
  for (const auto& g : cut_.graphs) {
    const Status s = CheckProperties(
        *g, kConnected | kLowered | kPlaced | kOneDevice | kOpenEnds);
    EXPECT_TRUE(s.ok()) << s;
  }
}

}  // namespace
}  // namespace sluice
