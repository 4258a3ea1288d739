// ClusterResolver: how a process finds its cluster: from a file, from etcd, or
// from the environment variables set by Slurm, MPI or Kubernetes
// (docs/clusters.md).
#ifndef SLUICE_CLUSTER_MEMBERSHIP_CLUSTER_RESOLVER_H_
#define SLUICE_CLUSTER_MEMBERSHIP_CLUSTER_RESOLVER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/common/cluster.h"

namespace sluice {

// The source of a cluster, parsed: "etcd://host:2379/name?ps=2&worker=4",
// "slurm", "mpi?hostfile=hosts.txt", "kubernetes?worker=4", "cluster.json",
// "file:///etc/cluster.json", or the JSON that such a file contains. A plain
// value.
struct ClusterSource {
  // "file", "json", "etcd", "slurm", "mpi", "kubernetes".
  std::string scheme;
  // A path; JSON; or the text between "etcd://" and '?'.
  std::string rest;
  std::vector<std::pair<std::string, std::string>> options;  // Not for files.

  // InvalidArgument for an option that the scheme does not have.
  static Result<ClusterSource> Parse(std::string_view text);
  // "" if it is not set.
  std::string Option(const std::string& name) const;
  // Options that are not settings name jobs; their value is the number of
  // tasks.
  Result<std::vector<std::pair<std::string, int>>> Jobs() const;
};

struct ResolverOptions {
  // Which task this process is. Needed where the environment does not say
  // (files, etcd); elsewhere it overrides the environment. "": as the
  // environment says. A client is not a task.
  std::string job;
  int task = 0;
  // The address of this task that is published to the others, for etcd:
  // "host:port".
  std::string address;
  // How long Cluster() waits for tasks to appear.
  std::chrono::milliseconds patience{20000};
  // Reads the environment. Null: getenv.
  std::function<std::optional<std::string>(const std::string&)> environment;
};

// One process's view of its cluster. Thread-safe.
class ClusterResolver {
 public:
  virtual ~ClusterResolver() = default;
  // The tasks of the cluster. If the membership changes, each call queries it
  // again, and waits for the expected tasks that match.
  virtual Result<ClusterSpec> Cluster(const TaskFilter& wait_for) = 0;
  Result<ClusterSpec> Cluster() { return Cluster(AllTasks); }
  // The tasks that are present now, without waiting.
  virtual Result<ClusterSpec> Present() { return Cluster(); }
  // This process's task. FailedPrecondition if the process is not a task.
  virtual Result<ClusterTask> Self() = 0;
  // The address to listen on if it differs from the task's address; else "".
  virtual std::string Bind() { return ""; }
  // Whether the membership changes; if so, a result of Cluster() may be
  // outdated.
  virtual bool changes() const { return false; }

  // The next three do nothing unless the membership changes. Join announces
  // that this task is running. `evicted` is called if the task loses its place
  // in the cluster.
  virtual Status Join(uint64_t /*incarnation*/,
                      std::function<void(const Status&)> /*evicted*/) {
    return OkStatus();
  }
  // Calls `lost` for each task that is gone, on any thread, until Leave.
  // Another incarnation of the task may have joined since.
  using Lost = std::function<void(const std::string& task, uint64_t incarnation,
                                  const Status& why)>;
  virtual void OnLost(Lost) {}
  virtual void Leave() {}

  // The task that sessions connect to by default: number 0 (else the first) of
  // "chief", "master" or "worker", or of the first job. The result is a target:
  // "grpc://host:port".
  Result<std::string> Master();
};

// The same text is a target for sessions (with "://", even if nothing follows
// it): they connect to Master().
Result<std::unique_ptr<ClusterResolver>> MakeClusterResolver(
    std::string_view source, ResolverOptions options = {});

// ---- For implementations ----------------------------------------------------

using EnvironmentReader =
    std::function<std::optional<std::string>(const std::string&)>;

// What the environment describes: all tasks, this process's task, and its Bind.
struct EnvironmentCluster {
  ClusterSpec cluster;
  ClusterTask self;
  std::string bind;
};
Result<EnvironmentCluster> ClusterFromSlurm(
    const ClusterSource& source, const EnvironmentReader& environment);
Result<EnvironmentCluster> ClusterFromMpi(const ClusterSource& source,
                                          const EnvironmentReader& environment);
Result<EnvironmentCluster> ClusterFromKubernetes(
    const ClusterSource& source, const EnvironmentReader& environment);
struct EtcdOptions;
Result<EtcdOptions> EtcdOptionsOf(const ClusterSource& source);
Result<std::unique_ptr<ClusterResolver>> MakeEtcdResolver(
    const ClusterSource& source, const ResolverOptions& options);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_MEMBERSHIP_CLUSTER_RESOLVER_H_
