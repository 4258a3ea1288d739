// ClusterWatch: the status of a cluster's tasks, for `sluice top`.
#ifndef SLUICE_CLUSTER_CLUSTER_WATCH_H_
#define SLUICE_CLUSTER_CLUSTER_WATCH_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "exec/core/pipeline_stages.h"

namespace sluice {

// The status of one task. Counters start when the task starts.
struct TaskState {
  std::string task, address;
  std::string error;  // Not empty: it did not answer; the rest is unset.
  uint64_t incarnation = 0;
  int devices = 0;
  int64_t clock_ns = 0, started_ns = 0;  // On its own clock.
  int64_t steps = 0, failed_steps = 0, running_steps = 0, sessions = 0;
  int64_t bytes_sent = 0, bytes_received = 0;
  int64_t recent_steps = 0;  // How many the two times cover.
  int64_t step_p50_ns = 0, step_p95_ns = 0;
  int64_t cpu_ns = 0;
  int64_t live_bytes = 0, peak_bytes = 0;
  std::vector<StageCounters> stages;  // Of the pipelines in its process.
};

// Asks one task, whose master asks the others. If that task does not answer,
// asks all known tasks, and from then on the one that answered first. Used by
// one thread at a time.
class ClusterWatch {
 public:
  virtual ~ClusterWatch() = default;
  // Sorted by job and number. A task that does not answer within `patience` is
  // reported as an error in its TaskState and does not delay the others; the
  // call takes at most about twice `patience`, when the task that is asked has
  // just died. An error if there is no task to ask.
  virtual Result<std::vector<TaskState>> Poll(
      std::chrono::milliseconds patience) = 0;
};

// `target`: as for a Session, but this does not wait for any task.
Result<std::unique_ptr<ClusterWatch>> WatchCluster(const std::string& target);

}  // namespace sluice

// The same, loaded by name (base/cluster_library.h). On failure returns null
// and sets `*error`.
extern "C" sluice::ClusterWatch* sluice_watch_cluster(const std::string* target,
                                                      std::string* error);
// The tasks of a cluster source (cluster/membership/cluster_resolver.h), each
// as
// "/job:a/replica:0/task:0". On failure returns false and sets `*error`.
extern "C" bool sluice_cluster_tasks(const std::string* source,
                                     std::vector<std::string>* tasks,
                                     std::string* error);

#endif  // SLUICE_CLUSTER_CLUSTER_WATCH_H_
