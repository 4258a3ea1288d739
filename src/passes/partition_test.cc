// Results of partitioning: the number of transfers, and which ones.
#include "passes/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "client/control/control_flow.h"
#include "client/control/functions.h"
#include "client/operators.h"
#include "client/variables.h"
#include "exec/core/plan.h"
#include "passes/lower_functional.h"
#include "passes/partition_properties.h"
#include "passes/passes.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Vars = std::vector<Output>;

std::string CutDevice(int d) {
  return absl::StrCat("/job:localhost/replica:0/task:0/device:CPU:", d);
}
int DeviceNumber(const Node& n) {
  return n.device().empty() ? 0 : n.device().back() - '0';
}

// Builds with DeviceScope on(CutDevice(i)); nodes without a device are on 0.
class PartitionTest : public ::testing::Test {
 protected:
  PartitionTest() : use_(graph_) {}

  void Cut(const std::vector<Output>& fetches,
           const std::vector<Node*>& targets = {},
           const PartitionOptions& options = {}) {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    Result<std::unique_ptr<Graph>> pruned =
        Prune(graph_, {feeds_, fetches, targets});
    ASSERT_TRUE(pruned.ok()) << pruned.status();
    ASSERT_TRUE(LowerFunctional(pruned->get(), graph_).ok());
    whole_ = *std::move(pruned);
    for (const auto& n : whole_->nodes())
      whole_->SetDevice(n.get(),
                        CutDevice(n->op().role == OpRole::kArg ||
                                          n->op().role == OpRole::kRetval
                                      ? 0
                                      : DeviceNumber(*n)));
    Result<Partitions> cut = Partition(*whole_, options);
    status_ = cut.status();
    if (!cut.ok()) return;
    cut_ = *std::move(cut);
    const Status whole =
        CheckPartitions(*whole_, cut_.graphs, cut_.devices, kPartitioned);
    EXPECT_TRUE(whole.ok()) << whole;
    for (std::unique_ptr<Graph>& g : cut_.graphs) {
      // Each is a complete graph from which a plan can be made.
      std::shared_ptr<const Graph> shared = std::move(g);
      graphs_.push_back(shared);
      const auto plan =
          Plan::Build(shared, [](const Node&, std::shared_ptr<Kernel>* k) {
            *k = std::make_shared<Kernel>();
            return OkStatus();
          });
      EXPECT_TRUE(plan.ok()) << plan.status();
      for (const auto& n : shared->nodes()) EXPECT_FALSE(n->device().empty());
    }
  }

  // Nodes of an op in the partition of device `d`; -1: in all.
  int Count(const std::string& op, int d = -1) const {
    int count = 0;
    for (size_t p = 0; p < graphs_.size(); ++p) {
      if (d >= 0 && cut_.devices[p] != CutDevice(d)) continue;
      for (const auto& n : graphs_[p]->nodes()) count += n->op_name() == op;
    }
    return count;
  }
  // The transfers: "name -> device", sorted.
  std::vector<std::string> Crossing() const {
    std::vector<std::string> names;
    for (size_t p = 0; p < graphs_.size(); ++p)
      for (const auto& n : graphs_[p]->nodes())
        if (n->op().role == OpRole::kRecv)
          names.push_back(
              absl::StrCat(n->AttrOr<std::string>("tensor_name", ""), " -> ",
                           cut_.devices[p].back() - '0'));
    std::sort(names.begin(), names.end());
    return names;
  }
  int Groups(int d) const {
    std::set<int64_t> groups;
    for (size_t p = 0; p < graphs_.size(); ++p)
      if (cut_.devices[p] == CutDevice(d))
        for (const auto& n : graphs_[p]->nodes())
          if (n->op().role == OpRole::kRecv) groups.insert(n->IntAttr("group"));
    return static_cast<int>(groups.size());
  }
  const Node* Find(const std::string& name, int d) const {
    for (size_t p = 0; p < graphs_.size(); ++p)
      if (cut_.devices[p] == CutDevice(d)) return graphs_[p]->FindNode(name);
    return nullptr;
  }
  Output Feed(const std::string& name, DType t = DType::kFloat) {
    feeds_.push_back(Build("Placeholder", {},
                           {{"dtype", t}, {"shape", PartialShape({2})}}, name));
    return feeds_.back();
  }

