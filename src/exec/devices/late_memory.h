// LateMemory: device memory whose contents change when the device's work is
// done, not when it is issued.
#ifndef SLUICE_EXEC_DEVICES_LATE_MEMORY_H_
#define SLUICE_EXEC_DEVICES_LATE_MEMORY_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "exec/devices/emulated_clock.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace sluice {

// An emulated device computes values when work is issued, in issuing order. A
// block of this memory therefore has two sets of bytes: those that are
// computed, at Buffer::data(), and those that the device has at the present
// time. LateWork changes the latter. Used by one thread, with a VirtualClock.
class LateMemory final : public Allocator {
 public:
  explicit LateMemory(int64_t max_bytes);

  Result<Buffer*> Allocate(size_t bytes) override;
  void set_max_bytes(int64_t max_bytes) override {
    computed_.set_max_bytes(max_bytes);
  }
  AllocatorStats stats() const override { return computed_.stats(); }
  void ResetPeak() override { computed_.ResetPeak(); }
  void ReleaseCache() override { computed_.ReleaseCache(); }

  // Copies the elements that the device has at this time; `to` has the same
  // type and shape. False if `from` is not in such memory.
  static bool Read(const Tensor& from, Tensor* to);

 private:
  friend class LateWork;
  class Block;
  using Bytes = std::vector<char>;
  struct Contents {
    const char* computed = nullptr;  // As many as `now`, while the block lives.
    Bytes now;
    // The bytes that were computed when work was last issued.
    std::shared_ptr<const Bytes> issued;
    // Whether they have changed; then `issued` becomes a copy of them.
    bool Changed();
  };
  // Null if the tensor is not in such memory.
  static std::shared_ptr<Contents> Of(const Tensor& t, size_t* offset);

  HostAllocator computed_;
  std::vector<std::weak_ptr<Contents>> blocks_;
};

// What one piece of work reads and writes, in late memory. While it runs, the
// device must have the bytes of its inputs that were computed when it was
// issued; otherwise the work was started too early, or their memory was reused
// too early, and what it writes is poison: bytes of 0xff, which are NaN. It
// holds the contents of blocks, not their tensors.
class LateWork {
 public:
  // Before the values are computed, which may happen in place.
  void Reads(const Tensor& t);
  // After they are computed.
  void Writes(const Tensor& t);
  // Adds the blocks of this memory that were written since the last call: a
  // kernel may also write into variables and arrays.
  void WritesWhatChanged(LateMemory& memory);
  bool writes_any() const { return !writes_.empty(); }
  // Lets it run from `start` to `end`.
  void Enqueue(EmulatedClock& clock, int64_t start, int64_t end) &&;

 private:
  using Contents = LateMemory::Contents;
  struct Part {
    std::shared_ptr<Contents> block;
    std::shared_ptr<const LateMemory::Bytes> bytes;  // Of the whole block.
    size_t begin, end;
    bool intact() const;
  };
  void AddWrite(const std::shared_ptr<Contents>& block);
  bool ReadsFrom(const Contents* block) const;

  std::vector<Part> reads_, writes_;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_DEVICES_LATE_MEMORY_H_
