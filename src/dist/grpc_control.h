// The control plane over gRPC: the services of a task, and stubs for those of
// others (dist/proto/cluster.proto).
#ifndef SLUICE_DIST_GRPC_CONTROL_H_
#define SLUICE_DIST_GRPC_CONTROL_H_

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

#include "dist/grpc_port.h"
#include "dist/stubs.h"
#include "dist/task_threads.h"

namespace sluice {

class Cancellation;
class Master;
class Worker;

// The services of a task. Owned by whoever owns the port, and gone after it has
// stopped. A call that may block runs on a thread of its own, steps on the
// port's. Thread-safe.
class ControlServices {
 public:
  // Both outlive the port's Stop. `steps_address`: CreateSessionResponse's. A
  // client that has a session made and does not attend to it for `patience`, or
  // whose connection ends before it does, is taken for dead.
  ControlServices(Master* master, Worker* worker, std::string steps_address,
                  std::chrono::milliseconds patience);
  ~ControlServices();

  // Before the port serves.
  void Register(GrpcPort* port);
  // Ends all calls: those that still run here have been answered. Before the
  // port stops.
  void Stop();

 private:
  class OpenCall;
  class StepsCall;
  class UnaryCall;
  // Of the peer (gRPC's name of the connection), the request and the answer.
  using Method = std::function<Status(const std::string&, grpc::ByteBuffer*,
                                      grpc::ByteBuffer*)>;
  // A session without a client yet.
  struct Unattended {
    std::chrono::steady_clock::time_point until;
    std::string peer;  // Of the connection that made it. "": none to look at.
  };
  template <typename Request, typename Response, typename Fn>
  void Add(const std::string& name, Fn fn);
  void Await(uint64_t session, const std::string& peer);
  void Attended(uint64_t session);
  void Open(const std::shared_ptr<OpenCall>& call);
  void Forget(const std::shared_ptr<OpenCall>& call);
  // Closes the sessions that nobody attends to, until there are none.
  void WatchUnattended();

  Master* const master_;
  Worker* const worker_;
  const std::string steps_address_;
  const std::chrono::milliseconds patience_;
  std::map<std::string, Method> methods_;  // Constant after construction.
  GrpcPort* port_ = nullptr;               // Constant after Register.
  std::mutex mu_;
  // Those that are open.
  std::set<std::shared_ptr<OpenCall>> calls_;  // GUARDED_BY(mu_)
  bool stopped_ = false;                       // GUARDED_BY(mu_)
  std::map<uint64_t, Unattended> unattended_;  // GUARDED_BY(mu_)
  bool watching_ = false;                      // GUARDED_BY(mu_)
  std::condition_variable unattended_changed_;
  TaskThreads threads_;
};

// What all channels of a cluster's control have in common: messages of any
// size, and pings that find a peer that died or was stopped within
// `peer_timeout`.
grpc::ChannelArguments ControlChannelArguments(
    const TlsFiles& tls, std::chrono::milliseconds peer_timeout);

// Calls of GetStatus and CreateSession wait up to `connect_timeout` for the
// other to be up. None waits any more when `ending` (may be null) is cancelled.
std::unique_ptr<WorkerStub> MakeGrpcWorkerStub(
    std::shared_ptr<grpc::Channel> channel,
    std::chrono::milliseconds connect_timeout,
    std::shared_ptr<Cancellation> ending);
// `connect` makes a channel to an address that CreateSession said, whose peer
// may be silent for so long (0: as long as usual). Null: none can be made, and
// the first serves for all.
std::unique_ptr<MasterStub> MakeGrpcMasterStub(
    std::shared_ptr<grpc::Channel> channel,
    std::function<std::shared_ptr<grpc::Channel>(const std::string&,
                                                 std::chrono::milliseconds)>
        connect,
    std::string target, std::chrono::milliseconds connect_timeout);

}  // namespace sluice

#endif  // SLUICE_DIST_GRPC_CONTROL_H_
