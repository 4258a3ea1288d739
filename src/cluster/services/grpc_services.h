// The control plane over gRPC: the services of a task and the stubs to call
// those of other tasks (cluster/proto/cluster.proto).
#ifndef SLUICE_CLUSTER_SERVICES_GRPC_SERVICES_H_
#define SLUICE_CLUSTER_SERVICES_GRPC_SERVICES_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "cluster/common/stubs.h"
#include "cluster/common/task_threads.h"
#include "cluster/transport/grpc/port.h"

namespace sluice {

class Cancellation;
class Master;
class Worker;

// The services of a task. Has the same owner as the port, and is destroyed
// after the port has stopped. A call that may block runs on its own thread;
// steps run on the port's. Thread-safe.
class ControlServices {
 public:
  // `master` and `worker` outlive the port's Stop. `steps_address` is sent in
  // CreateSessionResponse. A client that creates a session and does not call
  // Attend within `patience`, or disconnects before that, is considered dead.
  ControlServices(Master* master, Worker* worker, std::string steps_address,
                  std::chrono::milliseconds patience);
  ~ControlServices();

  // Called before the port serves.
  void Register(GrpcPort* port);
  // Ends all calls; the ones that still run here have been answered. Called
  // before the port stops.
  void Stop();
  // Answers to clients' steps wait to be sent.
  bool HasUnsent();

 private:
  class OpenCall;
  class StepsCall;
  class UnaryCall;
  // Arguments: the peer (gRPC's name of the connection), request and response.
  using Method = std::function<Status(const std::string&, grpc::ByteBuffer*,
                                      grpc::ByteBuffer*)>;
  // A session without a client yet.
  struct Unattended {
    std::chrono::steady_clock::time_point until;
    std::string peer;  // The connection that created it; "": unknown.
  };
  template <typename Request, typename Response, typename Fn>
  void Add(const std::string& name, Fn fn);
  // gRPC's health protocol. (Its own service would poll on other threads, which
  // would slow down steps: see GrpcPort.)
  void AddHealth();
  void Await(uint64_t session, const std::string& peer);
  void Attended(uint64_t session);
  TaskThreads& ThreadsOf(const std::string& method);
  void Open(const std::shared_ptr<OpenCall>& call);
  void Forget(const std::shared_ptr<OpenCall>& call);
  // Closes sessions without a client, until none are left.
  void WatchUnattended();

  static constexpr size_t kMaxThreads = 32, kMaxOpeningThreads = 256;

  Master* const master_;
  const std::string steps_address_;
  const std::chrono::milliseconds patience_;
  std::map<std::string, Method> methods_;  // Constant after construction.
  GrpcPort* port_ = nullptr;               // Constant after Register.
  std::mutex mu_;
  // The open calls.
  std::set<std::shared_ptr<OpenCall>> calls_;  // GUARDED_BY(mu_)
  bool stopped_ = false;                       // GUARDED_BY(mu_)
  std::map<uint64_t, Unattended> unattended_;  // GUARDED_BY(mu_)
  bool watching_ = false;                      // GUARDED_BY(mu_)
  std::condition_variable unattended_changed_;
  // Of calls that take as long as a step, or end one: one thread each. (The
  // tasks of the other pools use it, so it is destroyed after them.)
  TaskThreads threads_;
  // Many clients at once share a bounded number of threads. A call waits only
  // for calls to other tasks of pools further down: first those that may wait
  // long for a task that is missing; then those that call other tasks' workers;
  // then calls to this task's worker, which wait for nobody.
  TaskThreads opening_{kMaxOpeningThreads};
  TaskThreads control_{kMaxThreads};
  TaskThreads working_{kMaxThreads};
};

// The settings of all control channels: no limit on message size, and keepalive
// pings that detect a dead or suspended peer within `peer_timeout`.
grpc::ChannelArguments ControlChannelArguments(
    const TlsFiles& tls, std::chrono::milliseconds peer_timeout);

// GetStatus and CreateSession wait up to `connect_timeout` for the peer to be
// up. All waits end when `ending` (may be null) is cancelled.
std::unique_ptr<WorkerStub> MakeGrpcWorkerStub(
    std::shared_ptr<grpc::Channel> channel,
    std::chrono::milliseconds connect_timeout,
    std::shared_ptr<Cancellation> ending);
// `connect` makes a channel to the address that CreateSession returned, with
// this peer timeout (0: the default). Null: `channel` is used for everything.
std::unique_ptr<MasterStub> MakeGrpcMasterStub(
    std::shared_ptr<grpc::Channel> channel,
    std::function<std::shared_ptr<grpc::Channel>(const std::string&,
                                                 std::chrono::milliseconds)>
        connect,
    std::string target, std::chrono::milliseconds connect_timeout);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_SERVICES_GRPC_SERVICES_H_
