#include "cluster/local_cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/server.h"

namespace sluice {
namespace {

// A port that had no listener a moment ago. 0 if there is none.
int FreePort() {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  if (s < 0) return 0;
  sockaddr_in a = {};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(a);
  int port = 0;
  if (bind(s, reinterpret_cast<sockaddr*>(&a), size) == 0 &&
      getsockname(s, reinterpret_cast<sockaddr*>(&a), &size) == 0)
    port = ntohs(a.sin_port);
  close(s);
  return port;
}

}  // namespace

LocalCluster::LocalCluster() = default;
LocalCluster::~LocalCluster() = default;

Result<std::unique_ptr<LocalCluster>> LocalCluster::Start(
    const std::vector<std::pair<std::string, int>>& jobs,
    const std::string& transport, bool allow_host_access) {
  if (jobs.empty())
    return InvalidArgument("cluster: expected at least one job, got none");
  // (Each task needs a port and threads of this process.)
  constexpr int kMaxTasks = 1024;
  for (const auto& [job, tasks] : jobs)
    if (tasks < 1 || tasks > kMaxTasks)
      return InvalidArgument("cluster: job '", job, "': expected 1 to ",
                             kMaxTasks, " tasks, got ", tasks);
  Status last;
  // (Another process may take a port before its task does.)
  for (int attempt = 0; attempt < 3; ++attempt) {
    ServerOptions options;
    options.transport = transport;
    options.allow_host_access = allow_host_access;
    options.allow_reset = true;  // (The program owns the cluster.)
    for (const auto& [job, tasks] : jobs)
      for (int i = 0; i < tasks; ++i)
        SLUICE_RETURN_IF_ERROR(options.cluster.Add(
            job, i, absl::StrCat("127.0.0.1:", FreePort())));
    std::unique_ptr<LocalCluster> cluster(new LocalCluster);
    for (const ClusterTask& t : options.cluster.tasks()) {
      options.job = t.job;
      options.task = t.task;
      Result<std::unique_ptr<Server>> server = Server::Start(options);
      last = server.status();
      if (!last.ok()) break;
      cluster->servers_[{t.job, t.task}] = *std::move(server);
    }
    if (last.ok()) return cluster;
    if (last.code() != StatusCode::kUnavailable) break;
  }
  return last;
}

std::string LocalCluster::target(const std::string& job, int task) const {
  const auto it = servers_.find({job, task});
  return it == servers_.end() ? "" : it->second->target();
}

}  // namespace sluice
