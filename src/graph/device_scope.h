// Devices of new nodes, beyond DeviceScope and ColocateWith (graph/builder.h).
//
// Scopes apply from the inside out, as in TensorFlow. A DeviceScope fills in
// what the scopes within it left open. A function sees what these gave, and
// what it returns counts instead. Within a ColocateWith none of the scopes
// around it apply: nodes have the device of the node that they are to be with.
//
//   const DeviceFunctionScope devices([](Node* node) {
//     const bool variable = node->op_name() == "VarHandleOp";
//     return variable ? "/device:CPU:1" : node->device();
//   });
//   Var w(Zeros({784, 10}), "w");  // On the second CPU.
#ifndef SLUICE_GRAPH_DEVICE_SCOPE_H_
#define SLUICE_GRAPH_DEVICE_SCOPE_H_

#include <functional>
#include <string>

#include "graph/builder.h"

namespace sluice {

// Gives the device of a node that was just made: all of it may be looked at,
// its inputs and what was inferred, too; its device is the one that the scopes
// within give it. Called once for each node, under the graph's mutex; makes no
// nodes.
using DeviceFunction = std::function<std::string(Node*)>;

// While one of these lives, this thread's new nodes get the device that the
// function says. What it says is checked like a scope's name. A local variable,
// as all scopes.
class DeviceFunctionScope {
 public:
  explicit DeviceFunctionScope(DeviceFunction choose);
  ~DeviceFunctionScope();
  DeviceFunctionScope(const DeviceFunctionScope&) = delete;
};

// The device that a NoOp would get now; functions see one of a graph of its
// own.
Result<std::string> DeviceOfNewNode();

// Gives a node that was made elsewhere (imported) the device that it would have
// if it were made now, asking for its own.
Status ApplyDeviceScopes(Node* node);

// While one of these lives, no scope around it says anything about devices, nor
// about colocation.
class NoDeviceScope {
 public:
  NoDeviceScope();
  ~NoDeviceScope();
  NoDeviceScope(const NoDeviceScope&) = delete;

 private:
  void* saved_;
};

}  // namespace sluice

#endif  // SLUICE_GRAPH_DEVICE_SCOPE_H_
