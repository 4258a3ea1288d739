// Loops whose body is spread over devices: the workloads of the peers' script
// for several processes (tf_dist.py), over the devices of one process.
#include <vector>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

constexpr int kIterations = 5000;

struct LoopOverDevices {
  Graph graph;
  std::vector<Output> results;
};

// while (i < n): each device adds 1 to a value of its own. With a barrier, the
// first one then sums what they have, and each adds the sum to its own.
void BuildLoop(int devices, bool barrier, LoopOverDevices* loop) {
  WithGraph use(loop->graph);
  std::vector<std::string> names;
  for (int d = 0; d < devices; ++d)
    names.push_back("/device:CPU:" + std::to_string(d));
  DeviceScope first(names[0]);
  std::vector<Output> init = {Constant(int32_t{0})};
  for (int d = 0; d < devices; ++d) init.push_back(Constant(0.0f));
  loop->results = While(
      init,
      [](const std::vector<Output>& v) { return v[0] < kIterations; },
      [&](const std::vector<Output>& v) {
        std::vector<Output> next = {v[0] + 1}, own;
        for (int d = 0; d < devices; ++d) {
          DeviceScope there(names[static_cast<size_t>(d)]);
          own.push_back(v[static_cast<size_t>(d) + 1] + 1.0f);
        }
        if (!barrier) {
          next.insert(next.end(), own.begin(), own.end());
          return next;
        }
        const Output sum = ops::AddN(own);
        for (int d = 0; d < devices; ++d) {
          DeviceScope there(names[static_cast<size_t>(d)]);
          next.push_back(v[static_cast<size_t>(d) + 1] + sum);
        }
        return next;
      },
      {.parallel_iterations = 32});
}

Result<double> ItersPerS(int devices, bool barrier) {
  LoopOverDevices loop;
  BuildLoop(devices, barrier, &loop);
  SessionOptions options;
  options.devices = CpuDevices(devices);
  Session session(loop.graph, options);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({}, {loop.results[0]},
                                               [&] {
                                                 std::vector<Node*> all;
                                                 for (Output o : loop.results)
                                                   all.push_back(o.node);
                                                 return all;
                                               }()));
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(5, [&]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> out, step.Run());
    if (out[0].scalar<int32_t>() != kIterations) return Internal("wrong count");
    return OkStatus();
  }));
  return kIterations / s;
}

SLUICE_BENCH("devices2.loop_independent.iters_per_s") {
  return ItersPerS(2, false);
}
SLUICE_BENCH("devices8.loop_independent.iters_per_s") {
  return ItersPerS(8, false);
}
SLUICE_BENCH("devices2.loop_barrier.iters_per_s") { return ItersPerS(2, true); }
SLUICE_BENCH("devices8.loop_barrier.iters_per_s") { return ItersPerS(8, true); }
// Two hops are in an iteration's way: there and back.
SLUICE_BENCH("devices2.ns_per_hop") {
  SLUICE_ASSIGN_OR_RETURN(const double rate, ItersPerS(2, true));
  return 1e9 / rate / 2;
}

}  // namespace
}  // namespace sluice::bench
