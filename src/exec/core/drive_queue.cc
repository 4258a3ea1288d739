#include "exec/core/drive_queue.h"

#include "exec/core/executor.h"

namespace sluice {
namespace {

thread_local DriveQueue* thread_queue = nullptr;

}  // namespace

std::unique_lock<std::mutex> DriveQueue::Lock() {
  return access_ == kAnyThread ? std::unique_lock<std::mutex>(mu_)
                               : std::unique_lock<std::mutex>();
}
void DriveQueue::Add(Execution* e) {
  const auto lock = Lock();
  turns_.push_back(e);
}
Execution* DriveQueue::Next() {
  const auto lock = Lock();
  if (turns_.empty()) return nullptr;
  Execution* const next = turns_.front();
  turns_.erase(turns_.begin());
  return next;
}
bool DriveQueue::empty() {
  const auto lock = Lock();
  return turns_.empty();
}

HeldDriveScope::HeldDriveScope(DriveQueue* here)
    : outermost_(thread_queue == nullptr) {
  if (outermost_) thread_queue = here;
}
HeldDriveScope::~HeldDriveScope() {
  if (!outermost_) return;
  DriveWaiting();
  thread_queue = nullptr;
}

bool OthersWait() { return thread_queue != nullptr && !thread_queue->empty(); }
void WaitForTurn(Execution* e) { thread_queue->Add(e); }
void DriveWaiting() {
  if (thread_queue == nullptr) return;
  while (Execution* const next = thread_queue->Next()) next->DriveThis();
}

}  // namespace sluice
