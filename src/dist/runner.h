// Runner: a thread that does what it is told, in order.
#ifndef SLUICE_DIST_RUNNER_H_
#define SLUICE_DIST_RUNNER_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace sluice {

// The thread begins with the first Post, or with Every. Shared by what posts to
// it, which may outlive its Stop. Thread-safe.
class Runner {
 public:
  ~Runner() { Stop(); }
  // Passed over after Stop.
  void Post(std::function<void()> fn);
  // Calls `tick` so often, from now on. Once.
  void Every(std::chrono::milliseconds interval, std::function<void()> tick);
  // Forgets what was posted; waits for what runs, unless it is this thread that
  // runs it.
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

#endif  // SLUICE_DIST_RUNNER_H_
