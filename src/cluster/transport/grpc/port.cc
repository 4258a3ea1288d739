#include "cluster/transport/grpc/port.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cluster/transport/host_id.h"

namespace sluice {
namespace {

constexpr char kLocal[] = "unix-abstract:";
constexpr int kHttpFrameBytes = 1 << 20;  // For HTTP/2.
constexpr int kLookAhead = 8 << 20;
constexpr gpr_clock_type kClock = GPR_CLOCK_MONOTONIC;
// A connection that has not completed its HTTP/2 or TLS handshake after this
// many peer timeouts is closed.
constexpr int kHandshakePatience = 2;
constexpr std::chrono::milliseconds kLeastHandshakeTime{2000};
// The number of events handled before the deferred ones, at most.
constexpr int kMaxEventsAtOnce = 32;

uint64_t ThisHost() {
  static const uint64_t id = HostId({"net"});
  return id;
}

// Refuses a call: its method is unknown or its connection is beyond a limit.
class Refusal final : public GrpcEvent {
 public:
  Refusal(std::unique_ptr<GrpcCall> call, const grpc::Status& why)
      : call_(std::move(call)) {
    call_->io.Finish(why, Tag());
  }
  void Done(bool) override { delete this; }

 private:
  const std::unique_ptr<GrpcCall> call_;
};

}  // namespace

std::atomic<uint64_t> GrpcEvent::begun_{0};

// Waits for the next incoming call.
class GrpcPort::Waiting final : public GrpcEvent {
 public:
  explicit Waiting(GrpcPort* port)
      : port_(port), call_(std::make_unique<GrpcCall>()) {
    GrpcCall& call = *call_;
    grpc::ServerCompletionQueue* const calls = port_->calls_;
    grpc::AsyncGenericService& service = port_->service_;
    // (From here on the call may arrive and delete this object.)
    service.RequestCall(&call.context, &call.io, calls, calls, Tag());
  }
  void Done(bool ok) override {
    const std::unique_ptr<Waiting> end(this);
    if (!ok) return;  // Shutting down.
    new Waiting(port_);
    port_->Accept(std::move(call_));
  }

 private:
  GrpcPort* const port_;
  std::unique_ptr<GrpcCall> call_;
};

Status GrpcPort::Open(const GrpcPortOptions& options) {
  if (options.listen.empty()) {
    queue_ = std::make_unique<grpc::CompletionQueue>();
    return OkStatus();
  }
  SLUICE_RETURN_IF_ERROR(CheckListenAddress(options.listen, options.tls,
                                            options.plain_beyond_loopback));
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ServerCredentials> creds,
                          MakeServerCredentials(options.tls));
  SLUICE_ASSIGN_OR_RETURN(connections_,
                          ResolveConnectionLimits(options.connections));
  SLUICE_ASSIGN_OR_RETURN(const int port, listener_.Listen(options.listen));
  if (!options.tls.enabled()) {  // (Certificates name hosts.)
    std::random_device random;
    local_address_ = absl::StrCat(kLocal, "sluice-", absl::Hex(random()),
                                  absl::Hex(random()));
    // (On failure the other address is used.)
    if (!listener_.Listen(local_address_).ok()) local_address_.clear();
  }
  grpc::ServerBuilder builder;
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      creds);
  const int ms = static_cast<int>(options.peer_timeout.count());
  builder.SetMaxReceiveMessageSize(static_cast<int>(
      std::clamp<int64_t>(options.max_message_bytes, 0, INT32_MAX)));
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, ms / 2);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ms - ms / 2);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, ms / 4);
  builder.AddChannelArgument(
      GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
      static_cast<int>(std::max(kHandshakePatience * options.peer_timeout,
                                kLeastHandshakeTime)
                           .count()));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookAhead);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kHttpFrameBytes);
  builder.AddChannelArgument(GRPC_ARG_OPTIMIZATION_TARGET, "latency");
  builder.RegisterAsyncGenericService(&service_);
  std::unique_ptr<grpc::ServerCompletionQueue> calls =
      builder.AddCompletionQueue();
  calls_ = calls.get();
  queue_ = std::move(calls);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr)
    return Internal("gRPC: expected a server for '", options.listen,
                    "', got none");
  silence_ = std::chrono::milliseconds(ms - ms / 2);
  address_ =
      options.listen.starts_with("unix")
          ? options.listen
          : absl::StrCat(options.listen.substr(0, options.listen.rfind(':')),
                         ":", port);
  return OkStatus();
}

void GrpcPort::Handle(const std::string& prefix, Handler handler) {
  handlers_[prefix] = std::move(handler);
}

