// Hooks for training runs. TrainingSession adds most of them by itself, as its
// options say; the others are given to it.
//
//   TrainingOptions options;
//   options.folder = "model";
//   options.hooks = {NanHook(loss), StopAfterStepsHook(50),
//                    EarlyStoppingHook(loss, {.every = {.steps = 10}})};
#ifndef SLUICE_TRAIN_TRAINING_HOOKS_H_
#define SLUICE_TRAIN_TRAINING_HOOKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/saver.h"
#include "train/training_hook.h"

namespace sluice {

// Each function makes a hook for one run. Options that make no sense are an
// error of its Begin: InvalidArgument.
using HookPtr = std::shared_ptr<TrainingHook>;

// Stops when the global step has reached this (also if it has at the start).
HookPtr StopAtStepHook(int64_t last_step);
// Stops after so many steps of this run.
HookPtr StopAfterStepsHook(int64_t steps);

struct CheckpointHookOptions {
  Every every = {.seconds = 600};
  // A scalar, of the step before the save: for SaverOptions::keep_best.
  Output metric = {};
  // Training waits for each save.
  bool wait = false;
};
// Saves to "<prefix>-<global step>": at the start, unless the run began with a
// checkpoint; every so often; and at the end, where an error is returned. In a
// session of this process saves run beside training (Saver::SaveAsync); while
// one is being written, no other begins. Their errors, such as a full disk, are
// logged, and training goes on. Steps that do not raise the global step are
// saved too, under the same name, with a warning. `saver`: of the run's graph;
// outlives the run.
HookPtr CheckpointHook(Saver* saver, const std::string& prefix,
                       const CheckpointHookOptions& options = {});

// Logs "step 100: loss = 0.5, accuracy = 0.75 (215.3 steps/s)" after the first
// step and every so often. The tensors are computed in the step itself.
HookPtr LogHook(const std::vector<std::pair<std::string, Output>>& tensors,
                const Every& every = {.steps = 100});
// Adds the scalar "global_step/sec" to the run's event file.
HookPtr StepCounterHook(const Every& every = {.steps = 100});
// Adds a serialised Summary (ops::ScalarSummary, ops::MergeSummary, ...) to the
// run's event file, after the first step and every so often.
HookPtr SummaryHook(const Output& summary, const Every& every = {.steps = 100});

struct NanHookOptions {
  // Whether each step also computes, for every tensor that the loss depends on,
  // whether it is finite. See NanHook.
  bool in_step = false;
  bool fail = true;  // Else the run stops without error or last checkpoint.
};
// Ends the run when the loss is not finite, with InvalidArgument: the step, the
// loss, and the first tensor that was not finite. Tensors are those of floating
// types that the loss depends on, outside of loops and conditionals, in a
// topological order of the graph. The hook that saves comes later, so that no
// checkpoint has what the step left.
//
// Where the first one is found:
// - By default nothing is computed before it is needed, and then those tensors
//   are computed again, with the same feeds. The step has updated the variables
//   meanwhile, often with NaN, and they are used as they are now; the message
//   says which are not finite. What depends on random numbers, queues and
//   other state, or waits for updates, is not computed again. So the tensor
//   that is named is one that is not finite now: usually the cause, if the
//   variables still are finite, and only a trace of it if not.
// - `in_step`: the tensors of the very step are looked at. This is exact, and
//   costs each step a pass over them; they are not fused into what reads them.
HookPtr NanHook(const Output& loss, const NanHookOptions& options = {});

struct ProfileHookOptions {
  int64_t first = 10;  // After this many steps of the run.
  int64_t steps = 5;   // How many are traced.
  int64_t every = 0;   // Again after so many steps; 0: once.
};
// Writes a trace of some steps: "<folder>/trace-<global step>.json" for
// chrome://tracing and ui.perfetto.dev, and a RunMetadata "step <global step>"
// in the run's event file. Traced steps are slower: each node runs by itself.
HookPtr ProfileHook(const ProfileHookOptions& options = {});

struct EarlyStoppingOptions {
  Every every = {.steps = 100};  // How often the metric is looked at.
  // Stops when so many looks in a row have not been better than the best, by
  // more than min_delta. (A run that goes on counts from 0.)
  int patience = 5;
  double min_delta = 0;
  bool lower_is_better = true;
};
// `metric`: a scalar of real type, computed in the step. NaN is never better.
HookPtr EarlyStoppingHook(const Output& metric,
                          const EarlyStoppingOptions& options = {});

struct EvaluationHookOptions {
  std::string name = "evaluation";
  Every every = {.steps = 1000};
  bool at_end = true;
  // Stops when the result is not better for a while (whose `every` is unused).
  std::optional<EarlyStoppingOptions> stop = std::nullopt;
};
// Calls `evaluate` with the session and the global step every so often and at
// the end, on the thread that trains. Its result is logged, and added to the
// run's event file as the scalar `name`; its error ends the run.
HookPtr EvaluationHook(
    std::function<Result<double>(Session&, int64_t step)> evaluate,
    const EvaluationHookOptions& options = {});

struct ProgressHookOptions {
  // Where lines go; null: standard error.
  std::function<void(const std::string&)> write = nullptr;
  // Whether a line can be written over; unset: whether standard error is a
  // terminal.
  std::optional<bool> terminal = std::nullopt;
  double seconds = 30;  // Between lines that are not on a terminal.
};
// Shows how far the run is, and the time that is left: on a terminal a bar,
// elsewhere a line now and then.
// "[=======>            ] 4000/10000, 215.3 steps/s, 0:27 left"
HookPtr ProgressHook(int64_t last_step,
                     const ProgressHookOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_TRAIN_TRAINING_HOOKS_H_
