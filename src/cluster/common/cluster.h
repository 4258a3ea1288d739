// ClusterSpec: the tasks of a cluster and the addresses they listen on.
//
// The format of a file, in JSON:
//   {"cluster": {"ps": ["10.0.0.1:4440"],
//                "worker": ["10.0.0.2:4440", "10.0.0.3:4440"]}}
// The outer object may be omitted; a job may also be an object keyed by task
// number, {"worker": {"1": "10.0.0.3:4440"}}, as in TF_CONFIG.
#ifndef SLUICE_CLUSTER_COMMON_CLUSTER_H_
#define SLUICE_CLUSTER_COMMON_CLUSTER_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace sluice {

struct ClusterTask {
  std::string job;
  int task = 0;
  std::string address;       // "host:port".
  std::string name() const;  // "/job:ps/replica:0/task:1".
};

// Some tasks of a cluster.
using TaskFilter = std::function<bool(const std::string& job, int task)>;
inline bool AllTasks(const std::string& /*job*/, int /*task*/) { return true; }

// Whether it is "host:port". The host may be an IPv6 address in brackets.
bool IsHostPort(const std::string& address, int least_port = 1);

// A plain value.
class ClusterSpec {
 public:
  // InvalidArgument for names that are not valid in a device name, duplicate
  // task numbers or addresses, and addresses without a port.
  Status Add(const std::string& job, int task, const std::string& address);
  static Result<ClusterSpec> Parse(std::string_view json);
  static Result<ClusterSpec> Load(const std::string& path);

  // Sorted by job, then by number.
  const std::vector<ClusterTask>& tasks() const { return tasks_; }
  // The NotFound error lists the tasks that exist.
  Result<ClusterTask> Find(const std::string& job, int task) const;
  std::string ToJson() const;

 private:
  std::vector<ClusterTask> tasks_;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_COMMON_CLUSTER_H_
