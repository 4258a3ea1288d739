#include "client/control/loops.h"

#include "graph/graph.h"

namespace sluice {

Output OpenMerge(const Operand& enter, const std::string& name, SourceLoc loc) {
  const Output first = enter.Get();
  if (!first.valid()) return first;
  // Built without BuildNode, which would treat an open input as an earlier
  // error.
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  NodeSpec spec;
  spec.op = IsRef(first.dtype()) ? "RefMerge" : "Merge";
  spec.name = g.UniqueName(CurrentNamePrefix() + name);
  spec.inputs = {first, Output()};
  spec.pending_input_types = {first.dtype(), first.dtype()};
  spec.device = first.node->device();
  spec.loc = loc;
  const Result<Node*> merge = g.AddNode(std::move(spec));
  return merge.ok() ? Output(*merge) : BuildError(merge.status(), loc);
}

void CloseMerge(Output merge, Output next, SourceLoc loc) {
  if (!merge.valid() || !next.valid()) return;
  Graph& g = *merge.graph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  const Status s = g.SetBackEdge(merge.node, 1, next);
  if (!s.ok()) BuildError(s, loc);
}

}  // namespace sluice
