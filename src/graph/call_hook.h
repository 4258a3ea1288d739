// What is done with each functional node that a builder adds. Internal.
#ifndef SLUICE_GRAPH_CALL_HOOK_H_
#define SLUICE_GRAPH_CALL_HOOK_H_

#include "graph/node.h"

namespace sluice {

// The op of nodes that are in bodies of functions only: the hook inlines the
// calls of these functions, and replaces the nodes
// (client/autodiff/outside_part.h).
inline constexpr char kGradientOutsideOp[] = "_GradientOutside";
// list(bool), on these: for each x, then each stop, whether it is a value from
// outside.
inline constexpr char kIsOuterAttr[] = "_is_outer";

// Called with the graph locked and the builder's scopes in force. It may turn
// the node into an identity of its results; an error is the builder's.
// Installed by the client, once.
using CallHook = Status (*)(Node* call);
void SetCallHook(CallHook hook);

}  // namespace sluice

#endif  // SLUICE_GRAPH_CALL_HOOK_H_
