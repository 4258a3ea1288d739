#include "graph/node_names.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "graph/graph.h"

namespace sluice {

void TakeScopes(Graph* graph, int first) {
  absl::flat_hash_set<std::string_view> taken;  // (Parts of the nodes' names.)
  std::string_view last;
  for (int i = first; i < graph->num_nodes(); ++i) {
    const std::string_view name =
        graph->nodes()[static_cast<size_t>(i)]->name();
    // (The parents of a known scope are known.)
    size_t end = name.rfind('/');
    if (end == name.npos || name.substr(0, end) == last) continue;
    last = name.substr(0, end);
    for (; end != name.npos && end > 0; end = name.rfind('/', end - 1)) {
      const std::string_view scope = name.substr(0, end);
      if (!taken.insert(scope).second) break;
      const std::string text(scope);
      if (graph->UniqueName(text) == text) graph->UniqueScope(text);
    }
  }
}

}  // namespace sluice
