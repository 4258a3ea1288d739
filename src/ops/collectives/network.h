// What the members of a group in different processes tell each other, and the
// interface through which they do so. Implemented by clusters
// (cluster/worker/collective_network.h).
#ifndef SLUICE_OPS_COLLECTIVES_NETWORK_H_
#define SLUICE_OPS_COLLECTIVES_NETWORK_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "exec/core/rendezvous.h"

namespace sluice::collectives {

// The network's number of another task; never reused.
using Peer = uint32_t;
inline constexpr Peer kHere = 0xffffffff;

// A message about a group. Between two tasks they arrive in order, and before
// the tokens that were sent after them.
struct Note {
  enum class Kind : uint8_t {
    kJoin = 1,  // A member wants to form the group.
    kAbort,     // These joins are void, and what was formed with them is over.
    kCall,      // What a member does in an instance, from a call on.
    kLeave,     // A member makes no calls beyond these.
  };
  Kind kind = Kind::kJoin;
  int64_t group = 0;
  // kJoin: who, and the number of this attempt, never used before.
  std::string member;
  int64_t size = 0;
  int64_t rank = -1;  // -1: by the order of names.
  uint64_t nonce = 0;
  // Not kJoin: of the formed group. kAbort: 0 if it was not formed.
  uint64_t epoch = 0;
  // kAbort. `changed`: since members have joined anew; no step has failed.
  // `lost`: since this incarnation of a task is lost; 0: for another reason.
  std::vector<uint64_t> nonces;
  Status why;
  bool changed = false;
  uint64_t lost = 0;
  // kCall, kLeave: `rank` is the member's.
  int64_t instance = 0;
  uint32_t call = 0;
  uint32_t hash = 0;
  bool root = false;
  std::string description;
  // kLeave: the instances in which it has made calls, and how many.
  std::vector<std::pair<uint32_t, uint32_t>> calls;
};

// Of the names of members and of descriptions: a hub refuses longer names, and
// longer descriptions are cut.
inline constexpr size_t kMaxNoteText = 1024;
inline constexpr int64_t kMaxMembers = 65536;
inline constexpr int kMaxNoteCalls = 1 << 20;

// Owned by a Hub. Thread-safe. Sending does not block; what is sent to a lost
// peer is dropped, since the hub is told of the loss.
class Network {
 public:
  virtual ~Network() = default;
  // The name of this task.
  virtual std::string task() const = 0;
  // The incarnation of the task, the same for all of its connections (two tasks
  // that connect to each other at once have two). Not 0. Called under the lock
  // of the hub.
  virtual uint64_t IncarnationOf(Peer peer) const = 0;
  // OK for a peer that is there, else why it is lost: before Hub::OnPeerLost is
  // called, and from then on. Called under the lock of the hub.
  virtual Status WhyLost(Peer peer) const = 0;
  // The session of a step (StepContext::step_id), as Hub::OpenSession gets it.
  virtual uint64_t SessionOf(int64_t step) const = 0;
  virtual void SendNote(Peer to, const Note& note) = 0;
  // Moves the values out. An error means that they will not arrive.
  virtual Status SendTokens(Peer to, uint64_t epoch,
                            std::span<TokenMessage> batch) = 0;
};

}  // namespace sluice::collectives

#endif  // SLUICE_OPS_COLLECTIVES_NETWORK_H_
