// Clock offsets are within the reported error bound for any pair of one-way
// delays.
#include "cluster/master/clock_offset.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace sluice {
namespace {

TEST(ClockReadings, OffsetIsWithinErrorBoundForAnyDelays) {
  const unsigned seed = 20261;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto uniform = [&random](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int run = 0; run < 2000; ++run) {
    // theirs = ours * speed - offset.
    const double offset = uniform(-1e15, 1e15);
    const double drift = uniform(-150, 150) / 1e6;
    const double zero = uniform(0, 1e12);
    const auto theirs = [&](double ours) {
      return static_cast<int64_t>(
          std::llround(ours + (ours - zero) * drift - offset));
    };
    ClockReadings readings;
    double now = zero;
    const int count = std::uniform_int_distribution<int>(1, 100)(random);
    for (int i = 0; i < count; ++i) {
      const double there = std::pow(10, uniform(3, 8));
      const double back = std::pow(10, uniform(3, 8));
      readings.Add({std::llround(now), theirs(now + there),
                    std::llround(now + there + back)});
      now += there + back + uniform(0, 1e7);
    }
    const double begin = now - uniform(0, 1e9), end = now + uniform(0, 1e9);
    const ClockOffset found = readings.OffsetWithin(static_cast<int64_t>(begin),
                                                    static_cast<int64_t>(end));
    for (const double at : {begin, (begin + end) / 2, end}) {
      const double wrong = static_cast<double>(theirs(at)) +
                           static_cast<double>(found.offset_ns) - at;
      ASSERT_LE(std::abs(wrong), static_cast<double>(found.error_ns) + 2)
          << "run " << run;
    }
  }
}

TEST(ClockReadings, FastestExchangeDeterminesTheOffset) {
  ClockReadings readings;
  readings.Add({0, 100500, 100000});       // Half of it one way: 50,500 off.
  readings.Add({200000, 250050, 200100});  // Quick: 50,000 off.
  readings.Add({300000, 350001, 390000});
  const ClockOffset o = readings.OffsetWithin(200000, 200100);
  EXPECT_EQ(o.offset_ns, -50000);
  EXPECT_EQ(o.error_ns, 51);
}

TEST(ClockReadings, ErrorIsUnboundedWithoutReadings) {
  EXPECT_EQ(ClockReadings().OffsetWithin(0, 1).error_ns, INT64_MAX);
  ClockReadings backwards;
  backwards.Add({10, 5, 9});
  EXPECT_EQ(backwards.OffsetWithin(0, 1).error_ns, INT64_MAX);
}

TEST(ClockReadings, OldReadingsAreReplaced) {
  ClockReadings readings;
  for (size_t i = 0; i < ClockReadings::kKept; ++i) readings.Add({0, 0, 2});
  const int64_t later = int64_t{1} << 40;
  for (size_t i = 0; i < ClockReadings::kKept; ++i)
    readings.Add({later, later - 7, later + 1000});
  EXPECT_EQ(readings.OffsetWithin(later, later).offset_ns, 507);
}

}  // namespace
}  // namespace sluice
