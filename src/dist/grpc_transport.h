// GrpcTransport: the data plane over streams of gRPC, plain or under TLS.
//
// There is one stream of messages each way between two tasks, the two of one
// call if only one of them connected. A message is a frame (dist/wire.h) or, by
// its first four bytes "SLC1", some more bytes of the bodies of the frames
// before it, in their order. So a large value goes in pieces between which
// small ones pass, is never copied on its way out, and once on its way in.
#ifndef SLUICE_DIST_GRPC_TRANSPORT_H_
#define SLUICE_DIST_GRPC_TRANSPORT_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "dist/grpc_credentials.h"
#include "dist/transport_base.h"

namespace sluice {

struct GrpcTransportOptions : TransportOptions {
  // "host:port", port 0 for any that is free. "": no server of its own; then
  // service() may be registered with another, or peers cannot connect to us.
  std::string listen = "127.0.0.1:0";
  // What address() says, if it is not what it listens at.
  std::string advertise;
  TlsFiles tls;
  bool plain_beyond_loopback = false;
};

class GrpcStream;

class GrpcTransport final : public TransportBase {
 public:
  explicit GrpcTransport(GrpcTransportOptions options);
  ~GrpcTransport() override;

  std::string address() const override { return address_; }
  // For a server that others own: takes all calls that no other service does.
  // Such a server is shut down after the transport.
  grpc::CallbackGenericService* service();
  // What such a server should be built with.
  static void ConfigureServer(grpc::ServerBuilder* builder);

 protected:
  Status StartNetwork() override;
  void StopNetwork() override;
  Result<std::shared_ptr<Link>> Dial(PeerId id,
                                     const PeerAddress& peer) override;
  std::shared_ptr<Link> MakeLink(PeerId id, const Hello& hello) override;

 private:
  friend class GrpcLink;
  friend class GrpcStream;
  class Service;

  // Delivers what came, here or, lest none of gRPC's threads is left to read,
  // by the pump.
  void Drain(const std::shared_ptr<Link>& link);
  // False if the transport stops.
  bool AddStream(GrpcStream* stream);
  void RemoveStream(GrpcStream* stream);

  const GrpcTransportOptions grpc_options_;
  const int most_draining_;
  std::string address_;  // Constant after Start.
  std::shared_ptr<grpc::ChannelCredentials> credentials_;  // The same.
  const std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<int> draining_{0};

  std::mutex streams_mu_;
  std::condition_variable no_streams_;
  std::set<GrpcStream*> streams_;  // GUARDED_BY(streams_mu_)
  bool stopped_ = true;            // GUARDED_BY(streams_mu_)
};

}  // namespace sluice

#endif  // SLUICE_DIST_GRPC_TRANSPORT_H_
