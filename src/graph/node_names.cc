#include "graph/node_names.h"

#include <string>
#include <unordered_set>

#include "graph/graph.h"

namespace sluice {

void TakeScopes(Graph* graph, int first) {
  std::unordered_set<std::string> taken;
  for (int i = first; i < graph->num_nodes(); ++i) {
    const std::string& name = graph->nodes()[static_cast<size_t>(i)]->name();
    // (The parents of a known scope are known.)
    for (size_t end = name.rfind('/'); end != std::string::npos && end > 0;
         end = name.rfind('/', end - 1)) {
      const auto [scope, is_new] = taken.insert(name.substr(0, end));
      if (!is_new) break;
      if (graph->UniqueName(*scope) == *scope) graph->UniqueScope(*scope);
    }
  }
}

}  // namespace sluice
