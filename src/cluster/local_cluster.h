// LocalCluster: a cluster within one program. Its tasks listen on the loopback
// address, each with its own master, worker and devices, like `sluice worker`
// processes. For examples and tests. Needs libsluice_cluster.
//
//   SLUICE_ASSIGN_OR_RETURN(
//       auto cluster, LocalCluster::Start({{"ps", 2}, {"worker", 3}}));
//   Session session(cluster->target("worker", 0), graph);
#ifndef SLUICE_CLUSTER_LOCAL_CLUSTER_H_
#define SLUICE_CLUSTER_LOCAL_CLUSTER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace sluice {

class Server;

// Owns its tasks. Sessions connect over gRPC, as to any cluster.
class LocalCluster {
 public:
  // `jobs`: names and numbers of tasks, at least one each. `transport`: "grpc"
  // or "ucx". `allow_host_access`: clients may run ops that access this
  // process's files or functions.
  static Result<std::unique_ptr<LocalCluster>> Start(
      const std::vector<std::pair<std::string, int>>& jobs,
      const std::string& transport = "grpc", bool allow_host_access = false);
  ~LocalCluster();  // Stops the tasks; running steps are cancelled.
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;

  // For Session: "grpc://127.0.0.1:port"; "" if the task does not exist.
  std::string target(const std::string& job, int task) const;

 private:
  LocalCluster();
  std::map<std::pair<std::string, int>, std::unique_ptr<Server>> servers_;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_LOCAL_CLUSTER_H_
