// Constants and conversions shared by the control plane and the steps of
// src/cluster.
#ifndef SLUICE_CLUSTER_COMMON_MESSAGES_H_
#define SLUICE_CLUSTER_COMMON_MESSAGES_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cluster/proto/cluster.pb.h"
#include "exec/core/trace.h"
#include "tensor/tensor.h"

namespace sluice {

// Kinds of control messages (Transport::SendControl).
enum class StepMessage : uint8_t {
  kStart = 1,
  kDone = 2,
  kCancel = 3,
  kLog = 4,
  kCollective = 5,
  kStuck = 6,
  kProbe = 7,
  kState = 8,
};

// Pseudo-partitions for the ends of a step: the feeds that a master sends and
// the fetches that a worker returns.
inline constexpr uint32_t kFeedPartition = 0xffffffff;
inline constexpr uint32_t kFetchPartition = 0xfffffffe;
// For the data of collective operations; the step is the number of the formed
// group.
inline constexpr uint32_t kCollectivePartition = 0xfffffffd;

// In place of a peer: this task itself.
inline constexpr uint32_t kThisTask = 0xffffffff;

// What a task that is about to end answers to new work.
inline Status Draining(const std::string& task) {
  return Unavailable("task ", task,
                     ": expected to keep running, got SIGTERM: it finishes its "
                     "steps and begins no others");
}

inline void StatusToProto(const Status& s, proto::StatusProto* p) {
  p->set_code(static_cast<int>(s.code()));
  p->set_message(std::string(s.message()));
}
// Invalid codes become Unknown.
inline Status StatusFromProto(const proto::StatusProto& p) {
  if (p.code() == 0) return OkStatus();
  const bool known = p.code() > 0 && p.code() <= 16;
  return Status(
      known ? static_cast<StatusCode>(p.code()) : StatusCode::kUnknown,
      p.message());
}

// The upper half of a run's number is the session's, so that a receiver knows
// which session the run belongs to.
inline uint64_t SessionPart(uint64_t session_or_run) {
  return session_or_run >> 32;
}
inline uint64_t RunNumber(uint64_t session, uint64_t count) {
  return SessionPart(session) << 32 | (count & 0xffffffff);
}

// What a client gets for a step. The fetches are beside the message, whose own
// are empty: how they are sent is the stub's business.
struct StepAnswer {
  proto::RunStepResponse response;
  std::vector<Tensor> fetches;
};

// Receives the text that a step prints. May be called concurrently.
using StepLog = std::function<void(const std::string& text)>;
// Bounds the output of one task's part of a step, which may have to be buffered
// until it can be sent: forwards up to 8 MB, including the overhead of each
// line, then one line that says that the rest is dropped. Null stays null.
StepLog BoundedLog(StepLog log);

// An error if the message is too large to send. Protocol buffers hold less than
// 2 GiB; for larger messages gRPC aborts the process or fails silently. `what`
// names the contents in the error, for example "feeds".
Status CheckMessage(const char* what, const google::protobuf::Message& m);

// The text with U+FFFD in place of each byte that is not part of a character
// in UTF-8 (RFC 3629), for names that other programs choose.
std::string ValidUtf8(std::string_view text);

// A step's timeout; 0: none. (Clamped, so that any value in a message gives a
// representable deadline.)
inline std::chrono::milliseconds TimeoutFromProto(int64_t ms) {
  constexpr int64_t kYear = int64_t{365} * 24 * 3600 * 1000;
  return std::chrono::milliseconds(std::clamp<int64_t>(ms, 0, kYear));
}

void TraceToProto(const std::vector<TraceEvent>& events, proto::TaskStats* p);
// Converts times to the master's clock.
std::vector<TraceEvent> TraceFromProto(const proto::TaskStats& p);
TraceTask TraceTaskFromProto(const proto::TaskStats& p);
// Drops the last events, and sets how many, so that with `others` further bytes
// the message stays below `max_bytes`.
void FitTrace(size_t max_bytes, size_t others, proto::TaskStats* p);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_COMMON_MESSAGES_H_
