// GraphCopy: a client's graph, as the master has it.
#ifndef SLUICE_DIST_GRAPH_COPY_H_
#define SLUICE_DIST_GRAPH_COPY_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"
#include "dist/messages.h"
#include "graph/graph.h"
#include "graph/proto/graph.pb.h"

namespace sluice {

// What a client has sent of its graph, and what that makes. A node or function
// that comes again takes the place of the earlier one. Not thread-safe.
class GraphCopy {
 public:
  // InvalidArgument if the bytes are no GraphDef; whether they make a graph is
  // found out by graph().
  Status Extend(std::string_view graph_def);
  // Made anew after each Extend; what was made before stays with whoever has
  // it.
  Result<std::shared_ptr<const Graph>> graph();

 private:
  proto::GraphDef whole_;
  std::unordered_map<std::string, int> nodes_, functions_, gradients_, files_;
  size_t bytes_ = 0;                    // Of whole_, at most.
  std::shared_ptr<const Graph> graph_;  // Null: to be made.
};

// What a client has to send: finds what is new or has changed. Not thread-safe.
class GraphSender {
 public:
  // The GraphDef to send; "" if the master has it all. REQUIRES: the graph does
  // not change meanwhile.
  Result<std::string> Changes(const Graph& graph);
  // It did not arrive: what it said is new still.
  void Lost() { sent_.clear(); }

 private:
  std::unordered_map<std::string, size_t> sent_;  // Hashes, by kind and name.
};

}  // namespace sluice

#endif  // SLUICE_DIST_GRAPH_COPY_H_
