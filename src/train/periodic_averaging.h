// Workers that train variables of their own and average them now and then:
// fewer messages than an update a step (local SGD).
//
//   // With DeviceScope("/job:worker/task:3"): this worker's variables.
//   PeriodicAveraging averaging(mine, {.replicas = 5}, /*every=*/50);
//   TrainingOptions options;
//   options.hooks = {averaging.Hook(options.is_chief)};
#ifndef SLUICE_TRAIN_PERIODIC_AVERAGING_H_
#define SLUICE_TRAIN_PERIODIC_AVERAGING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "train/sync_replicas.h"

namespace sluice {

// Builds shared copies of a worker's variables, "<variable>/average", and what
// averages them. The copies are global variables, placed as others are: a
// ReplicaDeviceSetter puts them on the tasks of ps. The worker's own should be
// local variables (kLocalVariables) on its task, of a floating type, and have
// the same names in all workers. Used by the thread that builds the graph.
//
// Each worker begins with the copies' values. After every `every` of its steps
// it hands in its values and waits, as a step of SyncReplicas does: when there
// are `to_aggregate` of them, the chief assigns their mean to the copies and
// counts a round, and each worker goes on with the copies' values. Slots of
// optimizers are not averaged. Checkpoints hold the copies.
class PeriodicAveraging {
 public:
  // InvalidArgument is recorded in the graph if there are no variables, or if
  // `every` or the options are not possible.
  PeriodicAveraging(const std::vector<Var>& variables,
                    SyncReplicasOptions options, int64_t every,
                    SourceLoc loc = CallerLoc());

  // For TrainingOptions::hooks of every worker; outlived by this.
  HookPtr Hook(bool is_chief, double max_wait_seconds = 7200);

  // The shared copies, in the order of the variables.
  const std::vector<Var>& averages() const { return averages_; }
  // How often they have been averaged: the variable "<name>_rounds".
  const Var& rounds() const { return rounds_; }

 private:
  class AveragingHook;

  const int64_t every_;
  SyncReplicas replicas_;
  std::vector<Var> averages_;
  Var rounds_;
  Node* hand_in_ = nullptr;    // A worker's part of a round.
  Node* take_over_ = nullptr;  // The copies' values become the worker's.
};

}  // namespace sluice

#endif  // SLUICE_TRAIN_PERIODIC_AVERAGING_H_
