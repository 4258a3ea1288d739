#include "session/compile.h"

#include <algorithm>

#include "exec/batching/batch_stage.h"
#include "exec/core/ready_stages.h"
#include "exec/fusion/chains.h"
#include "exec/fusion/regions.h"
#include "exec/scheduling/schedule_stage.h"
#include "graph/tensor_store_info.h"
#include "passes/lower_functional.h"
#include "passes/properties.h"

namespace sluice {

Result<OptimizedStep> OptimizeStep(const Graph& graph, const StepSignature& s,
                                   bool constant_folding,
                                   bool common_subexpressions) {
  OptimizedStep step;
  SLUICE_ASSIGN_OR_RETURN(step.graph, Prune(graph, s));
  Graph* g = step.graph.get();
  SLUICE_RETURN_IF_ERROR(CheckAfter("Prune", *g, kConnected));
  for (const Node* t : s.targets)  // Not found: a fed placeholder.
    if (Node* n = g->FindNode(t->name())) step.targets.push_back(n);
  for (const auto& n : g->nodes())  // Needed by reads, without edges to them.
    if (WritesStore(*n) || UseOfStores(*n).writes)
      step.targets.push_back(n.get());
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> effects,
                          LowerFunctional(g, graph));
  step.targets.insert(step.targets.end(), effects.begin(), effects.end());
  constexpr StepProperties kStep = kConnected | kLowered;
  SLUICE_RETURN_IF_ERROR(CheckAfter("LowerFunctional", *g, kStep));
  if (common_subexpressions) {
    SLUICE_RETURN_IF_ERROR(FuseSparseAdam(g, step.targets));
    SLUICE_RETURN_IF_ERROR(CheckAfter("FuseSparseAdam", *g, kStep));
  }
  SLUICE_RETURN_IF_ERROR(OrderReads(g));
  SLUICE_RETURN_IF_ERROR(CheckAfter("OrderReads", *g, kStep));
  if (constant_folding)
    SLUICE_RETURN_IF_ERROR(
        FoldConstants(g, [](const Node& n, std::vector<Tensor> inputs) {
          return RunKernel(n, std::move(inputs));
        }));
  SLUICE_RETURN_IF_ERROR(CheckAfter("FoldConstants", *g, kStep));
  if (common_subexpressions) {
    SLUICE_RETURN_IF_ERROR(MergeCommonSubexpressions(g));
    SLUICE_RETURN_IF_ERROR(CheckAfter("MergeCommonSubexpressions", *g, kStep));
    SLUICE_RETURN_IF_ERROR(AccumulateProducts(g));
    SLUICE_RETURN_IF_ERROR(CheckAfter("AccumulateProducts", *g, kStep));
  }
  if (constant_folding || common_subexpressions || !effects.empty())
    DropUnread(g, step.targets);
  SLUICE_RETURN_IF_ERROR(JoinAfterLoops(g));
  SLUICE_RETURN_IF_ERROR(CheckAfter("JoinAfterLoops", *g, kStep));
  return step;
}

std::vector<Node*> UnreadNodes(const Graph& graph) {
  std::vector<bool> read(static_cast<size_t>(graph.num_nodes()));
  for (const auto& n : graph.nodes()) {
    for (const Output& in : n->inputs())
      read[static_cast<size_t>(in.node->id())] = true;
    for (const Node* c : n->control_inputs())
      read[static_cast<size_t>(c->id())] = true;
  }
  std::vector<Node*> unread;
  for (const auto& n : graph.nodes())
    if (!read[static_cast<size_t>(n->id())]) unread.push_back(n.get());
  return unread;
}

Result<std::vector<StepPart>> PlaceAndCut(OptimizedStep step,
                                          const PlacementOptions& placement,
                                          const PartitionOptions& partition) {
  Graph* g = step.graph.get();
  const bool asked =
      std::any_of(g->nodes().begin(), g->nodes().end(),
                  [](const auto& n) { return !n->device().empty(); });
  std::vector<StepPart> parts;
  // (Values that enter or leave a device with its own memory are copied.)
  const auto in_host_memory = [&](const std::string& device) {
    return partition.has_own_memory == nullptr ||
           !partition.has_own_memory(device);
  };
  if (placement.devices.size() == 1 && !asked && placement.log == nullptr &&
      in_host_memory(placement.devices[0].name.ToString())) {
    parts.push_back({std::move(step.graph),
                     placement.devices[0].name.ToString(),
                     std::move(step.targets)});
    return parts;
  }
  SLUICE_RETURN_IF_ERROR(Place(g, placement));
  SLUICE_RETURN_IF_ERROR(
      CheckAfter("Place", *g, kConnected | kLowered | kPlaced));
  const std::string first = g->nodes().empty()
                                ? placement.devices[0].name.ToString()
                                : g->nodes()[0]->device();
  if (in_host_memory(first) &&
      std::all_of(g->nodes().begin(), g->nodes().end(),
                  [&](const auto& n) { return n->device() == first; })) {
    parts.push_back({std::move(step.graph), first, std::move(step.targets)});
    return parts;
  }
  SLUICE_ASSIGN_OR_RETURN(Partitions cut, Partition(*g, partition));
  for (size_t i = 0; i < cut.graphs.size(); ++i) {
    StepPart part{std::move(cut.graphs[i]), cut.devices[i], {}};
    part.targets = UnreadNodes(*part.graph);
    parts.push_back(std::move(part));
  }
  return parts;
}

