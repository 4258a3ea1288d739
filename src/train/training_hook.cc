#include "train/training_hook.h"

#include <cstdio>

#include "exec/core/trace.h"

namespace sluice {

Result<Session*> TrainingContext::session() const {
  if (session_ == nullptr)
    return FailedPrecondition("training: expected a session, got none yet");
  return session_;
}

void TrainingContext::RequestStop(const std::string& reason) {
  if (!stop_) stop_reason_ = reason;
  stop_ = true;
}

void TrainingContext::Log(const std::string& line) const {
  if (log_)
    log_(line);
  else
    std::fprintf(stderr, "%s\n", line.c_str());
}

double TrainingContext::Now() const {
  return clock_ ? clock_() : static_cast<double>(NowNs()) * 1e-9;
}

Status TrainingHook::Begin(TrainingContext&) { return OkStatus(); }
Status TrainingHook::AfterCreateSession(TrainingContext&) { return OkStatus(); }
Status TrainingHook::BeforeRun(TrainingContext&, HookRequest*) {
  return OkStatus();
}
Status TrainingHook::AfterRun(TrainingContext&, const HookResult&) {
  return OkStatus();
}
Status TrainingHook::End(TrainingContext&) { return OkStatus(); }

}  // namespace sluice
