// Placements of nodes, and errors if there is none.
#include "passes/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/sanitizers.h"
#include "client/autodiff/gradients.h"
#include "client/control/control_flow.h"
#include "client/control/functions.h"
#include "client/control/tensor_array.h"
#include "client/operators.h"
#include "client/variables.h"
#include "passes/lower_functional.h"
#include "passes/passes.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kCpu0[] = "/job:worker/replica:0/task:0/device:CPU:0";
constexpr char kCpu1[] = "/job:worker/replica:0/task:0/device:CPU:1";
constexpr char kEmu0[] = "/job:worker/replica:0/task:0/device:EMU:0";
constexpr char kEmu1[] = "/job:worker/replica:0/task:0/device:EMU:1";
constexpr char kPs0[] = "/job:ps/replica:0/task:0/device:CPU:0";
constexpr char kPs1[] = "/job:ps/replica:0/task:1/device:CPU:0";

class PlaceTest : public ::testing::Test {
 protected:
  PlaceTest() : use_(graph_) {
    for (const char* name : {kCpu0, kCpu1, kEmu0, kEmu1, kPs0, kPs1}) {
      const DeviceName device = *DeviceName::Parse(name);
      const bool is_emu = device.type == "EMU";
      options_.devices.push_back({device, [is_emu, this](const Node& n) {
                                    ++asked_for_kernels_;
                                    return is_emu && not_on_emu_.count(
                                                         n.op_name()) != 0
                                               ? Unimplemented("too hard")
                                               : OkStatus();
                                  }});
    }
    options_.log = &log_;
  }

  static Output F(float v) { return Constant(Tensor::Scalar<float>(v)); }
  static Output X() { return Placeholder<float>(PartialShape({2, 2})); }
  static Output Handle(const char* name = "v") {
    return Build("VarHandleOp", {},
                 {{"dtype", DType::kFloat}, {"shape", PartialShape({})}}, name);
  }
  static Output ReadOf(Output handle) {
    return Build("ReadVariableOp", {handle}, {{"dtype", DType::kFloat}});
  }
  template <typename Fn>
  static auto On(const char* device, Fn fn) {
    const DeviceScope scope(device);
    return fn();
  }
  Status PlaceAll() { return Place(&graph_, options_); }
  void Placed() {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    const Status s = PlaceAll();
    ASSERT_TRUE(s.ok()) << s;
    Check(graph_);
  }
  // Checks the invariants of every placement.
  void Check(const Graph& g) {
    for (const auto& n : g.nodes()) {
      bool exists = false;
      for (const PlaceableDevice& d : options_.devices)
        exists = exists || d.name.ToString() == n->device();
      EXPECT_TRUE(exists) << n->Describe() << " on " << n->device();
      for (const Output& in : n->inputs()) {
        const bool together =
            (in.dtype() == DType::kResource && n->op_name() != "_Call") ||
            (n->op().role == OpRole::kMerge &&
             in.node->op().role == OpRole::kNextIteration);
        if (!together) continue;
        EXPECT_EQ(n->device(), in.node->device())
            << in.node->Describe() << " -> " << n->Describe();
      }
    }
  }
  const std::string& ReasonOf(Output o) {
    for (const Placement& p : log_)
      if (p.node == o.node->name()) return p.reason;
    static const std::string none = "not in the log";
    return none;
  }
  std::string ErrorOfPlacement() {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    return std::string(PlaceAll().message());
  }
  // The pruned, lowered and placed graph of these fetches.
  std::unique_ptr<Graph> PlacedStep(const std::vector<Output>& fetches,
                                    const std::vector<Output>& feeds = {},
                                    const std::vector<Node*>& targets = {}) {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    Result<std::unique_ptr<Graph>> g = Prune(graph_, {feeds, fetches, targets});
    EXPECT_TRUE(g.ok()) << g.status();
    if (!g.ok()) return std::make_unique<Graph>();
    EXPECT_TRUE(LowerFunctional(g->get(), graph_).ok());
    const Status s = Place(g->get(), options_);
    EXPECT_TRUE(s.ok()) << s;
    if (s.ok()) Check(**g);
    return *std::move(g);
  }

  Graph graph_;
  WithGraph use_;
  PlacementOptions options_;
  std::vector<Placement> log_;
  std::set<std::string> not_on_emu_;
  int asked_for_kernels_ = 0;
};

