// Uses of node names as scopes.
#ifndef SLUICE_GRAPH_NODE_NAMES_H_
#define SLUICE_GRAPH_NODE_NAMES_H_

#include "graph/node.h"

namespace sluice {

// Reserves the scopes in the names of the nodes from `first` on ("a" and "a/b"
// for "a/b/c"), so that later scopes get other names. (Loops are named after
// their scopes, and two loops of one name would be taken for one.)
void TakeScopes(Graph* graph, int first = 0);

}  // namespace sluice

#endif  // SLUICE_GRAPH_NODE_NAMES_H_
