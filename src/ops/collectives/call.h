// Call: one member's part in one collective operation.
#ifndef SLUICE_OPS_COLLECTIVES_CALL_H_
#define SLUICE_OPS_COLLECTIVES_CALL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "exec/core/rendezvous.h"
#include "ops/collectives/merge.h"
#include "ops/collectives/schedule.h"
#include "tensor/tensor.h"

namespace sluice::collectives {

// What a node does; constant.
struct CallSpec {
  Operation operation = Operation::kReduce;
  Algorithm algorithm = Algorithm::kAuto;
  MergeOp merge = MergeOp::kAdd;
  bool mean = false;
  bool root = false;  // Of a broadcast: this one sends.
  int64_t group = 0, instance = 0, size = 1;
  int64_t rank = -1;   // -1: by the order of members' names.
  std::string device;  // Names the member if it has no rank.
  // What all members have to agree on: "Add of float[2,3]".
  std::string Describe(DType dtype, const Shape& shape) const;
};

// A message to another member of the group.
struct Outgoing {
  int to = 0;  // Rank.
  TokenMessage message;
};

// Identifies the data of one action. On the wire: TokenMessage::tag, and in
// `edge` the hash of the description.
struct DataKey {
  uint32_t instance = 0, to = 0, call = 0, from = 0, lane = 0, number = 0;
  TokenTag tag() const;
  static DataKey Of(const TokenTag& tag);
};

// Made by a kernel, kept alive by the hub while it runs and by the threads in
// it. Thread-safe. Computes on the threads that bring it messages, each lane on
// one at a time, without a lock.
class Call : public std::enable_shared_from_this<Call> {
 public:
  using Done = std::function<void(const Call&, Result<Tensor>)>;

  // `output`: as ScheduleRequest::count; it is written from Begin on and is
  // nobody else's. `done` is called once.
  Call(CallSpec spec, Tensor input, Tensor output, DType dtype, Shape shape,
       Done done);

  const CallSpec& spec() const { return spec_; }
  const std::string& description() const { return description_; }
  uint32_t hash() const { return hash_; }

  // Constant after Prepare, which comes first. `send` passes messages to other
  // members; called without a lock.
  void Prepare(int rank, int members, int root, uint32_t number,
               std::function<void(std::vector<Outgoing>*)> send);
  int rank() const { return rank_; }
  uint32_t number() const { return number_; }

  // Sends and computes what is possible. True if the call has ended in this
  // (exactly one of all Begin, Arrive and Fail returns it): the caller calls
  // Complete.
  [[nodiscard]] bool Begin();
  // Takes what a member sent. InvalidArgument if the schedule does not receive
  // it from there, or not with that size, or has received it.
  Status Arrive(const DataKey& key, Tensor value, bool* ended);
  // False if it has done its part, and so ends without this error, or with an
  // earlier one. `*ended`: the caller calls Complete.
  bool Fail(const Status& why, bool* ended);
  // Why it failed by itself. REQUIRES: it has ended.
  const Status& status() const { return status_; }
  // Calls `done`. The hub must not know the call any more.
  void Complete();

 private:
  struct LaneState {
    size_t next = 0;
    bool busy = false;
  };
  using ParkedKey = std::pair<uint64_t, uint32_t>;  // (lane, from), number.

  // Goes on with a lane. REQUIRES: mu_ is held by `lock`; releases it for
  // computing.
  void Advance(size_t lane, std::unique_lock<std::mutex>* lock,
               std::vector<Outgoing>* out);
  void Perform(const Action& action, const Tensor& value);
  TokenMessage MessageOf(const Action& action, size_t lane) const;
  // A thread leaves; true if it is the last of a call that is over.
  bool Leave();
  char* At(Tensor& t, int64_t element) const;

  const CallSpec spec_;
  Tensor input_;
  Tensor output_;
  const DType dtype_;
  const Shape shape_;  // Of the input.
  const int64_t element_bytes_;
  const std::string description_;
  const uint32_t hash_;
  int rank_ = 0, members_ = 1;
  uint32_t number_ = 0;
  Schedule schedule_;
  std::function<void(std::vector<Outgoing>*)> send_;

  std::mutex mu_;
  Done done_;                     // Moved out by Complete.
  std::vector<LaneState> lanes_;  // GUARDED_BY(mu_)
  size_t lanes_left_ = 0;         // GUARDED_BY(mu_)
  bool begun_ = false;            // GUARDED_BY(mu_)
  int inside_ = 0;                // GUARDED_BY(mu_): threads.
  bool over_ = false;             // GUARDED_BY(mu_)
  bool ended_ = false;            // GUARDED_BY(mu_): somebody was told.
  Status status_;                 // GUARDED_BY(mu_)
  absl::flat_hash_map<ParkedKey, Tensor> parked_;  // GUARDED_BY(mu_)
};

}  // namespace sluice::collectives

#endif  // SLUICE_OPS_COLLECTIVES_CALL_H_
