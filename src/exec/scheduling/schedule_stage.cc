#include "exec/scheduling/schedule_stage.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "exec/core/trace.h"
#include "exec/scheduling/scheduler.h"

namespace sluice {
namespace {

// How many of those that wait for room are decided again at a time: the end of
// a body makes room for few, and deciding all of them at each end would take
// time that is quadratic in their number.
constexpr size_t kAgainAtOnce = 16;

// The held Schedule nodes of one step; ReadyStage says who uses it.
class ScheduleStage final : public ReadyStage {
 public:
  explicit ScheduleStage(const Plan& plan) : plan_(plan) {}

  void Start(uint64_t seed) override {
    Clear();
    random_.seed(seed);
    some_ = seed != 0;
  }
  bool Hold(Ready r) override {
    waiting_.push_back(r);
    return true;
  }
  bool empty() const override {
    return waiting_.empty() &&
           (refused_.empty() ||
            (step_ != nullptr && step_->done() == refused_at_));
  }
  bool Release() override {
    step_ = nullptr;
    all_ = !refused_.empty();
    return all_;
  }

  std::span<const Ready> Next() override {
    running_.clear();
    if (some_) {  // Any of them, so that all groups are tested.
      for (const Refused& r : refused_) waiting_.push_back(r.node);
      refused_.clear();
      std::shuffle(waiting_.begin(), waiting_.end(), random_);
      const size_t n = 1 + random_() % waiting_.size();
      running_.assign(waiting_.end() - static_cast<std::ptrdiff_t>(n),
                      waiting_.end());
      waiting_.resize(waiting_.size() - n);
    } else {
      running_.swap(waiting_);
      // (If nothing was done since, none has room.)
      if (step_ == nullptr || step_->done() != refused_at_)
        for (size_t n = std::min(kAgainAtOnce, refused_.size()); n > 0; --n) {
          running_.push_back(refused_.back().node);
          refused_.pop_back();
        }
    }
    return running_;
  }

  bool RunsTogether(size_t) const override { return true; }
  bool OfOneNode() const override { return false; }

  Result<std::span<const Ready>> RunTogether(StepContext* step) override {
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Scheduler::Step> of_step,
                            Scheduler::OfStep(step));
    decisions_.assign(running_.size(), {});
    for (size_t i = 0; i < running_.size(); ++i) {
      const PlanNode& n = *running_[i].node;
      decisions_[i].body = static_cast<const ScheduledBody*>(n.state);
      shapes_.clear();
      for (uint32_t in = 0; in < n.num_inputs; ++in) {
        const InputRef ref = plan_.inputs[n.first_input + in];
        shapes_.push_back(&running_[i].iteration->tables[ref.table][ref.index]);
      }
      SLUICE_RETURN_IF_ERROR(decisions_[i].ReadShapes(shapes_));
    }
    const int64_t done = of_step->done();
    SLUICE_RETURN_IF_ERROR(
        of_step->scheduler().Decide(decisions_, of_step.get(), all_));
    all_ = false;
    const auto before = static_cast<std::ptrdiff_t>(refused_.size());
    size_t ran = 0;
    for (size_t i = 0; i < running_.size(); ++i) {
      if (decisions_[i].choice < 0) {
        refused_.push_back({running_[i], decisions_[i].work_ns});
        continue;
      }
      Tensor* const out = Tokens::OutputSlots(running_[i]);
      out[0] = Tensor::Scalar<int32_t>(decisions_[i].choice);
      out[1] = Tensor::Scalar<int64_t>(decisions_[i].ticket);
      running_[ran] = running_[i];
      decisions_[ran++] = decisions_[i];
    }
    // The others are decided again when a body is done. (The step outlives its
    // last node.)
    if (ran < running_.size()) {
      step_ = of_step.get();
      refused_at_ = done;
      Sort(before);
    } else if (step_ != nullptr && step_->done() != refused_at_) {
      step_ = nullptr;
    }
    running_.resize(ran);
    return std::span<const Ready>(running_);
  }

  void Describe(Ready r, TraceEvent* e) const override {
    for (size_t i = 0; i < running_.size(); ++i) {
      if (running_[i].node != r.node || running_[i].iteration != r.iteration)
        continue;
      const Decision& d = decisions_[i];
      e->peer = d.body->devices[static_cast<size_t>(d.choice)];
      e->tensor = d.Reason();
      e->instances = static_cast<int64_t>(running_.size());
    }
  }

  void Clear() override {
    waiting_.clear();
    refused_.clear();
    step_ = nullptr;
    all_ = false;
  }

 private:
  struct Refused {
    Ready node;
    double work_ns;
  };
  // Sorts those that were added behind the first `sorted`. (Usually these are
  // the largest again, so that nothing else moves.)
  void Sort(std::ptrdiff_t sorted) {
    const auto less = [](const Refused& a, const Refused& b) {
      return a.work_ns < b.work_ns;
    };
    const auto added = refused_.begin() + sorted;
    std::stable_sort(added, refused_.end(), less);
    std::inplace_merge(std::upper_bound(refused_.begin(), added, *added, less),
                       added, refused_.end(), less);
  }

  const Plan& plan_;
  std::vector<Ready> waiting_;       // They were not decided yet.
  std::vector<Refused> refused_;     // They wait for room; the largest is last.
  std::vector<Ready> running_;       // What Next returned; then those that run.
  std::vector<Decision> decisions_;  // Of running_.
  std::vector<const Tensor*> shapes_;      // Reused.
  const Scheduler::Step* step_ = nullptr;  // If those refused are to wait.
  int64_t refused_at_ = 0;                 // Its bodies that were done then.
  bool all_ = false;                       // None is to wait for room.
  bool some_ = false;
  std::mt19937_64 random_;
};

class ScheduleStageMaker final : public ReadyStageMaker {
 public:
  bool Holds(const Node&, const Kernel& kernel, bool) override {
    return kernel.run == RunSchedule;
  }
  std::unique_ptr<ReadyStage> Make(const Plan& plan) const override {
    return std::make_unique<ScheduleStage>(plan);
  }
};

}  // namespace

std::unique_ptr<ReadyStageMaker> MakeScheduling() {
  return std::make_unique<ScheduleStageMaker>();
}

}  // namespace sluice
