// Where the state of a replicated model lives: device functions that spread
// variables over the tasks of one job and leave the rest to another.
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

// Chooses the task, of 0, 1, ..., that is to keep the state that a node makes.
// It may remember what it chose (copies of it share that), so the same program
// gives the same choices only with a strategy of its own.
using TaskStrategy = std::function<int(const Node&)>;

// 0, 1, ..., tasks - 1, 0, ...
TaskStrategy RoundRobin(int tasks);

// What a node's state costs a task.
using StateLoad = std::function<double(const Node&)>;
// The bytes of a variable, as its dtype and shape say (a dimension that is not
// known counts as 1, a string as 8 bytes); 1 for other state.
double BytesOfState(const Node& node);
// The task with the least load so far; of several the first. (Big variables
// that come late may unbalance it: it does not look ahead.) Null: BytesOfState.
TaskStrategy LeastLoaded(int tasks, StateLoad load = BytesOfState);

struct ReplicaDeviceOptions {
  // How many tasks keep state; 0: none, and no node gets a device.
  int ps_tasks = 0;
  std::string ps_device = "/job:ps";
  std::string worker_device = "/job:worker";
  // What makes state; empty: variables, tables and accumulators. (The ops on it
  // are where it is, by its references and handles.)
  std::vector<std::string> ps_ops = {};
  TaskStrategy strategy = nullptr;  // Null: RoundRobin(ps_tasks).
};

// The nodes that make state get `ps_device` and a task, others `worker_device`;
// in both cases filling in what the scopes within leave open. State that these
// send to another job than that of `ps_device` gets no task. TensorFlow's
// replica_device_setter.
DeviceFunction ReplicaDeviceSetter(ReplicaDeviceOptions options);

}  // namespace sluice

#endif  // SLUICE_CLIENT_DEVICE_PLACEMENT_H_
