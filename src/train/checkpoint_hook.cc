// The hook that saves.
#include "train/event_errors.h"
#include "train/patience.h"
#include "train/step_timer.h"
#include "train/training_hooks.h"

namespace sluice {
namespace {

class Checkpoints : public TrainingHook {
 public:
  Checkpoints(Saver* saver, const std::string& prefix,
              const CheckpointHookOptions& options)
      : saver_(saver),
        prefix_(prefix),
        metric_(options.metric),
        wait_(options.wait),
        timer_(options.every) {}
  std::string name() const override { return "checkpoint"; }

  Status Begin(TrainingContext&) override {
    if (saver_ == nullptr) return InvalidArgument("expected a saver, got none");
    SLUICE_RETURN_IF_ERROR(saver_->status());
    return CheckEvery("checkpoint", timer_.every());
  }
  Status AfterCreateSession(TrainingContext& context) override {
    // (They are of steps whose results are lost.)
    last_metric_.reset();
    runs_ = 0;
    if (!begun_ && context.restored_from().empty())
      SLUICE_RETURN_IF_ERROR(SaveNow(context));
    else if (!begun_)
      saved_ = context.step();
    begun_ = true;
    timer_.Done(context.step(), context.Now());
    return OkStatus();
  }
  Status BeforeRun(TrainingContext& context, HookRequest* request) override {
    LookAtFinished(context);
    asked_ =
        metric_.valid() && (timer_.Due(context.step() + 1, context.Now()) ||
                            DueWithoutCount(context, runs_ + 1));
    if (asked_) request->fetches = {metric_};
    return OkStatus();
  }
  Status AfterRun(TrainingContext& context, const HookResult& result) override {
    ++runs_;
    WarnOfNoCount(context, /*at_least=*/100);
    last_metric_.reset();  // (What the step left has another one.)
    if (asked_) {
      SLUICE_ASSIGN_OR_RETURN(const double value,
                              RealScalar("metric", result.values[0]));
      last_metric_ = value;
    }
    // One at a time: training does not wait for the disk. (By time, it may
    // have become due in the step; then the next one has the metric.)
    if (writing_ || context.saves_refused() || (metric_.valid() && !asked_) ||
        !(timer_.Due(context.step(), context.Now()) ||
          DueWithoutCount(context, runs_)))
      return OkStatus();
    timer_.Done(context.step(), context.Now());
    return SaveNow(context);
  }
  Status End(TrainingContext& context) override {
    if (writing_) {
      (void)saver_->WaitForSaves();
      LookAtFinished(context);
    }
    WarnOfNoCount(context, /*at_least=*/1);
    if (context.saves_refused()) return OkStatus();
    if (saved_ == context.step() && runs_ == 0) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(Session* const session, context.session());
    return Save(context, *session);
  }

 private:
  SaveOptions OptionsOf(const TrainingContext& context) const {
    return {.step = context.step(), .metric = last_metric_};
  }
  // As the timer, for steps that do not raise the global step: they change
  // variables too.
  bool DueWithoutCount(const TrainingContext& context, int64_t runs) const {
    const Every& every = timer_.every();
    const auto& last = timer_.last();
    return last.has_value() && context.step() == last->step && runs > 0 &&
           ((every.steps > 0 && runs >= every.steps) ||
            (every.seconds > 0 && context.Now() - last->time >= every.seconds));
  }
  void WarnOfNoCount(const TrainingContext& context, int64_t at_least) {
    if (warned_of_no_count_ || runs_ < at_least ||
        !context.global_step().valid() || !timer_.last().has_value() ||
        context.step() != timer_.last()->step)
      return;
    warned_of_no_count_ = true;
    context.Log(absl::StrCat(
        "WARNING: checkpoint: expected steps that raise the global step, got ",
        runs_, " that left '", context.global_step().name(), "' at ",
        context.step(), " (MinimizeOptions::global_step names it)"));
  }
  Status Save(TrainingContext& context, Session& session) {
    SLUICE_ASSIGN_OR_RETURN(const std::string path,
                            saver_->Save(session, prefix_, OptionsOf(context)));
    saved_ = context.step();
    runs_ = 0;
    Saved(context, path);
    return OkStatus();
  }
  void Saved(TrainingContext& context, const std::string& path) {
    context.Log(absl::StrCat("saved ", path));
    if (context.events() != nullptr)
      event_errors_.Note(
          context, context.events()->AddSession(SessionEvent::kCheckpoint, path,
                                                context.step()));
  }
  // Its errors are logged only, but for the loss of a task.
  Status SaveNow(TrainingContext& context) {
    SLUICE_ASSIGN_OR_RETURN(Session* const session, context.session());
    Status s;
    // (In a cluster the tasks save.)
    if (wait_ || session->options().resources == nullptr) {
      s = Save(context, *session);
    } else {
      s = saver_->SaveAsync(*session, prefix_, OptionsOf(context));
      writing_ = s.ok();
      writing_step_ = context.step();
      if (s.ok()) runs_ = 0;
    }
    if (s.code() == StatusCode::kAborted ||
        s.code() == StatusCode::kUnavailable)
      return s;
    if (!s.ok()) Warn(context, s);
    return OkStatus();
  }
  void LookAtFinished(TrainingContext& context) {
    if (!writing_) return;
    const std::optional<Result<std::string>> done = saver_->FinishedSave();
    if (!done.has_value()) return;
    writing_ = false;
    if (!done->ok()) return Warn(context, done->status());
    saved_ = writing_step_;
    Saved(context, **done);
  }
  void Warn(const TrainingContext& context, const Status& s) {
    saved_.reset();
    context.Log(absl::StrCat(
        "WARNING: checkpoint: an error of saving, training goes on: ",
        s.ToString()));
  }

  Saver* const saver_;
  const std::string prefix_;
  const Output metric_;
  const bool wait_;
  StepTimer timer_;
  EventErrors event_errors_;
  bool begun_ = false;  // Whether a session has begun, with its first save.
  bool warned_of_no_count_ = false;
  int64_t runs_ = 0;      // Steps since the latest save began.
  bool asked_ = false;    // Whether the step computes the metric.
  bool writing_ = false;  // Beside training, as far as is known.
  int64_t writing_step_ = 0;
  std::optional<int64_t> saved_;       // The step of the latest checkpoint.
  std::optional<double> last_metric_;  // Of the latest step; none if not asked.
};

}  // namespace

HookPtr CheckpointHook(Saver* saver, const std::string& prefix,
                       const CheckpointHookOptions& options) {
  return std::make_shared<Checkpoints>(saver, prefix, options);
}

}  // namespace sluice
