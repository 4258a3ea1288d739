// ClusterWatch: how the tasks of a cluster are, for `sluice top`.
#ifndef SLUICE_DIST_CLUSTER_WATCH_H_
#define SLUICE_DIST_CLUSTER_WATCH_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace sluice {

// A task as it was found. Counts are since it was started.
struct TaskSeen {
  std::string task, address;
  std::string
      error;  // Not empty: it did not answer, and the rest is not there.
  uint64_t incarnation = 0;
  int devices = 0;
  int64_t clock_ns = 0, started_ns = 0;  // Of its own clock.
  int64_t steps = 0, failed_steps = 0, running_steps = 0, sessions = 0;
  int64_t bytes_sent = 0, bytes_received = 0;
  int64_t recent_steps = 0;  // The latest, of which the two times are.
  int64_t step_p50_ns = 0, step_p95_ns = 0;
  int64_t cpu_ns = 0;
  int64_t live_bytes = 0, peak_bytes = 0;
};

// Asks one task, whose master asks the others; when it is silent, all that are
// known, and from then on the one that answered first. One thread at a time.
class ClusterWatch {
 public:
  virtual ~ClusterWatch() = default;
  // By job and number. A task that does not answer within `patience` is an
  // error of its own (TaskSeen) and holds up no other; the look takes about
  // twice as long at most, when the one that is asked has just died. An error
  // if there is nobody to ask.
  virtual Result<std::vector<TaskSeen>> Look(
      std::chrono::milliseconds patience) = 0;
};

// `target`: as a Session's, but no task of a cluster is waited for.
Result<std::unique_ptr<ClusterWatch>> WatchCluster(const std::string& target);

}  // namespace sluice

// The same, found by its name (base/dist_library.h): null with `*error`.
extern "C" sluice::ClusterWatch* sluice_watch_cluster(const std::string* target,
                                                      std::string* error);
// The tasks of a cluster source (dist/cluster_resolver.h), "/job:a/replica:0/
// task:0" each; false with `*error`.
extern "C" bool sluice_cluster_tasks(const std::string* source,
                                     std::vector<std::string>* tasks,
                                     std::string* error);

#endif  // SLUICE_DIST_CLUSTER_WATCH_H_
