// Placement of the state of a replicated model: device functions that spread
// variables over the tasks of one job and place all other nodes on another job.
//
//   const DeviceFunctionScope devices(ReplicaDeviceSetter(
//       {.ps_tasks = 2, .worker_device = "/job:worker/task:3"}));
//   Var w(Zeros({784, 10}), "w");      // On /job:ps/task:0.
//   Var b(Zeros({10}), "b");           // On /job:ps/task:1.
//   Output y = ops::MatMul(x, w) + b;  // On /job:worker/task:3.
#ifndef SLUICE_CLIENT_DEVICE_PLACEMENT_H_
#define SLUICE_CLIENT_DEVICE_PLACEMENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/device_scope.h"

namespace sluice {

// Chooses the task (0, 1, ...) that keeps the state that a node creates. A
// strategy may have state, which its copies share; to repeat the same choices
// for the same program, use a new strategy.
using TaskStrategy = std::function<int(const Node&)>;

// 0, 1, ..., tasks - 1, 0, ...
TaskStrategy RoundRobin(int tasks);

// The load that a node's state puts on a task.
using StateLoad = std::function<double(const Node&)>;
// The size of a variable in bytes, by its dtype and shape (an unknown dimension
// counts as 1, a string as 8 bytes); 1 for other state.
double BytesOfState(const Node& node);
// The task with the least load so far, the first one on a tie. (It does not
// look ahead: large variables that come late may unbalance the load.) Null:
// BytesOfState.
TaskStrategy LeastLoaded(int tasks, StateLoad load = BytesOfState);

struct ReplicaDeviceOptions {
  // The number of tasks that keep state; 0: no node gets a device.
  int ps_tasks = 0;
  std::string ps_device = "/job:ps";
  std::string worker_device = "/job:worker";
  // Ops that create state; empty: variables, tables and accumulators. (Ops that
  // use the state are colocated with it through its references and handles.)
  std::vector<std::string> ps_ops = {};
  TaskStrategy strategy = nullptr;  // Null: RoundRobin(ps_tasks).
};

// Nodes that create state get `ps_device` and a task, all others
// `worker_device`; either fills in only what the inner scopes leave open. State
// that the inner scopes place on another job than that of `ps_device` gets no
// task. Corresponds to TensorFlow's replica_device_setter.
DeviceFunction ReplicaDeviceSetter(ReplicaDeviceOptions options);

}  // namespace sluice

#endif  // SLUICE_CLIENT_DEVICE_PLACEMENT_H_
