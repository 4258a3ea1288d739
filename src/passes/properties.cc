#include "passes/properties.h"

#include "graph/frames.h"
#include "graph/graph.h"

namespace sluice {
namespace {

bool IsOf(const Graph& graph, const Node* n) {
  const auto id = static_cast<size_t>(n->id());
  return id < graph.nodes().size() && graph.nodes()[id].get() == n;
}

Status CheckConnected(const Graph& graph, const Node& n) {
  for (int i = 0; i < n.num_inputs(); ++i)
    if (!n.input(i).valid() || !IsOf(graph, n.input(i).node))
      return Internal("connected: expected a node of the graph as input ", i,
                      ", got ", n.input(i).valid() ? "another" : "none", "; ",
                      n.Describe());
  for (const Node* c : n.control_inputs())
    if (!IsOf(graph, c))
      return Internal("connected: expected control inputs from the graph, got ",
                      "another node; ", n.Describe());
  return OkStatus();
}

}  // namespace

Status CheckProperties(const Graph& graph, StepProperties properties) {
  for (const auto& n : graph.nodes()) {
    if ((properties & kConnected) != 0)
      SLUICE_RETURN_IF_ERROR(CheckConnected(graph, *n));
    if ((properties & kLowered) != 0 && n->op().role == OpRole::kFunctional)
      return Internal("lowered: expected no functional op, got one; ",
                      n->Describe());
    if ((properties & kPlaced) != 0 && n->device().empty())
      return Internal("placed: expected a device, got none; ", n->Describe());
    if ((properties & kOneDevice) != 0 &&
        n->device() != graph.nodes()[0]->device())
      return Internal("one device: expected ", graph.nodes()[0]->device(),
                      ", got ", n->device(), "; ", n->Describe());
    if ((properties & kOpenEnds) != 0 && FunctionOf(*n).empty() &&
        (n->op().role == OpRole::kArg || n->op().role == OpRole::kRetval))
      return Internal("open ends: expected transfers instead of ", n->op_name(),
                      ", got one; ", n->Describe());
  }
  return OkStatus();
}

}  // namespace sluice
