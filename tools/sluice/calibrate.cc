// sluice calibrate: measures what the simulator has to know of this machine.
#include "tools/sluice/calibrate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>

#include "bench/cluster.h"
#include "bench/device_loops.h"
#include "bench/timing.h"
#include "io/file.h"
#include "simulate/simulate_step.h"
#include "sluice/sluice.h"
#include "tools/sluice/cli.h"
#include "tools/sluice/cluster_file.h"

namespace sluice::cli {
namespace {

constexpr int kIterations = 300;

std::vector<std::string> WorkerNames(int tasks) {
  std::vector<std::string> names;
  for (int i = 0; i < tasks; ++i)
    names.push_back(absl::StrCat("/job:worker/task:", i));
  return names;
}

// One value goes to the second task and back in each iteration.
void BuildPingPong(bench::LoopOverDevices* loop) {
  const WithGraph use(loop->graph);
  const DeviceScope first("/job:worker/task:0");
  loop->results = While(
      std::vector<Output>{Constant(int32_t{0}), Constant(0.0f)},
      [](const std::vector<Output>& v) { return v[0] < kIterations; },
      [](const std::vector<Output>& v) {
        Output there, back;
        {
          const DeviceScope second("/job:worker/task:1");
          there = v[1] + 1.0f;
        }
        back = there + 1.0f;
        return std::vector<Output>{v[0] + 1, back};
      },
      {.parallel_iterations = 1});
}

Result<double> MeasureLoop(const std::string& target,
                           bench::LoopOverDevices& loop) {
  Session session(target, loop.graph);
  SLUICE_ASSIGN_OR_RETURN(const double per_s,
                          bench::LoopItersPerS(session, loop, kIterations));
  return 1 / per_s;
}

// The median time of a step that adds a number in each task.
Result<double> MeasureStep(const std::string& target, int tasks) {
  Graph graph;
  std::vector<Node*> targets;
  {
    const WithGraph use(graph);
    for (const std::string& name : WorkerNames(tasks)) {
      const DeviceScope there(name);
      targets.push_back(ops::RandomUniform(IntVector({1}), DType::kFloat).node);
    }
  }
  Session session(target, graph);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({}, {}, targets));
  std::vector<double> times;
  for (int i = 0; i < 400; ++i) {
    const int64_t start = NowNs();
    SLUICE_RETURN_IF_ERROR(step.Run().status());
    times.push_back(static_cast<double>(NowNs() - start) * 1e-9);
  }
  std::nth_element(times.begin(), times.begin() + 200, times.end());
  return times[200];
}

// The best time of a kernel of one core, in seconds, by traces.
Result<double> MeasureKernel(const std::function<Output(Output)>& build,
                             const Shape& shape, const std::string& op) {
  Graph graph;
  Output y, x;
  {
    const WithGraph use(graph);
    x = Placeholder(DType::kFloat, shape);
    y = build(x);
  }
  SessionOptions options;
  options.intra_op_threads = 1;
  Session session(graph, options);
  Tensor value(DType::kFloat, shape);
  for (float& v : value.flat<float>()) v = 0.5f;
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    RunMetadata metadata;
    SLUICE_RETURN_IF_ERROR(
        session.Run({{x, value}}, {y}, {}, {.trace = true}, &metadata)
            .status());
    for (const TraceEvent& e : metadata.events)
      if (e.node == op)
        best =
            std::min(best, static_cast<double>(e.end_ns - e.start_ns) * 1e-9);
  }
  if (best > 1e8) return Internal("calibrate: expected a trace of ", op);
  return best;
}

// Seconds per iteration as the simulator predicts them.
Result<double> PredictLoop(const bench::LoopOverDevices& loop,
                           const Calibration& c, int tasks, int cores) {
  StepSignature step;
  step.fetches = {loop.results[0]};
  for (const Output& o : loop.results) step.targets.push_back(o.node);
  SLUICE_ASSIGN_OR_RETURN(
      const StepPrediction p,
      SimulateStep(loop.graph, step, SharedMachine(c, tasks, cores)));
  return p.step_ns * 1e-9 / kIterations;
}

// Scales `values` by the factor with which `predict` gives `want`: it grows
// with the factor.
Status FitFactor(const std::vector<double*>& values, double want,
                 const std::function<Result<double>()>& predict) {
  std::vector<double> begin;
  for (const double* v : values) begin.push_back(*v);
  double low = 0.01, high = 100;
  for (int i = 0; i < 24; ++i) {
    const double middle = std::sqrt(low * high);
    for (size_t v = 0; v < values.size(); ++v) *values[v] = begin[v] * middle;
    SLUICE_ASSIGN_OR_RETURN(const double got, predict());
    (got > want ? high : low) = middle;
  }
  return OkStatus();
}

}  // namespace

