// TaskServer: one task of a cluster in a program of its own making, as `sluice
// worker` runs it.
//
//   TaskServerOptions options;
//   options.cluster = "cluster.json";
//   options.job = "worker";
//   SLUICE_ASSIGN_OR_RETURN(auto task, TaskServer::Start(options));
//   Session session(task->target(), graph);
#ifndef SLUICE_DIST_TASK_SERVER_H_
#define SLUICE_DIST_TASK_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace sluice {

struct TaskServerOptions {
  std::string cluster = {};  // A file, or another source (docs/clusters.md).
  std::string job = {};      // "": the environment says.
  int task = 0;
  std::string bind = {};     // With etcd port 0 is any that is free.
  std::string address = {};  // Where others reach it, if not there; with etcd.
  // "cpu=2,emu=8(memory=1G,kernel_us=20)": how many of which type, and what the
  // emulated ones are like.
  std::string devices = "cpu=1";
  std::string transport = "grpc";  // Of tokens: or "ucx".
  bool no_shared_memory = false;   // With gRPC, within a machine.
  int64_t peer_timeout_ms = 5000;  // A task silent for so long is lost.
  int64_t max_message_mb = 2048;   // Larger ones are refused.
  // PEM files; all or none.
  std::string tls_authority = {}, tls_certificate = {}, tls_key = {};
  bool plain_beyond_loopback = false;
  // Of connections and clients' sessions at a time; 0: ServerOptions' own.
  int64_t max_connections = 0, max_connections_per_peer = 0;
  int64_t max_sessions = 0, max_sessions_per_peer = 0;
  // What sessions may do beside running steps on what they bring and what
  // lives in containers (docs/clusters.md).
  bool allow_host_access = false;
  bool allow_reset = false;
};

// Owns the task's master, worker and devices, and its place in the cluster.
// Runs until it is stopped or destroyed, on threads of its own. Thread-safe.
class TaskServer {
 public:
  // InvalidArgument and the like say what is wrong in the options, Unavailable
  // what is missing outside. `evicted`: told, on some thread, when another has
  // taken the task's place (etcd); it is not to stop the task there.
  static Result<std::unique_ptr<TaskServer>> Start(
      const TaskServerOptions& options,
      std::function<void(const Status&)> evicted = nullptr);
  ~TaskServer();  // Stops.
  TaskServer(const TaskServer&) = delete;
  TaskServer& operator=(const TaskServer&) = delete;

  std::string task() const;    // "/job:worker/replica:0/task:1"
  std::string target() const;  // For Session: "grpc://host:port".
  // Gives the place up; sessions end, what they run is cancelled. Once; not
  // beside other calls.
  void Stop();

 private:
  struct State;
  explicit TaskServer(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace sluice

#endif  // SLUICE_DIST_TASK_SERVER_H_
