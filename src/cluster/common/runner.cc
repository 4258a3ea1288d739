#include "cluster/common/runner.h"

#include <utility>

namespace sluice {

void Runner::Post(std::function<void()> fn) {
  std::lock_guard<std::mutex> lock(mu_);
  if (stop_) return;
  queue_.push_back(std::move(fn));
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  wake_.notify_one();
}

void Runner::Every(std::chrono::milliseconds interval,
                   std::function<void()> tick) {
  std::lock_guard<std::mutex> lock(mu_);
  if (stop_) return;
  interval_ = interval;
  tick_ = std::move(tick);
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  wake_.notify_one();
}

void Runner::Stop() {
  std::thread thread;
  std::deque<std::function<void()>> dropped;
  {
    std::lock_guard<std::mutex> lock(mu_);
    stop_ = true;
    dropped.swap(queue_);
    if (thread_.get_id() != std::this_thread::get_id()) thread.swap(thread_);
    wake_.notify_all();
  }
  if (thread.joinable()) thread.join();
}

void Runner::Loop() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point next{};
  std::unique_lock<std::mutex> lock(mu_);
  while (!stop_) {
    if (!queue_.empty()) {
      const std::function<void()> fn = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      fn();
      lock.lock();
    } else if (!tick_) {
      wake_.wait(lock);
    } else if (Clock::now() < next) {
      wake_.wait_until(lock, next);
    } else {
      const std::function<void()> tick = tick_;
      next = Clock::now() + interval_;
      lock.unlock();
      tick();
      lock.lock();
    }
  }
}

}  // namespace sluice
