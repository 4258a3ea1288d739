// Properties of the graphs that Partition makes, taken together (those of each
// graph are in passes/properties.h). The phases of the partitioner say which
// they leave (passes/partitioner.h); builds with assertions check after each
// phase that these hold.
#ifndef SLUICE_PASSES_PARTITION_PROPERTIES_H_
#define SLUICE_PASSES_PARTITION_PROPERTIES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace sluice {

// A set of these, combined by |.
enum PartitionProperty : uint32_t {
  // Each node of the whole graph is in a partition; a compute node is in the
  // partition of its device and in no other, so that it runs once.
  kComplete = 1,
  // Each _Send has exactly one _Recv in the partition that it names, and the
  // reverse: with the same edge and group, of the same kind and type. Exactly
  // one _Send of each group leads it.
  kPaired = 2,
  // Both ends of a transfer are in the same frame, so that their keys agree in
  // each iteration. Needs: kConnected.
  kSameFrame = 4,
  // Each partition with a part of a loop that repeats advances its iterations
  // by the loop's predicate: it has the LoopCond or receives its value. Each
  // partition with a part of a function has all calls of it. Needs: kConnected,
  // kPaired.
  kInStep = 8,
  // The partition with the LoopCond of a loop receives something in each
  // iteration from every other partition that runs a part of the loop, directly
  // or through others of these. Needs: kConnected, kPaired.
  kWindowed = 16,
};
using PartitionProperties = uint32_t;

constexpr PartitionProperties kPartitioned =
    kComplete | kPaired | kSameFrame | kInStep | kWindowed;

// Internal, naming the property and a node, if one does not hold. `graphs` and
// `devices` are those of Partitions, `whole` is the graph that was partitioned.
// Takes time linear in nodes, edges and (frames times partitions), and in
// (loops times transfers) for kInStep.
Status CheckPartitions(const Graph& whole,
                       const std::vector<std::unique_ptr<Graph>>& graphs,
                       const std::vector<std::string>& devices,
                       PartitionProperties properties);

}  // namespace sluice

#endif  // SLUICE_PASSES_PARTITION_PROPERTIES_H_
