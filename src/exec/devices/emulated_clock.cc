#include "exec/devices/emulated_clock.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace sluice {
namespace {

// The due time of the callback that this thread runs; -1: none.
thread_local int64_t due_now = -1;

// One thread at a time waits for the next callback; before it runs the callback
// it lets another thread wait.
class RealTimeClock final : public EmulatedClock {
 public:
  explicit RealTimeClock(unsigned threads) {
    for (unsigned i = 0; i < threads; ++i)
      std::thread([this] { Serve(); }).detach();
  }

  int64_t Now() override { return due_now >= 0 ? due_now : RealNow(); }

  void At(int64_t time, std::function<void()> fn) override {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = due_.emplace(std::pair(time, next_++), std::move(fn)).first;
    if (it == due_.begin()) cv_.notify_one();
  }

 private:
  static int64_t RealNow() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  [[noreturn]] void Serve() {
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    std::unique_lock<std::mutex> lock(mu_);
    for (;;) {
      if (due_.empty()) {
        cv_.wait(lock);
        continue;
      }
      const int64_t first = due_.begin()->first.first;
      if (const int64_t left = first - RealNow(); left > 0) {
        cv_.wait_for(lock, std::chrono::nanoseconds(left));
        continue;
      }
      std::function<void()> fn = std::move(due_.begin()->second);
      due_.erase(due_.begin());
      if (!due_.empty()) cv_.notify_one();
      lock.unlock();
      due_now = first;
      fn();
      fn = nullptr;
      due_now = -1;
      lock.lock();
    }
  }

  std::mutex mu_;
  std::condition_variable cv_;
  int64_t next_ = 0;  // GUARDED_BY(mu_)
  std::map<std::pair<int64_t, int64_t>, std::function<void()>>
      due_;  // GUARDED_BY(mu_)
};

}  // namespace

const std::shared_ptr<EmulatedClock>& EmulatedClock::RealTime() {
  // Never destroyed: its threads run until the process ends, and hold only
  // callbacks that are still awaited.
  static const auto* const clock =
      new std::shared_ptr<EmulatedClock>(std::make_shared<RealTimeClock>(
          std::max(2u, std::thread::hardware_concurrency())));
  return *clock;
}

bool VirtualClock::Next() {
  if (due_.empty()) return false;
  now_ = due_.begin()->first.first;
  const std::function<void()> fn = std::move(due_.begin()->second);
  due_.erase(due_.begin());
  fn();
  return true;
}

void VirtualClock::AdvanceTo(int64_t time) {
  while (!due_.empty() && due_.begin()->first.first <= time) Next();
  now_ = std::max(now_, time);
}

}  // namespace sluice
