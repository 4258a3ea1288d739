// EmulatedClock: the clock of emulated devices.
#ifndef SLUICE_EXEC_DEVICES_EMULATED_CLOCK_H_
#define SLUICE_EXEC_DEVICES_EMULATED_CLOCK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace sluice {

// Runs callbacks at given times; waiting costs nothing, so any number of
// devices can wait at the same time. Shared by the devices that work together.
// Thread-safe.
class EmulatedClock {
 public:
  virtual ~EmulatedClock() = default;
  // In ns since an arbitrary epoch. Within a callback: the time at which it was
  // due, so that a late thread does not delay subsequent events.
  virtual int64_t Now() = 0;
  // Calls `fn` once at `time`, or immediately if that has passed. Callbacks run
  // in order of time; for equal times, in the order in which one thread added
  // them. `fn` must not wait for another callback.
  virtual void At(int64_t time, std::function<void()> fn) = 0;

  // The process-wide clock of real time. It has as many threads as the process
  // has cores and is never destroyed.
  static const std::shared_ptr<EmulatedClock>& RealTime();
};

// Manually advanced time, for deterministic runs. Used by one thread.
class VirtualClock final : public EmulatedClock {
 public:
  int64_t Now() override { return now_; }
  void At(int64_t time, std::function<void()> fn) override {
    due_.emplace(std::pair(time > now_ ? time : now_, next_++), std::move(fn));
  }
  // Advances to the next callback and runs it. False if there is none.
  bool Next();
  // Runs all callbacks that are due until `time` and advances to it.
  void AdvanceTo(int64_t time);

 private:
  int64_t now_ = 0;
  int64_t next_ = 0;
  std::map<std::pair<int64_t, int64_t>, std::function<void()>> due_;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_DEVICES_EMULATED_CLOCK_H_
