// Splitting one kernel's work over cores. There is one intra-op thread team in
// the process (OpenMP's, which oneDNN uses too), so that Sluice's kernels and
// oneDNN's together never oversubscribe the cores.
#ifndef SLUICE_BASE_PARALLEL_H_
#define SLUICE_BASE_PARALLEL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace sluice {

// Threads that a kernel called on this thread may use; at least 1. The executor
// sets it before each kernel: all cores for a kernel that runs alone, 1 for
// kernels that run alongside others. Defaults to 1.
int IntraOpThreads();

// Sets IntraOpThreads() (and OpenMP's count) for this thread during its
// lifetime.
class ScopedIntraOpThreads {
 public:
  explicit ScopedIntraOpThreads(int threads);
  ~ScopedIntraOpThreads();
  ScopedIntraOpThreads(const ScopedIntraOpThreads&) = delete;
  ScopedIntraOpThreads& operator=(const ScopedIntraOpThreads&) = delete;

 private:
  int saved_;
};

// Calls fn(begin, end) on disjoint ranges that cover [0, total), each at least
// `grain` long where total allows, on up to IntraOpThreads() threads. With one
// thread or total <= grain it is a plain call on this thread. The split depends
// only on total, grain and the thread count, never on timing.
void ParallelFor(int64_t total, int64_t grain,
                 absl::FunctionRef<void(int64_t, int64_t)> fn);

}  // namespace sluice

#endif  // SLUICE_BASE_PARALLEL_H_
