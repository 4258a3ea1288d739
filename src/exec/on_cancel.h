// What is to be done when somebody cancels.
#ifndef SLUICE_EXEC_ON_CANCEL_H_
#define SLUICE_EXEC_ON_CANCEL_H_

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "exec/cancellation.h"

namespace sluice {

// While one lives, `fn` runs when `cancellation` is cancelled: at once, if it
// is already; never, if it is null. Its end waits for a run of `fn`.
class OnCancel {
 public:
  OnCancel(Cancellation* cancellation, std::function<void()> fn)
      : cancellation_(cancellation) {
    if (cancellation == nullptr) return;
    call_ = std::make_shared<Call>();
    call_->fn = std::move(fn);
    id_ = cancellation->Register([call = call_] { call->Run(); });
    if (id_ < 0) call_->Run();
  }
  ~OnCancel() {
    if (cancellation_ == nullptr || cancellation_->Deregister(id_)) return;
    std::lock_guard<std::mutex> lock(call_->mu);
    call_->fn = nullptr;
  }
  OnCancel(const OnCancel&) = delete;

 private:
  struct Call {
    std::mutex mu;
    std::function<void()> fn;  // GUARDED_BY(mu); null: too late.
    void Run() {
      std::lock_guard<std::mutex> lock(mu);
      if (fn) fn();
    }
  };
  Cancellation* const cancellation_;
  std::shared_ptr<Call> call_;
  int64_t id_ = -1;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_ON_CANCEL_H_
