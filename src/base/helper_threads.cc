#include "base/helper_threads.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

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

}  // namespace

// One per process, never destroyed. Thread-safe.
class Helpers {
 public:
  static Helpers& Get() {
    static auto* helpers = new Helpers;
    return *helpers;
  }

  void Start(PartsInFlight* call, int helpers) {
    const std::lock_guard<std::mutex> lock(mu_);
    for (auto size = static_cast<int>(threads_.size()); size < helpers; ++size)
      threads_.emplace_back([this] { Loop(); });
    call->helpers_ = helpers;
    calls_.push_back(call);
    posted_.fetch_add(1, std::memory_order_release);
    for (int i = 0; i < std::min(asleep_, helpers); ++i) wake_.notify_one();
  }

  int Next(PartsInFlight* call) {
    std::unique_lock<std::mutex> lock(mu_);
    if (call->done_.empty()) {
      if (call->next_ < call->parts_) {
        const int part = Take(call);
        lock.unlock();
        call->fn_(part);
        return part;
      }
      lock.unlock();
      LookFor([call] { return call->num_done_.load() > 0; });
      lock.lock();
      ended_.wait(lock, [call] { return !call->done_.empty(); });
    }
    const int part = call->done_.back();
    call->done_.pop_back();
    call->num_done_.fetch_sub(1);
    return part;
  }

  void Drop(PartsInFlight* call) {
    std::unique_lock<std::mutex> lock(mu_);
    if (call->next_ < call->parts_) {
      call->next_ = call->parts_;
      calls_.erase(std::find(calls_.begin(), calls_.end(), call));
    }
    ended_.wait(lock, [call] { return call->running_ == 0; });
    call->done_.clear();
    call->num_done_ = 0;
  }

 private:
  // REQUIRES: mu_ held; call->next_ < call->parts_.
  int Take(PartsInFlight* call) {
    const int part = call->next_++;
    if (call->next_ == call->parts_)
      calls_.erase(std::find(calls_.begin(), calls_.end(), call));
    return part;
  }

  // The newest call that has a part for another helper, or null.
  // REQUIRES: mu_ held.
  PartsInFlight* Offered() const {
    const auto found = std::find_if(
        calls_.rbegin(), calls_.rend(),
        [](const auto* call) { return call->running_ < call->helpers_; });
    return found == calls_.rend() ? nullptr : *found;
  }

  // (No wake-up is lost: running_ only falls in a helper that then looks for
  // another part.)
  void Loop() {
    std::unique_lock<std::mutex> lock(mu_);
    for (;;) {
      if (Offered() == nullptr) {
        const int seen = posted_.load(std::memory_order_relaxed);
        lock.unlock();
        LookFor(
            [&] { return posted_.load(std::memory_order_acquire) != seen; });
        lock.lock();
        ++asleep_;
        wake_.wait(lock, [this] { return Offered() != nullptr; });
        --asleep_;
      }
      PartsInFlight* const call = Offered();
      const int part = Take(call);
      ++call->running_;
      lock.unlock();
      call->fn_(part);
      lock.lock();
      // (The owner waits for mu_ before it destroys the call.)
      --call->running_;
      call->done_.push_back(part);
      call->num_done_.fetch_add(1);
      ended_.notify_all();
    }
  }

  std::mutex mu_;
  std::condition_variable wake_, ended_;
  std::vector<std::thread> threads_;   // GUARDED_BY(mu_)
  std::vector<PartsInFlight*> calls_;  // GUARDED_BY(mu_): with parts left.
  std::atomic<int> posted_{0};         // Calls so far.
  int asleep_ = 0;                     // GUARDED_BY(mu_)
};

void PartsInFlight::Start(int parts, int helpers, std::function<void(int)> fn) {
  fn_ = std::move(fn);
  left_ = parts_ = parts;
  next_ = 0;
  if (parts > 0) Helpers::Get().Start(this, helpers);
}

int PartsInFlight::Next() {
  const int part = Helpers::Get().Next(this);
  --left_;
  return part;
}

void PartsInFlight::Drop() {
  if (left_ > 0) Helpers::Get().Drop(this);
  left_ = 0;
}

void RunParts(int parts, absl::FunctionRef<void(int)> fn) {
  if (parts <= 1) {
    if (parts == 1) fn(0);
    return;
  }
  PartsInFlight in_flight;
  in_flight.Start(parts, parts - 1, fn);
  while (!in_flight.empty()) in_flight.Next();
}

}  // namespace sluice
