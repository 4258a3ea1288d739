// A profiled step as bars on rows.
#ifndef SLUICE_TOOLS_BOARD_TIMELINE_H_
#define SLUICE_TOOLS_BOARD_TIMELINE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace sluice::board {

struct TimelineBar {
  double start_us = 0;  // Since the first bar of the step.
  double us = 0;        // How long it is.
  std::string node, op;
  int64_t output_bytes = 0;
};

// What one thread of a device did. Bars do not overlap and are sorted: what ran
// at the same time on the same thread is on another row of the same names.
struct TimelineRow {
  std::string device, thread;
  std::vector<TimelineBar> bars = {};
};

struct Timeline {
  double us = 0;                  // From the first start to the last end.
  std::vector<TimelineRow> rows;  // By device, thread.
  int64_t left_out = 0;           // Bars beyond `most_bars`.
};

// `run_metadata`: a serialised RunMetadata of a traced step, ours or
// TensorFlow's. InvalidArgument if it is malformed, NotFound if it has no
// step_stats.
Result<Timeline> TimelineOf(std::string_view run_metadata,
                            int64_t most_bars = 100'000);

}  // namespace sluice::board

#endif  // SLUICE_TOOLS_BOARD_TIMELINE_H_
