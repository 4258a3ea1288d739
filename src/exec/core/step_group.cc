#include "exec/core/step_group.h"

#include <condition_variable>
#include <utility>

namespace sluice {
namespace {

// Maximum number of messages per batch to one destination.
constexpr size_t kBatch = 64;

}  // namespace

void SetDevice(Device& device, ExecuteOptions* options) {
  options->step.allocator = device.allocator();
  options->step.stream = device.stream();
  options->oldest_first = !device.host_memory();
}

// One local partition. As an outbox it is used only by its driver.
class StepGroup::Partition final : public Outbox {
 public:
  Partition(StepGroup* group, const PartitionPlan& p)
      : device(p.device), execution(p.plan), group_(group) {}

  void Send(uint32_t destination, TokenMessage message) override {
    if (destination >= batches_.size()) batches_.resize(destination + 1);
    std::vector<TokenMessage>& batch = batches_[destination];
    if (batch.empty()) filled_.push_back(destination);
    batch.push_back(std::move(message));
    if (batch.size() >= kBatch) Flush();
  }

  void Flush() override {
    if (filled_.empty()) return;
    for (const uint32_t destination : filled_) {
      sent += batches_[destination].size();
      group_->Deliver(destination, batches_[destination]);
      batches_[destination].clear();
    }
    filled_.clear();
  }

  bool BeginCheck() override {
    if (!group_->may_be_stuck_) return false;
    const std::lock_guard<std::mutex> lock(group_->mu_);
    if (group_->told_) return false;
    ++group_->running_;  // (The step does not end before EndCheck.)
    return true;
  }
  void EndCheck() override {
    group_->CheckStuck();
    group_->EndOne(OkStatus());
  }

  // After a step that failed in the middle.
  void DropUnsent() {
    for (const uint32_t destination : filled_) batches_[destination].clear();
    filled_.clear();
  }

  Device* const device;
  Execution execution;
  // Tokens sent in this step. The driver's; for others, while they hold the
  // lock of the execution and nobody drives it.
  uint64_t sent = 0;

 private:
  StepGroup* const group_;
  std::vector<std::vector<TokenMessage>> batches_;  // By destination.
  std::vector<uint32_t> filled_;
};

StepGroup::StepGroup(std::vector<PartitionPlan> partitions) {
  for (const PartitionPlan& p : partitions) {
    partitions_.push_back(
        p.plan == nullptr ? nullptr : std::make_unique<Partition>(this, p));
    if (p.plan == nullptr) continue;
    for (const PlanNode& n : p.plan->nodes)
      may_be_stuck_ |= n.role == OpRole::kCompute &&
                       (n.flags & PlanNode::kWaitsInStep) != 0 &&
                       p.plan->waiting_kernels[n.aux]->needs != nullptr;
    const auto& retvals = p.plan->retvals;
    if (by_result_.size() < retvals.size())
      by_result_.resize(retvals.size(), nullptr);
    for (size_t i = 0; i < retvals.size(); ++i)
      if (retvals[i] != nullptr) by_result_[i] = partitions_.back().get();
  }
}

StepGroup::~StepGroup() = default;

void StepGroup::Start(const ExecuteOptions& options, TokenSink* elsewhere) {
  elsewhere_ = elsewhere;
  deadline_ = options.deadline;
  {
    std::lock_guard<std::mutex> lock(mu_);
    status_ = OkStatus();
    all_run_ = told_ = false;
  }
  for (const auto& p : partitions_) {
    if (p == nullptr) continue;
    p->sent = 0;
    ExecuteOptions o = options;
    o.outbox = p.get();
    SetDevice(*p->device, &o);
    p->execution.Start(o);
  }
}

void StepGroup::Run(std::span<const uint32_t> args,
                    std::span<const Tensor> values,
                    std::function<void(Status)> done) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    // One extra, so that the step does not end while partitions are started.
    running_ = 1;
    for (const auto& p : partitions_) running_ += p != nullptr;
    done_ = std::move(done);
  }
  for (const auto& p : partitions_)
    if (p != nullptr)
      p->execution.RunAsync(args, values,
                            [this](const Status& s) { PartitionDone(s); });
  {
    std::lock_guard<std::mutex> lock(mu_);
    all_run_ = true;
  }
  PartitionDone(OkStatus());
}

