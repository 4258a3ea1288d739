// What can be known of all shapes of a graph before it runs.
#ifndef SLUICE_PASSES_INFER_SHAPES_H_
#define SLUICE_PASSES_INFER_SHAPES_H_

#include <utility>
#include <vector>

#include "graph/graph.h"

namespace sluice {

// By node id and output.
using NodeShapes = std::vector<std::vector<PartialShape>>;

// At least what the graph's nodes say. Beyond that the shape of a loop variable
// is the one that it enters with, as far as every iteration keeps it: an
// imported loop says nothing, since a node is added before the end of the loop
// that it reads. `known` tells more of the first outputs of some nodes. The
// graph stays as it is; its mutex must be held. InvalidArgument for a cycle.
Result<NodeShapes> InferShapes(
    const Graph& graph,
    const std::vector<std::pair<const Node*, PartialShape>>& known = {});

}  // namespace sluice

#endif  // SLUICE_PASSES_INFER_SHAPES_H_
