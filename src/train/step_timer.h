// When something that is done every so many steps or seconds is due.
#ifndef SLUICE_TRAIN_STEP_TIMER_H_
#define SLUICE_TRAIN_STEP_TIMER_H_

#include <cstdint>
#include <optional>

#include "train/training_hook.h"

namespace sluice {

// `what` is in the message. InvalidArgument if a number is negative or NaN.
inline Status CheckEvery(const char* what, const Every& every) {
  if (every.steps >= 0 && every.seconds >= 0) return OkStatus();
  return InvalidArgument(what, ": expected no negative interval, got ",
                         every.steps, " steps and ", every.seconds, " seconds");
}

// Counts from the last Done. Not thread-safe.
class StepTimer {
 public:
  explicit StepTimer(const Every& every) : every_(every) {}
  const Every& every() const { return every_; }

  // Whether there is an interval at all.
  bool enabled() const { return every_.steps > 0 || every_.seconds > 0; }
  // At the step's end, `now` in seconds. Before the first Done: always.
  bool Due(int64_t step, double now) const {
    if (!enabled()) return false;
    if (!last_.has_value()) return true;
    if (step == last_->step) return false;
    // After a loss, the steps since a checkpoint are run again.
    if (step < last_->step) return true;
    return (every_.steps > 0 && step - last_->step >= every_.steps) ||
           (every_.seconds > 0 && now - last_->time >= every_.seconds);
  }
  void Done(int64_t step, double now) { last_ = Last{step, now}; }
  void Reset() { last_.reset(); }

  struct Last {
    int64_t step = 0;
    double time = 0;
  };
  const std::optional<Last>& last() const { return last_; }

 private:
  const Every every_;
  std::optional<Last> last_;
};

}  // namespace sluice

#endif  // SLUICE_TRAIN_STEP_TIMER_H_
