// Uses of node names beyond identification: in attributes and as scopes.
#ifndef SLUICE_GRAPH_NODE_NAMES_H_
#define SLUICE_GRAPH_NODE_NAMES_H_

#include "graph/graph.h"

namespace sluice {

// Attributes (besides _class) that name another node of the same graph or
// function, or one of its outputs: gradients of loops set them
// (client/autodiff/loop_family_internal.h). Code that renames nodes must rename these
// too.
inline constexpr const char* kNamingAttrs[] = {"_loop_family", "_saved_last",
                                               "_saved_value"};

// Reserves the scopes in the names of the nodes from `first` on ("a" and "a/b"
// for "a/b/c"), so that later scopes get other names. (Loops are named after
// their scopes, and two loops of one name would be taken for one.)
void TakeScopes(Graph* graph, int first = 0);

}  // namespace sluice

#endif  // SLUICE_GRAPH_NODE_NAMES_H_
