#include "cluster/master/clock_offset.h"

#include <algorithm>

namespace sluice {

void ClockReadings::Add(const ClockReading& reading) {
  if (reading.received_ns < reading.sent_ns) return;
  if (latest_.size() < kKept) {
    latest_.push_back(reading);
  } else {
    latest_[next_ % kKept] = reading;
  }
  ++next_;
}

ClockOffset ClockReadings::OffsetWithin(int64_t begin_ns,
                                        int64_t end_ns) const {
  ClockOffset best{0, INT64_MAX};
  for (const ClockReading& r : latest_) {
    const int64_t delay = r.received_ns - r.sent_ns;
    // Rounded up, so that the bound holds for odd delays.
    int64_t error = delay / 2 + 1;
    const int64_t away =
        std::max({int64_t{0}, end_ns - r.sent_ns, r.received_ns - begin_ns});
    error += static_cast<int64_t>(static_cast<double>(away) * kDriftPerMillion /
                                  1e6);
    if (error >= best.error_ns) continue;
    best.error_ns = error;
    best.offset_ns = r.sent_ns + delay / 2 - r.peer_ns;
  }
  return best;
}

}  // namespace sluice
