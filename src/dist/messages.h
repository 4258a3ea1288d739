// What the control plane and the steps of src/dist have in common: numbers that
// both sides know, and errors on the wire.
#ifndef SLUICE_DIST_MESSAGES_H_
#define SLUICE_DIST_MESSAGES_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "dist/proto/cluster.pb.h"
#include "exec/trace.h"

namespace sluice {

// Kinds of control messages (Transport::SendControl).
enum class StepMessage : uint8_t {
  kStart = 1,
  kDone = 2,
  kCancel = 3,
  kLog = 4
};

// "Partitions" that are the ends of a step: the feeds that a master sends, the
// fetches that a worker sends back.
inline constexpr uint32_t kFeedPartition = 0xffffffff;
inline constexpr uint32_t kFetchPartition = 0xfffffffe;

// In place of a peer: no peer, the task itself.
inline constexpr uint32_t kThisTask = 0xffffffff;

inline void StatusToProto(const Status& s, proto::StatusProto* p) {
  p->set_code(static_cast<int>(s.code()));
  p->set_message(std::string(s.message()));
}
// Codes that do not exist are Unknown.
inline Status StatusFromProto(const proto::StatusProto& p) {
  if (p.code() == 0) return OkStatus();
  const bool known = p.code() > 0 && p.code() <= 16;
  return Status(
      known ? static_cast<StatusCode>(p.code()) : StatusCode::kUnknown,
      p.message());
}

// Numbers of a session's runs have the session's upper half, so that who hears
// of a run knows whose it is.
inline uint64_t SessionPart(uint64_t session_or_run) {
  return session_or_run >> 32;
}
inline uint64_t RunNumber(uint64_t session, uint64_t count) {
  return SessionPart(session) << 32 | (count & 0xffffffff);
}

// Takes what a step prints. May be called by several threads at once.
using StepLog = std::function<void(const std::string& text)>;
// Of one task's part of a step: passes on 8 MB, what each line takes beside its
// text counted, which may have to be kept until they can be sent; and then a
// line that says so. Null stays null.
StepLog BoundedLog(StepLog log);

// Whether it can be sent: protocol buffers hold less than 2 GiB, and gRPC ends
// the process, or says nothing, where there is more. `what`: "feeds".
Status CheckMessage(const char* what, const google::protobuf::Message& m);

// How long a step may take; 0: as long as it wants. (Whatever a message says, a
// time so far from now can be told.)
inline std::chrono::milliseconds TimeoutFromProto(int64_t ms) {
  constexpr int64_t kYear = int64_t{365} * 24 * 3600 * 1000;
  return std::chrono::milliseconds(std::clamp<int64_t>(ms, 0, kYear));
}

void TraceToProto(const std::vector<TraceEvent>& events, proto::TaskStats* p);
// Times on the master's clock.
std::vector<TraceEvent> TraceFromProto(const proto::TaskStats& p);
TraceTask TraceTaskFromProto(const proto::TaskStats& p);
// Leaves the last events out, and says how many, so that with `others` bytes
// the message stays below `most`.
void FitTrace(size_t most, size_t others, proto::TaskStats* p);

}  // namespace sluice

#endif  // SLUICE_DIST_MESSAGES_H_
