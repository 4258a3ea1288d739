// Devices in `sluice show`: where nodes are, the edges between devices, and the
// colours of both.
#ifndef SLUICE_TOOLS_SLUICE_SHOW_DEVICES_H_
#define SLUICE_TOOLS_SLUICE_SHOW_DEVICES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "passes/place.h"

namespace sluice::cli {

// The devices that `devices` lists ("cpu=2,gpu=1") in each task of `cluster` (a
// source, cluster/membership/cluster_resolver.h; "": this process). For types
// that this program has no device of (GPU, TPU) all kernels are assumed to
// exist.
Result<std::vector<PlaceableDevice>> DevicesForShow(const std::string& cluster,
                                                    const std::string& devices);
// Places the nodes as a session with these devices would.
Status PlaceForShow(std::vector<PlaceableDevice> devices, Graph* graph);

// An output, or with index -1 the completion of a node, that nodes on another
// device wait for: one transfer in each step (or iteration).
struct Crossing {
  const Node* node = nullptr;
  int index = 0;
  std::string to;
  int readers = 0;
  int64_t bytes = -1;  // -1: unknown before it runs.
};

// "float[2,3] 24 B"; "" for a control edge.
std::string DescribeCrossing(const Crossing& c);

// The devices of one graph, which outlives this.
class ShowDevices {
 public:
  // With `constants` false, constants are ignored, because they are duplicated
  // on each device.
  ShowDevices(const Graph& graph, bool constants);

  // Whether any node has a device.
  bool any() const { return !names_.empty(); }
  // Whether it is exactly the name of some node's device.
  bool Knows(const std::string& device) const {
    return !device.empty() && nodes_.contains(device);
  }
  // "worker:1 CPU:0", or "CPU:0" if there is only one task.
  std::string ShortName(const std::string& device) const;
  // Light for nodes, strong for edges that leave them.
  std::string Fill(const Node& n) const;
  std::string Line(const Node& n) const;
  // (The device of an unplaced node is unknown.)
  bool Crosses(const Node* from, const Node* to) const {
    return any() && from->device() != to->device() && !from->device().empty() &&
           !to->device().empty();
  }
  // By output and destination, in node order.
  const std::vector<Crossing>& crossings() const { return crossings_; }
  const Crossing* Find(const Node* node, int index, const Node* reader) const;

  // A table of the colours, for Graphviz and as text.
  std::string Legend() const;
  std::string Table() const;

 private:
  size_t NumberOf(const std::string& device) const;
  std::string Total() const;

  std::vector<std::string> names_;  // Sorted; "" (none) last, if it occurs.
  std::map<std::string, int> nodes_;
  bool one_task_ = false;
  std::vector<Crossing> crossings_;
  std::map<std::pair<std::pair<int, int>, std::string>, size_t> by_output_;
};

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_SHOW_DEVICES_H_