TEST_F(PlaceTest, PartialConstraintsAreCompleted) {
  const Output a = On("/job:ps/task:1", [] { return F(1); });
  const Output b = On("/device:EMU:1", [] { return F(1); });
  const Output c = On("/device:*:1", [] { return F(1); });
  const Output d = On("/job:ps", [] { return F(1); });
  const Output e = F(1);
  Placed();
  EXPECT_EQ(a.node->device(), kPs1);
  EXPECT_EQ(b.node->device(), kEmu1);
  EXPECT_EQ(c.node->device(), kCpu1);
  EXPECT_EQ(d.node->device(), kPs0);
  EXPECT_EQ(e.node->device(), kCpu0);
  EXPECT_EQ(ReasonOf(a), "requested");
  EXPECT_EQ(ReasonOf(e), "default");
}

TEST_F(PlaceTest, DefaultDeviceIsPreferred) {
  options_.default_device = *DeviceName::Parse("/job:ps/task:1");
  const Output any = F(1);
  const Output cpu = On("/cpu:0", [] { return F(1); });
  const Output emu = On("/device:EMU:*", [] { return F(1); });
  Placed();
  EXPECT_EQ(any.node->device(), kPs1);
  EXPECT_EQ(cpu.node->device(), kPs1);
  EXPECT_EQ(emu.node->device(), kEmu0);
}

TEST_F(PlaceTest, MissingDeviceErrorNamesNodeAndAvailableDevices) {
  const Output x = X();
  const Output y = On("/gpu:0", [&] { return ops::Sqrt(x); });
  const int line = __LINE__ - 1;
  EXPECT_THAT(
      ErrorOfPlacement(),
      AllOf(HasSubstr("got '/device:GPU:0'"), HasSubstr(kCpu0), HasSubstr(kPs1),
            HasSubstr(absl::StrCat("place_test.cc:", line))));
  graph_.SetDevice(y.node, "/cpu:zero");
  EXPECT_THAT(ErrorOfPlacement(), HasSubstr("device:TYPE:NUMBER"));
}

TEST_F(PlaceTest, MissingKernelErrorNamesOpAndDevicesThatHaveIt) {
  not_on_emu_ = {"Sqrt"};
  const Output x = X();
  const Output y = On("/device:EMU:0", [&] { return ops::Sqrt(x); });
  EXPECT_THAT(
      ErrorOfPlacement(),
      AllOf(HasSubstr("Sqrt"), HasSubstr("'/device:EMU:0'"), HasSubstr(kCpu0),
            HasSubstr("too hard"), HasSubstr(y.node->name())));
  for (PlaceableDevice& d : options_.devices)
    d.has_kernel = [](const Node&) { return Unimplemented("nowhere"); };
  const Status s = PlaceAll();
  EXPECT_EQ(s.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(s.message()), HasSubstr("nowhere"));
  // A kernel that does not take the node's attributes.
  for (PlaceableDevice& d : options_.devices)
    d.has_kernel = [&d](const Node&) {
      return d.name.type == "CPU" ? InvalidArgument("an odd size")
                                  : Unimplemented("nowhere");
    };
  const Status odd = PlaceAll();
  EXPECT_EQ(odd.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(odd.message()), HasSubstr("an odd size"));
}

TEST_F(PlaceTest, SoftPlacementFallsBackWithinTheTask) {
  options_.soft_placement = true;
  not_on_emu_ = {"Sqrt"};
  const Output x = X();
  const Output no_kernel = On("/device:EMU:1", [&] { return ops::Sqrt(x); });
  const Output no_device =
      On("/job:ps/task:1/gpu:0", [&] { return ops::Neg(x); });
  Placed();
  EXPECT_EQ(no_kernel.node->device(), kCpu0);
  EXPECT_EQ(no_device.node->device(), kPs1);
  EXPECT_THAT(ReasonOf(no_device),
              HasSubstr("no requested device is possible"));
  // Also for a node that is then placed with its input.
  EXPECT_THAT(ReasonOf(no_kernel),
              HasSubstr("no requested device is possible"));
  On("/job:ps/task:7", [&] { return ops::Neg(x); });
  EXPECT_THAT(ErrorOfPlacement(), HasSubstr("/job:ps/task:7"));
}

