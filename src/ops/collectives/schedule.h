// What one member of a group sends, receives and computes in one collective
// operation: data, made from the sizes alone, without a network.
#ifndef SLUICE_OPS_COLLECTIVES_SCHEDULE_H_
#define SLUICE_OPS_COLLECTIVES_SCHEDULE_H_

#include <cstdint>
#include <vector>

namespace sluice::collectives {

enum class Operation : uint8_t { kReduce, kBroadcast, kGather, kReduceScatter };

enum class Algorithm : uint8_t {
  kAuto,
  // Each member sends parts to the next one: 2 (n - 1) hops for a reduction,
  // and each member sends less than twice the bytes of its value.
  kRing,
  // A binomial tree: 2 log2 n hops.
  kTree,
  // Everyone sends to everyone: one hop, n - 1 values sent by each.
  kDirect,
};

// One action on the elements [begin, end) of the output.
struct Action {
  enum class Kind : uint8_t {
    kSend,        // To `peer`: elements of the output, or of the input.
    kStore,       // output = what `peer` sent.
    kMerge,       // output = output op what `peer` sent (in this order), or
                  // with `from_input`, input op what `peer` sent.
    kMergeInto,   // output = what `peer` sent op input.
    kCopyInput,   // output = input.
    kMergeInput,  // output = output op input.
    kDivide,      // output /= members.
  };
  Kind kind;
  int peer = -1;
  bool from_input = false;
  int64_t begin = 0, end = 0;
  // Counts what this lane sends to `peer`, or receives from it.
  uint32_t number = 0;

  bool receives() const {
    return kind == Kind::kStore || kind == Kind::kMerge ||
           kind == Kind::kMergeInto;
  }
};

// The actions of a lane run in order; lanes are independent of each other.
// Nothing that may still be read by a message in transit is written: a part
// that was sent is written only after something that depends on its arrival has
// come back.
struct Schedule {
  std::vector<std::vector<Action>> lanes;
  // Element i of the output is element i - shift of the input. (The root of a
  // broadcast has no output: the result is its input.)
  int64_t shift = 0;
};

struct ScheduleRequest {
  Operation operation = Operation::kReduce;
  Algorithm algorithm = Algorithm::kAuto;
  int rank = 0, members = 2;
  int root = 0;  // Of a broadcast.
  // Elements of the output. For kReduceScatter of a working buffer with the
  // size of the input, in which a member ends with its part.
  int64_t count = 0;
  // A part of a gather or a reduce-scatter has a multiple of this many
  // elements: a row.
  int64_t row = 1;
  int64_t element_bytes = 4;
  bool mean = false;
};

// The part of member `rank` of `rows` rows: [PartBegin(rank), PartBegin(rank +
// 1)).
inline int64_t PartBegin(int64_t rows, int rank, int members) {
  return rows / members * rank + rows % members * rank / members;
}

// REQUIRES: members >= 2, 0 <= rank, root < members.
Schedule MakeSchedule(const ScheduleRequest& request);

// The algorithm that kAuto stands for.
Algorithm ChooseAlgorithm(Operation operation, int members, int64_t bytes);

}  // namespace sluice::collectives

#endif  // SLUICE_OPS_COLLECTIVES_SCHEDULE_H_
