// sluice run: one step of a graph in a file.
#include <CLI/CLI.hpp>
#include <climits>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "exec/devices/device_list.h"
#include "io/file.h"
#include "io/npy.h"
#include "session/session.h"
#include "tools/sluice/cli.h"

namespace sluice::cli {
namespace {

struct RunFlags {
  std::string graph;
  std::vector<std::string> feeds, fetches, targets, init;
  std::string out, trace, image_range;
  std::optional<DeviceList> devices;
  int64_t timeout_ms = 0;
  uint64_t seed = 0;
};

// The feeds, fetches and targets of the command line, resolved in the graph.
struct Step {
  Feeds feeds;
  std::vector<Output> fetches;
  std::vector<Node*> targets, init;
};

Result<Step> FindStep(const Graph& g, const RunFlags& o) {
  Step step;
  FeedOptions feed_options;
  if (!o.image_range.empty())
    feed_options.image_range = ParseRange(o.image_range);
  SLUICE_ASSIGN_OR_RETURN(step.feeds, ReadFeeds(g, o.feeds, feed_options));
  SLUICE_ASSIGN_OR_RETURN(step.fetches, FindEdges(g, o.fetches, "--fetch"));
  SLUICE_ASSIGN_OR_RETURN(step.targets, FindNodes(g, o.targets, "--target"));
  SLUICE_ASSIGN_OR_RETURN(step.init, FindNodes(g, o.init, "--init"));
  return step;
}

// "layer1/weights:0" -> "layer1_weights_0.npy".
std::string FileName(std::string name) {
  for (char& c : name)
    if (c == '/' || c == ':' || c == '\\') c = '_';
  return name + ".npy";
}

Status Deliver(const RunFlags& o, const std::vector<Tensor>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (o.out.empty()) {
      std::printf("%s: %s\n", o.fetches[i].c_str(),
                  values[i].ToString(100).c_str());
      continue;
    }
    const std::string path = o.out + "/" + FileName(o.fetches[i]);
    SLUICE_RETURN_IF_ERROR(WriteNpy(path, values[i]));
    std::printf("%s: %s\n", o.fetches[i].c_str(), path.c_str());
  }
  return OkStatus();
}

int RunGraph(const RunFlags& o) {
  Graph g;
  if (const Status s = ImportGraphDefFile(o.graph, g); !s.ok())
    return Fail(kRunFailed, s);
  if (o.fetches.empty() && o.targets.empty())
    return Fail(kUsage, "run: expected --fetch or --target, got neither");
  const Result<Step> step = FindStep(g, o);
  if (!step.ok()) return Fail(kUsage, step.status());
  SessionOptions session_options;
  session_options.scheduler_seed = o.seed;
  if (o.devices) session_options.devices = o.devices->Make();
  Session session(g, session_options);
  RunOptions options;
  options.timeout_ms = o.timeout_ms;
  if (!step->init.empty()) {
    const Status s = session.Run({}, {}, step->init, options).status();
    if (!s.ok()) return Fail(kRunFailed, Annotate(s, "--init"));
  }
  options.trace = !o.trace.empty();
  RunMetadata metadata;
  const Result<std::vector<Tensor>> values = session.Run(
      step->feeds, step->fetches, step->targets, options, &metadata);
  if (!values.ok()) return Fail(kRunFailed, values.status());
  Status s = Deliver(o, *values);
  if (s.ok() && options.trace) s = WriteFile(o.trace, metadata.ChromeTrace());
  return s.ok() ? 0 : Fail(kRunFailed, s);
}

}  // namespace

void AddRun(CLI::App& app, std::function<int()>* run) {
  auto o = std::make_shared<RunFlags>();
  CLI::App* sub = app.add_subcommand("run", "Run one step of a graph");
  sub->footer(
      "Examples: sluice run model.pb --init init --feed x=x.npy --fetch y\n"
      "          sluice run loop.pb --feed n=10 --feed 'x=[[1,2],[3,4]]' "
      "--fetch y\n"
      "          sluice run classifier.pb --feed image=cat.jpg --fetch scores\n"
      "A feed is a file if it ends in .npy, .png, .jpg or .jpeg or begins "
      "with @ (@10 is\nthe file 10), else a value: numbers (also nan, inf, "
      "1+2j), true, false, strings, and\nlists of them. Both are converted to "
      "the type of the edge, or refused. An image is\n[height, width, channels]"
      " of 0 to 255; an edge of rank 4 takes it as a batch of one, and\nthe "
      "last dimension selects grey (1), RGB (3) or RGBA (4).");
  sub->add_option("GRAPH", o->graph, "GraphDef, binary or text")
      ->required()
      ->check(WhyNoGraphFile);
  sub->add_option("--feed", o->feeds,
                  "NAME=VALUE: a number, a list, a .npy file or an image, for "
                  "an edge")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_option("--fetch", o->fetches, "Edge to compute: NAME or NAME:INDEX")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_option("--target", o->targets, "Operation to run")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_option("--init", o->init,
                  "Operation to run in an earlier step (initializers)")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_option("--out", o->out,
                  "Write fetched values to DIR/NAME.npy instead of printing")
      ->check(CLI::ExistingDirectory);
  sub->add_option("--trace", o->trace,
                  "Write a timeline of the step (chrome://tracing, Perfetto)");
  sub->add_option("--image-range", o->image_range,
                  "LOW,HIGH: what 0 and 255 of images become on floating "
                  "edges, such as 0,1; by default they stay as they are")
      ->check(IsRange);
  sub->add_option_function<std::string>(
         "--devices",
         [o](const std::string& text) { o->devices = *ParseDeviceList(text); },
         "N, or cpu=N,emu=N(memory=1G,kernel_us=20,...): devices of this "
         "process, some of them emulated")
      ->check(IsDeviceList);
  sub->add_option("--timeout-ms", o->timeout_ms, "Give up after this long")
      ->check(CLI::Range(0, INT_MAX));
  sub->add_option("--seed", o->seed, "Run ready nodes in a random order")
      ->check(CLI::NonNegativeNumber);
  sub->callback([o, run] { *run = [o] { return RunGraph(*o); }; });
}

}  // namespace sluice::cli
