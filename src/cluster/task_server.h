// TaskServer: runs one task of a cluster inside any program, as `sluice worker`
// does.
//
//   TaskServerOptions options;
//   options.cluster = "cluster.json";
//   options.job = "worker";
//   SLUICE_ASSIGN_OR_RETURN(auto task, TaskServer::Start(options));
//   Session session(task->target(), graph);
#ifndef SLUICE_CLUSTER_TASK_SERVER_H_
#define SLUICE_CLUSTER_TASK_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace sluice {

struct TaskServerOptions {
  std::string cluster = {};  // A file, or another source (docs/clusters.md).
  std::string job = {};      // "": from the environment.
  int task = 0;
  std::string bind = {};     // With etcd, port 0 is any free port.
  std::string address = {};  // Published in etcd, if not `bind`.
  // The number of devices of each type and the properties of emulated ones, for
  // example "cpu=2,emu=8(memory=1G,kernel_us=20)".
  std::string devices = "cpu=1";
  std::string transport = "grpc";  // The data plane; or "ucx".
  bool no_shared_memory = false;   // With gRPC, within a machine.
  int64_t peer_timeout_ms = 5000;  // A task silent for this long is lost.
  int64_t step_timeout_ms = 0;     // Of steps without their own; 0: none.
  int64_t max_message_mb = 2048;   // Larger ones are refused.
  // PEM files; all or none.
  std::string tls_authority = {}, tls_certificate = {}, tls_key = {};
  bool plain_beyond_loopback = false;
  // Limits on open connections and clients' sessions; 0: the defaults of
  // ServerOptions.
  int64_t max_connections = 0, max_connections_per_peer = 0;
  int64_t max_sessions = 0, max_sessions_per_peer = 0;
  // What sessions may do beyond running steps on their own data and on the
  // contents of containers (docs/clusters.md).
  bool allow_host_access = false;
  bool allow_reset = false;
  // "host:port" for Prometheus and health checks over HTTP (docs/clusters.md);
  // "": none.
  std::string metrics = {};
  // For `sluice worker`: how long SIGTERM waits for running steps to end.
  double drain_seconds = 10;
};

// Owns the task's master, worker and devices, and its place in the cluster.
// Runs on its own threads until it is stopped or destroyed. Thread-safe.
class TaskServer {
 public:
  // InvalidArgument and similar errors report invalid options, Unavailable a
  // missing service. `evicted` is called on some thread when another process
  // has taken the task's place (etcd); it must not stop the task from that
  // call.
  static Result<std::unique_ptr<TaskServer>> Start(
      const TaskServerOptions& options,
      std::function<void(const Status&)> evicted = nullptr);
  ~TaskServer();  // Stops.
  TaskServer(const TaskServer&) = delete;
  TaskServer& operator=(const TaskServer&) = delete;

  std::string task() const;  // "/job:worker/replica:0/task:1"
  // For Session: "grpc://host:port". Sessions of this process call the task
  // directly; their steps need no messages between client and task.
  std::string target() const;
  std::string metrics() const;  // Where it serves them: "host:port", or "".
  // From now on, new sessions and steps get Unavailable, while those that run
  // go on. For the time before Stop: idle() says when none runs any more.
  void Drain();
  bool idle() const;
  // Gives up the place in the cluster, ends all sessions and cancels their
  // steps. Call it once and not concurrently with other methods.
  void Stop();

 private:
  struct State;
  explicit TaskServer(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TASK_SERVER_H_
