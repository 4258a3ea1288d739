// Threads that work for a common end: they stop together, and the first error
// of any of them is reported.
//
//   Coordinator coordinator;
//   Status status = coordinator.Start([&]() -> Status {
//     while (!coordinator.ShouldStop())
//       SLUICE_RETURN_IF_ERROR(session.RunTargets({enqueue}));
//     return OkStatus();
//   });
//   if (status.ok()) status = session.Run(dequeue).status();
//   coordinator.RequestStop();
//   const Status first_error = coordinator.Join();
#ifndef SLUICE_DATA_COORDINATOR_H_
#define SLUICE_DATA_COORDINATOR_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"
#include "exec/core/cancellation.h"

namespace sluice {

// Owns its threads. Thread-safe.
class Coordinator {
 public:
  Coordinator() = default;
  // Stops and joins.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;

  // Runs `work` on a new thread. An error of it stops all. FailedPrecondition
  // after Join has returned.
  Status Start(std::function<Status()> work);
  // Asks all threads to stop: steps that run with cancellation() are cancelled.
  // An error is what Join returns, unless one was reported before.
  void RequestStop(const Status& error = OkStatus());
  bool ShouldStop() const;
  // Waits until a stop is requested, or for that time (in milliseconds; does
  // not wait if it is negative). Returns ShouldStop().
  bool WaitForStop(int64_t timeout_ms) const;
  // Waits until all threads have ended, and returns the first error. The
  // threads end by themselves or after a RequestStop.
  Status Join();
  // For RunOptions: is cancelled when a stop is requested.
  Cancellation* cancellation() { return &cancellation_; }

 private:
  Cancellation cancellation_;
  mutable std::mutex mu_;
  mutable std::condition_variable stopped_cv_;
  bool stopped_ = false;              // GUARDED_BY(mu_)
  bool joined_ = false;               // GUARDED_BY(mu_)
  Status error_;                      // GUARDED_BY(mu_)
  std::vector<std::thread> threads_;  // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_DATA_COORDINATOR_H_
