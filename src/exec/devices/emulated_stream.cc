#include "exec/devices/emulated_stream.h"

#include <algorithm>

namespace sluice {

std::shared_ptr<Event> EmulatedStream::Record() {
  std::lock_guard<std::mutex> lock(mu_);
  if (last_ == nullptr || last_->time() != position_)
    last_ = std::make_shared<EmulatedEvent>(clock_, position_);
  return last_;
}

void EmulatedStream::Wait(const std::shared_ptr<Event>& event) {
  const int64_t time = static_cast<const EmulatedEvent&>(*event).time();
  std::lock_guard<std::mutex> lock(mu_);
  position_ = std::max(position_, time);
}

EmulatedStream::Span EmulatedStream::Enqueue(int64_t ns) {
  std::lock_guard<std::mutex> lock(mu_);
  const int64_t start = std::max(clock_->Now(), position_);
  position_ = start + ns;
  busy_ns_ += ns;
  return {start, position_};
}

int64_t EmulatedStream::Position() const {
  std::lock_guard<std::mutex> lock(mu_);
  return position_;
}

int64_t EmulatedStream::BusyNs() const {
  std::lock_guard<std::mutex> lock(mu_);
  return busy_ns_;
}

}  // namespace sluice
