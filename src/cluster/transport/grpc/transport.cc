#include "cluster/transport/grpc/transport.h"

#include <utility>
#include <vector>

#include "base/failpoint.h"
#include "cluster/transport/grpc/link.h"

namespace sluice {
namespace {

// The server's end of a call.
class ServerStream final : public GrpcStream {
 public:
  ServerStream(GrpcTransport* transport, std::unique_ptr<GrpcCall> call)
      : GrpcStream(transport), call_(std::move(call)) {}

 private:
  void StartRead(grpc::ByteBuffer* buffer, Event* event) override {
    call_->io.Read(buffer, event->Tag());
  }
  void StartWrite(const grpc::ByteBuffer& buffer, Event* event) override {
    call_->io.Write(buffer, event->Tag());
  }
  void StartClose(const Status& why, bool, Event* event) override {
    call_->io.Finish(grpc::Status(static_cast<grpc::StatusCode>(why.raw_code()),
                                  std::string(why.message().substr(0, 1000))),
                     event);
    // A pending write to a peer that does not read would never complete.
    if (why.code() != StatusCode::kAborted) call_->context.TryCancel();
  }

  const std::unique_ptr<GrpcCall> call_;
};

}  // namespace

GrpcTransport::GrpcTransport(GrpcTransportOptions options)
    : TransportBase(options), grpc_options_(std::move(options)) {}

GrpcTransport::~GrpcTransport() { Shutdown(); }

Status GrpcTransport::StartNetwork() {
  SLUICE_ASSIGN_OR_RETURN(credentials_,
                          MakeChannelCredentials(grpc_options_.tls));
  port_ = grpc_options_.port;
  if (port_ == nullptr) {
    own_port_ = std::make_unique<GrpcPort>();
    port_ = own_port_.get();
    GrpcPortOptions o;
    o.listen = grpc_options_.listen;
    o.tls = grpc_options_.tls;
    o.plain_beyond_loopback = grpc_options_.plain_beyond_loopback;
    o.peer_timeout = options().peer_timeout;
    SLUICE_RETURN_IF_ERROR(Annotate(
        port_->Open(o), absl::StrCat("transport of '", options().task, "'")));
  }
  const std::string& advertise = grpc_options_.advertise;
  address_ =
      PublicAddress(advertise.empty() ? port_->address() : advertise, *port_);
  shares_ = grpc_options_.shared_memory && !grpc_options_.tls.enabled();
  if (shares_) {
    // The mailbox's name is secret until we own it; only then is it part of the
    // address. (Without a mailbox peers cannot offer memory, and use the
    // stream.)
    const RingToken secret = NewRingToken();
    const std::string named = absl::StrCat(address_, "#", absl::Hex(secret[0]));
    const std::string mailbox = RingMailboxAt(named);
    if (!mailbox.empty() && mailbox_.Open(mailbox).ok())
      address_ = named;
    else
      shares_ = mailbox_.Open("").ok();
  }
  {
    std::lock_guard<std::mutex> lock(streams_mu_);
    stopped_ = false;
  }
  port_->Handle(
      "/sluice.Transport/Exchange",
      [this](std::unique_ptr<GrpcCall> call) { AcceptCall(std::move(call)); });
  if (own_port_ != nullptr) port_->Serve();
  return OkStatus();
}

void GrpcTransport::AcceptCall(std::unique_ptr<GrpcCall> call) {
  const auto stream = std::make_shared<ServerStream>(this, std::move(call));
  const bool running = AddStream(stream.get());
  stream->Begin();
  if (!running) stream->Close(Unavailable("the transport does not run"));
}

void GrpcTransport::StopNetwork() {
  {
    std::vector<std::shared_ptr<GrpcStream>> streams;
    std::unique_lock<std::mutex> lock(streams_mu_);
    stopped_ = true;
    for (GrpcStream* s : streams_) streams.push_back(s->shared_from_this());
    lock.unlock();
    for (const auto& s : streams) s->Close(Unavailable("the task shuts down"));
    streams.clear();
    lock.lock();
    no_streams_.wait(lock, [&] { return streams_.empty(); });
  }
  if (own_port_ != nullptr) own_port_->Stop();
  mailbox_.Close();
}

bool GrpcTransport::AddStream(GrpcStream* stream) {
  std::lock_guard<std::mutex> lock(streams_mu_);
  if (stopped_) return false;
  streams_.insert(stream);
  return true;
}

void GrpcTransport::RemoveStream(GrpcStream* stream) {
  std::lock_guard<std::mutex> lock(streams_mu_);
  streams_.erase(stream);
  if (streams_.empty()) no_streams_.notify_all();
}

Result<std::shared_ptr<Link>> GrpcTransport::Dial(PeerId id,
                                                  const PeerAddress& peer) {
  const FailpointHit hit = SLUICE_FAILPOINT("grpc.connect");
  SLUICE_RETURN_IF_ERROR(hit.error);
  if (peer.address.empty())
    return Unavailable("task '", peer.task,
                       "': expected its address, or that it connects, got "
                       "neither");
  return std::make_shared<GrpcLink>(this, id, peer.task, peer.address,
                                    peer.incarnation);
}

std::shared_ptr<Link> GrpcTransport::MakeLink(PeerId id, const Hello& hello) {
  return std::make_shared<GrpcLink>(this, id, hello.task, "",
                                    hello.incarnation);
}

}  // namespace sluice
