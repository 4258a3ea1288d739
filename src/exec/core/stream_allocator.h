// StreamAllocator: the memory of a device, given back in the order of its
// streams.
//
//   auto memory = std::make_shared<StreamMemory>(std::move(raw), max_bytes,
//                                                max_cached);
//   StreamAllocator for_kernels(memory, compute);
//   StreamAllocator for_copies(memory, copies);
#ifndef SLUICE_EXEC_CORE_STREAM_ALLOCATOR_H_
#define SLUICE_EXEC_CORE_STREAM_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "exec/core/stream.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace sluice {

class StreamMemory;

// A block of a device's memory. Kernels run ahead of the device: the host drops
// the last reference when the last reader has been enqueued, while that reader
// may not have begun. The block is therefore given back at that point of its
// stream, and its memory is reused
//  - by the same stream at once, since what is enqueued later runs later;
//  - by another stream once it can no longer be in use there.
// A block that other streams use beside its own is given back after these.
// Reference counts are thread-safe; HandTo, UseIn and set_written are for the
// one that enqueues the work (a kernel that writes the block, or reads it).
class StreamBuffer final : public Buffer {
 public:
  // The block behind a tensor; null if the host may read the tensor.
  static StreamBuffer* Of(const Tensor& t) {
    return t.in_host_memory() ? nullptr
                              : static_cast<StreamBuffer*>(t.buffer());
  }

  // What the device's own allocator made; holds the memory.
  Buffer* raw() const { return raw_; }
  // From now on the block is used in `stream` in place of the previous one,
  // whose work on it so far is enqueued.
  void HandTo(const std::shared_ptr<Stream>& stream);
  // Work on the block was enqueued in another stream, too.
  void UseIn(Stream& stream);
  // When the elements are written: as it was set, or else at the end of all
  // that its stream has to do so far.
  std::shared_ptr<Event> written() const;
  void set_written(std::shared_ptr<Event> event);

 private:
  friend class StreamMemory;
  StreamBuffer(std::shared_ptr<StreamMemory> memory, Buffer* raw, size_t bytes,
               std::shared_ptr<Stream> stream)
      : Buffer(raw->data(), bytes, Traits{.host_memory = false}),
        memory_(std::move(memory)),
        raw_(raw),
        stream_(std::move(stream)) {}
  ~StreamBuffer() override = default;
  void Free() override;

  const std::shared_ptr<StreamMemory> memory_;
  Buffer* const raw_;
  mutable std::mutex mu_;
  std::shared_ptr<Stream> stream_;              // GUARDED_BY(mu_)
  std::vector<std::shared_ptr<Event>> others_;  // GUARDED_BY(mu_)
  std::shared_ptr<Event> written_;              // GUARDED_BY(mu_)
};

// All memory of a device: hands out blocks and keeps those that were given
// back. Owned by its allocators and its blocks, so that tensors may outlive the
// device. Thread-safe.
//
// `raw` is how the device itself allocates; memory goes back to it when nothing
// uses it any more. A request takes, in this order: the block that its own
// stream gave back last; a block of another stream that is done with it; new
// memory, while all blocks together fit; and else the oldest blocks, for which
// its stream waits. So a request that fits in max_bytes
// beside the live blocks succeeds, and the host never waits.
class StreamMemory : public std::enable_shared_from_this<StreamMemory> {
 public:
  // At most `max_cached` bytes are kept for reuse.
  StreamMemory(std::unique_ptr<Allocator> raw, int64_t max_bytes,
               int64_t max_cached);
  ~StreamMemory();
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;

  Result<Buffer*> Allocate(size_t bytes, const std::shared_ptr<Stream>& stream);
  void set_max_bytes(int64_t max_bytes);
  // Called when a request does not fit, with the bytes that are missing and
  // without a lock; returns whether it freed anything. Set before the first
  // request.
  void set_reclaim(std::function<bool(int64_t bytes)> reclaim) {
    reclaim_ = std::move(reclaim);
  }
  AllocatorStats stats() const;
  void ResetPeak();
  void ReleaseCache();

  // While it lives, blocks that this thread frees are given back at its end.
  // For a kernel that frees blocks before it has enqueued the work that uses
  // them.
  class FreeAfter {
   public:
    FreeAfter();
    ~FreeAfter();
    FreeAfter(const FreeAfter&) = delete;
    FreeAfter& operator=(const FreeAfter&) = delete;

   private:
    friend class StreamBuffer;
    friend class StreamMemory;
    static thread_local FreeAfter* current_;
    FreeAfter* const outer_;
    std::vector<StreamBuffer*> freed_;
  };

 private:
  friend class StreamBuffer;
  // A block that was given back. Done when nothing uses it any more.
  struct Block {
    int64_t order = 0;  // In which blocks were given back.
    int64_t bytes = 0;
    Buffer* raw = nullptr;
    std::shared_ptr<Stream> stream;
    std::shared_ptr<Event> end;                  // Of its use in its stream.
    std::vector<std::shared_ptr<Event>> others;  // In other streams.
    bool done() const;
    bool others_done() const;
  };
  // The blocks of one size, by stream, in their order.
  using Blocks = std::map<Stream*, std::deque<Block>>;

  void GiveBack(StreamBuffer* block);
  // Whether the memory for `bytes` more was reclaimed, if it was missing.
  bool Reclaim(int64_t bytes);
  // All REQUIRE: mu_ held.
  Buffer* Reuse(int64_t bytes, Stream* stream);
  // Frees memory for `bytes` more. `stream` waits for blocks that are in use.
  void MakeRoom(int64_t bytes, Stream* stream);
  bool TakeOldest(Block* block);
  // Returns the block's memory to the device when it is done.
  void Release(Block block);

  const std::shared_ptr<Allocator> raw_;
  const int64_t max_cached_;
  std::function<bool(int64_t)> reclaim_;
  mutable std::mutex mu_;
  int64_t max_bytes_;                 // GUARDED_BY(mu_)
  int64_t live_ = 0, peak_ = 0;       // GUARDED_BY(mu_)
  int64_t cached_ = 0;                // Given back. GUARDED_BY(mu_)
  int64_t next_order_ = 0;            // GUARDED_BY(mu_)
  int64_t allocations_ = 0;           // GUARDED_BY(mu_)
  std::map<int64_t, Blocks> blocks_;  // By size. GUARDED_BY(mu_)
};

// The memory of a device for work that is enqueued in one stream.
class StreamAllocator final : public Allocator {
 public:
  StreamAllocator(std::shared_ptr<StreamMemory> memory,
                  std::shared_ptr<Stream> stream)
      : Allocator(/*host_memory=*/false),
        memory_(std::move(memory)),
        stream_(std::move(stream)) {}

  Result<Buffer*> Allocate(size_t bytes) override;
  // The device's, for all streams together.
  void set_max_bytes(int64_t max_bytes) override {
    memory_->set_max_bytes(max_bytes);
  }
  AllocatorStats stats() const override { return memory_->stats(); }
  void ResetPeak() override { memory_->ResetPeak(); }
  void ReleaseCache() override { memory_->ReleaseCache(); }

 private:
  const std::shared_ptr<StreamMemory> memory_;
  const std::shared_ptr<Stream> stream_;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_STREAM_ALLOCATOR_H_
