#include "data/coordinator.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sluice {

Coordinator::~Coordinator() {
  RequestStop();
  (void)Join();
}

Status Coordinator::Start(std::function<Status()> work) {
  if (!work)
    return InvalidArgument("work: expected a function, got an empty one");
  const std::lock_guard<std::mutex> lock(mu_);
  if (joined_)
    return FailedPrecondition("the threads of this coordinator were joined");
  threads_.emplace_back([this, work = std::move(work)] {
    if (const Status s = work(); !s.ok()) RequestStop(s);
  });
  return OkStatus();
}

void Coordinator::RequestStop(const Status& error) {
  {
    const std::lock_guard<std::mutex> lock(mu_);
    // (What is cancelled by a stop is not an error.)
    if (error_.ok() && !(stopped_ && error.code() == StatusCode::kCancelled))
      error_ = error;
    stopped_ = true;
  }
  stopped_cv_.notify_all();
  cancellation_.Cancel();
}

bool Coordinator::ShouldStop() const {
  const std::lock_guard<std::mutex> lock(mu_);
  return stopped_;
}

bool Coordinator::WaitForStop(int64_t timeout_ms) const {
  // (A longer timeout would overflow the clock.)
  constexpr int64_t kMax = int64_t{1} << 40;
  const std::chrono::milliseconds timeout(
      std::clamp<int64_t>(timeout_ms, 0, kMax));
  std::unique_lock<std::mutex> lock(mu_);
  return stopped_cv_.wait_for(lock, timeout, [this] { return stopped_; });
}

Status Coordinator::Join() {
  std::unique_lock<std::mutex> lock(mu_);
  while (!threads_.empty()) {
    std::thread last = std::move(threads_.back());
    threads_.pop_back();
    lock.unlock();
    last.join();
    lock.lock();
  }
  joined_ = true;
  return error_;
}

}  // namespace sluice
