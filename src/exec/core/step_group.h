// StepGroup: the partitions of one step in one process, each with its own
// execution, and the tokens between them.
#ifndef SLUICE_EXEC_CORE_STEP_GROUP_H_
#define SLUICE_EXEC_CORE_STEP_GROUP_H_

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/core/device.h"
#include "exec/core/executor.h"
#include "exec/core/rendezvous.h"

namespace sluice {

// One partition of a step signature. `plan` is null if another process runs it;
// `device` outlives it.
struct PartitionPlan {
  std::shared_ptr<const Plan> plan;
  Device* device = nullptr;
};

// Makes a step, or a partition of one, run on the device: its memory, its
// stream and the order of its nodes.
void SetDevice(Device& device, ExecuteOptions* options);

// Destination of tokens for partitions. Thread-safe; never blocks. Takes the
// values.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void Deliver(uint32_t partition, std::span<TokenMessage> batch) = 0;
  // Of a sink for partitions elsewhere: those here wait for each other, or for
  // what runs elsewhere (GroupState). Called at most once in a step.
  virtual void MayBeStuck() {}
};

// What a group knows of the end of its step. The step is stuck if all groups
// are idle, twice in a row and with the same numbers of tokens each, and as
// many tokens have been received as were sent: between the two looks, none was
// idle and then was not, for that takes a token; and none was on its way.
struct GroupState {
  bool idle = false;      // Every partition is done, or waits.
  uint64_t sent = 0;      // Tokens for other partitions, here or elsewhere.
  uint64_t received = 0;  // Tokens from other partitions.
  std::vector<std::string> needs;  // If idle: what its kernels wait for.
};

// Reused for later steps of the same plans. Owned by the runner of the step.
// Start, Run and Finish are called by one thread at a time; Deliver and Cancel
// by any, between Start and Finish.
class StepGroup final : public TokenSink {
 public:
  // By number of the partition.
  explicit StepGroup(std::vector<PartitionPlan> partitions);
  ~StepGroup() override;

  // Begins a step; tokens may arrive from now on. `elsewhere` takes those for
  // partitions of other processes (null if there are none).
  void Start(const ExecuteOptions& options, TokenSink* elsewhere = nullptr);
  // Delivers the feeds (arguments are numbered over all partitions; those of
  // other processes are skipped) and runs until all local partitions are done,
  // or one has failed and the others have stopped. The thread that detects this
  // calls `done` once, possibly before this returns; the calling thread drives
  // as far as it can.
  void Run(std::span<const uint32_t> args, std::span<const Tensor> values,
           std::function<void(Status)> done);
  // The same, but waits.
  Status Run(std::span<const uint32_t> args, std::span<const Tensor> values);
  // A fetched token; null if it was not fetched here or has not arrived. Valid
  // until Finish.
  Tensor* result(uint32_t index);
  // The reason why fetch `index`, whose _Retval is local, has not arrived.
  Status MissingResult(uint32_t index) const;
  // As Execution::UnconsumedTokens, for all local partitions. REQUIRES: done.
  size_t UnconsumedTokens() const;
  // Its state now; the counts are exact if it is idle. Callable by any thread
  // from Start to Finish.
  GroupState State();
  // Frees everything that belongs to the step. REQUIRES: done.
  void Finish();

  void Deliver(uint32_t partition, std::span<TokenMessage> batch) override;
  // Ends the step with this error, if it has none yet.
  void Cancel(const Status& why);

 private:
  class Partition;
  void PartitionDone(const Status& s);
  void EndOne(const Status& s);
  void CheckStuck();
  void CancelAll(const Status& why);

  std::vector<std::unique_ptr<Partition>> partitions_;  // Null: elsewhere.
  std::vector<Partition*>
      by_result_;  // By index of the fetch; null: elsewhere.
  TokenSink* elsewhere_ = nullptr;
  // Whether some kernel waits for other nodes of its step (Kernel::needs).
  bool may_be_stuck_ = false;
  std::optional<std::chrono::steady_clock::time_point> deadline_;

  std::mutex mu_;
  size_t running_ = 0;                // GUARDED_BY(mu_)
  bool all_run_ = false;              // GUARDED_BY(mu_)
  bool told_ = false;                 // GUARDED_BY(mu_): MayBeStuck.
  Status status_;                     // GUARDED_BY(mu_): the first root error.
  std::function<void(Status)> done_;  // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_STEP_GROUP_H_
