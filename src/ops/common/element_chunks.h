// Storage for small elements of equal size.
#ifndef SLUICE_OPS_COMMON_ELEMENT_CHUNKS_H_
#define SLUICE_OPS_COMMON_ELEMENT_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/buffer.h"

namespace sluice {

// The bytes of an array's elements, in chunks that the allocator recycles:
// 100,000 saved loop iterations take only as much memory as the numbers
// themselves, are written and read in memory order, and are freed in pieces as
// they are read. (One tensor per element would take six times as much for
// headers, and a cache miss each.) Owned by an array, under whose lock all
// methods are called. Invariant: an allocated place does not move until another
// place of chunk 0 is allocated; chunk 0 grows to the size of the others.
class ElementChunks {
 public:
  ElementChunks() = default;
  ElementChunks(const ElementChunks&) = delete;
  ElementChunks& operator=(const ElementChunks&) = delete;
  ~ElementChunks() { Clear(); }

  // Removes all elements and sets the bytes per element. REQUIRES: 0 < bytes <=
  // kMaxBytes.
  static constexpr size_t kMaxBytes = 1024;
  void Begin(size_t bytes);
  size_t bytes() const { return bytes_; }

  // The place of element i in an array that has `length` elements so far; null
  // if out of memory. Its contents are undefined the first time.
  char* Make(size_t i, size_t length) {
    const size_t c = i >> log_, in = i & ((size_t{1} << log_) - 1);
    if (c < chunks_.size() && in < chunks_[c].capacity) [[likely]]
      return static_cast<char*>(chunks_[c].buffer->data()) + in * bytes_;
    return MakeRoom(c, in, length);
  }
  // REQUIRES: the place was allocated by Make.
  char* At(size_t i) const {
    const size_t in = i & ((size_t{1} << log_) - 1);
    return static_cast<char*>(chunks_[i >> log_].buffer->data()) + in * bytes_;
  }
  // Element i will not be read or made again. The memory of a chunk is freed
  // with the last of its places. REQUIRES: the place was allocated by Make.
  void Drop(size_t i) {
    Chunk& chunk = chunks_[i >> log_];
    if (++chunk.dropped == chunk.capacity) [[unlikely]]
      LetGo(&chunk);
  }
  void Clear();

 private:
  struct Chunk {
    Buffer* buffer = nullptr;  // Not shared. Null: no place allocated, or all
                               // dropped.
    uint32_t capacity = 0;     // In elements.
    uint32_t dropped = 0;
  };

  char* MakeRoom(size_t c, size_t in, size_t length);
  static void LetGo(Chunk* chunk);

  size_t bytes_ = 0;
  int log_ = 0;  // Elements per chunk, as a power of two.
  std::vector<Chunk> chunks_;
};

}  // namespace sluice

#endif  // SLUICE_OPS_COMMON_ELEMENT_CHUNKS_H_
