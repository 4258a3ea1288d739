#include "tools/sluice/cli.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "exec/devices/device_list.h"
#include "graph/op_def.h"
#if __has_include("tools/sluice/demo.h")
#include "tools/sluice/demo.h"
#define SLUICE_HAS_DEMO 1
#endif

#ifndef SLUICE_VERSION
#define SLUICE_VERSION "unversioned"
#endif

namespace sluice::cli {
namespace {

bool IsSubcommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* sub : app.get_subcommands(nullptr))
    if (sub->get_name() == name) return true;
  return false;
}

std::string UnknownSubcommand(const CLI::App& app, const std::string& got) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands(nullptr))
    names.push_back(sub->get_name());
  const std::vector<std::string> near = NearestNames(got, names, 1);
  return absl::StrCat("subcommand: expected one of ",
                      absl::StrJoin(names, ", "), "; got '", got, "'",
                      near.empty() ? "" : ", did you mean '",
                      near.empty() ? "" : near[0] + "'?");
}

}  // namespace

int Fail(int code, const std::string& message) {
  // Keep it on one line, whatever the message quotes.
  std::fprintf(stderr, "sluice: %s\n",
               absl::StrReplaceAll(message, {{"\n", " "}}).c_str());
  return code;
}

std::string IsTarget(const std::string& target) {
  if (target.starts_with("grpc://")) return "";
  return absl::StrCat("expected grpc://host:port, got '", target, "'");
}

std::string IsDeviceList(const std::string& devices) {
  const Status s = ParseDeviceList(devices).status();
  // (CLI11 adds the option's name.)
  return std::string(absl::StripPrefix(s.message(), "--devices: "));
}

std::string IsRange(const std::string& range) {
  const size_t comma = range.find(',');
  double low = 0, high = 0;
  if (comma != std::string::npos &&
      absl::SimpleAtod(range.substr(0, comma), &low) &&
      absl::SimpleAtod(range.substr(comma + 1), &high) && std::isfinite(low) &&
      std::isfinite(high))
    return "";
  return absl::StrCat("expected LOW,HIGH (0,1), got '", range, "'");
}

std::pair<double, double> ParseRange(const std::string& range) {
  const size_t comma = range.find(',');
  std::pair<double, double> r;
  (void)absl::SimpleAtod(range.substr(0, comma), &r.first);
  (void)absl::SimpleAtod(range.substr(comma + 1), &r.second);
  return r;
}

Result<Feeds> ReadFeeds(const Graph& g, const std::vector<std::string>& feeds,
                        const FeedOptions& options) {
  Feeds values;
  for (const std::string& feed : feeds) {
    const size_t equals = feed.find('=');
    if (equals == std::string::npos || equals == 0)
      return InvalidArgument("--feed: expected NAME=VALUE, got '", feed, "'");
    const Result<Output> found = g.FindOutput(feed.substr(0, equals));
    if (!found.ok()) return Annotate(found.status(), "--feed");
    const Output to = *found;
    for (const auto& [other, value] : values)
      if (other.SameAs(to))
        return InvalidArgument("--feed: expected one value for '", to.name(),
                               "', got two");
    SLUICE_ASSIGN_OR_RETURN(
        Tensor value, ReadFeedValue(to, feed.substr(equals + 1), options));
    values.emplace_back(to, std::move(value));
  }
  return values;
}

Result<std::vector<Output>> FindEdges(const Graph& g,
                                      const std::vector<std::string>& names,
                                      const std::string& option) {
  std::vector<Output> edges;
  for (const std::string& name : names) {
    const Result<Output> edge = g.FindOutput(name);
    if (!edge.ok()) return Annotate(edge.status(), option);
    edges.push_back(*edge);
  }
  return edges;
}

Result<std::vector<Node*>> FindNodes(const Graph& g,
                                     const std::vector<std::string>& names,
                                     const std::string& option) {
  std::vector<Node*> nodes;
  for (const std::string& name : names) {
    const Result<Node*> n = g.LookupNode(name);
    if (!n.ok()) return Annotate(n.status(), option);
    nodes.push_back(*n);
  }
  return nodes;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Sluice: a dataflow system for machine learning. Runs graphs that "
      "TensorFlow or Sluice built.",
      "sluice");
  app.set_version_flag("--version", "sluice " SLUICE_VERSION);
  app.require_subcommand(1);
  std::function<int()> run;
  AddRun(app, &run);
  AddOps(app, &run);
  AddFreeze(app, &run);
  AddInspect(app, &run);
  AddQuantize(app, &run);
  AddReplay(app, &run);
  AddShow(app, &run);
  AddBench(app, &run);
  AddWorker(app, &run);
  AddLaunch(app, &run);
  AddSimulate(app, &run);
  AddCalibrate(app, &run);
  AddTop(app, &run);
  AddBoard(app, &run);
  AddClusterDemo(app, &run);
#ifdef SLUICE_HAS_DEMO
  // It parses its own options.
  app.add_subcommand("demo",
                     "Train two networks on real images; demo --help for more")
      ->prefix_command();
  if (argc > 1 && std::string(argv[1]) == "demo")
    return DemoMain(argc - 1, argv + 1);
#endif
  if (argc > 1 && argv[1][0] != '-' && !IsSubcommand(app, argv[1]))
    return Fail(kUsage, UnknownSubcommand(app, argv[1]));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version.
    const std::string sub = argc > 1 && IsSubcommand(app, argv[1])
                                ? absl::StrCat(" ", argv[1])
                                : "";
    return Fail(kUsage, absl::StrCat(e.what(), "; see sluice", sub, " --help"));
  }
  return run();
}

}  // namespace sluice::cli
