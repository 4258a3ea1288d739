// Transport: the data plane between the tasks of a cluster. It carries the
// tokens of steps and small control messages, in batches, to peers.
#ifndef SLUICE_DIST_TRANSPORT_H_
#define SLUICE_DIST_TRANSPORT_H_

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "exec/rendezvous.h"

namespace sluice {

// A peer as one transport counts them. Stands for one connection to one
// incarnation of a task: numbers are never used again, so what is sent to a
// peer that was lost cannot reach its successor.
using PeerId = uint32_t;

// How a task is reached. `address` is what its Transport::address() said, for
// gRPC also "host:port".
struct PeerAddress {
  std::string task;     // "/job:worker/replica:0/task:1", for messages too.
  std::string address;  // Bytes; may be empty if the peer connects to us.
  uint64_t incarnation = 0;  // Transport::incarnation(); 0: whichever answers.
};

// What comes in. Owned by whoever owns the transport and outlives it (or its
// Shutdown). Calls come from the transport's threads, and for peers in the same
// process from the thread that sends: nobody may send while holding a lock that
// a handler takes. At most one OnTokens or OnControl of a peer runs at a time;
// those of different peers may run together. A call may drive an execution to
// its end: reading, writing and the heartbeat go on meanwhile.
class TransportHandler {
 public:
  virtual ~TransportHandler() = default;
  // The values may be taken.
  virtual void OnTokens(PeerId from, uint64_t step, uint32_t partition,
                        std::span<TokenMessage> batch) = 0;
  virtual void OnControl(PeerId from, uint8_t kind, std::string_view bytes) = 0;
  // Once for each peer that was connected, or was to be; never after Disconnect
  // or Shutdown. `why` names the task. No delivery from the peer begins after
  // it, but one that had begun may still run on another thread.
  virtual void OnPeerLost(PeerId peer, const Status& why) = 0;
};

struct TransportOptions {
  std::string task;          // Who we are.
  uint64_t incarnation = 0;  // 0: a random one.
  // A peer that was not heard of for so long is lost. Heartbeats go at a fifth
  // of it.
  std::chrono::milliseconds peer_timeout{5000};
  // Plain tensors larger than this travel beside their message, uncopied.
  size_t inline_bytes = 64 << 10;
  // What a peer may make us allocate for one tensor.
  int64_t max_tensor_bytes = int64_t{16} << 30;
  // Peers in this process are called directly. (Tests turn it off.)
  bool local_shortcut = true;
};

struct TransportStats {
  int64_t frames_sent = 0, frames_received = 0;
  int64_t tokens_sent = 0, tokens_received = 0;
  int64_t bytes_sent = 0, bytes_received = 0;
  int64_t peers_lost = 0;
  int64_t bytes_shared = 0;  // Of those sent: by memory, within a machine.
};

// One per task (a process may have several, of several tasks). Thread-safe.
//
// Order. Between two peers no control overtakes a token or control that was
// sent before it, and no token overtakes a control that was sent before it.
// Tokens between two controls may overtake one another (their keys tell them
// apart): small ones do not wait behind large ones.
//
// Sending never blocks: what cannot go out now is kept, and all that is kept
// goes out as one frame as soon as it can. It takes the values. An error says
// that this message will not arrive: Unavailable for a peer that is lost,
// InvalidArgument for a value that cannot travel (a resource, or a variant of
// anything but lists and optionals). A message
// that was accepted arrives, or OnPeerLost is called.
class Transport {
 public:
  virtual ~Transport() = default;

  // Before anything else, once. `handler` outlives the transport's Shutdown.
  virtual Status Start(TransportHandler* handler) = 0;
  // Drops all peers without OnPeerLost and waits for handlers that run (so is
  // not called from one). Called by the destructor too.
  virtual void Shutdown() = 0;

  // How peers reach us. After Start.
  virtual std::string address() const = 0;
  virtual uint64_t incarnation() const = 0;

  // Begins to connect; returns at once, and sending may begin. The peer that we
  // have if we are connected to this incarnation of the task already, whoever
  // began it. A peer that connects to us gets its number at its first message.
  virtual Result<PeerId> Connect(const PeerAddress& peer) = 0;
  // Gives a peer up, for `why`; it sees us as lost.
  virtual void Disconnect(PeerId peer, const Status& why) = 0;
  // OK for a peer that is there, else why it is not. Known before OnPeerLost is
  // called, and for ever; the reason and the name of the latest kLostKept only.
  virtual Status Lost(PeerId peer) const = 0;
  // "" for a number that was never given out; also of peers that are lost.
  virtual std::string TaskOf(PeerId peer) const = 0;
  virtual uint64_t IncarnationOf(PeerId peer) const = 0;

  virtual Status SendTokens(PeerId to, uint64_t step, uint32_t partition,
                            std::span<TokenMessage> batch) = 0;
  // At most kMaxControlBytes.
  virtual Status SendControl(PeerId to, uint8_t kind,
                             std::string_view bytes) = 0;

  // True if a handler may keep the thread that calls it for long: another takes
  // its place.
  virtual bool HandlersMayTakeLong() const { return false; }

  virtual TransportStats stats() const = 0;
};

inline constexpr size_t kMaxControlBytes = 16 << 20;
inline constexpr size_t kLostKept = 1024;

}  // namespace sluice

#endif  // SLUICE_DIST_TRANSPORT_H_
