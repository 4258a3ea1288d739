// MasterSteps: the steps that a master coordinates.
#ifndef SLUICE_DIST_MASTER_STEPS_H_
#define SLUICE_DIST_MASTER_STEPS_H_

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
#include "dist/messages.h"
#include "dist/task_threads.h"
#include "dist/transport.h"
#include "dist/worker.h"

namespace sluice {

// A signature that all its tasks know. Constant.
struct PreparedStep {
  struct Part {
    std::string task;
    PeerId peer = kThisTask;
    std::vector<uint32_t> args;     // Of the feeds, those that it needs.
    std::vector<uint32_t> fetches;  // Those that it gives.
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
  // Fed in stages: its parts are begun without feeds, and each feed is a token
  // for one of them.
  struct Entry {
    int part = -1;  // None needs it.
    uint32_t partition = 0, edge = 0;
  };
  bool staged = false;
  std::vector<Entry> entries;  // By feed.

  // That `value` may be fed as that of this number.
  Status CheckFeed(size_t feed, const Tensor& value) const;
};

struct StepResult {
  std::vector<Tensor> fetches;
  std::vector<proto::TaskStats> stats;  // One for each part.
};

// A run of a step, as a client asks for it.
struct RunRequest {
  std::vector<Tensor> feeds;
  std::chrono::milliseconds timeout{0};  // 0: none.
  bool traced = false;
  uint64_t request = 0;  // For Cancel.
  // Takes what is printed, maybe for a moment after the step is done; null: it
  // goes to the standard error of each task.
  StepLog log;
  // Start may run this task's part of the step: its caller need not come back
  // soon.
  bool here = false;
};

// Owned by a Master. Thread-safe. No lock is held while it sends.
class MasterSteps {
 public:
  using Done = std::function<void(Result<StepResult>)>;

  // `worker`: the one of this task. Both outlive this.
  MasterSteps(Worker* worker, Transport* transport,
              std::chrono::milliseconds patience);
  ~MasterSteps();  // Waits for the steps that run.

  // Runs one step, to its end in all tasks, and calls `done` once, maybe before
  // this returns: no thread waits, unless there is a timeout or an error. It is
  // the first error of a task that is no consequence of another; then the
  // others are waited for at most as long as the master's patience.
  void Start(std::shared_ptr<const PreparedStep> step, RunRequest request,
             Done done);
  // A step that is fed in stages: its number, for what follows. It lives until
  // EndStages, or a Cancel of its session.
  Result<uint64_t> BeginStages(std::shared_ptr<const PreparedStep> step);
  // Feeds, and waits for what is fetched (none: it is dead), for an error, and
  // with the last feed for the step's end. An error of what was asked leaves
  // the step as it was; a stage that is not over within `timeout` (0: none)
  // fails it.
  Result<std::vector<std::optional<Tensor>>> RunStage(
      uint64_t session, uint64_t run, std::span<const uint32_t> args,
      std::span<const Tensor> values, std::span<const uint32_t> fetches,
      std::chrono::milliseconds timeout);
  // Forgets the step, and cancels it if it has not ended.
  void EndStages(uint64_t session, uint64_t run);

  // request 0: all of the session. Steps that come later end with it, too.
  void Cancel(uint64_t session, uint64_t request, const Status& why);

  // From the transport.
  void OnFetches(PeerId from, uint64_t run, std::span<TokenMessage> batch);
  void OnDone(PeerId from, const proto::StepDone& done);
  void OnLog(PeerId from, const proto::StepLog& log);
  void OnPeerLost(PeerId peer, const Status& why);
  // Nothing will come from it any more.
  void OnTransportDown();

  size_t num_running();
  size_t num_staged();  // Steps in stages that were not ended.

 private:
  class Running;
  // Makes the step known, or says why not.
  Status Add(const std::shared_ptr<Running>& r);
  // Sends its parts what they begin with.
  void Begin(const std::shared_ptr<Running>& r);
  std::shared_ptr<Running> Find(uint64_t run);
  std::shared_ptr<Running> FindStaged(uint64_t session, uint64_t run);
  void Send(const std::shared_ptr<Running>& r, size_t part);
  // A part of it is over, or something has failed. Goes on with the step if
  // nobody waits for it.
  void PartDone(const std::shared_ptr<Running>& r, size_t part, const Status& s,
                const proto::TaskStats* stats);
  void Fail(const std::shared_ptr<Running>& r, const Status& s);
  void GoOn(const std::shared_ptr<Running>& r);
  // On a thread of its own.
  void WaitFor(const std::shared_ptr<Running>& r);
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
  // What was cancelled, by session and request (0: all of it), the latest: a
  // step may come after its cancellation.
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, Status>
      cancelled_;  // GUARDED_BY(mu_)
  std::deque<std::pair<uint64_t, uint64_t>>
      cancelled_order_;  // GUARDED_BY(mu_)
  bool down_ = false;    // GUARDED_BY(mu_)
  std::condition_variable concluded_;
  size_t unconcluded_ = 0;  // GUARDED_BY(mu_)
  TaskThreads threads_;     // Last: joined before the rest goes.
};

}  // namespace sluice

#endif  // SLUICE_DIST_MASTER_STEPS_H_
