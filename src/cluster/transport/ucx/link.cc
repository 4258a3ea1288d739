#if SLUICE_HAVE_UCX

#include "cluster/transport/ucx/link.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace sluice {

UcxLink::UcxLink(UcxTransport* owner, PeerId id, std::string task,
                 std::string address, uint64_t expected, bool accepted)
    : Link(owner, id, std::move(task)),
      transport_(owner),
      address_(std::move(address)),
      connection_(owner->next_connection_.fetch_add(1)),
      writer_(owner->options().inline_bytes),
      pid_(owner->LocalPid(address_)),
      pidfd_(pid_ != 0 ? static_cast<int>(syscall(SYS_pidfd_open, pid_, 0))
                       : -1),
      accepted_(accepted) {
  writer_.AddHello({owner->incarnation(), expected, owner->options().task,
                    owner->address()});
  // A separate frame, small enough that its data arrives with it: a receiver
  // that does not know the connection yet does not fetch data.
  frames_.push_back(writer_.Take());
}

UcxLink::~UcxLink() {
  if (pidfd_ >= 0) close(pidfd_);
}

bool UcxLink::ProcessEnded() const {
  if (pid_ == 0) return false;
  // (kill also succeeds for zombies.)
  if (pidfd_ < 0) return kill(pid_, 0) != 0 && errno == ESRCH;
  pollfd end = {pidfd_, POLLIN, 0};
  return poll(&end, 1, 0) > 0;
}

void UcxLink::Open() {
  transport_->SendQueued(std::static_pointer_cast<UcxLink>(shared_from_this()));
}

Status UcxLink::Pass(bool* drop) {
  const FailpointHit hit = SLUICE_FAILPOINT("ucx.write");
  *drop = hit.drop();
  return hit.error;
}

Status UcxLink::SendTokens(uint64_t step, uint32_t partition,
                           std::span<TokenMessage> batch) {
  bool drop = false;
  SLUICE_RETURN_IF_ERROR(Pass(&drop));
  for (const TokenMessage& m : batch)
    SLUICE_RETURN_IF_ERROR(CheckSendable(m.value));
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (closed_) return Unavailable(Describe(), " is lost");
    while (!batch.empty()) {
      SLUICE_ASSIGN_OR_RETURN(
          const size_t taken,
          writer_.AddTokens(step, partition, batch, /*bodies_alone=*/true));
      batch = batch.subspan(taken);
      if (!batch.empty() || writer_.has_body() ||
          writer_.bytes() > kUcxFrameBytes)
        frames_.push_back(writer_.Take());
    }
    if (drop && !writer_.empty()) (void)writer_.Take();
  }
  transport_->SendQueued(std::static_pointer_cast<UcxLink>(shared_from_this()));
  return OkStatus();
}

Status UcxLink::SendControl(uint8_t kind, std::string_view bytes) {
  bool drop = false;
  SLUICE_RETURN_IF_ERROR(Pass(&drop));
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (closed_) return Unavailable(Describe(), " is lost");
    SLUICE_RETURN_IF_ERROR(writer_.AddControl(kind, bytes));
    if (drop) (void)writer_.Take();
    if (writer_.bytes() > kUcxFrameBytes) frames_.push_back(writer_.Take());
  }
  transport_->SendQueued(std::static_pointer_cast<UcxLink>(shared_from_this()));
  return OkStatus();
}

void UcxLink::SendHeartbeat() {
  const FailpointHit hit = SLUICE_FAILPOINT("ucx.heartbeat");
  if (hit.drop() || !hit.error.ok()) return;
  const Status stuck = inbox.CheckGap(owner->options().peer_timeout);
  if (!stuck.ok()) {
    owner->Lose(this, Annotate(stuck, absl::StrCat("from ", Describe())));
    return;
  }
  // Shared memory does not report that the peer is gone.
  if (ProcessEnded()) {
    owner->Lose(this, Unavailable(Describe(), ": process ", pid_, " ended"));
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mu_);
    // Do not queue heartbeats for a peer that does not receive.
    if (closed_ || !frames_.empty()) return;
    writer_.AddHeartbeat();
  }
  transport_->SendQueued(std::static_pointer_cast<UcxLink>(shared_from_this()));
}

bool UcxLink::HasUnsent() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (closed_) return false;
    if (!writer_.empty() || !frames_.empty()) return true;
  }
  std::lock_guard<std::mutex> lock(transport_->worker_mu_);
  return under_way_ > 0;
}

void UcxLink::SendAll() {
  std::lock_guard<std::mutex> lock(transport_->worker_mu_);
  transport_->FlushLink(this, SIZE_MAX);
}

void UcxLink::Close() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    closed_ = true;
    frames_.clear();
  }
  (void)SLUICE_FAILPOINT("ucx.close");
  {
    std::lock_guard<std::mutex> lock(transport_->worker_mu_);
    transport_->incoming_.erase({incarnation.load(), incoming_});
    // (A lost peer's link may be closed after Shutdown.)
    if (endpoint_ == nullptr || transport_->worker_ == nullptr) return;
    // (Best effort: a dead peer does not receive it.)
    UcxEnvelope envelope;
    envelope.kind = UcxEnvelope::kClose;
    envelope.to = incarnation.load();
    envelope.from = owner->incarnation();
    envelope.connection = connection_;
    transport_->SendBare(endpoint_, envelope);
    transport_->CloseEndpoint(std::exchange(endpoint_, nullptr));
  }
  transport_->Wake();
}

}  // namespace sluice

#endif
