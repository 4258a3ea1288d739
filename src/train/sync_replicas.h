// Synchronous training by several workers: an update applies the mean of their
// gradients (OSDI'16, section 4.4, Figure 5). Each worker builds the same graph
// and runs its own steps; variables are on tasks that all workers see.
//
//   GradientDescentOptimizer sgd(0.1);
//   SyncReplicas replicas(sgd, {.replicas = 5, .to_aggregate = 4});
//   Node* train = replicas.Minimize(loss, {.global_step = step});
//   TrainingOptions options;
//   options.is_chief = worker == 0;
//   options.hooks = {replicas.Hook(options.is_chief)};
//
// How it works. Each variable has an accumulator on its device. A worker's step
// adds its gradients, labelled with the global step at which it computed them,
// and then waits for a token from a queue beside the global step. The chief's
// update waits until every accumulator has `to_aggregate` gradients, applies
// their means, increments the global step and puts one token for each replica
// into the queue. A gradient with an older label is dropped. With fewer
// gradients than replicas, the others are backup workers: an update takes the
// first that come, and neither waits for a slow worker nor for a lost one. If
// training is elastic, workers may come and go, and an update takes a gradient
// of each that is there.
#ifndef SLUICE_TRAIN_SYNC_REPLICAS_H_
#define SLUICE_TRAIN_SYNC_REPLICAS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/nn/optimizer.h"
#include "data/queue.h"
#include "data/queue_runner.h"
#include "train/elastic_replicas.h"
#include "train/training_hooks.h"

namespace sluice {

struct SyncReplicasOptions {
  int64_t replicas = 1;  // The number of workers; if elastic, at most.
  // Gradients in an update; 0: one of each replica. With more than there are
  // replicas, each contributes several. If elastic: the most in an update; 0:
  // one of each worker that is there.
  int64_t to_aggregate = 0;
  // Updates follow the workers that are there: one that joins takes part, and
  // one that leaves, or is lost, holds up nobody for long. Then update() waits
  // for nothing, and the chief's Hook is needed, which runs it in time.
  std::optional<ElasticOptions> elastic = std::nullopt;
  // Builds what runs after each update and before the workers go on, such as
  // moving averages. Null: nothing.
  std::function<Node*()> after_update = nullptr;
  // A worker discards tokens of earlier steps, which were meant for a worker
  // that is lost or late. False: it takes them, as TensorFlow's do, and
  // computes a gradient that will be dropped.
  bool discard_old_tokens = true;
  // Of the shared queue and accumulators. Two in one graph need two names.
  std::string name = "sync_replicas";
};

// Builds the graph of synchronous training around an optimizer, which outlives
// it. Used by the thread that builds the graph; the nodes may be run by any.
//
// What holds at run time:
// - An update contains no gradient that was labelled with an earlier step. With
//   to_aggregate == replicas, and as long as no task is lost, each update has
//   exactly one gradient of each worker. After a loss, the first update may
//   have two of one worker and none of another.
// - Accumulators of different variables are independent: with backup workers, a
//   gradient that comes just in time may be in the mean of one variable and too
//   late for another.
// - The mean of rows is over all gradients of the update, so that a row which
//   few workers have gets the same update as in one large batch.
// - A worker that is lost is replaced by starting it again; meanwhile, updates
//   go on if enough others are left, and wait if not; if elastic, until it
//   counts as lost.
// - A chief that is started again restores the latest checkpoint. It discards
//   gradients from before, and workers that wait go on with the restored step.
//   A gradient that a worker computed meanwhile is dropped by its label, unless
//   that is the restored step.
class SyncReplicas {
 public:
  // Applies means of gradients, as Optimizer::ApplyGradients.
  using ApplyFn = std::function<Result<Node*>(
      const std::vector<GradAndVar>& means, const MinimizeOptions& options)>;

  SyncReplicas(Optimizer& optimizer, SyncReplicasOptions options);
  SyncReplicas(ApplyFn apply, SyncReplicasOptions options);
  SyncReplicas(const SyncReplicas&) = delete;

  // A worker's step: adds the gradients of the loss, and returns when it is
  // time for the next step. MinimizeOptions::global_step is required. As in
  // builders: null on error, which is recorded in the graph.
  Node* Minimize(Output loss, const MinimizeOptions& options,
                 SourceLoc loc = CallerLoc());
  // The second half of it; the first is Optimizer::ComputeGradients.
  // FailedPrecondition is recorded if it was called before.
  Node* ApplyGradients(const std::vector<GradAndVar>& grads,
                       const MinimizeOptions& options,
                       SourceLoc loc = CallerLoc());

  // For TrainingOptions::hooks of every worker; outlived by this. The chief's
  // prepares the shared state and runs the updates on a thread; those of the
  // others wait until the chief has done so, at most `max_wait_seconds`.
  // With TrainingOptions::chief_election, `is_chief` is false in all.
  HookPtr Hook(bool is_chief, double max_wait_seconds = 7200);

  // ---- For programs with loops of their own; null before ApplyGradients. ----
  // One update: waits for gradients and ends when the workers may go on.
  Node* update() const { return update_; }
  // How many workers are there, an int32 scalar, for logs and summaries. Null
  // unless elastic.
  const Output& present() const { return present_; }
  // Runs update() on a thread (StartQueueRunner). Not for elastic training.
  QueueRunner update_runner() const {
    return {.enqueue = {update_}, .endless = true};
  }
  // For the chief, when variables have their values and before the first
  // update: discards earlier gradients.
  Node* chief_init() const { return chief_init_; }
  // For each worker, before its first step: its local step is the global step.
  Node* local_init() const { return local_init_; }
  // Adds a node that puts `count` tokens of the current step into the queue (an
  // int32 scalar). A chief that takes over frees the workers that wait, with
  // one for each replica. FailedPrecondition is recorded before ApplyGradients,
  // and in elastic training, where the Hook does it.
  Node* PutTokens(const Operand& count, SourceLoc loc = CallerLoc()) const;
  // Whether chief_init has run since the task of the global step began.
  const Var& ready() const { return ready_; }
  const Var& local_step() const { return local_step_; }

 private:
  // One variable's accumulator.
  struct Summed {
    Var var;
    bool sparse = false;
  };
  class SyncHook;

  Status Check(const MinimizeOptions& options) const;
  Output Accumulator(const Summed& s) const;
  // Adds a worker's gradient.
  Node* Add(const Summed& s, const Gradient& gradient, const Output& step);
  // Waits for enough gradients, unless elastic; their mean.
  Gradient Mean(const Summed& s) const;
  // Discards what is there, and sets the step.
  Node* Restart(const Summed& s, const Output& step) const;
  // Waits for a token (of the current global step).
  Output Token(const Var& global_step) const;
  Node* Build(const std::vector<GradAndVar>& grads,
              const MinimizeOptions& options, SourceLoc loc);

  Optimizer* const optimizer_;  // May be null.
  const ApplyFn apply_;
  const SyncReplicasOptions options_;
  Queue tokens_;
  Var global_step_, local_step_, ready_;
  ElasticReplicas elastic_;  // Null unless options_.elastic.
  Output present_;
  Node *leave_ = nullptr, *release_all_ = nullptr;  // Likewise.
  Node* update_ = nullptr;
  Node* chief_init_ = nullptr;
  Node* local_init_ = nullptr;
};

}  // namespace sluice

#endif  // SLUICE_TRAIN_SYNC_REPLICAS_H_
