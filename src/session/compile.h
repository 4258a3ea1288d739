// From a graph to a plan, in two halves: what is done to a step as a whole, and
// what is done to each part that one device runs. The two may happen in
// different processes (src/dist).
#ifndef SLUICE_SESSION_COMPILE_H_
#define SLUICE_SESSION_COMPILE_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/plan.h"
#include "graph/graph.h"
#include "passes/partition.h"
#include "passes/passes.h"
#include "passes/place.h"

namespace sluice {

// The part of a graph that a step runs, without functional nodes, folded.
struct OptimizedStep {
  std::unique_ptr<Graph> graph;
  // Nodes of it that must run though nobody reads them.
  std::vector<Node*> targets;
};

// REQUIRES: `graph` does not change meanwhile.
Result<OptimizedStep> OptimizeStep(const Graph& graph, const StepSignature& s,
                                   bool constant_folding,
                                   bool common_subexpressions);

// What one device runs of a step.
struct StepPart {
  std::unique_ptr<Graph> graph;
  std::string device;          // Complete.
  std::vector<Node*> targets;  // As in OptimizedStep.
};

// Places the nodes and cuts the graph: the parts by number. One, whole, if all
// are on one device.
Result<std::vector<StepPart>> PlaceAndCut(OptimizedStep step,
                                          const PlacementOptions& placement,
                                          const PartitionOptions& partition);

// The kernels of a session's stateful nodes, by name, so that random streams go
// on from plan to plan. A name alone may be another node's: of one that was set
// anew, or that was added under the name that a function's node had in an
// earlier plan. Thread-safe.
class StatefulKernels {
 public:
  using Maker = std::function<Status(const Node&, Kernel*)>;
  // What `make` makes, or for a stateful op what it made before.
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

// A plan, and the nodes that others of it stand for, which errors name.
struct BuiltPlan {
  std::vector<std::vector<std::unique_ptr<Node>>> inside;  // Outlive the plan.
  std::shared_ptr<const Plan> plan;
};

// What becomes one node of the plan, but for what is a target.
struct PlanOptions {
  bool fusion = true;   // Products with what follows them; elementwise chains.
  bool regions = true;  // Cheap nodes.
};

Result<BuiltPlan> BuildPlan(std::unique_ptr<Graph> graph,
                            const std::vector<Node*>& targets,
                            const PlanOptions& options,
                            const Plan::KernelProvider& kernels);

}  // namespace sluice

#endif  // SLUICE_SESSION_COMPILE_H_
