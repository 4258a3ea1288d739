#include "exec/core/stream_allocator.h"

#include <algorithm>
#include <utility>

namespace sluice {

// ---- Blocks -----------------------------------------------------------------

void StreamBuffer::HandTo(const std::shared_ptr<Stream>& stream) {
  std::lock_guard<std::mutex> lock(mu_);
  if (stream == stream_) return;
  others_.push_back(stream_->Record());
  stream_ = stream;
}

void StreamBuffer::UseIn(Stream& stream) {
  std::lock_guard<std::mutex> lock(mu_);
  if (&stream == stream_.get()) return;
  std::erase_if(others_, [](const auto& event) { return event->done(); });
  others_.push_back(stream.Record());
}

std::shared_ptr<Event> StreamBuffer::written() const {
  std::lock_guard<std::mutex> lock(mu_);
  return written_ != nullptr ? written_ : stream_->Record();
}

void StreamBuffer::set_written(std::shared_ptr<Event> event) {
  std::lock_guard<std::mutex> lock(mu_);
  written_ = std::move(event);
}

void StreamBuffer::Free() {
  if (StreamMemory::FreeAfter* const later = StreamMemory::FreeAfter::current_)
    return later->freed_.push_back(this);
  // (Keeps the memory's owner until the block is in its list.)
  const std::shared_ptr<StreamMemory> memory = memory_;
  memory->GiveBack(this);
}

thread_local StreamMemory::FreeAfter* StreamMemory::FreeAfter::current_ =
    nullptr;

StreamMemory::FreeAfter::FreeAfter() : outer_(current_) { current_ = this; }

StreamMemory::FreeAfter::~FreeAfter() {
  current_ = outer_;
  for (StreamBuffer* b : freed_) b->Free();
}

// ---- Memory -----------------------------------------------------------------

bool StreamMemory::Block::others_done() const {
  return std::all_of(others.begin(), others.end(),
                     [](const auto& event) { return event->done(); });
}

bool StreamMemory::Block::done() const { return end->done() && others_done(); }

StreamMemory::StreamMemory(std::unique_ptr<Allocator> raw, int64_t max_bytes,
                           int64_t max_cached)
    : raw_(std::move(raw)), max_cached_(max_cached), max_bytes_(max_bytes) {}

StreamMemory::~StreamMemory() { ReleaseCache(); }

Result<Buffer*> StreamMemory::Allocate(size_t bytes,
                                       const std::shared_ptr<Stream>& stream) {
  const size_t rounded = HostAllocator::Rounded(bytes);
  const auto size = static_cast<int64_t>(rounded);
  std::unique_lock<std::mutex> lock(mu_);
  while (reclaim_ != nullptr && size > max_bytes_ - live_) {
    const int64_t missing = size - (max_bytes_ - live_);
    lock.unlock();
    const bool freed = Reclaim(missing);
    lock.lock();
    if (!freed) break;
  }
  if (size > max_bytes_ - live_)
    return ResourceExhausted("out of memory: expected at most ",
                             max_bytes_ - live_, " more bytes (of ", max_bytes_,
                             "), got a request for ", size);
  Buffer* raw = Reuse(size, stream.get());
  if (raw == nullptr) {
    MakeRoom(size, stream.get());
    SLUICE_ASSIGN_OR_RETURN(raw, raw_->Allocate(rounded));
  }
  live_ += size;
  peak_ = std::max(peak_, live_);
  ++allocations_;
  return new StreamBuffer(shared_from_this(), raw, rounded, stream);
}

bool StreamMemory::Reclaim(int64_t bytes) {
  // (What is freed here is not in use by the kernel that this thread runs.)
  FreeAfter* const later = std::exchange(FreeAfter::current_, nullptr);
  const bool freed = reclaim_(bytes);
  FreeAfter::current_ = later;
  return freed;
}

Buffer* StreamMemory::Reuse(int64_t bytes, Stream* stream) {
  const auto of_size = blocks_.find(bytes);
  if (of_size == blocks_.end()) return nullptr;
  for (auto& [of, blocks] : of_size->second) {
    const bool own = of == stream;
    if (blocks.empty()) continue;
    // Of its own blocks the one that is most likely in a cache; of others' the
    // one that is done first.
    const Block& block = own ? blocks.back() : blocks.front();
    if (own ? !block.others_done() : !block.done()) continue;
    Buffer* const raw = block.raw;
    own ? blocks.pop_back() : blocks.pop_front();
    cached_ -= bytes;
    return raw;
  }
  return nullptr;
}

void StreamMemory::MakeRoom(int64_t bytes, Stream* stream) {
  Block oldest;
  while (live_ + cached_ + bytes > max_bytes_ && TakeOldest(&oldest)) {
    if (oldest.stream.get() != stream) stream->Wait(oldest.end);
    for (const auto& event : oldest.others) stream->Wait(event);
    Release(std::move(oldest));
  }
}

bool StreamMemory::TakeOldest(Block* block) {
  std::deque<Block>* in = nullptr;
  for (auto& [bytes, streams] : blocks_)
    for (auto& [stream, blocks] : streams)
      if (!blocks.empty() &&
          (in == nullptr || blocks.front().order < in->front().order))
        in = &blocks;
  if (in == nullptr) return false;
  *block = std::move(in->front());
  in->pop_front();
  cached_ -= block->bytes;
  return true;
}

void StreamMemory::GiveBack(StreamBuffer* b) {
  const auto size = static_cast<int64_t>(b->bytes());
  Block block{0,
              size,
              b->raw_,
              b->stream_,
              b->stream_->Record(),
              std::move(b->others_)};
  delete b;
  std::lock_guard<std::mutex> lock(mu_);
  block.order = next_order_++;
  live_ -= size;
  cached_ += size;
  Stream* const stream = block.stream.get();
  blocks_[size][stream].push_back(std::move(block));
  Block oldest;
  while (cached_ > max_cached_ && TakeOldest(&oldest))
    Release(std::move(oldest));
}

void StreamMemory::Release(Block block) {
  std::vector<std::shared_ptr<Event>> events = std::move(block.others);
  events.push_back(std::move(block.end));
  // The last of the events to be done drops the last reference.
  std::shared_ptr<Buffer> holds(
      block.raw, [raw = raw_](Buffer* buffer) { buffer->Unref(); });
  for (const auto& event : events)
    if (!event->done()) event->OnDone([holds] {});
}

void StreamMemory::set_max_bytes(int64_t max_bytes) {
  std::lock_guard<std::mutex> lock(mu_);
  max_bytes_ = max_bytes;
}

AllocatorStats StreamMemory::stats() const {
  std::lock_guard<std::mutex> lock(mu_);
  return {live_, peak_, cached_, allocations_};
}

void StreamMemory::ResetPeak() {
  std::lock_guard<std::mutex> lock(mu_);
  peak_ = live_;
}

void StreamMemory::ReleaseCache() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    Block oldest;
    while (TakeOldest(&oldest)) Release(std::move(oldest));
  }
  raw_->ReleaseCache();
}

Result<Buffer*> StreamAllocator::Allocate(size_t bytes) {
  const int64_t counted = ThreadAllocatedBytes();
  SLUICE_ASSIGN_OR_RETURN(Buffer * block, memory_->Allocate(bytes, stream_));
  // (The device's own allocator may have counted it.)
  CountOnThread(counted + static_cast<int64_t>(block->bytes()) -
                ThreadAllocatedBytes());
  return block;
}

}  // namespace sluice
