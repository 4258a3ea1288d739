#include "simulate/simulator.h"

#include <gtest/gtest.h>

#include "simulate/simulate_step.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

// A cluster in which nothing takes time, except what a test sets.
ClusterModel FreeCluster(int tasks, int cores, bool one_machine) {
  ClusterModel c;
  c.costs = {};
  for (double* cost : {&c.costs.node_ns, &c.costs.kernel_ns, &c.costs.token_ns,
                       &c.costs.send_ns, &c.costs.receive_ns, &c.costs.hop_ns,
                       &c.costs.step_ns, &c.costs.task_ns})
    *cost = 0;
  c.costs.copy_bytes_per_s = 1e30;
  DeviceModel cpu;
  cpu.flops = cpu.bytes_per_s = 1e30;
  MachineModel machine{
      .name = "shared", .cores = cores, .bytes_per_s = 1e30, .latency_ns = 0};
  if (one_machine) c.machines.push_back(machine);
  c.AddTasks("worker", tasks, one_machine ? 0 : -1, machine, cpu);
  return c;
}

StepSignature Signature(std::vector<Output> feeds, std::vector<Output> fetches,
                        std::vector<Node*> targets = {}) {
  StepSignature s;
  s.feeds = std::move(feeds);
  s.fetches = std::move(fetches);
  s.targets = std::move(targets);
  return s;
}

std::string TaskName(int i) { return absl::StrCat("/job:worker/task:", i); }

// Passes a value to the second task and back in each iteration.
struct PingPongLoop {
  explicit PingPongLoop(int n) {
    const WithGraph use(graph);
    const DeviceScope first(TaskName(0));
    results = While(
        std::vector<Output>{Constant(int32_t{0}), Constant(0.0f)},
        [n](const std::vector<Output>& v) { return v[0] < n; },
        [](const std::vector<Output>& v) {
          Output there;
          {
            const DeviceScope second(TaskName(1));
            there = v[1] + 1.0f;
          }
          return std::vector<Output>{v[0] + 1, there + 1.0f};
        },
        {});
  }
  Graph graph;
  std::vector<Output> results;
};

TEST(Simulator, LoopOverTwoTasksTakesTwoHopsPerIteration) {
  ClusterModel c = FreeCluster(2, 1, /*one_machine=*/true);
  c.costs.hop_ns = 1000;
  const PingPongLoop loop(20);
  const auto p = SimulateStep(loop.graph, Signature({}, {loop.results[1]}), c);
  ASSERT_TRUE(p.ok()) << p.status();
  // Then the false predicate goes there, and the end of the step comes back.
  EXPECT_NEAR(p->step_ns, 1000 * (2 * 20 + 2), 5);
  EXPECT_NEAR(p->path.transfer, p->step_ns, 5);
  EXPECT_EQ(p->bottleneck, "transfer");
  EXPECT_EQ(p->partitions, 2);
}

TEST(Simulator, SendsTheTokensThatASessionSends) {
  const PingPongLoop loop(7);
  ClusterModel c = FreeCluster(2, 1, true);
  const auto program =
      CompileForSimulation(loop.graph, Signature({}, {loop.results[1]}), c);
  ASSERT_TRUE(program.ok()) << program.status();
  Simulator simulator(c);
  bool ended = false;
  Simulator::Start start;
  start.program = *program;
  start.done = [&](double) { ended = true; };
  simulator.StartStep(0, std::move(start));
  ASSERT_TRUE(simulator.Run().ok());
  EXPECT_TRUE(ended);

  // The same loop over two devices of a session.
  Graph real;
  std::vector<Output> results;
  {
    const WithGraph use(real);
    const DeviceScope first("/device:CPU:0");
    results = While(
        std::vector<Output>{Constant(int32_t{0}), Constant(0.0f)},
        [](const std::vector<Output>& v) { return v[0] < 7; },
        [](const std::vector<Output>& v) {
          Output there;
          {
            const DeviceScope second("/device:CPU:1");
            there = v[1] + 1.0f;
          }
          return std::vector<Output>{v[0] + 1, there + 1.0f};
        },
        {});
  }
  SessionOptions options;
  options.devices = CpuDevices(2);
  Session session(real, options);
  RunMetadata metadata;
  const auto out =
      session.Run({}, {results[1]}, {}, {.trace = true}, &metadata);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), 14.0f);
  int64_t sends = 0;
  for (const TraceEvent& e : metadata.events)
    sends += e.kind == TraceEvent::kSend;
  EXPECT_GT(sends, 14);
  EXPECT_EQ(simulator.transfers(), sends);
}

