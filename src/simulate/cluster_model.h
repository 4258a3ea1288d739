// The cluster that a step is simulated on: machines, tasks, devices, and what
// messages and kernels cost there (docs/design/048-simulator-and-placement.md).
#ifndef SLUICE_SIMULATE_CLUSTER_MODEL_H_
#define SLUICE_SIMULATE_CLUSTER_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/device_name.h"

namespace sluice {

// What the runtime itself costs. Times in nanoseconds of one core. The defaults
// are round numbers, assumed and not measured; `sluice calibrate` measures a
// machine.
struct RuntimeCosts {
  double node_ns = 60;       // A node that only moves tokens.
  double kernel_ns = 150;    // Calling a kernel, besides its work.
  double token_ns = 150;     // A token at either end of a transfer.
  double send_ns = 3000;     // A message to another task: the sender's part...
  double receive_ns = 5000;  // ...and the receiver's.
  double hop_ns = 8000;      // From the end of one to the begin of the other,
                             // between processes of one machine.
  double step_ns = 60000;    // A step: client and master, all tasks together.
  double task_ns = 10000;    // A step's begin and end in one task.
  double copy_bytes_per_s = 4e9;  // Between processes of one machine, at either
                                  // end; also what a network costs a core.
};

// A host. Its tasks share its cores and its network interface.
struct MachineModel {
  std::string name;
  int cores = 1;
  double bytes_per_s = 1.25e9;  // Of the network, in each direction.
  double latency_ns = 20000;    // To another machine, besides hop_ns.
};

// A process: "/job:<job>/replica:0/task:<task>".
struct TaskModel {
  std::string job;
  int task = 0;
  int machine = 0;  // Place in ClusterModel::machines.
};

// A device of a task. Kernels of a CPU take turns on the cores of the machine,
// those of any other device on the device itself, one at a time.
struct DeviceModel {
  DeviceName name;                 // Complete.
  int task = 0;                    // Place in ClusterModel::tasks.
  double flops = 5e10;             // Per second, one core or the device.
  double bytes_per_s = 1e10;       // Of its memory, read or written.
  double peer_bytes_per_s = 1e10;  // To and from the memory of the host.
  double launch_ns = 0;            // Added to each kernel.
  int64_t memory_bytes = 0;        // 0: unlimited.
  bool is_cpu() const { return name.type == "CPU"; }
};

// Plain data; whoever makes it may change it until it is passed on.
struct ClusterModel {
  RuntimeCosts costs;
  std::vector<MachineModel> machines;
  std::vector<TaskModel> tasks;
  std::vector<DeviceModel> devices;

  // `count` tasks of a job on `machine` (-1: each on a machine of its own, made
  // like `like`), each with CPU:0 like `cpu`.
  void AddTasks(const std::string& job, int count, int machine,
                const MachineModel& like, const DeviceModel& cpu = {});
  // The place of the device with this complete name; -1 if there is none.
  int FindDevice(const std::string& name) const;
  // InvalidArgument names the first value that is out of range: a place that
  // does not exist, a rate or a number of cores that is not positive, a device
  // or a task named twice, an incomplete device name.
  Status Check() const;
};

}  // namespace sluice

#endif  // SLUICE_SIMULATE_CLUSTER_MODEL_H_
