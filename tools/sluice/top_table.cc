#include "tools/sluice/top_table.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace sluice::cli {
namespace {

std::string JobOf(const std::string& task) {
  return task.substr(0, task.find("/replica:"));
}

// "/job:ps/replica:0/task:1" as "ps:1".
std::string ShortName(const std::string& task) {
  const size_t job = task.find("/job:"), replica = task.find("/replica:"),
               number = task.find("/task:");
  if (job != 0 || replica == std::string::npos || number == std::string::npos)
    return task;
  return absl::StrCat(task.substr(5, replica - 5), ":",
                      task.substr(number + 6));
}

double Median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  const size_t half = v.size() / 2;
  return v.size() % 2 == 1 ? v[half] : (v[half - 1] + v[half]) / 2;
}

std::string Bytes(double b) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t u = 0;
  while (b >= 999.5 && u + 1 < std::size(units)) {
    b /= 1000;
    ++u;
  }
  return absl::StrFormat("%.*f %s", u == 0 || b >= 99.95 ? 0 : 1, b, units[u]);
}

std::string Time(int64_t ns) {
  const auto t = static_cast<double>(ns);
  if (ns == 0) return "-";
  if (t < 999.5e3) return absl::StrFormat("%.0f us", t / 1e3);
  if (t < 999.5e6) return absl::StrFormat("%.1f ms", t / 1e6);
  return absl::StrFormat("%.1f s", t / 1e9);
}

std::string Age(int64_t ns) {
  const int64_t s = ns / 1000000000;
  if (s < 60) return absl::StrCat(s, " s");
  if (s < 3600) return absl::StrCat(s / 60, " min");
  if (s < 48 * 3600) return absl::StrFormat("%d h %02d", s / 3600, s / 60 % 60);
  return absl::StrCat(s / 86400, " d");
}

std::string Rate(double r) {
  return absl::StrFormat("%.*f", r < 99.95 ? 1 : 0, r);
}

const char* StateName(TopRow::State s) {
  switch (s) {
    case TopRow::kUp:
      return "up";
    case TopRow::kRestarted:
      return "restarted";
    case TopRow::kLost:
      return "lost";
  }
  return "";
}

}  // namespace

std::vector<TopRow> TopRows(const std::vector<TaskState>& before,
                            const std::vector<TaskState>& now) {
  std::map<std::string, const TaskState*> earlier;
  for (const TaskState& t : before) earlier[t.task] = &t;
  std::vector<TopRow> rows;
  for (const TaskState& t : now) {
    TopRow& r = rows.emplace_back();
    r.seen = t;
    const auto it = earlier.find(t.task);
    const TaskState* const was = it == earlier.end() ? nullptr : it->second;
    if (was != nullptr) earlier.erase(it);
    if (!t.error.empty()) {
      r.state = TopRow::kLost;
      if (was != nullptr) r.seen.incarnation = was->incarnation;
      continue;
    }
    if (was == nullptr || was->incarnation == 0) continue;
    if (was->incarnation != t.incarnation) {
      r.state = TopRow::kRestarted;
      continue;
    }
    const double s = static_cast<double>(t.clock_ns - was->clock_ns) / 1e9;
    if (!was->error.empty() || s <= 0) continue;
    const auto rate = [s](int64_t a, int64_t b) {
      return std::max(0.0, static_cast<double>(b - a) / s);
    };
    r.steps_per_s = rate(was->steps, t.steps);
    r.sent_per_s = rate(was->bytes_sent, t.bytes_sent);
    r.received_per_s = rate(was->bytes_received, t.bytes_received);
    r.cores = rate(was->cpu_ns, t.cpu_ns) / 1e9;
  }
  for (const auto& [task, was] : earlier) {
    TopRow& r = rows.emplace_back();
    r.seen.task = task;
    r.seen.address = was->address;
    r.seen.incarnation = was->incarnation;
    r.seen.error = "no longer registered";
    r.state = TopRow::kLost;
  }
  std::stable_sort(rows.begin(), rows.end(), [](auto& a, auto& b) {
    const std::string ja = JobOf(a.seen.task), jb = JobOf(b.seen.task);
    if (ja != jb) return ja < jb;
    return a.seen.task.size() != b.seen.task.size()
               ? a.seen.task.size() < b.seen.task.size()
               : a.seen.task < b.seen.task;
  });
  return rows;
}