Status StatefulKernels::Get(const Node& node, const Maker& make,
                            std::shared_ptr<Kernel>* out) {
  // `out` is set last: if creating the kernel fails, nothing must be cached.
  if (!node.op().facts.has_identity) {
    auto kernel = std::make_shared<Kernel>();
    SLUICE_RETURN_IF_ERROR(make(node, kernel.get()));
    *out = std::move(kernel);
    return OkStatus();
  }
  std::lock_guard<std::mutex> lock(mu_);
  Kept& kept = kernels_[node.name()];
  if (kept.kernel == nullptr || kept.op != node.op_name() ||
      !(kept.attrs == node.attrs())) {
    auto kernel = std::make_shared<Kernel>();
    SLUICE_RETURN_IF_ERROR(make(node, kernel.get()));
    kept = {std::move(kernel), node.op_name(), node.attrs()};
  }
  *out = kept.kernel;
  return OkStatus();
}

namespace {

// The stages of the ready list of a plan. (Without nodes for them it has none.)
std::unique_ptr<ReadyStageMaker> StagesFor(BatchPrograms batched) {
  if (batched.empty()) return MakeScheduling();
  // (A decision makes work ready that may still join a batch.)
  std::vector<std::unique_ptr<ReadyStageMaker>> makers;
  makers.push_back(MakeScheduling());
  makers.push_back(MakeBatching(std::move(batched)));
  return InOrder(std::move(makers));
}

}  // namespace

Result<BuiltPlan> BuildPlan(std::unique_ptr<Graph> graph,
                            const std::vector<Node*>& targets,
                            const PlanOptions& options,
                            const Plan::KernelProvider& kernels) {
  BuiltPlan built;
  // Kernels created before the plan is: those of regions, and of the nodes
  // outside them.
  std::unordered_map<const Node*, std::shared_ptr<Kernel>> made;
  // The errors of those that could not be created.
  std::unordered_map<const Node*, Status> failed;
  const auto kernel_of = [&](const Node& n) -> Result<std::shared_ptr<Kernel>> {
    if (const auto it = failed.find(&n); it != failed.end()) return it->second;
    std::shared_ptr<Kernel>& k = made[&n];
    if (k != nullptr) return k;
    if (const Status s = kernels(n, &k); !s.ok()) {
      failed.emplace(&n, s);
      return s;
    }
    return k;
  };
  if (options.regions) {
    SLUICE_RETURN_IF_ERROR(SkipSwitches(graph.get()));
    SLUICE_RETURN_IF_ERROR(
        CheckAfter("SkipSwitches", *graph, kConnected | kLowered));
    built.inside.push_back(DropUnread(graph.get(), targets));
    SLUICE_ASSIGN_OR_RETURN(auto dropped,
                            DropUnreadResults(graph.get(), targets));
    built.inside.push_back(std::move(dropped));
  }
  BatchForms batched;
  if (options.batch_frames != BatchFrames::kNever) {
    SLUICE_ASSIGN_OR_RETURN(
        batched, FindBatched(*graph, options.batch_frames == BatchFrames::kAll,
                             kernel_of));
  }
  std::vector<Node*> unchanged = targets;
  for (const auto& n : graph->nodes())
    if (batched.count(n.get()) != 0) unchanged.push_back(n.get());
  if (options.fusion) {
    const int nodes = graph->num_nodes();
    SLUICE_RETURN_IF_ERROR(FuseProducts(graph.get(), unchanged));
    if (graph->num_nodes() > nodes)
      built.inside.push_back(DropUnread(graph.get(), targets));
  }
  SLUICE_RETURN_IF_ERROR(
      CheckAfter("FuseProducts", *graph, kConnected | kLowered));
  const std::set<const Node*> keep(unchanged.begin(), unchanged.end());
  if (options.fusion) {
    SLUICE_ASSIGN_OR_RETURN(auto formed,
                            FormChains(graph.get(), kernel_of, keep));
    if (!formed.empty()) {
      made.merge(formed);
      built.inside.push_back(DropUnread(graph.get(), targets));
    }
  }
  BatchPrograms programs;
  for (const auto& [n, form] : batched) {
    SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Kernel> k, kernel_of(*n));
    programs[n] = ProgramOf(*n, std::move(k), form);
  }
  if (options.regions) {
    std::set<const Node*> apart(targets.begin(), targets.end()), held;
    for (const auto& [n, form] : batched) held.insert(n);
    // (A decision about placement is no part of a region, which would run it.)
    const std::unique_ptr<ReadyStageMaker> scheduling = MakeScheduling();
    for (const auto& n : graph->nodes()) {
      if (n->op().role != OpRole::kCompute || !n->op().kernel) continue;
      const auto k = kernel_of(*n);
      if (k.ok() && *k != nullptr &&
          scheduling->Holds(*n, **k, /*in_root=*/false))
        apart.insert(n.get());
    }
    SLUICE_ASSIGN_OR_RETURN(FormedRegions formed,
                            FormRegions(graph.get(), kernel_of, apart, held));
    for (const HeldRegion& region : formed.held)
      programs[region.node] = ProgramOf(region, batched);
    if (!formed.kernels.empty()) {
      made.merge(formed.kernels);
      built.inside.push_back(DropUnread(graph.get(), targets));
    }
  }
  auto kernel = [&](const Node& n, std::shared_ptr<Kernel>* k) -> Status {
    SLUICE_ASSIGN_OR_RETURN(*k, kernel_of(n));
    return OkStatus();
  };
  SLUICE_ASSIGN_OR_RETURN(
      built.plan,
      Plan::Build(std::move(graph), kernel, StagesFor(std::move(programs))));
  return built;
}

}  // namespace sluice
