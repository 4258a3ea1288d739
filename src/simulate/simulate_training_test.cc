#include "simulate/simulate_training.h"

#include <gtest/gtest.h>

#include "sluice/sluice.h"

namespace sluice {
namespace {

// Workers with machines of their own that each multiply for 1 ms and then add
// to a variable of one server; nothing else takes time.
struct SimulatedTraining {
  explicit SimulatedTraining(int workers) {
    cluster.costs = {.node_ns = 0,
                     .kernel_ns = 0,
                     .token_ns = 0,
                     .send_ns = 0,
                     .receive_ns = 0,
                     .hop_ns = 0,
                     .step_ns = 0,
                     .task_ns = 0,
                     .copy_bytes_per_s = 1e30};
    const MachineModel machine{
        .name = "", .cores = 1, .bytes_per_s = 1e30, .latency_ns = 0};
    DeviceModel cpu;
    cpu.flops = 2e9;
    cpu.bytes_per_s = 1e30;
    cluster.AddTasks("ps", 1, -1, machine, cpu);
    cluster.AddTasks("worker", workers, -1, machine, cpu);
    StepSignature step, update;
    {
      const WithGraph use(graph);
      Output v;
      {
        const DeviceScope there("/job:ps/task:0");
        v = Build("VariableV2", {},
                  {{"shape", PartialShape::Scalar()}, {"dtype", DType::kFloat}},
                  "v");
        update.targets = {Build("AssignSub", {v, Constant(1.0f)}).node};
      }
      Output sum;
      {
        const DeviceScope here("/job:worker/task:0");
        const Output x = Placeholder(DType::kFloat, {100, 100});
        step.feeds = {x};
        sum = ops::MatMul(x, x);
      }
      const DeviceScope there("/job:ps/task:0");
      const ControlDependencies after({sum.node});
      step.targets = {Build("AssignSub", {v, Constant(2.0f)}).node};
    }
    auto made = CompileForSimulation(graph, step, cluster, {}, {}, 1);
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) model.step = *made;
    made = CompileForSimulation(graph, update, cluster, {}, {}, 1);
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) sync = *made;
    for (int w = 0; w < workers; ++w) model.worker_tasks.push_back(1 + w);
    model.steps = 20;
  }
  Graph graph;
  ClusterModel cluster;
  TrainingModel model;
  std::shared_ptr<const StepProgram> sync;
};

TEST(SimulateTraining, WorkersDoNotDisturbEachOther) {
  SimulatedTraining t(8);
  const auto p = SimulateTraining(t.model, t.cluster);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->step_ns.size(), 8u * 20);
  EXPECT_NEAR(p->total_ns, 20 * 1e6, 1000);
  EXPECT_NEAR(p->core_use[1], 1, 0.01);
  EXPECT_EQ(p->dropped, 0);
}

TEST(SimulateTraining, SynchronousWorkersWaitForTheSlowest) {
  SimulatedTraining t(8);
  t.model.update = t.sync;
  auto p = SimulateTraining(t.model, t.cluster);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->step_ns.size(), 20u);
  EXPECT_NEAR(p->MedianStepNs(), 1e6, 100);
  t.model.stragglers = {.spread = 0, .probability = 0.3, .mean = 2};
  p = SimulateTraining(t.model, t.cluster);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_GT(p->MedianStepNs(), 2e6);
}

TEST(SimulateTraining, BackupWorkersHideStragglers) {
  SimulatedTraining all(8), some(12);
  for (SimulatedTraining* t : {&all, &some}) {
    t->model.update = t->sync;
    t->model.to_aggregate = 8;
    t->model.steps = 100;
    t->model.stragglers = {.spread = 0, .probability = 0.05, .mean = 5};
  }
  const auto a = SimulateTraining(all.model, all.cluster);
  const auto b = SimulateTraining(some.model, some.cluster);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  EXPECT_EQ(a->dropped, 0);
  EXPECT_GT(b->dropped, 0);
  EXPECT_LT(b->StepNs(0.9), 0.7 * a->StepNs(0.9));
}

TEST(SimulateTraining, WrongModelsAreErrors) {
  SimulatedTraining t(2);
  t.model.to_aggregate = 3;
  EXPECT_EQ(SimulateTraining(t.model, t.cluster).status().code(),
            StatusCode::kInvalidArgument);
  t.model.to_aggregate = 0;
  t.model.worker_tasks.push_back(99);
  EXPECT_EQ(SimulateTraining(t.model, t.cluster).status().code(),
            StatusCode::kInvalidArgument);
  t.model.step = nullptr;
  EXPECT_EQ(SimulateTraining(t.model, t.cluster).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
