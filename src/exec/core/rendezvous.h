// Tokens between the partitions of a step. Each partition has its own plan and
// execution; each cut edge is replaced by a _Send in one and a _Recv in
// another. A Send pushes its token when it has it and never waits; tokens that
// arrive before their Recv is ready are stored here.
#ifndef SLUICE_EXEC_CORE_RENDEZVOUS_H_
#define SLUICE_EXEC_CORE_RENDEZVOUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "exec/core/frame.h"
#include "tensor/tensor.h"

namespace sluice {

// A token in transit. `edge` numbers the edges into the destination partition
// (attribute "edge" of its _Recv). For a dead token whose Send leads a group,
// `edge` is the number of the group, and all Recvs of the group receive it.
struct TokenMessage {
  uint32_t edge = 0;
  bool dead = false;
  bool group = false;
  TokenTag tag;
  Tensor value;  // Invalid if dead, or if only the order matters.
};

// Destination of the tokens that leave one partition. Used by one thread at a
// time, the driver of that partition.
class Outbox {
 public:
  virtual ~Outbox() = default;
  // `destination`: number of the partition. Messages may be buffered until
  // Flush.
  virtual void Send(uint32_t destination, TokenMessage message) = 0;
  // Called when the driver is idle, or will not send for a while.
  virtual void Flush() = 0;
  // The driver has nothing to do, and only kernels that wait are in flight.
  // BeginCheck is called with the lock of the execution held; if it returns
  // true, EndCheck is called without it, and the step does not end before.
  // Then the step fails if no other partition can go on either.
  virtual bool BeginCheck() { return false; }
  virtual void EndCheck() {}
};

// Matches arrived tokens with ready Recvs, by edge and tag. Owned by one
// execution and used by its driver.
class Rendezvous {
 public:
  enum class Outcome : uint8_t {
    kStored,    // The other one has not come yet.
    kMatched,   // The other one was here.
    kRepeated,  // One like it is stored, with the same edge and tag.
  };
  // Adds an arrived token. kMatched: a Recv waited for it; `*ready` is set to
  // it. kRepeated changes nothing.
  Outcome Arrive(uint32_t edge, TokenMessage& message, Ready* ready);
  // Adds a ready Recv. kMatched: its token has arrived; it is moved to
  // `*message`. kRepeated changes nothing.
  Outcome Await(uint32_t edge, const TokenTag& tag, Ready ready,
                TokenMessage* message);
  // Recvs that wait.
  int waiting() const { return waiting_; }
  // Tokens without a matching Recv so far.
  size_t parked() const {
    return table_.size() - static_cast<size_t>(waiting_);
  }
  void Clear();
  // Describes at most `most` waiting Recvs with their positions, for messages.
  std::string Describe(int most) const;

 private:
  struct Key {
    uint32_t edge;
    TokenTag tag;
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& k) {
      return H::combine(std::move(h), k.edge, k.tag.frame, k.tag.iteration);
    }
  };
  struct Entry {
    Ready ready;  // The waiting Recv; node is null for a parked token.
    bool dead = false;
    Tensor value;
  };
  absl::flat_hash_map<Key, Entry> table_;
  int waiting_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_RENDEZVOUS_H_
