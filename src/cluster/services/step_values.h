// Feeds and fetches in the messages between a client and its master
// (proto::StepsRequest).
#ifndef SLUICE_CLUSTER_SERVICES_STEP_VALUES_H_
#define SLUICE_CLUSTER_SERVICES_STEP_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cluster/proto/cluster.pb.h"
#include "tensor/tensor.h"

namespace sluice {

// The values of a call that are sent in parts: those of plain elements that are
// large, or for which the call's last message has no room, since a message has
// less than 2 GiB. A part is copied out of its value when it is sent, so that a
// large value costs little memory besides its own. Not thread-safe.
class SentValues {
 public:
  static constexpr size_t kPartBytes = size_t{16} << 20;

  // Puts the others into `message` as TensorProtos. InvalidArgument for a value
  // that has no meaning outside its process.
  Status Add(std::span<const Tensor> values,
             google::protobuf::RepeatedPtrField<std::string>* message);
  // The next part, until there are no more.
  bool Next(proto::ValuePart* part);

 private:
  struct Value {
    uint32_t number;
    Tensor tensor;
    size_t sent = 0;  // Bytes.
  };
  std::deque<Value> values_;
};

// The other side. Not thread-safe.
class ReceivedValues {
 public:
  // An error is kept, and returned by Take.
  void Add(const proto::ValuePart& part);
  // All values of the call's last message. InvalidArgument or DataLoss if they
  // are not what SentValues sends. The ReceivedValues are empty afterwards.
  Result<std::vector<Tensor>> Take(
      const google::protobuf::RepeatedPtrField<std::string>& message);

 private:
  struct Value {
    Tensor tensor;
    size_t received = 0;  // Bytes.
  };
  Status AddPart(const proto::ValuePart& part);

  std::map<uint32_t, Value> values_;  // By number.
  Status failed_;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_SERVICES_STEP_VALUES_H_
