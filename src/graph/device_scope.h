// Devices of new nodes, beyond DeviceScope and ColocateWith (graph/builder.h).
//
// Scopes apply from the inside out, as in TensorFlow. A DeviceScope fills in
// the parts that the scopes within it left open. A device function sees the
// result of the scopes within it, and its own result replaces that. Within a
// ColocateWith none of the enclosing scopes apply: nodes get the device of the
// node they are colocated with.
//
//   const DeviceFunctionScope devices([](Node* node) {
//     const bool variable = node->kind() == OpKind::kVarHandle;
//     return variable ? "/device:CPU:1" : node->device();
//   });
//   Var w(Zeros({784, 10}), "w");  // On the second CPU.
#ifndef SLUICE_GRAPH_DEVICE_SCOPE_H_
#define SLUICE_GRAPH_DEVICE_SCOPE_H_

#include <functional>
#include <string>

#include "graph/builder.h"

namespace sluice {

// Returns the device of a node that was just made. The function may inspect the
// whole node, including inputs and inferred attributes and shapes;
// node->device() is the result of the inner scopes. Called once for each node,
// under the graph's mutex; must not add nodes.
using DeviceFunction = std::function<std::string(Node*)>;

// RAII scope in which this thread's new nodes get the device that the function
// returns. The result is checked like the name of a DeviceScope. Make it a
// local variable, as all scopes.
class DeviceFunctionScope {
 public:
  explicit DeviceFunctionScope(DeviceFunction choose);
  ~DeviceFunctionScope();
  DeviceFunctionScope(const DeviceFunctionScope&) = delete;
};

// The device that a NoOp would get now; device functions see a NoOp of a
// temporary graph.
Result<std::string> DeviceOfNewNode();

// Sets the device of an imported node as if it were built now with its own
// device requested.
Status ApplyDeviceScopes(Node* node);

// RAII scope in which the device and colocation scopes around it do not apply.
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
