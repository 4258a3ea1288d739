// Which part of a GraphDef its results need.
#ifndef SLUICE_GRAPH_GRAPHDEF_NEEDED_H_
#define SLUICE_GRAPH_GRAPHDEF_NEEDED_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace sluice {

// The names of the nodes of a binary GraphDef that the results ("a", "a:1",
// "^a") need: what they depend on, and for reads of TensorStores the nodes that
// write what they read (graph/tensor_store_info.h). Results that are no nodes
// are ignored. Ops may be unknown; a write of a store that depends on one is
// needed if any read is. InvalidArgument if `graph_def` has stores and is
// malformed.
Result<std::set<std::string>> NeededNodes(
    std::string_view graph_def, const std::vector<std::string>& results);

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRAPHDEF_NEEDED_H_
