#include <algorithm>
#include <vector>

#include "graph/graph.h"
#include "passes/passes.h"

namespace sluice {
namespace {

// Takes a variable itself, as what changes one does.
bool TakesVariable(const Node& n) {
  const std::vector<ArgDef>& inputs = n.op().inputs;
  return n.op().role == OpRole::kCompute &&
         std::any_of(inputs.begin(), inputs.end(),
                     [](const ArgDef& in) { return in.is_ref; });
}

// A read of a variable that may be put off until its reader runs.
bool IsRead(const Output& in) {
  return in.node->op().role == OpRole::kIdentity &&
         in.node->control_inputs().empty() && IsRef(in.node->input(0).dtype());
}

// By node: whether it waits for a change of some variable, or is one.
std::vector<uint8_t> FindChanged(const Graph& graph) {
  std::vector<uint8_t> changed(graph.nodes().size(), 0);
  for (const auto& n : graph.nodes())
    changed[static_cast<size_t>(n->id())] = TakesVariable(*n);
  for (bool more = true; more;) {  // (Again for what goes round.)
    more = false;
    for (const auto& n : graph.nodes()) {
      uint8_t& to = changed[static_cast<size_t>(n->id())];
      if (to != 0) continue;
      for (const Output& in : n->inputs())
        to |= changed[static_cast<size_t>(in.node->id())];
      for (const Node* c : n->control_inputs())
        to |= changed[static_cast<size_t>(c->id())];
      more |= to != 0;
    }
  }
  return changed;
}

// Their outputs are in another frame or iteration than they are, or dead when
// they are not.
bool MovesTokens(OpRole role) {
  return role == OpRole::kSwitch || role == OpRole::kMerge ||
         role == OpRole::kEnter || role == OpRole::kExit ||
         role == OpRole::kNextIteration;
}

}  // namespace

Status OrderReads(Graph* graph) {
  std::vector<Node*> readers;
  for (const auto& n : graph->nodes())
    if (n->op().role != OpRole::kMerge &&
        std::any_of(n->inputs().begin(), n->inputs().end(), IsRead))
      readers.push_back(n.get());
  if (readers.empty()) return OkStatus();
  const std::vector<uint8_t> changed = FindChanged(*graph);
  for (Node* n : readers) {
    std::vector<Node*> after;
    for (const Output& in : n->inputs()) {
      if (in.node->op().role == OpRole::kConst)  // (It may be folded away.)
        after.insert(after.end(), in.node->control_inputs().begin(),
                     in.node->control_inputs().end());
      else if (changed[static_cast<size_t>(in.node->id())] != 0 &&
               !IsRef(in.dtype()) && !IsRead(in) &&
               !MovesTokens(in.node->op().role))
        after.push_back(in.node);
    }
    for (Node* c : after) SLUICE_RETURN_IF_ERROR(graph->AddControlEdge(c, n));
  }
  return OkStatus();
}

}  // namespace sluice
