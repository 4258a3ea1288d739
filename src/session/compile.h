// Compiles a graph into a plan in two halves: passes over the whole step, and
// passes over the part that each device runs. The two halves may run in
// different processes (src/cluster).
#ifndef SLUICE_SESSION_COMPILE_H_
#define SLUICE_SESSION_COMPILE_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/core/plan.h"
#include "graph/graph.h"
#include "passes/partition.h"
#include "passes/passes.h"
#include "passes/place.h"

namespace sluice {

// The subgraph that a step runs, with functional nodes inlined and constants
// folded.
struct OptimizedStep {
  std::unique_ptr<Graph> graph;
  // Nodes that must run although no other node reads them.
  std::vector<Node*> targets;
};

// REQUIRES: `graph` does not change during the call.
Result<OptimizedStep> OptimizeStep(const Graph& graph, const StepSignature& s,
                                   bool constant_folding,
                                   bool common_subexpressions);

// The part of a step that one device runs.
struct StepPart {
  std::unique_ptr<Graph> graph;
  std::string device;          // Full name.
  std::vector<Node*> targets;  // As in OptimizedStep.
};

// The nodes that no other node reads. In a partition these run for what they
// do: targets, Sends, the ends of control loops, calls whose body is elsewhere.
std::vector<Node*> UnreadNodes(const Graph& graph);

// Places the nodes and partitions the graph; parts are ordered by number. One
// part, the whole graph, if all nodes are on one device.
Result<std::vector<StepPart>> PlaceAndCut(OptimizedStep step,
                                          const PlacementOptions& placement,
                                          const PartitionOptions& partition);

// The kernels of a session's nodes that have an identity (OpFacts), by name, so
// that random streams continue from plan to plan. A name alone does not
// identify a node: the node may have been replaced, or added under the name
// that a function's node had in an earlier plan. Thread-safe.
class StatefulKernels {
 public:
  using Maker = std::function<Status(const Node&, Kernel*)>;
  // The result of `make`; for an op with has_identity the kernel that it made
  // before.
  Status Get(const Node& node, const Maker& make, std::shared_ptr<Kernel>* out);

 private:
  struct Kept {
    std::shared_ptr<Kernel> kernel;
    std::string op;
    AttrMap attrs;
  };
  std::mutex mu_;
  std::unordered_map<std::string, Kept> kernels_;  // GUARDED_BY(mu_)
};

// A plan and the original nodes that its fused nodes replace: error messages
// name them, and tables of the build refer to them.
struct BuiltPlan {
  std::vector<std::vector<std::unique_ptr<Node>>> inside;  // Outlive the plan.
  std::shared_ptr<const Plan> plan;
};

// Instances of a node in several frames run as one (exec/batching).
enum class BatchFrames : uint8_t {
  kNever,
  kRequested,  // In loops and functions that say so.
  kAll,        // In all loops and functions.
};

// The nodes that are fused into one node of the plan. Targets and nodes that
// are batched never are.
struct PlanOptions {
  bool fusion = true;   // Products with what follows them; elementwise chains.
  bool regions = true;  // Cheap nodes.
  BatchFrames batch_frames = BatchFrames::kNever;
};

Result<BuiltPlan> BuildPlan(std::unique_ptr<Graph> graph,
                            const std::vector<Node*>& targets,
                            const PlanOptions& options,
                            const Plan::KernelProvider& kernels);

}  // namespace sluice

#endif  // SLUICE_SESSION_COMPILE_H_