TEST_F(PlaceTest, NodesFollowInputsAndConstantsFollowReaders) {
  const Output x = On("/device:EMU:1", [] { return X(); });
  const Output two = F(2);
  const Output y = ops::Mul(two, x);
  const Output z = ops::Neg(y);
  const Output shape = ops::Shape(z);
  const Output lonely = ops::Neg(F(1));
  Placed();
  for (const Output& o : {two, y, z, shape})
    EXPECT_EQ(o.node->device(), kEmu1) << o.node->name();
  EXPECT_EQ(ReasonOf(y), absl::StrCat("with its input '", x.node->name(), "'"));
  EXPECT_EQ(ReasonOf(two),
            absl::StrCat("with its reader '", y.node->name(), "'"));
  EXPECT_EQ(lonely.node->device(), kCpu0);
}

TEST_F(PlaceTest, NodeThatCannotFollowItsInputStaysInTheTask) {
  not_on_emu_ = {"Sqrt"};
  options_.default_device = *DeviceName::Parse("/job:ps");
  const Output x = On("/device:EMU:1", [] { return X(); });
  const Output y = ops::Sqrt(x);
  Placed();
  EXPECT_EQ(y.node->device(), kCpu0);
}

TEST_F(PlaceTest, FeedsFollowReadersAndFetchesFollowSources) {
  const Output x = X();
  const Output y = On("/job:worker/device:EMU:1", [&] { return ops::Neg(x); });
  const auto g = PlacedStep({y}, {x});
  EXPECT_EQ(g->num_nodes(), 3);
  for (const auto& n : g->nodes()) EXPECT_EQ(n->device(), kEmu1);
}

// A feed keeps the device constraint and the colocation of the node that it
// replaces.
TEST_F(PlaceTest, FeedKeepsConstraintsOfItsNode) {
  const Output x = On("/job:ps/task:1", [] { return X(); });
  const Output follows = ops::Neg(x);
  const auto with = [](const Output& o) {
    return AttrMap{
        {"_class", AttrValue::Strings{absl::StrCat("loc:@", o.node->name())}}};
  };
  const Output group = On("/device:EMU:1", [] { return X(); });
  AttrMap in_group = with(group);
  in_group["dtype"] = DType::kFloat;
  const Output member = Build("Placeholder", {}, in_group);
  const Output other = Build("Sqrt", {X()}, with(group));
  const Output second = Build("Sqrt", {X()}, with(member));
  const Output sum = On("/job:worker/cpu:1", [&] {
    return ops::Add(follows, ops::Add(group, member));
  });
  const std::vector<Output> fetches = {sum, other, second};
  std::map<std::string, std::string> whole;
  {
    const auto g = PlacedStep(fetches);
    for (const auto& n : g->nodes()) whole[n->name()] = n->device();
  }
  EXPECT_EQ(whole[follows.node->name()], kPs1);
  EXPECT_EQ(whole[member.node->name()], kEmu1);
  for (const std::vector<Output>& feeds :
       {std::vector<Output>{x}, {x, group}, {x, member}, {x, group, member}}) {
    SCOPED_TRACE(feeds.size());
    const auto g = PlacedStep(fetches, feeds);
    for (const Output& o : {follows, other, second, sum})
      EXPECT_EQ(g->FindNode(o.node->name())->device(), whole[o.node->name()])
          << o.node->name();
    EXPECT_EQ(g->FindNode("_arg_0")->device(), kPs1);
  }
}

TEST_F(PlaceTest, MissingDeviceOfFedNodeIsNamed) {
  const Output x = On("/job:ps/task:7", [] { return X(); });
  const auto g = Prune(graph_, {{x}, {ops::Neg(x)}, {}});
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_THAT(std::string(Place(g->get(), options_).message()),
              AllOf(HasSubstr("/job:ps/task:7"),
                    HasSubstr("'" + x.node->name() + "' (Placeholder)")));
}

TEST_F(PlaceTest, ResourceAndNodesThatPassItShareADevice) {
  const Output v = On("/job:ps/task:1", [] { return Handle(); });
  const Output p = Placeholder<bool>(PartialShape::Scalar());
  const Output far = On("/job:worker/cpu:0", [] { return X(); });
  const Output read = Cond(
      p, [&] { return ReadOf(v); }, [&] { return ReadOf(ops::Identity(v)); });
  const Output sum = ops::Add(far, read);
  Placed();
  for (const auto& n : graph_.nodes())
    if (n->op_name() == "ReadVariableOp" ||
        (n->op_name() == "Switch" && n->output_type(0) == DType::kResource)) {
      EXPECT_EQ(n->device(), kPs1) << n->Describe();
    }
  EXPECT_EQ(sum.node->device(), kCpu0);
}

