// MasterSteps: the steps that a master coordinates.
#ifndef SLUICE_CLUSTER_MASTER_STEPS_H_
#define SLUICE_CLUSTER_MASTER_STEPS_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cluster/common/messages.h"
#include "cluster/common/task_threads.h"
#include "cluster/transport/transport.h"
#include "cluster/worker/worker.h"

namespace sluice {

// A signature that is registered with all its tasks. Immutable.
struct PreparedStep {
  struct Part {
    std::string task;
    PeerId peer = kThisTask;
    std::vector<uint32_t> args;     // The feeds that it needs.
    std::vector<uint32_t> fetches;  // The fetches that it produces.
  };
  uint64_t session = 0;
  uint64_t step = 0;
  struct Feed {
    std::string name;
    DType dtype = DType::kInvalid;
    PartialShape shape;
  };
  std::vector<Feed> feeds;
  size_t num_fetches = 0;
  std::vector<Part> parts;
  // For partial runs (`staged`): the parts begin without feeds, and each feed
  // is sent as a token to one of them.
  struct Entry {
    int part = -1;  // -1: no part needs it.
    uint32_t partition = 0, edge = 0;
  };
  bool staged = false;
  std::vector<Entry> entries;  // By feed.

  // Checks that `value` may be fed as this feed.
  Status CheckFeed(size_t feed, const Tensor& value) const;
};

struct StepResult {
  std::vector<Tensor> fetches;
  std::vector<proto::TaskStats> stats;  // One for each part.
};

// A client's request to run a step.
struct RunRequest {
  std::vector<Tensor> feeds;
  std::chrono::milliseconds timeout{0};  // 0: none.
  bool traced = false;
  uint64_t request = 0;  // For Cancel.
  // Receives printed text, possibly for a short time after the step is done.
  // Null: each task prints to its standard error.
  StepLog log;
  // Start may run this task's part of the step on the calling thread.
  bool here = false;
};

// Owned by a Master. Thread-safe. No lock is held while it sends.
class MasterSteps {
 public:
  using Done = std::function<void(Result<StepResult>)>;

  // `worker`: this task's. Both outlive this.
  MasterSteps(Worker* worker, Transport* transport,
              std::chrono::milliseconds patience);
  ~MasterSteps();  // Waits for the steps that run.

  // Runs one step until it has ended in all tasks and calls `done` once,
  // possibly before this returns. No thread waits, unless there is a timeout or
  // an error. The status is the first error that is not a consequence of
  // another one; after an error the other tasks are awaited for at most the
  // master's patience.
  void Start(std::shared_ptr<const PreparedStep> step, RunRequest request,
             Done done);
  // Begins a partial run and returns its number. It lives until EndStages, or
  // until its session is cancelled.
  Result<uint64_t> BeginStages(std::shared_ptr<const PreparedStep> step);
  // Sends feeds and waits for the fetches (nullopt: dead), for an error, and,
  // once everything has been fed and fetched, for the end of the step. An
  // invalid request leaves the step unchanged; a stage that takes longer than
  // `timeout` (0: none) fails the step.
  Result<std::vector<std::optional<Tensor>>> RunStage(
      uint64_t session, uint64_t run, std::span<const uint32_t> args,
      std::span<const Tensor> values, std::span<const uint32_t> fetches,
      std::chrono::milliseconds timeout);
  // Removes the step, and cancels it if it has not ended.
  void EndStages(uint64_t session, uint64_t run);

  // `request` 0: all of the session. Also applies to steps that arrive later.
  void Cancel(uint64_t session, uint64_t request, const Status& why);

  // Called by the transport.
  void OnFetches(PeerId from, uint64_t run, std::span<TokenMessage> batch);
  void OnDone(PeerId from, const proto::StepDone& done);
  void OnLog(PeerId from, const proto::StepLog& log);
  void OnStuck(PeerId from, uint64_t run);
  void OnState(PeerId from, const proto::StepState& state);
  void OnPeerLost(PeerId peer, const Status& why);
  // The transport will deliver nothing more.
  void OnTransportDown();

  size_t num_running();
  // No step runs, and all have been answered.
  bool idle();
  // No step starts from now on: Unavailable. Those that run go on.
  void Drain();
  size_t num_staged();  // Partial runs that have not ended.

 private:
  class Running;
  // Adds the step to running_, or returns why it cannot run.
  Status Add(const std::shared_ptr<Running>& r);
  // Sends its parts their start messages.
  void Begin(const std::shared_ptr<Running>& r);
  std::shared_ptr<Running> Find(uint64_t run);
  std::shared_ptr<Running> FindStaged(uint64_t session, uint64_t run);
  void Send(const std::shared_ptr<Running>& r, size_t part);
  // A part has ended, or something has failed. Continues with the step if no
  // thread waits for it.
  void PartDone(const std::shared_ptr<Running>& r, size_t part, const Status& s,
                const proto::TaskStats* stats, GroupState state = {});
  void Fail(const std::shared_ptr<Running>& r, const Status& s);
  void Advance(const std::shared_ptr<Running>& r);
  // Runs on its own thread.
  void WaitFor(const std::shared_ptr<Running>& r);
  // Asks the parts for their states, from time to time, until the step ends or
  // is found to be stuck (GroupState), which fails it.
  void Watch(const std::shared_ptr<Running>& r);
  void WatchOnItsThread(const std::shared_ptr<Running>& r);
  // The sums of the parts' states, idle if all are. nullopt once the step is
  // over, or if a task does not answer.
  std::optional<std::vector<GroupState>> Ask(const std::shared_ptr<Running>& r);
  void Conclude(const std::shared_ptr<Running>& r);
  void SendCancels(const std::shared_ptr<Running>& r,
                   const std::vector<size_t>& parts, const Status& why);

  Worker* const worker_;
  Transport* const transport_;
  const std::chrono::milliseconds patience_;
  std::atomic<uint64_t> next_run_{1};

  std::mutex mu_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Running>>
      running_;  // GUARDED_BY(mu_)
  absl::flat_hash_map<uint64_t, std::shared_ptr<Running>>
      staged_;  // GUARDED_BY(mu_)
  // The latest cancellations, by session and request (0: the whole session),
  // because a step may arrive after its cancellation.
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, Status>
      cancelled_;  // GUARDED_BY(mu_)
  std::deque<std::pair<uint64_t, uint64_t>>
      cancelled_order_;    // GUARDED_BY(mu_)
  bool down_ = false;      // GUARDED_BY(mu_)
  bool draining_ = false;  // GUARDED_BY(mu_)
  std::condition_variable concluded_;
  size_t unconcluded_ = 0;  // GUARDED_BY(mu_)
  TaskThreads threads_;     // Last: joined before the rest is destroyed.
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_MASTER_STEPS_H_
