// Servers on the network, and sessions that connect to them:
// "grpc://host:port".
#include <grpcpp/grpcpp.h>

#include <cstdlib>

#include "dist/grpc_control.h"
#include "dist/grpc_credentials.h"
#include "dist/grpc_transport.h"
#include "dist/remote_session.h"
#include "dist/server.h"
#include "dist/ucx_transport.h"

namespace sluice {
namespace {

constexpr char kScheme[] = "grpc://";

TlsFiles FilesOf(const ServerTls& tls) {
  TlsFiles files;
  files.authority = tls.authority;
  files.certificate = tls.certificate;
  files.key = tls.key;
  files.server_name = tls.server_name;
  return files;
}

// One port for clients, masters and the data plane.
class GrpcListener final : public ServerListener {
 public:
  GrpcListener(const ServerOptions& options, std::string address,
               GrpcTransport* transport)
      : options_(options),
        address_(std::move(address)),
        transport_(transport) {}
  ~GrpcListener() override { Stop(); }

  Status Start(Master* master, Worker* worker) override {
    const std::string& bind = options_.bind.empty() ? address_ : options_.bind;
    const TlsFiles tls = FilesOf(options_.tls);
    SLUICE_RETURN_IF_ERROR(
        CheckListenAddress(bind, tls, options_.plain_beyond_loopback));
    SLUICE_ASSIGN_OR_RETURN(const auto credentials, MakeServerCredentials(tls));
    master_service_ = MakeMasterService(master);
    worker_service_ = MakeWorkerService(worker);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(bind, credentials, &port);
    GrpcTransport::ConfigureServer(&builder);
    SetControlServerOptions(&builder, options_.peer_timeout);
    builder.RegisterService(master_service_.get());
    builder.RegisterService(worker_service_.get());
    if (transport_ != nullptr)
      builder.RegisterCallbackGenericService(transport_->service());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port <= 0)
      return Unavailable("task ", worker->task(),
                         ": expected an address to listen at, got '", bind,
                         "', which is taken or not of this machine");
    return OkStatus();
  }
  void Stop() override {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::milliseconds(500));
    server_->Wait();
    server_.reset();
  }
  std::string target() const override { return kScheme + address_; }

 private:
  const ServerOptions options_;
  const std::string address_;
  GrpcTransport* const transport_;  // Null if it is another.
  std::unique_ptr<grpc::Service> master_service_, worker_service_;
  std::unique_ptr<grpc::Server> server_;
};

Result<std::shared_ptr<grpc::Channel>> Connect(
    const std::string& address, const TlsFiles& tls,
    std::chrono::milliseconds peer_timeout) {
  SLUICE_ASSIGN_OR_RETURN(const auto credentials, MakeChannelCredentials(tls));
  grpc::ChannelArguments args = ControlChannelArguments(peer_timeout);
  if (!tls.server_name.empty()) args.SetSslTargetNameOverride(tls.server_name);
  return grpc::CreateCustomChannel(address, credentials, args);
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

const SessionBackendRegistration over_grpc(
    "grpc",
    [](const std::string& target, const SessionOptions& options)
        -> Result<std::unique_ptr<SessionBackend>> {
      TlsFiles tls;
      tls.authority = Environment("SLUICE_TLS_AUTHORITY");
      tls.certificate = Environment("SLUICE_TLS_CERTIFICATE");
      tls.key = Environment("SLUICE_TLS_KEY");
      tls.server_name = Environment("SLUICE_TLS_SERVER_NAME");
      const ServerOptions usual;
      SLUICE_ASSIGN_OR_RETURN(
          auto channel,
          Connect(target.substr(sizeof(kScheme) - 1), tls, usual.peer_timeout));
      return OpenRemoteSession(
          MakeGrpcMasterStub(channel, target, usual.connect_timeout), options);
    });

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const ClusterTask self,
                          options.cluster.Find(options.job, options.task));
  const TlsFiles tls = FilesOf(options.tls);
  ServerParts parts;
  GrpcTransport* over_grpc = nullptr;
  if (options.transport == "grpc") {
    GrpcTransportOptions data;
    data.task = self.name();
    data.peer_timeout = options.peer_timeout;
    data.listen = "";  // The listener's port.
    data.advertise = self.address;
    data.tls = tls;
    auto transport = std::make_unique<GrpcTransport>(std::move(data));
    over_grpc = transport.get();
    parts.transport = std::move(transport);
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
  parts.listener =
      std::make_unique<GrpcListener>(options, self.address, over_grpc);
  parts.connect =
      [tls, patience = options.connect_timeout, timeout = options.peer_timeout](
          const ClusterTask& other) -> Result<std::unique_ptr<WorkerStub>> {
    SLUICE_ASSIGN_OR_RETURN(auto channel, Connect(other.address, tls, timeout));
    return MakeGrpcWorkerStub(channel, patience);
  };
  return Start(options, std::move(parts));
}

}  // namespace sluice