TEST_F(PlaceTest, ReferenceHasOneDeviceButItsValueMayMove) {
  const Output v = On("/job:ps/task:1", [] {
    return Build("VariableV2", {},
                 {{"dtype", DType::kFloat}, {"shape", PartialShape({})}});
  });
  const Output set = Build("Assign", {v, F(1)});
  const Output value = On("/job:worker", [&] { return ops::Neg(v); });
  Placed();
  EXPECT_EQ(set.node->device(), kPs1);
  EXPECT_EQ(value.node->device(), kCpu0);
  EXPECT_THAT(ReasonOf(set), HasSubstr("shares a reference with"));
}

TEST_F(PlaceTest, ConflictErrorNamesBothNodes) {
  const Output v = On("/job:ps/task:1", [] { return Handle("weights"); });
  const int line = __LINE__ - 1;
  const Output same = ops::Identity(v);
  const Output read = On("/device:EMU:0", [&] { return ReadOf(same); });
  EXPECT_THAT(ErrorOfPlacement(),
              AllOf(HasSubstr("'weights' (VarHandleOp)"),
                    HasSubstr(read.node->name()), HasSubstr("/job:ps/task:1"),
                    HasSubstr("/device:EMU:0"), HasSubstr("share a resource")));
  (void)line;
  options_.soft_placement = true;
  // They have no task in common.
  EXPECT_THAT(ErrorOfPlacement(), HasSubstr("'weights' (VarHandleOp)"));
}

TEST_F(PlaceTest, SoftPlacementResolvesConflictWithinTask) {
  const Output v =
      On("/job:worker/task:0/device:EMU:1", [] { return Handle(); });
  const Output read = On("/job:worker/device:EMU:0", [&] { return ReadOf(v); });
  EXPECT_THAT(ErrorOfPlacement(), HasSubstr("share a resource"));
  options_.soft_placement = true;
  Placed();
  EXPECT_EQ(v.node->device(), kCpu0);
  EXPECT_EQ(read.node->device(), kCpu0);
  EXPECT_EQ(ReasonOf(v), "no requested device is possible");
  EXPECT_EQ(ReasonOf(read), "shares a resource with 'v'");
}

TEST_F(PlaceTest, MissingKernelMovesTheWholeGroup) {
  not_on_emu_ = {"ReadVariableOp"};
  const Output v = On("/job:worker", [] { return Handle(); });
  const Output read = ReadOf(v);
  options_.default_device = *DeviceName::Parse("/device:EMU:0");
  Placed();
  EXPECT_EQ(v.node->device(), kCpu0);
  graph_.SetDevice(v.node, "/device:EMU:0");
  EXPECT_THAT(ErrorOfPlacement(), AllOf(HasSubstr("'v' (VarHandleOp)"),
                                        HasSubstr(read.node->name())));
}

TEST_F(PlaceTest, ColocationGroupsHoldWithoutTheNamedNode) {
  const Output leader = On("/job:ps/task:1", [] { return F(1); });
  const auto with = [](const char* group) {
    return AttrMap{{"_class", AttrValue::Strings{group}}};
  };
  const std::string group = "loc:@" + leader.node->name();
  const Output member = Build("Neg", {X()}, with(group.c_str()));
  const Output a = On("/device:EMU:1",
                      [&] { return Build("Neg", {X()}, with("loc:@gone")); });
  const Output b = Build("Sqrt", {X()}, with("loc:@gone"));
  Placed();
  EXPECT_EQ(member.node->device(), kPs1);
  EXPECT_EQ(a.node->device(), kEmu1);
  EXPECT_EQ(b.node->device(), kEmu1);
}

