// What `sluice show` knows of devices: where nodes are, what crosses, and the
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

// Of each task of `cluster` (a source, dist/cluster_resolver.h; "": this
// process) those that `devices` counts, "cpu=2,gpu=1". Of types that no device
// of this program has (GPU, TPU) all kernels are taken to exist.
Result<std::vector<PlaceableDevice>> DevicesForShow(const std::string& cluster,
                                                    const std::string& devices);
// Gives the nodes devices as a session over these would.
Status PlaceForShow(std::vector<PlaceableDevice> devices, Graph* graph);

// An output, or with index -1 that a node is done, that nodes on another device
// wait for: one transfer in each step (or iteration).
struct Crossing {
  const Node* node = nullptr;
  int index = 0;
  std::string to;
  int readers = 0;
  int64_t bytes = -1;  // -1: not known before it runs.
};

// "float[2,3] 24 B", "" for what only orders.
std::string DescribeCrossing(const Crossing& c);

// Of one graph, which outlives it.
class ShowDevices {
 public:
  // With `constants` false these are passed over: they are made anew where they
  // are wanted.
  ShowDevices(const Graph& graph, bool constants);

  // If any node has a device.
  bool any() const { return !names_.empty(); }
  // If it is a device of some node, by that very name.
  bool Knows(const std::string& device) const {
    return !device.empty() && nodes_.contains(device);
  }
  // "worker:1 CPU:0", or "CPU:0" if there is but one task.
  std::string ShortName(const std::string& device) const;
  // For nodes, light; for edges that leave them, strong.
  std::string Fill(const Node& n) const;
  std::string Line(const Node& n) const;
  // (Where a node without a device will be is not known.)
  bool Crosses(const Node* from, const Node* to) const {
    return any() && from->device() != to->device() && !from->device().empty() &&
           !to->device().empty();
  }
  // By output and destination, in the order of the nodes.
  const std::vector<Crossing>& crossings() const { return crossings_; }
  const Crossing* Find(const Node* node, int index, const Node* reader) const;

  // A table of the colours, for Graphviz; and for people.
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
