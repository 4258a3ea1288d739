// The contexts of a graph that was imported, found from its structure.
#ifndef SLUICE_GRAPH_CONTROL_FLOW_RECOVERY_H_
#define SLUICE_GRAPH_CONTROL_FLOW_RECOVERY_H_

#include "graph/graph.h"

namespace sluice {

// Gives the nodes that no builder has put anywhere their place in the graph's
// ControlFlow: loops from Enter, Merge, LoopCond, Switch, NextIteration and
// Exit of a frame; conditionals from Switches by one predicate and the Merges
// of their branches. What has a place already keeps it, so that it may be
// called again when the graph has grown.
//
// InvalidArgument, naming a node, where frames do not nest: an Exit or a
// NextIteration outside of any frame, inputs from several frames at one node,
// Enters that disagree on where their frame stands. Other odd structure is left
// alone: a Switch or a Merge without a place is refused by whoever has to know.
// REQUIRES: the graph's mutex.
Status RecoverControlFlow(Graph* graph);

}  // namespace sluice

#endif  // SLUICE_GRAPH_CONTROL_FLOW_RECOVERY_H_
