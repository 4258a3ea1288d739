#include "cluster/transport/grpc/link.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/slice.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/failpoint.h"

namespace sluice {
namespace {

constexpr char kBodyMagic[] = "SLC1", kRingMagic[] = "SLM1",
               kPieceMagic[] = "SLR1";
constexpr size_t kPiece = 1 << 20;
// A frame that is queued while another is written grows up to this size.
constexpr size_t kFrameBytes = 1 << 20;

grpc::Slice SliceOf(std::string bytes) {
  if (bytes.size() <= 4096) return grpc::Slice(bytes.data(), bytes.size());
  auto* owned = new std::string(std::move(bytes));
  return grpc::Slice(
      owned->data(), owned->size(),
      [](void* s) { delete static_cast<std::string*>(s); }, owned);
}

// Wraps the bytes in a tensor without copying them.
Tensor Held(std::string bytes) {
  auto* owned = new std::string(std::move(bytes));
  return Tensor(DType::kUint8, Shape({static_cast<int64_t>(owned->size())}),
                new ForeignBuffer(owned->data(), owned->size(),
                                  [owned] { delete owned; }),
                owned->data());
}

// A slice of a body, which keeps the underlying memory alive.
grpc::Slice SliceOf(const WireBody& body, size_t offset, size_t bytes) {
  auto* tensor = new Tensor(body.tensor);
  return grpc::Slice(
      const_cast<char*>(body.bytes().data()) + offset, bytes,
      [](void* t) { delete static_cast<Tensor*>(t); }, tensor);
}

// The client's end of a call.
class ClientStream final : public GrpcStream {
 public:
  ClientStream(GrpcTransport* transport,
               const std::shared_ptr<grpc::Channel>& channel,
               grpc::CompletionQueue* queue)
      : GrpcStream(transport), stub_(channel) {
    io_ = stub_.PrepareCall(&context_, "/sluice.Transport/Exchange", queue);
  }

  void Call() {
    std::lock_guard<std::mutex> lock(mu_);
    Hold();
    io_->StartCall(begun_event_.Tag());
    CloseIfAsked();
  }

 private:
  void StartRead(grpc::ByteBuffer* buffer, Event* event) override {
    io_->Read(buffer, event->Tag());
  }
  void StartWrite(const grpc::ByteBuffer& buffer, Event* event) override {
    io_->Write(buffer, event->Tag());
  }
  void StartClose(const Status&, bool ended, Event* event) override {
    if (!ended) context_.TryCancel();
    io_->Finish(&status_, event->Tag());
  }
  Status Outcome() const override {
    // (gRPC's codes are Abseil's.)
    return Status(static_cast<StatusCode>(status_.error_code()),
                  status_.error_message());
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> io_;
  grpc::Status status_;
};

}  // namespace

void GrpcStream::Hold() {
  ++under_way_;
  if (self_ == nullptr) self_ = shared_from_this();
}

void GrpcStream::Drop() {
  std::shared_ptr<GrpcStream> self;
  {
    std::lock_guard<std::mutex> lock(mu_);
    // (The last operation completes only after the call has ended.)
    if (--under_way_ > 0) return;
    self.swap(self_);
  }
  self->End();
}

void GrpcStream::CloseIfAsked() {
  if (!closed_) return;
  Hold();
  StartClose(Unavailable("the task shuts down"), false, &end_event_);
}

void GrpcStream::Begin() {
  std::lock_guard<std::mutex> lock(mu_);
  Hold();
  StartRead(&incoming_, &read_event_);
  CloseIfAsked();
}

void GrpcStream::OnBegun(bool ok) {
  if (ok) {
    std::lock_guard<std::mutex> lock(mu_);
    if (!closed_) {
      Hold();
      StartRead(&incoming_, &read_event_);
    }
  } else {
    Close(Unavailable("the connection was not made"), /*ended=*/true);
  }
  if (const std::shared_ptr<GrpcLink> l = link(); ok && l != nullptr)
    l->OnWritten(this);
  Drop();
}

bool GrpcStream::Write(grpc::ByteBuffer buffer) {
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_) return false;
  Hold();
  StartWrite(buffer, &write_event_);
  return true;
}

void GrpcStream::Close(const Status& why, bool ended) {
  std::lock_guard<std::mutex> lock(mu_);
  // (Before the first operation: whatever starts it then closes the call.)
  if (std::exchange(closed_, true) || self_ == nullptr) return;
  Hold();
  StartClose(why, ended, &end_event_);
}

void GrpcStream::OnEnded(bool) { Drop(); }

void GrpcStream::SetLink(std::shared_ptr<GrpcLink> link) {
  std::lock_guard<std::mutex> lock(mu_);
  link_ = std::move(link);
}

std::shared_ptr<GrpcLink> GrpcStream::link() {
  std::lock_guard<std::mutex> lock(mu_);
  return link_;
}

void GrpcStream::Fail(const Status& why) {
  const std::shared_ptr<GrpcLink> l = link();
  if (l != nullptr) {
    transport_->Lose(l.get(),
                     Annotate(why, absl::StrCat("from ", l->Describe())));
  }
  Close(why);
}

void GrpcStream::OnRead(bool ok) {
  if (ok) {
    Status s;
    std::shared_ptr<GrpcLink> l;
    bool read_on = false;
    {
      std::lock_guard<std::mutex> lock(read_mu_);
      s = Receive(incoming_);
      incoming_.Clear();
      l = link();
      if (s.ok()) {
        std::lock_guard<std::mutex> write_lock(mu_);
        if (!closed_) {
          Hold();
          read_on = true;
        }
      }
    }
    // (Without a lock: the event may be handled at once.)
    if (read_on) transport_->port_->Defer(&read_on_event_);
    if (!s.ok()) {
      Fail(s);
    } else if (l != nullptr) {
      l->Heard();
      l->OnHeard();
      l->counters->tokens_received.fetch_add(l->inbox.Drain(l->handler, l->id),
                                             std::memory_order_relaxed);
    }
  } else {
    Close(Unavailable("the connection was closed"), /*ended=*/true);
  }
  Drop();
}

void GrpcStream::ReadOn(bool) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!closed_) {
      Hold();
      StartRead(&incoming_, &read_event_);
    }
  }
  Drop();
}

