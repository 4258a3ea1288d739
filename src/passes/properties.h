// Properties of the graph of a step. Each pass needs some and leaves some
// (passes/passes.h, place.h, partition.h, stage.h say which); builds with
// assertions check after each pass that they hold. What holds between the
// partitions of a step is in passes/partition_properties.h.
#ifndef SLUICE_PASSES_PROPERTIES_H_
#define SLUICE_PASSES_PROPERTIES_H_

#include <cstdint>

#include "graph/node.h"

namespace sluice {

// A set of these, combined by |.
enum StepProperty : uint32_t {
  // Every input of every node is connected to a node of the graph.
  kConnected = 1,
  // No functional op is left: conditionals, loops and calls are primitives and
  // _Call.
  kLowered = 2,
  // Every node has a device.
  kPlaced = 4,
  // All nodes have the same device.
  kOneDevice = 8,
  // Values enter and leave by transfers: no _Arg or _Retval is left but those
  // of functions.
  kOpenEnds = 16,
};
using StepProperties = uint32_t;

// Internal, naming the property and a node, if one does not hold. Takes time
// linear in nodes and edges.
Status CheckProperties(const Graph& graph, StepProperties properties);

// CheckProperties after `pass` in builds with assertions; OK in others.
inline Status CheckAfter([[maybe_unused]] const char* pass,
                         [[maybe_unused]] const Graph& graph,
                         [[maybe_unused]] StepProperties properties) {
#ifdef NDEBUG
  return OkStatus();
#else
  const Status s = CheckProperties(graph, properties);
  return s.ok() ? s : Internal("after ", pass, ": ", s.message());
#endif
}

}  // namespace sluice

#endif  // SLUICE_PASSES_PROPERTIES_H_
