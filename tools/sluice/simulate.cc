// sluice simulate: the time of a step on a cluster that need not exist.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "graph/graphdef.h"
#include "io/file.h"
#include "simulate/place_by_cost.h"
#include "simulate/simulate_step.h"
#include "tools/sluice/cli.h"
#include "tools/sluice/cluster_file.h"

namespace sluice::cli {
namespace {

struct SimulateFlags {
  std::string graph, cluster, timeline, placed;
  std::vector<std::string> feeds, fetches, targets, iterations;
  int lines = 10;
  int place = 0;  // Simulations.
};

// "FRAME=N", or "N" for all loops that are not named.
Status ReadIterations(const std::vector<std::string>& list,
                      UnknownValues* unknown) {
  for (const std::string& text : list) {
    const size_t equals = text.rfind('=');
    const std::string number =
        equals == std::string::npos ? text : text.substr(equals + 1);
    int64_t n = 0;
    if (!absl::SimpleAtoi(number, &n) || n < 0)
      return InvalidArgument("--iterations: expected [FRAME=]N, got '", text,
                             "'");
    if (equals == std::string::npos)
      unknown->iterations = n;
    else
      unknown->iterations_of[text.substr(0, equals)] = n;
  }
  return OkStatus();
}

int Simulate(const SimulateFlags& o) {
  Graph g;
  if (const Status s = ImportGraphDefFile(o.graph, g); !s.ok())
    return Fail(kRunFailed, s);
  const Result<ClusterModel> cluster = ReadClusterFile(o.cluster);
  if (!cluster.ok()) return Fail(kUsage, cluster.status());
  if (o.fetches.empty() && o.targets.empty())
    return Fail(kUsage, "simulate: expected --fetch or --target, got neither");
  StepSignature step;
  const Result<std::vector<Output>> feeds = FindEdges(g, o.feeds, "--feed");
  if (!feeds.ok()) return Fail(kUsage, feeds.status());
  const Result<std::vector<Output>> fetches =
      FindEdges(g, o.fetches, "--fetch");
  if (!fetches.ok()) return Fail(kUsage, fetches.status());
  const Result<std::vector<Node*>> targets =
      FindNodes(g, o.targets, "--target");
  if (!targets.ok()) return Fail(kUsage, targets.status());
  step.feeds = *feeds;
  step.fetches = *fetches;
  step.targets = *targets;
  SimulateOptions options;
  options.trace = !o.timeline.empty();
  if (const Status s = ReadIterations(o.iterations, &options.unknown); !s.ok())
    return Fail(kUsage, s);
  if (o.place > 0) {
    PlaceByCostOptions place;
    place.unknown = options.unknown;
    place.simulations = o.place;
    const Result<CostPlacement> placed = PlaceByCost(&g, step, *cluster, place);
    if (!placed.ok()) return Fail(kRunFailed, placed.status());
    std::printf(
        "placed %d groups by %d simulations: %.1f us; list scheduling %.1f us, "
        "one device %.1f us, bounds %.1f us (path) and %.1f us (work)\n",
        placed->groups, placed->simulations, placed->step_ns * 1e-3,
        placed->list_ns * 1e-3, placed->one_device_ns * 1e-3,
        placed->path_bound_ns * 1e-3, placed->work_bound_ns * 1e-3);
    if (!o.placed.empty()) {
      const Result<std::string> text = ExportGraphDef(g);
      const Status s = text.ok() ? WriteFile(o.placed, *text) : text.status();
      if (!s.ok()) return Fail(kRunFailed, s);
    }
  }
  const Result<StepPrediction> p = SimulateStep(g, step, *cluster, options);
  if (!p.ok()) return Fail(kRunFailed, p.status());
  std::printf("%s", p->ToString(*cluster, o.lines).c_str());
  if (options.trace)
    if (const Status s = WriteFile(o.timeline, ChromeTrace(p->trace)); !s.ok())
      return Fail(kRunFailed, s);
  return 0;
}

}  // namespace

void AddSimulate(CLI::App& app, std::function<int()>* run) {
  auto o = std::make_shared<SimulateFlags>();
  CLI::App* sub =
      app.add_subcommand("simulate", "Predict the time of a step on a cluster");
  sub->footer(
      "Example: sluice simulate model.pb --cluster cluster.json --target "
      "train\n"
      "A cluster file:\n"
      "  {\"calibration\": \"here.json\", \"machine\": {\"cores\": 8},\n"
      "   \"jobs\": {\"ps\": {\"tasks\": 2}, \"worker\": {\"tasks\": 1}}}");
  sub->add_option("GRAPH", o->graph, "GraphDef, binary or text")
      ->required()
      ->check(WhyNoGraphFile);
  sub->add_option("--cluster", o->cluster, "Cluster file (JSON)")
      ->required()
      ->check(CLI::ExistingFile);
  sub->add_option("--feed", o->feeds, "Edge that the step is fed")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_option("--fetch", o->fetches, "Edge to compute")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_option("--target", o->targets, "Operation to run")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_option("--iterations", o->iterations,
                  "[FRAME=]N: iterations of loops whose number depends on "
                  "computed values (10)")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_option("--timeline", o->timeline,
                  "Write the predicted step (chrome://tracing, Perfetto)");
  sub->add_option("--place", o->place,
                  "Choose devices for nodes that have none, with this many "
                  "simulations")
      ->check(CLI::Range(2, 1000000));
  sub->add_option("--placed", o->placed, "Write the graph with its devices");
  sub->add_option("--lines", o->lines, "Devices and machines to list")
      ->check(CLI::Range(1, 100000));
  sub->callback([o, run] { *run = [o] { return Simulate(*o); }; });
}

}  // namespace sluice::cli
