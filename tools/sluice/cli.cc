#include "tools/sluice/cli.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "graph/graphdef.h"
#include "graph/op_def.h"
#include "io/file.h"
#include "io/npy.h"
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
  // One line, whatever the message quotes.
  std::fprintf(stderr, "sluice: %s\n",
               absl::StrReplaceAll(message, {{"\n", " "}}).c_str());
  return code;
}

std::string IsTarget(const std::string& target) {
  if (target.starts_with("grpc://")) return "";
  return absl::StrCat("expected grpc://host:port, got '", target, "'");
}

bool IsTextFile(const std::string& path) {
  return path.ends_with(".pbtxt") || path.ends_with(".txt");
}

Result<std::string> ReadGraphDefFile(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
  if (IsTextFile(path)) {
    Result<std::string> binary = ParseTextGraphDef(bytes);
    if (!binary.ok())
      return Annotate(binary.status(), absl::StrCat("reading '", path, "'"));
    return binary;
  }
  return bytes;
}

Status ImportGraphDefFile(const std::string& path, Graph& g) {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ReadGraphDefFile(path));
  return Annotate(ImportGraphDef(bytes, g), path);
}

Result<Feeds> ReadFeeds(const Graph& g, const std::vector<std::string>& feeds) {
  Feeds values;
  for (const std::string& feed : feeds) {
    const size_t equals = feed.find('=');
    if (equals == std::string::npos || equals == 0)
      return InvalidArgument("--feed: expected NAME=FILE.npy, got '", feed,
                             "'");
    SLUICE_ASSIGN_OR_RETURN(const Output to,
                            g.FindOutput(feed.substr(0, equals)));
    SLUICE_ASSIGN_OR_RETURN(Tensor value, ReadNpy(feed.substr(equals + 1)));
    values.emplace_back(to, std::move(value));
  }
  return values;
}

Result<std::vector<Output>> FindEdges(const Graph& g,
                                      const std::vector<std::string>& names) {
  std::vector<Output> edges;
  for (const std::string& name : names) {
    SLUICE_ASSIGN_OR_RETURN(const Output edge, g.FindOutput(name));
    edges.push_back(edge);
  }
  return edges;
}

Result<std::vector<Node*>> FindNodes(const Graph& g,
                                     const std::vector<std::string>& names) {
  std::vector<Node*> nodes;
  for (const std::string& name : names) {
    SLUICE_ASSIGN_OR_RETURN(Node * n, g.LookupNode(name));
    nodes.push_back(n);
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
  AddQuantize(app, &run);
  AddReplay(app, &run);
  AddShow(app, &run);
  AddBench(app, &run);
  AddWorker(app, &run);
  AddTop(app, &run);
  AddClusterDemo(app, &run);
#ifdef SLUICE_HAS_DEMO
  // Its options are its own.
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