  Graph graph_;
  WithGraph use_;
  std::vector<Output> feeds_;
  std::unique_ptr<Graph> whole_;
  Partitions cut_;
  std::vector<std::shared_ptr<const Graph>> graphs_;
  Status status_;
};

TEST_F(PartitionTest, GraphOfOneDeviceIsUnchanged) {
  const Output x = Feed("x");
  const Output y = While(
      Vars{x}, [](Vars v) { return ops::Sum(v[0], {0}) < 3.f; },
      [](Vars v) -> Vars { return {v[0] * 2.f}; })[0];
  Cut({y});
  ASSERT_EQ(graphs_.size(), 1u);
  EXPECT_THAT(cut_.devices, ElementsAre(CutDevice(0)));
  EXPECT_EQ(graphs_[0]->num_nodes(), whole_->num_nodes());
  for (const auto& n : whole_->nodes()) {
    const Node* same = graphs_[0]->FindNode(n->name());
    ASSERT_NE(same, nullptr) << n->name();
    EXPECT_TRUE(same->SharesAttrs(*n));
    ASSERT_EQ(same->num_inputs(), n->num_inputs());
    for (int i = 0; i < n->num_inputs(); ++i)
      EXPECT_EQ(same->input(i).name(), n->input(i).name());
  }
}

TEST_F(PartitionTest, OutputCrossesOncePerDestination) {
  const Output x = Feed("x");
  Output a, b, c;
  {
    DeviceScope on(CutDevice(1));
    a = ops::Sin(x);
    b = ops::Cos(x) + x;
  }
  {
    DeviceScope on(CutDevice(2));
    c = x * a;
  }
  Cut({a, b, c});
  EXPECT_THAT(Crossing(),
              ElementsAre("AddV2:0 -> 0", "Mul:0 -> 0", "Sin:0 -> 0",
                          "Sin:0 -> 2", "_arg_0:0 -> 1", "_arg_0:0 -> 2"));
}

TEST_F(PartitionTest, ReceivedTokensKeepShapeAndLine) {
  const Output x = Feed("x");
  DeviceScope on(CutDevice(1));
  const Output y = ops::Sin(x);
  Cut({y});
  for (const auto& g : graphs_)
    for (const auto& n : g->nodes()) {
      if (n->op().role != OpRole::kRecv) continue;
      EXPECT_EQ(n->output_shape(0).ToString(), "[2]");
      EXPECT_TRUE(n->loc().known());
    }
}

TEST_F(PartitionTest, ConstantsAreCopiedNotSent) {
  const Output x = Feed("x");
  const Output two = Constant(2.f);
  const Output a = x * two;
  DeviceScope on(CutDevice(1));
  const Output b = ops::Sin(x) * two;
  Cut({a, b});
  EXPECT_EQ(Count("Const", 0), 1);
  EXPECT_EQ(Count("Const", 1), 1);
  EXPECT_THAT(Crossing(), ElementsAre("Mul_1:0 -> 0", "_arg_0:0 -> 1"));
}

TEST_F(PartitionTest, ControlEdgeIsSignalUnlessAValueIsSent) {
  const Output x = Feed("x");
  const Output first = ops::Sin(x), second = ops::Cos(x);
  DeviceScope on(CutDevice(1));
  Output a, b;
  {
    ControlDependencies after({first.node});
    a = Build("AddV2", {first, first});
  }
  {
    ControlDependencies after({second.node});
    b = Build("AddV2", {a, a});
  }
  Cut({b});
  EXPECT_THAT(Crossing(),
              ElementsAre("AddV2_1:0 -> 0", "Sin:0 -> 1", "^Cos -> 1"));
  EXPECT_EQ(Count("_SendSignal", 0), 1);
  EXPECT_EQ(Count("_RecvSignal", 1), 1);
}

