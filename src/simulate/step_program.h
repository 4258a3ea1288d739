// StepProgram: a step as the simulator runs it: the plans of the real
// partitions, and the work of each of their nodes.
#ifndef SLUICE_SIMULATE_STEP_PROGRAM_H_
#define SLUICE_SIMULATE_STEP_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/core/plan.h"
#include "passes/passes.h"
#include "simulate/cluster_model.h"
#include "simulate/op_work.h"

namespace sluice {

// What the simulator cannot know about values.
struct UnknownValues {
  // Iterations of a loop whose predicate depends on a computed tensor, by the
  // name of its frame; others run `iterations` times.
  std::unordered_map<std::string, int64_t> iterations_of;
  int64_t iterations = 10;
  bool predicate = true;  // Of conditionals.
};

// A node of a plan, by its place in Plan::nodes.
struct SimulatedNode {
  OpWork work;
  double out_bytes = 0;   // Of output 0 (a Send: of its input), if not known
                          // when it runs.
  bool evaluate = false;  // Computed for real: small integers and predicates.
  // For the node that computes a loop's predicate.
  int64_t iterations = -1;
};

// The part of one device.
struct SimulatedPart {
  std::shared_ptr<const Plan> plan;
  int device = 0;  // Place in ClusterModel::devices.
  std::vector<SimulatedNode> nodes;
};

// Immutable once compiled; any number of simulated steps share it.
struct StepProgram {
  std::vector<SimulatedPart> parts;
  int transfers_of_unknown_size = 0;
  int nodes = 0;
};

// Prunes, lowers, folds, places and partitions as a session of the cluster
// would, with the same functions, and makes the plans. Nothing is fused, so a
// measured node that a session fuses counts where its kernel ran. The master is
// the first task of the cluster; nodes without a device go there. Feeds are
// values that the step gets in no time.
//
// Errors: those of the passes (placement on a device that the cluster does not
// have, malformed control flow); InvalidArgument for a malformed cluster.
Result<std::shared_ptr<const StepProgram>> CompileForSimulation(
    const Graph& graph, const StepSignature& signature,
    const ClusterModel& cluster, const MeasuredCosts& measured = {},
    const UnknownValues& unknown = {}, int default_device = 0);

}  // namespace sluice

#endif  // SLUICE_SIMULATE_STEP_PROGRAM_H_
