// Server: one task of a cluster.
//
//   SLUICE_ASSIGN_OR_RETURN(ClusterSpec cluster,
//   ClusterSpec::Load("cluster.json")); ServerOptions options; options.cluster
//   = cluster; options.job = "worker"; SLUICE_ASSIGN_OR_RETURN(auto server,
//   Server::Start(options)); Session session(server->target(), graph);
#ifndef SLUICE_DIST_SERVER_H_
#define SLUICE_DIST_SERVER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "dist/cluster.h"
#include "dist/master.h"
#include "dist/stubs.h"
#include "dist/transport.h"
#include "dist/worker.h"

namespace sluice {

// Files in PEM format; all three or none. With them every connection is
// encrypted, and both sides show a certificate that the authority has signed.
struct ServerTls {
  std::string authority, certificate, key;
  // The name that certificates bear, if it is not their host's.
  std::string server_name;
};

struct ServerOptions {
  ClusterSpec cluster;
  // For clusters whose tasks come and go: those that a session that begins now
  // is over, for which it may wait; or, if they need not be complete, those
  // that are there now. May be called on several threads. Null: `cluster`.
  std::function<Result<ClusterSpec>(bool complete)> members;
  std::string job;
  int task = 0;
  int cpu_devices = 1;
  // Further devices, made with the task's name. May be null.
  std::function<Status(const DeviceName& task,
                       std::vector<std::unique_ptr<Device>>*)>
      more_devices;
  // Where to listen instead of the address in the cluster: "host:port", port 0
  // for a free one. "": the address of the cluster.
  std::string bind;
  ServerTls tls;
  // Without TLS only this machine may connect, unless this is set.
  bool plain_beyond_loopback = false;
  // Of the data plane: "grpc" or "ucx".
  std::string transport = "grpc";
  // With gRPC: large tensors go to tasks of this machine and user by memory
  // that is shared, unless there is TLS.
  bool shared_memory = true;
  // A task that was not heard of for so long is lost.
  std::chrono::milliseconds peer_timeout{5000};
  // How long a session's beginning waits for all tasks to be up.
  std::chrono::milliseconds connect_timeout{20000};
  StepLimits limits;
  // Of one message: a client's graph, the feeds of a step, a frame of tokens
  // (but for large tensors, which go in pieces). Larger ones are refused.
  int64_t max_message_bytes = INT32_MAX;
  // Kinds of steps (feeds, fetches, targets) that are kept compiled for each
  // session; the one that was run longest ago makes place, and is compiled
  // again when it is run again.
  size_t prepared_steps = 1024;
  // Connections that are open at a time, in all and from one address. 0: 4096,
  // or fewer if the process may not open as many files; and half of them.
  size_t max_connections = 0;
  size_t max_connections_per_peer = 0;
  // Clients' sessions at a time, in all and from one address (0: half). Of
  // those that other tasks open here there may be as many as in all.
  size_t max_sessions = 4096;
  size_t max_sessions_per_peer = 0;
  // Whether sessions may run ops here that reach the files, functions or
  // environment of this process (OpDef::host_reach).
  bool allow_host_access = false;
  // Whether clients may reset the default container, or all at once.
  bool allow_reset = false;
};

// Where masters and clients of other processes reach a server. Owned by it.
class ServerListener {
 public:
  virtual ~ServerListener() = default;
  // Calls go to these two, which outlive it.
  virtual Status Start(Master* master, Worker* worker) = 0;
  // Waits for calls that run; they end soon.
  virtual void Stop() = 0;
  // For Session: "grpc://host:port". After Start.
  virtual std::string target() const = 0;
};

// The parts that differ between a task of a real cluster and one of a test.
struct ServerParts {
  std::unique_ptr<Transport> transport;
  WorkerConnector connect;
  std::unique_ptr<ServerListener> listener;  // May be null.
  // How clients of this process reach it: "inproc://NAME". "" if they do not.
  std::string name;
};

// Owns the worker, the master and the transport of a task, and takes what the
// transport brings to them. Thread-safe.
class Server : private TransportHandler {
 public:
  // On the network, with gRPC (dist/grpc_server.cc).
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options);
  // Of parts given; the other tasks are reached as they say.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                               ServerParts parts);
  ~Server() override;  // Stops.

  // Sessions end, running steps with Cancelled; peers see the task as lost.
  void Stop();

  const std::string& target() const { return target_; }
  Worker& worker() { return *worker_; }
  Master& master() { return *master_; }
  Transport& transport() { return *transport_; }

 private:
  Server() = default;
  void OnTokens(PeerId from, uint64_t step, uint32_t partition,
                std::span<TokenMessage> batch) override;
  void OnControl(PeerId from, uint8_t kind, std::string_view bytes) override;
  void OnPeerLost(PeerId peer, const Status& why) override;
  void StartStep(PeerId from, const proto::StepStart& start);
  // Of the bytes that the step may print `left` are left.
  void SendLog(PeerId to, uint64_t run, const std::string& text);
  void SendDone(PeerId to, uint64_t run, StepOutcome outcome);

  std::atomic<bool> stopping_{false};
  std::string name_;
  std::string target_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<ServerListener> listener_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Master> master_;
};

// The server at "grpc://host:port", as its clients call it, with the TLS files
// that the environment names. Does not wait for it: the first call does.
Result<std::unique_ptr<MasterStub>> ConnectMaster(const std::string& target);
// The server of this process with that name, as its clients call it.
// Unavailable if there is none.
Result<std::unique_ptr<MasterStub>> ConnectInProcess(const std::string& name);
// The same for masters, by the name that a server was given.
Result<std::unique_ptr<WorkerStub>> ConnectWorkerInProcess(
    const std::string& name);

}  // namespace sluice

#endif  // SLUICE_DIST_SERVER_H_
