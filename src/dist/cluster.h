// ClusterSpec: which tasks a cluster has, and where they listen.
//
// From a file, in JSON:
//   {"cluster": {"ps": ["10.0.0.1:4440"],
//                "worker": ["10.0.0.2:4440", "10.0.0.3:4440"]}}
// The outer object may be left out; a job may also be an object of task
// numbers,
// {"worker": {"1": "10.0.0.3:4440"}}, as TF_CONFIG writes it.
#ifndef SLUICE_DIST_CLUSTER_H_
#define SLUICE_DIST_CLUSTER_H_

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

// If it is "host:port", the host maybe an IPv6 address in brackets.
bool IsHostPort(const std::string& address, int least_port = 1);

// Plain value.
class ClusterSpec {
 public:
  // InvalidArgument for names that no device could have, a number or an address
  // that comes twice, and addresses without a port.
  Status Add(const std::string& job, int task, const std::string& address);
  static Result<ClusterSpec> Parse(std::string_view json);
  static Result<ClusterSpec> Load(const std::string& path);

  // By job, then by number.
  const std::vector<ClusterTask>& tasks() const { return tasks_; }
  // NotFound names the tasks that there are.
  Result<ClusterTask> Find(const std::string& job, int task) const;
  std::string ToJson() const;

 private:
  std::vector<ClusterTask> tasks_;
};

}  // namespace sluice

#endif  // SLUICE_DIST_CLUSTER_H_
