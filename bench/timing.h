#ifndef SLUICE_BENCH_TIMING_H_
#define SLUICE_BENCH_TIMING_H_

#include <algorithm>

#include "base/status.h"
#include "exec/core/trace.h"

namespace sluice::bench {

// The shortest of `times` runs of fn() -> Status in seconds, after one warm-up
// run, as in the peers' scripts.
template <typename Fn>
Result<double> Best(int times, const Fn& fn) {
  SLUICE_RETURN_IF_ERROR(fn());
  double best = 1e300;
  for (int i = 0; i < times; ++i) {
    const int64_t start = NowNs();
    SLUICE_RETURN_IF_ERROR(fn());
    best = std::min(best, static_cast<double>(NowNs() - start) * 1e-9);
  }
  return best;
}

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_TIMING_H_
