// sluice top: shows the status of a cluster's tasks while they run.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/cluster_library.h"
#include "cluster/cluster_watch.h"
#include "tools/sluice/cli.h"
#include "tools/sluice/top_table.h"

namespace sluice::cli {
namespace {

struct TopOptions {
  std::string target;
  double interval_s = 2;
  bool once = false, json = false, pipelines = false;
};

using Clock = std::chrono::steady_clock;

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

std::string TimeOfDay() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[16];
  std::strftime(text, sizeof(text), "%H:%M:%S", &local);
  return text;
}

std::vector<TaskState> Seen(const std::vector<TopRow>& rows) {
  std::vector<TaskState> seen;
  for (const TopRow& r : rows) seen.push_back(r.seen);
  return seen;
}

// The contents of a screen. `error`: why no task was found; "" if any was.
std::string Screen(const TopOptions& o, const std::string& error,
                   const std::string& table) {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  const std::string whole = absl::StrFormat(
      "%s  %s  every %g s, Ctrl-C ends\n%s\n%s", o.target, TimeOfDay(),
      o.interval_s, error.empty() ? "" : "\x1b[31m" + error + "\x1b[0m", table);
  // (One line is left for the shell's prompt.)
  return "\x1b[H\x1b[2J" +
         FitScreen(whole, size.ws_col, std::max(size.ws_row - 1, 1)) + "\n";
}

std::string Tables(const TopOptions& o, const std::vector<TopRow>& rows,
                   bool color) {
  const std::string stages = PipelineTable(rows, color);
  if (o.pipelines) return stages.empty() ? "no pipelines\n" : stages;
  return TopTable(rows, color) + (stages.empty() ? "" : "\n" + stages);
}

int Top(const TopOptions& o) {
  const Result<void*> found = DistSymbol("sluice_watch_cluster");
  if (!found.ok()) return Fail(kRunFailed, found.status());
  std::string error;
  const std::unique_ptr<ClusterWatch> watch(
      reinterpret_cast<decltype(&sluice_watch_cluster)>(*found)(&o.target,
                                                                &error));
  if (watch == nullptr) return Fail(kUsage, error);
  const bool terminal = isatty(STDOUT_FILENO) != 0 && !o.json && !o.once;
  // Tasks that do not answer do not delay the tables.
  const auto patience = Milliseconds(std::clamp(o.interval_s / 2, 0.25, 1.0));
  const auto interval =
      Milliseconds(o.once ? std::min(o.interval_s, 1.0) : o.interval_s);
  std::vector<TopRow> rows;
  auto next = Clock::now();
  // (Rates need two samples; the first table is shown at once anyway.)
  for (bool first = true;; first = false) {
    Result<std::vector<TaskState>> now = watch->Poll(patience);
    error = now.ok()
                ? ""
                : absl::StrReplaceAll(now.status().message(), {{"\n", " "}});
    if (!now.ok() && (first || o.once)) return Fail(kRunFailed, error);
    if (!now.ok()) {  // All tasks are shown as lost.
      now = Seen(rows);
      for (TaskState& t : *now) t.error = "no answer";
    }
    rows = TopRows(Seen(rows), *now);
    MarkStragglers(&rows);
    if (!o.once || !first) {
      const std::string table =
          o.json ? TopJson(rows) : Tables(o, rows, terminal);
      if (!terminal && !error.empty()) Fail(kRunFailed, error);
      std::fputs(terminal ? Screen(o, error, table).c_str() : table.c_str(),
                 stdout);
      if (!terminal && !o.json && !o.once) std::fputs("\n", stdout);
      if (std::fflush(stdout) != 0) return 0;  // The reader is gone.
      if (o.once) return 0;
    }
    next = std::max(next + interval, Clock::now());
    std::this_thread::sleep_until(next);
  }
}

}  // namespace

void AddTop(CLI::App& app, std::function<int()>* run) {
  auto o = std::make_shared<TopOptions>();
  CLI::App* sub =
      app.add_subcommand("top", "Watch the tasks of a cluster as they run");
  sub->footer(
      "Example: sluice top grpc://10.0.0.3:4440\n"
      "A task is a straggler if its steps take 1.5 times as long as those of "
      "the other\ntasks of its job (medians), if its p95 is 3 times theirs, or "
      "if it is twice as busy.");
  sub->add_option("TARGET", o->target,
                  "A task, grpc://host:port, or a cluster: etcd://..., FILE")
      ->required();
  sub->add_option("--interval", o->interval_s, "Seconds between two samples")
      ->check([](const std::string& text) -> std::string {  // (No NaN.)
        double s = 0;
        if (absl::SimpleAtod(text, &s) && s >= 0.05 && s <= 86400) return "";
        return absl::StrCat("expected 0.05 to 86400 seconds, got '", text, "'");
      })
      ->capture_default_str();
  sub->add_flag("--once", o->once, "Print one table and exit");
  sub->add_flag("--pipelines", o->pipelines,
                "Print the pipelines' stages only, without the tasks");
  sub->add_flag("--json", o->json, "Print a line of JSON for each sample");
  sub->callback([o, run] { *run = [o] { return Top(*o); }; });
}

}  // namespace sluice::cli