ClusterModel SharedMachine(const Calibration& c, int tasks, int cores) {
  ClusterModel cluster;
  cluster.costs = c.costs;
  cluster.machines.push_back({.name = "here", .cores = cores});
  cluster.AddTasks("worker", tasks, 0, {}, c.cpu);
  return cluster;
}

Result<Calibration> Calibrate(int cores) {
  Calibration c;
  bench::LoopOverDevices alone, independent, ping_pong;
  bench::BuildLoop(WorkerNames(1), kIterations, false, &alone);
  bench::BuildLoop(WorkerNames(2), kIterations, false, &independent);
  BuildPingPong(&ping_pong);
  {
    SLUICE_ASSIGN_OR_RETURN(auto cluster,
                            bench::Cluster::Start({{"worker", 2}}, "grpc"));
    const std::string& target = cluster->target("worker", 0);
    SLUICE_ASSIGN_OR_RETURN(c.null_step_s, MeasureStep(target, 1));
    SLUICE_ASSIGN_OR_RETURN(c.two_task_step_s, MeasureStep(target, 2));
    SLUICE_ASSIGN_OR_RETURN(c.iteration_s, MeasureLoop(target, alone));
    SLUICE_ASSIGN_OR_RETURN(c.ping_pong_s, MeasureLoop(target, ping_pong));
    SLUICE_ASSIGN_OR_RETURN(c.independent_s, MeasureLoop(target, independent));
  }
  SLUICE_ASSIGN_OR_RETURN(
      const double product,
      MeasureKernel([](Output x) { return ops::MatMul(x, x); },
                    Shape({512, 512}), "MatMul"));
  c.cpu.flops = 2.0 * 512 * 512 * 512 / product;
  constexpr double kElements = 4'000'000;
  SLUICE_ASSIGN_OR_RETURN(const double sum,
                          MeasureKernel([](Output x) { return x + x; },
                                        Shape({4'000'000}), "AddV2"));
  c.cpu.bytes_per_s = 3 * 4 * kElements / sum;

  // The costs of nodes from the loop in one task, and of messages from the two
  // others: the first is paid in time only where a core is free, so that the
  // loop of independent tasks tells the share of the cores from that of the
  // way between them.
  c.costs.step_ns = 0.8e9 * c.null_step_s;
  c.costs.task_ns = 0.1e9 * c.null_step_s;
  SLUICE_RETURN_IF_ERROR(
      FitFactor({&c.costs.node_ns, &c.costs.kernel_ns}, c.iteration_s,
                [&] { return PredictLoop(alone, c, 1, cores); }));
  for (int round = 0; round < 4; ++round) {
    SLUICE_RETURN_IF_ERROR(
        FitFactor({&c.costs.send_ns, &c.costs.receive_ns, &c.costs.token_ns},
                  c.independent_s,
                  [&] { return PredictLoop(independent, c, 2, cores); }));
    SLUICE_RETURN_IF_ERROR(FitFactor({&c.costs.hop_ns}, c.ping_pong_s, [&] {
      return PredictLoop(ping_pong, c, 2, cores);
    }));
  }
  return c;
}

void AddCalibrate(CLI::App& app, std::function<int()>* run) {
  struct Flags {
    std::string out;
    int cores = static_cast<int>(std::thread::hardware_concurrency());
  };
  auto o = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand(
      "calibrate", "Measure this machine for `sluice simulate`");
  sub->footer("Example: sluice calibrate --out here.json");
  sub->add_option("--out", o->out, "Write the costs there (JSON)");
  sub->add_option("--cores", o->cores, "Cores of this machine")
      ->check(CLI::Range(1, 4096));
  sub->callback([o, run] {
    *run = [o] {
      const Result<Calibration> c = Calibrate(o->cores);
      if (!c.ok()) return Fail(kRunFailed, c.status());
      const std::string text = CalibrationText(c->costs, c->cpu);
      std::printf(
          "iteration in one task %.2f us, to another task and back %.2f us, "
          "of two tasks %.2f us\nstep of one task %.1f us, of two %.1f us\n%s",
          c->iteration_s * 1e6, c->ping_pong_s * 1e6, c->independent_s * 1e6,
          c->null_step_s * 1e6, c->two_task_step_s * 1e6, text.c_str());
      if (o->out.empty()) return 0;
      const Status s = WriteFile(o->out, text);
      return s.ok() ? 0 : Fail(kRunFailed, s);
    };
  });
}

}  // namespace sluice::cli
