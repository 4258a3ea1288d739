// The loop that trains for days: it begins with the latest checkpoint, saves,
// logs, goes on after the loss of a task, and ends in order.
//
//   TrainingOptions options;
//   options.folder = "model";
//   options.last_step = 200;
//   options.loss = loss;
//   auto training = TrainingSession::Start(options);
//   if (!training.ok()) return training.status();
//   while (!(*training)->ShouldStop())
//     if (!(*training)->RunStep({train}).ok()) break;
//   return (*training)->Close();  // The error of a step too.
#ifndef SLUICE_TRAIN_TRAINING_SESSION_H_
#define SLUICE_TRAIN_TRAINING_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset_iterator.h"
#include "data/queue_runner.h"
#include "session/session.h"
#include "train/saver.h"
#include "train/training_hook.h"
#include "train/training_hooks.h"

namespace sluice {

struct TrainingOptions {
  // Of the checkpoints and event files; created where needed. "": there are
  // none.
  std::string folder = "";
  // The variable that counts steps, a scalar integer that a step increments
  // (MinimizeOptions::global_step). Null: the variable "global_step", if there
  // is one; else the run counts its own steps from 0.
  Var global_step = {};
  int64_t last_step = 0;  // StopAtStepHook; 0: no end.

  // What gives variables their values, if there is no checkpoint. Null: their
  // initialisers.
  Node* init = nullptr;
  Feeds init_feeds = {};
  // After `init`: for a warm start, for instance. (By Saver::Restore of another
  // saver of the graph.)
  std::function<Status(Session&)> init_function = nullptr;
  // In each session, with or without checkpoint. Null: the initialisers of
  // local variables.
  Node* local_init = nullptr;
  // A vector of strings: what has no value yet. Null: the names of variables.
  Output ready = {};

  // Null: a saver of all variables with saver_options. Else it is of the run's
  // graph and outlives the run, and saver_options only says which state_file it
  // has.
  Saver* saver = nullptr;
  SaverOptions saver_options = {};
  std::string checkpoint_name = "model.ckpt";
  Every save = {.seconds = 600};  // CheckpointHook.
  Output metric = {};             // As there.
  bool wait_for_saves = false;    // As there.

  // NanHook, and logged; null: neither.
  Output loss = {};
  NanHookOptions nan = {};
  std::vector<std::pair<std::string, Output>> log_tensors = {};
  Every log_every = {.steps = 100};  // LogHook and StepCounterHook.
  Output summary = {};               // SummaryHook; null: none.
  Every summary_every = {.steps = 100};
  bool progress = false;  // ProgressHook; needs last_step.
  std::vector<HookPtr> hooks = {};

  // What is started when variables have their values, and stopped at the end.
  std::vector<DatasetIterator> inputs = {};
  std::vector<QueueRunner> queue_runners = {};

  std::string target = "";  // A task of a cluster; "": this process.
  SessionOptions session_options = {};
  // Initialises, restores and saves. Others wait until variables have values,
  // and have no event files.
  bool is_chief = true;
  // Instead of is_chief: "etcd://host:port,.../NAME?lease=SECONDS". The runs
  // with this name elect their chief. If it dies or is suspended for longer
  // than the lease (5 s), another is elected, whose step ends and is run again
  // when it has restored the latest checkpoint. (Hooks ask
  // TrainingContext::is_chief.)
  std::string chief_election = "";
  double max_wait_seconds = 7200;  // For the chief, or for the cluster.
  // How often in a row a step may be aborted.
  int max_retries = 10;
  double retry_seconds = 0.5;  // The pause before each try.

  // SIGTERM and SIGINT end the run (SignalStop).
  bool stop_on_signals = false;
  // Lines for the user; null: to standard error.
  std::function<void(const std::string&)> log = nullptr;
  std::function<double()> clock = nullptr;  // Seconds; for tests.
};

// A training run of a graph, which outlives it. Used by one thread.
//
// - Start builds what the options ask for, calls the hooks' Begin, makes a
//   session, and restores the latest checkpoint of the folder or initialises
//   variables; it logs which. A variable that the saver does not save is
//   initialised in both cases. FailedPrecondition if another process runs in
//   the folder, or if its state file names a checkpoint that is not there.
// - A step that ends with Aborted or Unavailable (the loss of a task, for
//   instance) is run again: in a new session, with the variables of the latest
//   checkpoint. Without checkpoint, with what the tasks still hold, if that is
//   all; else from initial values, with a warning.
// - OutOfRange, the end of the data, is returned by the step and stops the run;
//   it is no error of it. Any other error of a step or hook ends the run:
//   ShouldStop is true, and Close returns the error, without a last checkpoint.
// - With stop_on_signals, a signal lets the step that runs end (it does not
//   interrupt one that waits); then ShouldStop is true, and Close saves a
//   checkpoint as always. While a run waits for the chief or for the cluster,
//   a signal ends the wait with Cancelled.
class TrainingSession {
 public:
  static Result<std::unique_ptr<TrainingSession>> Start(
      TrainingOptions options, Graph& graph = CurrentGraph(),
      SourceLoc loc = CallerLoc());
  // Ends a run that was not closed as after an error.
  ~TrainingSession();
  TrainingSession(const TrainingSession&) = delete;

  bool ShouldStop();
  // A step with the hooks, as Session::Run. FailedPrecondition if the run
  // should stop. (One that is run again gets the same feeds, although it may be
  // of an earlier number then: feeds that depend on it are for Train.)
  Result<std::vector<Tensor>> Run(const Feeds& feeds,
                                  const std::vector<Output>& fetches,
                                  const std::vector<Node*>& targets = {});
  Status RunStep(const std::vector<Node*>& targets, const Feeds& feeds = {});
  // Runs steps until the run should stop, then closes it. `feeds` is asked for
  // the feeds of each step by its number: if they depend on nothing else, a run
  // that was killed goes on with the same data. (A step that is run again gets
  // the feeds of its new number.)
  Status Train(
      const std::vector<Node*>& targets,
      const std::function<Result<Feeds>(int64_t step)>& feeds = nullptr);
  // Stops threads, calls the hooks' End, which saves a checkpoint, and ends the
  // session. Returns the first error of the run. Later calls return the same.
  Status Close();

  void RequestStop(const std::string& reason);
  // Why it stopped: "the last step, 200", "signal SIGTERM", "the data has
  // ended"; "" before.
  const std::string& stop_reason() const;
  // The signal that stopped it, or 0.
  int stop_signal() const;
  int64_t step() const;  // The global step.
  // The checkpoint with which it began; "": none.
  const std::string& restored_from() const;
  // FailedPrecondition once it is closed.
  Result<Session*> session() const;

 private:
  class Impl;
  explicit TrainingSession(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_TRAIN_TRAINING_SESSION_H_
