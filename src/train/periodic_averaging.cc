#include "train/periodic_averaging.h"

#include <mutex>
#include <utility>

#include "client/nn/in_graph_of.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// What an update does with the mean of the workers' values.
Result<Node*> AssignMeans(const std::vector<GradAndVar>& means,
                          const MinimizeOptions& options) {
  std::vector<Node*> assigned;
  for (const GradAndVar& mean : means)
    assigned.push_back(mean.var.Assign(mean.gradient.dense));
  const ControlDependencies after(assigned);
  return options.global_step.AssignAdd(1);
}

}  // namespace

PeriodicAveraging::PeriodicAveraging(const std::vector<Var>& variables,
                                     SyncReplicasOptions options, int64_t every,
                                     SourceLoc loc)
    : every_(every), replicas_(AssignMeans, options) {
  const AtLine at(loc);
  if (variables.empty() || every < 1) {
    BuildError(InvalidArgument(
                   options.name,
                   ": expected variables to average every so many steps, got ",
                   variables.size(), " variables and every ", every, " steps"),
               loc);
    return;
  }
  const std::optional<WithGraph> there = InGraphOf(variables[0].handle());
  VarOptions shared;
  shared.trainable = false;
  rounds_ = Var(Constant(Tensor::Scalar<int64_t>(0)), options.name + "_rounds",
                shared, loc);
  std::vector<GradAndVar> values;
  std::vector<Node*> taken;
  for (const Var& v : variables) {
    if (!v.valid()) {
      v.Assign(0, loc);  // The error.
      return;
    }
    averages_.push_back(
        Var(v.initial_value(), v.name() + "/average", shared, loc));
    values.push_back({v.Read(loc), averages_.back()});
    taken.push_back(v.Assign(averages_.back().Read(loc), loc));
  }
  hand_in_ = replicas_.ApplyGradients(values, {.global_step = rounds_}, loc);
  take_over_ = Group(taken, options.name + "_take_over", loc);
}

// Wraps the hook of the rounds.
class PeriodicAveraging::AveragingHook : public TrainingHook {
 public:
  AveragingHook(const PeriodicAveraging* averaging, HookPtr rounds)
      : averaging_(averaging), rounds_(std::move(rounds)) {}
  std::string name() const override { return rounds_->name(); }
  Status Begin(TrainingContext& context) override {
    return rounds_->Begin(context);
  }
  Status AfterCreateSession(TrainingContext& context) override {
    steps_ = 0;
    SLUICE_RETURN_IF_ERROR(rounds_->AfterCreateSession(context));
    SLUICE_ASSIGN_OR_RETURN(Session* const session, context.session());
    return session->RunTargets({averaging_->take_over_});
  }
  Status AfterRun(TrainingContext& context, const HookResult&) override {
    if (++steps_ % averaging_->every_ != 0) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(Session* const session, context.session());
    RunOptions options;
    options.cancellation = context.coordinator()->cancellation();
    SLUICE_RETURN_IF_ERROR(
        session->Run({}, {}, {averaging_->hand_in_}, options).status());
    return session->RunTargets({averaging_->take_over_});
  }

 private:
  const PeriodicAveraging* const averaging_;
  const HookPtr rounds_;
  int64_t steps_ = 0;  // Of this session.
};

HookPtr PeriodicAveraging::Hook(bool is_chief, double max_wait_seconds) {
  return std::make_shared<AveragingHook>(
      this, replicas_.Hook(is_chief, max_wait_seconds));
}

}  // namespace sluice
