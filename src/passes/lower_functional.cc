#include "passes/lower_functional.h"

#include <algorithm>
#include <unordered_map>

#include "graph/control_flow.h"
#include "passes/inliner.h"

namespace sluice {

Result<std::vector<Node*>> LowerFunctional(Graph* graph, const Graph& whole) {
  const auto is_functional = [](const auto& n) {
    return n->op().role == OpRole::kFunctional;
  };
  if (std::none_of(graph->nodes().begin(), graph->nodes().end(), is_functional))
    return std::vector<Node*>();
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                          TopologicalOrder(*graph));
  Inliner inliner(graph, whole, true);
  inliner.NoteReads(graph->nodes());
  // The replacements of functional nodes' outputs.
  OutputMap<Output> instead;
  for (Node* n : order) {
    for (int i = 0; i < n->num_inputs(); ++i)
      if (const auto it = instead.find(n->input(i)); it != instead.end())
        SLUICE_RETURN_IF_ERROR(graph->ReplaceInput(n, i, it->second));
    if (!is_functional(n)) {
      if (!instead.empty()) graph->RefineShapes(n);
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(
        const Values v,
        inliner.Lower(*n, n->inputs(), n->control_inputs(), Place()));
    std::vector<Node*> controls = v.effects;
    for (size_t i = 0; i < v.outputs.size(); ++i) {
      instead[Output(n, static_cast<int>(i))] = v.outputs[i];
      controls.push_back(v.outputs[i].node);
    }
    if (controls.empty()) controls = n->control_inputs();
    SLUICE_RETURN_IF_ERROR(graph->TurnIntoNoOp(n, std::move(controls)));
  }
  for (Node* n : order)  // Back edges.
    if (n->op().role == OpRole::kMerge)
      for (int i = 0; i < n->num_inputs(); ++i)
        if (const auto it = instead.find(n->input(i)); it != instead.end())
          SLUICE_RETURN_IF_ERROR(graph->ReplaceInput(n, i, it->second));
  for (size_t i = 0; i < inliner.frames().size(); ++i) {
    const FrameFunction f = inliner.frames()[i];
    SLUICE_RETURN_IF_ERROR(inliner.AddFrame(f));
  }
  return inliner.effects();
}

bool CanLowerInPlace(const Node& node) {
  return node.op().role == OpRole::kFunctional &&
         !Inliner(node.graph(), *node.graph(), false).IsKeptCall(node);
}

Status LowerInPlace(Graph& graph, Node* node) {
  Inliner inliner(&graph, graph, false);
  Place at;
  at.context = ContextOf(node);
  SLUICE_ASSIGN_OR_RETURN(Values v, inliner.Lower(*node, node->inputs(),
                                                  node->control_inputs(), at));
  return graph.TurnIntoIdentity(node, std::move(v.outputs),
                                std::move(v.effects));
}

}  // namespace sluice
