#include "cluster/worker/idle_memory.h"

#include <malloc.h>

#include <algorithm>

#include "tensor/buffer.h"

namespace sluice {
namespace {

// The last answers to the client are sent, and freed, after a session's end.
constexpr std::chrono::milliseconds kSettles{300};
// While other sessions are open: to fault a gigabyte in again takes about a
// quarter of a second.
constexpr std::chrono::seconds kSeldom{10};
// Less is not worth the search for it.
constexpr int64_t kLeastBytes = 32 << 20;

}  // namespace

IdleMemory::~IdleMemory() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void IdleMemory::SessionEnded(bool last) {
  std::lock_guard<std::mutex> lock(mu_);
  Clock::time_point due = Clock::now() + kSettles;
  if (!last && released_ != Clock::time_point::min())
    due = std::max(due, released_ + kSeldom);
  due_ = std::min(due_, due);
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  changed_.notify_all();
}

void IdleMemory::Loop() {
  std::unique_lock<std::mutex> lock(mu_);
  for (;;) {
    changed_.wait(lock,
                  [this] { return stop_ || due_ != Clock::time_point::max(); });
    while (!stop_ && Clock::now() < due_) {
      const Clock::time_point due = due_;  // (A copy: it may become sooner.)
      changed_.wait_until(lock, due);
    }
    if (stop_) return;
    due_ = Clock::time_point::max();
    lock.unlock();
    Release();
    lock.lock();
    released_ = Clock::now();
  }
}

void IdleMemory::Release() const {
  for (Allocator* a : allocators_)
    if (a->stats().cached_bytes >= kLeastBytes) a->ReleaseCache();
  // One thread at a time: where the program replaces malloc (a sanitizer, an
  // allocator library), these calls are the first to initialise glibc's heap,
  // which is not safe from two threads. The workers of one process release
  // their memory at the same moment when a session over them ends.
  static std::mutex heap;
  std::lock_guard<std::mutex> lock(heap);
  if (mallinfo2().fordblks >= static_cast<size_t>(kLeastBytes))
    (void)malloc_trim(0);
}

}  // namespace sluice
