#include "dist/grpc_transport.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/failpoint.h"
#include "dist/grpc_link.h"

namespace sluice {
namespace {

// How many threads gRPC reads with (its callback queue's, by its own rule).
int GrpcThreads() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / 2, 2, 16);
}

// Our end of a call that a peer made.
class ServerStream final : public GrpcStream,
                           public grpc::ServerGenericBidiReactor {
 public:
  ServerStream(GrpcTransport* transport, grpc::CallbackServerContext* context)
      : GrpcStream(transport), context_(context) {}
  using GrpcStream::Begin;

 private:
  void StartRead(grpc::ByteBuffer* buffer) override {
    ServerBidiReactor::StartRead(buffer);
  }
  void StartWrite(const grpc::ByteBuffer* buffer) override {
    ServerBidiReactor::StartWrite(buffer);
  }
  void StartClose(const Status& why, bool) override {
    Finish(grpc::Status(static_cast<grpc::StatusCode>(why.raw_code()),
                        std::string(why.message().substr(0, 1000))));
    // What is being written to a peer that does not read would never end.
    if (why.code() != StatusCode::kAborted) context_->TryCancel();
  }
  void OnReadDone(bool ok) override { OnRead(ok); }
  void OnWriteDone(bool ok) override { OnWritten(ok); }
  void OnDone() override { OnEnd(OkStatus()); }

  grpc::CallbackServerContext* const context_;
};

// gRPC's threads and the queue that they serve live as long as something uses
// them; the last user must not go on one of these threads, which would wait for
// itself. So a call that is never made uses them for the life of the process.
void KeepCallbackThreads() {
  struct Unused final
      : grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
    grpc::GenericStub stub{
        grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials())};
    grpc::ClientContext context;
  };
  static Unused* const unused = [] {
    auto* u = new Unused;
    u->stub.PrepareBidiStreamingCall(&u->context, "/sluice.Transport/Exchange",
                                     {}, u);
    return u;
  }();
  (void)unused;
}

class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const grpc::Status& why) { Finish(why); }
  void OnDone() override { delete this; }
};

}  // namespace

class GrpcTransport::Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(GrpcTransport* transport) : transport_(transport) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    if (context->method() != "/sluice.Transport/Exchange")
      return new Refusal(grpc::Status(
          grpc::StatusCode::UNIMPLEMENTED,
          "no service has the method '" + context->method() + "'"));
    auto stream = std::make_shared<ServerStream>(transport_, context);
    if (!transport_->AddStream(stream.get()))
      return new Refusal(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                      "the transport does not run"));
    stream->Begin();
    return stream.get();
  }

 private:
  GrpcTransport* const transport_;
};

GrpcTransport::GrpcTransport(GrpcTransportOptions options)
    : TransportBase(options),
      grpc_options_(std::move(options)),
      most_draining_(GrpcThreads() - 1),
      service_(std::make_unique<Service>(this)) {}

GrpcTransport::~GrpcTransport() { Shutdown(); }

grpc::CallbackGenericService* GrpcTransport::service() {
  return service_.get();
}

Status GrpcTransport::StartNetwork() {
  KeepCallbackThreads();
  const std::string& listen = grpc_options_.listen;
  SLUICE_ASSIGN_OR_RETURN(credentials_,
                          MakeChannelCredentials(grpc_options_.tls));
  address_ = grpc_options_.advertise;
  {
    std::lock_guard<std::mutex> lock(streams_mu_);
    stopped_ = false;
  }
  if (listen.empty()) return OkStatus();
  SLUICE_RETURN_IF_ERROR(CheckListenAddress(
      listen, grpc_options_.tls, grpc_options_.plain_beyond_loopback));
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ServerCredentials> creds,
                          MakeServerCredentials(grpc_options_.tls));
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(listen, creds, &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  ConfigureServer(&builder);
  builder.RegisterCallbackGenericService(service_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port <= 0)
    return Unavailable("transport of '", options().task,
                       "': expected an address to listen at, got '", listen,
                       "'");
  if (address_.empty())
    address_ =
        listen.starts_with("unix:")
            ? listen
            : absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
  return OkStatus();
}

void GrpcTransport::ConfigureServer(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(-1);
  builder->SetMaxSendMessageSize(-1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 8 << 20);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  builder->AddChannelArgument(GRPC_ARG_OPTIMIZATION_TARGET, "latency");
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
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
  }
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

void GrpcTransport::Drain(const std::shared_ptr<Link>& link) {
  const auto drain = [](const std::shared_ptr<Link>& l) {
    l->counters->tokens_received.fetch_add(l->inbox.Drain(l->handler, l->id),
                                           std::memory_order_relaxed);
  };
  if (draining_.fetch_add(1) < most_draining_) {
    drain(link);
  } else {
    pump()->Post([link, drain] { drain(link); });
  }
  draining_.fetch_sub(1);
}

}  // namespace sluice
