// Declarations shared by the files of UcxTransport. Built only with UCX.
#ifndef SLUICE_CLUSTER_TRANSPORT_UCX_LINK_H_
#define SLUICE_CLUSTER_TRANSPORT_UCX_LINK_H_

#include <ucp/api/ucp.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/failpoint.h"
#include "cluster/transport/reader_team.h"
#include "cluster/transport/transport_base.h"
#include "cluster/transport/ucx/envelope.h"
#include "cluster/transport/ucx/transport.h"

namespace sluice {

// The start of UcxTransport::address(); UCX's own bytes follow.
struct UcxAddressHeader {
  uint64_t checksum = 0;  // Covers the rest; detects accidental changes only.
  uint64_t host = 0;      // Equal if processes can share memory.
  uint64_t pid = 0;
};
inline constexpr unsigned kUcxMessageId = 17;
// A queued frame grows up to this size.
inline constexpr size_t kUcxFrameBytes = 1 << 20;
// Frames are queued once this many bytes of them are in flight to a peer,
// because UCX would buffer each one separately, at about a kilobyte, for a peer
// that does not receive. (A body is a tensor, of which UCX keeps no copy: it is
// queued with its frame, but its bytes do not count.)
inline constexpr size_t kUcxWindow = 1 << 20;

inline Status FromUcs(ucs_status_t s, const char* what) {
  return Unavailable("UCX: ", what, ": ", ucs_status_string(s));
}

class UcxTransport;

class UcxLink final : public Link {
 public:
  // `accepted`: the peer connected to us.
  UcxLink(UcxTransport* owner, PeerId id, std::string task, std::string address,
          uint64_t expected, bool accepted);
  ~UcxLink() override;

  void Open() override;
  Status SendTokens(uint64_t step, uint32_t partition,
                    std::span<TokenMessage> batch) override;
  Status SendControl(uint8_t kind, std::string_view bytes) override;
  void SendHeartbeat() override;
  void SendAll() override;
  bool HasUnsent() override;
  void Close() override;

 private:
  friend class UcxTransport;
  Status Pass(bool* drop);
  bool ProcessEnded() const;

  UcxTransport* const transport_;
  const std::string address_;
  const uint64_t connection_;
  std::mutex mu_;
  FrameWriter writer_;                // GUARDED_BY(mu_)
  std::deque<OutgoingFrame> frames_;  // GUARDED_BY(mu_)
  bool closed_ = false;               // GUARDED_BY(mu_)
  // For a process on this machine; else 0.
  const int pid_;
  const int pidfd_;  // -1 if none.
  const bool accepted_;
  // The worker's lock guards these.
  ucp_ep_h endpoint_ = nullptr;
  uint64_t incoming_ = 0;  // The peer's number for its connection.
  uint64_t answers_ = 0;   // The same if accepted_, for UcxEnvelope.
  bool ready_ = false;     // In the transport's ready_.
  size_t under_way_ = 0;   // Bytes of messages, without bodies.
};

// Lock order: worker_mu_, then the lock of the table of peers or of a link.
class UcxTransport final : public TransportBase {
 public:
  explicit UcxTransport(UcxTransportOptions options)
      : TransportBase(options), ucx_options_(std::move(options)) {}
  ~UcxTransport() override { Shutdown(); }
  std::string address() const override { return address_; }
  bool HandlersMayTakeLong() const override { return true; }

 protected:
  // (The whole address is specific to one process.)
  std::string PlaceOf(const std::string&) const override { return ""; }
  Status StartNetwork() override;
  void StopNetwork() override;
  Result<std::shared_ptr<Link>> Dial(PeerId id,
                                     const PeerAddress& peer) override {
    const FailpointHit hit = SLUICE_FAILPOINT("ucx.connect");
    SLUICE_RETURN_IF_ERROR(hit.error);
    if (!GoodAddress(peer.address))
      return InvalidArgument("task '", peer.task,
                             "': expected the address that its UCX transport "
                             "gave, got ",
                             peer.address.size(), " bytes of another kind");
    return std::make_shared<UcxLink>(this, id, peer.task, peer.address,
                                     peer.incarnation, /*accepted=*/false);
  }
  std::shared_ptr<Link> MakeLink(PeerId id, const Hello& hello) override {
    if (!GoodAddress(hello.address)) return nullptr;
    return std::make_shared<UcxLink>(this, id, hello.task, hello.address,
                                     hello.incarnation, /*accepted=*/true);
  }

