// WorkerSteps: the steps that run in a task.
#ifndef SLUICE_DIST_WORKER_STEPS_H_
#define SLUICE_DIST_WORKER_STEPS_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/thread_pool.h"
#include "dist/messages.h"
#include "dist/task_threads.h"
#include "dist/transport.h"
#include "exec/step_group.h"
#include "session/compile.h"

namespace sluice {

struct StepLimits {
  // Tokens of steps that were not told of yet: so many bytes, for so long.
  size_t early_bytes = size_t{1} << 30;
  std::chrono::milliseconds early_expiry{30000};
  // Steps at once; each has a thread.
  size_t running = 4096;
};

// The part of a signature that runs here. Made by Worker::RegisterStep, then
// constant but for the idle groups; shared with the steps that run.
struct RegisteredStep {
  uint64_t session = 0;
  std::string task;                       // What the session calls this one.
  std::vector<PartitionPlan> partitions;  // All; a null plan is elsewhere.
  std::vector<BuiltPlan> built;           // Kept alive.
  std::vector<PeerId> peers;              // By partition; here: unused.
  std::vector<uint32_t> fetches;          // Whose _Retval is here.
  // What goes to the partition after the last is fetched: the master's.
  bool staged = false;
  std::shared_ptr<ResourceManager> resources;
  ThreadPool* pool = nullptr;
  int64_t max_call_depth = 0;
  uint64_t scheduler_seed = 0;

  std::unique_ptr<StepGroup> Acquire();
  void Release(std::unique_ptr<StepGroup> group);

 private:
  std::mutex mu_;
  std::vector<std::unique_ptr<StepGroup>> idle_;  // GUARDED_BY(mu_)
};

// How the steps of a task went.
struct StepCounters {
  int64_t ended_well = 0, failed = 0;
  // How long the latest ones took, in no order.
  std::vector<int64_t> recent_ns;
};

// What a step did here.
struct StepOutcome {
  Status status;
  std::vector<uint32_t> fetches;
  std::vector<Tensor> values;  // Of the fetches.
  proto::TaskStats stats;
};

// A step to be run.
struct StepRequest {
  uint64_t run = 0;  // Its number, in all processes.
  std::shared_ptr<RegisteredStep> step;
  std::vector<uint32_t> args;
  std::vector<Tensor> values;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  bool traced = false;
  // Start may run it, if it is not busy with another already: its caller need
  // not come back soon.
  bool here = false;
  PeerId master = kThisTask;  // Cancelled when this peer is lost.
  // Takes what is printed; null: it goes to standard error.
  StepLog log;
  // Of a step of this task's master that is staged: takes what is fetched, on
  // whichever thread has it.
  std::function<void(std::span<TokenMessage>)> fetched;
  // Called once, on some thread, after the step's state is gone.
  std::function<void(StepOutcome)> done;
};

// Owned by a Worker. Thread-safe.
//
// A step is known from Start until its outcome is told. Tokens that come before
// that wait for it, within limits; those that come after it are dropped.
class WorkerSteps {
 public:
  WorkerSteps(std::string task, StepLimits limits, Transport* transport);
  ~WorkerSteps();  // Stops.

  // Cancels all. Steps do not start any more.
  void Stop();
  void Start(StepRequest request);
  void Deliver(uint64_t run, uint32_t partition, std::span<TokenMessage> batch);
  // The tokens of the feeds that came for a step that is about to start.
  void TakeFeeds(uint64_t run, std::vector<uint32_t>* args,
                 std::vector<Tensor>* values);
  // Also of steps that have not started, which then never do.
  void Cancel(uint64_t run, const Status& why);
  void CancelSession(uint64_t session, const Status& why);
  void OnPeerLost(PeerId peer, const Status& why);
  // The step will not start: what came for it is dropped.
  void Forget(uint64_t run);

  size_t num_running();
  size_t early_bytes();
  StepCounters counters();

 private:
  class Step;
  struct Early {
    std::vector<TokenMessage> feeds;
    std::vector<std::pair<uint32_t, TokenMessage>> tokens;
    size_t bytes = 0;
    Status cancelled;
    std::chrono::steady_clock::time_point expires;
  };

  // Without a deadline it does not wait: whoever ends the step goes on with
  // Over.
  void Run(const std::shared_ptr<Step>& step);
  // It has come to rest: nothing is delivered to it any more.
  void Over(const std::shared_ptr<Step>& step, const Status& s);
  // A thread leaves the group. The last goes on with Conclude.
  void Leave(const std::shared_ptr<Step>& step);
  void Conclude(const std::shared_ptr<Step>& step);
  void Count(int64_t took_ns, bool ok);
  void Ended(uint64_t run);  // REQUIRES: mu_ held.
  void Park(uint64_t run, uint32_t partition, std::span<TokenMessage> batch);
  // Drops tokens whose steps did not begin in time, until there are none.
  void WatchEarly();
  // Why one of its tasks is gone, if one is. REQUIRES: mu_ held.
  Status FindLost(const Step& step) const;

  const std::string task_;
  const StepLimits limits_;
  Transport* const transport_;

  std::mutex mu_;
  std::condition_variable concluded_;
  size_t unconcluded_ = 0;  // GUARDED_BY(mu_)
  bool stopped_ = false;    // GUARDED_BY(mu_)
  absl::flat_hash_map<uint64_t, std::shared_ptr<Step>>
      running_;                                 // GUARDED_BY(mu_)
  absl::flat_hash_map<uint64_t, Early> early_;  // GUARDED_BY(mu_)
  size_t early_bytes_ = 0;                      // GUARDED_BY(mu_)
  bool watching_ = false;                       // GUARDED_BY(mu_)
  std::condition_variable early_over_;
  absl::flat_hash_set<uint64_t> ended_;  // GUARDED_BY(mu_): the latest.
  std::deque<uint64_t> ended_order_;     // GUARDED_BY(mu_)
  // GUARDED_BY(mu_): the latest sessions that ended, and why.
  std::deque<std::pair<uint64_t, Status>> closed_;
  StepCounters counters_;  // GUARDED_BY(mu_)
  TaskThreads threads_;    // Last: joined before the rest goes.
};

}  // namespace sluice

#endif  // SLUICE_DIST_WORKER_STEPS_H_
