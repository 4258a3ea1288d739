// Cancelling a step.
//
//   Cancellation stop;
//   RunOptions options;
//   options.cancellation = &stop;
//   std::thread other([&] { stop.Cancel(); });
//   Status status = session.Run({}, {y}, {}, options).status();  // Cancelled
//   other.join();
#ifndef SLUICE_EXEC_CORE_CANCELLATION_H_
#define SLUICE_EXEC_CORE_CANCELLATION_H_

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace sluice {

// One per step. Kernels that block register a callback that wakes them; others
// may poll cancelled(). Thread-safe.
class Cancellation {
 public:
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // Runs the callbacks, once, on this thread, without holding a lock.
  void Cancel() {
    std::map<int64_t, std::function<void()>> callbacks;
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (cancelled_.exchange(true, std::memory_order_acq_rel)) return;
      callbacks.swap(callbacks_);
    }
    for (auto& [id, fn] : callbacks)
      if (fn) fn();
  }
  // An id for Deregister, or -1 if cancelled already (fn will not run).
  int64_t Register(std::function<void()> fn) {
    std::lock_guard<std::mutex> lock(mu_);
    if (cancelled()) return -1;
    callbacks_.emplace(next_id_, std::move(fn));
    return next_id_++;
  }
  // True if the callback was removed before it ran.
  bool Deregister(int64_t id) {
    std::lock_guard<std::mutex> lock(mu_);
    return callbacks_.erase(id) > 0;
  }

 private:
  std::atomic<bool> cancelled_{false};
  std::mutex mu_;
  int64_t next_id_ = 0;                                 // GUARDED_BY(mu_)
  std::map<int64_t, std::function<void()>> callbacks_;  // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_CANCELLATION_H_
