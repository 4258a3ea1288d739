#include "graph/graph.h"
#include "passes/passes.h"

namespace sluice {
namespace {

bool ReadsVariable(const Node& n) {
  for (const Output& in : n.inputs()) {
    const Node* from = in.node;
    if (from != nullptr && from->op().role == OpRole::kIdentity &&
        from->control_inputs().empty() && IsRef(from->input(0).dtype()))
      return true;
  }
  return false;
}

}  // namespace

Status OrderReads(Graph* graph) {
  for (const auto& n : graph->nodes()) {
    if (n->op().role == OpRole::kMerge || !ReadsVariable(*n)) continue;
    std::vector<Node*> after;
    for (const Output& in : n->inputs())
      if (in.node != nullptr && in.node->op().role == OpRole::kConst)
        after.insert(after.end(), in.node->control_inputs().begin(),
                     in.node->control_inputs().end());
    for (Node* c : after)
      SLUICE_RETURN_IF_ERROR(graph->AddControlEdge(c, n.get()));
  }
  return OkStatus();
}

}  // namespace sluice
