// Transport: the data plane between the tasks of a cluster. It carries the
// tokens of steps and small control messages, in batches, to peers.
#ifndef SLUICE_CLUSTER_TRANSPORT_TRANSPORT_H_
#define SLUICE_CLUSTER_TRANSPORT_TRANSPORT_H_

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "exec/core/rendezvous.h"

namespace sluice {

// A transport's number for a peer. Denotes one connection to one incarnation of
// a task. Numbers are never reused, so a message to a lost peer cannot reach
// its successor.
using PeerId = uint32_t;

// How to reach a task. `address` is its Transport::address(), for gRPC also
// "host:port".
struct PeerAddress {
  std::string task;     // "/job:worker/replica:0/task:1", also in messages.
  std::string address;  // Bytes; "" if the peer connects to us.
  uint64_t incarnation = 0;  // Transport::incarnation(); 0: any.
};

// Receives messages. Outlives the transport (or its Shutdown). Called by the
// transport's threads, and for peers in the same process by the sending thread,
// so do not send while holding a lock that a handler takes. At most one
// OnTokens or OnControl per peer runs at a time; calls for different peers may
// overlap. A call may drive an execution to its end; reading, writing and
// heartbeats continue meanwhile.
class TransportHandler {
 public:
  virtual ~TransportHandler() = default;
  // May move the values out.
  virtual void OnTokens(PeerId from, uint64_t step, uint32_t partition,
                        std::span<TokenMessage> batch) = 0;
  virtual void OnControl(PeerId from, uint8_t kind, std::string_view bytes) = 0;
  // Called once for each peer that was connected or connecting; never after
  // Disconnect or Shutdown. `why` names the task. No delivery from the peer
  // begins after it, but one that has begun may still be running on another
  // thread.
  virtual void OnPeerLost(PeerId peer, const Status& why) = 0;
};

struct TransportOptions {
  std::string task;          // Our own name.
  uint64_t incarnation = 0;  // 0: random.
  // A peer that is silent for this long is lost. Heartbeats are sent at a fifth
  // of this interval.
  std::chrono::milliseconds peer_timeout{5000};
  // Plain tensors larger than this are sent beside their message, uncopied.
  size_t inline_bytes = 64 << 10;
  // The limit on what a peer can make us allocate for one tensor.
  int64_t max_tensor_bytes = int64_t{16} << 30;
  // Call peers in this process directly. (Tests turn it off.)
  bool local_shortcut = true;
};

struct TransportStats {
  int64_t frames_sent = 0, frames_received = 0;
  int64_t tokens_sent = 0, tokens_received = 0;
  int64_t bytes_sent = 0, bytes_received = 0;
  int64_t peers_lost = 0;
  int64_t bytes_shared = 0;  // Sent through shared memory.
};

// One per task (a process may have several tasks). Thread-safe.
//
// Order: between two peers, control messages act as barriers. No control
// message overtakes an earlier token or control message, and no token overtakes
// an earlier control message. Tokens between two control messages may be
// reordered (their keys identify them), so that small ones do not wait behind
// large ones.
//
// Sending never blocks: messages that cannot be sent now are queued and sent
// together as one frame as soon as possible. It moves the values out. An error
// means that the message will not arrive: Unavailable for a lost peer,
// InvalidArgument for a value that cannot be sent (a resource, or a variant
// other than lists and optionals). An accepted message arrives, or OnPeerLost
// is called.
class Transport {
 public:
  virtual ~Transport() = default;

  // Called first, once. `handler` outlives the transport's Shutdown.
  virtual Status Start(TransportHandler* handler) = 0;
  // Drops all peers without OnPeerLost and waits for running handlers (so it
  // must not be called from one). Also called by the destructor.
  virtual void Shutdown() = 0;

  // The address for peers to connect to. Valid after Start.
  virtual std::string address() const = 0;
  virtual uint64_t incarnation() const = 0;

  // Starts connecting and returns at once; sending may begin. If we are already
  // connected to this incarnation of the task, in either direction, returns the
  // existing peer. A peer that connects to us gets its number at its first
  // message.
  virtual Result<PeerId> Connect(const PeerAddress& peer) = 0;
  // Drops a peer because of `why`; the peer sees us as lost.
  virtual void Disconnect(PeerId peer, const Status& why) = 0;
  // OK for a connected peer, else why it is lost. Set before OnPeerLost is
  // called, and kept forever; the reason and the name are kept only for the
  // latest kMaxLostPeers peers.
  virtual Status Lost(PeerId peer) const = 0;
  // Also for lost peers. "" for a number that was never assigned.
  virtual std::string TaskOf(PeerId peer) const = 0;
  virtual uint64_t IncarnationOf(PeerId peer) const = 0;

  virtual Status SendTokens(PeerId to, uint64_t step, uint32_t partition,
                            std::span<TokenMessage> batch) = 0;
  // At most kMaxControlBytes.
  virtual Status SendControl(PeerId to, uint8_t kind,
                             std::string_view bytes) = 0;

  // True if a handler may run for long, because another thread then takes over.
  virtual bool HandlersMayTakeLong() const { return false; }

  // Messages that were accepted wait to be sent.
  virtual bool HasUnsent() const { return false; }

  virtual TransportStats stats() const = 0;
};

inline constexpr size_t kMaxControlBytes = 16 << 20;
inline constexpr size_t kMaxLostPeers = 1024;

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_TRANSPORT_H_