Status GrpcStream::Receive(const grpc::ByteBuffer& message) {
  const FailpointHit hit = SLUICE_FAILPOINT("grpc.read");
  SLUICE_RETURN_IF_ERROR(hit.error);
  if (hit.drop()) return OkStatus();
  transport_->counters()->bytes_received.fetch_add(
      static_cast<int64_t>(message.Length()), std::memory_order_relaxed);
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok() || message.Length() < 4)
    return InvalidArgument("message: expected 4 bytes, got ", message.Length());
  const auto view = [](const grpc::Slice& s) {
    return std::string_view(reinterpret_cast<const char*>(s.begin()), s.size());
  };
  char magic[4];
  size_t have = 0;
  for (const grpc::Slice& s : slices)
    for (size_t i = 0; i < s.size() && have < 4; ++i)
      magic[have++] = view(s)[i];
  const auto is = [&](const char* m) { return std::memcmp(magic, m, 4) == 0; };
  if (is(kBodyMagic)) {
    size_t skip = 4;
    for (const grpc::Slice& s : slices) {
      const size_t skipped = std::min(skip, s.size());
      skip -= skipped;
      SLUICE_RETURN_IF_ERROR(ReceiveBodies(view(s).substr(skipped)));
    }
    return OkStatus();
  }
  if (is(kRingMagic) || is(kPieceMagic)) {
    std::string rest;
    if (message.Length() <= 64)
      for (const grpc::Slice& s : slices) rest += view(s);
    rest.erase(0, 4);
    return is(kRingMagic) ? ReceiveRing(rest) : ReceivePiece(rest);
  }
  if (slices.size() == 1) return ReceiveFrame(view(slices[0]));
  if (message.Length() > kMaxFrameBytes)
    return InvalidArgument("frame on the wire: expected at most ",
                           kMaxFrameBytes, " bytes, got ", message.Length());
  std::string whole;
  whole.reserve(message.Length());
  for (const grpc::Slice& s : slices) whole += view(s);
  return ReceiveFrame(whole);
}

