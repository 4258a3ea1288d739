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

// A serialised RunMetadata with the events as its step_stats, and the cost
// graph. Times are nanoseconds since 1970, from the difference between that
// clock and the steady clock now. Ends of transfers are left out, since
// step_stats have nothing for them. Pure; thread-safe.
std::string SerializeRunMetadata(const RunMetadata& metadata);

}  // namespace sluice

#endif  // SLUICE_SESSION_STEP_STATS_H_
