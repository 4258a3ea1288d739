// MasterSteps: the steps that a master coordinates.
#ifndef SLUICE_DIST_MASTER_STEPS_H_
#define SLUICE_DIST_MASTER_STEPS_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "dist/messages.h"
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
  size_t num_feeds = 0;
  size_t num_fetches = 0;
  std::vector<Part> parts;
};

struct StepResult {
  std::vector<Tensor> fetches;
  std::vector<proto::TaskStats> stats;  // One for each part.
};

// Owned by a Master. Thread-safe. No lock is held while it sends.
class MasterSteps {
 public:
  // `worker`: the one of this task. Both outlive this.
  MasterSteps(Worker* worker, Transport* transport,
              std::chrono::milliseconds patience);
  ~MasterSteps();

  // Runs one step, to its end in all tasks. `request` may be given to Cancel
  // meanwhile. The first error of a task that is no consequence of another;
  // then it waits for the others at most as long as the master's patience.
  Result<StepResult> Run(const PreparedStep& step,
                         std::span<const Tensor> feeds,
                         std::chrono::milliseconds timeout, bool traced,
                         uint64_t request);
  // request 0: all of the session.
  void Cancel(uint64_t session, uint64_t request, const Status& why);

  // From the transport.
  void OnFetches(PeerId from, uint64_t run, std::span<TokenMessage> batch);
  void OnDone(PeerId from, const proto::StepDone& done);
  void OnPeerLost(PeerId peer, const Status& why);

  size_t num_running();

 private:
  class Running;
  std::shared_ptr<Running> Find(uint64_t run);
  void Send(const std::shared_ptr<Running>& r, size_t part,
            std::span<const Tensor> feeds, std::chrono::milliseconds timeout,
            bool traced);
  void SendCancels(const std::shared_ptr<Running>& r,
                   const std::vector<size_t>& parts, const Status& why);

  Worker* const worker_;
  Transport* const transport_;
  const std::chrono::milliseconds patience_;
  std::atomic<uint64_t> next_run_{1};

  std::mutex mu_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Running>>
      running_;                               // GUARDED_BY(mu_)
  absl::flat_hash_map<PeerId, Status> lost_;  // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_DIST_MASTER_STEPS_H_
