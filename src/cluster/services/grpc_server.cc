// Servers on the network and sessions that connect to them: "grpc://host:port".
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "cluster/remote_session.h"
#include "cluster/server.h"
#include "cluster/services/grpc_services.h"
#include "cluster/transport/grpc/credentials.h"
#include "cluster/transport/grpc/transport.h"
#include "cluster/transport/ucx/transport.h"
#include "exec/core/cancellation.h"

namespace sluice {
namespace {

constexpr char kScheme[] = "grpc://";
// A client may take some time to call Attend after CreateSession returns.
constexpr int kAttendPatience = 4;  // In peer timeouts.

TlsFiles FilesOf(const ServerTls& tls) {
  TlsFiles files;
  files.authority = tls.authority;
  files.certificate = tls.certificate;
  files.key = tls.key;
  files.server_name = tls.server_name;
  return files;
}

// One port shared by clients, masters and the data plane.
class GrpcListener final : public ServerListener {
 public:
  // Stop cancels `ending`.
  GrpcListener(std::unique_ptr<GrpcPort> port, std::string address,
               std::chrono::milliseconds patience,
               std::shared_ptr<Cancellation> ending)
      : port_(std::move(port)),
        address_(std::move(address)),
        patience_(patience),
        ending_(std::move(ending)) {}
  ~GrpcListener() override { Stop(); }

  Status Start(Master* master, Worker* worker) override {
    services_ = std::make_unique<ControlServices>(
        master, worker, PublicAddress(address_, *port_), patience_);
    services_->Register(port_.get());
    port_->Serve();
    return OkStatus();
  }
  void Stop() override {
    if (services_ != nullptr) services_->Stop();
    ending_->Cancel();
    port_->Stop();
    services_.reset();  // Waits for its threads, which may use the master.
  }
  bool HasUnsent() const override {
    return services_ != nullptr && services_->HasUnsent();
  }
  std::string target() const override { return kScheme + address_; }

 private:
  const std::unique_ptr<GrpcPort> port_;
  const std::string address_;
  const std::chrono::milliseconds patience_;
  const std::shared_ptr<Cancellation> ending_;
  std::unique_ptr<ControlServices> services_;
};

Result<std::shared_ptr<grpc::Channel>> Connect(
    const std::string& address, const TlsFiles& tls,
    std::chrono::milliseconds peer_timeout) {
  SLUICE_ASSIGN_OR_RETURN(const auto credentials, MakeChannelCredentials(tls));
  return grpc::CreateCustomChannel(BestAddress(address, tls), credentials,
                                   ControlChannelArguments(tls, peer_timeout));
}

// A task's connections to the workers of other tasks, one for each, shared by
// its sessions. Thread-safe.
class WorkerChannels {
 public:
  WorkerChannels(TlsFiles tls, std::chrono::milliseconds peer_timeout)
      : tls_(std::move(tls)), peer_timeout_(peer_timeout) {}

  Result<std::shared_ptr<grpc::Channel>> To(const std::string& address) {
    std::lock_guard<std::mutex> lock(mu_);
    if (auto channel = channels_[address].lock()) return channel;
    SLUICE_ASSIGN_OR_RETURN(auto channel,
                            Connect(address, tls_, peer_timeout_));
    channels_[address] = channel;
    std::erase_if(channels_, [](const auto& c) { return c.second.expired(); });
    return channel;
  }

 private:
  const TlsFiles tls_;
  const std::chrono::milliseconds peer_timeout_;
  std::mutex mu_;
  std::map<std::string, std::weak_ptr<grpc::Channel>>
      channels_;  // GUARDED_BY(mu_)
};

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

const SessionBackendRegistration over_grpc(
    "grpc",
    [](const std::string& target, const SessionOptions& options)
        -> Result<std::unique_ptr<SessionBackend>> {
      // (A server that stops meanwhile is Unavailable, as over the network.)
      SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<MasterStub> master,
                              HasServerInProcess(target)
                                  ? ConnectInProcess(target)
                                  : ConnectMaster(target));
      return OpenRemoteSession(std::move(master), options);
    });

}  // namespace

