// Infers the shapes of a whole graph before it runs.
#ifndef SLUICE_PASSES_INFER_SHAPES_H_
#define SLUICE_PASSES_INFER_SHAPES_H_

#include <utility>
#include <vector>

#include "graph/node.h"

namespace sluice {

// By node id and output.
using NodeShapes = std::vector<std::vector<PartialShape>>;

// The result is at least as precise as the shapes in the graph's nodes. In
// addition, a loop variable gets its initial shape, as far as every iteration
// preserves it: the nodes of an imported loop do not have it, since a node is
// added before the back edge that it depends on. `known` gives more precise
// shapes of the first outputs of some nodes. The graph is not changed; its
// mutex must be held. InvalidArgument for a cycle.
Result<NodeShapes> InferShapes(
    const Graph& graph,
    const std::vector<std::pair<const Node*, PartialShape>>& known = {});

}  // namespace sluice

#endif  // SLUICE_PASSES_INFER_SHAPES_H_
