// Predicts training by many replicas that run the same step, each against its
// own worker and the same parameter servers.
#ifndef SLUICE_SIMULATE_SIMULATE_TRAINING_H_
#define SLUICE_SIMULATE_SIMULATE_TRAINING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "simulate/simulator.h"
#include "simulate/step_program.h"

namespace sluice {

// How long the kernels of one worker's step take, beside the usual time.
struct Stragglers {
  // The factor is lognormal with median 1 and this standard deviation of its
  // logarithm...
  double spread = 0;
  // ...and with this probability another factor is drawn in addition: 1 plus an
  // exponential with this mean.
  double probability = 0;
  double mean = 0;
};

struct TrainingModel {
  // Compiled for the task "worker:0"; what it places there runs on the worker.
  std::shared_ptr<const StepProgram> step;
  // Applies the gradients of one update; null for asynchronous training, in
  // which every step applies its own.
  std::shared_ptr<const StepProgram> update;
  std::vector<int> worker_tasks;  // Places in the cluster. The first is the
                                  // one that `step` was compiled for.
  // Gradients in an update; later ones are dropped. 0: of every worker.
  int to_aggregate = 0;
  int steps = 20;  // Updates, or steps of each worker.
  Stragglers stragglers;
  uint64_t seed = 1;
};

struct TrainingPrediction {
  std::vector<double> step_ns;  // From update to update; asynchronous: of every
                                // step.
  double total_ns = 0;
  int64_t events = 0;
  int64_t dropped = 0;  // Gradients.
  // Shares of the time, by machine.
  std::vector<double> core_use, network_use;
  double MedianStepNs() const;
  // Quantile q of the steps, 0 to 1.
  double StepNs(double q) const;
};

// The protocol of SyncReplicas (train/sync_replicas.h): each worker labels its
// gradients with the update that it began after, the chief (worker 0) runs
// `update` when `to_aggregate` gradients with the current label are there, and
// then the workers that wait begin. A worker whose gradient came too late
// begins at once. The transfers of gradients are those of `step`.
// InvalidArgument for a model without workers or steps, or with more gradients
// than workers.
Result<TrainingPrediction> SimulateTraining(
    const TrainingModel& model, const ClusterModel& cluster,
    const SimulatorOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_SIMULATE_SIMULATE_TRAINING_H_