Result<std::unique_ptr<MasterStub>> ConnectMaster(const std::string& target) {
  if (target.rfind(kScheme, 0) != 0 ||
      !IsHostPort(target.substr(sizeof(kScheme) - 1)))
    return InvalidArgument("target: expected ", kScheme, "host:port, got '",
                           target, "'");
  TlsFiles tls;
  tls.authority = Environment("SLUICE_TLS_AUTHORITY");
  tls.certificate = Environment("SLUICE_TLS_CERTIFICATE");
  tls.key = Environment("SLUICE_TLS_KEY");
  tls.server_name = Environment("SLUICE_TLS_SERVER_NAME");
  const ServerOptions usual;
  SLUICE_ASSIGN_OR_RETURN(
      auto channel,
      Connect(target.substr(sizeof(kScheme) - 1), tls, usual.peer_timeout));
  // (Captures no channel: the session's first one is closed when another
  // replaces it.)
  auto connect = [tls](const std::string& address,
                       std::chrono::milliseconds peer_timeout)
      -> std::shared_ptr<grpc::Channel> {
    const auto better = Connect(
        address, tls,
        peer_timeout.count() > 0 ? peer_timeout : ServerOptions().peer_timeout);
    return better.ok() ? *better : nullptr;
  };
  return MakeGrpcMasterStub(std::move(channel), connect, target,
                            usual.connect_timeout);
}

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const ClusterTask self,
                          options.cluster.Find(options.job, options.task));
  const TlsFiles tls = FilesOf(options.tls);
  ServerParts parts;
  GrpcPortOptions listen;
  listen.listen = options.bind.empty() ? self.address : options.bind;
  listen.tls = tls;
  listen.plain_beyond_loopback = options.plain_beyond_loopback;
  listen.peer_timeout = options.peer_timeout;
  listen.max_message_bytes = options.max_message_bytes;
  listen.connections.total = options.max_connections;
  listen.connections.per_peer = options.max_connections_per_peer;
  auto port = std::make_unique<GrpcPort>();
  SLUICE_RETURN_IF_ERROR(
      Annotate(port->Open(listen), absl::StrCat("task ", self.name())));
  if (options.transport == "grpc") {
    GrpcTransportOptions data;
    data.task = self.name();
    data.peer_timeout = options.peer_timeout;
    data.port = port.get();
    data.advertise = self.address;
    data.tls = tls;
    data.shared_memory = options.shared_memory;
    parts.transport = std::make_unique<GrpcTransport>(std::move(data));
  } else if (options.transport == "ucx") {
    if (!HaveUcx())
      return Unimplemented(
          "transport: expected 'grpc', got 'ucx', which this "
          "build is without");
    if (tls.enabled())
      return InvalidArgument(
          "transport: expected 'grpc', which is encrypted, with TLS, got "
          "'ucx'");
    UcxTransportOptions data;
    data.task = self.name();
    data.peer_timeout = options.peer_timeout;
    if (options.plain_beyond_loopback) data.devices = "all";
    parts.transport = MakeUcxTransport(std::move(data));
  } else {
    return InvalidArgument("transport: expected 'grpc' or 'ucx', got '",
                           options.transport, "'");
  }
  const auto ending = std::make_shared<Cancellation>();
  parts.listener = std::make_unique<GrpcListener>(
      std::move(port), self.address, kAttendPatience * options.peer_timeout,
      ending);
  parts.connect =
      [ending, patience = options.connect_timeout,
       channels = std::make_shared<WorkerChannels>(tls, options.peer_timeout)](
          const ClusterTask& other) -> Result<std::unique_ptr<WorkerStub>> {
    SLUICE_ASSIGN_OR_RETURN(auto channel, channels->To(other.address));
    return MakeGrpcWorkerStub(channel, patience, ending);
  };
  return Start(options, std::move(parts));
}

}  // namespace sluice
