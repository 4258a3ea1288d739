// Timer: functions that are called at a certain time.
#ifndef SLUICE_BASE_TIMER_H_
#define SLUICE_BASE_TIMER_H_

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "base/status.h"

namespace sluice {

// Calls functions on one thread of the process, which the first of them starts
// and which sleeps in between; in a child process after fork() there are none
// of the parent's. A function should return soon, since the others wait for it.
// Thread-safe.
class Timer {
 public:
  using Clock = std::chrono::steady_clock;
  using Alarm = std::pair<Clock::time_point, uint64_t>;

  static Timer& OfProcess();
  // Calls fn at that time or soon after. ResourceExhausted if the system
  // refuses the thread.
  Result<Alarm> At(Clock::time_point when, std::function<void()> fn);
  // `fn` will not be called, unless that has begun.
  void Forget(const Alarm& alarm);

 private:
  Timer() = default;
  void Loop();

  std::mutex mu_;
  std::condition_variable earlier_;
  std::map<Alarm, std::function<void()>> alarms_;  // GUARDED_BY(mu_)
  uint64_t next_ = 1;                              // GUARDED_BY(mu_)
  pid_t thread_of_ = 0;  // GUARDED_BY(mu_): the process that has the thread.
};

}  // namespace sluice

#endif  // SLUICE_BASE_TIMER_H_