Status StepGroup::Run(std::span<const uint32_t> args,
                      std::span<const Tensor> values) {
  struct Waiter {
    std::mutex mu;
    std::condition_variable cv;
    bool done = false;
    Status status;
  } waiter;
  Run(args, values, [&waiter](Status s) {
    std::lock_guard<std::mutex> lock(waiter.mu);
    waiter.status = std::move(s);
    waiter.done = true;
    waiter.cv.notify_all();
  });
  DriveWaiting();
  std::unique_lock<std::mutex> lock(waiter.mu);
  const auto done = [&waiter] { return waiter.done; };
  if (deadline_ && !waiter.cv.wait_until(lock, *deadline_, done)) {
    lock.unlock();
    CancelAll(PastDeadline());
    DriveWaiting();  // What that has woken, if it was left to this thread.
    lock.lock();
  }
  waiter.cv.wait(lock, done);
  return waiter.status;
}

GroupState StepGroup::State() {
  GroupState state;
  {
    std::lock_guard<std::mutex> lock(mu_);
    state.idle = all_run_ && status_.ok();
  }
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const auto& p : partitions_)
    if (p != nullptr) locks.push_back(p->execution.LockToCheck());
  // (Cheap, and often false; then what is needed is of no interest.)
  for (const auto& p : partitions_)
    if (p != nullptr && !p->execution.IsIdle()) state.idle = false;
  if (!state.idle) return state;
  for (const auto& p : partitions_) {
    if (p == nullptr) continue;
    state.sent += p->sent;
    state.received += p->execution.received();
    if (!p->execution.AddNeeds(&state.needs)) state.idle = false;
  }
  return state;
}

// Fails the step if no partition can go on: tokens between the partitions are
// delivered by threads that drive one of them. If some are elsewhere, their
// sink has to find out. REQUIRES: running_ counts the caller.
void StepGroup::CheckStuck() {
  const GroupState state = State();
  if (!state.idle || state.needs.empty()) return;
  if (elsewhere_ == nullptr) return Cancel(StuckOn(state.needs));
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (std::exchange(told_, true)) return;
  }
  elsewhere_->MayBeStuck();
}

// Called once by each partition that has become quiet.
void StepGroup::PartitionDone(const Status& s) {
  if (may_be_stuck_ && s.ok()) CheckStuck();
  EndOne(s);
}

void StepGroup::EndOne(const Status& s) {
  bool first_error = false;
  std::function<void(Status)> done;
  Status status;
  {
    std::lock_guard<std::mutex> lock(mu_);
    first_error = !s.ok() && status_.ok();
    if (first_error) status_ = s;
    if (!first_error && --running_ > 0) return;
    if (!first_error) done = std::exchange(done_, nullptr);
    status = status_;
  }
  if (first_error) {
    // (The count decreases after the others are cancelled, so that the step
    // stays alive until then.)
    CancelAll(Cancelled("step: another partition failed: ", s.message()));
    std::lock_guard<std::mutex> lock(mu_);
    if (--running_ > 0) return;
    done = std::exchange(done_, nullptr);
  }
  done(status);
}

void StepGroup::Cancel(const Status& why) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (status_.ok()) status_ = why;
  }
  CancelAll(why);
}

void StepGroup::CancelAll(const Status& why) {
  for (const auto& p : partitions_)
    if (p != nullptr) p->execution.Cancel(why);
}

void StepGroup::Deliver(uint32_t partition, std::span<TokenMessage> batch) {
  Partition* here =
      partition < partitions_.size() ? partitions_[partition].get() : nullptr;
  if (here != nullptr) {
    here->execution.Receive(batch);
  } else if (elsewhere_ != nullptr) {
    elsewhere_->Deliver(partition, batch);
  }
}

Tensor* StepGroup::result(uint32_t index) {
  Partition* p = index < by_result_.size() ? by_result_[index] : nullptr;
  if (p == nullptr || !p->execution.result(index).valid()) return nullptr;
  return &p->execution.result(index);
}

Status StepGroup::MissingResult(uint32_t index) const {
  if (index >= by_result_.size() || by_result_[index] == nullptr)
    return Internal("fetch: expected one of a local partition, got number ",
                    index);
  return by_result_[index]->execution.MissingResult(index);
}

size_t StepGroup::UnconsumedTokens() const {
  size_t n = 0;
  for (const auto& p : partitions_)
    if (p != nullptr) n += p->execution.UnconsumedTokens();
  return n;
}

void StepGroup::Finish() {
  for (const auto& p : partitions_) {
    if (p == nullptr) continue;
    p->DropUnsent();
    p->execution.Finish();
  }
}

}  // namespace sluice
