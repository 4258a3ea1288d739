// Loops with a body placed on several devices of one process.
#include "bench.h"
#include "device_loops.h"

namespace sluice::bench {
namespace {

constexpr int kIterations = 5000;

Result<double> ItersPerS(int devices, bool barrier) {
  std::vector<std::string> names;
  for (int d = 0; d < devices; ++d)
    names.push_back("/device:CPU:" + std::to_string(d));
  LoopOverDevices loop;
  BuildLoop(names, kIterations, barrier, &loop);
  SessionOptions options;
  options.devices = CpuDevices(devices);
  Session session(loop.graph, options);
  return LoopItersPerS(session, loop, kIterations);
}

SLUICE_BENCH("devices2.loop_independent.iters_per_s") {
  return ItersPerS(2, false);
}
SLUICE_BENCH("devices8.loop_independent.iters_per_s") {
  return ItersPerS(8, false);
}
SLUICE_BENCH("devices2.loop_barrier.iters_per_s") { return ItersPerS(2, true); }
SLUICE_BENCH("devices8.loop_barrier.iters_per_s") { return ItersPerS(8, true); }
// In an iteration of the barrier each of the other devices sends a value and
// receives one.
Result<double> NsPerHop(int devices) {
  SLUICE_ASSIGN_OR_RETURN(const double rate, ItersPerS(devices, true));
  return 1e9 / rate / (2 * (devices - 1));
}
SLUICE_BENCH("devices2.ns_per_hop") { return NsPerHop(2); }
SLUICE_BENCH("devices8.ns_per_hop") { return NsPerHop(8); }

}  // namespace
}  // namespace sluice::bench
