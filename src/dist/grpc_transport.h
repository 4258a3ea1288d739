// GrpcTransport: the data plane over streams of gRPC, plain or under TLS.
//
// There is one stream of messages each way between two tasks, the two of one
// call if only one of them connected. A message is a frame (dist/wire.h) or, by
// its first four bytes "SLC1", some more bytes of the bodies of the frames
// before it, in their order. So a large value goes in pieces between which
// small ones pass, is never copied on its way out, and once on its way in.
// Between processes of one machine and user the pieces go by shared memory
// (dist/shared_ring.h) and only the news of them, "SLR1" and u32 its bytes, by
// the stream; "SLM1" and a token offers such memory, once for each stream.
#ifndef SLUICE_DIST_GRPC_TRANSPORT_H_
#define SLUICE_DIST_GRPC_TRANSPORT_H_

#include <grpcpp/security/credentials.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "dist/grpc_credentials.h"
#include "dist/grpc_port.h"
#include "dist/shared_ring.h"
#include "dist/transport_base.h"

namespace sluice {

struct GrpcTransportOptions : TransportOptions {
  // "host:port", port 0 for any that is free. "": peers cannot connect to us,
  // unless `port` is given.
  std::string listen = "127.0.0.1:0";
  // What address() says, if it is not what it listens at.
  std::string advertise;
  TlsFiles tls;
  bool plain_beyond_loopback = false;
  // Whether large values may go by shared memory, to us and from us. (With TLS
  // all goes by the connection.)
  bool shared_memory = true;
  // One that others own and use too, instead of its own: open but not serving
  // when the transport starts, and stopped after it.
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
  // (Behind the '#' is what only this incarnation has.)
  std::string PlaceOf(const std::string& address) const override {
    return address.substr(0, address.find('#'));
  }

 private:
  friend class GrpcLink;
  friend class GrpcStream;

  void AcceptCall(std::unique_ptr<GrpcCall> call);
  // False if the transport stops.
  bool AddStream(GrpcStream* stream);
  void RemoveStream(GrpcStream* stream);

  const GrpcTransportOptions grpc_options_;
  std::string address_;  // Constant after Start, as what follows.
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

#endif  // SLUICE_DIST_GRPC_TRANSPORT_H_