 private:
  friend class UcxLink;
  using Key = std::pair<uint64_t, uint64_t>;  // Incarnation, connection.
  struct SendOp {
    UcxTransport* transport;
    std::shared_ptr<UcxLink> link;
    std::string header;
    OutgoingFrame frame;
    size_t bytes() const {
      return sizeof(*this) + header.size() + frame.bytes.size();
    }
  };
  struct ReceiveOp {
    UcxTransport* transport;
    std::shared_ptr<UcxLink> link;  // Null: of the incoming frame.
    UcxEnvelope envelope;
    std::string frame;
    IncomingBody* body = nullptr;
  };

  static bool GoodAddress(std::string_view address);
  // The process ID, if memory can be shared with the process; else 0.
  int LocalPid(std::string_view address) const;
  static ucs_status_t OnMessage(void* self, const void* header, size_t size,
                                void* data, size_t length,
                                const ucp_am_recv_param_t* param);
  // All below REQUIRE that worker_mu_ is held.
  bool EnsureEndpoint(UcxLink* link);
  Result<ucp_ep_h> MakeEndpoint(std::string_view address, void* user);
  void FlushLink(UcxLink* link, size_t window = kUcxWindow);
  void Send(UcxLink* link, UcxEnvelope envelope, OutgoingFrame frame);
  void SendBare(ucp_ep_h endpoint, const UcxEnvelope& envelope);
  void CloseEndpoint(ucp_ep_h endpoint);
  void Received(const UcxEnvelope& envelope, std::string_view frame,
                std::vector<IncomingBody*>* bodies,
                std::shared_ptr<UcxLink>* link);
  // Null if the connection is not, or no longer, known.
  std::shared_ptr<UcxLink> Sender(const UcxEnvelope& envelope) const;
  std::shared_ptr<UcxLink> AcceptHello(const UcxEnvelope& envelope,
                                       const Hello& hello);
  void Ready(const std::shared_ptr<UcxLink>& link);
  void Fail(UcxLink* link, const Status& why);

  // Those below are called without worker_mu_.
  // Sends what the link has queued: now, unless another thread holds the
  // worker, which then sends it.
  void SendQueued(const std::shared_ptr<UcxLink>& link);
  // Lets the next turn send what the link has queued.
  void SendLater(std::shared_ptr<UcxLink> link);
  void Wake();
  // Polls the network once and delivers what has arrived. True if anything has.
  bool Turn();
  void Read(ReaderTeam::Turn& turn);

  const UcxTransportOptions ucx_options_;
  std::string address_;  // Constant after Start.
  ucp_context_h context_ = nullptr;
  std::mutex worker_mu_;
  ucp_worker_h worker_ = nullptr;                     // GUARDED_BY(worker_mu_)
  std::map<Key, std::shared_ptr<UcxLink>> incoming_;  // GUARDED_BY(worker_mu_)
  std::vector<std::shared_ptr<UcxLink>> ready_;       // GUARDED_BY(worker_mu_)
  int operations_ = 0;                                // GUARDED_BY(worker_mu_)
  // Pending operations. GUARDED_BY(worker_mu_)
  std::set<SendOp*> sends_;
  std::set<ReceiveOp*> receives_;
  int event_fd_ = -1, wake_fd_ = -1;  // Constant after Start.

  std::mutex dirty_mu_;
  std::vector<std::shared_ptr<UcxLink>> dirty_;  // GUARDED_BY(dirty_mu_)
  std::atomic<bool> has_dirty_{false};
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> next_connection_{1};
  ReaderTeam team_;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_UCX_LINK_H_
