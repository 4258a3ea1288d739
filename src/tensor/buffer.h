// Memory of tensors: reference-counted buffers and the allocator that recycles
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
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 protected:
  Buffer(void* data, size_t bytes, bool borrowed = false)
      : borrowed_(borrowed), data_(data), bytes_(bytes) {}
  virtual ~Buffer() = default;
  virtual void Free() { delete this; }
  void set_data(void* data) { data_ = data; }

 private:
  std::atomic<int32_t> refs_{1};
  const bool borrowed_;
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
      : Buffer(data, bytes, lent == Lent::kForAStep),
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

// Host memory in size classes (listed in 002-tensors.md), each with a free
// list, so that repeated steps allocate nothing from the system. Data is
// 64-byte aligned. One per device, for the process's life. Thread-safe. Under
// sanitizers nothing is cached, so that they see every use after free.
class Allocator {
 public:
  // Allocations that would exceed `max_bytes` live bytes fail; at most
  // `max_cached` bytes are kept for reuse.
  explicit Allocator(int64_t max_bytes = INT64_MAX,
                     int64_t max_cached = int64_t{1} << 30);
  ~Allocator();

  // The buffer has one reference, the caller's. ResourceExhausted if it exceeds
  // the limit or the system's memory.
  Result<Buffer*> Allocate(size_t bytes);

  // Applies to later allocations; live buffers stay. (Small blocks from the
  // threads' caches are not refused.)
  void set_max_bytes(int64_t max_bytes) {
    max_bytes_.store(max_bytes, std::memory_order_relaxed);
  }

  AllocatorStats stats() const;
  void ResetPeak();
  // Returns cached memory to the system.
  void ReleaseCache();

  // The process's CPU memory.
  static Allocator* Cpu();

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
