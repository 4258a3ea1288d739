// EmulatedDevice: an emulated accelerator. It computes on the CPU and takes the
// time and the memory that its options specify.
//
//   SessionOptions options;
//   options.devices = EmulatedDevices(2, {.memory_bytes = 1 << 30});
//   Session session(graph, options);  // DeviceScope("/device:EMU:1") is one.
#ifndef SLUICE_EXEC_DEVICES_EMULATED_DEVICE_H_
#define SLUICE_EXEC_DEVICES_EMULATED_DEVICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exec/core/device.h"
#include "exec/devices/emulated_clock.h"

namespace sluice {

struct EmulatedDeviceOptions {
  int64_t memory_bytes = int64_t{4} << 30;
  // A kernel takes the time in `op_ns` for its op; else kernel_ns plus the time
  // of its arithmetic or of its memory traffic, whichever is longer. Ops that
  // move no elements (Reshape, TensorArrayRead, ...) take no time.
  std::map<std::string, int64_t, std::less<>> op_ns = {};
  int64_t kernel_ns = 5'000;
  double flops_per_s = 10e12;
  double bytes_per_s = 500e9;
  // A copy from or to the host's memory.
  int64_t copy_ns = 10'000;
  double copy_bytes_per_s = 12e9;
  // A value that a loop with swap_memory saves is swapped to the host if it is
  // at least this large and this fraction of the device memory is in use.
  int64_t swap_min_bytes = 2048;
  double swap_above = 0.5;
  // Record the work of the streams, for Timeline.
  bool record = false;
  std::shared_ptr<EmulatedClock> clock = nullptr;  // Null: real time.
};

// Parses "memory=1G,kernel_us=5,tflops=10,gbytes_per_s=500,copy_us=10,
// copy_gbytes_per_s=12,OP_us=100"; each is optional.
Result<EmulatedDeviceOptions> ParseEmulatedDevice(std::string_view text);

// One piece of work of a stream, in ns of the clock.
struct StreamEvent {
  int stream = 0;  // EmulatedDevice::Stream.
  std::string node;
  int64_t start_ns = 0, end_ns = 0;
  int64_t bytes = 0;  // For copies.
};

// Behaves like a GPU. Kernels are issued to one compute stream, which runs them
// in order, one at a time. For the host a kernel is finished when it is issued,
// so the host runs ahead of the device until it must read an element. Copies
// from and to the host have a stream each; they start when their input has been
// computed, and the host sees them finish when they are done. Only copies wait,
// so no thread is blocked for the duration of a kernel.
//
// The values are computed on the CPU when the kernel is issued; the streams
// determine when they become available. Memory is allocated and freed in the
// order in which kernels are issued, as by a stream-ordered allocator.
//
// It does not support strings, kernels that wait, and ops that print.
// Thread-safe; outlives its kernels. Its allocator outlives it, for tensors
// that are still referenced.
class EmulatedDevice final : public Device {
 public:
  enum Stream { kCompute, kToHost, kFromHost, kNumStreams };

  EmulatedDevice(DeviceName name, EmulatedDeviceOptions options);
  ~EmulatedDevice() override;

  Allocator* allocator() override { return allocator_; }
  bool host_memory() const override { return false; }
  Status MakeKernel(const Node& node, Kernel* kernel) override;

  const EmulatedDeviceOptions& options() const { return options_; }
  // The work of the streams since the last call; empty unless options().record.
  std::vector<StreamEvent> Timeline();
  // Total busy time of the stream in ns.
  int64_t BusyNs(Stream stream) const;

  // ---- For its kernels.

  // Enqueues work in a stream, to start not before `ready`. Returns the time at
  // which it will be done.
  int64_t Issue(Stream stream, const Node& node, int64_t ns, int64_t bytes,
                int64_t ready = 0);
  // The time at which all work issued to the stream will be done.
  int64_t Position(Stream stream) const;
  // WillBeReady records when a tensor of this device will be ready; ReadyAt
  // returns that time (for a tensor without a buffer: when all issued work is
  // done).
  void WillBeReady(const Tensor& t, int64_t when);
  int64_t ReadyAt(const Tensor& t) const;
  int64_t CopyNs(int64_t bytes) const;
  int64_t KernelNs(double flops, double bytes) const;
  EmulatedClock& clock() const { return *options_.clock; }
  // Whether a value of this size that a loop saves should be swapped out.
  bool ShouldSwap(const Tensor& value) const;
  // SwapOut makes a copy in host memory, which IsSwappedOut recognises.
  Result<Tensor> SwapOut(const Tensor& value);
  bool IsSwappedOut(const Tensor& value) const;
  // Adds the device's name to an out-of-memory error of this device.
  Status Explain(Status s) const;

 private:
  struct HostCopies;

  const EmulatedDeviceOptions options_;
  Allocator* const allocator_;  // Owned by the process; see TakeAllocator.
  const std::shared_ptr<HostCopies> host_copies_;

  mutable std::mutex mu_;
  int64_t busy_until_[kNumStreams] = {};  // GUARDED_BY(mu_)
  int64_t busy_ns_[kNumStreams] = {};     // GUARDED_BY(mu_)
  std::vector<StreamEvent> timeline_;     // GUARDED_BY(mu_)
  // By address of the elements. GUARDED_BY(mu_)
  std::unordered_map<const void*, int64_t> ready_;
  size_t most_ready_ = 4096;  // GUARDED_BY(mu_): size at which it is pruned.
};

// One CPU, followed by `count` emulated devices
// "/job:localhost/replica:0/task:0/device:EMU:0" and so on, for
// SessionOptions::devices.
std::vector<std::shared_ptr<Device>> EmulatedDevices(
    int count, const EmulatedDeviceOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_EXEC_DEVICES_EMULATED_DEVICE_H_
