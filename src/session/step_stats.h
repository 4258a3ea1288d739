// A step's measurements as TensorFlow's RunMetadata message, for event files.
//
//   RunMetadata metadata;
//   SLUICE_ASSIGN_OR_RETURN(
//       auto out, session.Run({}, {loss}, {}, {.trace = true}, &metadata));
//   SLUICE_RETURN_IF_ERROR(log->AddRunMetadata(
//       "step 100", SerializeRunMetadata(metadata), /*step=*/100));
#ifndef SLUICE_SESSION_STEP_STATS_H_
#define SLUICE_SESSION_STEP_STATS_H_

#include <string>

#include "session/session.h"

namespace sluice {

// What TensorFlow's timeline shows of an event: "y = MatMul: float[2,3]", with
// " x 8" for eight instances that ran as one, and after " -> " the device that
// a decision of run-time placement chose, with its reason. Pure; thread-safe.
std::string TimelineLabel(const TraceEvent& event);

// A serialised RunMetadata with the events as its step_stats, and the cost
// graph. Times are nanoseconds since 1970, from the difference between that
// clock and the steady clock now. Ends of transfers are left out, since
// step_stats have nothing for them. Pure; thread-safe.
std::string SerializeRunMetadata(const RunMetadata& metadata);

}  // namespace sluice

#endif  // SLUICE_SESSION_STEP_STATS_H_
