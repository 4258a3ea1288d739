#include "ops/common/element_chunks.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sluice {
namespace {

constexpr size_t kChunkBytes = 64 * 1024;
constexpr size_t kFirstElements = 8;  // For an array that grows.

}  // namespace

void ElementChunks::Begin(size_t bytes) {
  Clear();
  bytes_ = bytes;
  log_ = static_cast<int>(std::bit_width(kChunkBytes / bytes)) - 1;
}

void ElementChunks::Clear() {
  for (Chunk& chunk : chunks_) LetGo(&chunk);
  chunks_.clear();
}

void ElementChunks::LetGo(Chunk* chunk) {
  if (chunk->buffer != nullptr) chunk->buffer->Unref();
  *chunk = Chunk();
}

// An array of known length allocates exactly that; for an array that grows,
// chunk 0 doubles and the others are allocated at full size.
char* ElementChunks::MakeRoom(size_t c, size_t in, size_t length) {
  if (c >= chunks_.size()) chunks_.resize(c + 1);
  Chunk& chunk = chunks_[c];
  const size_t whole = size_t{1} << log_, begin = c << log_;
  size_t capacity = length - begin;
  if (capacity == in + 1)  // The last place allocated so far.
    capacity =
        c > 0
            ? whole
            : std::max({capacity, size_t{2} * chunk.capacity, kFirstElements});
  capacity = std::min(capacity, whole);
  Result<Buffer*> buffer = Allocator::Cpu()->Allocate(capacity * bytes_);
  if (!buffer.ok()) return nullptr;
  if (chunk.buffer != nullptr) {
    std::memcpy((*buffer)->data(), chunk.buffer->data(),
                chunk.capacity * bytes_);
    chunk.buffer->Unref();
  }
  chunk.buffer = *buffer;
  chunk.capacity = static_cast<uint32_t>(capacity);
  return static_cast<char*>(chunk.buffer->data()) + in * bytes_;
}

}  // namespace sluice
