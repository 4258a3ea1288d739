// Recovers the control-flow contexts of an imported graph from its structure.
#ifndef SLUICE_GRAPH_CONTROL_FLOW_RECOVERY_H_
#define SLUICE_GRAPH_CONTROL_FLOW_RECOVERY_H_

#include "graph/node.h"

namespace sluice {

// Assigns contexts in the graph's ControlFlow to the nodes that have none:
// loops from the Enter, Merge, LoopCond, Switch, NextIteration and Exit nodes
// of a frame; conditionals from the Switches of one predicate and the Merges of
// their branches. Existing assignments are kept, so it may be called again when
// the graph has grown.
//
// InvalidArgument, naming a node, if frames do not nest: an Exit or a
// NextIteration outside of any frame, a node with inputs from several frames,
// Enters that disagree on the parent of their frame. Other unusual structure is
// left alone; code that needs the context of a Switch or a Merge reports an
// error if it has none. REQUIRES: the graph's mutex.
Status RecoverControlFlow(Graph* graph);

}  // namespace sluice

#endif  // SLUICE_GRAPH_CONTROL_FLOW_RECOVERY_H_