TEST_F(PartitionTest, UntakenBranchIsOneDeadToken) {
  const Output x = Feed("x"), p = Feed("p", DType::kBool);
  const Output pred = ops::All(p, {0});
  const Vars out = Cond(
      pred,
      [&]() -> Vars {
        const Output u = ops::Sin(x), v = ops::Cos(x), w = u * v;
        DeviceScope on(CutDevice(1));
        return {ops::Sin(u), ops::Sin(v), ops::Sin(w)};
      },
      [&]() -> Vars {
        return {x, x, x};
      });
  Cut(out);
  EXPECT_EQ(Count("_Recv", 1), 3);
  EXPECT_EQ(Groups(1), 1);
  EXPECT_EQ(Groups(0), 1);
}

TEST_F(PartitionTest, OppositeBranchesAreSeparateGroups) {
  const Output x = Feed("x"), p = Feed("p", DType::kBool);
  const auto out = Cond(
      ops::All(p, {0}),
      [&] {
        const Output u = ops::Sin(x);
        DeviceScope on(CutDevice(1));
        return ops::Sin(u);
      },
      [&] {
        const Output u = ops::Cos(x);
        DeviceScope on(CutDevice(1));
        return ops::Cos(u);
      });
  graph_.SetDevice(out.node, CutDevice(0));
  Cut({out});
  EXPECT_EQ(Groups(1), 2);
  // The Merge, on 0, distinguishes them.
  EXPECT_EQ(Groups(0), 2);
}

TEST_F(PartitionTest, PivotIsRebuiltFromThePredicate) {
  const Output x = Feed("x"), p = Feed("p", DType::kBool);
  const Output out = Cond(
      ops::All(p, {0}),
      [&] {
        DeviceScope on(CutDevice(1));
        return Constant(Tensor::Vector<float>({1, 2}));
      },
      [&] {
        DeviceScope on(CutDevice(1));
        return ops::Sin(Constant(Tensor::Vector<float>({3, 4})));
      });
  Cut({out + x});
  EXPECT_EQ(Count("_SendSignal"), 0);
  EXPECT_THAT(Crossing(),
              ElementsAre("cond/Sin:0 -> 0", "cond/pred_id:0 -> 1"));
}

// Figure 6: x += f(x) with f elsewhere.
class LoopPartitionTest : public PartitionTest {
 protected:
  Output Loop(const std::function<Output(Output i, Output x)>& body) {
    return While(
        Vars{Constant(0), Feed("x")}, [](Vars v) { return v[0] < 10; },
        [&](Vars v) -> Vars {
          return {v[0] + 1, body(v[0], v[1])};
        },
        {.parallel_iterations = 7})[1];
  }
};

TEST_F(LoopPartitionTest, EachParticipantHasAControlLoop) {
  const Output y = Loop([](Output, Output x) {
    DeviceScope on(CutDevice(1));
    return ops::Sin(x);
  });
  Cut({y});
  EXPECT_EQ(Count("Enter", 1), 1);
  EXPECT_EQ(Count("Merge", 1), 1);
  EXPECT_EQ(Count("NextIteration", 1), 1);
  EXPECT_EQ(Count("Switch", 1), 1);
  EXPECT_THAT(Crossing(),
              ElementsAre("while/Identity_1:0 -> 1", "while/LoopCond:0 -> 1",
                          "while/Sin:0 -> 0"));
  // It is the same loop there.
  for (const auto& n : graphs_[0]->nodes()) {
    if (n->op_name() != "Enter") continue;
    const Node* other = nullptr;
    for (const auto& m : graphs_[1]->nodes())
      if (m->op_name() == "Enter") other = m.get();
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(other->AttrOr<std::string>("frame_name", ""),
              n->AttrOr<std::string>("frame_name", "-"));
    EXPECT_EQ(other->IntAttr("parallel_iterations"), 7);
  }
}

