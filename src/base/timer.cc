#include "base/timer.h"

#include <unistd.h>

#include <system_error>
#include <thread>

namespace sluice {

Timer& Timer::OfProcess() {
  static auto* const timer = new Timer;  // Used until the process ends.
  return *timer;
}

Result<Timer::Alarm> Timer::At(Clock::time_point when,
                               std::function<void()> fn) {
  std::lock_guard<std::mutex> lock(mu_);
  if (thread_of_ != getpid()) {
    // (What a parent process left is never called here, nor destroyed.)
    if (!alarms_.empty()) (void)new auto(std::move(alarms_));
    alarms_.clear();
    try {
      std::thread([this] { Loop(); }).detach();
    } catch (const std::system_error& e) {
      return ResourceExhausted("timer: expected a thread, got ", e.what());
    }
    thread_of_ = getpid();
  }
  const Alarm alarm{when, next_++};
  const auto it = alarms_.emplace(alarm, std::move(fn)).first;
  if (it == alarms_.begin()) earlier_.notify_one();
  return alarm;
}

void Timer::Forget(const Alarm& alarm) {
  std::function<void()> fn;  // Destroyed without the lock.
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = alarms_.find(alarm);
  if (it == alarms_.end()) return;
  fn = std::move(it->second);
  alarms_.erase(it);
}

void Timer::Loop() {
  std::unique_lock<std::mutex> lock(mu_);
  for (;;) {
    if (alarms_.empty()) {
      earlier_.wait(lock);
      continue;
    }
    const auto first = alarms_.begin();
    if (const Clock::time_point when = first->first.first;
        Clock::now() < when) {
      earlier_.wait_until(lock, when);
      continue;
    }
    std::function<void()> fn = std::move(first->second);
    alarms_.erase(first);
    lock.unlock();
    fn();
    fn = nullptr;
    lock.lock();
  }
}

}  // namespace sluice
