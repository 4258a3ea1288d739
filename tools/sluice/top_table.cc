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

// Columns of cells as text, each as wide as its widest cell.
class CellTable {
 public:
  struct Column {
    const char* title;
    bool left;
  };
  explicit CellTable(std::vector<Column> columns)
      : columns_(std::move(columns)) {
    for (const Column& c : columns_)
      widths_.push_back(std::string(c.title).size());
  }
  // `cells`: for the first columns. `note`: text behind them. `paint`: an
  // escape sequence, or "".
  void Add(std::vector<std::string> cells, const std::string& note,
           const char* paint) {
    for (size_t i = 0; i < cells.size(); ++i)
      widths_[i] = std::max(widths_[i], cells[i].size());
    lines_.push_back({std::move(cells), note, paint});
  }
  bool empty() const { return lines_.empty(); }
  std::string Text(bool color) const {
    std::string out = color ? "\x1b[7m" : "";
    for (size_t i = 0; i < columns_.size(); ++i)
      Put(&out, i, columns_[i].title);
    absl::StrAppend(&out, color ? "\x1b[0m" : "", "\n");
    for (const Line& line : lines_) {
      const bool painted = color && *line.paint != '\0';
      if (painted) out += line.paint;
      for (size_t i = 0; i < line.cells.size(); ++i)
        Put(&out, i, line.cells[i]);
      if (!line.note.empty()) absl::StrAppend(&out, "  ", line.note);
      absl::StrAppend(&out, painted ? "\x1b[0m" : "", "\n");
    }
    return out;
  }

 private:
  struct Line {
    std::vector<std::string> cells;
    std::string note;
    const char* paint;
  };
  void Put(std::string* out, size_t i, const std::string& text) const {
    const std::string pad(widths_[i] - text.size(), ' ');
    absl::StrAppend(out, i == 0 ? "" : "  ", columns_[i].left ? text : pad,
                    columns_[i].left ? pad : text);
  }

  const std::vector<Column> columns_;
  std::vector<size_t> widths_;
  std::vector<Line> lines_;
};

constexpr char kRed[] = "\x1b[31m", kYellow[] = "\x1b[33m",
               kCyan[] = "\x1b[36m";

// "[######....] 19/32"
std::string Fill(const StageCounters& s) {
  if (s.capacity <= 0) return absl::StrCat(s.ready);
  constexpr int kWidth = 10;
  const double share = std::clamp(
      static_cast<double>(s.ready) / static_cast<double>(s.capacity), 0.0, 1.0);
  const auto full = static_cast<size_t>(share * kWidth + 0.5);
  return absl::StrCat("[", std::string(full, '#'),
                      std::string(kWidth - full, '.'), "] ", s.ready, "/",
                      s.capacity);
}

std::string Percent(double share) {
  return absl::StrFormat("%.0f%%", 100 * share);
}

// What another program calls something, for a terminal.
std::string PrintableText(std::string name) {
  for (char& c : name)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  return name;
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
    r.pipelines = PipelineLoads({}, t.stages, 0);
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
    r.pipelines = PipelineLoads(was->stages, t.stages, s);
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
  struct Metric {
    const char* title;
    bool left;
    std::function<std::string(const TopRow&)> text;
  };
  const std::vector<Metric> metrics = {
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
  std::vector<CellTable::Column> columns;
  for (const Metric& m : metrics) columns.push_back({m.title, m.left});
  CellTable table(std::move(columns));
  for (const TopRow& r : rows) {
    std::vector<std::string> cells;
    for (size_t i = 0; i < metrics.size(); ++i) {
      if (r.state == TopRow::kLost && i >= kOfLost) break;
      cells.push_back(metrics[i].text(r));
    }
    table.Add(std::move(cells),
              r.state == TopRow::kLost ? r.seen.error : r.straggler,
              r.state == TopRow::kLost        ? kRed
              : !r.straggler.empty()          ? kYellow
              : r.state == TopRow::kRestarted ? kCyan
                                              : "");
  }
  return table.Text(color);
}

std::string PipelineTable(const std::vector<TopRow>& rows, bool color) {
  CellTable table({{"PIPELINE", true},
                   {"TASK", true},
                   {"STAGE", true},
                   {"ELEMENTS/S", false},
                   {"QUEUE", true},
                   {"FULL", false},
                   {"STARVED", false},
                   {"ELEMENTS", false}});
  for (const TopRow& r : rows) {
    for (const PipelineLoad& p : r.pipelines) {
      for (size_t i = 0; i < p.stages.size(); ++i) {
        const StageLoad& s = p.stages[i];
        const bool slowest = p.slowest == static_cast<int>(i);
        const bool takers = i + 1 == p.stages.size() &&
                            p.slowest == static_cast<int>(p.stages.size());
        table.Add(
            {i == 0 ? PrintableText(p.name) : "",
             i == 0 ? ShortName(r.seen.task) : "", PrintableText(s.now.stage),
             Rate(s.per_second), Fill(s.now), Percent(s.full),
             Percent(s.starving), absl::StrCat(s.now.elements)},
            slowest  ? "slowest"
            : takers ? "slowest: what takes these"
                     : "",
            slowest ? kYellow : "");
      }
    }
  }
  return table.empty() ? "" : table.Text(color);
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

namespace {

nlohmann::ordered_json PipelinesJson(const std::vector<PipelineLoad>& loads) {
  using Json = nlohmann::ordered_json;
  Json pipelines = Json::array();
  for (const PipelineLoad& p : loads) {
    Json stages = Json::array();
    for (const StageLoad& s : p.stages) {
      Json j;
      j["stage"] = s.now.stage;
      j["elements"] = s.now.elements;
      j["elements_per_s"] = s.per_second;
      j["ready"] = s.now.ready;
      j["capacity"] = s.now.capacity;
      j["full"] = s.full;
      j["starved"] = s.starving;
      stages.push_back(std::move(j));
    }
    Json j;
    j["pipeline"] = p.name;
    j["stages"] = std::move(stages);
    const auto n = static_cast<int>(p.stages.size());
    if (p.slowest >= 0 && p.slowest < n)
      j["slowest"] = p.stages[static_cast<size_t>(p.slowest)].now.stage;
    else if (p.slowest == n)
      j["slowest"] = nullptr;  // What takes the elements.
    pipelines.push_back(std::move(j));
  }
  return pipelines;
}

}  // namespace

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
    if (!r.pipelines.empty()) j["pipelines"] = PipelinesJson(r.pipelines);
    tasks.push_back(std::move(j));
  }
  return Json{{"tasks", std::move(tasks)}}.dump(
             -1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace sluice::cli
