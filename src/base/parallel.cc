#include "base/parallel.h"

#include <omp.h>

#include <algorithm>

namespace sluice {
namespace {
thread_local int intra_op_threads = 1;
}  // namespace

int IntraOpThreads() { return intra_op_threads; }

ScopedIntraOpThreads::ScopedIntraOpThreads(int threads)
    : saved_(intra_op_threads) {
  // Never more than OpenMP provides (OMP_THREAD_LIMIT): oneDNN splits its work
  // by the number of threads it is told and requires all of them.
  intra_op_threads = std::max(1, std::min(threads, omp_get_thread_limit()));
  if (intra_op_threads != omp_get_max_threads())
    omp_set_num_threads(intra_op_threads);
}

ScopedIntraOpThreads::~ScopedIntraOpThreads() { intra_op_threads = saved_; }

void ParallelFor(int64_t total, int64_t grain,
                 absl::FunctionRef<void(int64_t, int64_t)> fn) {
  if (total <= 0) return;
  grain = std::max<int64_t>(1, grain);
  const int64_t parts =
      std::min<int64_t>(intra_op_threads, (total + grain - 1) / grain);
  if (parts <= 1) {
    fn(0, total);
    return;
  }
#pragma omp parallel for num_threads(static_cast <int>(parts)) \
    schedule(static, 1)
  for (int64_t p = 0; p < parts; ++p)
    fn(total * p / parts, total * (p + 1) / parts);
}

}  // namespace sluice
