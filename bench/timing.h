#ifndef SLUICE_BENCH_TIMING_H_
#define SLUICE_BENCH_TIMING_H_

#include <algorithm>
#include <vector>

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

// How long `one` takes in percent of how long `other` takes: the median of the
// ratios of that many neighbouring turns, after one that is left out. What else
// the machine does is about the same for both of a turn. Each goes first in
// every other turn, since what one leaves to be done (a pipeline refills its
// buffers) would count for the other.
template <typename One, typename Other>
Result<double> PercentByTurns(int turns, const One& one, const Other& other) {
  std::vector<double> percent;
  for (int i = 0; i <= turns; ++i) {
    const int64_t start = NowNs();
    SLUICE_RETURN_IF_ERROR(i % 2 == 0 ? one() : other());
    const int64_t middle = NowNs();
    SLUICE_RETURN_IF_ERROR(i % 2 == 0 ? other() : one());
    const auto first = static_cast<double>(middle - start),
               second = static_cast<double>(NowNs() - middle);
    if (i > 0)
      percent.push_back(100 * (i % 2 == 0 ? first / second : second / first));
  }
  const auto median = percent.begin() + turns / 2;
  std::nth_element(percent.begin(), median, percent.end());
  return *median;
}

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_TIMING_H_
