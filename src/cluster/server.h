// Server: one task of a cluster.
//
//   SLUICE_ASSIGN_OR_RETURN(ClusterSpec cluster,
//                           ClusterSpec::Load("cluster.json"));
//   ServerOptions options;
//   options.cluster = cluster;
//   options.job = "worker";
//   SLUICE_ASSIGN_OR_RETURN(auto server, Server::Start(options));
//   Session session(server->target(), graph);
#ifndef SLUICE_CLUSTER_SERVER_H_
#define SLUICE_CLUSTER_SERVER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "cluster/common/cluster.h"
#include "cluster/common/stubs.h"
#include "cluster/master/master.h"
#include "cluster/transport/transport.h"
#include "cluster/worker/worker.h"

namespace sluice {

// Files in PEM format; all three or none. If set, connections are encrypted and
// both sides must present a certificate signed by the authority.
struct ServerTls {
  std::string authority, certificate, key;
  // The name in the certificates, if it is not the host name.
  std::string server_name;
};

struct ServerOptions {
  ClusterSpec cluster;
  // For clusters whose membership changes: waits for the expected tasks that
  // match, and returns all that are there; a null filter waits for none. May be
  // called concurrently. Null: `cluster`.
  std::function<Result<ClusterSpec>(const TaskFilter& wait_for)> members;
  std::string job;
  int task = 0;
  int cpu_devices = 1;
  // Makes further devices, given the task's name. May be null.
  std::function<Status(const DeviceName& task,
                       std::vector<std::unique_ptr<Device>>*)>
      more_devices;
  // The address to listen on, "host:port", port 0 for any free port. "": the
  // task's address in the cluster.
  std::string bind;
  ServerTls tls;
  // Without TLS only this machine may connect, unless this is set.
  bool plain_beyond_loopback = false;
  // The data plane: "grpc" or "ucx".
  std::string transport = "grpc";
  // With gRPC and without TLS: send large tensors through shared memory to
  // tasks of the same machine and user.
  bool shared_memory = true;
  // A task that is silent for this long is lost.
  std::chrono::milliseconds peer_timeout{5000};
  // How long opening a session waits for all tasks to be up.
  std::chrono::milliseconds connect_timeout{20000};
  // Of steps of this server's sessions that have none of their own; 0: none.
  std::chrono::milliseconds step_timeout{0};
  StepLimits limits;
  // The limit of one message: a client's graph, the feeds of a step, a frame of
  // tokens (except large tensors, which are sent in pieces). Larger ones are
  // refused.
  int64_t max_message_bytes = INT32_MAX;
  // The number of step signatures (feeds, fetches, targets) kept compiled per
  // session. The least recently run one is evicted, and is compiled again when
  // it is next run.
  size_t prepared_steps = 1024;
  // Limits on open connections, in total and from one address. 0: 4096, or
  // fewer if the process may not open that many files; and half of the total.
  size_t max_connections = 0;
  size_t max_connections_per_peer = 0;
  // Limits on clients' open sessions, in total and from one address (0: half).
  // The total also limits the sessions that other tasks open here.
  size_t max_sessions = 4096;
  size_t max_sessions_per_peer = 0;
  // Whether sessions may run ops here that access the files, functions or
  // environment of this process (OpDef::host_reach).
  bool allow_host_access = false;
  // Whether clients may reset the default container or all containers.
  bool allow_reset = false;
  // Whether sessions that this process opens with the server's target call it
  // directly, not over the network.
  bool direct_clients = false;
};

// Receives calls from masters and clients in other processes. Owned by the
// server.
class ServerListener {
 public:
  virtual ~ServerListener() = default;
  // Passes calls to these two, which outlive it.
  virtual Status Start(Master* master, Worker* worker) = 0;
  // Waits for running calls, which end soon.
  virtual void Stop() = 0;
  // Answers to clients wait to be sent.
  virtual bool HasUnsent() const = 0;
  // For Session: "grpc://host:port". Valid after Start.
  virtual std::string target() const = 0;
};

// The parts that differ between a real cluster and a test.
struct ServerParts {
  std::unique_ptr<Transport> transport;
  WorkerConnector connect;
  std::unique_ptr<ServerListener> listener;  // May be null.
  // The name for clients in this process, "inproc://NAME"; "" for none.
  std::string name;
};

// Owns the worker, the master and the transport of a task, and dispatches the
// transport's messages to the first two. Thread-safe.
class Server : private TransportHandler {
 public:
  // On the network, with gRPC (cluster/services/grpc_server.cc).
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options);
  // With the given parts, which also determine how to reach the other tasks.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                               ServerParts parts);
  ~Server() override;  // Stops.

  // Ends all sessions; running steps return Cancelled, and peers see the task
  // as lost.
  void Stop();

  // From now on, new sessions and steps get Unavailable, while those that run
  // go on; then idle() says when no step runs any more and their results are
  // on their way. For the time before Stop.
  void Drain();
  bool idle() const;

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
  // Sends printed text of a run to its master.
  void AnswerProbe(PeerId from, const proto::StepProbe& probe);
  void SendLog(PeerId to, uint64_t run, const std::string& text);
  void SendDone(PeerId to, uint64_t run, StepOutcome outcome);

  std::atomic<bool> stopping_{false};
  std::string target_;
  bool has_door_ = false;  // Clients in this process call it by its target.
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<ServerListener> listener_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Master> master_;
};

// Connects to the server at "grpc://host:port", with the TLS files that the
// environment names. Does not wait for the server: the first call does.
Result<std::unique_ptr<MasterStub>> ConnectMaster(const std::string& target);
// Targets of servers with ServerParts::name.
inline constexpr char kInProcessScheme[] = "inproc://";

// Connects to the server with this target in this process: "inproc://NAME", or
// "grpc://host:port" if it accepts direct clients. Unavailable if there is
// none.
Result<std::unique_ptr<MasterStub>> ConnectInProcess(const std::string& target);
// Whether there is one.
bool HasServerInProcess(const std::string& target);
// The same for masters that call a worker; `name` is ServerParts::name.
Result<std::unique_ptr<WorkerStub>> ConnectWorkerInProcess(
    const std::string& name);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_SERVER_H_
