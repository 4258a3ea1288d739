// Step: one run of a plan or of its partitions.
#ifndef SLUICE_SESSION_STEP_H_
#define SLUICE_SESSION_STEP_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exec/core/executor.h"
#include "exec/core/step_group.h"

namespace sluice {

// Wraps an Execution if there is one partition, without further cost, and a
// StepGroup otherwise. Their rules apply: reusable for later steps; Start, Run
// and Finish are called by one thread, Cancel by any.
class Step {
 public:
  explicit Step(const std::vector<PartitionPlan>& parts) {
    if (parts.size() == 1) {
      device_ = parts[0].device;
      alone_.emplace(parts[0].plan);
    } else {
      group_ = std::make_unique<StepGroup>(parts);
    }
  }

  void Start(ExecuteOptions options) {
    if (!alone_) return group_->Start(options);
    SetDevice(*device_, &options);
    alone_->Start(options);
  }
  // For a step in stages, which has one partition: Execution::RunStage, Stop
  // and AwaitEnd.
  Status RunStage(std::span<const uint32_t> args,
                  std::span<const Tensor> values,
                  std::span<const uint32_t> awaited,
                  Execution::Deadline deadline,
                  const std::function<Status()>& collect) {
    return alone_->RunStage(args, values, awaited, deadline, collect);
  }
  void Stop(const Status& why) { alone_->Stop(why); }
  void AwaitEnd() { alone_->AwaitEnd(); }
  Status Run(std::span<const uint32_t> args, std::span<const Tensor> values) {
    return alone_ ? alone_->Run(args, values) : group_->Run(args, values);
  }
  // Run without waiting: `quiet` is called once with the step's status, by the
  // last thread that drives it, possibly before this returns.
  void RunAsync(std::span<const uint32_t> args, std::span<const Tensor> values,
                std::function<void(Status)> quiet) {
    alone_ ? alone_->RunAsync(args, values, std::move(quiet))
           : group_->Run(args, values, std::move(quiet));
  }
  // A fetched token; null if it was not produced.
  Tensor* result(uint32_t index) {
    if (!alone_) return group_->result(index);
    Tensor& t = alone_->result(index);
    return t.valid() ? &t : nullptr;
  }
  Status MissingResult(uint32_t index) const {
    return alone_ ? alone_->MissingResult(index) : group_->MissingResult(index);
  }
  void Finish() { alone_ ? alone_->Finish() : group_->Finish(); }
  void Cancel(const Status& why) {
    alone_ ? alone_->Cancel(why) : group_->Cancel(why);
  }

 private:
  std::optional<Execution> alone_;
  Device* device_ = nullptr;
  std::unique_ptr<StepGroup> group_;
};

}  // namespace sluice

#endif  // SLUICE_SESSION_STEP_H_
