// EmulatedDevice: an accelerator that is not there. It computes what the CPU
// computes, and takes the time and the memory that it is told to.
//
//   SessionOptions options;
//   options.devices = EmulatedDevices(2, {.memory_bytes = 1 << 30});
//   Session session(graph, options);  // DeviceScope("/device:EMU:1") is one.
#ifndef SLUICE_EXEC_EMULATED_DEVICE_H_
#define SLUICE_EXEC_EMULATED_DEVICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exec/device.h"
#include "exec/emulated_clock.h"

namespace sluice {

struct EmulatedDeviceOptions {
  int64_t memory_bytes = int64_t{4} << 30;
  // A kernel takes what `op_ns` says of its op; else kernel_ns, and what its
  // arithmetic or its memory takes on top, whichever is longer. What moves no
  // element (Reshape, TensorArrayRead, ...) takes no time.
  std::map<std::string, int64_t, std::less<>> op_ns = {};
  int64_t kernel_ns = 5'000;
  double flops_per_s = 10e12;
  double bytes_per_s = 500e9;
  // A copy from or to the host's memory.
  int64_t copy_ns = 10'000;
  double copy_bytes_per_s = 12e9;
  // What a loop saves with swap_memory goes to the host's memory if it is at
  // least so large and so much of the device's is taken.
  int64_t swap_min_bytes = 2048;
  double swap_above = 0.5;
  // Keep what the streams did, for Timeline.
  bool record = false;
  std::shared_ptr<EmulatedClock> clock = nullptr;  // Null: real time.
};

// "memory=1G,kernel_us=5,tflops=10,gbytes_per_s=500,copy_us=10,
// copy_gbytes_per_s=12,OP_us=100": each may be left out.
Result<EmulatedDeviceOptions> ParseEmulatedDevice(std::string_view text);

// One piece of work of a stream, in ns of the clock.
struct StreamEvent {
  int stream = 0;  // EmulatedDevice::Stream.
  std::string node;
  int64_t start_ns = 0, end_ns = 0;
  int64_t bytes = 0;  // Of a copy.
};

// As a GPU is driven. Kernels are issued to one compute stream, where they are
// done in that order, one at a time; for the host a kernel is over when it is
// issued, so it runs ahead of the device until it must see an element. Copies
// from and to the host have a stream each, start when what they read has been
// computed, and end for the host when they are done. Only they wait, so no
// thread is held for as long as a kernel takes.
//
// What an element is, is known when the kernel is issued (the CPU computes it
// then); when it is known, the streams say. Memory is taken and given back in
// the order in which kernels are issued, as an allocator of one stream does.
//
// Strings, kernels that wait and calls that print are no matter for it. Thread-
// safe; outlives its kernels. Its allocator outlives it, for tensors that are
// still held.
class EmulatedDevice final : public Device {
 public:
  enum Stream { kCompute, kToHost, kFromHost, kNumStreams };

  EmulatedDevice(DeviceName name, EmulatedDeviceOptions options);
  ~EmulatedDevice() override;

  Allocator* allocator() override { return allocator_; }
  bool host_memory() const override { return false; }
  Status MakeKernel(const Node& node, Kernel* kernel) override;

  const EmulatedDeviceOptions& options() const { return options_; }
  // What the streams did since the last call; empty unless options().record.
  std::vector<StreamEvent> Timeline();
  // How long the stream has worked at all, in ns.
  int64_t BusyNs(Stream stream) const;

  // ---- For its kernels.

  // Puts work into a stream, behind what is there, not before `ready`. Returns
  // when it will be done.
  int64_t Issue(Stream stream, const Node& node, int64_t ns, int64_t bytes,
                int64_t ready = 0);
  // When all that was issued to the stream will be done.
  int64_t Position(Stream stream) const;
  // Notes when a tensor of this device will be there, and when that is (for one
  // in a register: when all that was issued is).
  void WillBeReady(const Tensor& t, int64_t when);
  int64_t ReadyAt(const Tensor& t) const;
  int64_t CopyNs(int64_t bytes) const;
  int64_t KernelNs(double flops, double bytes) const;
  EmulatedClock& clock() const { return *options_.clock; }
  // Whether a value of this size that a loop saves should leave the memory.
  bool ShouldSwap(const Tensor& value) const;
  // A copy in the host's memory that IsOnHost knows, and whether it is one.
  Result<Tensor> SwapOut(const Tensor& value);
  bool IsSwappedOut(const Tensor& value) const;
  // An error of this device's memory names it.
  Status Explain(Status s) const;

 private:
  struct HostCopies;

  const EmulatedDeviceOptions options_;
  Allocator* const allocator_;  // Of the process; see TakeAllocator.
  const std::shared_ptr<HostCopies> host_copies_;

  mutable std::mutex mu_;
  int64_t busy_until_[kNumStreams] = {};  // GUARDED_BY(mu_)
  int64_t busy_ns_[kNumStreams] = {};     // GUARDED_BY(mu_)
  std::vector<StreamEvent> timeline_;     // GUARDED_BY(mu_)
  // By where the elements lie. GUARDED_BY(mu_)
  std::unordered_map<const void*, int64_t> ready_;
  size_t most_ready_ = 4096;  // GUARDED_BY(mu_): then it is tidied.
};

// "/job:localhost/replica:0/task:0/device:EMU:0" and on, beside one CPU, which
// comes first: what SessionOptions::devices takes.
std::vector<std::shared_ptr<Device>> EmulatedDevices(
    int count, const EmulatedDeviceOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_EXEC_EMULATED_DEVICE_H_
