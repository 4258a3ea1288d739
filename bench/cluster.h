// A cluster on this machine, with each task in a separate process.
#ifndef SLUICE_BENCH_CLUSTER_H_
#define SLUICE_BENCH_CLUSTER_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sluice::bench {

// A port that was free a moment ago.
inline int FreePort() {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
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

// `sluice worker` processes on loopback, for jobs with their numbers of tasks;
// but those of the jobs in `elsewhere` are left to the caller. The destructor
// ends them.
class Cluster {
 public:
  static Result<std::unique_ptr<Cluster>> Start(
      const std::vector<std::pair<std::string, int>>& jobs,
      const std::string& transport, int peer_timeout_ms = 60'000,
      const std::set<std::string>& elsewhere = {}) {
    std::unique_ptr<Cluster> c(new Cluster(transport, peer_timeout_ms));
    char path[] = "/tmp/sluice-bench-XXXXXX";
    const int fd = mkstemp(path);
    if (fd < 0)
      return Unavailable("bench: expected a temporary file, got none");
    close(fd);
    c->file_ = path;
    std::string spec;
    std::set<int> ports;
    for (const auto& [job, tasks] : jobs) {
      absl::StrAppend(&spec, spec.empty() ? "{" : "], ", "\"", job, "\": [");
      for (int i = 0; i < tasks; ++i) {
        int port = FreePort();
        while (port != 0 && !ports.insert(port).second) port = FreePort();
        const std::string address = "127.0.0.1:" + std::to_string(port);
        c->targets_[{job, i}] = "grpc://" + address;
        absl::StrAppend(&spec, i > 0 ? ", " : "", "\"", address, "\"");
      }
    }
    std::ofstream(c->file_) << spec << "]}\n";
    for (const auto& [where, target] : c->targets_)
      if (elsewhere.count(where.first) == 0)
        SLUICE_RETURN_IF_ERROR(c->Spawn(where.first, where.second));
    return c;
  }
  ~Cluster() {
    for (const auto& [where, p] : pids_) kill(p, SIGKILL);
    for (const auto& [where, p] : pids_) waitpid(p, nullptr, 0);
    unlink(file_.c_str());
  }
  // Kills a task and starts it again.
  Status Restart(const std::string& job, int task) {
    const pid_t p = pids_.at({job, task});
    kill(p, SIGKILL);
    waitpid(p, nullptr, 0);
    return Spawn(job, task);
  }
  // The file that describes it.
  const std::string& file() const { return file_; }
  const std::string& target(const std::string& job, int task) const {
    return targets_.at({job, task});
  }

 private:
  // (With far more processes than cores, one may wait long to be scheduled:
  // hence the long timeout by default.)
  Cluster(std::string transport, int peer_timeout_ms)
      : transport_(std::move(transport)),
        peer_timeout_ms_(std::to_string(peer_timeout_ms)) {}

  Status Spawn(const std::string& job, int task) {
    const std::string number = std::to_string(task);
    const pid_t pid = fork();
    if (pid < 0) return Unavailable("bench: fork failed");
    if (pid == 0) {
      const int null = open("/dev/null", O_WRONLY);
      dup2(null, 1);
      dup2(null, 2);
      execl("/proc/self/exe", "sluice", "worker", "--cluster", file_.c_str(),
            "--job", job.c_str(), "--task", number.c_str(), "--transport",
            transport_.c_str(), "--peer-timeout-ms", peer_timeout_ms_.c_str(),
            "--allow-host-access", nullptr);
      _exit(127);
    }
    pids_[{job, task}] = pid;
    return OkStatus();
  }

  const std::string transport_, peer_timeout_ms_;
  std::string file_;
  std::map<std::pair<std::string, int>, std::string> targets_;
  std::map<std::pair<std::string, int>, pid_t> pids_;
};

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_CLUSTER_H_
