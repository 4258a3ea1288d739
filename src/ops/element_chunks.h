// Elements of one small size, one behind the other.
#ifndef SLUICE_OPS_ELEMENT_CHUNKS_H_
#define SLUICE_OPS_ELEMENT_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/buffer.h"

namespace sluice {

// The bytes of an array's elements, in chunks that the allocator recycles: what
// a loop saves in 100,000 iterations takes as much memory as its numbers have
// bytes, is written and read in the order of that memory, and is let go in
// pieces as it is read. (A tensor for each takes six times as much in headers,
// and a cache miss to find each.) Owned by an array, under whose lock all is
// called. Always: a place that was made stays where it is until another one of
// chunk 0 is made; chunk 0 grows up to the size of the others.
class ElementChunks {
 public:
  ElementChunks() = default;
  ElementChunks(const ElementChunks&) = delete;
  ElementChunks& operator=(const ElementChunks&) = delete;
  ~ElementChunks() { Clear(); }

  // Forgets all; elements have so many bytes from now on. REQUIRES: 0 < bytes
  // <= kMaxBytes.
  static constexpr size_t kMaxBytes = 1024;
  void Begin(size_t bytes);
  size_t bytes() const { return bytes_; }

  // The place of element i, of an array that has `length` elements so far; null
  // if there is no memory for it. The first time, what lies there is
  // undefined.
  char* Make(size_t i, size_t length) {
    const size_t c = i >> log_, in = i & ((size_t{1} << log_) - 1);
    if (c < chunks_.size() && in < chunks_[c].capacity) [[likely]]
      return static_cast<char*>(chunks_[c].buffer->data()) + in * bytes_;
    return MakeRoom(c, in, length);
  }
  // REQUIRES: the place was made.
  char* At(size_t i) const {
    const size_t in = i & ((size_t{1} << log_) - 1);
    return static_cast<char*>(chunks_[i >> log_].buffer->data()) + in * bytes_;
  }
  // Element i is not read or made again. The memory of a chunk goes with the
  // last of its places. REQUIRES: the place was made.
  void Drop(size_t i) {
    Chunk& chunk = chunks_[i >> log_];
    if (++chunk.dropped == chunk.capacity) [[unlikely]]
      LetGo(&chunk);
  }
  void Clear();

 private:
  struct Chunk {
    Buffer* buffer = nullptr;  // Ours alone. Null: nothing was made, or all
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

#endif  // SLUICE_OPS_ELEMENT_CHUNKS_H_
