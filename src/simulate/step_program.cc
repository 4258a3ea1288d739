#include "simulate/step_program.h"

#include <utility>

#include "exec/core/checked_kernel.h"
#include "exec/core/device.h"
#include "graph/frames.h"
#include "session/compile.h"

namespace sluice {
namespace {

// The kernel of a node if the program has one (the executor's decisions depend
// on its flags), else one that is never called.
Status KernelForSimulation(const Node& node, std::shared_ptr<Kernel>* out) {
  auto kernel = std::make_shared<Kernel>();
  if (!MakeDeclaredKernel(node, kernel.get()).ok()) {
    *kernel = Kernel();
    kernel->run = [](KernelContext&) {
      return Internal("simulation: expected no call of a kernel");
    };
  }
  *out = std::move(kernel);
  return OkStatus();
}

// Computed for real: what decides where control flow goes and how often.
bool IsSmallAndPure(const Node& n) {
  if (n.op().role != OpRole::kCompute || !n.op().facts.pure() ||
      n.num_outputs() == 0)
    return false;
  for (const Output& in : n.inputs())
    if (IsRef(in.dtype())) return false;
  for (int i = 0; i < n.num_outputs(); ++i) {
    const DType t = n.output_type(i);
    if (t != DType::kBool && t != DType::kInt32 && t != DType::kInt64)
      return false;
    const Result<Shape> shape = n.output_shape(i).ToShape();
    if (!shape.ok() || shape->num_elements() > 16) return false;
  }
  return true;
}

}  // namespace

Result<std::shared_ptr<const StepProgram>> CompileForSimulation(
    const Graph& graph, const StepSignature& signature,
    const ClusterModel& cluster, const MeasuredCosts& measured,
    const UnknownValues& unknown, int default_device) {
  SLUICE_RETURN_IF_ERROR(cluster.Check());
  if (default_device < 0 ||
      default_device >= static_cast<int>(cluster.devices.size()))
    return InvalidArgument("default device: expected one of ",
                           cluster.devices.size(), ", got ", default_device);
  SLUICE_ASSIGN_OR_RETURN(OptimizedStep step,
                          OptimizeStep(graph, signature, true, true));
  PlacementOptions placement;
  for (const DeviceModel& d : cluster.devices)
    placement.devices.push_back(
        {.name = d.name, .has_kernel = [type = d.name.type](const Node& n) {
           return HasKernel(type, n);
         }});
  placement.default_device =
      cluster.devices[static_cast<size_t>(default_device)].name;
  placement.soft_placement = true;
  std::unordered_map<std::string, int> numbers;
  for (size_t i = 0; i < cluster.devices.size(); ++i)
    numbers[cluster.devices[i].name.ToString()] = static_cast<int>(i);
  PartitionOptions partition;
  partition.has_own_memory = [&](const std::string& device) {
    const auto it = numbers.find(device);
    return it != numbers.end() &&
           !cluster.devices[static_cast<size_t>(it->second)].is_cpu();
  };
  SLUICE_ASSIGN_OR_RETURN(std::vector<StepPart> parts,
                          PlaceAndCut(std::move(step), placement, partition));

  auto program = std::make_shared<StepProgram>();
  for (StepPart& part : parts) {
    const auto number = numbers.find(part.device);
    if (number == numbers.end())
      return Internal("simulation: expected a device of the cluster, got ",
                      part.device);
    SimulatedPart made;
    made.device = number->second;
    // The nodes that compute the predicates of loops, with their frames.
    std::unordered_map<const Node*, std::string> predicates;
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                            TopologicalOrder(*part.graph));
    SLUICE_ASSIGN_OR_RETURN(const Frames frames,
                            Frames::Of(*part.graph, order));
    for (const Node* n : order)
      if (n->op().role == OpRole::kLoopCond)
        predicates[ResolveAlias(n->input(0)).node] =
            frames[frames.frame_of(n)].name;
    std::shared_ptr<const Graph> owned = std::move(part.graph);
    SLUICE_ASSIGN_OR_RETURN(made.plan, Plan::Build(owned, KernelForSimulation));
    for (const PlanNode& p : made.plan->nodes) {
      SimulatedNode node;
      const Node& n = *p.node;
      bool known = true;
      node.work = WorkOf(n, measured);
      node.evaluate = IsSmallAndPure(n);
      if (p.role == OpRole::kSend && n.num_inputs() > 0) {
        node.out_bytes = StaticBytes(n.input(0), &known);
        program->transfers_of_unknown_size += !known;
      } else if (n.num_outputs() > 0) {
        node.out_bytes = StaticBytes(Output(const_cast<Node*>(&n)), &known);
      }
      if (const auto it = predicates.find(&n); it != predicates.end()) {
        const auto given = unknown.iterations_of.find(it->second);
        node.iterations = given == unknown.iterations_of.end()
                              ? unknown.iterations
                              : given->second;
      }
      made.nodes.push_back(node);
    }
    program->nodes += static_cast<int>(made.nodes.size());
    program->parts.push_back(std::move(made));
  }
  return std::shared_ptr<const StepProgram>(std::move(program));
}

}  // namespace sluice
