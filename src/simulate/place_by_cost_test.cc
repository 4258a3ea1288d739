#include "simulate/place_by_cost.h"

#include <gtest/gtest.h>

#include "sluice/sluice.h"

namespace sluice {
namespace {

// Two chains of products that only meet at the end.
struct TwoChains {
  TwoChains() {
    const WithGraph use(graph);
    x = Placeholder(DType::kFloat, {100, 100});
    Output a = x, b = x;
    for (int i = 0; i < 4; ++i) {
      a = ops::MatMul(a, x);
      b = ops::MatMul(x, b);
    }
    signature.feeds = {x};
    signature.fetches = {a + b};
  }
  Graph graph;
  Output x;
  StepSignature signature;
};

ClusterModel TwoMachines() {
  ClusterModel c;
  DeviceModel cpu;
  cpu.flops = 2e9;  // A product in 1 ms.
  c.AddTasks("worker", 2, -1, {.name = "", .cores = 1}, cpu);
  return c;
}

TEST(PlaceByCost, SplitsWhatIsIndependent) {
  TwoChains t;
  const ClusterModel c = TwoMachines();
  const auto placed = PlaceByCost(&t.graph, t.signature, c);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_LT(placed->step_ns, 0.6 * placed->one_device_ns);
  EXPECT_GE(placed->step_ns, placed->bound_ns());
  EXPECT_GE(placed->path_bound_ns, 4e6);
  // The graph has the devices that the prediction is for.
  const auto p = SimulateStep(t.graph, t.signature, c);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->step_ns, placed->step_ns);
}

TEST(PlaceByCost, KeepsTogetherWhatCommunicatesMuch) {
  TwoChains t;
  ClusterModel c = TwoMachines();
  for (MachineModel& m : c.machines) m.latency_ns = 1e9;
  const auto placed = PlaceByCost(&t.graph, t.signature, c);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_LE(placed->step_ns, placed->one_device_ns);
  EXPECT_LT(placed->step_ns, 1e9);
}

TEST(PlaceByCost, ObeysDevicesThatAreGivenAndMemory) {
  TwoChains t;
  Node* const product = t.graph.FindNode("MatMul");
  ASSERT_NE(product, nullptr);
  t.graph.SetDevice(product, "/job:worker/task:1");
  ClusterModel c = TwoMachines();
  ASSERT_TRUE(PlaceByCost(&t.graph, t.signature, c).ok());
  EXPECT_EQ(product->device(), "/job:worker/task:1");

  TwoChains small;
  for (DeviceModel& d : c.devices) d.memory_bytes = 5 * 40'000;
  const auto placed = PlaceByCost(&small.graph, small.signature, c);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->one_device_ns, -1);
  int on[2] = {};
  for (const auto& n : small.graph.nodes())
    if (n->op().role == OpRole::kCompute)
      ++on[n->device().find("task:1") == std::string::npos ? 0 : 1];
  EXPECT_LE(on[0], 5);
  EXPECT_LE(on[1], 5);

  TwoChains none;
  for (DeviceModel& d : c.devices) d.memory_bytes = 1000;
  EXPECT_EQ(PlaceByCost(&none.graph, none.signature, c).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(none.graph.nodes().back()->device(), "");
}

TEST(PlaceByCost, KeepsAVariableWithItsUpdates) {
  Graph graph;
  StepSignature signature;
  {
    const WithGraph use(graph);
    std::vector<Node*> all;
    for (int i = 0; i < 4; ++i) {
      const Output v =
          Build("VariableV2", {},
                {{"shape", PartialShape({100, 100})}, {"dtype", DType::kFloat}},
                absl::StrCat("v", i));
      all.push_back(
          Build("AssignSub", {v, ops::MatMul(Build("Identity", {v}), v)}).node);
    }
    signature.targets = all;
  }
  const auto placed = PlaceByCost(&graph, signature, TwoMachines());
  ASSERT_TRUE(placed.ok()) << placed.status();
  for (Node* update : signature.targets)
    EXPECT_EQ(update->device(), update->input(0).node->device());
  EXPECT_LT(placed->step_ns, 0.6 * placed->one_device_ns);
}

TEST(PlaceByCost, WrongArgumentsAreErrors) {
  TwoChains t;
  const ClusterModel c = TwoMachines();
  EXPECT_EQ(PlaceByCost(nullptr, t.signature, c).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(PlaceByCost(&t.graph, {}, c).status().code(),
            StatusCode::kInvalidArgument);
  PlaceByCostOptions options;
  options.devices = {5};
  EXPECT_EQ(PlaceByCost(&t.graph, t.signature, c, options).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
