// Tokens between the partitions of a step. Each partition has a plan and an
// execution of its own; where an edge was cut, a _Send in one and a _Recv in
// another stand for it. A Send pushes its token when it has it and never waits;
// what comes before its Recv is ready to take it lies here.
#ifndef SLUICE_EXEC_RENDEZVOUS_H_
#define SLUICE_EXEC_RENDEZVOUS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "exec/frame.h"
#include "tensor/tensor.h"

namespace sluice {

// Which of an edge's tokens: the dynamic frame and its iteration. The number of
// a frame is 0 for the root; else it is made of its parent's tag and the name of
// the loop or call by FrameTag, and so is the same in every partition.
struct TokenTag {
  uint64_t frame = 0;
  int64_t iteration = 0;
  bool operator==(const TokenTag&) const = default;
};

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

// The number of a frame within iteration `index` of the frame `parent`.
// `name`: PlanFrame::name_hash.
inline uint64_t FrameTag(uint64_t parent, int64_t index, uint64_t name) {
  uint64_t h = parent ^ (static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15u);
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
  h = (h ^ name ^ (h >> 32)) * 0xd6e8feb86659fd93u;
  h ^= h >> 32;
  return h == 0 ? 1 : h;
}
// The same in every process (FNV-1a).
inline uint64_t NameHash(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : name)
    h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

// Brings the tokens that came and the Recvs that are ready together, by edge and
// tag. Owned by one execution and used by its driver.
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
  size_t parked() const { return table_.size() - static_cast<size_t>(waiting_); }
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
