// EmulatedStream: a stream of an emulated device.
#ifndef SLUICE_EXEC_DEVICES_EMULATED_STREAM_H_
#define SLUICE_EXEC_DEVICES_EMULATED_STREAM_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "exec/core/stream.h"
#include "exec/devices/emulated_clock.h"

namespace sluice {

// A time of the clock. Immutable.
class EmulatedEvent final : public Event {
 public:
  EmulatedEvent(std::shared_ptr<EmulatedClock> clock, int64_t time)
      : clock_(std::move(clock)), time_(time) {}
  bool done() const override { return clock_->Now() >= time_; }
  void OnDone(std::function<void()> fn) override {
    clock_->At(time_, std::move(fn));
  }
  int64_t time() const { return time_; }

 private:
  const std::shared_ptr<EmulatedClock> clock_;
  const int64_t time_;
};

// Work takes a known time, so that it is known when it is enqueued when it will
// run. Events of other streams must be EmulatedEvents of the same clock.
// Thread-safe.
class EmulatedStream final : public Stream {
 public:
  struct Span {
    int64_t start_ns, end_ns;
  };

  explicit EmulatedStream(std::shared_ptr<EmulatedClock> clock)
      : clock_(std::move(clock)) {}

  std::shared_ptr<Event> Record() override;
  void Wait(const std::shared_ptr<Event>& event) override;

  // Enqueues work of that duration and returns when it will run.
  Span Enqueue(int64_t ns);
  // When all work that was enqueued will be done.
  int64_t Position() const;
  // How long the enqueued work takes in all.
  int64_t BusyNs() const;

 private:
  const std::shared_ptr<EmulatedClock> clock_;
  mutable std::mutex mu_;
  int64_t position_ = 0;                 // GUARDED_BY(mu_)
  int64_t busy_ns_ = 0;                  // GUARDED_BY(mu_)
  std::shared_ptr<EmulatedEvent> last_;  // Recorded. GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_EXEC_DEVICES_EMULATED_STREAM_H_
