// Hooks that say how far a run is.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"
#include "train/event_errors.h"
#include "train/step_timer.h"
#include "train/training_hooks.h"

namespace sluice {
namespace {

class LogTensors : public TrainingHook {
 public:
  LogTensors(const std::vector<std::pair<std::string, Output>>& tensors,
             const Every& every)
      : tensors_(tensors), timer_(every) {}
  std::string name() const override { return "log"; }

  Status Begin(TrainingContext&) override {
    for (const auto& [label, tensor] : tensors_)
      if (!tensor.valid())
        return InvalidArgument("expected a tensor as '", label,
                               "', got a null output");
    return CheckEvery("log", timer_.every());
  }
  Status BeforeRun(TrainingContext& context, HookRequest* request) override {
    due_ = timer_.Due(context.step() + 1, context.Now());
    if (due_)
      for (const auto& [label, tensor] : tensors_)
        request->fetches.push_back(tensor);
    return OkStatus();
  }
  Status AfterRun(TrainingContext& context, const HookResult& result) override {
    if (!due_) return OkStatus();
    std::string line = absl::StrCat("step ", context.step());
    for (size_t i = 0; i < tensors_.size(); ++i)
      absl::StrAppend(&line, i == 0 ? ": " : ", ", tensors_[i].first, " = ",
                      result.values[i].Summarize(10));
    const double now = context.Now();
    if (const auto& last = timer_.last();
        last.has_value() && now > last->time && context.step() > last->step)
      absl::StrAppendFormat(&line, " (%.1f steps/s)",
                            static_cast<double>(context.step() - last->step) /
                                (now - last->time));
    timer_.Done(context.step(), now);
    context.Log(line);
    return OkStatus();
  }

 private:
  const std::vector<std::pair<std::string, Output>> tensors_;
  StepTimer timer_;
  bool due_ = false;
};

class StepCounter : public TrainingHook {
 public:
  explicit StepCounter(const Every& every) : timer_(every) {}
  std::string name() const override { return "step counter"; }

  Status Begin(TrainingContext& context) override {
    SLUICE_RETURN_IF_ERROR(CheckHasEvents(context));
    return CheckEvery("step counter", timer_.every());
  }
  Status AfterCreateSession(TrainingContext& context) override {
    timer_.Done(context.step(), context.Now());
    return OkStatus();
  }
  Status AfterRun(TrainingContext& context, const HookResult&) override {
    const double now = context.Now();
    if (context.events() == nullptr || !timer_.Due(context.step(), now))
      return OkStatus();
    const StepTimer::Last last = *timer_.last();
    timer_.Done(context.step(), now);
    // (Not after a loss, when the step is below the last one.)
    if (now <= last.time || context.step() < last.step) return OkStatus();
    const std::string counter = context.global_step().valid()
                                    ? context.global_step().name()
                                    : "global_step";
    const double rate =
        static_cast<double>(context.step() - last.step) / (now - last.time);
    errors_.Note(context, context.events()->AddScalar(counter + "/sec", rate,
                                                      context.step()));
    return OkStatus();
  }

 private:
  EventErrors errors_;
  StepTimer timer_;
};

// "0:27", "3:04:11".
std::string Duration(double seconds) {
  const auto s = static_cast<int64_t>(std::min(seconds + 0.5, 1e15));
  if (s < 3600) return absl::StrFormat("%d:%02d", s / 60, s % 60);
  return absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
}

class Progress : public TrainingHook {
 public:
  Progress(int64_t last_step, const ProgressHookOptions& options)
      : last_step_(last_step),
        terminal_(options.terminal.value_or(isatty(STDERR_FILENO) != 0)),
        write_(options.write),
        // A terminal is redrawn often enough to look alive.
        timer_({.seconds = terminal_ ? 0.1 : options.seconds}) {}
  std::string name() const override { return "progress"; }

  Status Begin(TrainingContext&) override {
    if (last_step_ <= 0)
      return InvalidArgument("expected a last step above 0, got ", last_step_);
    return CheckEvery("progress", timer_.every());
  }
  Status AfterCreateSession(TrainingContext& context) override {
    // The pause before a new session does not count.
    start_ = {context.step(), context.Now()};
    timer_.Done(context.step(), context.Now());
    return OkStatus();
  }
  Status AfterRun(TrainingContext& context, const HookResult&) override {
    const double now = context.Now();
    if (!timer_.Due(context.step(), now)) return OkStatus();
    timer_.Done(context.step(), now);
    Write((terminal_ ? "\r" : "") + Line(context.step(), now) +
          (terminal_ ? "\x1b[K" : "\n"));  // (Clears the rest of the line.)
    return OkStatus();
  }
  Status End(TrainingContext& context) override {
    Write((terminal_ ? "\r" : "") + Line(context.step(), context.Now()) +
          (terminal_ ? "\x1b[K\n" : "\n"));
    return OkStatus();
  }

 private:
  std::string Line(int64_t step, double now) const {
    constexpr int kWidth = 20;
    const double part = std::clamp(
        static_cast<double>(step) / static_cast<double>(last_step_), 0.0, 1.0);
    const int done = static_cast<int>(part * kWidth);
    std::string bar(static_cast<size_t>(done), '=');
    if (done < kWidth) bar += '>';
    bar.resize(kWidth, ' ');
    std::string line = absl::StrFormat("[%s] %d/%d", bar, step, last_step_);
    const int64_t run = step - start_.step;
    if (now > start_.time && run > 0) {
      const double rate = static_cast<double>(run) / (now - start_.time);
      absl::StrAppendFormat(&line, ", %.1f steps/s, ", rate);
      const auto left =
          static_cast<double>(std::max<int64_t>(last_step_ - step, 0));
      absl::StrAppend(&line, left > 0 ? Duration(left / rate) + " left"
                                      : Duration(now - start_.time));
    }
    return line;
  }
  void Write(const std::string& text) const {
    if (write_) return write_(text);
    std::fputs(text.c_str(), stderr);
  }

  const int64_t last_step_;
  const bool terminal_;
  const std::function<void(const std::string&)> write_;
  StepTimer timer_;
  StepTimer::Last start_;
};

}  // namespace

HookPtr LogHook(const std::vector<std::pair<std::string, Output>>& tensors,
                const Every& every) {
  return std::make_shared<LogTensors>(tensors, every);
}
HookPtr StepCounterHook(const Every& every) {
  return std::make_shared<StepCounter>(every);
}
HookPtr ProgressHook(int64_t last_step, const ProgressHookOptions& options) {
  return std::make_shared<Progress>(last_step, options);
}

}  // namespace sluice
