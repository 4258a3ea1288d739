#include "simulate/simulate_training.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <utility>

namespace sluice {
namespace {

// The state of all workers while the simulator runs. Lives for one call.
class TrainingRun {
 public:
  TrainingRun(const TrainingModel& model, const ClusterModel& cluster,
              const SimulatorOptions& options)
      : model_(model),
        simulator_(cluster, options),
        random_(model.seed),
        label_(model.worker_tasks.size(), 0),
        left_(model.worker_tasks.size(), model.steps),
        waits_(model.worker_tasks.size(), 0) {
    const int compiled_for = model.worker_tasks[0];
    for (const int task : model.worker_tasks) {
      int device = -1;
      for (size_t d = 0; d < cluster.devices.size(); ++d)
        if (cluster.devices[d].task == task) {
          device = static_cast<int>(d);
          break;
        }
      std::vector<int> devices;
      for (const SimulatedPart& part : model.step->parts) {
        const DeviceModel& d =
            cluster.devices[static_cast<size_t>(part.device)];
        devices.push_back(d.task == compiled_for ? device : part.device);
      }
      devices_.push_back(std::move(devices));
    }
  }

  Result<TrainingPrediction> Run(const ClusterModel& cluster) {
    for (size_t w = 0; w < label_.size(); ++w) StartWorker(w, 0);
    SLUICE_RETURN_IF_ERROR(simulator_.Run());
    result_.total_ns = simulator_.now();
    result_.events = simulator_.events();
    for (size_t m = 0; m < cluster.machines.size(); ++m) {
      const int at = static_cast<int>(m);
      result_.core_use.push_back(simulator_.CoresBusy(at) / result_.total_ns /
                                 cluster.machines[m].cores);
      result_.network_use.push_back(simulator_.NetworkBusy(at) /
                                    result_.total_ns);
    }
    return std::move(result_);
  }

 private:
  double Factor() {
    const Stragglers& s = model_.stragglers;
    double f = 1;
    if (s.spread > 0)
      f = std::exp(std::normal_distribution<double>(0, s.spread)(random_));
    if (s.probability > 0 &&
        std::bernoulli_distribution(s.probability)(random_))
      f *= 1 + std::exponential_distribution<double>(
                   1 / std::max(s.mean, 1e-9))(random_);
    return f;
  }

  void StartWorker(size_t w, double now) {
    Simulator::Start start;
    start.program = model_.step;
    start.devices = devices_[w];
    start.master = model_.worker_tasks[w];
    start.slowdown = Factor();
    start.slow_task = start.master;
    label_[w] = updates_;
    start.done = [this, w, now](double end) { StepDone(w, now, end); };
    simulator_.StartStep(now, std::move(start));
  }

  void StepDone(size_t w, double begin, double now) {
    if (model_.update == nullptr) {
      result_.step_ns.push_back(now - begin);
      if (--left_[w] > 0) StartWorker(w, now);
      return;
    }
    if (label_[w] != updates_) {  // Too late.
      ++result_.dropped;
      if (updates_ < model_.steps) StartWorker(w, now);
      return;
    }
    waits_[w] = 1;
    const int wanted = model_.to_aggregate == 0
                           ? static_cast<int>(label_.size())
                           : model_.to_aggregate;
    if (++gradients_ != wanted) return;
    Simulator::Start start;
    start.program = model_.update;
    start.master = model_.worker_tasks[0];
    start.done = [this](double end) { Updated(end); };
    simulator_.StartStep(now, std::move(start));
  }

  void Updated(double now) {
    result_.step_ns.push_back(now - last_update_);
    last_update_ = now;
    result_.dropped += std::max(
        0, gradients_ -
               (model_.to_aggregate == 0 ? gradients_ : model_.to_aggregate));
    gradients_ = 0;
    if (++updates_ == model_.steps) return;
    for (size_t w = 0; w < waits_.size(); ++w)
      if (std::exchange(waits_[w], 0) != 0) StartWorker(w, now);
  }

  const TrainingModel& model_;
  Simulator simulator_;
  std::mt19937_64 random_;
  std::vector<std::vector<int>> devices_;  // By worker.
  std::vector<int> label_, left_;
  std::vector<uint8_t> waits_;
  int updates_ = 0, gradients_ = 0;
  double last_update_ = 0;
  TrainingPrediction result_;
};

}  // namespace

double TrainingPrediction::StepNs(double q) const {
  if (step_ns.empty()) return 0;
  std::vector<double> sorted = step_ns;
  std::sort(sorted.begin(), sorted.end());
  const double at =
      std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(std::lround(at))];
}

double TrainingPrediction::MedianStepNs() const { return StepNs(0.5); }

Result<TrainingPrediction> SimulateTraining(const TrainingModel& model,
                                            const ClusterModel& cluster,
                                            const SimulatorOptions& options) {
  SLUICE_RETURN_IF_ERROR(cluster.Check());
  if (model.step == nullptr || model.worker_tasks.empty() || model.steps < 1)
    return InvalidArgument("training: expected a step, workers and at least ",
                           "one step of each, got none");
  if (model.to_aggregate < 0 ||
      model.to_aggregate > static_cast<int>(model.worker_tasks.size()))
    return InvalidArgument("training: expected to_aggregate of 0 to ",
                           model.worker_tasks.size(), " workers, got ",
                           model.to_aggregate);
  for (const int task : model.worker_tasks)
    if (task < 0 || task >= static_cast<int>(cluster.tasks.size()))
      return InvalidArgument("training: expected one of ", cluster.tasks.size(),
                             " tasks, got ", task);
  return TrainingRun(model, cluster, options).Run(cluster);
}

}  // namespace sluice
