// The hook that saves.
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
    const bool first = !timer_.last().has_value();
    timer_.Done(context.step(), context.Now());
    if (!context.restored_from().empty() && first) saved_ = context.step();
    return first && context.restored_from().empty() ? SaveNow(context)
                                                    : OkStatus();
  }
  Status BeforeRun(TrainingContext& context, StepRequest* request) override {
    LookAtFinished(context);
    asked_ = metric_.valid() && timer_.Due(context.step() + 1, context.Now());
    if (asked_) request->fetches = {metric_};
    return OkStatus();
  }
  Status AfterRun(TrainingContext& context, const StepResult& result) override {
    if (asked_) {
      SLUICE_ASSIGN_OR_RETURN(const double value,
                              RealScalar("metric", result.values[0]));
      last_metric_ = value;
    }
    // One at a time: training does not wait for the disk. (By time, it may
    // have become due in the step; then the next one has the metric.)
    if (writing_ || !timer_.Due(context.step(), context.Now()) ||
        (metric_.valid() && !asked_))
      return OkStatus();
    timer_.Done(context.step(), context.Now());
    return SaveNow(context);
  }
  Status End(TrainingContext& context) override {
    if (writing_) {
      (void)saver_->WaitForSaves();
      LookAtFinished(context);
    }
    if (saved_ == context.step()) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(Session* const session, context.session());
    return Save(context, *session);
  }

 private:
  SaveOptions OptionsOf(const TrainingContext& context) const {
    return {.step = context.step(), .metric = last_metric_};
  }
  Status Save(TrainingContext& context, Session& session) {
    SLUICE_ASSIGN_OR_RETURN(const std::string path,
                            saver_->Save(session, prefix_, OptionsOf(context)));
    saved_ = context.step();
    return Saved(context, path);
  }
  static Status Saved(TrainingContext& context, const std::string& path) {
    context.Log(absl::StrCat("saved ", path));
    return context.events() == nullptr
               ? OkStatus()
               : context.events()->AddSession(SessionEvent::kCheckpoint, path,
                                              context.step());
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
    if (const Status s = Saved(context, **done); !s.ok()) Warn(context, s);
  }
  static void Warn(const TrainingContext& context, const Status& s) {
    context.Log(absl::StrCat(
        "WARNING: checkpoint: not saved, training goes on: ", s.ToString()));
  }

  Saver* const saver_;
  const std::string prefix_;
  const Output metric_;
  const bool wait_;
  StepTimer timer_;
  bool asked_ = false;    // Whether the step computes the metric.
  bool writing_ = false;  // Beside training, as far as is known.
  int64_t writing_step_ = 0;
  std::optional<int64_t> saved_;  // The step of the latest checkpoint.
  std::optional<double> last_metric_;
};

}  // namespace

HookPtr CheckpointHook(Saver* saver, const std::string& prefix,
                       const CheckpointHookOptions& options) {
  return std::make_shared<Checkpoints>(saver, prefix, options);
}

}  // namespace sluice
