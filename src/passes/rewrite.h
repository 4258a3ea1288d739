// What passes share: a pass reads one graph and writes another.
#ifndef SLUICE_PASSES_REWRITE_H_
#define SLUICE_PASSES_REWRITE_H_

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace sluice {

// Copies a graph node by node in topological order. For each node a pass says
// what stands for it in the new graph. Back edges are closed at the end.
class GraphRewriter {
 public:
  GraphRewriter(const Graph& from, Graph* to) : from_(from), to_(to) {}

  // `visit` is called with each node, whose inputs are mapped already, and
  // either copies it (Copy) or maps its outputs (Replace) or drops it (neither:
  // nobody may use it then).
  Status Run(const std::function<Status(const Node&)>& visit);

  Node* Copy(const Node& n);
  // Output i of `n` is `replacement` in the new graph.
  void Replace(const Node& n, int i, Output replacement);
  // Nodes that wait for `n` by a control edge wait for `by`; null: for nothing.
  void ReplaceControl(const Node& n, Node* by);
  // What stands for an output; null if it was dropped.
  Output Map(const Output& o) const;
  std::vector<Output> MapInputs(const Node& n) const;
  std::vector<Node*> MapControl(const Node& n) const;
  Graph* to() const { return to_; }

 private:
  const Graph& from_;
  Graph* to_;
  std::unordered_map<Output, Output, OutputHash> outputs_;
  std::unordered_map<const Node*, Node*> nodes_;  // Control edges.
  std::vector<std::pair<const Node*, Node*>> merges_;  // With open back edges.
};

}  // namespace sluice

#endif  // SLUICE_PASSES_REWRITE_H_
