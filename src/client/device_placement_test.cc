// Strategies that spread state over tasks.
#include "client/device_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/initializers.h"
#include "client/nn/optimizers.h"
#include "client/operators.h"
#include "client/variables.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DevicePlacementTest : public ::testing::Test {
 protected:
  DevicePlacementTest() : use_(graph_) {}
  static std::string Variable(std::initializer_list<int64_t> shape = {},
                              bool reference = false) {
    const Var v(Zeros(shape), "v", {.reference = reference});
    return v.valid() ? v.handle().node->device() : "none";
  }

  Graph graph_;
  WithGraph use_;
};

TEST_F(DevicePlacementTest, VariablesRotateOverPsTasksAndOpsGoToWorker) {
  const DeviceFunctionScope scope(ReplicaDeviceSetter(
      {.ps_tasks = 2, .worker_device = "/job:worker/task:3"}));
  EXPECT_EQ(Variable(), "/job:ps/task:0");
  EXPECT_EQ(Variable({5}, true), "/job:ps/task:1");
  EXPECT_EQ(Variable({}), "/job:ps/task:0");
  const Output x = Placeholder<float>(PartialShape({2}));
  EXPECT_EQ(x.node->device(), "/job:worker/task:3");
  EXPECT_EQ(ops::Neg(x).node->device(), "/job:worker/task:3");
  const DeviceScope gpu("/gpu:1");
  EXPECT_EQ(ops::Neg(x).node->device(), "/job:worker/task:3/device:GPU:1");
  EXPECT_EQ(Variable(), "/job:ps/task:1/device:GPU:1");
}

TEST_F(DevicePlacementTest, GroupsAreWhereTheirNodesAre) {
  const auto no_ops = [](const std::string& device, int count) {
    const DeviceScope there(device);
    std::vector<Node*> nodes;
    for (int i = 0; i < count; ++i) nodes.push_back(ops::NoOp());
    return nodes;
  };
  const std::vector<Node*> first = no_ops("/job:ps/task:0", 2);
  const std::vector<Node*> second = no_ops("/job:ps/task:1", 2);
  const std::vector<Node*> third = no_ops("/job:ps/task:2", 1);
  const DeviceScope worker("/job:worker/task:0/device:CPU:1");
  const Node* const one = Group(first, "one");
  EXPECT_EQ(one->device(), "/job:ps/task:0");
  EXPECT_THAT(one->control_inputs(), ElementsAre(first[0], first[1]));
  std::vector<Node*> all = first;
  all.insert(all.end(), third.begin(), third.end());
  all.insert(all.end(), second.begin(), second.end());
  const Node* const several = Group(all, "several");
  EXPECT_EQ(several->name(), "several");
  EXPECT_EQ(several->device(), "/job:worker/task:0/device:CPU:1");
  std::vector<std::string> devices;
  std::vector<const Node*> grouped;
  for (const Node* n : several->control_inputs()) {
    devices.push_back(n->device());
    if (n == third[0]) grouped.push_back(n);
    for (const Node* c : n->control_inputs()) grouped.push_back(c);
  }
  EXPECT_THAT(devices, ElementsAre("/job:ps/task:0", "/job:ps/task:1",
                                   "/job:ps/task:2"));
  EXPECT_THAT(grouped,
              ElementsAre(first[0], first[1], second[0], second[1], third[0]));
  EXPECT_EQ(Group({}, "none")->device(), "/job:worker/task:0/device:CPU:1");
}

TEST_F(DevicePlacementTest, InnerScopesTakePrecedence) {
  const DeviceFunctionScope scope(
      ReplicaDeviceSetter({.ps_tasks = 2, .ps_device = "/job:ps/cpu:0"}));
  {
    const DeviceScope here("/job:worker/task:1");
    EXPECT_EQ(Variable(), "/job:worker/task:1/device:CPU:0");
  }
  {
    const DeviceScope other_job("/job:cache");
    EXPECT_EQ(Variable(), "/job:cache/device:CPU:0");
  }
  {
    const DeviceScope same_job("/job:ps/cpu:1");
    EXPECT_EQ(Variable(), "/job:ps/task:0/device:CPU:1");
    const DeviceScope task("/task:7");
    EXPECT_EQ(Variable(), "/job:ps/task:7/device:CPU:1");
  }
  EXPECT_EQ(Variable(), "/job:ps/task:1/device:CPU:0");
}

TEST_F(DevicePlacementTest, NoPsTasksMeansNoPlacement) {
  const DeviceFunctionScope scope(ReplicaDeviceSetter({}));
  EXPECT_EQ(Variable(), "");
  const DeviceScope inner("/cpu:0");
  EXPECT_EQ(Variable(), "/device:CPU:0");
}

