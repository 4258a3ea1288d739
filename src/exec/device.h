// Device: where kernels run and tensors lie. The CPU is one; so is each
// accelerator (exec/emulated_device.h has an emulated one).
//
//   SessionOptions options;
//   options.devices = CpuDevices(2);
//   Session session(graph, options);  // DeviceScope("/device:CPU:1") is one.
#ifndef SLUICE_EXEC_DEVICE_H_
#define SLUICE_EXEC_DEVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "exec/kernel.h"
#include "graph/device_name.h"
#include "tensor/buffer.h"

namespace sluice {

// One device of a process. Outlives the plans made for it; thread-safe.
//
// Kernels. How one is issued is the kernel's matter, so neither plan nor
// executor know of devices. That of an accelerator puts its work into a stream
// of the device and is over for the host: the next one in the stream comes
// after it. What must wait for a stream is async (Kernel::run_async): copies to
// the host.
//
// Memory. Where memory is not the host's (host_memory() is false), partitioning
// puts a _CopyFromDevice where the host looks at a tensor that lies on the
// device (a Send, a fetch, a predicate) and a _CopyToDevice where a kernel of
// the device needs one of the host's (after a Recv or a feed; of a constant:
// once); an _AwaitDevice ends a step whose last kernels nobody reads. The
// device makes these kernels as it makes the others. What only moves tokens and
// what is computed of integers stay on the host: nodes that have kRunsOnHost
// (passes/partition.h).
class Device {
 public:
  explicit Device(DeviceName name) : name_(std::move(name)) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Complete: job, replica, task, type and number.
  const DeviceName& name() const { return name_; }
  // Memory of outputs and temporaries of its kernels.
  virtual Allocator* allocator() = 0;
  virtual bool host_memory() const { return true; }
  // The kernel of a node here. Unimplemented, with the reason, if there is
  // none. Also how placement learns what may be placed here, so it is cheap and
  // makes no state that is seen elsewhere.
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

// Whether devices of this type ("CPU") have a kernel for the node, in this
// program: for who places on devices of other processes. A type that nobody
// has registered is taken to be as the CPU.
Status HasKernel(const std::string& type, const Node& node);
using KernelCheck = Status (*)(const Node& node);
void RegisterDeviceType(const std::string& type, KernelCheck has_kernel);

// "/job:localhost/replica:0/task:0/device:CPU:0" and on, as many as asked for.
std::vector<std::shared_ptr<Device>> CpuDevices(int count);

}  // namespace sluice

#endif  // SLUICE_EXEC_DEVICE_H_
