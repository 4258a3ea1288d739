// Estimates the offset between another task's steady clock and ours from round
// trips, as NTP does.
#ifndef SLUICE_CLUSTER_MASTER_CLOCK_OFFSET_H_
#define SLUICE_CLUSTER_MASTER_CLOCK_OFFSET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

// One exchange: when the request was sent and the answer received, on our
// clock, and the time that the other clock reported.
struct ClockReading {
  int64_t sent_ns = 0, peer_ns = 0, received_ns = 0;
};

// Added to the other clock's times to convert them to ours; off by at most
// `error_ns`.
struct ClockOffset {
  int64_t offset_ns = 0, error_ns = 0;
};

// The latest exchanges with one clock. A plain value.
//
// The answer was produced at some time between sent and received, so half the
// delay bounds the error and the exchange with the smallest delay is the best
// one. Clocks drift apart, so older exchanges are less accurate.
class ClockReadings {
 public:
  // How far two clocks may drift apart: each crystal is within 100 parts per
  // million of its nominal rate.
  static constexpr int64_t kDriftPerMillion = 200;
  static constexpr size_t kKept = 64;

  // Ignores a reading that was received before it was sent.
  void Add(const ClockReading& reading);
  // The offset for times between these two, on our clock. Without any reading:
  // an offset of 0 and an error of INT64_MAX.
  ClockOffset OffsetWithin(int64_t begin_ns, int64_t end_ns) const;

 private:
  std::vector<ClockReading> latest_;
  size_t next_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_MASTER_CLOCK_OFFSET_H_
