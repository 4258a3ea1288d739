// Placement: resolves the device constraint of each node of a graph to one
// device (docs/design/021-partitions.md).
#ifndef SLUICE_PASSES_PLACE_H_
#define SLUICE_PASSES_PLACE_H_

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/device_name.h"
#include "graph/node.h"

namespace sluice {

// A device that nodes may be placed on.
struct PlaceableDevice {
  DeviceName name;  // Complete.
  // OK if the node has a kernel there, else the reason why not. Devices of one
  // type have the same kernels; a type that has one for a node has one for all
  // nodes of the same op and types. Null: any node.
  std::function<Status(const Node&)> has_kernel;
};

// The device of a node, and the reason.
struct Placement {
  std::string node;
  std::string op;
  std::string asked;  // As in the graph; "" for none.
  std::string device;
  std::string reason;  // "requested", "with its input 'x'", ...
};

// Devices by name of the nodes that keep state between steps (variables, random
// streams): they stay on the device of an earlier step.
using StateDevices = std::unordered_map<std::string, std::string>;

struct PlacementOptions {
  std::vector<PlaceableDevice> devices;  // At least one, by preference.
  // Preferred among the possible devices of a node, if neither its constraint
  // nor its inputs decide: for example the task that runs the step.
  DeviceName default_device;
  // If true, a node without a kernel on the requested device, or that must
  // share a device with a node that requests another one, is placed on a device
  // of the requested task that has a kernel, a CPU if possible. If false, both
  // are errors.
  bool soft_placement = false;
  // Kept by the session for its graph; read and extended. Null: there are no
  // other steps.
  StateDevices* state = nullptr;
  // The graph that this one was pruned from, if any: a node that a "loc:@"
  // group is named after may exist only there. Outlives the call.
  const Graph* whole = nullptr;
  // Receives an entry for each node, in order of ids. May be null.
  std::vector<Placement>* log = nullptr;
};

// Assigns the complete name of one device to every node of a pruned and
// optimised graph. Needs: connected, lowered. Leaves: placed. Takes time linear
// in nodes and edges; deterministic.
//
// The following share one device: the ends of a reference or resource edge (so
// a handle, all nodes that it passes through and all its users; a call's
// arguments count as those of the function); nodes of one "loc:@" group and the
// node it is named after, even if that is pruned; a NextIteration and its
// Merge; the calls of a function that runs as a frame, its arguments and its
// results (a NextIteration follows its Merge regardless of its own constraint,
// and such calls follow the first one that has a constraint). The ends of an
// edge of lists and other variants share a device if possible. A group is
// placed on a device that all of its nodes allow. Nodes with a choice are
// placed, in this order, with their inputs, with their readers (constants,
// feeds, and inputs of loops), or on the first possible device; variables
// directly on the first one.
//
// InvalidArgument: an invalid device name, a device that does not exist or has
// no kernel, nodes that must share a device and request different ones. The
// message names the nodes, their requested devices and lines, and the available
// devices.
Status Place(Graph* graph, const PlacementOptions& options);

// The log as a readable table: name, op, device, reason, in columns.
std::string FormatPlacements(const std::vector<Placement>& log);

}  // namespace sluice

#endif  // SLUICE_PASSES_PLACE_H_
