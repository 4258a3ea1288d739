// Memory of tensors: reference-counted buffers and the allocators that make
// them.
#ifndef SLUICE_TENSOR_BUFFER_H_
#define SLUICE_TENSOR_BUFFER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"

namespace sluice {

class HostAllocator;

// A block of memory shared by the tensors that view it (slices, reshapes).
// Reference-counted: the last Unref frees it. The count is thread-safe; the
// contents may be written only by a sole owner (unique()).
class Buffer {
 public:
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void Ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() {
    // A sole owner need not pay for an atomic read-modify-write.
    if (refs_.load(std::memory_order_acquire) == 1 ||
        refs_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      Free();
  }
  // True if no other reference would see a write.
  bool unique() const {
    return refs_.load(std::memory_order_acquire) == 1 && !borrowed_;
  }
  // True if the memory is lent for one step: only its owner writes to it, after
  // the step. Values that outlive the step must be copies
  // (KernelContext::TakeToKeep).
  bool borrowed() const { return borrowed_; }
  // False if only kernels of its device may access the memory.
  bool host_memory() const { return host_memory_; }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 protected:
  struct Traits {
    bool borrowed = false;
    bool host_memory = true;
  };
  Buffer(void* data, size_t bytes) : Buffer(data, bytes, Traits()) {}
  Buffer(void* data, size_t bytes, Traits traits)
      : borrowed_(traits.borrowed),
        host_memory_(traits.host_memory),
        data_(data),
        bytes_(bytes) {}
  virtual ~Buffer() = default;
  virtual void Free() { delete this; }
  void set_data(void* data) { data_ = data; }

 private:
  std::atomic<int32_t> refs_{1};
  const bool borrowed_;
  const bool host_memory_;
  void* data_;
  size_t bytes_;
};

// Memory with an external owner: `release` runs when the last tensor that views
// it is destroyed, on that thread.
class ForeignBuffer final : public Buffer {
 public:
  enum class Lent : bool { kForGood, kForAStep };
  ForeignBuffer(void* data, size_t bytes, std::function<void()> release,
                Lent lent = Lent::kForGood)
      : Buffer(data, bytes, Traits{.borrowed = lent == Lent::kForAStep}),
        release_(std::move(release)) {}

 private:
  ~ForeignBuffer() override {
    if (release_) release_();
  }
  std::function<void()> release_;
};

struct AllocatorStats {
  int64_t live_bytes = 0;    // In live buffers.
  int64_t peak_bytes = 0;    // Largest live_bytes since the last ResetPeak.
  int64_t cached_bytes = 0;  // Kept for reuse.
  int64_t allocations = 0;   // Since the start.
};

// Makes the buffers of one memory: the host's, or a device's. Outlives its
// buffers. Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // The buffer has one reference, the caller's. ResourceExhausted if it exceeds
  // the limit or the memory.
  virtual Result<Buffer*> Allocate(size_t bytes) = 0;
  // Whether the host may access the memory. If it may not, every tensor that
  // has elements has a buffer (Tensor::Make), since kernels of the device need
  // an address.
  bool host_memory() const { return host_memory_; }

  // Applies to later allocations; live buffers stay.
  virtual void set_max_bytes(int64_t max_bytes) = 0;
  virtual AllocatorStats stats() const = 0;
  virtual void ResetPeak() = 0;
  // Returns cached memory to the system or to the device.
  virtual void ReleaseCache() = 0;

  // The process's host memory.
  static HostAllocator* Cpu();

 protected:
  explicit Allocator(bool host_memory) : host_memory_(host_memory) {}
  // Counts memory that is handed out, for ThreadAllocatedBytes.
  static void CountOnThread(int64_t bytes);

 private:
  const bool host_memory_;
};

// Host memory in size classes (listed in 002-tensors.md), each with a free
// list, so that repeated steps allocate nothing from the system. Data is
// 64-byte aligned. Under sanitizers nothing is cached, so that they see every
// use after free. The process's one (Cpu) lives forever.
class HostAllocator final : public Allocator {
 public:
  // Allocations that would exceed `max_bytes` live bytes fail; at most
  // `max_cached` bytes are kept for reuse.
  explicit HostAllocator(int64_t max_bytes = INT64_MAX,
                         int64_t max_cached = int64_t{1} << 30);
  ~HostAllocator() override;

  Result<Buffer*> Allocate(size_t bytes) override;
  // (Small blocks from the threads' caches are not refused.)
  void set_max_bytes(int64_t max_bytes) override {
    max_bytes_.store(max_bytes, std::memory_order_relaxed);
  }
  AllocatorStats stats() const override;
  void ResetPeak() override;
  void ReleaseCache() override;

  // The size of the buffer that Allocate(bytes) returns: that of its size
  // class.
  static size_t Rounded(size_t bytes);

 private:
  class Block;
  struct SizeClass;
  static int ClassOf(size_t bytes, size_t* rounded);
  void Recycle(Block* block);

  std::atomic<int64_t> max_bytes_;
  const int64_t max_cached_;
  std::unique_ptr<SizeClass[]> classes_;  // Each locks itself.
  // Relaxed counters: exact sums, no ordering.
  std::atomic<int64_t> live_{0}, peak_{0}, cached_{0}, allocations_{0};
};

// Bytes that Allocate has handed out on this thread since the thread began; the
// difference across a kernel is what the kernel allocated.
int64_t ThreadAllocatedBytes();

}  // namespace sluice

#endif  // SLUICE_TENSOR_BUFFER_H_
