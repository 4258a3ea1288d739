// Names of nodes where they are more than names: in attributes, and as scopes.
#ifndef SLUICE_GRAPH_NODE_NAMES_H_
#define SLUICE_GRAPH_NODE_NAMES_H_

#include "graph/graph.h"

namespace sluice {

// Attributes (beside _class) that name another node of the same graph or
// function, or one of its outputs: what gradients of loops leave behind
// (client/loop_family_internal.h). Whoever renames nodes renames these too.
inline constexpr const char* kNamingAttrs[] = {"_loop_family", "_saved_last",
                                               "_saved_value"};

// Reserves the scopes that the names of the nodes from `first` on have, "a" and
// "a/b" of "a/b/c", so that scopes of builders get other names. (Loops are
// called after theirs, and two of one name would be one.)
void TakeScopes(Graph* graph, int first = 0);

}  // namespace sluice

#endif  // SLUICE_GRAPH_NODE_NAMES_H_
