// What the stages of pipelines (docs/design/034-pipelines.md) do and what holds
// them up, counted by their queues: for metrics and for `sluice top`.
#ifndef SLUICE_EXEC_CORE_PIPELINE_STAGES_H_
#define SLUICE_EXEC_CORE_PIPELINE_STAGES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/core/resources.h"

namespace sluice {

// A stage and its queue, since the queue was made.
struct StageCounters {
  std::string pipeline, stage;  // "dataset", "map_1".
  int64_t number = 0;           // In the pipeline, from the first stage: 0.
  std::vector<int64_t> inputs;  // The numbers of those it takes elements from.
  int64_t elements = 0;         // How many it has made.
  int64_t ready = 0;            // Of these, how many are in the queue.
  int64_t capacity = 0;         // The maximum of `ready`; negative: no limit.
  // For how long it has waited for room, and those after it for elements.
  int64_t full_ns = 0, starving_ns = 0;
};

// A resource that may be the queue of a stage.
class StageQueue {
 public:
  virtual ~StageQueue() = default;
  // False, and nothing is set, if it is not. Thread-safe.
  virtual bool Count(StageCounters* counters) const = 0;
};

// A stage between two samples of its counters.
struct StageLoad {
  StageCounters now;
  double per_second = 0;          // Elements.
  double full = 0, starving = 0;  // Shares of the time, 0 to 1.
};

// A pipeline between two samples. The stages are in the order of their numbers.
struct PipelineLoad {
  // Without two samples, or while nothing moves, no stage is known to be slow.
  static constexpr int kUnknown = -1;

  std::string name;
  std::vector<StageLoad> stages;
  // The stage that the others wait for: it has elements to take, and those
  // after it lack what it makes. stages.size(): the steps that take elements
  // from the pipeline are slower than all of its stages.
  int slowest = kUnknown;
};

// Pipelines by name. `before`: an earlier sample, by `seconds` (<= 0: none).
// Stages that it does not have, or that have begun anew since, have no rates.
std::vector<PipelineLoad> PipelineLoads(
    const std::vector<StageCounters>& before,
    const std::vector<StageCounters>& now, double seconds);

// For pipelines that run in sessions of this process, not in a task of a
// cluster: their state is known from NoteLocalPipelines until it is destroyed.
void NoteLocalPipelines(const std::shared_ptr<ResourceManager>& state);
// Of each such state.
std::vector<std::vector<StageCounters>> LocalPipelineStages();

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_PIPELINE_STAGES_H_