TEST_F(LoopPartitionTest, EveryRecvStartsInEachIteration) {
  const Output y = Loop([](Output, Output x) {
    DeviceScope on(CutDevice(1));
    return ops::Sin(x);
  });
  Cut({y});
  for (const auto& g : graphs_)
    for (const auto& n : g->nodes()) {
      if (n->op().role != OpRole::kRecv) continue;
      ASSERT_EQ(n->control_inputs().size(), 1u) << n->name();
      EXPECT_EQ(n->control_inputs()[0]->op_name(), "Merge");
    }
}

TEST_F(LoopPartitionTest, AParticipantThatSendsNoValueSendsASignal) {
  // Device 1 runs a part of the body that only it reads.
  Output handle;
  {
    DeviceScope on(CutDevice(1));
    handle = Build("VarHandleOp", {},
                   {{"dtype", DType::kFloat},
                    {"shape", PartialShape({2})},
                    {"shared_name", std::string("v")}});
  }
  const Output y = Loop([&](Output, Output x) {
    Node* add;
    {
      DeviceScope on(CutDevice(1));
      add = BuildNode("AssignAddVariableOp", {handle, x});
    }
    (void)add;
    return x * 2.f;
  });
  Node* add = graph_.FindNode("while/AssignAddVariableOp");
  ASSERT_NE(add, nullptr);
  Cut({y}, {add});
  EXPECT_EQ(Count("_SendSignal", 1), 1);
  EXPECT_EQ(Count("_RecvSignal", 0), 1);
}

TEST_F(LoopPartitionTest, AParticipantInWhatComesBackNeedsNoSignal) {
  const auto ring = [this](bool in_a_branch) {
    const auto pass_on = [](Output x) {
      for (const int d : {1, 2, 3}) {
        DeviceScope on(CutDevice(d));
        x = ops::Sin(x);
      }
      return ops::Cos(x);
    };
    const Output y = Loop([&](Output i, Output x) {
      return in_a_branch
                 ? Cond(
                       i < 5, [&] { return pass_on(x); }, [&] { return x; })
                 : pass_on(x);
    });
    graphs_.clear();
    Cut({y});
    return Count("_SendSignal");
  };
  EXPECT_EQ(ring(false), 0);
  // If the branch is not taken, the last of them reports that separately.
  EXPECT_EQ(ring(true), 2);
}

// The constant takes only its liveness from Sin, which x has, too: no value or
// signal of Sin goes to device 2.
TEST_F(LoopPartitionTest, DeviceWithOnlyWhatAConstantWaitsForSendsASignal) {
  const Output y = Loop([](Output, Output x) {
    Output first, z, k;
    {
      DeviceScope on(CutDevice(1));
      first = ops::Sin(x);
    }
    DeviceScope on(CutDevice(2));
    z = ops::Cos(x);
    {
      ControlDependencies after({first.node});
      k = Constant(Tensor::Vector<float>({1, 2}));
    }
    return z * k;
  });
  Cut({y});
  EXPECT_EQ(Count("_SendSignal", 1), 1);
}

TEST_F(LoopPartitionTest, LoopConstantsEnterWhereTheyAreRead) {
  const Output w = Feed("w");
  const Output y = Loop([&](Output, Output x) {
    DeviceScope on(CutDevice(1));
    return x * w;
  });
  Cut({y});
  // The feed is transferred once for the whole loop.
  EXPECT_THAT(Crossing(), ::testing::Contains("_arg_0:0 -> 1"));
  for (const auto& g : graphs_)
    for (const auto& n : g->nodes())
      if (n->AttrOr<std::string>("tensor_name", "") == "_arg_0:0" &&
          n->op().role == OpRole::kRecv) {
        EXPECT_TRUE(n->control_inputs().empty());
      }
  EXPECT_EQ(Count("Enter", 1), 2);
}

