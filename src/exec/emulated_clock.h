// EmulatedClock: the time in which emulated devices work.
#ifndef SLUICE_EXEC_EMULATED_CLOCK_H_
#define SLUICE_EXEC_EMULATED_CLOCK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace sluice {

// Calls what it is given when its time has come; in between it costs nothing,
// so that any number of devices have their durations side by side. Shared by
// the devices that work together. Thread-safe.
class EmulatedClock {
 public:
  virtual ~EmulatedClock() = default;
  // In ns since some beginning. Within a callback: when that was due, so that
  // what follows from it is not late because a thread was.
  virtual int64_t Now() = 0;
  // Calls `fn` once at `time`, or at once if that has passed; in order of time,
  // then of calls, as far as one thread makes them. `fn` may call anything but
  // what waits for a callback.
  virtual void At(int64_t time, std::function<void()> fn) = 0;

  // Real time: the process's, with as many threads as it has cores, which live
  // as long as it does.
  static const std::shared_ptr<EmulatedClock>& RealTime();
};

// Time that passes when somebody says so: one seed, one run. Used by one
// thread.
class VirtualClock final : public EmulatedClock {
 public:
  int64_t Now() override { return now_; }
  void At(int64_t time, std::function<void()> fn) override {
    due_.emplace(std::pair(time > now_ ? time : now_, next_++), std::move(fn));
  }
  // Goes on to the next callback and makes it. False if there is none.
  bool Next();
  // All that are due until `time`, which it then is.
  void AdvanceTo(int64_t time);

 private:
  int64_t now_ = 0;
  int64_t next_ = 0;
  std::map<std::pair<int64_t, int64_t>, std::function<void()>> due_;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_EMULATED_CLOCK_H_