// A step without the node that a group is named after: the group follows that
// node's constraint and the current or later device of its state.
TEST_F(PlaceTest, ColocationGroupsHoldInStepsWithoutTheNamedNode) {
  StateDevices state;
  options_.state = &state;
  options_.whole = &graph_;
  const auto with = [](const Output& o) {
    return AttrMap{
        {"_class", AttrValue::Strings{absl::StrCat("loc:@", o.node->name())}}};
  };
  const Output leader = On("/job:ps/task:1", [] { return F(1); });
  const Output member = Build("Neg", {X()}, with(leader));
  EXPECT_EQ(PlacedStep({member})->FindNode(member.node->name())->device(),
            kPs1);
  const Output v = On("/job:ps", [] { return Handle(); });
  const Output set = On("/job:ps/task:1", [&] { return ops::Identity(v); });
  const Output slot = Build("VarHandleOp", {},
                            {{"dtype", DType::kFloat},
                             {"shape", PartialShape({})},
                             {"_class", with(v).at("_class")}});
  PlacedStep({set});
  EXPECT_EQ(PlacedStep({slot})->FindNode(slot.node->name())->device(), kPs1);
  // The slot comes first.
  const Output w = Handle("w");
  const Output early = On("/device:EMU:1", [&] {
    return Build("VarHandleOp", {},
                 {{"dtype", DType::kFloat},
                  {"shape", PartialShape({})},
                  {"_class", with(w).at("_class")}});
  });
  PlacedStep({early});
  EXPECT_EQ(PlacedStep({w})->FindNode(w.node->name())->device(), kEmu1);
  PlacedStep({w, early});
  // Not a feed of its value.
  const Output fed =
      Build("VariableV2", {},
            {{"dtype", DType::kFloat}, {"shape", PartialShape({})}});
  PlacedStep({On("/device:EMU:1", [&] { return ops::Neg(fed); })}, {fed});
  const Output assign = On("/job:ps", [&] {
    return Build("Assign", {fed, F(1)});
  });
  PlacedStep({assign});
  // Nor where a member, or a node that shares a device with it, cannot be.
  const Output u = On("/job:ps/task:1", [] { return Handle("u"); });
  const Output alone = Build("Neg", {X()}, with(u));
  const Output other =
      On("/device:EMU:1", [&] { return Build("Neg", {X()}, with(u)); });
  EXPECT_EQ(PlacedStep({alone, other})->FindNode(alone.node->name())->device(),
            kEmu1);
  EXPECT_FALSE(state.contains("u"));
}

TEST_F(PlaceTest, VariablePlacementIgnoresReaders) {
  const Output v = Handle();
  const Output sum = On("/device:EMU:1", [&] { return ops::Neg(ReadOf(v)); });
  Placed();
  // (The read requests the accelerator too, but only as a partial name.)
  EXPECT_EQ(v.node->device(), kEmu1);
  Graph other;
  const WithGraph use(other);
  const Output w = Handle();
  const Output read = ReadOf(w);
  const Output y = On("/device:EMU:1", [&] { return ops::Neg(read); });
  ASSERT_TRUE(Place(&other, options_).ok());
  EXPECT_EQ(w.node->device(), kCpu0);
  EXPECT_EQ(y.node->device(), kEmu1);
  (void)sum;
}

TEST_F(PlaceTest, StateStaysWhereAnEarlierStepPutIt) {
  StateDevices state;
  options_.state = &state;
  const Output v = On("/job:ps", [] { return Handle(); });
  const Output random = ops::RandomUniform(IntVector({2}), DType::kFloat);
  const Output here = On("/device:EMU:1", [&] { return ops::Neg(random); });
  const Output set = On("/job:ps/task:1", [&] { return ops::Identity(v); });
  auto g = PlacedStep({set, here});
  EXPECT_EQ(g->FindNode(v.node->name())->device(), kPs1);
  EXPECT_EQ(g->FindNode(random.node->name())->device(), kEmu1);
  // A step without the nodes with that constraint.
  g = PlacedStep({ReadOf(v), random});
  EXPECT_EQ(g->FindNode(v.node->name())->device(), kPs1);
  EXPECT_EQ(g->FindNode(random.node->name())->device(), kEmu1);
  const Output wrong = On("/job:ps/task:0", [&] { return ops::Identity(v); });
  auto pruned = Prune(graph_, {{}, {wrong}, {}});
  ASSERT_TRUE(pruned.ok());
  EXPECT_THAT(std::string(Place(pruned->get(), options_).message()),
              AllOf(HasSubstr("an earlier step placed it"), HasSubstr(kPs1)));
  // The device constraint of a random op takes precedence.
  ASSERT_TRUE(state.count(random.node->name()));
  state[random.node->name()] = "/job:gone/replica:0/task:0/device:CPU:0";
  EXPECT_TRUE(Place(PlacedStep({random}).get(), options_).ok());
}

// A loop whose state is computed on another device than its first value.
TEST_F(PlaceTest, LoopVariableIsPlacedWhereItIsComputed) {
  const Output x = On("/cpu:1", [] { return ops::Neg(X()); });
  const auto [i, y] = While(
      std::tuple{Constant<int32_t>(0), x},
      [](Output i, Output) { return ops::Less(i, 10); },
      [](Output i, Output y) {
        return std::tuple{i + 1,
                          On("/device:EMU:1", [&] { return ops::Tanh(y); })};
      });
  const auto g = PlacedStep({y});
  for (const auto& n : g->nodes()) {
    if (n->op_name() == "Neg" || n->op_name() == "Placeholder") continue;
    // No part of the loop is on another device.
    EXPECT_EQ(n->device(), kEmu1) << n->Describe();
  }
}

