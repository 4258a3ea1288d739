// sluice top: how the tasks of a cluster are, as they run.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <thread>

#include "base/dist_library.h"
#include "dist/cluster_watch.h"
#include "tools/sluice/cli.h"
#include "tools/sluice/top_table.h"

namespace sluice::cli {
namespace {

struct TopOptions {
  std::string target;
  double interval_s = 2;
  bool once = false, json = false;
};

void Sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

std::string Clock() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[16];
  std::strftime(text, sizeof(text), "%H:%M:%S", &local);
  return text;
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
  Result<std::vector<TaskSeen>> before = watch->Look();
  if (!before.ok()) return Fail(kRunFailed, before.status());
  for (bool first = true;; first = false) {
    // (Rates take two looks; the first table is there at once all the same.)
    if (!first || o.once)
      Sleep(o.once ? std::min(o.interval_s, 1.0) : o.interval_s);
    Result<std::vector<TaskSeen>> now =
        first && !o.once ? before : watch->Look();
    std::string out;
    if (now.ok()) {
      std::vector<TopRow> rows = TopRows(*before, *now);
      MarkStragglers(&rows);
      out = o.json ? TopJson(rows) : TopTable(rows, terminal);
      before->clear();  // What is lost stays in sight.
      for (TopRow& r : rows) before->push_back(std::move(r.seen));
    } else if (o.once) {
      return Fail(kRunFailed, now.status());
    } else {
      std::fprintf(stderr, "sluice: %s\n",
                   std::string(now.status().message()).c_str());
    }
    if (terminal)
      std::printf("\x1b[H\x1b[2J%s  %s  every %g s, Ctrl-C ends\n\n",
                  o.target.c_str(), Clock().c_str(), o.interval_s);
    std::fwrite(out.data(), 1, out.size(), stdout);
    if (!terminal && !o.json && !o.once) std::printf("\n");
    if (std::fflush(stdout) != 0) return 0;  // Whoever read it is gone.
    if (o.once) return 0;
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
  sub->add_option("--interval", o->interval_s, "Seconds between two looks")
      ->check(CLI::Range(0.05, 86400.0))
      ->capture_default_str();
  sub->add_flag("--once", o->once, "Print one table and end");
  sub->add_flag("--json", o->json, "Print a line of JSON for each look");
  sub->callback([o, run] { *run = [o] { return Top(*o); }; });
}

}  // namespace sluice::cli
