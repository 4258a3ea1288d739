// sluice bench: runs the workloads of bench/.
#include "bench/bench.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>

#include "tools/sluice/cli.h"

namespace sluice::cli {
namespace {

// Results of a slow build would be misleading.
#if defined(NDEBUG) && defined(__OPTIMIZE__) && !defined(SLUICE_SANITIZED)
constexpr bool kRelease = true;
#else
constexpr bool kRelease = false;
#endif

struct BenchOptions {
  std::string filter, process;
  std::vector<std::string> arguments;
  bool json = false, list = false;
};

void Print(const std::string& name, double value, bool json) {
  if (json)
    std::printf(
        "%s\n",
        nlohmann::json{{"name", name}, {"value", value}}.dump().c_str());
  else
    std::printf("%-48s %12.6g\n", name.c_str(), value);
  std::fflush(stdout);
}

int RunProcess(const BenchOptions& o) {
  const auto main = bench::ProcessMains().find(o.process);
  if (main == bench::ProcessMains().end())
    return Fail(kUsage,
                absl::StrCat("--process: expected a part of a workload, "
                             "got '",
                             o.process, "'"));
  const Status s = main->second(o.arguments);
  return s.ok() ? 0 : Fail(kRunFailed, Annotate(s, o.process));
}

int Run(const BenchOptions& o) {
  if (!o.process.empty()) return RunProcess(o);
  std::regex filter;
  try {
    filter = std::regex(o.filter);
  } catch (const std::regex_error&) {
    return Fail(kUsage, absl::StrCat("--filter: expected a regular expression, "
                                     "got '",
                                     o.filter, "'"));
  }
  if (!kRelease && !o.list)
    return Fail(kRunFailed,
                "bench: expected a release build (cmake --preset release), got "
                "a debug build, whose results are meaningless");
  int found = 0, failed = 0;
  for (const bench::Bench& b : bench::Benches()) {
    const std::string name = "sluice." + b.name;
    if (!std::regex_search(name, filter)) continue;
    ++found;
    if (o.list) {
      std::printf("%s\n", name.c_str());
      continue;
    }
    const Result<double> value = b.fn();
    if (value.ok()) {
      Print(name, *value, o.json);
    } else {
      ++failed;
      Fail(kRunFailed, Annotate(value.status(), name));
    }
  }
  if (found == 0)
    return Fail(kUsage, absl::StrCat("--filter: expected to match one of ",
                                     bench::Benches().size(),
                                     " benchmarks (bench --list), got none for "
                                     "'",
                                     o.filter, "'"));
  return failed > 0 ? kRunFailed : 0;
}

}  // namespace

void AddBench(CLI::App& app, std::function<int()>* run) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* sub = app.add_subcommand("bench", "Measure this build");
  sub->add_option("--filter", o->filter,
                  "Only benchmarks whose name matches this regular expression");
  sub->add_flag("--json", o->json,
                "A JSON object a line: {\"name\": ..., \"value\": ...}");
  sub->add_flag("--list", o->list, "Print only names, without measuring");
  // (Hidden: workloads run it.)
  sub->add_option("--process", o->process)->group("");
  sub->add_option("arguments", o->arguments)->group("");
  sub->callback([o, run] { *run = [o] { return Run(*o); }; });
}

}  // namespace sluice::cli
