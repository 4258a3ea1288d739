#include "tools/board/timeline.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "base/wire.h"
#include "io/proto/step_stats.pb.h"

namespace sluice::board {
namespace {

// Labels are "node = Op(inputs)" or "node = Op: shapes".
std::string OpOf(const proto::NodeExecStats& n) {
  const std::string& label = n.timeline_label();
  const size_t equals = label.find(" = ");
  if (equals == std::string::npos) return "";
  const size_t begin = equals + 3;
  return label.substr(begin, label.find_first_of("(:", begin) - begin);
}

// (The times of a file may be any 64-bit numbers, in microseconds too. Their
// sums and differences fit in 128 bits.)
absl::int128 StartNs(const proto::NodeExecStats& n) {
  return n.all_start_nanos() != 0 ? absl::int128(n.all_start_nanos())
                                  : absl::int128(n.all_start_micros()) * 1000;
}
absl::int128 LastsNs(const proto::NodeExecStats& n) {
  const absl::int128 ns = n.all_end_rel_nanos() != 0
                              ? absl::int128(n.all_end_rel_nanos())
                              : absl::int128(n.all_end_rel_micros()) * 1000;
  return std::max<absl::int128>(ns, 0);
}

}  // namespace

Result<Timeline> TimelineOf(std::string_view run_metadata, int64_t most_bars) {
  // RunMetadata.step_stats is field 1.
  proto::StepStats stats;
  FieldReader fields(run_metadata);
  WireTag tag;
  while (fields.ReadTag(&tag)) {
    std::string_view bytes;
    const bool is_stats = tag.Is(1, WireType::kBytes);
    if (!(is_stats ? fields.ReadBytes(&bytes) : fields.Skip(tag))) break;
    if (is_stats &&
        !stats.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      return InvalidArgument("step_stats: expected a StepStats, got ",
                             bytes.size(), " other bytes");
  }
  if (!fields.done())
    return InvalidArgument("profile: expected a RunMetadata, got ",
                           run_metadata.size(), " other bytes");
  absl::int128 first = absl::Int128Max(), last = 0;
  int64_t bars = 0;
  for (const auto& d : stats.dev_stats())
    for (const auto& n : d.node_stats()) {
      first = std::min(first, StartNs(n));
      last = std::max(last, StartNs(n) + LastsNs(n));
      ++bars;
    }
  if (bars == 0)
    return NotFound(
        "profile: expected the times of nodes, found none (was the "
        "step run with trace_level FULL_TRACE?)");

  Timeline t;
  t.us = static_cast<double>(last - first) / 1000;
  std::map<std::pair<std::string, uint32_t>, std::vector<TimelineBar>>
      by_thread;
  std::map<std::pair<std::string, uint32_t>, std::string> names;
  for (const auto& d : stats.dev_stats()) {
    for (const auto& [id, name] : d.thread_names())
      names[{d.device(), id}] = name;
    for (const auto& n : d.node_stats()) {
      if (most_bars-- <= 0) {
        ++t.left_out;
        continue;
      }
      TimelineBar bar{
          .start_us = static_cast<double>(StartNs(n) - first) / 1000,
          .us = static_cast<double>(LastsNs(n)) / 1000,
          .node = n.node_name(),
          .op = OpOf(n)};
      for (const auto& o : n.output())
        if (__builtin_add_overflow(bar.output_bytes,
                                   o.tensor_description()
                                       .allocation_description()
                                       .requested_bytes(),
                                   &bar.output_bytes))
          bar.output_bytes = std::numeric_limits<int64_t>::max();
      by_thread[{d.device(), n.thread_id()}].push_back(std::move(bar));
    }
  }
  for (auto& [key, of_thread] : by_thread) {
    std::stable_sort(of_thread.begin(), of_thread.end(),
                     [](const TimelineBar& a, const TimelineBar& b) {
                       return a.start_us < b.start_us;
                     });
    const size_t begin = t.rows.size();
    for (TimelineBar& bar : of_thread) {
      size_t row = begin;
      while (row < t.rows.size() &&
             t.rows[row].bars.back().start_us + t.rows[row].bars.back().us >
                 bar.start_us + 1e-9)
        ++row;
      if (row == t.rows.size()) {
        const auto name = names.find(key);
        t.rows.push_back({.device = key.first,
                          .thread = name == names.end()
                                        ? absl::StrCat("thread ", key.second)
                                        : name->second});
      }
      t.rows[row].bars.push_back(std::move(bar));
    }
  }
  return t;
}

}  // namespace sluice::board
