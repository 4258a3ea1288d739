// oneDNN takes the thread count from OpenMP, per calling thread.
#ifndef SLUICE_KERNELS_DNN_THREADS_H_
#define SLUICE_KERNELS_DNN_THREADS_H_

#include <omp.h>

#include <algorithm>

#include "base/parallel.h"

namespace sluice::dnn {

// Makes oneDNN calls from this thread use IntraOpThreads() threads, and returns
// that number. Cheap enough to precede every call. (An ended
// ScopedIntraOpThreads may have left its own OpenMP count behind.) Never more
// than OpenMP will really provide: some oneDNN primitives wait for all the
// threads they were made for.
inline int UseIntraOpThreads() {
  const int threads = omp_in_parallel()
                          ? 1
                          : std::min(IntraOpThreads(), omp_get_thread_limit());
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
  return threads;
}

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_THREADS_H_
