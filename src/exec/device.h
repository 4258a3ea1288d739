// Device: where kernels run and tensors lie. The CPU is one; so is each
// accelerator (exec/emulated_device.h has an emulated one).
#ifndef SLUICE_EXEC_DEVICE_H_
#define SLUICE_EXEC_DEVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "exec/kernel.h"
#include "graph/device_name.h"
#include "tensor/buffer.h"

namespace sluice {

// One device of a process. Outlives the plans made for it; thread-safe. How a
// kernel is issued is the kernel's matter: that of an accelerator is async
// (Kernel::run_async), puts the work into one of the device's streams and is
// done when the stream has come past it. So neither plan nor executor know of
// devices.
//
// Memory. Where memory is not the host's (host_memory() is false), partitioning
// puts a _CopyFromDevice before each _Send on this device and a _CopyToDevice
// after each _Recv; the device makes these kernels as it makes the others. What
// only moves tokens (control flow, Send, Recv) and constants stay on the host.
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
  // The kernel of a node here. Unimplemented, with the reason, if there is none.
  // Also how placement learns what may be placed here, so it is cheap and makes
  // no state that is seen elsewhere.
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

// "/job:localhost/replica:0/task:0/device:CPU:0" and on, as many as asked for.
std::vector<std::shared_ptr<Device>> CpuDevices(int count);

}  // namespace sluice

#endif  // SLUICE_EXEC_DEVICE_H_
