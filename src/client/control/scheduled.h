// Bodies that are placed when they run: on one of several devices, by the sizes
// of their inputs and the load of the devices.
//
//   const std::vector<std::string> devices = {"/device:EMU:0",
//                                             "/device:EMU:1"};
//   Output y = Scheduled(devices, rows, [&](Output rows) {
//     return ops::Tanh(ops::MatMul(rows, w));
//   });
#ifndef SLUICE_CLIENT_CONTROL_SCHEDULED_H_
#define SLUICE_CLIENT_CONTROL_SCHEDULED_H_

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "client/control/control_flow.h"
#include "client/control/structure.h"
#include "graph/builder.h"

namespace sluice {

struct ScheduledOptions {
  // The name of a policy (exec/scheduling/schedule_policy.h): "cost",
  // "least_loaded", "locality", or one that was registered in the process of
  // the task of `home`.
  std::string policy = "cost";
  // How long the body takes for a row of the first input, in ns, a finite
  // float; 0: measured as it runs.
  double ns_per_row = 0;
  // Of a copy to a device, for policies that count copies.
  double bytes_per_s = 12e9;
  // If not 0: inputs of more rows are cut along axis 0 into parts of at most so
  // many, which are placed one by one; the results are put together in order.
  // Then all inputs have the same number of rows, and each result has the rows
  // of its part; else the step fails (InvalidArgument). At most INT32_MAX.
  int64_t rows_per_part = 0;
  // Where decisions are made, where results arrive, and where variables that
  // the body makes are kept: a CPU.
  std::string home = "/device:CPU:0";
  std::string name = "scheduled";
};

namespace internal {

using ScheduledFn =
    std::function<std::vector<Operand>(const std::vector<Output>&)>;
std::vector<Output> BuildScheduled(const std::vector<std::string>& devices,
                                   const std::vector<Operand>& inputs,
                                   const ScheduledFn& body,
                                   const ScheduledOptions& options,
                                   SourceLoc loc);

}  // namespace internal

// Returns the results of `body`, which runs on one of `devices`. Which one is
// decided when all inputs are there, for each iteration and each call anew.
// `inputs` is an output or a structure of outputs; `body` receives its parts,
// and returns an output or a structure of outputs. It is called once for each
// device, while the graph is built, and must build the same each time. What it
// takes from outside is captured, as by Cond. Each device has a replica of the
// body's nodes; only the chosen one runs.
//
// Variables that the body makes (with GetVariable, or in layers) are kept at
// home, one for all replicas: scopes have the same names in each, and Reuse is
// kAuto after the first. A variable that a later replica makes anew is an
// error. A device with its own memory fetches the values that it needs, keeps
// them for the next body (ParameterCache), and drops those that were not used
// for the longest time.
//
// Gradients follow the decisions of the forward pass and are computed on the
// same device, to any order. Errors are recorded in the graph; results are then
// null.
template <typename Inputs, typename Body>
auto Scheduled(const std::vector<std::string>& devices, const Inputs& inputs,
               Body&& body, const ScheduledOptions& options = {},
               SourceLoc loc = CallerLoc()) {
  using R = std::decay_t<decltype(CallWith(
      body, std::declval<const StructureOf<Inputs>&>()))>;
  static_assert(!std::is_same_v<R, Node*>,
                "a scheduled body returns outputs: where it ran matters only "
                "for values");
  std::optional<R> like;
  const std::vector<Output> results = internal::BuildScheduled(
      devices, Flattened(inputs, loc),
      [&](const std::vector<Output>& values) {
        R result = CallWith(body, Unflattened(inputs, values));
        if (!like.has_value()) like.emplace(result);
        return Flattened(result, loc);
      },
      options, loc);
  if (!like.has_value()) return internal::FailureAs<StructureOf<R>>();
  return Unflattened(*like, results);
}

}  // namespace sluice

#endif  // SLUICE_CLIENT_CONTROL_SCHEDULED_H_