void MarkStragglers(std::vector<TopRow>* rows) {
  for (TopRow& r : *rows) {
    r.straggler.clear();
    const auto counts = [](const TopRow& x) {
      return x.state != TopRow::kLost && x.seen.recent_steps >= kEnoughSteps;
    };
    if (!counts(r)) continue;
    std::vector<double> p50, p95, cores;
    for (const TopRow& other : *rows) {
      if (&other == &r || !counts(other) ||
          JobOf(other.seen.task) != JobOf(r.seen.task))
        continue;
      p50.push_back(static_cast<double>(other.seen.step_p50_ns));
      p95.push_back(static_cast<double>(other.seen.step_p95_ns));
      cores.push_back(other.cores);
    }
    if (p50.empty()) continue;
    const double half = Median(p50), most = Median(p95), busy = Median(cores);
    const auto mine = static_cast<double>(r.seen.step_p50_ns);
    const auto tail = static_cast<double>(r.seen.step_p95_ns);
    if (half > 0 && mine >= 1.5 * half)
      r.straggler = absl::StrFormat("slow: steps take %.1f times the others'",
                                    mine / half);
    else if (most > 0 && tail >= 3 * most)
      r.straggler =
          absl::StrFormat("uneven: p95 is %.1f times the others'", tail / most);
    else if (r.cores > 0.5 && r.cores >= 2 * busy)
      r.straggler =
          absl::StrFormat("busy: %.1f cores, the others %.1f", r.cores, busy);
  }
}

std::string TopTable(const std::vector<TopRow>& rows, bool color) {
  struct Column {
    const char* title;
    bool left;
    std::function<std::string(const TopRow&)> text;
  };
  const std::vector<Column> columns = {
      {"TASK", true, [](const TopRow& r) { return ShortName(r.seen.task); }},
      {"STATE", true,
       [](const TopRow& r) { return std::string(StateName(r.state)); }},
      {"INCARNATION", true,
       [](const TopRow& r) {
         return r.seen.incarnation == 0
                    ? std::string("-")
                    : absl::StrFormat("%08x", r.seen.incarnation >> 32);
       }},
      {"AGE", false,
       [](const TopRow& r) {
         return Age(r.seen.clock_ns - r.seen.started_ns);
       }},
      {"SESS", false,
       [](const TopRow& r) { return absl::StrCat(r.seen.sessions); }},
      {"RUN", false,
       [](const TopRow& r) { return absl::StrCat(r.seen.running_steps); }},
      {"STEPS/S", false, [](const TopRow& r) { return Rate(r.steps_per_s); }},
      {"P50", false, [](const TopRow& r) { return Time(r.seen.step_p50_ns); }},
      {"P95", false, [](const TopRow& r) { return Time(r.seen.step_p95_ns); }},
      {"IN/S", false, [](const TopRow& r) { return Bytes(r.received_per_s); }},
      {"OUT/S", false, [](const TopRow& r) { return Bytes(r.sent_per_s); }},
      {"MEMORY", false,
       [](const TopRow& r) {
         return Bytes(static_cast<double>(r.seen.live_bytes));
       }},
      {"CORES", false,
       [](const TopRow& r) { return absl::StrFormat("%.2f", r.cores); }},
      {"STEPS", false,
       [](const TopRow& r) { return absl::StrCat(r.seen.steps); }},
      {"FAILED", false,
       [](const TopRow& r) { return absl::StrCat(r.seen.failed_steps); }},
  };
  // A lost task has only a name, a state, and a reason.
  constexpr size_t kOfLost = 3;
  std::vector<std::vector<std::string>> cells;
  std::vector<size_t> widths;
  for (const Column& c : columns) widths.push_back(std::string(c.title).size());
  for (const TopRow& r : rows) {
    std::vector<std::string>& line = cells.emplace_back();
    for (size_t i = 0; i < columns.size(); ++i) {
      if (r.state == TopRow::kLost && i >= kOfLost) break;
      line.push_back(columns[i].text(r));
      widths[i] = std::max(widths[i], line.back().size());
    }
  }
  const auto put = [&](std::string* out, size_t i, const std::string& text) {
    const std::string pad(widths[i] - text.size(), ' ');
    absl::StrAppend(out, i == 0 ? "" : "  ", columns[i].left ? text : pad,
                    columns[i].left ? pad : text);
  };
  std::string out = color ? "\x1b[7m" : "";
  for (size_t i = 0; i < columns.size(); ++i) put(&out, i, columns[i].title);
  absl::StrAppend(&out, color ? "\x1b[0m" : "", "\n");
  for (size_t n = 0; n < rows.size(); ++n) {
    const TopRow& r = rows[n];
    const char* const paint = r.state == TopRow::kLost        ? "\x1b[31m"
                              : !r.straggler.empty()          ? "\x1b[33m"
                              : r.state == TopRow::kRestarted ? "\x1b[36m"
                                                              : "";
    const bool painted = color && *paint != '\0';
    if (painted) out += paint;
    for (size_t i = 0; i < cells[n].size(); ++i) put(&out, i, cells[n][i]);
    const std::string& note =
        r.state == TopRow::kLost ? r.seen.error : r.straggler;
    if (!note.empty()) absl::StrAppend(&out, "  ", note);
    absl::StrAppend(&out, painted ? "\x1b[0m" : "", "\n");
  }
  return out;
}

