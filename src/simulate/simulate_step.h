// Predicts the time of a step on a cluster that need not exist.
//
//   ClusterModel cluster;
//   cluster.AddTasks("worker", 4, /*machine=*/-1, {.cores = 8});
//   Result<StepPrediction> p =
//       SimulateStep(graph, {.fetches = {loss}}, cluster);
//   std::cout << p->ToString();
#ifndef SLUICE_SIMULATE_SIMULATE_STEP_H_
#define SLUICE_SIMULATE_SIMULATE_STEP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "simulate/simulator.h"
#include "simulate/step_program.h"

namespace sluice {

struct SimulateOptions {
  MeasuredCosts measured;
  UnknownValues unknown;
  int default_device = 0;  // Of nodes that nothing places; the master's.
  bool trace = false;
};

struct StepPrediction {
  double step_ns = 0;
  CriticalPath path;
  // Shares of the step's time, by place in the cluster.
  std::vector<double> device_use, core_use, network_use;
  int64_t events = 0;
  int nodes = 0, partitions = 0;
  int transfers_of_unknown_size = 0;
  std::vector<TraceEvent> trace;
  // "compute", "runtime", "transfer" or "waiting": the most of the path.
  std::string bottleneck;
  // A table for people. `most`: lines of each kind.
  std::string ToString(const ClusterModel& cluster, int most = 20) const;
};

// Errors: as CompileForSimulation and Simulator::Run.
Result<StepPrediction> SimulateStep(const Graph& graph,
                                    const StepSignature& signature,
                                    const ClusterModel& cluster,
                                    const SimulateOptions& options = {});

// The same for a compiled step.
Result<StepPrediction> SimulateProgram(
    std::shared_ptr<const StepProgram> program, const ClusterModel& cluster,
    const SimulateOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_SIMULATE_SIMULATE_STEP_H_
