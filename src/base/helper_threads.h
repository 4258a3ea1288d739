// Threads that take over parts of what another thread computes.
//
// OpenMP's team (base/parallel.h) ends a parallel loop when every thread of the
// team has passed its end, so a thread that gets no core delays all others, and
// each loop after a pause waits until its threads are awake. That is right for
// long kernels. Here the calling thread waits for nobody but those that have
// started a part.
//
// The helpers belong to the process: as many as any call could use so far. One
// that has run a part looks for another for half a millisecond, and gives its
// core to others that want it; then it sleeps. In a child process after fork()
// there are none.
#ifndef SLUICE_BASE_HELPER_THREADS_H_
#define SLUICE_BASE_HELPER_THREADS_H_

#include <atomic>
#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"

namespace sluice {

// Calls fn(0), ..., fn(parts - 1), each once, on this thread and at most
// parts - 1 helpers, and returns when all have returned. Which thread runs a
// part depends on timing; this thread runs all that no helper has started.
// Callable from any thread, also from several at once.
void RunParts(int parts, absl::FunctionRef<void(int)> fn);

// Parts that helpers run while their owner does something else: it takes them
// one by one as they are done, in any order. Used by one thread at a time.
class PartsInFlight {
 public:
  PartsInFlight() = default;
  PartsInFlight(const PartsInFlight&) = delete;
  ~PartsInFlight() { Drop(); }

  // Offers fn(0), ..., fn(parts - 1) to the helpers, of which at most `helpers`
  // run some at a time. REQUIRES: empty().
  void Start(int parts, int helpers, std::function<void(int)> fn);
  // Whether Next has returned all parts.
  bool empty() const { return left_ == 0; }
  // A part that is done. If no helper is done with one, runs one here, or waits
  // if all have been started. REQUIRES: !empty().
  int Next();
  // Those that have not been started never are; waits for the others.
  void Drop();

 private:
  friend class Helpers;
  std::function<void(int)> fn_;
  int left_ = 0;  // The owner's.
  // GUARDED_BY the mutex of Helpers.
  int parts_ = 0;
  int helpers_ = 0;        // The most that may run parts.
  int next_ = 0;           // To be started; parts_: all are.
  int running_ = 0;        // On helpers.
  std::vector<int> done_;  // By helpers.
  // The size of done_. Written under the mutex.
  std::atomic<int> num_done_{0};
};

}  // namespace sluice

#endif  // SLUICE_BASE_HELPER_THREADS_H_
