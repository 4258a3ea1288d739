// Where a process learns which cluster it is in: from a file, from etcd, or
// from what Slurm, MPI or Kubernetes put into its environment
// (docs/clusters.md).
#ifndef SLUICE_DIST_CLUSTER_RESOLVER_H_
#define SLUICE_DIST_CLUSTER_RESOLVER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dist/cluster.h"

namespace sluice {

// Where to look, as it is written: "etcd://host:2379/name?ps=2&worker=4",
// "slurm", "mpi?hostfile=hosts.txt", "kubernetes?worker=4", "cluster.json",
// "file:///etc/cluster.json", or what such a file holds. Plain value.
struct ClusterSource {
  // "file", "json", "etcd", "slurm", "mpi", "kubernetes".
  std::string scheme;
  // A path; JSON; or what stands between "etcd://" and '?'.
  std::string rest;
  std::vector<std::pair<std::string, std::string>> options;  // Not of files.

  // InvalidArgument for an option that the scheme does not have.
  static Result<ClusterSource> Parse(std::string_view text);
  // "" if it is not there.
  std::string Option(const std::string& name) const;
  // Options that are no setting are jobs, and how many tasks they have.
  Result<std::vector<std::pair<std::string, int>>> Jobs() const;
};

struct ResolverOptions {
  // Which task this is, where the environment does not say so (files, etcd), or
  // in spite of it. "": as the environment says; a client is none.
  std::string job;
  int task = 0;
  // Of this task, to be told to the others: for etcd. "host:port".
  std::string address;
  // How long Cluster() waits for tasks to come.
  std::chrono::milliseconds patience{20000};
  // Null: getenv.
  std::function<std::optional<std::string>(const std::string&)> environment;
};

// Of one process. Thread-safe.
class ClusterResolver {
 public:
  virtual ~ClusterResolver() = default;
  // The tasks that there are: each call looks anew, where they come and go, and
  // may wait.
  virtual Result<ClusterSpec> Cluster() = 0;
  // Those that are there now, without waiting.
  virtual Result<ClusterSpec> Present() { return Cluster(); }
  // This process's task. FailedPrecondition if it is none.
  virtual Result<ClusterTask> Self() = 0;
  // Where it listens if that is not its address; else "".
  virtual std::string Bind() { return ""; }
  // Whether tasks come and go: then Cluster() is right only when it is asked.
  virtual bool changes() const { return false; }

  // Of tasks that come and go; for others nothing happens here.
  // Tells the others that this task runs now. `evicted`: it has lost its place.
  virtual Status Join(uint64_t /*incarnation*/,
                      std::function<void(const Status&)> /*evicted*/) {
    return OkStatus();
  }
  // Calls `lost` for tasks that are gone, from some thread, until Leave.
  // Another incarnation may have come since.
  using Lost = std::function<void(const std::string& task, uint64_t incarnation,
                                  const Status& why)>;
  virtual void OnLost(Lost) {}
  virtual void Leave() {}

  // The task that sessions connect to if nobody says more: number 0 (else the
  // first) of "chief", "master" or "worker", or of the first job. As a target:
  // "grpc://host:port".
  Result<std::string> Master();
};

// For sessions the same text is a target (with "://" even where nothing
// follows): they connect to Master().
Result<std::unique_ptr<ClusterResolver>> MakeClusterResolver(
    std::string_view source, ResolverOptions options = {});

// ---- For what implements one ------------------------------------------------

using EnvironmentReader =
    std::function<std::optional<std::string>(const std::string&)>;

// What an environment says: all tasks, which of them this is, and its Bind.
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
Result<std::unique_ptr<ClusterResolver>> MakeEtcdResolver(
    const ClusterSource& source, const ResolverOptions& options);

}  // namespace sluice

#endif  // SLUICE_DIST_CLUSTER_RESOLVER_H_
