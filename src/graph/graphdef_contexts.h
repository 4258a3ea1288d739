// The loops and conditionals of a graph in its meta graph, as TensorFlow keeps
// them (the collections "while_context" and "cond_context"): it cannot build
// gradients through a loop that it imports without them.
#ifndef SLUICE_GRAPH_GRAPHDEF_CONTEXTS_H_
#define SLUICE_GRAPH_GRAPHDEF_CONTEXTS_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "graph/node.h"

namespace sluice {

namespace proto {
class MetaGraphDef;
}  // namespace proto

// Adds both collections to a meta graph that holds the graph's nodes, or those
// of the name scope `scope` ("" for all), without its prefix. A Switch that
// both branches of a conditional share becomes two in the meta graph, since in
// TensorFlow a Switch belongs to one branch. Constructs with nodes that the
// meta graph lacks, or that are nested more than 40 deep, are left out; so are
// all of a graph whose frames do not nest. REQUIRES: the graph's mutex, and
// that RecoverControlFlow was called before the nodes were exported.
void AddContexts(const Graph& g, const std::string& scope,
                 proto::MetaGraphDef* def);
// The same for a serialised meta graph.
Result<std::string> WithContexts(const Graph& g, const std::string& scope,
                                 std::string_view meta_graph);

// Recovers the contexts of a graph that a meta graph was imported into, under
// `prefix` ("" or "scope/"), and takes over what the nodes do not say: whether
// a loop is to be differentiated or its values are to be swapped out, how many
// iterations it has at most, the order of its variables, which conditionals
// with the same predicate are separate, and their names. Contexts that do not
// fit the nodes are ignored. REQUIRES: the graph's mutex.
void ApplyContexts(const proto::MetaGraphDef& def, const std::string& prefix,
                   Graph* g);
// The same for a serialised meta graph; InvalidArgument if it is malformed.
Status ApplyContexts(std::string_view meta_graph, const std::string& prefix,
                     Graph* g);

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRAPHDEF_CONTEXTS_H_
