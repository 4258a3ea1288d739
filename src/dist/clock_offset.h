// How far the steady clock of another task is from ours, by round trips (the
// way of NTP).
#ifndef SLUICE_DIST_CLOCK_OFFSET_H_
#define SLUICE_DIST_CLOCK_OFFSET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

// One exchange: when we asked and when the answer was here, by our clock, and
// what the other clock said in between.
struct ClockReading {
  int64_t sent_ns = 0, theirs_ns = 0, received_ns = 0;
};

// What to add to the other clock's times for ours: wrong by `error_ns` at most.
struct ClockOffset {
  int64_t offset_ns = 0, error_ns = 0;
};

// The latest exchanges with one clock. Plain value.
//
// The answer was given somewhere between sent and received, so half of the
// delay bounds the error, and the exchange of the least delay is the best one.
// Clocks drift apart, so that an exchange is worth less the older it is.
class ClockReadings {
 public:
  // By which two clocks of one speed may drift: crystals are within 100 parts
  // in a million of it, each.
  static constexpr int64_t kDriftPerMillion = 200;
  static constexpr size_t kKept = 64;

  // Passed over if it was received before it was sent.
  void Add(const ClockReading& reading);
  // For times between these two, of ours. Without any reading: no offset, and
  // an error of INT64_MAX.
  ClockOffset Over(int64_t begin_ns, int64_t end_ns) const;

 private:
  std::vector<ClockReading> latest_;
  size_t next_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_DIST_CLOCK_OFFSET_H_
