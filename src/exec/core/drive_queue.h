// Queues of the executions that a thread drives next.
#ifndef SLUICE_EXEC_CORE_DRIVE_QUEUE_H_
#define SLUICE_EXEC_CORE_DRIVE_QUEUE_H_

#include <mutex>
#include <vector>

namespace sluice {

class Execution;

// The executions that wait for their turn on a thread: an execution that a
// token makes ready is driven after the current one, not recursively within it.
// Owned by a message reader, or by the outermost Drive on a thread
// (exec/core/executor.h).
class DriveQueue {
 public:
  enum Access { kOneThread, kAnyThread };
  explicit DriveQueue(Access access) : access_(access) {}
  DriveQueue(const DriveQueue&) = delete;

  void Add(Execution* e);
  // Removes and returns the execution that has waited longest; null if empty.
  Execution* Next();
  bool empty();

 private:
  std::unique_lock<std::mutex> Lock();

  const Access access_;
  std::mutex mu_;
  std::vector<Execution*> turns_;  // GUARDED_BY(mu_) if access_ is kAnyThread.
};

// RAII scope that holds back the executions that this thread is to drive; its
// destructor drives them. For code that has more tokens to deliver first. Has
// no effect within another one, or on a thread that drives already.
class HeldDriveScope {
 public:
  HeldDriveScope() : HeldDriveScope(&own_) {}
  // Holds them in `here`, together with those already queued there.
  explicit HeldDriveScope(DriveQueue* here);
  ~HeldDriveScope();
  HeldDriveScope(const HeldDriveScope&) = delete;
  // Whether this thread drives nothing yet.
  bool outermost() const { return outermost_; }

 private:
  DriveQueue own_{DriveQueue::kOneThread};
  const bool outermost_;
};

// Whether executions wait for their turn on this thread.
bool OthersWait();
// Queues `e` for its turn on this thread. REQUIRES: within a HeldDriveScope.
void WaitForTurn(Execution* e);
// Drives the executions that wait for their turn on this thread. For a kernel
// that runs a step of its own, before the thread sleeps: that step may wait for
// one of them.
void DriveWaiting();

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_DRIVE_QUEUE_H_
