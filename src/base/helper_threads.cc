#include "base/helper_threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {
namespace {

// How long a thread looks before it sleeps: several times what it costs to
// wake it.
constexpr std::chrono::microseconds kLooks{500};

// Returns whether `done` holds, or begins to within kLooks.
template <typename Done>
bool LookFor(const Done& done) {
  const auto end = std::chrono::steady_clock::now() + kLooks;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// One per process, never destroyed. Thread-safe.
class Helpers {
 public:
  void Run(int parts, absl::FunctionRef<void(int)> fn) {
    Call call{fn, parts};
    std::unique_lock<std::mutex> lock(mu_);
    for (auto size = static_cast<int>(threads_.size()); size < parts - 1;
         ++size)
      threads_.emplace_back([this] { Loop(); });
    calls_.push_back(&call);
    posted_.fetch_add(1, std::memory_order_release);
    for (int i = 0; i < std::min(asleep_, parts - 1); ++i) wake_.notify_one();
    while (call.next < call.parts) {
      const int part = Take(&call);
      lock.unlock();
      fn(part);
      lock.lock();
    }
    lock.unlock();
    // (After the last decrement a helper does not touch the call.)
    if (LookFor([&] { return call.running.load() == 0; })) return;
    lock.lock();
    ended_.wait(lock, [&] { return call.running.load() == 0; });
  }

 private:
  // Lives in Run.
  struct Call {
    absl::FunctionRef<void(int)> fn;
    const int parts;
    int next = 0;                 // GUARDED_BY(mu_)
    std::atomic<int> running{0};  // On helpers. Written under mu_.
  };

  // REQUIRES: mu_ held; call->next < call->parts.
  int Take(Call* call) {
    const int part = call->next++;
    if (call->next == call->parts)
      calls_.erase(std::find(calls_.begin(), calls_.end(), call));
    return part;
  }

  void Loop() {
    std::unique_lock<std::mutex> lock(mu_);
    for (;;) {
      if (calls_.empty()) {
        const int seen = posted_.load(std::memory_order_relaxed);
        lock.unlock();
        LookFor(
            [&] { return posted_.load(std::memory_order_acquire) != seen; });
        lock.lock();
        ++asleep_;
        wake_.wait(lock, [this] { return !calls_.empty(); });
        --asleep_;
      }
      Call* const call = calls_.back();
      const int part = Take(call);
      call->running.fetch_add(1);
      lock.unlock();
      call->fn(part);
      lock.lock();
      if (call->running.fetch_sub(1) == 1) ended_.notify_all();
    }
  }

  std::mutex mu_;
  std::condition_variable wake_, ended_;
  std::vector<std::thread> threads_;  // GUARDED_BY(mu_)
  std::vector<Call*> calls_;          // GUARDED_BY(mu_): with parts left.
  std::atomic<int> posted_{0};        // Calls so far.
  int asleep_ = 0;                    // GUARDED_BY(mu_)
};

}  // namespace

void RunParts(int parts, absl::FunctionRef<void(int)> fn) {
  if (parts <= 1) {
    if (parts == 1) fn(0);
    return;
  }
  static auto* helpers = new Helpers;
  helpers->Run(parts, fn);
}

}  // namespace sluice
