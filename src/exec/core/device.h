// Device: where kernels run and tensors are stored. The CPU is one, and so is
// each accelerator (exec/devices/emulated_device.h has an emulated one).
//
//   SessionOptions options;
//   options.devices = CpuDevices(2);
//   Session session(graph, options);  // DeviceScope("/device:CPU:1") is one.
#ifndef SLUICE_EXEC_CORE_DEVICE_H_
#define SLUICE_EXEC_CORE_DEVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "exec/core/kernel.h"
#include "exec/core/stream.h"
#include "graph/device_name.h"
#include "tensor/buffer.h"

namespace sluice {

// One device of a process. Outlives the plans made for it; thread-safe.
//
// Kernels. A kernel issues its own work, so the plan and the executor are
// independent of devices. An accelerator's kernel enqueues its work in
// KernelContext::stream() and returns; work in a stream runs in order. Kernels
// that must wait for a stream, such as copies to the host, are async
// (Kernel::run_async, AwaitEvent).
//
// Memory. If a device has its own memory (host_memory() is false), each tensor
// that its kernels make or read there has a buffer, given back in the order of
// the streams (exec/core/stream_allocator.h), and partitioning
// inserts a _CopyFromDevice where the host reads a tensor in device memory (a
// Send, a fetch, a predicate) and a _CopyToDevice where a kernel of the device
// needs a host tensor (after a Recv or a feed; once for a constant). Between
// two devices of which one can copy from the other, a _CopyFromPeer after the
// Recv replaces both. An _AwaitDevice ends a step whose last kernels have no
// readers. The device makes these kernels like the others. Nodes that only move
// tokens and integer computations stay on the host: they have kRunsOnHostAttr
// (passes/partition.h).
class Device {
 public:
  explicit Device(DeviceName name) : name_(std::move(name)) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Complete: job, replica, task, type and number.
  const DeviceName& name() const { return name_; }
  // The allocator of the outputs and temporaries of its kernels.
  virtual Allocator* allocator() = 0;
  // The stream in which its kernels enqueue their work; null if they compute it
  // themselves.
  virtual Stream* stream() { return nullptr; }
  bool host_memory() { return allocator()->host_memory(); }
  // Whether a kernel of this device can copy from the memory of that one. Only
  // asked if both have memory of their own.
  virtual bool CanCopyFrom(const Device& /*from*/) const { return false; }
  // Makes the kernel of a node on this device. Unimplemented, with the reason,
  // if there is none. Placement also calls it to find out what can run here, so
  // it must be cheap and have no visible side effects.
  virtual Status MakeKernel(const Node& node, Kernel* kernel) = 0;

 private:
  const DeviceName name_;
};

// The cores and the memory of this machine.
class CpuDevice final : public Device {
 public:
  using Device::Device;
  Allocator* allocator() override { return Allocator::Cpu(); }
  Status MakeKernel(const Node& node, Kernel* kernel) override;
};

// Whether devices of this type ("CPU") have a kernel for the node in this
// program; used to place nodes on devices of other processes. Unregistered
// types are treated like the CPU.
Status HasKernel(const std::string& type, const Node& node);
using KernelCheck = Status (*)(const Node& node);
void RegisterDeviceType(const std::string& type, KernelCheck has_kernel);

// `count` devices: "/job:localhost/replica:0/task:0/device:CPU:0" and so on.
std::vector<std::shared_ptr<Device>> CpuDevices(int count);

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_DEVICE_H_
