// Hooks that end a run.
#include <utility>

#include "train/event_errors.h"
#include "train/patience.h"
#include "train/training_hooks.h"

namespace sluice {
namespace {

class StopAtStep : public TrainingHook {
 public:
  StopAtStep(int64_t steps, bool of_this_run)
      : steps_(steps), of_this_run_(of_this_run) {}
  std::string name() const override { return "stop at step"; }

  Status Begin(TrainingContext&) override {
    if (steps_ > 0) return OkStatus();
    return InvalidArgument("expected a number of steps above 0, got ", steps_);
  }
  Status AfterCreateSession(TrainingContext& context) override {
    if (last_ == 0) last_ = steps_ + (of_this_run_ ? context.step() : 0);
    Look(context);
    return OkStatus();
  }
  Status AfterRun(TrainingContext& context, const HookResult&) override {
    Look(context);
    return OkStatus();
  }

 private:
  void Look(TrainingContext& context) const {
    if (context.step() >= last_)
      context.RequestStop(absl::StrCat("the last step, ", last_));
  }

  const int64_t steps_;
  const bool of_this_run_;
  int64_t last_ = 0;
};

class EarlyStopping : public TrainingHook {
 public:
  EarlyStopping(const Output& metric, const EarlyStoppingOptions& options)
      : metric_(metric), timer_(options.every), patience_(options) {}
  std::string name() const override { return "early stopping"; }

  Status Begin(TrainingContext&) override {
    if (!metric_.valid())
      return InvalidArgument("expected a metric, got a null output");
    return patience_.Check();
  }
  Status BeforeRun(TrainingContext& context, HookRequest* request) override {
    due_ = timer_.Due(context.step() + 1, context.Now());
    if (due_) request->fetches = {metric_};
    return OkStatus();
  }
  Status AfterRun(TrainingContext& context, const HookResult& result) override {
    if (!due_) return OkStatus();
    timer_.Done(context.step(), context.Now());
    SLUICE_ASSIGN_OR_RETURN(const double value,
                            RealScalar("metric", result.values[0]));
    if (patience_.Exhausted(value))
      context.RequestStop(patience_.Reason("'" + metric_.name() + "'"));
    return OkStatus();
  }

 private:
  const Output metric_;
  StepTimer timer_;
  Patience patience_;
  bool due_ = false;
};

class Evaluation : public TrainingHook {
 public:
  Evaluation(std::function<Result<double>(Session&, int64_t)> evaluate,
             const EvaluationHookOptions& options)
      : evaluate_(std::move(evaluate)),
        options_(options),
        timer_(options.every),
        patience_(options.stop.value_or(EarlyStoppingOptions())) {}
  std::string name() const override { return options_.name; }

  Status Begin(TrainingContext&) override {
    if (!evaluate_)
      return InvalidArgument("expected a function, got an empty one");
    SLUICE_RETURN_IF_ERROR(CheckEvery("evaluation", options_.every));
    return patience_.Check();
  }
  Status AfterCreateSession(TrainingContext& context) override {
    // The first comes after an interval.
    timer_.Done(context.step(), context.Now());
    return OkStatus();
  }
  Status AfterRun(TrainingContext& context, const HookResult&) override {
    return timer_.Due(context.step(), context.Now()) ? Evaluate(context)
                                                     : OkStatus();
  }
  Status End(TrainingContext& context) override {
    return options_.at_end && evaluated_ != context.step() ? Evaluate(context)
                                                           : OkStatus();
  }

 private:
  Status Evaluate(TrainingContext& context) {
    SLUICE_ASSIGN_OR_RETURN(Session* const session, context.session());
    SLUICE_ASSIGN_OR_RETURN(const double value,
                            evaluate_(*session, context.step()));
    // The interval begins when it is done.
    timer_.Done(context.step(), context.Now());
    evaluated_ = context.step();
    context.Log(
        absl::StrCat(options_.name, " at step ", context.step(), ": ", value));
    if (context.events() != nullptr)
      event_errors_.Note(context, context.events()->AddScalar(
                                      options_.name, value, context.step()));
    if (options_.stop.has_value() && patience_.Exhausted(value))
      context.RequestStop(patience_.Reason(options_.name));
    return OkStatus();
  }

  const std::function<Result<double>(Session&, int64_t)> evaluate_;
  const EvaluationHookOptions options_;
  StepTimer timer_;
  Patience patience_;
  EventErrors event_errors_;
  std::optional<int64_t> evaluated_;  // The step.
};

}  // namespace

HookPtr StopAtStepHook(int64_t last_step) {
  return std::make_shared<StopAtStep>(last_step, false);
}
HookPtr StopAfterStepsHook(int64_t steps) {
  return std::make_shared<StopAtStep>(steps, true);
}
HookPtr EarlyStoppingHook(const Output& metric,
                          const EarlyStoppingOptions& options) {
  return std::make_shared<EarlyStopping>(metric, options);
}
HookPtr EvaluationHook(
    std::function<Result<double>(Session&, int64_t step)> evaluate,
    const EvaluationHookOptions& options) {
  return std::make_shared<Evaluation>(std::move(evaluate), options);
}

}  // namespace sluice
