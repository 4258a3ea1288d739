// The receiving side, under the worker's lock.
#if SLUICE_HAVE_UCX

#include <cstring>

#include "cluster/transport/ucx/link.h"

namespace sluice {

std::shared_ptr<UcxLink> UcxTransport::AcceptHello(const UcxEnvelope& envelope,
                                                   const Hello& hello) {
  const FailpointHit hit = SLUICE_FAILPOINT("ucx.accept");
  const bool wrong = hello.expected != 0 && hello.expected != incarnation();
  if (!hit.error.ok() || hit.drop() || wrong) {
    // Refuse the sender, over a connection made only for this.
    if (!GoodAddress(hello.address)) return nullptr;
    Result<ucp_ep_h> endpoint = MakeEndpoint(hello.address, nullptr);
    if (!endpoint.ok()) return nullptr;
    UcxEnvelope answer;
    answer.kind = UcxEnvelope::kRefuse;
    answer.to = envelope.from;
    answer.from = incarnation();
    answer.connection = envelope.connection;
    SendBare(*endpoint, answer);
    CloseEndpoint(*endpoint);
    return nullptr;
  }
  std::shared_ptr<Link> answered;
  if (envelope.answers != 0) {
    for (const std::shared_ptr<Link>& l : LiveLinks())
      if (static_cast<UcxLink*>(l.get())->connection_ == envelope.answers &&
          l->task == hello.task)
        answered = l;
    if (answered == nullptr) return nullptr;
    (void)SLUICE_FAILPOINT("ucx.answered");
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto link =
        std::static_pointer_cast<UcxLink>(Accept(hello, answered.get()));
    if (link == nullptr) return nullptr;
    if (link->incoming_ == 0 || link->incoming_ == envelope.connection) {
      link->incoming_ = envelope.connection;
      if (link->accepted_) link->answers_ = envelope.connection;
      incoming_[{envelope.from, envelope.connection}] = link;
      FlushLink(link.get());
      return link;
    }
    // The peer reconnects before we noticed that its first connection is gone.
    incoming_.erase({envelope.from, link->incoming_});
    Lose(link.get(), Unavailable(link->Describe(), " connected again"));
  }
  return nullptr;
}

std::shared_ptr<UcxLink> UcxTransport::Sender(
    const UcxEnvelope& envelope) const {
  const auto it = incoming_.find({envelope.from, envelope.connection});
  return it == incoming_.end() ? nullptr : it->second;
}

void UcxTransport::Received(const UcxEnvelope& envelope, std::string_view bytes,
                            std::vector<IncomingBody*>* bodies,
                            std::shared_ptr<UcxLink>* link) {
  *link = Sender(envelope);
  Result<IncomingFrame> frame = ParseFrame(bytes, {options().max_tensor_bytes});
  const FailpointHit hit = SLUICE_FAILPOINT("ucx.read");
  if (hit.drop()) return;
  if (frame.ok() && !hit.error.ok()) frame = hit.error;
  if (frame.ok() && *link == nullptr && !frame->records.empty())
    if (const Hello* hello = std::get_if<Hello>(&frame->records[0]))
      if (hello->incarnation == envelope.from)
        *link = AcceptHello(envelope, *hello);
  // Ignore messages from unknown or lost peers.
  if (*link == nullptr) return;
  Status s = frame.status();
  if (s.ok()) {
    (*link)->Heard();
    counters()->frames_received.fetch_add(1, std::memory_order_relaxed);
    s = (*link)->inbox.Add(*std::move(frame), bodies);
    if (s.ok() && envelope.kind == UcxEnvelope::kFrame && !bodies->empty())
      s = InvalidArgument("frame on the wire: expected no body, got ",
                          bodies->size());
  }
  if (!s.ok()) {
    Fail(link->get(), Annotate(s, absl::StrCat("from ", (*link)->Describe())));
    return;
  }
  Ready(*link);
}

ucs_status_t UcxTransport::OnMessage(void* arg, const void* header, size_t size,
                                     void* data, size_t length,
                                     const ucp_am_recv_param_t* param) {
  auto* const self = static_cast<UcxTransport*>(arg);
  const bool later = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const std::optional<UcxHeader> came =
      ReadUcxHeader({static_cast<const char*>(header), size}, length);
  if (!came.has_value()) return UCS_OK;
  const UcxEnvelope& envelope = came->envelope;
  self->counters()->bytes_received.fetch_add(
      static_cast<int64_t>(came->frame.size() + length),
      std::memory_order_relaxed);
  const std::shared_ptr<UcxLink> sender = self->Sender(envelope);
  if (!came->wrong.ok()) {
    // (Otherwise a step would wait for a value that never arrives.)
    if (sender != nullptr)
      self->Fail(
          sender.get(),
          Annotate(came->wrong, absl::StrCat("from ", sender->Describe())));
    return UCS_OK;
  }
  if (envelope.kind == UcxEnvelope::kClose) {
    if (sender != nullptr)
      self->Lose(sender.get(),
                 Unavailable(sender->Describe(), " closed the connection"));
    return UCS_OK;
  }
  if (envelope.kind == UcxEnvelope::kRefuse) {
    for (const std::shared_ptr<Link>& l : self->LiveLinks()) {
      auto* const link = static_cast<UcxLink*>(l.get());
      if (envelope.to == self->incarnation() &&
          link->connection_ == envelope.connection)
        self->Lose(
            link,
            Aborted(link->Describe(), " was restarted: expected incarnation ",
                    link->incarnation.load(), ", got ", envelope.from));
    }
    return UCS_OK;
  }

  std::shared_ptr<UcxLink> link;
  std::vector<IncomingBody*> bodies;
  if (envelope.kind == UcxEnvelope::kFrame && !later) {
    self->Received(envelope, {static_cast<const char*>(data), length}, &bodies,
                   &link);
    return UCS_OK;
  }
  if (sender == nullptr) return UCS_OK;  // Ignore unknown senders.
  auto op = std::make_unique<ReceiveOp>();
  op->transport = self;
  op->envelope = envelope;
  char* to = nullptr;
  if (envelope.kind == UcxEnvelope::kFrame) {
    op->frame.resize(length);
    to = op->frame.data();
  } else {
    self->Received(envelope, came->frame, &bodies, &link);
    if (link == nullptr || bodies.empty()) return UCS_OK;
    const Result<char*> buffer = UcxBodyBuffer(bodies, length);
    if (!buffer.ok()) {
      self->Fail(link.get(), Annotate(buffer.status(),
                                      absl::StrCat("from ", link->Describe())));
      return UCS_OK;
    }
    to = *buffer;
    op->link = link;
    op->body = bodies[0];
    if (!later) {
      std::memcpy(to, data, length);
      const Status s = link->inbox.BodyDone(op->body);
      if (!s.ok()) self->Fail(link.get(), s);
      return UCS_OK;
    }
  }
  ucp_request_param_t receive = {};
  receive.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                         UCP_OP_ATTR_FIELD_USER_DATA |
                         UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  receive.cb.recv_am = [](void* request, ucs_status_t s, size_t, void* user) {
    const std::unique_ptr<ReceiveOp> done(static_cast<ReceiveOp*>(user));
    UcxTransport* const t = done->transport;
    --t->operations_;
    t->receives_.erase(done.get());
    ucp_request_free(request);
    std::shared_ptr<UcxLink> l = done->link;
    Status status = s == UCS_OK ? OkStatus() : FromUcs(s, "large value");
    if (status.ok() && done->body == nullptr) {
      std::vector<IncomingBody*> none;
      t->Received(done->envelope, done->frame, &none, &l);
    } else if (status.ok()) {
      l->Heard();
      status = l->inbox.BodyDone(done->body);
      t->Ready(l);
    }
    if (!status.ok() && l != nullptr)
      t->Fail(l.get(), Annotate(status, absl::StrCat("from ", l->Describe())));
  };
  receive.user_data = op.get();
  ++self->operations_;
  const ucs_status_ptr_t r =
      ucp_am_recv_data_nbx(self->worker_, data, to, length, &receive);
  if (UCS_PTR_IS_ERR(r)) {
    --self->operations_;
    if (link != nullptr)
      self->Fail(link.get(), FromUcs(UCS_PTR_STATUS(r), "large value"));
    return UCS_OK;
  }
  self->receives_.insert(op.release());
  return UCS_INPROGRESS;
}

}  // namespace sluice

#endif