TEST(Simulator, TasksOfOneMachineShareItsCores) {
  Graph graph;
  std::vector<Node*> all;
  {
    const WithGraph use(graph);
    for (int i = 0; i < 4; ++i) {
      const DeviceScope there(TaskName(i));
      const Output x = Placeholder(DType::kFloat, {100, 100});
      all.push_back(ops::MatMul(x, x).node);
    }
  }
  StepSignature step;
  step.targets = all;
  for (const auto& n : graph.nodes())
    if (n->kind() == OpKind::kPlaceholder)
      step.feeds.push_back(Output(n.get()));
  const auto time = [&](ClusterModel c) {
    for (DeviceModel& d : c.devices) d.flops = 2e9;  // A product in 1 ms.
    const auto p = SimulateStep(graph, step, c);
    EXPECT_TRUE(p.ok()) << p.status();
    return p.ok() ? p->step_ns : 0;
  };
  EXPECT_NEAR(time(FreeCluster(4, 1, false)), 1e6, 10);
  EXPECT_NEAR(time(FreeCluster(4, 4, true)), 1e6, 10);
  EXPECT_NEAR(time(FreeCluster(4, 2, true)), 2e6, 10);
  EXPECT_NEAR(time(FreeCluster(4, 1, true)), 4e6, 10);
}

TEST(Simulator, LargeValuesWaitForTheNetworkOfTheirSender) {
  Graph graph;
  std::vector<Node*> all;
  Output x;
  {
    const WithGraph use(graph);
    {
      const DeviceScope there(TaskName(0));
      x = ops::Neg(Placeholder(DType::kFloat, {1000, 1000}));
    }
    for (int i = 1; i < 5; ++i) {
      const DeviceScope there(TaskName(i));
      all.push_back(ops::Neg(x).node);
    }
  }
  ClusterModel c = FreeCluster(5, 1, false);
  for (MachineModel& m : c.machines) m.bytes_per_s = 1e9;
  const auto p = SimulateStep(graph, Signature({x.node->input(0)}, {}, all), c);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_NEAR(p->step_ns, 4 * 4e6, 2000);  // Four of 4 MB at 1 GB/s.
  EXPECT_NEAR(p->network_use[0], 1, 0.01);
}

TEST(Simulator, DeviceRunsOneKernelAtATime) {
  ClusterModel c = FreeCluster(1, 4, true);
  DeviceModel gpu = c.devices[0];
  gpu.name.type = "GPU";
  gpu.flops = 2e9;
  c.devices.push_back(gpu);
  Graph graph;
  std::vector<Node*> all;
  Output x;
  {
    const WithGraph use(graph);
    const DeviceScope there("/device:GPU:0");
    x = Placeholder(DType::kFloat, {100, 100});
    for (int i = 0; i < 3; ++i)
      all.push_back(ops::MatMul(x, x + static_cast<float>(i)).node);
  }
  const auto p = SimulateStep(graph, Signature({x}, {}, all), c);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_NEAR(p->device_use[1], 1, 0.05);
  EXPECT_GE(p->step_ns, 3e6);
}

