// Hooks that write what is looked at later.
#include <filesystem>

#include "checkpoint/pending_file.h"
#include "session/step_stats.h"
#include "train/event_errors.h"
#include "train/step_timer.h"
#include "train/training_hooks.h"

namespace sluice {
namespace {

class Summaries : public TrainingHook {
 public:
  Summaries(const Output& summary, const Every& every)
      : summary_(summary), timer_(every) {}
  std::string name() const override { return "summary"; }

  Status Begin(TrainingContext& context) override {
    if (!summary_.valid() || summary_.dtype() != DType::kString)
      return InvalidArgument(
          "expected a string as summary, got ",
          summary_.valid() ? summary_.name() : "a null output");
    SLUICE_RETURN_IF_ERROR(CheckHasEvents(context));
    return CheckEvery("summary", timer_.every());
  }
  // Tells readers to drop what a run that was killed wrote after this step.
  Status AfterCreateSession(TrainingContext& context) override {
    if (context.events() == nullptr) return OkStatus();
    errors_.Note(context, context.events()->AddSession(SessionEvent::kStart, "",
                                                       context.step()));
    return OkStatus();
  }
  Status BeforeRun(TrainingContext& context, HookRequest* request) override {
    due_ = context.events() != nullptr &&
           timer_.Due(context.step() + 1, context.Now());
    if (due_) request->fetches = {summary_};
    return OkStatus();
  }
  Status AfterRun(TrainingContext& context, const HookResult& result) override {
    if (!due_) return OkStatus();
    timer_.Done(context.step(), context.Now());
    for (const std::string& bytes : result.values[0].flat<std::string>()) {
      const Status s = context.events()->AddSummary(bytes, context.step());
      // (Malformed bytes are the program's error.)
      if (s.code() == StatusCode::kInvalidArgument) return s;
      errors_.Note(context, s);
    }
    return OkStatus();
  }
  Status End(TrainingContext& context) override {
    if (context.events() == nullptr) return OkStatus();
    errors_.Note(context, context.events()->Flush());
    return OkStatus();
  }

 private:
  EventErrors errors_;
  const Output summary_;
  StepTimer timer_;
  bool due_ = false;
};

class Profile : public TrainingHook {
 public:
  explicit Profile(const ProfileHookOptions& options) : options_(options) {}
  std::string name() const override { return "profile"; }

  Status Begin(TrainingContext& context) override {
    if (options_.first < 0 || options_.steps < 1 || options_.every < 0)
      return InvalidArgument(
          "expected first >= 0, steps >= 1 and every >= 0, got ",
          options_.first, ", ", options_.steps, " and ", options_.every);
    if (context.folder().empty())
      return InvalidArgument("expected a run with a folder, got none");
    return OkStatus();
  }
  Status BeforeRun(TrainingContext&, HookRequest* request) override {
    int64_t at = run_++ - options_.first;
    if (at >= 0 && options_.every > 0) at %= options_.every;
    traced_ = at >= 0 && at < options_.steps;
    request->trace = traced_;
    return OkStatus();
  }
  Status AfterRun(TrainingContext& context, const HookResult& result) override {
    if (!traced_) return OkStatus();
    const std::string path = (std::filesystem::path(context.folder()) /
                              absl::StrCat("trace-", context.step(), ".json"))
                                 .string();
    errors_.Note(context, ReplaceFile(path, result.metadata->ChromeTrace(),
                                      /*sync=*/false));
    if (context.events() != nullptr)
      errors_.Note(context,
                   context.events()->AddRunMetadata(
                       absl::StrCat("step ", context.step()),
                       SerializeRunMetadata(*result.metadata), context.step()));
    return OkStatus();
  }

 private:
  EventErrors errors_;
  const ProfileHookOptions options_;
  int64_t run_ = 0;
  bool traced_ = false;
};

}  // namespace

HookPtr SummaryHook(const Output& summary, const Every& every) {
  return std::make_shared<Summaries>(summary, every);
}
HookPtr ProfileHook(const ProfileHookOptions& options) {
  return std::make_shared<Profile>(options);
}

}  // namespace sluice
