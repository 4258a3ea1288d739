// Detects two runs in one folder.
//
//   Result<RunLock> lock = RunLock::Take("model");
//   if (!lock.ok()) return lock.status();  // Another run is in the folder.
#ifndef SLUICE_TRAIN_RUN_LOCK_H_
#define SLUICE_TRAIN_RUN_LOCK_H_

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace sluice {

// Holds a folder for this process, by a lock of the system (flock) on the file
// ".run.lock" in it, which holds a line about the owner. The system gives the
// lock back when the process ends, however it ends: a file that is left over
// means nothing. Within the process the lock is shared: several savers may
// write to one folder. Copies hold it together. Thread-safe.
class RunLock {
 public:
  // Creates the folder, if it does not exist. FailedPrecondition, with the
  // owner, if another process has it. On a file system without such locks
  // nothing is detected.
  //
  // `newly_taken` is called if this process did not hold the folder: what was
  // left in it is of processes that have ended. No other thread has the lock
  // before it returns.
  static Result<RunLock> Take(const std::string& folder,
                              const std::function<void()>& newly_taken = {});

 private:
  class Held;
  explicit RunLock(std::shared_ptr<Held> held) : held_(std::move(held)) {}
  std::shared_ptr<Held> held_;
};

}  // namespace sluice

#endif  // SLUICE_TRAIN_RUN_LOCK_H_
