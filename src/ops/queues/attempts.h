// Operations on resources that steps share, which wait without a thread until
// others make them possible (docs/design/032-queues.md).
#ifndef SLUICE_OPS_QUEUES_ATTEMPTS_H_
#define SLUICE_OPS_QUEUES_ATTEMPTS_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "base/status.h"
#include "exec/core/cancellation.h"
#include "exec/core/trace.h"
#include "tensor/object.h"

namespace sluice::queues {

// One operation on a Shared. Owned by the list in which it waits, and when it
// is over by the thread that completes it. Try and Withdraw are called with the
// lock of the resource held, Complete once and without it.
class Attempt {
 public:
  // `cancellation`: of the step, valid until Complete has run; or null.
  explicit Attempt(Cancellation* cancellation) : cancellation_(cancellation) {}
  virtual ~Attempt() = default;

 protected:
  // Goes on as far as the state of the resource allows, and calls End when the
  // operation is over. Returns whether it changed what others may wait for.
  virtual bool Try() = 0;
  // Undoes what the operation did, as far as it must not be done by half, and
  // returns the error for the step.
  virtual Status Withdraw() = 0;
  virtual void Complete(Status status) = 0;

  void End(Status status) {
    over_ = true;
    status_ = std::move(status);
  }

 private:
  friend class Shared;
  Cancellation* const cancellation_;
  int64_t callback_ = -1;  // In `cancellation_`; < 0: none.
  bool over_ = false;      // Guarded by the lock of the resource until it is.
  Status status_;          // Of an operation that is over.
};

// An operation that does all at once or nothing.
class AtOnce final : public Attempt {
 public:
  // `attempt` is called with the lock held, as Try: it does nothing and returns
  // nullopt while the operation is not possible. `name`: for the error of one
  // that is cancelled.
  AtOnce(Cancellation* cancellation, const char* name,
         std::function<std::optional<Status>()> attempt,
         std::function<void(Status)> done)
      : Attempt(cancellation),
        name_(name),
        attempt_(std::move(attempt)),
        done_(std::move(done)) {}

 private:
  bool Try() override {
    std::optional<Status> status = attempt_();
    if (!status) return false;
    End(*std::move(status));
    return true;
  }
  Status Withdraw() override {
    return Cancelled(name_, " operation was cancelled");
  }
  void Complete(Status status) override { done_(std::move(status)); }

  const char* const name_;
  const std::function<std::optional<Status>()> attempt_;
  const std::function<void(Status)> done_;
};

// A resource on which operations wait. Each operation belongs to a lane. The
// attempts of a lane in order are served in the order in which they came: none
// before the first is over. Those of another lane are served as the state
// allows.
//
// Thread-safe. Neither callbacks nor completions run with the lock held:
// completions run after the change that made them possible, on the thread that
// made it, in the order in which the attempts ended.
class Shared : public Resource, public std::enable_shared_from_this<Shared> {
 protected:
  using AttemptPtr = std::shared_ptr<Attempt>;
  using Ended = absl::InlinedVector<AttemptPtr, 2>;

  // `in_order`: for each lane.
  explicit Shared(std::initializer_list<bool> in_order) {
    for (const bool o : in_order)
      lanes_.push_back({.in_order = o, .waiting = {}});
  }

  // Starts an operation, which is over when its Complete has run: before Begin
  // returns or later, on any thread.
  void Begin(size_t lane, AttemptPtr attempt);
  // Calls change(&ended) under the lock, serves what waits, and completes.
  template <typename Change>
  void Update(Change&& change) {
    Ended ended;
    {
      std::lock_guard<std::mutex> lock(mu_);
      change(&ended);
      Serve(&ended);
    }
    Complete(ended);
  }
  // The parts of Update, for changes that take several turns of the lock: with
  // it, serves what waits and adds the attempts that end; without it, completes
  // these.
  void Serve(Ended* ended);
  static void Complete(const Ended& ended);
  // Ends all that waits in a lane. REQUIRES: mu_ is held.
  void EndAll(size_t lane, const Status& status, Ended* ended);
  // How many attempts wait in a lane. REQUIRES: mu_ is held.
  int64_t waiting(size_t lane) const {
    return static_cast<int64_t>(lanes_[lane].waiting.size());
  }
  // For how long attempts have waited in a lane so far. REQUIRES: mu_ is held.
  int64_t waited_ns(size_t lane) const {
    const Lane& l = lanes_[lane];
    return l.waited_ns + (l.since_ns == 0 ? 0 : NowNs() - l.since_ns);
  }

  mutable std::mutex mu_;  // Guards the state of the resource too.

 private:
  struct Lane {
    bool in_order;
    std::list<AttemptPtr> waiting;
    int64_t waited_ns = 0;  // Until it was empty last.
    int64_t since_ns = 0;   // Since when it is not empty; 0: it is.
  };
  // Keeps the time after attempts have come or gone. REQUIRES: mu_ is held.
  void NoteWaiting();
  // Removes an attempt whose step was cancelled, unless it is over.
  void Cancel(const AttemptPtr& attempt);
  // For these, mu_ is held. Attempts that end are added to `ended`.
  void Remove(const AttemptPtr& attempt, Ended* ended);
  static bool ServeLane(Lane* lane, Ended* ended);

  std::vector<Lane> lanes_;  // GUARDED_BY(mu_)
};

}  // namespace sluice::queues

#endif  // SLUICE_OPS_QUEUES_ATTEMPTS_H_