std::string FitScreen(const std::string& text, size_t columns, size_t rows) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  if (lines.size() > rows) {
    const size_t left = lines.size() - rows + 1;
    lines.resize(rows - 1);
    lines.push_back(absl::StrCat("and ", left, " more"));
  }
  for (std::string& line : lines) {
    std::string kept;
    size_t width = 0;
    bool escape = false;
    for (const char c : line) {
      escape |= c == '\x1b';
      // (Continuation bytes of a character take no width.)
      if (!escape && (c & 0xc0) != 0x80) ++width;
      if (escape || width <= columns) kept += c;
      if (c == 'm') escape = false;
    }
    line = std::move(kept);
  }
  return absl::StrJoin(lines, "\n");
}

std::string TopJson(const std::vector<TopRow>& rows) {
  using Json = nlohmann::ordered_json;
  Json tasks = Json::array();
  for (const TopRow& r : rows) {
    const TaskState& t = r.seen;
    Json j;
    j["task"] = t.task;
    j["address"] = t.address;
    j["state"] = StateName(r.state);
    if (t.incarnation != 0)
      j["incarnation"] = absl::StrFormat("%016x", t.incarnation);
    if (r.state == TopRow::kLost) {
      j["error"] = t.error;
      tasks.push_back(std::move(j));
      continue;
    }
    j["age_s"] = static_cast<double>(t.clock_ns - t.started_ns) / 1e9;
    j["devices"] = t.devices;
    j["sessions"] = t.sessions;
    j["running_steps"] = t.running_steps;
    j["steps"] = t.steps;
    j["failed_steps"] = t.failed_steps;
    j["steps_per_s"] = r.steps_per_s;
    j["step_p50_s"] = static_cast<double>(t.step_p50_ns) / 1e9;
    j["step_p95_s"] = static_cast<double>(t.step_p95_ns) / 1e9;
    j["received_bytes_per_s"] = r.received_per_s;
    j["sent_bytes_per_s"] = r.sent_per_s;
    j["live_bytes"] = t.live_bytes;
    j["peak_bytes"] = t.peak_bytes;
    j["cores"] = r.cores;
    if (!r.straggler.empty()) j["straggler"] = r.straggler;
    tasks.push_back(std::move(j));
  }
  return Json{{"tasks", std::move(tasks)}}.dump() + "\n";
}

}  // namespace sluice::cli
