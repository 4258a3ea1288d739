// Partition: one graph over many devices becomes one graph for each, with
// _Send and _Recv where an edge was cut. Conditionals, loops and functions that
// call themselves may be cut anywhere: each device that runs part of a loop
// gets a small control loop of its own, so that no one is in the middle of an
// iteration (docs/design/021-partitions.md).
#ifndef SLUICE_PASSES_PARTITION_H_
#define SLUICE_PASSES_PARTITION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace sluice {

// On a node whose device has its own memory: it runs on the host (passes/
// partition_memory.cc), as do its inputs and outputs lie there.
inline constexpr const char* kRunsOnHost = "_runs_on_host";

struct PartitionOptions {
  // Whether the memory of a device, by its name, is not the host's: what leaves
  // it goes through _CopyFromDevice, what comes through _CopyToDevice. Null: no
  // device's is.
  std::function<bool(const std::string&)> has_own_memory;
  // The step is fed in stages: no transfer waits for more feeds than what it
  // carries, so none stands for others that live or die with it.
  bool staged = false;
};

struct Partitions {
  // By number of the partition. Nodes keep their names; those that several
  // partitions need (constants, Enters, pivots) are in each of these. New nodes
  // have names that the whole graph did not have.
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<std::string> devices;
};

// `graph` is what a step runs (pruned, functional nodes lowered), each node
// with a device. Errors: Internal where a reference would have to cross;
// InvalidArgument for malformed control flow, and for a loop over several
// devices that has not one LoopCond. Takes time linear in nodes, edges and what
// is cut.
Result<Partitions> Partition(const Graph& graph,
                             const PartitionOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_PASSES_PARTITION_H_