void GrpcPort::Serve() {
  serving_ = true;
  team_.Start([this](ReaderTeam::Turn& turn) { Read(turn); });
  if (server_ == nullptr) return;
  new Waiting(this);
  listener_.Start(connections_, silence_, [this](int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters p;
    p.fd = fd;
    acceptor_->HandleNewConnection(&p);
  });
}

void GrpcPort::Stop() {
  if (queue_ == nullptr) return;
  listener_.Stop();
  if (server_ != nullptr) {
    // (Returns when all calls have ended.)
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::milliseconds(500));
    server_->Wait();
  }
  queue_->Shutdown();
  if (serving_) team_.Stop();
  void* tag;
  bool ok;
  while (queue_->Next(&tag, &ok)) GrpcEvent::OfTag(tag)->Done(ok);
  server_.reset();
  queue_.reset();
}

void GrpcPort::Accept(std::unique_ptr<GrpcCall> call) {
  if (const Status why = listener_.Refusal(call->context.peer()); !why.ok()) {
    new Refusal(std::move(call),
                grpc::Status(static_cast<grpc::StatusCode>(why.raw_code()),
                             std::string(why.message())));
    return;
  }
  const std::string& method = call->context.method();
  for (const auto& [prefix, handler] : handlers_)
    if (method.starts_with(prefix)) return handler(std::move(call));
  const std::string why = "no service has the method '" + method + "'";
  new Refusal(std::move(call),
              grpc::Status(grpc::StatusCode::UNIMPLEMENTED, why));
}

void GrpcPort::Defer(GrpcEvent* event) {
  {
    std::lock_guard<std::mutex> lock(deferred_mu_);
    // (A thread that no longer reads may be busy for an hour.)
    if (reader_ == std::this_thread::get_id()) {
      deferred_.push_back(event);
      return;
    }
  }
  event->Done(true);
}

void GrpcPort::RunDeferred() {
  std::vector<GrpcEvent*> events;
  {
    std::lock_guard<std::mutex> lock(deferred_mu_);
    reader_ = std::this_thread::get_id();
    events.swap(deferred_);
  }
  for (GrpcEvent* e : events) e->Done(true);
}

void GrpcPort::Read(ReaderTeam::Turn& turn) {
  void* tag;
  bool ok;
  // (Events deferred by the previous reader, whose work takes long.)
  RunDeferred();
  for (int handled = 0;;) {
    // First the events that have already arrived.
    const auto next = queue_->AsyncNext(&tag, &ok, gpr_inf_past(kClock));
    if (next != grpc::CompletionQueue::GOT_EVENT ||
        ++handled > kMaxEventsAtOnce) {
      handled = 0;
      RunDeferred();
    }
    if (next == grpc::CompletionQueue::SHUTDOWN) return;
    if (next == grpc::CompletionQueue::TIMEOUT && !queue_->Next(&tag, &ok))
      return;
    if (!turn.Do([&] { GrpcEvent::OfTag(tag)->Done(ok); })) return;
  }
}

std::string PublicAddress(const std::string& host_port, const GrpcPort& port) {
  if (port.local_address().empty()) return host_port;
  return absl::StrCat(host_port, "#", absl::Hex(ThisHost()), "#",
                      port.local_address());
}

namespace {

struct AddressParts {
  std::string host_port;
  std::string local;    // "": not on this machine.
  std::string mailbox;  // "": none.
};
AddressParts PartsOf(const std::string& address) {
  const std::vector<std::string> parts = absl::StrSplit(address, '#');
  if (parts.size() != 3 && parts.size() != 4) return {address, "", ""};
  AddressParts out = {parts[0], "", ""};
  uint64_t host = 0;
  if (!absl::SimpleHexAtoi(parts[1], &host) || host != ThisHost() ||
      !parts[2].starts_with(kLocal))
    return out;
  out.local = parts[2];
  if (parts.size() == 4)
    out.mailbox =
        absl::StrCat(parts[2].substr(sizeof(kLocal) - 1), ".memory.", parts[3]);
  return out;
}

}  // namespace

std::string BestAddress(const std::string& address, const TlsFiles& tls) {
  const AddressParts parts = PartsOf(address);
  return parts.local.empty() || tls.enabled() ? parts.host_port : parts.local;
}

std::string RingMailboxAt(const std::string& address) {
  return PartsOf(address).mailbox;
}

grpc::ChannelArguments CommonChannelArguments(const TlsFiles& tls) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(-1);
  args.SetMaxSendMessageSize(-1);
  // Each channel has its own connection, not shared with earlier ones.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  args.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookAhead);
  args.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kHttpFrameBytes);
  args.SetString(GRPC_ARG_OPTIMIZATION_TARGET, "latency");
  if (!tls.server_name.empty()) args.SetSslTargetNameOverride(tls.server_name);
  return args;
}

}  // namespace sluice
