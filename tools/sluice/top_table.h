// The results of `sluice top` from two samples of a cluster: rates, stragglers,
// a table.
#ifndef SLUICE_TOOLS_SLUICE_TOP_TABLE_H_
#define SLUICE_TOOLS_SLUICE_TOP_TABLE_H_

#include <string>
#include <vector>

#include "cluster/cluster_watch.h"
#include "exec/core/pipeline_stages.h"

namespace sluice::cli {

struct TopRow {
  enum State { kUp, kRestarted, kLost };

  TaskState seen;
  State state = kUp;
  // Per second, since the previous sample; 0 without one, and after a restart.
  double steps_per_s = 0, sent_per_s = 0, received_per_s = 0;
  double cores = 0;                     // The number of cores in use.
  std::vector<PipelineLoad> pipelines;  // As the rates.
  // Why it is a straggler among the tasks of its job; "" if it is not.
  std::string straggler;
};

// Rows for the tasks of `now`, and for those of `before` that have disappeared.
// `before` may be empty.
std::vector<TopRow> TopRows(const std::vector<TaskState>& before,
                            const std::vector<TaskState>& now);

// Marks stragglers. A task is compared with the others of its job, which do the
// same work, if at least `kEnoughSteps` steps of each are known:
// - slow: the median time of its part of a step is 1.5 times the median of the
//   others' medians or more;
// - uneven: its 95th percentile is 3 times the median of theirs or more;
// - busy: where steps wait for each other, so that all take as long as the
// slowest,
//   it keeps twice as many cores busy as the others' median, and more than half
//   a core.
inline constexpr int64_t kEnoughSteps = 8;
void MarkStragglers(std::vector<TopRow>* rows);

// A table as text; `color`: with ANSI colours.
std::string TopTable(const std::vector<TopRow>& rows, bool color);
// A table of the stages of all pipelines: how many elements each makes, how
// full its queue is, for which share of the time it waits for room (full) and
// others for it (starved), and which stage the others wait for. "" if there is
// none.
std::string PipelineTable(const std::vector<TopRow>& rows, bool color);
// Cuts lines at the right edge of a screen and replaces those beyond its end by
// their count. Escape sequences have no width.
std::string FitScreen(const std::string& text, size_t columns, size_t rows);
// One line: {"tasks": [...]}, with bytes and seconds; a task that has pipelines
// has "pipelines".
std::string TopJson(const std::vector<TopRow>& rows);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_TOP_TABLE_H_