TEST_F(PlaceTest, NextIterationFollowsItsMerge) {
  const Output y = While(
      ops::Neg(X()), [](Output y) { return ops::Less(ops::Size(y), 1); },
      [](Output y) { return ops::Tanh(y); });
  for (const auto& n : graph_.nodes()) {
    if (n->op().role == OpRole::kMerge) graph_.SetDevice(n.get(), "/cpu:1");
    if (n->op().role == OpRole::kNextIteration)
      graph_.SetDevice(n.get(), "/device:EMU:1");
  }
  const auto g = PlacedStep({y});
  for (const auto& n : g->nodes())
    if (n->op().role == OpRole::kNextIteration) {
      EXPECT_EQ(n->device(), kCpu1);
    }
}

TEST_F(PlaceTest, UnconstrainedLoopFollowsItsInputs) {
  const Output x = On("/device:EMU:1", [] { return ops::Neg(X()); });
  const auto [i, y] = While(
      std::tuple{Constant<int32_t>(0), x},
      [](Output i, Output) { return ops::Less(i, 10); },
      [](Output i, Output y) {
        return std::tuple{i + 1, ops::Tanh(y)};
      });
  const auto g = PlacedStep({y});
  for (const auto& n : g->nodes())
    EXPECT_EQ(n->device(), kEmu1) << n->Describe();
}

TEST_F(PlaceTest, TensorArrayFollowsItsOpsInLoopAndGradient) {
  const Output x = X();
  const Output w = On("/device:EMU:1", [] { return X(); });
  TensorArray array(DType::kFloat, 4);
  const auto [i, out] = While(
      std::tuple{Constant<int32_t>(0), array},
      [](Output i, TensorArray) { return ops::Less(i, 4); },
      [&](Output i, TensorArray a) {
        return std::tuple{
            i + 1,
            a.Write(i, On("/device:EMU:1", [&] { return ops::MatMul(x, w); }))};
      });
  const Output loss = ops::Sum(out.Stack(), IntVector({0, 1, 2}));
  const auto g = PlacedStep({loss, Grad(loss, w)});
  int ops = 0;
  for (const auto& n : g->nodes()) {
    if (!n->op_name().starts_with("TensorArray")) continue;
    EXPECT_EQ(n->device(), kEmu1) << n->Describe();
    ++ops;
  }
  EXPECT_GT(ops, 6);
}

// Values that a loop's gradient saves stay where they were computed, whichever
// device their users have.
TEST_F(PlaceTest, LoopGradientsFollowTheirForwardOps) {
  const Output x = X();
  const DeviceScope around("/job:worker");
  const Output y = While(
      x, [](Output y) { return ops::Less(ops::Size(y), 1); },
      [](Output y) {
        const Output a = On("/device:EMU:0", [&] { return ops::Sin(y); });
        return On("/device:EMU:1", [&] { return ops::Mul(a, ops::Exp(a)); });
      });
  const Output dx = Grad(y, x, {.colocate = true});
  const auto g = PlacedStep({y, dx}, {x});
  std::map<std::string, std::set<std::string>> arrays;  // By saved value.
  for (const auto& n : g->nodes())
    if (n->op_name().starts_with("TensorArray"))
      arrays[n->device()].insert(n->op_name());
  EXPECT_EQ(arrays.count(kEmu0), 1u);
  for (const auto& n : g->nodes())
    if (n->op_name() == "Cos") {
      EXPECT_EQ(n->device(), kEmu0);
    }
}

