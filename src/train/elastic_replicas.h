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
// which it has not added gradients, or -1 if it is not there. A worker that has
// added gradients puts an element into a queue, which wakes the chief; the
// chief counts what the accumulators hold and applies an update once they have
// enough. (The elements only wake it, so that a lost or a late one does no
// harm.)
//
// Owned by the SyncReplicas that builds the graph; used by the thread that
// builds it, the nodes by any.
class ElasticReplicas {
 public:
  // Null, until Build.
  ElasticReplicas() = default;
  // Adds the state to the ambient graph, beside `global_step`. `to_aggregate`:
  // gradients in an update; 0: one of each worker that is there.
  ElasticReplicas(const ElasticOptions& options, int64_t replicas,
                  int64_t to_aggregate, const std::string& name,
                  const Var& global_step, SourceLoc loc);

  // The end of a worker's step, whose gradients were computed at `step`.
  Node* Arrive(const Output& step) const;
  // For a worker: takes part from the global step on; takes part no longer.
  Node* Join() const;
  Node* Leave() const;
  // How many workers are there: an int32 scalar.
  Output Present() const;
  // Adds what the chief runs: `counts` are those of the gradients that each
  // accumulator has.
  void BuildUpdates(const std::vector<Output>& counts);
  // Runs `update`, which does not wait, whenever there are enough gradients,
  // until the coordinator stops. On a thread of its own.
  Status RunUpdates(Node* update, Session& session,
                    Coordinator& coordinator) const;

 private:
  Node* SetNext(const Output& step) const;

  ElasticOptions options_;
  int64_t to_aggregate_ = 0;
  Var global_step_;
  Var next_;       // int64, by worker.
  Queue arrived_;  // Of steps.
  Output had_, required_;
  Node *wait_ = nullptr, *forget_ = nullptr;
};

}  // namespace sluice

#endif  // SLUICE_TRAIN_ELASTIC_REPLICAS_H_