TEST_F(LoopPartitionTest, ConstantsOfTheBodyNeedNoSignal) {
  const Output y = Loop([](Output, Output x) {
    DeviceScope on(CutDevice(1));
    return x * 3.f + Constant(Tensor::Vector<float>({1, 2}));
  });
  Cut({y});
  EXPECT_EQ(Count("_SendSignal"), 0);
  EXPECT_EQ(Count("_Recv", 1), 2);
}

TEST_F(LoopPartitionTest, ExitIsSentOnce) {
  Output y = Loop([](Output, Output x) {
    DeviceScope on(CutDevice(1));
    return ops::Sin(x);
  });
  {
    DeviceScope on(CutDevice(1));
    y = ops::Cos(y);
  }
  graph_.SetDevice(graph_.FindNode("while/Exit_1"), CutDevice(1));
  Cut({y});
  EXPECT_EQ(Count("Exit", 0), 1);
  EXPECT_EQ(Count("Exit", 1), 0);
  EXPECT_THAT(Crossing(), ::testing::Contains("while/Exit_1:0 -> 1"));
}

TEST_F(LoopPartitionTest, NestedControlLoopRunsInEachIteration) {
  const Output y = Loop([](Output, Output x) {
    return While(
        Vars{Constant(0), x}, [](Vars v) { return v[0] < 3; },
        [](Vars v) -> Vars {
          const Output next = v[0] + 1;
          DeviceScope on(CutDevice(1));
          return {next, ops::Sin(v[1])};
        })[1];
  });
  Cut({y});
  EXPECT_EQ(Count("Merge", 1), 2);
  for (const auto& n : graphs_[1]->nodes()) {
    if (n->op_name() != "Enter") continue;
    // The inner one runs after the outer Merge, the outer one after nothing.
    const bool inner =
        n->AttrOr<std::string>("frame_name", "").find("while/while") !=
        std::string::npos;
    ASSERT_EQ(n->control_inputs().size(), inner ? 1u : 0u);
    if (inner) {
      EXPECT_EQ(n->control_inputs()[0]->op_name(), "Merge");
    }
  }
}

TEST_F(LoopPartitionTest, DeadIterationSendsOneTokenPerDestination) {
  const Output y = Loop([](Output, Output x) {
    const Output u = ops::Sin(x), v = ops::Cos(x), w = u + v;
    DeviceScope on(CutDevice(1));
    return ops::Sin(u) + ops::Sin(v) + ops::Sin(w);
  });
  Cut({y});
  EXPECT_EQ(Count("_Recv", 1), 4);
  EXPECT_EQ(Groups(1), 2);  // The predicate is always alive.
}

TEST_F(PartitionTest, LoopWithoutPredicateCannotBePartitioned) {
  NodeSpec merge;
  merge.op = "Merge";
  merge.name = "m";
  merge.inputs = {Build("Enter", {Feed("x")},
                        {{"frame_name", std::string("f")},
                         {"is_constant", false},
                         {"parallel_iterations", int64_t{10}}}),
                  Output()};
  merge.pending_input_types = {DType::kFloat, DType::kFloat};
  Node* m = *graph_.AddNode(std::move(merge));
  Node* s = BuildNode("Switch", {Output(m), ops::Sum(Output(m), {0}) < 3.f});
  Output next;
  {
    DeviceScope on(CutDevice(1));
    next = ops::Sin(Output(s, 1));
  }
  ASSERT_TRUE(graph_.SetBackEdge(m, 1, Build("NextIteration", {next})).ok());
  Cut({Build("Exit", {Output(s, 0)})});
  EXPECT_EQ(status_.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status_.message()), HasSubstr("one LoopCond"));
}

TEST_F(PartitionTest, ReferenceCannotCrossDevices) {
  const Output v =
      Build("VariableV2", {},
            {{"dtype", DType::kFloat}, {"shape", PartialShape({2})}}, "v");
  Output assign;
  {
    DeviceScope on(CutDevice(1));
    assign = Build("Assign", {v, Feed("x")}, {}, "set");
  }
  Cut({}, {assign.node});
  EXPECT_EQ(status_.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status_.message()), HasSubstr("node 'set' (Assign)"));
}

