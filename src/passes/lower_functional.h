// Lowers functional nodes to the bodies of their functions: a call is replaced
// by the body, an If or Case by conditionals of Switch and Merge, a While or
// For by a loop of Enter, Merge, Switch, NextIteration and Exit, to any depth.
// So both forms of control flow run in the same way.
//
// Nodes that may run only in a taken branch (an iteration, a call) depend on
// its data, or, if they have no inputs from it, on its pivot by a control edge.
// Results do not wait for each other. The side effects of a body are part of
// the functional node: nodes that wait for the functional node wait for them,
// and so does the next iteration of a loop.
//
// A call of a recursive function stays a call (_Call); the executor runs it as
// its own frame (docs/design/017).
#ifndef SLUICE_PASSES_LOWER_FUNCTIONAL_H_
#define SLUICE_PASSES_LOWER_FUNCTIONAL_H_

#include <vector>

#include "graph/graph.h"

namespace sluice {

// Lowers all functional nodes of `graph`, in place. `whole`: the graph that it
// is a part of; new nodes get names that are unused there, so that state
// identified by name stays separate. A functional node stays as a NoOp that is
// done when the functional node would be. Returns the nodes that must run even
// without readers. Errors: an unknown function, a malformed body, bodies of
// more than 2^18 nodes.
Result<std::vector<Node*>> LowerFunctional(Graph* graph, const Graph& whole);

// True if LowerInPlace replaces it: a functional node other than a call of a
// recursive function.
bool CanLowerInPlace(const Node& node);

// The same for one node of a graph that is kept: the node becomes an identity
// of the results. Calls that stay calls become PartitionedCall nodes here.
Status LowerInPlace(Graph& graph, Node* node);

}  // namespace sluice

#endif  // SLUICE_PASSES_LOWER_FUNCTIONAL_H_
