// Recovers the control-flow contexts of an imported graph from its structure.
#ifndef SLUICE_GRAPH_CONTROL_FLOW_RECOVERY_H_
#define SLUICE_GRAPH_CONTROL_FLOW_RECOVERY_H_

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/node.h"

namespace sluice {

// What a meta graph says about a conditional of the graph.
struct DescribedConditional {
  std::string name;
  Output pred;       // What its Switches read, except those of the pivots.
  Output pivots[2];  // At least one is valid.
  std::unordered_set<const Node*> switches;  // Also of the pivots.
};

// What a meta graph says about the constructs of the graph.
struct DescribedContexts {
  std::vector<DescribedConditional> conditionals;
  // The positions of Enters among those of the variables of their loops.
  std::unordered_map<const Node*, int> enters;
};

// Assigns contexts in the graph's ControlFlow to the nodes that have none:
// loops from the Enter, Merge, LoopCond, Switch, NextIteration and Exit nodes
// of a frame; conditionals from the Switches of one predicate and the Merges of
// their branches. Existing assignments are kept, so it may be called again when
// the graph has grown. Conditionals with the same predicate are one, unless
// `described` tells them apart. The variables of a loop are in the order of
// `described`, otherwise in a topological order of their Merges.
//
// InvalidArgument, naming a node, if frames do not nest: an Exit or a
// NextIteration outside of any frame, a node with inputs from several frames,
// Enters that disagree on the parent of their frame. Other unusual structure is
// left alone; code that needs the context of a Switch or a Merge reports an
// error if it has none. REQUIRES: the graph's mutex.
Status RecoverControlFlow(Graph* graph,
                          const DescribedContexts& described = {});

}  // namespace sluice

#endif  // SLUICE_GRAPH_CONTROL_FLOW_RECOVERY_H_
