// How well the simulator predicts real processes on this machine: loops over
// tasks, and asynchronous training of bench/replicas.cc. Percent by which the
// prediction is off; the costs come from `sluice calibrate`, which uses one and
// two tasks only.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <thread>

#include "bench.h"
#include "cluster.h"
#include "device_loops.h"
#include "replica_graph.h"
#include "simulate/simulate_step.h"
#include "simulate/simulate_training.h"
#include "tools/sluice/calibrate.h"

namespace sluice::bench {
namespace {

int Cores() { return static_cast<int>(std::thread::hardware_concurrency()); }

const Result<cli::Calibration>& Calibrated() {
  static const auto* const c =
      new Result<cli::Calibration>(cli::Calibrate(Cores()));
  return *c;
}

double ErrorPercent(const std::string& what, double predicted, double real) {
  std::fprintf(stderr, "%s: real %.1f us, predicted %.1f us\n", what.c_str(),
               real * 1e6, predicted * 1e6);
  return 100 * std::abs(predicted / real - 1);
}

Result<double> LoopError(int tasks, bool barrier) {
  constexpr int kLoopIterations = 300;
  if (!Calibrated().ok()) return Calibrated().status();
  std::vector<std::string> names;
  for (int i = 0; i < tasks; ++i)
    names.push_back(absl::StrCat("/job:worker/task:", i));
  LoopOverDevices loop;
  BuildLoop(names, kLoopIterations, barrier, &loop);
  double real = 0;
  {
    SLUICE_ASSIGN_OR_RETURN(auto cluster,
                            Cluster::Start({{"worker", tasks}}, "grpc"));
    Session session(cluster->target("worker", 0), loop.graph);
    SLUICE_ASSIGN_OR_RETURN(const double per_s,
                            LoopItersPerS(session, loop, kLoopIterations));
    real = 1 / per_s;
  }
  StepSignature step;
  step.fetches = {loop.results[0]};
  for (const Output& o : loop.results) step.targets.push_back(o.node);
  SLUICE_ASSIGN_OR_RETURN(
      const StepPrediction p,
      SimulateStep(loop.graph, step,
                   cli::SharedMachine(*Calibrated(), tasks, Cores())));
  return ErrorPercent(absl::StrCat("loop over ", tasks),
                      p.step_ns * 1e-9 / kLoopIterations, real);
}

// Seconds per update of all workers together.
Result<double> RealTraining(int workers) {
  constexpr int kTrainingSteps = 300;
  SLUICE_ASSIGN_OR_RETURN(
      auto cluster, Cluster::Start({{"ps", 1}, {"worker", workers}}, "grpc"));
  std::vector<Status> status(static_cast<size_t>(workers));
  std::atomic<int> ready{0};
  std::vector<double> seconds(static_cast<size_t>(workers));
  {
    Replica first(0, workers, false);
    Node* initializer;
    {
      const WithGraph use(first.graph);
      initializer = GlobalVariablesInitializer();
    }
    Session session(cluster->target("worker", 0), first.graph);
    SLUICE_RETURN_IF_ERROR(session.RunTargets({initializer}));
  }
  const auto work = [&](int w) -> Status {
    Replica r(w, workers, false);
    Session session(cluster->target("worker", w), r.graph);
    Result<Session::Callable> step = session.MakeCallable({}, {}, {r.train});
    Status s = step.status();
    for (int i = 0; i < 20 && s.ok(); ++i) s = step->Run().status();
    ++ready;
    while (ready < workers) std::this_thread::yield();
    const int64_t begin = NowNs();
    for (int i = 0; i < kTrainingSteps && s.ok(); ++i) s = step->Run().status();
    seconds[static_cast<size_t>(w)] =
        static_cast<double>(NowNs() - begin) * 1e-9;
    return s;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < workers; ++i)
    threads.emplace_back([&, i] { status[static_cast<size_t>(i)] = work(i); });
  for (std::thread& t : threads) t.join();
  for (const Status& s : status) SLUICE_RETURN_IF_ERROR(s);
  return *std::max_element(seconds.begin(), seconds.end()) /
         (kTrainingSteps * workers);
}

Result<double> TrainingError(int workers) {
  if (!Calibrated().ok()) return Calibrated().status();
  SLUICE_ASSIGN_OR_RETURN(const double real, RealTraining(workers));
  ClusterModel cluster = cli::SharedMachine(*Calibrated(), workers, Cores());
  cluster.AddTasks("ps", 1, 0, {}, Calibrated()->cpu);
  Replica r(0, workers, false);
  SLUICE_RETURN_IF_ERROR(r.graph.status());
  StepSignature signature;
  signature.targets = {r.train};
  TrainingModel model;
  model.steps = 50;
  SLUICE_ASSIGN_OR_RETURN(model.step,
                          CompileForSimulation(r.graph, signature, cluster));
  for (int w = 0; w < workers; ++w) model.worker_tasks.push_back(w);
  SLUICE_ASSIGN_OR_RETURN(const TrainingPrediction p,
                          SimulateTraining(model, cluster));
  return ErrorPercent(absl::StrCat("training by ", workers),
                      p.total_ns * 1e-9 / (50 * workers), real);
}

#define SLUICE_SIMULATION(n)                                     \
  SLUICE_BENCH("simulation.independent.t" #n ".error_percent") { \
    return LoopError(n, false);                                  \
  }                                                              \
  SLUICE_BENCH("simulation.barrier.t" #n ".error_percent") {     \
    return LoopError(n, true);                                   \
  }                                                              \
  SLUICE_BENCH("simulation.training.t" #n ".error_percent") {    \
    return TrainingError(n);                                     \
  }
SLUICE_SIMULATION(2)
SLUICE_SIMULATION(4)
SLUICE_SIMULATION(8)
SLUICE_SIMULATION(16)
#undef SLUICE_SIMULATION

}  // namespace
}  // namespace sluice::bench
