// Policies of run-time placement: which device a scheduled body runs on.
//
//   Status status = RegisterSchedulePolicy(
//       "first_idle", [](const ScheduleRequest& r) {
//         for (size_t i = 0; i < r.candidates.size(); ++i)
//           if (r.candidates[i].bodies == 0) return static_cast<int>(i);
//         return 0;
//       });
//   Output y = Scheduled(devices, x, body, {.policy = "first_idle"});
#ifndef SLUICE_EXEC_SCHEDULING_SCHEDULE_POLICY_H_
#define SLUICE_EXEC_SCHEDULING_SCHEDULE_POLICY_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace sluice {

// What a policy knows of one device. Times and counts are those of all steps of
// the session.
struct ScheduleCandidate {
  std::string_view device;  // As the program named it.
  // The work that was assigned to the device and is not done.
  double load_ns = 0;
  int bodies = 0;  // In how many bodies.
  // What the device holds of the body's parameters.
  int64_t parameter_bytes = 0;
};

// One decision. Valid during the call of the policy.
struct ScheduleRequest {
  std::string_view body;
  std::span<const ScheduleCandidate> candidates;  // At least one.
  int64_t rows = 0;             // The first dimension of the first input, or 1.
  int64_t input_bytes = 0;      // Of all inputs.
  int64_t parameter_bytes = 0;  // Of all parameters.
  // How long the body takes: declared, or measured so far.
  double work_ns = 0;
  double bytes_per_s = 0;  // Of a copy to a device.
};

// Returns the number of a candidate; any other number fails the step. Called by
// one thread at a time for each session, but by any; must not wait and must not
// run steps.
using SchedulePolicy = std::function<int(const ScheduleRequest&)>;

// Makes a policy known by name, in the whole process. AlreadyExists if the name
// is taken; InvalidArgument if it is empty or there is no function.
// Thread-safe. These exist: "cost", the device where the body would end first,
// by what is assigned to it, the copies that are needed there, and the work;
// "least_loaded", the device with the least work assigned to it; "locality",
// the device that holds most of the parameters, of several the least loaded.
Status RegisterSchedulePolicy(const std::string& name, SchedulePolicy policy);

}  // namespace sluice

#endif  // SLUICE_EXEC_SCHEDULING_SCHEDULE_POLICY_H_
