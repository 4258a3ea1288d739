// IdleMemory: gives the memory that sessions leave behind back to the system.
#ifndef SLUICE_CLUSTER_WORKER_IDLE_MEMORY_H_
#define SLUICE_CLUSTER_WORKER_IDLE_MEMORY_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {

class Allocator;

// Steps keep freed buffers for the next step: allocators up to a limit, and the
// heap of a worker without one (worker_main.cc). Once sessions end, nothing may
// use that memory again. A thread, started at the first end of a session, then
// releases it: soon if no session is left; else seldom, since the others have
// to fault their own buffers in again. Owned by a Worker; thread-safe.
class IdleMemory {
 public:
  // The allocators outlive it.
  explicit IdleMemory(std::vector<Allocator*> allocators)
      : allocators_(std::move(allocators)) {}
  ~IdleMemory();
  IdleMemory(const IdleMemory&) = delete;
  IdleMemory& operator=(const IdleMemory&) = delete;

  // `last`: no session is left.
  void SessionEnded(bool last);

 private:
  using Clock = std::chrono::steady_clock;
  void Loop();
  void Release() const;

  const std::vector<Allocator*> allocators_;
  std::mutex mu_;
  std::condition_variable changed_;
  Clock::time_point due_ = Clock::time_point::max();       // GUARDED_BY(mu_)
  Clock::time_point released_ = Clock::time_point::min();  // GUARDED_BY(mu_)
  bool stop_ = false;                                      // GUARDED_BY(mu_)
  std::thread thread_;                                     // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_WORKER_IDLE_MEMORY_H_
