// Functional nodes become the bodies of their functions: a call is replaced by
// the body, an If or Case by conditionals of Switch and Merge, a While or For
// by a loop of Enter, Merge, Switch, NextIteration and Exit, to any depth. So
// both spellings of control flow run alike.
//
// Nodes that only a taken branch (an iteration, a call) may run hang on its
// data, or, where they have none, on its pivot by a control edge. Results do
// not wait for each other. What a body does besides giving results is done
// whenever the functional node is: whoever waits for the node waits for it, and
// so does the next iteration of a loop.
//
// A call of a function that can come to call itself stays a call (_Call); the
// executor runs it as a frame of its own (docs/design/017).
#ifndef SLUICE_PASSES_LOWER_FUNCTIONAL_H_
#define SLUICE_PASSES_LOWER_FUNCTIONAL_H_

#include <vector>

#include "graph/graph.h"

namespace sluice {

// Lowers all functional nodes of `graph`, in place. `whole`: the graph that it
// is a part of; new nodes get names that none of its nodes has, so that state
// which goes by names is kept apart. A functional node stays as a NoOp that is
// done when it would be. Returns the nodes that must run whoever reads them.
// Errors: an unknown function, a malformed body, bodies of more than 2^18
// nodes.
Result<std::vector<Node*>> LowerFunctional(Graph* graph, const Graph& whole);

// True if LowerInPlace replaces it: a functional node, but no call of a
// function that can come to call itself.
bool CanLowerInPlace(const Node& node);

// The same for one node of a graph that stays: the node becomes an identity of
// the results. Calls that stay calls are PartitionedCall nodes here.
Status LowerInPlace(Graph& graph, Node* node);

}  // namespace sluice

#endif  // SLUICE_PASSES_LOWER_FUNCTIONAL_H_
