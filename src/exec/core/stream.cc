#include "exec/core/stream.h"

#include <atomic>
#include <utility>

#include "exec/core/kernel.h"

namespace sluice {
namespace {

class EventOrCancelled : public std::enable_shared_from_this<EventOrCancelled> {
 public:
  EventOrCancelled(Cancellation* cancellation,
                   std::function<void(Status)> finish)
      : finish_(std::move(finish)), cancellation_(cancellation) {}

  void Start(Event& event) {
    registered_ = cancellation_->Register(
        [self = shared_from_this()] { self->Cancelled(); });
    if (registered_ < 0) return Cancelled();
    event.OnDone([self = shared_from_this()] { self->Done(); });
  }

 private:
  void Done() {
    if (over_.exchange(true)) return;
    // While the step is alive; a later cancellation has no effect.
    cancellation_->Deregister(registered_);
    std::exchange(finish_, nullptr)(OkStatus());
  }
  void Cancelled() {
    if (over_.exchange(true)) return;
    std::exchange(finish_,
                  nullptr)(sluice::Cancelled("device: the step was cancelled"));
  }

  std::atomic<bool> over_{false};
  // Owned by the thread that has set over_.
  std::function<void(Status)> finish_;
  Cancellation* const cancellation_;
  int64_t registered_ = -1;
};

}  // namespace

void AwaitEvent(KernelContext& ctx, Event& event,
                std::function<void(Status)> finish) {
  std::make_shared<EventOrCancelled>(ctx.step().cancellation, std::move(finish))
      ->Start(event);
}

}  // namespace sluice
