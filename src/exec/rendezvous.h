// Tokens between the partitions of a step. Each partition has a plan and an
// execution of its own; where an edge was cut, a _Send in one and a _Recv in
// another stand for it. A Send pushes its token when it has it and never waits;
// what comes before its Recv is ready to take it lies here.
#ifndef SLUICE_EXEC_RENDEZVOUS_H_
#define SLUICE_EXEC_RENDEZVOUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "exec/frame.h"
#include "tensor/tensor.h"

namespace sluice {

// A token on its way. `edge` counts the edges into the destination partition
// (attribute "edge" of its _Recv). For a dead token whose Send leads a group
// `edge` is the number of the group, and all its Recvs have one.
struct TokenMessage {
  uint32_t edge = 0;
  bool dead = false;
  bool group = false;
  TokenTag tag;
  Tensor value;  // Invalid if dead, or if only the order matters.
};

// Where the tokens that leave one partition go. Used by one thread at a time,
// the driver of that partition.
class Outbox {
 public:
  virtual ~Outbox() = default;
  // `destination`: number of the partition. May be kept until Flush.
  virtual void Send(uint32_t destination, TokenMessage message) = 0;
  // The driver has nothing else to do, or will not for a while.
  virtual void Flush() = 0;
};

// Brings the tokens that came and the Recvs that are ready together, by edge
// and tag. Owned by one execution and used by its driver.
class Rendezvous {
 public:
  // A token came. True if a Recv waited for it, which is then in `*ready`.
  bool Arrive(uint32_t edge, TokenMessage& message, Ready* ready);
  // A Recv is ready. True if its token had come: it is moved to `*message`.
  bool Await(uint32_t edge, const TokenTag& tag, Ready ready,
             TokenMessage* message);
  // Recvs that wait.
  int waiting() const { return waiting_; }
  // Tokens that nobody has taken.
  size_t parked() const {
    return table_.size() - static_cast<size_t>(waiting_);
  }
  void Clear();
  // Of at most `most` Recvs: which, where, for what. For messages.
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
    Ready ready;  // Of the Recv that waits; its node is null if the token came.
    bool dead = false;
    Tensor value;
  };
  absl::flat_hash_map<Key, Entry> table_;
  int waiting_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_RENDEZVOUS_H_