TEST_F(PlaceTest, HandleArgumentsOfRecursionStayWithTheirState) {
  const Output v = On("/job:ps/task:1", [] { return Handle("v"); });
  const Output w = On("/job:ps/task:0", [] { return Handle("w"); });
  const Function f = DefineFunction(
      "f", {DType::kInt32, DType::kResource, DType::kResource}, {DType::kFloat},
      [](const Function& self, const std::vector<Output>& a) {
        return Cond(
            ops::Less(a[0], 1), [&] { return ReadOf(a[1]); },
            [&] {
              return ops::Add(self({a[0] - 1, a[1], a[2]})[0], ReadOf(a[2]));
            });
      });
  const Output n = Placeholder<int32_t>(PartialShape::Scalar());
  const Output y = f({n, v, w})[0];
  const auto g = PlacedStep({y}, {n});
  std::multiset<std::string> reads;
  for (const auto& node : g->nodes())
    if (node->op_name() == "ReadVariableOp") reads.insert(node->device());
  EXPECT_EQ(reads, (std::multiset<std::string>{kPs0, kPs1}));
  std::set<std::string> calls;
  for (const auto& node : g->nodes())
    if (node->op().role == OpRole::kCall || node->op_name() == "_Function")
      calls.insert(node->device());
  EXPECT_EQ(calls.size(), 1u);
}

TEST_F(PlaceTest, CallsOfRecursiveFunctionAreColocated) {
  const Function f =
      DefineFunction("f", {DType::kFloat}, {DType::kFloat},
                     [](const Function& self, const std::vector<Output>& a) {
                       return Cond(
                           ops::Less(a[0], 1.f), [&] { return a[0]; },
                           [&] { return self({a[0] - 1.f})[0]; });
                     });
  const Output x = Placeholder<float>(PartialShape::Scalar());
  const auto call = [&](const char* device) {
    return On(device, [&] { return f({x})[0]; });
  };
  const auto g = PlacedStep(
      {call("/job:ps/task:1"), call("/job:ps/task:0"), call("/cpu:1")}, {x});
  std::multiset<std::string> calls;
  for (const auto& node : g->nodes())
    if (node->op().role == OpRole::kCall) calls.insert(node->device());
  EXPECT_EQ(calls.count(kPs1), calls.size());
  EXPECT_GE(calls.size(), 4u);
}

TEST_F(PlaceTest, RemoteCallBodyRunsOnItsTarget) {
  const Function f =
      DefineFunction("f", {DType::kFloat}, [](const std::vector<Output>& a) {
        return ops::Neg(On("/cpu:0", [&] { return ops::Exp(a[0]); }));
      });
  const auto call = [&](Output target) {
    return Build("RemoteCall", {target, X()},
                 {{"f", f.ref()}, {"Tout", AttrValue::Types{DType::kFloat}}},
                 "call");
  };
  const auto g = PlacedStep(
      {call(Constant(Tensor::Scalar<std::string>("/job:ps/task:1")))});
  for (const char* name : {"call/Neg", "call/Exp"}) {
    ASSERT_NE(g->FindNode(name), nullptr) << name;
    EXPECT_EQ(g->FindNode(name)->device(), kPs1) << name;
  }
  const Output wrong = call(Constant(Tensor::Scalar<std::string>("/ps")));
  Result<std::unique_ptr<Graph>> pruned = Prune(graph_, {{}, {wrong}, {}});
  ASSERT_TRUE(pruned.ok());
  EXPECT_THAT(
      std::string(LowerFunctional(pruned->get(), graph_).status().message()),
      AllOf(HasSubstr("'ps'"), HasSubstr("(RemoteCall)")));
}

TEST_F(PlaceTest, VariantMovesOnlyIfRequired) {
  const auto list = [](const char* device) {
    return On(device, [] {
      return Build(
          "EmptyTensorList", {IntVector({2, 2}), Constant<int32_t>(4)},
          {{"element_dtype", DType::kFloat}, {"shape_type", DType::kInt32}});
    });
  };
  const Output a = list("/device:EMU:1");
  const Output stays =
      Build("TensorListPushBack", {a, X()}, {{"element_dtype", DType::kFloat}});
  const Output moves = On("/job:ps/task:1", [&] {
    return Build("TensorListPushBack", {stays, X()},
                 {{"element_dtype", DType::kFloat}});
  });
  Placed();
  EXPECT_EQ(stays.node->device(), kEmu1);
  EXPECT_EQ(moves.node->device(), kPs1);
}

TEST_F(PlaceTest, NodesWithoutDataInputsFollowControlInputs) {
  const Output x = On("/device:EMU:1", [] { return ops::Neg(X()); });
  Node* done = nullptr;
  {
    const ControlDependencies after({x.node});
    done = BuildNode("NoOp", {});
  }
  Placed();
  EXPECT_EQ(done->device(), kEmu1);
  EXPECT_EQ(ReasonOf(Output(done)),
            absl::StrCat("after '", x.node->name(), "'"));
}