TEST_F(DevicePlacementTest, LeastLoadedTaskIsChosen) {
  const DeviceFunctionScope scope(
      ReplicaDeviceSetter({.ps_tasks = 3, .strategy = LeastLoaded(3)}));
  std::vector<std::string> tasks;
  for (const int64_t size : {100, 30, 50, 25, 40, 1, 0, 7})
    tasks.push_back(Variable({size}));
  // Loads: 100 | 30 | 50 -> 55 | 50 -> 55 | 90 -> 56 | 90 -> ...
  EXPECT_THAT(tasks,
              ElementsAre("/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:2",
                          "/job:ps/task:1", "/job:ps/task:2", "/job:ps/task:1",
                          "/job:ps/task:1", "/job:ps/task:1"));
}

TEST_F(DevicePlacementTest, LoadIsTheVariableSizeInBytes) {
  const auto load = [](DType type, const PartialShape& shape) {
    return BytesOfState(
        *BuildNode("VarHandleOp", {}, {{"dtype", type}, {"shape", shape}}));
  };
  EXPECT_EQ(load(DType::kFloat, PartialShape({3, 4})), 48);
  EXPECT_EQ(load(DType::kDouble, PartialShape::Scalar()), 8);
  EXPECT_EQ(load(DType::kFloat, PartialShape({-1, 4})), 16);
  EXPECT_EQ(load(DType::kInt8, PartialShape()), 1);
  EXPECT_EQ(load(DType::kString, PartialShape({2})), 16);
  EXPECT_EQ(load(DType::kFloat, PartialShape({0, 4})), 0);
  // Beyond the range of integers.
  EXPECT_GT(load(DType::kFloat, PartialShape({1 << 30, 1 << 30, 1 << 30})),
            4e27);
  EXPECT_EQ(BytesOfState(*BuildNode("NoOp", {}, {})), 1);
}

TEST_F(DevicePlacementTest, SlotsAndUpdatesAreColocatedWithVariables) {
  const DeviceFunctionScope scope(ReplicaDeviceSetter({.ps_tasks = 2}));
  const Var a(Zeros({2}), "a"), b(Zeros({2}), "b");
  const Output loss = ops::Sum(ops::Square(a - 1.0f) + b * 2.0f, 0);
  AdagradOptimizer optimizer(0.1f);
  ASSERT_NE(optimizer.Minimize(loss), nullptr);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  int slots = 0, updates = 0;
  for (const auto& n : graph_.nodes()) {
    if (n->name().find("Adagrad") == std::string::npos) continue;
    const bool of_b = n->name().find("b/") != std::string::npos ||
                      n->name().find("update_b") != std::string::npos;
    if (n->op_name() == "VarHandleOp" ||
        n->op_name() == "ResourceApplyAdagrad") {
      ++(n->op_name() == "VarHandleOp" ? slots : updates);
      EXPECT_EQ(n->device(), of_b ? "/job:ps/task:1" : "/job:ps/task:0")
          << n->name();
    }
  }
  EXPECT_EQ(slots, 2);
  EXPECT_EQ(updates, 2);
}

TEST_F(DevicePlacementTest, ReadsAreColocatedWithVariables) {
  Var ps, anywhere;
  {
    const DeviceScope scope("/job:ps/task:1");
    ps = Var(Zeros({2}), "ps");
  }
  anywhere = Var(Zeros({2}), "anywhere");
  const DeviceScope worker("/job:worker/gpu:0");
  const Output sum = ps + anywhere;
  EXPECT_EQ(sum.node->device(), "/job:worker/device:GPU:0");
  EXPECT_EQ(sum.node->input(0).node->device(), "/job:ps/task:1");
  EXPECT_EQ(sum.node->input(1).node->device(), "");
  const ColocateWith with(sum.node);
  EXPECT_EQ(ps.Read().node->device(), "/job:ps/task:1");
  EXPECT_EQ(ps.Read().node->FindAttr("_class"), nullptr);
}

TEST_F(DevicePlacementTest, InvalidStrategyOrNameIsAnErrorOfTheNode) {
  {
    const DeviceFunctionScope scope(ReplicaDeviceSetter(
        {.ps_tasks = 2, .strategy = [](const Node&) { return -3; }}));
    EXPECT_EQ(Variable(), "none");
    EXPECT_THAT(std::string(graph_.status().message()), HasSubstr("'task:-3'"));
  }
  graph_.ClearErrors();
  const DeviceFunctionScope scope(
      ReplicaDeviceSetter({.ps_tasks = 2, .worker_device = "/worker"}));
  EXPECT_FALSE(ops::Neg(Operand(1.0f)).valid());
  EXPECT_THAT(std::string(graph_.status().message()), HasSubstr("'worker'"));
}

}  // namespace
}  // namespace sluice
