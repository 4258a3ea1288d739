// OnCancel: an RAII cancellation callback.
#ifndef SLUICE_EXEC_CORE_ON_CANCEL_H_
#define SLUICE_EXEC_CORE_ON_CANCEL_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "exec/core/cancellation.h"

namespace sluice {

// During its lifetime, `fn` runs when `cancellation` is cancelled: immediately
// if it already is; never if it is null. The destructor waits for a run of `fn`
// in progress.
class OnCancel {
 public:
  OnCancel(Cancellation* cancellation, std::function<void()> fn)
      : cancellation_(cancellation) {
    if (cancellation == nullptr) return;
    fn_ = std::move(fn);
    id_ = cancellation->Register([this] { Run(); });
    if (id_ < 0) Run();
  }
  ~OnCancel() {
    if (cancellation_ == nullptr || cancellation_->Deregister(id_)) return;
    std::unique_lock<std::mutex> lock(mu_);
    ran_cv_.wait(lock, [this] { return ran_; });
  }
  OnCancel(const OnCancel&) = delete;

 private:
  void Run() {
    fn_();
    // (Locked to the end: after that the waiting destructor may have finished.)
    std::lock_guard<std::mutex> lock(mu_);
    ran_ = true;
    ran_cv_.notify_all();
  }

  Cancellation* const cancellation_;
  std::function<void()> fn_;
  int64_t id_ = -1;
  std::mutex mu_;
  std::condition_variable ran_cv_;
  bool ran_ = false;  // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_ON_CANCEL_H_