TEST_F(PartitionTest, VariableReadIsLocalAndWaitsForReadersControlInputs) {
  const Output v =
      Build("VariableV2", {},
            {{"dtype", DType::kFloat}, {"shape", PartialShape({2})}}, "v");
  const Output set = Build("Assign", {v, Feed("x")}, {}, "set");
  Output y;
  {
    DeviceScope on(CutDevice(1));
    ControlDependencies after({set.node});
    y = Build("Neg", {v}, {}, "y");
  }
  Cut({y});
  const Node* read = Find("v/_read", 0);
  ASSERT_NE(read, nullptr);
  ASSERT_EQ(read->control_inputs().size(), 1u);
  EXPECT_EQ(read->control_inputs()[0]->name(), "set");
}

TEST_F(PartitionTest, DeviceMemoryIsCopiedInAndOut) {
  const Output y = While(
      Vars{Feed("x")}, [](Vars v) { return ops::Sum(v[0], {0}) < 3.f; },
      [](Vars v) -> Vars { return {v[0] * 2.f}; })[0];
  for (const auto& n : graph_.nodes()) graph_.SetDevice(n.get(), CutDevice(1));
  PartitionOptions options;
  options.has_own_memory = [](const std::string& d) { return d.back() == '1'; };
  Cut({y}, {}, options);
  // The feed and two constants are copied to the device; the result and each
  // predicate are copied back.
  EXPECT_EQ(Count("_CopyToDevice", 1), 3);
  EXPECT_EQ(Count("_CopyFromDevice", 1), 2);
  EXPECT_EQ(Count("_CopyToDevice", 0) + Count("_CopyFromDevice", 0), 0);
}

TEST_F(PartitionTest, DevicesThatCanDoSoCopyFromEachOther) {
  const Output x = Feed("x");
  Output y, z, at;
  {
    DeviceScope on(CutDevice(1));
    y = ops::Sin(x);
    at = Build("ArgMax", {y, Constant(int32_t{0})},
               {{"output_type", DType::kInt32}});
  }
  {
    DeviceScope on(CutDevice(2));
    z = ops::Cos(y) + ops::Sin(y) + ops::Cast(at, DType::kFloat);
  }
  PartitionOptions options;
  options.has_own_memory = [](const std::string& d) { return d.back() != '0'; };
  for (const bool direct : {false, true}) {
    SCOPED_TRACE(direct);
    std::set<std::string> asked;
    options.can_copy = [&](const std::string& from, const std::string& to) {
      asked.insert({from.back(), to.back()});
      return direct;
    };
    graphs_.clear();
    Cut({z}, {}, options);
    ASSERT_TRUE(status_.ok()) << status_;
    EXPECT_EQ(asked, std::set<std::string>{"12"});
    // Once for both readers. The integer goes through the host.
    EXPECT_EQ(Count("_Recv", 2), 2);
    EXPECT_EQ(Count("_CopyFromDevice", 1), direct ? 1 : 2);
    EXPECT_EQ(Count("_CopyToDevice", 2), direct ? 1 : 2);
    EXPECT_EQ(Count("_CopyFromPeer", 2), direct ? 1 : 0);
    for (const auto& g : graphs_)
      for (const auto& n : g->nodes())
        if (n->op_name() == "_CopyFromPeer") {
          EXPECT_EQ(n->input(0).node->op_name(), "_Recv");
        }
  }
}

TEST_F(PartitionTest, NewNamesAreUnused) {
  const Output x = Feed("x");
  const Output a = Build("Sin", {x}, {}, "a");
  Output b;
  {
    DeviceScope on(CutDevice(1));
    b = Build("Cos", {a}, {}, "a/_recv");
  }
  Cut({b});
  EXPECT_NE(Find("a/_recv", 1), nullptr);
  EXPECT_EQ(Find("a/_recv", 1)->op_name(), "Cos");
  EXPECT_NE(Find("a/_recv_1", 1), nullptr);
}

}  // namespace
}  // namespace sluice