Status GrpcStream::ReceiveFrame(std::string_view bytes) {
  SLUICE_ASSIGN_OR_RETURN(
      IncomingFrame frame,
      ParseFrame(bytes, {transport_->options().max_tensor_bytes}));
  if (frame.number != next_frame_)
    return DataLoss("frame on the wire: expected number ", next_frame_,
                    ", got ", frame.number);
  std::shared_ptr<GrpcLink> l = link();
  for (size_t i = 0; i < frame.records.size(); ++i) {
    const Hello* hello = std::get_if<Hello>(&frame.records[i]);
    if ((hello != nullptr) != (next_frame_ == 0 && i == 0))
      return InvalidArgument(
          "record on the wire: expected one hello, as the first");
    if (hello == nullptr) continue;
    if (l != nullptr) {
      SLUICE_RETURN_IF_ERROR(
          transport_->CheckIncarnation(l.get(), hello->incarnation));
      l->OnHello(hello->address);
      continue;
    }
    const FailpointHit hit = SLUICE_FAILPOINT("grpc.accept");
    SLUICE_RETURN_IF_ERROR(hit.error);
    // (A second attempt is needed if the peer reconnects before we noticed that
    // its first connection is gone.)
    for (int attempt = 0; attempt < 2; ++attempt) {
      l = std::static_pointer_cast<GrpcLink>(transport_->Accept(*hello));
      if (l == nullptr)
        return Aborted("expected incarnation ", hello->expected, " of task '",
                       transport_->options().task, "', got ",
                       transport_->incarnation());
      SetLink(l);
      l->OnHello(hello->address);
      if (l->Attach(shared_from_this())) break;
      transport_->Lose(l.get(), Unavailable(l->Describe(), " connected again"));
    }
  }
  if (l == nullptr)
    return InvalidArgument("frame on the wire: expected a hello, got none");
  ++next_frame_;
  transport_->counters()->frames_received.fetch_add(1,
                                                    std::memory_order_relaxed);
  std::vector<IncomingBody*> bodies;
  SLUICE_RETURN_IF_ERROR(l->inbox.Add(std::move(frame), &bodies));
  bodies_.insert(bodies_.end(), bodies.begin(), bodies.end());
  return OkStatus();
}

Status GrpcStream::ReceiveBodies(std::string_view bytes) {
  const std::shared_ptr<GrpcLink> l = link();
  while (!bytes.empty()) {
    if (bodies_.empty() || l == nullptr) {
      // (The rest of a body announced before the inbox was closed.)
      if (l != nullptr && l->lost.load()) return OkStatus();
      return InvalidArgument(
          "body on the wire: expected the bytes of a tensor that was "
          "announced, got ",
          bytes.size(), " more");
    }
    IncomingBody* const body = bodies_.front();
    if (body_offset_ == 0) {
      SLUICE_ASSIGN_OR_RETURN(body_to_, body->Buffer());
    }
    const size_t n = std::min(bytes.size(), body->bytes - body_offset_);
    std::memcpy(body_to_ + body_offset_, bytes.data(), n);
    bytes.remove_prefix(n);
    body_offset_ += n;
    if (body_offset_ < body->bytes) continue;
    bodies_.pop_front();
    body_offset_ = 0;
    SLUICE_RETURN_IF_ERROR(l->inbox.BodyDone(body));
  }
  return OkStatus();
}

Status GrpcStream::ReceiveRing(std::string_view bytes) {
  RingToken token;
  if (bytes.size() != sizeof(token) || ring_offered_)
    return InvalidArgument("memory on the wire: expected one offer of ",
                           sizeof(token), " bytes, got ",
                           ring_offered_ ? "a second, of " : "", bytes.size());
  ring_offered_ = true;
  const FailpointHit hit = SLUICE_FAILPOINT("grpc.accept_memory");
  if (hit.drop() || !hit.error.ok() || !transport_->shares_) return OkStatus();
  std::memcpy(token.data(), bytes.data(), sizeof(token));
  // A ring that is not accepted is not used.
  const int fd = transport_->mailbox_.Take(token);
  if (fd < 0) return OkStatus();
  Result<std::unique_ptr<RingReader>> ring = RingReader::Map(fd);
  close(fd);
  if (ring.ok()) ring_ = *std::move(ring);
  return OkStatus();
}

Status GrpcStream::ReceivePiece(std::string_view bytes) {
  uint32_t count = 0;
  if (bytes.size() == sizeof(count))
    std::memcpy(&count, bytes.data(), sizeof(count));
  if (ring_ == nullptr || count == 0 || count > RingHeader::kPiece)
    return InvalidArgument("piece on the wire: expected 1 to ",
                           RingHeader::kPiece,
                           " bytes in memory that was accepted, got ", count);
  transport_->counters()->bytes_received.fetch_add(count,
                                                   std::memory_order_relaxed);
  SLUICE_RETURN_IF_ERROR(ReceiveBodies(ring_->Next().substr(0, count)));
  if (!ring_->Done()) return OkStatus();
  if (const std::shared_ptr<GrpcLink> l = link(); l != nullptr)
    l->SendRoomNotice();
  return OkStatus();
}

void GrpcStream::OnWritten(bool ok) {
  const std::shared_ptr<GrpcLink> l = link();
  if (ok && l != nullptr) l->OnWritten(this);
  // If the write failed, the pending read fails too.
  Drop();
}

