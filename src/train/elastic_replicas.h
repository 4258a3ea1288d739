// Which workers take part in synchronous training, kept in the graph, and the
// updates that follow them (SyncReplicasOptions::elastic).
#ifndef SLUICE_TRAIN_ELASTIC_REPLICAS_H_
#define SLUICE_TRAIN_ELASTIC_REPLICAS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/variables.h"
#include "data/coordinator.h"
#include "data/queue.h"
#include "session/session.h"

namespace sluice {

// How training follows the workers that are there.
struct ElasticOptions {
  // This worker's number, from 0 and less than SyncReplicasOptions::replicas.
  int64_t worker = 0;
  // Training waits while fewer workers are there.
  int64_t least = 1;
  // After so many seconds in which no gradient came while others wait, a worker
  // whose gradient is missing counts as lost, until its next gradient comes.
  double lost_after_seconds = 30;
};

// A variable beside the global step holds, for each worker, the first step of
// which it has not added gradients; a negative number if it is not there. A
// worker that has added gradients of step s sets it to s + 1, wakes the chief
// through a queue, and waits until the global step is another. The chief counts
// what the accumulators hold, applies an update once they have enough, and puts
// a token into the queue of each worker that waits for the new step, which the
// variable says. (Tokens of one queue for all could be taken by a worker that
// has added its gradients already.)
//
// What holds:
// - A worker adds gradients of a step once, unless the chief begins again.
// - A worker that finds another global step than its own after it has set the
//   variable goes on without a token; if it finds its own, the update that
//   ends this step sees the variable, and puts a token. Tokens of past steps
//   are discarded.
// - Whatever was lost, training goes on after `lost_after_seconds`: either a
//   worker is missing, which is forgotten, or gradients are, and then all
//   workers compute theirs again.
//
// Owned by the SyncReplicas that builds the graph; used by the thread that
// builds it, the nodes by any.
class ElasticReplicas {
 public:
  // Null, as in training that is not elastic.
  ElasticReplicas() = default;
  // Adds the state to the ambient graph, beside `global_step`. `to_aggregate`:
  // gradients in an update; 0: one of each worker that is there.
  ElasticReplicas(const ElasticOptions& options, int64_t replicas,
                  int64_t to_aggregate, const std::string& name,
                  const Var& global_step, SourceLoc loc);

  // The end of a worker's step, whose gradients were computed at `step` and
  // have been added: the step at which it goes on (int64), when it does.
  Output Arrive(const Output& step) const;
  // For the chief, when accumulators are empty: nobody is there.
  Node* Reset() const;
  // For a worker: takes part from the global step on; takes part no longer.
  Node* Join() const;
  Node* Leave() const;
  // How many workers are there: an int32 scalar.
  Output Present() const;
  // Tokens of the global step for the workers that wait for it; for all, after
  // Reset. Others discard theirs.
  Node* ReleaseWaiting() const;
  Node* ReleaseAll() const;
  // Adds what the chief runs: `counts` are those of the gradients that each
  // accumulator has.
  void BuildUpdates(const std::vector<Output>& counts);
  // Runs `update`, which does not wait, whenever there are enough gradients,
  // until the coordinator stops. On a thread of its own.
  Status RunUpdates(Node* update, Session& session,
                    Coordinator& coordinator) const;

 private:
  Output Nobody() const;
  Output Step() const;  // The global step, int64.
  Node* SetNext(const Output& step) const;
  // Tokens for the workers whose element is true.
  Node* Release(const Output& whom) const;

  ElasticOptions options_;
  int64_t replicas_ = 0, to_aggregate_ = 0;
  Var global_step_;
  Var next_;                   // int64, by worker.
  Queue arrived_;              // Of steps.
  std::vector<Queue> tokens_;  // By worker.
  Output had_, required_, added_;
  Node *wait_ = nullptr, *forget_ = nullptr, *again_ = nullptr;
};

}  // namespace sluice

#endif  // SLUICE_TRAIN_ELASTIC_REPLICAS_H_