TEST_F(PlaceTest, KernelsAreLookedUpOncePerKindOfNode) {
  Output x = X();
  for (int i = 0; i < 100; ++i) x = ops::Neg(x);
  Placed();
  EXPECT_LE(asked_for_kernels_, 4);
}

TEST_F(PlaceTest, DeviceNamesMustBeComplete) {
  options_.devices.clear();
  EXPECT_THAT(ErrorOfPlacement(), HasSubstr("at least one"));
  options_.devices.push_back({*DeviceName::Parse("/cpu:0"), nullptr});
  EXPECT_THAT(ErrorOfPlacement(), HasSubstr("'/device:CPU:0'"));
  Graph empty;
  options_.devices[0].name = *DeviceName::Parse(kCpu0);
  EXPECT_TRUE(Place(&empty, options_).ok());
}

TEST_F(PlaceTest, TableHasAColumnForEachField) {
  log_ = {{"a", "MatMul", "", kCpu0, "default"},
          {"longer", "Neg", "/device:EMU:*", kEmu0, "with its input 'a'"}};
  EXPECT_EQ(FormatPlacements(log_),
            "node    op      device                                     "
            "reason\n"
            "a       MatMul  /job:worker/replica:0/task:0/device:CPU:0  "
            "default\n"
            "longer  Neg     /job:worker/replica:0/task:0/device:EMU:0  "
            "with its input 'a' (of '/device:EMU:*')\n");
  EXPECT_EQ(FormatPlacements({}), "node  op  device  reason\n");
}

// Random graphs with random constraints: every placed node is on a requested
// device and has a kernel, groups share a device, and placement is
// deterministic.
TEST_F(PlaceTest, RandomConstraintsAreSatisfied) {
  const char* asks[] = {"",        "",        "/device:EMU:1",  "/cpu",
                        "/job:ps", "/task:0", "/job:ps/task:1", "/job:worker"};
  not_on_emu_ = {"Sqrt"};
  int placed = 0;
  for (uint32_t seed = 1; seed <= (kAddressSanitized ? 40 : 200); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](size_t n) {
      return std::uniform_int_distribution<size_t>(0, n - 1)(random);
    };
    Graph g;
    const WithGraph use(g);
    std::vector<Output> values = {X()};
    std::vector<Output> handles = {Handle()};
    std::map<const Node*, std::string> asked;
    for (int i = 0; i < 30; ++i) {
      const char* ask = draw(3) == 0 ? asks[draw(std::size(asks))] : "";
      const DeviceScope scope(ask);
      const Output x = values[draw(values.size())];
      const Output h = handles[draw(handles.size())];
      switch (draw(7)) {
        case 0:
          values.push_back(ops::Sqrt(x));
          break;
        case 1:
          handles.push_back(Handle());
          break;
        case 2:
          values.push_back(ReadOf(h));
          break;
        case 3:
          handles.push_back(ops::Identity(h));
          break;
        case 4:
          values.push_back(F(1));
          break;
        case 5:
          values.push_back(While(
              x, [](Output v) { return ops::Less(ops::Size(v), 1); },
              [&](Output v) { return ops::Add(v, ReadOf(h)); }));
          break;
        default:
          values.push_back(ops::Add(x, values[draw(values.size())]));
      }
    }
    ASSERT_TRUE(g.status().ok()) << g.status();
    for (const auto& n : g.nodes()) asked[n.get()] = n->device();
    options_.soft_placement = false;
    const bool ok = Place(&g, options_).ok();
    options_.soft_placement = !ok;
    if (!ok && !Place(&g, options_).ok()) continue;
    placed += ok;
    Check(g);
    std::map<const Node*, std::string> first;
    for (const auto& n : g.nodes()) {
      first[n.get()] = n->device();
      const DeviceName device = *DeviceName::Parse(n->device());
      const DeviceName wish = *DeviceName::Parse(asked[n.get()]);
      EXPECT_TRUE((ok ? wish : wish.Task()).Matches(device))
          << n->Describe() << " asked for " << asked[n.get()] << ", got "
          << n->device();
      EXPECT_FALSE(device.type == "EMU" && n->op_name() == "Sqrt");
      g.SetDevice(n.get(), asked[n.get()]);
    }
    ASSERT_TRUE(Place(&g, options_).ok());
    for (const auto& n : g.nodes()) EXPECT_EQ(n->device(), first[n.get()]);
  }
  EXPECT_GT(placed, kAddressSanitized ? 4 : 20);
}

}  // namespace
}  // namespace sluice