void GrpcStream::End() {
  const std::shared_ptr<GrpcLink> l = link();
  if (l != nullptr) {
    const Status why = Outcome();
    const bool restarted = why.code() == StatusCode::kAborted;
    transport_->Lose(
        l.get(),
        restarted
            ? Aborted(l->Describe(), " was restarted: ", why.message())
            : Unavailable(l->Describe(), ": the connection was closed",
                          why.message().empty() ? "" : ": ", why.message()));
    SetLink(nullptr);
  }
  transport_->RemoveStream(this);
}

GrpcLink::GrpcLink(GrpcTransport* owner, PeerId id, std::string task,
                   std::string address, uint64_t expected)
    : Link(owner, id, std::move(task)),
      transport_(owner),
      address_(std::move(address)),
      writer_(owner->options().inline_bytes) {
  writer_.AddHello({owner->incarnation(), expected, owner->options().task,
                    owner->address()});
}

void GrpcLink::Open() {
  const TlsFiles& tls = transport_->grpc_options_.tls;
  const auto channel = grpc::CreateCustomChannel(BestAddress(address_, tls),
                                                 transport_->credentials_,
                                                 CommonChannelArguments(tls));
  auto stream = std::make_shared<ClientStream>(transport_, channel,
                                               transport_->port_->queue());
  stream->SetLink(std::static_pointer_cast<GrpcLink>(shared_from_this()));
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_ || !transport_->AddStream(stream.get())) return;
  out_ = stream;
  writing_ = true;
  // (The hello is a separate frame, so that it is sent whatever happens to the
  // rest.)
  if (!writer_.empty()) frames_.push_back(writer_.Take());
  stream->Call();
}

bool GrpcLink::Attach(const std::shared_ptr<GrpcStream>& stream) {
  std::lock_guard<std::mutex> lock(mu_);
  if (accepted_ != nullptr || closed_) return false;
  accepted_ = stream;
  // Peers that connected to us receive our messages over their own call.
  if (out_ == nullptr && address_.empty()) {
    out_ = stream;
    Flush();
  }
  return true;
}

Status GrpcLink::SendTokens(uint64_t step, uint32_t partition,
                            std::span<TokenMessage> batch) {
  bool drop = false;
  SLUICE_RETURN_IF_ERROR(Failpoint(&drop));
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_) return Unavailable(Describe(), " is lost");
  SLUICE_RETURN_IF_ERROR(writer_.AddTokens(step, partition, batch).status());
  if (drop && !writer_.empty()) (void)writer_.Take();
  Flush();
  return OkStatus();
}

Status GrpcLink::SendControl(uint8_t kind, std::string_view bytes) {
  bool drop = false;
  SLUICE_RETURN_IF_ERROR(Failpoint(&drop));
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_) return Unavailable(Describe(), " is lost");
  SLUICE_RETURN_IF_ERROR(writer_.AddControl(kind, bytes));
  if (drop) (void)writer_.Take();
  Flush();
  return OkStatus();
}

Status GrpcLink::Failpoint(bool* drop) {
  const FailpointHit hit = SLUICE_FAILPOINT("grpc.write");
  *drop = hit.drop();
  return hit.error;
}

void GrpcLink::OnHello(const std::string& address) {
  if (!transport_->shares_) return;
  std::lock_guard<std::mutex> lock(mu_);
  if (ring_ == nullptr) mailbox_ = RingMailboxAt(address);
}

void GrpcLink::SendRoomNotice() {
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_) return;
  // (Any frame would serve.)
  if (writer_.empty()) writer_.AddHeartbeat();
  Flush();
}

void GrpcLink::Resume() {
  std::lock_guard<std::mutex> lock(mu_);
  Flush();
}

void GrpcLink::SendHeartbeat() {
  const FailpointHit hit = SLUICE_FAILPOINT("grpc.heartbeat");
  if (hit.drop() || !hit.error.ok()) return;
  std::lock_guard<std::mutex> lock(mu_);
  // A pending write already serves as a heartbeat, or the peer is not reading.
  if (closed_ || writing_ || out_ == nullptr) return;
  writer_.AddHeartbeat();
  Flush();
}

void GrpcLink::OnWritten(GrpcStream* stream) {
  std::lock_guard<std::mutex> lock(mu_);
  if (stream != out_.get()) return;
  writing_ = false;
  Flush();
}

bool GrpcLink::HasUnsent() {
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_) return false;
  return (writing_ && out_ != nullptr) || !writer_.empty() ||
         !frames_.empty() || !bodies_.empty();
}

