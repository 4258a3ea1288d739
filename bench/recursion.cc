// Calls of a function that calls itself: what a call costs where there is
// little else to do.
#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

// fib(n) = n below 2, else fib(n - 1) + fib(n - 2), and the calls that it
// takes.
constexpr int32_t kFibArgument = 22;
constexpr double kFibCalls = 2 * 28657 - 1;  // 2 fib(n + 1) - 1.

Result<double> FibNsPerCall() {
  Graph g;
  WithGraph use(g);
  const Function fib =
      DefineFunction("fib", {DType::kInt32}, {DType::kInt32},
                     [](const Function& self, const std::vector<Output>& a) {
                       const Output n = a[0];
                       return Cond(
                           n < 2, [&] { return n; },
                           [&] { return self({n - 1})[0] + self({n - 2})[0]; });
                     });
  const Output y = fib({Constant(kFibArgument)})[0];
  SLUICE_RETURN_IF_ERROR(g.status());
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({}, {y}));
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(5, [&]() -> Status {
                            SLUICE_ASSIGN_OR_RETURN(
                                const std::vector<Tensor> out, step.Run());
                            return out[0].scalar<int32_t>() == 17711
                                       ? OkStatus()
                                       : Internal("fib: wrong result");
                          }));
  return s / kFibCalls * 1e9;
}

SLUICE_BENCH("fib.ns_per_call") { return FibNsPerCall(); }

}  // namespace
}  // namespace sluice::bench
