// GrpcTransport: the data plane over gRPC streams, plain or with TLS.
//
// Two tasks exchange one stream of messages in each direction; both are streams
// of the same call if only one task connected. A message is a frame
// (cluster/transport/wire.h) or, if it starts with "SLC1", the next bytes of
// the bodies of earlier frames, in order. So a large value travels in pieces,
// small messages pass between the pieces, and the value is copied never when
// sent and once when received. Between processes of one machine and user the
// pieces go through shared memory (cluster/transport/shared/ring.h), and the
// stream carries only a notice of each: "SLR1" and its size as a u32. "SLM1"
// and a token offer such memory, once per stream.
#ifndef SLUICE_CLUSTER_TRANSPORT_GRPC_TRANSPORT_H_
#define SLUICE_CLUSTER_TRANSPORT_GRPC_TRANSPORT_H_

#include <grpcpp/security/credentials.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "cluster/transport/grpc/credentials.h"
#include "cluster/transport/grpc/port.h"
#include "cluster/transport/shared/ring.h"
#include "cluster/transport/transport_base.h"

namespace sluice {

struct GrpcTransportOptions : TransportOptions {
  // "host:port", port 0 for any free port. "": peers cannot connect to us,
  // unless `port` is given.
  std::string listen = "127.0.0.1:0";
  // The result of address(), if it is not the address it listens on.
  std::string advertise;
  TlsFiles tls;
  bool plain_beyond_loopback = false;
  // Whether large values may be sent and received through shared memory. (With
  // TLS everything uses the connection.)
  bool shared_memory = true;
  // A shared port to use instead of an own one. The caller opens it, but does
  // not serve, before the transport starts, and stops it after the transport.
  GrpcPort* port = nullptr;
};

class GrpcStream;

class GrpcTransport final : public TransportBase {
 public:
  explicit GrpcTransport(GrpcTransportOptions options);
  ~GrpcTransport() override;

  std::string address() const override { return address_; }
  bool HandlersMayTakeLong() const override { return true; }

 protected:
  Status StartNetwork() override;
  void StopNetwork() override;
  Result<std::shared_ptr<Link>> Dial(PeerId id,
                                     const PeerAddress& peer) override;
  std::shared_ptr<Link> MakeLink(PeerId id, const Hello& hello) override;
  // (The part after '#' is specific to this incarnation.)
  std::string PlaceOf(const std::string& address) const override {
    return address.substr(0, address.find('#'));
  }

 private:
  friend class GrpcLink;
  friend class GrpcStream;

  void AcceptCall(std::unique_ptr<GrpcCall> call);
  // False if the transport is stopping.
  bool AddStream(GrpcStream* stream);
  void RemoveStream(GrpcStream* stream);

  const GrpcTransportOptions grpc_options_;
  std::string address_;  // Constant after Start, like the next five.
  std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::unique_ptr<GrpcPort> own_port_;
  GrpcPort* port_ = nullptr;
  bool shares_ = false;
  RingMailbox mailbox_;

  std::mutex streams_mu_;
  std::condition_variable no_streams_;
  std::set<GrpcStream*> streams_;  // GUARDED_BY(streams_mu_)
  bool stopped_ = true;            // GUARDED_BY(streams_mu_)
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_GRPC_TRANSPORT_H_