void GrpcLink::Flush() {
  if (writer_.bytes() > kFrameBytes) frames_.push_back(writer_.Take());
  if (writing_ || closed_ || out_ == nullptr) return;
  grpc::ByteBuffer message;
  if (!NextMessage(&message)) return;
  writing_ = true;
  if (!out_->Write(std::move(message))) closed_ = true;
}

bool GrpcLink::OfferRing(grpc::ByteBuffer* message) {
  if (mailbox_.empty()) return false;
  const std::string to = std::exchange(mailbox_, "");
  const FailpointHit hit = SLUICE_FAILPOINT("grpc.offer_memory");
  if (hit.drop() || !hit.error.ok()) return false;
  int fd = -1;
  Result<std::unique_ptr<RingWriter>> ring = RingWriter::Make(&fd);
  if (!ring.ok()) return false;
  const RingToken token = NewRingToken();
  const Status sent = transport_->mailbox_.Send(to, token, fd);
  close(fd);
  // (Many peers may offer a ring at the same moment: retry with the next body.)
  if (sent.code() == StatusCode::kResourceExhausted) mailbox_ = to;
  if (!sent.ok()) return false;
  ring_ = *std::move(ring);
  const grpc::Slice slices[] = {
      grpc::Slice(kRingMagic, 4, grpc::Slice::STATIC_SLICE),
      grpc::Slice(token.data(), sizeof(token))};
  *message = grpc::ByteBuffer(slices, 2);
  return true;
}

bool GrpcLink::NextPiece(grpc::ByteBuffer* message) {
  const WireBody& body = bodies_.front();
  const std::string_view rest = body.bytes().substr(body_offset_);
  size_t n = 0;
  if (ring_ != nullptr && ring_->accepted()) {
    // (Set before asking for room, because the answer may arrive at once.)
    starved_.store(true);
    n = ring_->Put(rest);
    if (n == 0) return false;
    starved_.store(false);
    counters->bytes_shared.fetch_add(static_cast<int64_t>(n),
                                     std::memory_order_relaxed);
    const uint32_t count = static_cast<uint32_t>(n);
    const grpc::Slice slices[] = {
        grpc::Slice(kPieceMagic, 4, grpc::Slice::STATIC_SLICE),
        grpc::Slice(&count, sizeof(count))};
    *message = grpc::ByteBuffer(slices, 2);
  } else {
    n = std::min(kPiece, rest.size());
    const grpc::Slice slices[] = {
        grpc::Slice(kBodyMagic, 4, grpc::Slice::STATIC_SLICE),
        SliceOf(body, body_offset_, n)};
    *message = grpc::ByteBuffer(slices, 2);
  }
  counters->bytes_sent.fetch_add(static_cast<int64_t>(n),
                                 std::memory_order_relaxed);
  body_offset_ += n;
  if (n == rest.size()) {
    bodies_.pop_front();
    body_offset_ = 0;
  }
  return true;
}

bool GrpcLink::NextMessage(grpc::ByteBuffer* message) {
  if (frames_.empty() && !writer_.empty()) frames_.push_back(writer_.Take());
  if (!frames_.empty()) {
    OutgoingFrame frame = std::move(frames_.front());
    frames_.pop_front();
    counters->bytes_sent.fetch_add(static_cast<int64_t>(frame.bytes.size()),
                                   std::memory_order_relaxed);
    for (WireBody& b : frame.bodies) {
      // A slice refers to a tensor's memory.
      if (!b.owned.empty()) {
        b.tensor = Held(std::move(b.owned));
        b.owned.clear();
      }
      bodies_.push_back(std::move(b));
    }
    counters->frames_sent.fetch_add(1, std::memory_order_relaxed);
    counters->tokens_sent.fetch_add(frame.tokens, std::memory_order_relaxed);
    const grpc::Slice slice = SliceOf(std::move(frame.bytes));
    *message = grpc::ByteBuffer(&slice, 1);
    return true;
  }
  if (bodies_.empty()) return false;
  return OfferRing(message) || NextPiece(message);
}

void GrpcLink::Close() {
  std::shared_ptr<GrpcStream> out, accepted;
  {
    std::lock_guard<std::mutex> lock(mu_);
    closed_ = true;
    out.swap(out_);
    accepted.swap(accepted_);
    bodies_.clear();
    frames_.clear();
    mailbox_.clear();
    ring_.reset();
  }
  (void)SLUICE_FAILPOINT("grpc.close");
  const Status why = Unavailable("the peer closed the connection");
  if (out != nullptr) out->Close(why);
  if (accepted != nullptr) accepted->Close(why);
}

}  // namespace sluice
