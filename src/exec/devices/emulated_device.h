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
#include <vector>

#include "exec/core/device.h"
#include "exec/core/stream_allocator.h"
#include "exec/devices/emulated_clock.h"
#include "exec/devices/emulated_stream.h"

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
  // A copy from another emulated device of the same clock. 0 bytes per second:
  // it cannot copy from others.
  int64_t peer_ns = 10'000;
  double peer_bytes_per_s = 50e9;
  // A value that a loop with swap_memory saves is swapped to the host if it is
  // at least this large and this fraction of the device memory is in use.
  int64_t swap_min_bytes = 2048;
  double swap_above = 0.5;
  // The most that it keeps of the parameters of scheduled bodies
  // (exec/scheduling/parameter_cache.h). They are dropped, too, when an
  // allocation does not fit.
  int64_t parameter_bytes = INT64_MAX;
  // Record the work of the streams, for Timeline.
  bool record = false;
  // The device has the elements of a tensor only from the time at which its
  // work is done, and work whose inputs it does not have then writes NaN
  // (LateMemory). Slow: for tests of what runs beside each other. Needs a
  // VirtualClock.
  bool late = false;
  std::shared_ptr<EmulatedClock> clock = nullptr;  // Null: real time.
};

// Parses "memory=1G,kernel_us=5,tflops=10,gbytes_per_s=500,copy_us=10,
// copy_gbytes_per_s=12,peer_us=10,peer_gbytes_per_s=50,parameters=512M,
// OP_us=100"; each is optional.
Result<EmulatedDeviceOptions> ParseEmulatedDevice(std::string_view text);

// One piece of work of a stream, in ns of the clock.
struct StreamEvent {
  int stream = 0;  // EmulatedDevice::StreamKind.
  std::string node;
  int64_t start_ns = 0, end_ns = 0;
  int64_t bytes = 0;  // For copies.
};

class LateMemory;
class ParameterCache;

// Behaves like a GPU. Kernels are issued to one compute stream, which runs them
// in order, one at a time. For the host a kernel is finished when it is issued,
// so the host runs ahead of the device until it must read an element. Copies
// from and to the host and from other devices have a stream each; they start
// when their input has been computed, and the host sees them finish when they
// are done. Only copies wait, so no thread is blocked for the duration of a
// kernel.
//
// The values are computed on the CPU when the kernel is issued; the streams
// determine when they become available. Memory is given back in the order of
// the streams (StreamAllocator).
//
// It does not support strings, kernels that wait, and ops that print.
// Thread-safe; outlives its kernels. Its memory outlives it, for tensors that
// are still referenced.
class EmulatedDevice final : public Device {
 public:
  enum StreamKind { kCompute, kToHost, kFromHost, kPeer, kNumStreams };

  EmulatedDevice(DeviceName name, EmulatedDeviceOptions options);
  ~EmulatedDevice() override;

  Allocator* allocator() override { return allocator(kCompute); }
  Stream* stream() override { return stream(kCompute).get(); }
  bool CanCopyFrom(const Device& from) const override;
  Status MakeKernel(const Node& node, Kernel* kernel) override;

  const EmulatedDeviceOptions& options() const { return options_; }
  // The work of the streams since the last call; empty unless options().record.
  std::vector<StreamEvent> Timeline();
  // Total busy time of the stream in ns.
  int64_t BusyNs(StreamKind kind) const { return stream(kind)->BusyNs(); }
  // The time at which all work issued to the stream will be done.
  int64_t Position(StreamKind kind) const { return stream(kind)->Position(); }

  // ---- For its kernels.

  const std::shared_ptr<EmulatedStream>& stream(StreamKind kind) const {
    return streams_[kind].stream;
  }
  // Of memory for work in that stream.
  Allocator* allocator(StreamKind kind) const {
    return streams_[kind].allocator.get();
  }
  // Enqueues work of that duration; bytes: of a copy.
  EmulatedStream::Span Issue(StreamKind kind, const Node& node, int64_t ns,
                             int64_t bytes);
  // Enqueues a copy into the tensor, which was allocated for that stream.
  // Readers are in the compute stream.
  EmulatedStream::Span IssueCopy(StreamKind kind, const Node& node, int64_t ns,
                                 const Tensor& to);
  // Done when the elements of a tensor of this device have been written.
  std::shared_ptr<Event> Written(const Tensor& t) const;
  int64_t CopyNs(int64_t bytes) const;
  int64_t PeerNs(int64_t bytes) const;
  int64_t KernelNs(double flops, double bytes) const;
  EmulatedClock& clock() const { return *options_.clock; }
  // Null unless options().late.
  LateMemory* late_memory() const { return late_memory_; }
  // Whether a value of this size that a loop saves should be swapped out.
  bool ShouldSwap(const Tensor& value) const;
  // SwapOut makes a copy in host memory, which IsSwappedOut recognises.
  Result<Tensor> SwapOut(const Tensor& value);
  bool IsSwappedOut(const Tensor& value) const;
  // The copies of parameters that it keeps for the session with these
  // resources.
  Result<std::shared_ptr<ParameterCache>> Parameters(
      ResourceManager* resources);
  // Adds the device's name to an out-of-memory error of this device.
  Status Explain(Status s) const;

 private:
  struct HostCopies;
  struct Queue {
    std::shared_ptr<EmulatedStream> stream;
    std::unique_ptr<StreamAllocator> allocator;
  };

  const EmulatedDeviceOptions options_;
  LateMemory* late_memory_ = nullptr;  // Owned by the allocators' memory.
  Queue streams_[kNumStreams];
  const std::shared_ptr<HostCopies> host_copies_;
  const int64_t number_;  // Among those of the process.

  bool DropParameters(int64_t bytes);

  mutable std::mutex mu_;
  std::vector<StreamEvent> timeline_;  // GUARDED_BY(mu_)
  // Of the sessions that use it. GUARDED_BY(mu_)
  std::vector<std::weak_ptr<ParameterCache>> parameters_;
};

// One CPU, followed by `count` emulated devices
// "/job:localhost/replica:0/task:0/device:EMU:0" and so on, for
// SessionOptions::devices.
std::vector<std::shared_ptr<Device>> EmulatedDevices(
    int count, const EmulatedDeviceOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_EXEC_DEVICES_EMULATED_DEVICE_H_
