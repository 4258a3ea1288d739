// Partition: splits a graph over many devices into one graph for each, with
// _Send and _Recv for each cut edge. Conditionals, loops and recursive
// functions may be cut anywhere: each device that runs part of a loop gets its
// own small control loop, so that there is no central coordination of
// iterations (docs/design/021-partitions.md).
#ifndef SLUICE_PASSES_PARTITION_H_
#define SLUICE_PASSES_PARTITION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace sluice {

struct PartitionOptions {
  // Whether a device, by its name, has its own memory: tensors that leave it go
  // through _CopyFromDevice, tensors that enter it through _CopyToDevice. Null:
  // no device has.
  std::function<bool(const std::string&)> has_own_memory;
  // Whether device `to` can copy from the memory of device `from`; then a
  // number on `from` goes there through _CopyFromPeer, without the host. Only
  // asked if both have memory of their own. Null: none can.
  std::function<bool(const std::string& from, const std::string& to)> can_copy;
  // The step is fed in stages: no transfer may wait for more feeds than its own
  // value needs, so transfers with equal liveness are not grouped.
  bool staged = false;
};

struct Partitions {
  // By number of the partition. Nodes keep their names; those that several
  // partitions need (constants, Enters, pivots) are in each of them. New nodes
  // have names that are unused in the whole graph.
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<std::string> devices;
};

// Needs: connected, lowered, placed (passes/properties.h). Leaves in each
// graph: connected, lowered, placed, one device; of all together: complete,
// paired, same frame, in step, windowed (passes/partition_properties.h).
// Errors: Internal if a reference would have to cross devices; InvalidArgument
// for malformed control flow, and for a loop over several devices that does not
// have exactly one LoopCond. Takes time linear in nodes, edges and cuts.
Result<Partitions> Partition(const Graph& graph,
                             const PartitionOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_PASSES_PARTITION_H_
