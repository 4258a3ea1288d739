// Threads that take over parts of what another thread computes.
//
// OpenMP's team (base/parallel.h) ends a parallel loop when every thread of the
// team has passed its end, so a thread that gets no core delays all others, and
// each loop after a pause waits until its threads are awake. That is right for
// long kernels. Here the calling thread waits for nobody but those that have
// started a part.
#ifndef SLUICE_BASE_HELPER_THREADS_H_
#define SLUICE_BASE_HELPER_THREADS_H_

#include "absl/functional/function_ref.h"

namespace sluice {

// Calls fn(0), ..., fn(parts - 1), each once, on this thread and at most
// parts - 1 helpers, and returns when all have returned. Which thread runs a
// part depends on timing; this thread runs all that no helper has started.
// Callable from any thread, also from several at once.
//
// The helpers belong to the process: as many as any call could use so far. One
// that has run a part looks for another for half a millisecond, and gives its
// core to others that want it; then it sleeps. In a child process after fork()
// there are none.
void RunParts(int parts, absl::FunctionRef<void(int)> fn);

}  // namespace sluice

#endif  // SLUICE_BASE_HELPER_THREADS_H_
