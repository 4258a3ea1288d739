// The part of Execution for steps with several partitions: tokens to and from
// other partitions.
#include <utility>

#include "base/failpoint.h"
#include "exec/core/executor.h"

namespace sluice {

void Execution::Receive(std::span<TokenMessage> batch) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!started_.load(std::memory_order_acquire)) return;  // The step is over.
    received_ += batch.size();
    inbox_.insert(inbox_.end(), std::make_move_iterator(batch.begin()),
                  std::make_move_iterator(batch.end()));
    attention_.store(true, std::memory_order_release);
    if (driving_ || quiet_) return;
    driving_ = true;
  }
  Drive();
}

// Before the value is sent: that may run other partitions for long.
void Execution::AddTransfer(TraceEvent::Kind kind, Ready r, uint32_t edge,
                            const Tensor& value) {
  const Node& node = *r.node->node;
  const std::string to = node.AttrOr<std::string>("recv_device", "");
  const std::string from = node.AttrOr<std::string>("send_device", "");
  const TokenTag tag = Tokens::TagOf(r);
  TraceEvent e;
  e.kind = kind;
  e.start_ns = NowNs();
  e.node = node.name();
  e.op = node.op_name();
  e.thread = TraceThreadId();
  e.frame = r.iteration->frame->plan->name;
  e.iteration = r.iteration->index;
  e.tensor = node.AttrOr<std::string>("tensor_name", "");
  e.device = kind == TraceEvent::kSend ? from : to;
  e.peer = kind == TraceEvent::kSend ? to : from;
  e.transfer = TransferNumber(to, edge, tag.frame, tag.iteration);
  if (value.valid())
    e.outputs.push_back(
        {value.dtype(), value.shape(), static_cast<int64_t>(value.bytes())});
  e.end_ns = NowNs();
  options_.trace->Add(std::move(e));
}

void Execution::Send(Ready r, bool dead, const Tensor* read) {
  const PlanNode& n = *r.node;
  const PlanSend& to = plan_->sends[n.aux];
  const TokenTag tag = Tokens::TagOf(r);
  if (const FailpointHit hit = SLUICE_FAILPOINT("rendezvous.send");
      !hit.error.ok()) {
    Fail(&r, hit.error);
    return;
  }
  if (!dead) {
    TokenMessage m{to.edge, false, false, tag, Tensor()};
    if (n.num_inputs > 0) m.value = tokens_.Input(r, 0, read);
    if (options_.trace != nullptr) [[unlikely]]
      AddTransfer(TraceEvent::kSend, r, to.edge, m.value);
    // The slot is released first, so that the receiver may own the buffer.
    tokens_.Complete(r);
    options_.outbox->Send(to.destination, std::move(m));
    return;
  }
  tokens_.Complete(r);
  if (to.leads_group)
    options_.outbox->Send(to.destination,
                          {to.group, true, true, tag, Tensor()});
}

// A Recv starts even if its control inputs are dead: its Send is then dead too.
bool Execution::Recv(Ready r) {
  TokenMessage m;
  switch (rendezvous_.Await(r.node->aux, Tokens::TagOf(r), r, &m)) {
    case Rendezvous::Outcome::kStored:
      return true;
    case Rendezvous::Outcome::kMatched:
      return Received(r, m);
    case Rendezvous::Outcome::kRepeated:
      break;
  }
  return Fail(&r, Internal("transfer: expected one Recv of each edge, frame "
                           "and iteration, got a second of edge ",
                           r.node->aux));
}

bool Execution::Received(Ready r, TokenMessage& m) {
  if (const FailpointHit hit = SLUICE_FAILPOINT("rendezvous.recv");
      !hit.error.ok())
    return Fail(&r, hit.error);
  if (m.dead) {
    tokens_.CompleteDead(r);
    return true;
  }
  if (options_.trace != nullptr) [[unlikely]]
    AddTransfer(TraceEvent::kReceive, r, r.node->aux, m.value);
  if (r.node->num_outputs > 0) {
    const DType want = RemoveRef(r.node->node->output_type(0));
    if (!m.value.valid() || m.value.dtype() != want)
      return Fail(&r, Internal("transfer: expected a token of ",
                               DTypeName(want), ", got ", m.value.ToString()));
    *Tokens::OutputSlots(r) = std::move(m.value);
  }
  tokens_.Complete(r);
  return true;
}

// A token, or the dead token of a group, has come for one edge.
void Execution::ArrivedAt(uint32_t edge, TokenMessage& m) {
  Ready r;
  switch (rendezvous_.Arrive(edge, m, &r)) {
    case Rendezvous::Outcome::kStored:
      return;
    case Rendezvous::Outcome::kMatched:
      Received(r, m);
      return;
    case Rendezvous::Outcome::kRepeated:
      break;
  }
  std::string recv;
  for (const PlanNode& n : plan_->nodes)
    if (n.role == OpRole::kRecv && n.aux == edge)
      recv = absl::StrCat("; ", n.node->Describe());
  Fail(nullptr, Internal("transfer: expected one token for each edge, frame "
                         "and iteration, got a second for edge ",
                         edge, recv));
}

void Execution::Arrived(TokenMessage& m) {
  if (!m.group) {
    if (m.edge >= plan_->num_edges_in) {
      Fail(nullptr, Internal("transfer: expected one of ", plan_->num_edges_in,
                             " edges, got ", m.edge));
    } else {
      ArrivedAt(m.edge, m);
    }
    return;
  }
  if (m.edge >= plan_->dead_groups.size()) {
    Fail(nullptr, Internal("transfer: expected one of ",
                           plan_->dead_groups.size(), " groups, got ", m.edge));
    return;
  }
  for (const uint32_t edge : plan_->dead_groups[m.edge])
    if (status_.ok()) ArrivedAt(edge, m);
}

size_t Execution::UnconsumedTokens() {
  std::lock_guard<std::mutex> lock(mu_);
  return rendezvous_.parked() + inbox_.size();
}

}  // namespace sluice