TEST(Simulator, UnknownPredicateGetsTheGivenIterations) {
  Graph graph;
  std::vector<Output> results;
  Output limit;
  {
    const WithGraph use(graph);
    limit = Placeholder(DType::kFloat, {});
    results = While(
        std::vector<Output>{Constant(0.0f)},
        [&](const std::vector<Output>& v) { return v[0] < limit; },
        [](const std::vector<Output>& v) {
          return std::vector<Output>{v[0] + 1.0f};
        },
        {});
  }
  const auto nodes = [&](int64_t iterations) -> int64_t {
    SimulateOptions options;
    options.unknown.iterations = iterations;
    const auto p = SimulateStep(graph, Signature({limit}, {results[0]}),
                                FreeCluster(1, 1, true), options);
    EXPECT_TRUE(p.ok()) << p.status();
    return p.ok() ? p->events : 0;
  };
  EXPECT_EQ(nodes(30) - nodes(20), nodes(20) - nodes(10));
  EXPECT_GT(nodes(20), nodes(10));
}

TEST(OpWork, CountsOperationsAndBytes) {
  Graph graph;
  const WithGraph use(graph);
  const Output a = Placeholder(DType::kFloat, {10, 20});
  const Output b = Placeholder(DType::kFloat, {30, 20});
  OpWork work = WorkOf(*ops::MatMul(a, b, {.transpose_b = true}).node, {});
  EXPECT_DOUBLE_EQ(work.flops, 2 * 10 * 20 * 30);
  EXPECT_DOUBLE_EQ(work.bytes, 4 * (10 * 20 + 30 * 20 + 10 * 30));
  const Output table =
      Build("VariableV2", {},
            {{"shape", PartialShape({1000, 20})}, {"dtype", DType::kFloat}});
  EXPECT_EQ(WorkOf(*table.node, {}).bytes, 0);
  EXPECT_EQ(WorkOf(*ops::GatherV2(table, IntVector({1, 2}), 0).node, {}).bytes,
            2 * 4 * 2 * 20);
  work = WorkOf(*Build("ScatterSub", {table, IntVector({1, 2}),
                                      ops::Fill(IntVector({2, 20}), 1.0f)})
                     .node,
                {});
  EXPECT_EQ(work.bytes, 2 * (4 * 2 + 4 * 2 * 20));
  EXPECT_TRUE(work.shapes_known);
  EXPECT_FALSE(WorkOf(*ops::Neg(Placeholder(DType::kFloat, {-1})).node, {})
                   .shapes_known);
  const MeasuredCosts measured = {{"known", 5.0}};
  EXPECT_EQ(WorkOf(*ops::Neg(a).node, measured).measured_ns, 0);
}

TEST(Simulator, StopsAtTheGivenNumberOfEvents) {
  const PingPongLoop loop(1000);
  const ClusterModel c = FreeCluster(2, 1, true);
  const auto program =
      CompileForSimulation(loop.graph, Signature({}, {loop.results[1]}), c);
  ASSERT_TRUE(program.ok()) << program.status();
  Simulator simulator(c, {.max_events = 100});
  Simulator::Start start;
  start.program = *program;
  simulator.StartStep(0, std::move(start));
  EXPECT_EQ(simulator.Run().code(), StatusCode::kResourceExhausted);
}

TEST(Simulator, MalformedClustersAreErrors) {
  const ClusterModel good = FreeCluster(2, 1, true);
  EXPECT_TRUE(good.Check().ok()) << good.Check();
  const auto refused = [&](const std::function<void(ClusterModel&)>& change,
                           const std::string& what) {
    ClusterModel c = good;
    change(c);
    const Status s = c.Check();
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << what;
    EXPECT_NE(s.message().find(what), std::string::npos) << s;
  };
  refused([](ClusterModel& c) { c.machines[0].cores = 0; }, "cores");
  refused([](ClusterModel& c) { c.tasks[1].machine = 7; }, "machines");
  refused([](ClusterModel& c) { c.tasks[1].task = 0; }, "twice");
  refused([](ClusterModel& c) { c.devices[0].flops = -1; }, "flops");
  refused([](ClusterModel& c) { c.devices[1] = c.devices[0]; }, "twice");
  refused([](ClusterModel& c) { c.devices[1].task = 0; }, "of its task");
  refused([](ClusterModel& c) { c.devices.clear(); }, "at least one device");
  refused([](ClusterModel& c) { c.costs.hop_ns = -1; }, "hop_ns");
}

}  // namespace
}  // namespace sluice
