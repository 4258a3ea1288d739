// What the hooks that write event files do about errors of these files.
#ifndef SLUICE_TRAIN_EVENT_ERRORS_H_
#define SLUICE_TRAIN_EVENT_ERRORS_H_

#include "train/training_hook.h"

namespace sluice {

// A hook's Begin returns it. InvalidArgument if the run has no event files. A
// candidate for the chief has some while it is elected.
inline Status CheckHasEvents(const TrainingContext& context) {
  if (context.events() != nullptr) return OkStatus();
  if (!context.folder().empty() && context.is_candidate()) return OkStatus();
  return context.folder().empty()
             ? InvalidArgument("expected a run with a folder, got none")
             : InvalidArgument(
                   "expected the chief, whose run has event files, got another "
                   "worker");
}

// Logs the first error only: a full disk costs what is looked at, not the run.
// One for each hook; not thread-safe.
class EventErrors {
 public:
  void Note(const TrainingContext& context, const Status& s) {
    if (s.ok() || logged_) return;
    logged_ = true;
    context.Log(absl::StrCat("WARNING: events: not written, training goes on: ",
                             s.ToString()));
  }

 private:
  bool logged_ = false;
};

}  // namespace sluice

#endif  // SLUICE_TRAIN_EVENT_ERRORS_H_
