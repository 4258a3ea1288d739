// GraphCopy: the master's copy of a client's graph.
#ifndef SLUICE_CLUSTER_MASTER_GRAPH_COPY_H_
#define SLUICE_CLUSTER_MASTER_GRAPH_COPY_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"
#include "cluster/common/messages.h"
#include "graph/graph.h"
#include "graph/proto/graph.pb.h"

namespace sluice {

// The parts of a graph that a client has sent, and the graph built from them. A
// node or function that is sent again replaces the earlier one. Not
// thread-safe.
class GraphCopy {
 public:
  // InvalidArgument if the bytes are not a GraphDef; graph() checks whether
  // they form a valid graph.
  Status Extend(std::string_view graph_def);
  // Rebuilt after each Extend; earlier results stay valid for their holders.
  Result<std::shared_ptr<const Graph>> graph();

 private:
  proto::GraphDef whole_;
  std::unordered_map<std::string, int> nodes_, functions_, gradients_, files_;
  size_t bytes_ = 0;                    // Upper bound for whole_.
  std::shared_ptr<const Graph> graph_;  // Null: must be rebuilt.
};

// Finds the parts of a client's graph that are new or have changed and must be
// sent. Not thread-safe.
class GraphSender {
 public:
  // The GraphDef to send; "" if the master is up to date. REQUIRES: the graph
  // is not modified during the call.
  Result<std::string> Changes(const Graph& graph);
  // The last message did not arrive: treat everything as new.
  void Lost() { sent_.clear(); }

 private:
  std::unordered_map<std::string, size_t> sent_;  // Hashes, by kind and name.
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_MASTER_GRAPH_COPY_H_
