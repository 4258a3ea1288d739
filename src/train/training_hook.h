// What runs around the steps of a TrainingSession. A hook is a class derived
// from TrainingHook; those of training_hooks.h do what most runs need.
//
//   class LossPrinter : public TrainingHook {
//    public:
//     explicit LossPrinter(const Output& loss) : loss_(loss) {}
//     std::string name() const override { return "loss printer"; }
//     Status BeforeRun(TrainingContext&, HookRequest* request) override {
//       request->fetches = {loss_};
//       return OkStatus();
//     }
//     Status AfterRun(TrainingContext& context,
//                     const HookResult& result) override {
//       const float loss = result.values[0].scalar<float>();
//       context.Log(absl::StrCat("step ", context.step(), ": ", loss));
//       if (loss < 0.01f) context.RequestStop("the loss is small");
//       return OkStatus();
//     }
//
//    private:
//     const Output loss_;
//   };
#ifndef SLUICE_TRAIN_TRAINING_HOOK_H_
#define SLUICE_TRAIN_TRAINING_HOOK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/variables.h"
#include "data/coordinator.h"
#include "session/session.h"
#include "summary/event_writer.h"

namespace sluice {

// How often something is done: by steps, by time, or by what comes first; never
// if both are 0.
struct Every {
  int64_t steps = 0;
  double seconds = 0;
};

// What a hook adds to a step.
struct HookRequest {
  std::vector<Output> fetches = {};
  // FailedPrecondition if the program or another hook feeds one of these too.
  Feeds feeds = {};
  bool trace = false;  // HookResult::metadata has events.
};

// What came of it.
struct HookResult {
  std::vector<Tensor> values;  // Of the hook's fetches, in their order.
  const RunMetadata* metadata = nullptr;  // Empty unless a hook asked for it.
};

// The run as its hooks see it. Owned by the TrainingSession; used by the thread
// that calls it.
class TrainingContext {
 public:
  TrainingContext(const TrainingContext&) = delete;
  TrainingContext& operator=(const TrainingContext&) = delete;

  // Steps that are run here call no hooks. FailedPrecondition in Begin, where
  // there is none.
  Result<Session*> session() const;
  Graph& graph() const { return *graph_; }
  // Owns the session's threads: a hook may start some in AfterCreateSession.
  // Their errors end steps, and the loss of a task in one of them has the step
  // run again in a new session. Null without session.
  Coordinator* coordinator() const { return coordinator_; }
  // The global step: in BeforeRun before the step, in AfterRun after it.
  int64_t step() const { return step_; }
  // The variable that counts; null if the run counts for itself.
  Var global_step() const { return global_step_; }
  // The feeds of the step that runs or has run, with those of hooks.
  const Feeds& feeds() const { return feeds_; }
  // Of the run; "" if it has none.
  const std::string& folder() const { return folder_; }
  // Event files in the folder; null if there are none, as in workers that are
  // not the chief.
  EventWriter* events() const { return events_.get(); }
  // Whether it initialises, restores and saves. Constant in a session; by an
  // election (TrainingOptions::chief_election) it may differ between sessions.
  bool is_chief() const { return is_chief_; }
  // Whether there is such an election.
  bool is_candidate() const { return is_candidate_; }
  // Whether the run began with a checkpoint, and which.
  const std::string& restored_from() const { return restored_from_; }

  // Ends the run after this step. The first reason counts.
  void RequestStop(const std::string& reason);
  // No checkpoint is to be saved from now on, since variables may be spoilt.
  void RefuseSaves() { saves_refused_ = true; }
  bool saves_refused() const { return saves_refused_; }
  // A line for the user (TrainingOptions::log).
  void Log(const std::string& line) const;
  // Seconds of a clock that only goes forward.
  double Now() const;

 private:
  friend class TrainingSession;
  TrainingContext() = default;

  Graph* graph_ = nullptr;
  Session* session_ = nullptr;
  Coordinator* coordinator_ = nullptr;
  int64_t step_ = 0;
  Var global_step_;
  Feeds feeds_;
  std::string folder_;
  std::unique_ptr<EventWriter> events_;
  std::string restored_from_;
  bool is_chief_ = true, is_candidate_ = false;
  bool stop_ = false;
  bool saves_refused_ = false;
  std::string stop_reason_;
  std::function<void(const std::string&)> log_;
  std::function<double()> clock_;
};

// Functions are called by the thread that calls the TrainingSession, for one
// hook after the other: for the NanHook and the StopAtStepHook of the options,
// for TrainingOptions::hooks in their order, for the others that the session
// adds itself, and for the one that saves checkpoints last. An error ends the
// run: it is returned with the hook's name, and later hooks are not called for
// that step, so that nothing is saved after a hook has refused it. Errors of
// event files are logged by the library's hooks, and end nothing.
class TrainingHook {
 public:
  TrainingHook() = default;
  virtual ~TrainingHook() = default;
  TrainingHook(const TrainingHook&) = delete;
  TrainingHook& operator=(const TrainingHook&) = delete;

  virtual std::string name() const = 0;  // For messages.
  // Once, before there is a session. May add nodes to the run's graph, which is
  // the ambient one.
  virtual Status Begin(TrainingContext& context);
  // When variables have their values; again after each new session that takes
  // the place of one whose step was aborted.
  virtual Status AfterCreateSession(TrainingContext& context);
  // `request` is empty.
  virtual Status BeforeRun(TrainingContext& context, HookRequest* request);
  // Not called for a step that failed.
  virtual Status AfterRun(TrainingContext& context, const HookResult& result);
  // After the last step, unless an error ended the run.
  virtual Status End(TrainingContext& context);
};

}  // namespace sluice

#endif  // SLUICE_TRAIN_TRAINING_HOOK_H_
