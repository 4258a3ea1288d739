// Placement: turns the constraint that each node of a graph carries into one
// device (docs/design/021-partitions.md).
#ifndef SLUICE_PASSES_PLACE_H_
#define SLUICE_PASSES_PLACE_H_

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/device_name.h"
#include "graph/graph.h"

namespace sluice {

// A device that nodes may be placed on.
struct PlaceableDevice {
  DeviceName name;  // Complete.
  // Ok if the node has a kernel there, else why not. Devices of one type have
  // the same kernels; a type that has one for a node has one for all nodes of
  // the same op and types. Null: any node.
  std::function<Status(const Node&)> has_kernel;
};

// Where a node went, and why.
struct Placement {
  std::string node;
  std::string op;
  std::string asked;  // As in the graph; "" for nothing.
  std::string device;
  std::string reason;  // "asked for", "with its input 'x'", ...
};

// Devices by the names of nodes that keep something between steps (variables,
// random streams): they stay where an earlier step put them.
using StateDevices = std::unordered_map<std::string, std::string>;

struct PlacementOptions {
  std::vector<PlaceableDevice> devices;  // At least one; the first ones first.
  // Of the devices that a node may have these come first, where neither what it
  // asks for nor its inputs say more: the task of whoever runs the step, say.
  DeviceName default_device;
  // A node with no kernel on what it asks for, or that must be with a node that
  // asks for another device, goes to a device of the task that it asks for that
  // has one, a CPU if possible. Else both are errors.
  bool soft_placement = false;
  // Kept by the session for its graph; read and added to. Null: there are no
  // other steps.
  StateDevices* state = nullptr;
  // What the graph was pruned from, unless it is whole: a node that gives a
  // "loc:@" group its name may be only there. Outlives the call.
  const Graph* whole = nullptr;
  // Gets a line for each node, in order of their ids. May be null.
  std::vector<Placement>* log = nullptr;
};

// Gives every node of a graph that has been pruned and optimised the complete
// name of one device. Takes time linear in nodes and edges; the same graph
// gives the same placement.
//
// One device have: the ends of a reference or resource edge (so a handle, all
// that it goes through and all its users; a call's arguments count as those of
// the function); nodes of one "loc:@" group, with the one that it is named
// after, be it pruned; a NextIteration and its Merge; the calls of a function
// that runs as a frame, its arguments and its results (a NextIteration goes
// with its Merge whatever it asks for, and such a call with the first that
// asks). The ends of an edge of lists and other variants do where that is
// possible. Such a group goes where all of it may go. Nodes that leave a choice
// go, in this order, where what they read lies, where their readers are
// (constants, fed values, and what enters loops), or to the first device that
// they may have; variables to the first one at once.
//
// InvalidArgument: a name that is none, a device that does not exist or has no
// kernel, nodes that must share a device and ask for different ones. It names
// the nodes, what they ask for, their lines, and what there is.
Status Place(Graph* graph, const PlacementOptions& options);

// The log as a table for people: name, op, device, reason, in columns.
std::string FormatPlacements(const std::vector<Placement>& log);

}  // namespace sluice

#endif  // SLUICE_PASSES_PLACE_H_
