// WorkerSteps: the steps that run in a task.
#ifndef SLUICE_CLUSTER_WORKER_STEPS_H_
#define SLUICE_CLUSTER_WORKER_STEPS_H_

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
#include "cluster/common/messages.h"
#include "cluster/common/task_threads.h"
#include "cluster/transport/transport.h"
#include "exec/core/step_group.h"
#include "session/compile.h"

namespace sluice {

struct StepLimits {
  // Bounds on tokens that arrive before their step starts: total bytes, and how
  // long they are kept.
  size_t early_bytes = size_t{1} << 30;
  std::chrono::milliseconds early_expiry{30000};
  // Concurrent steps; each has a thread.
  size_t running = 4096;
};

// The part of a signature that runs here. Created by Worker::RegisterStep, then
// constant except for the idle groups; shared with the running steps.
struct RegisteredStep {
  uint64_t session = 0;
  std::string task;                       // The session's name for this task.
  std::vector<PartitionPlan> partitions;  // All; null plans run elsewhere.
  std::vector<BuiltPlan> built;           // Kept alive.
  std::vector<PeerId> peers;              // By partition; unused if local.
  std::vector<uint32_t> fetches;          // Fetches with their _Retval here.
  // Tokens for the partition after the last are fetches, sent to the master.
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

// Statistics of a task's steps.
struct StepCounters {
  int64_t succeeded = 0, failed = 0;
  // The durations of the latest ones, unordered.
  std::vector<int64_t> recent_ns;
};

// The result of a step in this task.
struct StepOutcome {
  Status status;
  std::vector<uint32_t> fetches;
  std::vector<Tensor> values;  // By fetch.
  proto::TaskStats stats;
  // If the status is OK: tokens between partitions, as in GroupState.
  uint64_t tokens_sent = 0, tokens_received = 0;
};

// A request to run a step.
struct StepRequest {
  uint64_t run = 0;  // Its number, the same in all tasks.
  std::shared_ptr<RegisteredStep> step;
  std::vector<uint32_t> args;
  std::vector<Tensor> values;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  bool traced = false;
  // Start may run the step on the calling thread, if that thread is not already
  // running another.
  bool here = false;
  PeerId master = kThisTask;  // Losing this peer cancels it.
  // Receives printed text; null: it goes to standard error.
  StepLog log;
  // For a partial run of this task's master: receives the fetches, on any
  // thread.
  std::function<void(std::span<TokenMessage>)> fetched;
  // Called at most once, on any thread, when the part here may be stuck
  // (TokenSink::MayBeStuck). Not of a partial run, which may wait for its
  // client.
  std::function<void()> stuck;
  // Called once, on any thread, after the step's state is destroyed.
  std::function<void(StepOutcome)> done;
};

// Owned by a Worker. Thread-safe.
//
// A step is known from Start until its outcome is reported. Tokens that arrive
// earlier are kept for it, within limits; tokens that arrive later are dropped.
class WorkerSteps {
 public:
  WorkerSteps(std::string task, StepLimits limits, Transport* transport);
  ~WorkerSteps();  // Stops.

  // Cancels all steps; no step starts afterwards.
  void Stop();
  // No step starts from now on: Unavailable. Those that run go on.
  void Drain();
  void Start(StepRequest request);
  void Deliver(uint64_t run, uint32_t partition, std::span<TokenMessage> batch);
  // Takes the feeds that have arrived for a step that is about to start. An
  // error says why others may be missing: they were dropped.
  Status TakeFeeds(uint64_t run, std::vector<uint32_t>* args,
                   std::vector<Tensor>* values);
  // A step that has not started yet will then not start.
  void Cancel(uint64_t run, const Status& why);
  void CancelSession(uint64_t session, const Status& why);
  void OnPeerLost(PeerId peer, const Status& why);
  // The step will not start: drops the tokens that arrived for it.
  void Forget(uint64_t run);
  // The state of a step of this master; not idle if it does not run.
  GroupState State(PeerId master, uint64_t run);

  size_t num_running();
  // No step runs, and the outcomes of all have been reported.
  bool idle();
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

  // Without a deadline it does not wait: the thread that ends the step calls
  // OnGroupDone.
  void Run(const std::shared_ptr<Step>& step);
  // The step has ended: nothing more is delivered to it.
  void OnGroupDone(const std::shared_ptr<Step>& step, const Status& s);
  // A thread leaves the group. The last one calls Conclude.
  void Leave(const std::shared_ptr<Step>& step);
  void Conclude(const std::shared_ptr<Step>& step);
  void Count(int64_t took_ns, bool ok);
  // No step of this number starts any more; `why` is its error. REQUIRES: mu_
  // held.
  void Ended(uint64_t run, Status why = Cancelled("step: expected one that has "
                                                  "not been cancelled"));
  Status TooManyEarlyTokens() const;
  void KeepEarlyTokens(uint64_t run, uint32_t partition,
                       std::span<TokenMessage> batch);
  // Drops tokens whose steps did not start in time, until none are left.
  void WatchEarly();
  // The error of a lost task of the step, if any is lost. REQUIRES: mu_ held.
  Status FindLost(const Step& step) const;

  const std::string task_;
  const StepLimits limits_;
  Transport* const transport_;

  std::mutex mu_;
  std::condition_variable concluded_;
  size_t unconcluded_ = 0;  // GUARDED_BY(mu_)
  bool stopped_ = false;    // GUARDED_BY(mu_)
  bool draining_ = false;   // GUARDED_BY(mu_)
  absl::flat_hash_map<uint64_t, std::shared_ptr<Step>>
      running_;                                 // GUARDED_BY(mu_)
  absl::flat_hash_map<uint64_t, Early> early_;  // GUARDED_BY(mu_)
  size_t early_bytes_ = 0;                      // GUARDED_BY(mu_)
  bool watching_ = false;                       // GUARDED_BY(mu_)
  std::condition_variable early_over_;
  absl::flat_hash_map<uint64_t, Status> ended_;  // GUARDED_BY(mu_): latest.
  std::deque<uint64_t> ended_order_;             // GUARDED_BY(mu_)
  // GUARDED_BY(mu_): the latest sessions that ended, and why.
  std::deque<std::pair<uint64_t, Status>> closed_;
  StepCounters counters_;  // GUARDED_BY(mu_)
  TaskThreads threads_;    // Last: joined before the rest is destroyed.
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_WORKER_STEPS_H_
