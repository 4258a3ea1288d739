// Figures 7, 8 and 9 of OSDI'16 and Figure 11 of EuroSys'18 as the simulator
// predicts them (docs/design/048-simulator-and-placement.md): real graphs, the
// real partitioner, modelled machines. Each figure names its assumptions.
#include "bench.h"
#include "device_loops.h"
#include "simulate/simulate_step.h"
#include "simulate/simulate_training.h"
#include "sluice/sluice.h"

namespace sluice::bench {
namespace {

// Parameter servers and workers, each on a machine with a 16 Gb/s network, as
// the paper's shared cluster might offer it.
ClusterModel Datacenter(int ps, int workers, double worker_flops) {
  ClusterModel c;
  const MachineModel machine{
      .name = "", .cores = 8, .bytes_per_s = 2e9, .latency_ns = 30'000};
  c.AddTasks("ps", ps, -1, machine);
  DeviceModel cpu;
  cpu.flops = worker_flops;
  c.AddTasks("worker", workers, -1, machine, cpu);
  return c;
}

Output VariableAt(int ps, std::vector<int64_t> dims, const std::string& name) {
  const DeviceScope there(absl::StrCat("/job:ps/task:", ps));
  return Build("VariableV2", {},
               {{"shape", PartialShape(std::span<const int64_t>(dims))},
                {"dtype", DType::kFloat}},
               name);
}

Output Subtract(int ps, Output variable, Output delta) {
  const DeviceScope there(absl::StrCat("/job:ps/task:", ps));
  return Build("AssignSub", {variable, delta});
}

// What a program of this many servers and workers is compiled with.
struct Training {
  Graph graph;
  std::vector<Node*> step, update;
  std::vector<Output> feeds;  // Values that the worker has.
  ClusterModel cluster;
  TrainingModel model;

  Output Given(const PartialShape& shape) {
    feeds.push_back(Placeholder(DType::kFloat, shape));
    return feeds.back();
  }
  // An update of synchronous training increments the global step.
  void AddUpdate() {
    const WithGraph use(graph);
    const Output count = VariableAt(0, {}, "global_step");
    update.push_back(Subtract(0, count, Constant(-1.0f)).node);
  }
  Result<TrainingPrediction> Predict(int ps, int workers, bool sync) {
    SLUICE_RETURN_IF_ERROR(graph.status());
    const auto compile = [&](const std::vector<Node*>& targets) {
      StepSignature signature;
      signature.targets = targets;
      signature.feeds = feeds;
      return CompileForSimulation(graph, signature, cluster, {}, {}, ps);
    };
    SLUICE_ASSIGN_OR_RETURN(model.step, compile(step));
    if (sync) {
      AddUpdate();
      SLUICE_ASSIGN_OR_RETURN(model.update, compile(update));
    }
    for (int w = 0; w < workers; ++w) model.worker_tasks.push_back(ps + w);
    return SimulateTraining(model, cluster);
  }
};

// ---- Figure 7: null steps of synchronous workers, 16 servers ----------------

enum class Model7 { kScalar, kSparse, kDense };

Result<double> Figure7Ms(Model7 kind, int64_t bytes, int workers) {
  constexpr int kServers = 16;
  constexpr int64_t kRow = 1000;
  Training t;
  t.cluster = Datacenter(kServers, workers, 5e10);
  t.model.steps = workers < 1000 ? 10 : 3;
  {
    const WithGraph use(t.graph);
    for (int p = 0; p < kServers; ++p) {
      const int64_t rows = bytes / kServers / 4 / kRow;
      const Output v = kind == Model7::kScalar
                           ? VariableAt(p, {}, absl::StrCat("v", p))
                           : VariableAt(p, {rows, kRow}, absl::StrCat("v", p));
      Output read = v;
      if (kind == Model7::kSparse) {  // 32 rows in total.
        const DeviceScope there(absl::StrCat("/job:ps/task:", p));
        read = ops::GatherV2(v, IntVector({0, 1}), 0);
      }
      Output result;
      {
        const DeviceScope here("/job:worker/task:0");
        const Output value = Build("Identity", {read});
        // (A null step computes nothing of the size of the model.)
        result = kind == Model7::kDense
                     ? ops::Reshape(value, IntVector({-1, 1000}))
                     : ops::Neg(value);
      }
      if (kind == Model7::kSparse) {
        const DeviceScope there(absl::StrCat("/job:ps/task:", p));
        t.step.push_back(
            Build("ScatterSub", {v, IntVector({0, 1}), result}).node);
      } else {
        t.step.push_back(Subtract(p, v, result).node);
      }
    }
  }
  SLUICE_ASSIGN_OR_RETURN(const TrainingPrediction p,
                          t.Predict(kServers, workers, true));
  return p.MedianStepNs() * 1e-6;
}

// ---- Figure 8: Inception-v3, 17 servers -------------------------------------

// 32 images on a device that computes them in 1.5 s, as the paper's GPU: one
// product of 1.1e12 operations stands for the network (5.7e9 multiplications
// per image, three times for training), and 24e6 parameters are read and
// updated. Times vary by 3% (lognormal); 3% of the steps are slow, by 30% on
// average, chosen so that backup workers matter as in the paper.
Result<TrainingPrediction> Inception(int workers, int needed, bool sync,
                                     int steps) {
  constexpr int kServers = 17;
  constexpr int64_t kParameters = 24'000'000;
  Training t;
  t.cluster = Datacenter(kServers, workers, 1.1e12 / 1.5);
  t.model.steps = steps;
  t.model.to_aggregate = needed;
  t.model.stragglers = {.spread = 0.03, .probability = 0.03, .mean = 0.3};
  {
    const WithGraph use(t.graph);
    std::vector<Output> variables, read;
    for (int p = 0; p < kServers; ++p)
      variables.push_back(VariableAt(p, {kParameters / kServers / 1000, 1000},
                                     absl::StrCat("v", p)));
    Output loss;
    std::vector<Output> gradients;
    {
      const DeviceScope here("/job:worker/task:0");
      std::vector<Node*> all;
      for (const Output& v : variables) {
        read.push_back(Build("Identity", {v}));
        all.push_back(read.back().node);
      }
      // 2 * 8192 * 8192 * 8192 = 1.1e12.
      const ControlDependencies after(all);
      const Output big = t.Given({8192, 8192});
      loss = ops::MatMul(big, big);
      const ControlDependencies then({loss.node});
      for (const Output& r : read)
        gradients.push_back(ops::Reshape(r, IntVector({-1, 1000})));
    }
    for (int p = 0; p < kServers; ++p)
      t.step.push_back(Subtract(p, variables[static_cast<size_t>(p)],
                                gradients[static_cast<size_t>(p)])
                           .node);
  }
  return t.Predict(kServers, workers, sync);
}

Result<double> Figure8ImagesPerS(int workers, bool sync) {
  SLUICE_ASSIGN_OR_RETURN(const TrainingPrediction p,
                          Inception(workers, 0, sync, sync ? 15 : 8));
  return 32 * workers / (p.MedianStepNs() * 1e-9);
}

Result<double> Figure8StepS(int backups) {
  SLUICE_ASSIGN_OR_RETURN(const TrainingPrediction p,
                          Inception(50 + backups, 50, true, 60));
  return p.MedianStepNs() * 1e-9;
}

// t(0) / t(b) * 50 / (50 + b), the paper's normalised speed-up.
Result<double> Figure8Speedup(int backups) {
  SLUICE_ASSIGN_OR_RETURN(const double without, Figure8StepS(0));
  SLUICE_ASSIGN_OR_RETURN(const double with, Figure8StepS(backups));
  return without / with * 50 / (50 + backups);
}

// ---- Figure 9: a language model's softmax, sharded over servers -------------

// LSTM-512-512: 4 * 512 * 1024 multiplications per layer, word and direction;
// 20 words of 32 sentences in a step. The servers multiply their columns of a
// softmax of 512 by `classes` (forward, and twice backward).
Result<double> Figure9WordsPerS(int servers, int workers, int64_t classes) {
  constexpr int64_t kWords = 640;
  Training t;
  t.cluster = Datacenter(servers, workers, 1e11);
  for (int p = 0; p < servers; ++p)
    t.cluster.devices[static_cast<size_t>(p)].flops = 5e10;
  t.model.steps = 6;
  {
    const WithGraph use(t.graph);
    std::vector<Output> back;
    Output hidden;
    {
      const DeviceScope here("/job:worker/task:0");
      const Output in = t.Given({kWords, 1024}),
                   weights = t.Given({1024, 2048});
      Output layer = ops::MatMul(in, weights);
      // The second layer and both backward passes: five such products in all
      // beside the first.
      for (int i = 0; i < 5; ++i) {
        const ControlDependencies after({layer.node});
        layer = ops::MatMul(in, weights);
      }
      hidden = ops::Slice(layer, IntVector({0, 0}), IntVector({kWords, 512}));
    }
    for (int p = 0; p < servers; ++p) {
      const Output w =
          VariableAt(p, {512, classes / servers}, absl::StrCat("w", p));
      const DeviceScope there(absl::StrCat("/job:ps/task:", p));
      const Output logits = ops::MatMul(hidden, w);
      const Output to_hidden = ops::MatMul(logits, w, {.transpose_b = true});
      const Output to_w = ops::MatMul(hidden, logits, {.transpose_a = true});
      t.step.push_back(Subtract(p, w, to_w).node);
      back.push_back(to_hidden);
    }
    const DeviceScope here("/job:worker/task:0");
    t.step.push_back(ops::AddN(back).node);
  }
  SLUICE_ASSIGN_OR_RETURN(const TrainingPrediction p,
                          t.Predict(servers, workers, false));
  return static_cast<double>(kWords * workers) / (p.MedianStepNs() * 1e-9);
}

// ---- Figure 11: a loop over machines ----------------------------------------

Result<double> Figure11ItersPerS(int machines, bool barrier) {
  constexpr int kIterations = 20;
  std::vector<std::string> names;
  for (int i = 0; i < machines; ++i)
    names.push_back(absl::StrCat("/job:worker/task:", i));
  LoopOverDevices loop;
  BuildLoop(names, kIterations, barrier, &loop);
  ClusterModel c;
  c.AddTasks(
      "worker", machines, -1,
      {.name = "", .cores = 8, .bytes_per_s = 2e9, .latency_ns = 30'000});
  StepSignature step;
  for (const Output& o : loop.results) step.targets.push_back(o.node);
  SLUICE_ASSIGN_OR_RETURN(const StepPrediction p,
                          SimulateStep(loop.graph, step, c));
  return kIterations / (p.step_ns * 1e-9);
}

#define SLUICE_SIMULATED_7(w)                            \
  SLUICE_BENCH("simulated7.scalar.w" #w ".ms") {         \
    return Figure7Ms(Model7::kScalar, 0, w);             \
  }                                                      \
  SLUICE_BENCH("simulated7.sparse1GB.w" #w ".ms") {      \
    return Figure7Ms(Model7::kSparse, 1'000'000'000, w); \
  }                                                      \
  SLUICE_BENCH("simulated7.dense100MB.w" #w ".ms") {     \
    return Figure7Ms(Model7::kDense, 100'000'000, w);    \
  }                                                      \
  SLUICE_BENCH("simulated7.dense1GB.w" #w ".ms") {       \
    return Figure7Ms(Model7::kDense, 1'000'000'000, w);  \
  }
SLUICE_SIMULATED_7(1)
SLUICE_SIMULATED_7(10)
SLUICE_SIMULATED_7(25)
SLUICE_SIMULATED_7(50)
SLUICE_SIMULATED_7(100)
SLUICE_SIMULATED_7(1000)
SLUICE_SIMULATED_7(10000)
#define SLUICE_SIMULATED_8(w)                             \
  SLUICE_BENCH("simulated8.async.w" #w ".images_per_s") { \
    return Figure8ImagesPerS(w, false);                   \
  }                                                       \
  SLUICE_BENCH("simulated8.sync.w" #w ".images_per_s") {  \
    return Figure8ImagesPerS(w, true);                    \
  }
SLUICE_SIMULATED_8(25)
SLUICE_SIMULATED_8(50)
SLUICE_SIMULATED_8(100)
SLUICE_SIMULATED_8(200)
SLUICE_SIMULATED_8(1000)
#define SLUICE_SIMULATED_8C(b)                           \
  SLUICE_BENCH("simulated8c.step.backups5" #b ".s") {    \
    return Figure8StepS(b);                              \
  }                                                      \
  SLUICE_BENCH("simulated8c.speedup.backups5" #b ".s") { \
    return Figure8Speedup(b);                            \
  }
SLUICE_SIMULATED_8C(0)
SLUICE_SIMULATED_8C(1)
SLUICE_SIMULATED_8C(2)
SLUICE_SIMULATED_8C(3)
SLUICE_SIMULATED_8C(4)
SLUICE_SIMULATED_8C(5)
#define SLUICE_SIMULATED_9(p)                                    \
  SLUICE_BENCH("simulated9.full.w4.ps" #p ".words_per_s") {      \
    return Figure9WordsPerS(p, 4, 40'000);                       \
  }                                                              \
  SLUICE_BENCH("simulated9.full.w32.ps" #p ".words_per_s") {     \
    return Figure9WordsPerS(p, 32, 40'000);                      \
  }                                                              \
  SLUICE_BENCH("simulated9.full.w256.ps" #p ".words_per_s") {    \
    return Figure9WordsPerS(p, 256, 40'000);                     \
  }                                                              \
  SLUICE_BENCH("simulated9.sampled.w4.ps" #p ".words_per_s") {   \
    return Figure9WordsPerS(p, 4, 512);                          \
  }                                                              \
  SLUICE_BENCH("simulated9.sampled.w32.ps" #p ".words_per_s") {  \
    return Figure9WordsPerS(p, 32, 512);                         \
  }                                                              \
  SLUICE_BENCH("simulated9.sampled.w256.ps" #p ".words_per_s") { \
    return Figure9WordsPerS(p, 256, 512);                        \
  }
SLUICE_SIMULATED_9(1)
SLUICE_SIMULATED_9(2)
SLUICE_SIMULATED_9(4)
SLUICE_SIMULATED_9(8)
SLUICE_SIMULATED_9(16)
SLUICE_SIMULATED_9(32)
#define SLUICE_SIMULATED_11(m)                                  \
  SLUICE_BENCH("simulated11.independent.t" #m ".iters_per_s") { \
    return Figure11ItersPerS(m, false);                         \
  }                                                             \
  SLUICE_BENCH("simulated11.barrier.t" #m ".iters_per_s") {     \
    return Figure11ItersPerS(m, true);                          \
  }
SLUICE_SIMULATED_11(1)
SLUICE_SIMULATED_11(2)
SLUICE_SIMULATED_11(4)
SLUICE_SIMULATED_11(8)
SLUICE_SIMULATED_11(16)
SLUICE_SIMULATED_11(64)
SLUICE_SIMULATED_11(256)
SLUICE_SIMULATED_11(1000)
#undef SLUICE_SIMULATED_7
#undef SLUICE_SIMULATED_8
#undef SLUICE_SIMULATED_8C
#undef SLUICE_SIMULATED_9
#undef SLUICE_SIMULATED_11

}  // namespace
}  // namespace sluice::bench
