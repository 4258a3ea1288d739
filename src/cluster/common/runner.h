// Runner: a thread that runs posted functions in order.
#ifndef SLUICE_CLUSTER_COMMON_RUNNER_H_
#define SLUICE_CLUSTER_COMMON_RUNNER_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace sluice {

// The first Post or Every starts the thread. Shared by its users, which may
// outlive its Stop. Thread-safe.
class Runner {
 public:
  ~Runner() { Stop(); }
  // Ignored after Stop.
  void Post(std::function<void()> fn);
  // Calls `tick` at this interval from now on. Called once.
  void Every(std::chrono::milliseconds interval, std::function<void()> tick);
  // Drops the queued functions and waits for the running one, unless called
  // from it.
  void Stop();

 private:
  void Loop();

  std::mutex mu_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;  // GUARDED_BY(mu_)
  std::chrono::milliseconds interval_{0};    // GUARDED_BY(mu_)
  std::function<void()> tick_;               // GUARDED_BY(mu_)
  bool stop_ = false;                        // GUARDED_BY(mu_)
  std::thread thread_;                       // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_COMMON_RUNNER_H_
