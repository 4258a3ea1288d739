// sluice quantize: converts a trained graph to int8 for inference.
#include "deploy/quantize.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "graph/graphdef.h"
#include "io/file.h"
#include "session/session.h"
#include "tools/sluice/cli.h"

namespace sluice::cli {
namespace {

struct QuantizeFlags {
  std::string graph, out, image_range;
  std::vector<std::string> feeds, fetches, init;
  int64_t batch = 100;
  QuantizeOptions options;
};

// Splits the examples, which lie along the first dimension of every non-scalar
// feed, into steps of `batch`; the last may have fewer. If a placeholder fixes
// the number of examples, each step has that many, and there is no smaller last
// step.
Result<std::vector<std::vector<Tensor>>> Batches(const Feeds& feeds,
                                                 int64_t batch) {
  int64_t count = -1;
  bool fixed = false;
  for (const auto& [to, value] : feeds) {
    if (value.rank() == 0) continue;
    if (count >= 0 && value.dim(0) != count)
      return InvalidArgument(
          "--feed: expected as many examples in every file, got ", count,
          " and ", value.dim(0), " for '", to.name(), "'");
    count = value.dim(0);
    const PartialShape& shape = to.shape();
    if (shape.rank() < 1 || shape.dim(0) < 0) continue;
    if (fixed && batch != shape.dim(0))
      return InvalidArgument("--feed: expected placeholders of one batch, got ",
                             batch, " and ", shape.dim(0), " for '", to.name(),
                             "'");
    fixed = true;
    batch = shape.dim(0);
  }
  if (count < 0)
    return InvalidArgument(
        "--feed: expected examples along the first dimension, got scalars");
  std::vector<std::vector<Tensor>> steps;
  if (batch == 0) return steps;
  for (int64_t at = 0; at < count; at += batch) {
    const int64_t end = std::min(count, at + batch);
    if (fixed && end - at < batch) break;
    std::vector<Tensor>& step = steps.emplace_back();
    for (const auto& [to, value] : feeds)
      step.push_back(value.rank() == 0 ? value : value.Rows(at, end));
  }
  return steps;
}

// The difference between the int8 and float graphs in one fetch, over all
// steps.
struct Distance {
  double largest = 0, sum = 0;
  int64_t values = 0;
  int64_t rows = 0, alike = 0;  // Rows with the same argmax.
};

void Compare(const Tensor& a, const Tensor& b, Distance* d) {
  const auto x = a.flat<float>(), y = b.flat<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    const double apart = std::abs(static_cast<double>(x[i]) - y[i]);
    d->largest = std::max(d->largest, apart);
    d->sum += apart;
  }
  d->values += a.num_elements();
  if (a.rank() != 2 || a.dim(1) < 2) return;
  const auto best = [&](const Tensor& t, int64_t row) {
    const float* from = t.data<float>() + row * t.dim(1);
    return std::max_element(from, from + t.dim(1)) - from;
  };
  for (int64_t row = 0; row < a.dim(0); ++row, ++d->rows)
    d->alike += best(a, row) == best(b, row);
}

Result<std::vector<Distance>> Distances(
    const InferenceGraph& before, const InferenceGraph& after,
    const std::vector<std::vector<Tensor>>& steps) {
  Session x(*before.graph), y(*after.graph);
  SLUICE_ASSIGN_OR_RETURN(const Session::Callable float_step,
                          x.MakeCallable(before.feeds, before.fetches));
  SLUICE_ASSIGN_OR_RETURN(const Session::Callable int8_step,
                          y.MakeCallable(after.feeds, after.fetches));
  std::vector<Distance> distances(before.fetches.size());
  for (const std::vector<Tensor>& step : steps) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> a, float_step.Run(step));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> b, int8_step.Run(step));
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i].dtype() == DType::kFloat) Compare(a[i], b[i], &distances[i]);
  }
  return distances;
}

void Report(const QuantizeFlags& o, const InferenceGraph& before,
            const QuantizedGraph& after,
            const std::vector<Distance>& distances) {
  for (const std::string& name : after.quantized)
    std::printf("int8   %s\n", name.c_str());
  for (const std::string& why : after.kept)
    std::printf("float  %s\n", why.c_str());
  for (size_t i = 0; i < distances.size(); ++i) {
    const Distance& d = distances[i];
    if (d.values == 0) continue;
    std::printf("fetch  %s -> %s: off by %.3g at most, %.3g on average",
                o.fetches[i].c_str(), after.fetches[i].name().c_str(),
                d.largest, d.sum / static_cast<double>(d.values));
    if (d.rows > 0)
      std::printf(
          "; the largest of a row is the same in %.2f%%",
          100.0 * static_cast<double>(d.alike) / static_cast<double>(d.rows));
    std::printf("\n");
  }
  std::printf("bytes  %lld of constants -> %lld\n",
              static_cast<long long>(before.constant_bytes()),
              static_cast<long long>(after.constant_bytes()));
}

int QuantizeGraph(const QuantizeFlags& o) {
  Graph g;
  if (const Status s = ImportGraphDefFile(o.graph, g); !s.ok())
    return Fail(kRunFailed, s);
  FeedOptions feed_options{.image_range = {}, .examples = true};
  if (!o.image_range.empty())
    feed_options.image_range = ParseRange(o.image_range);
  const Result<Feeds> feeds = ReadFeeds(g, o.feeds, feed_options);
  if (!feeds.ok()) return Fail(kUsage, feeds.status());
  const auto fetches = FindEdges(g, o.fetches, "--fetch");
  if (!fetches.ok()) return Fail(kUsage, fetches.status());
  const auto init = FindNodes(g, o.init, "--init");
  if (!init.ok()) return Fail(kUsage, init.status());
  if (const Status s =
          FindNodes(g, o.options.keep_float, "--keep-float").status();
      !s.ok())
    return Fail(kUsage, s);
  const auto steps = Batches(*feeds, o.batch);
  if (!steps.ok()) return Fail(kUsage, steps.status());

  const auto all = [&]() -> Status {
    Session session(g);
    if (!init->empty())
      SLUICE_RETURN_IF_ERROR(
          Annotate(session.Run({}, {}, *init).status(), "--init"));
    std::vector<Output> inputs;
    for (const auto& feed : *feeds) inputs.push_back(feed.first);
    SLUICE_ASSIGN_OR_RETURN(const InferenceGraph frozen,
                            Freeze(session, inputs, *fetches));
    SLUICE_ASSIGN_OR_RETURN(const QuantizedGraph small,
                            Quantize(frozen, *steps, o.options));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Distance> distances,
                            Distances(frozen, small, *steps));
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes,
                            ExportGraphDef(*small.graph, IsTextFile(o.out)));
    SLUICE_RETURN_IF_ERROR(WriteFile(o.out, bytes));
    Report(o, frozen, small, distances);
    return OkStatus();
  };
  const Status s = all();
  return s.ok() ? 0 : Fail(kRunFailed, s);
}

}  // namespace

void AddQuantize(CLI::App& app, std::function<int()>* run) {
  auto o = std::make_shared<QuantizeFlags>();
  CLI::App* sub = app.add_subcommand(
      "quantize", "Turn a trained graph into an int8 one for inference");
  sub->footer(
      "Example: sluice quantize model.pb --feed x=images.npy --fetch scores "
      "--out int8.pb\n"
      "Ranges of activations come from the fed examples. Prints which ops "
      "became int8, which stayed float and why, and how far the fetches are "
      "from the float graph's.");
  sub->add_option("GRAPH", o->graph, "GraphDef, binary or text")
      ->required()
      ->check(WhyNoGraphFile);
  sub->add_option("--feed", o->feeds,
                  "NAME=VALUE, as for run: an input, and examples for "
                  "calibration along the first dimension (FILE.npy), or a "
                  "scalar that they share")
      ->required()
      ->take_all()
      ->allow_extra_args(false);
  sub->add_option("--image-range", o->image_range,
                  "LOW,HIGH: what 0 and 255 of images become")
      ->check(IsRange);
  sub->add_option("--fetch", o->fetches, "Edge that the new graph computes")
      ->required()
      ->take_all()
      ->allow_extra_args(false);
  sub->add_option("--out", o->out, "Output file; text if *.pbtxt")->required();
  sub->add_option("--init", o->init,
                  "Operation to run before (variables become constants)")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_option("--batch", o->batch,
                  "Examples per calibration step (100), if the graph leaves "
                  "it open")
      ->check(CLI::PositiveNumber);
  sub->add_option("--percentile", o->options.percentile,
                  "Fraction of the absolute values that a range covers (1)")
      ->check([](const std::string& text) -> std::string {  // (No NaN.)
        double part = 0;
        if (absl::SimpleAtod(text, &part) && part >= 0.5 && part <= 1)
          return "";
        return absl::StrCat("expected 0.5 to 1, got '", text, "'");
      });
  sub->add_option("--keep-float", o->options.keep_float,
                  "A Conv2D or MatMul to keep in float")
      ->take_all()
      ->allow_extra_args(false);
  sub->callback([o, run] { *run = [o] { return QuantizeGraph(*o); }; });
}

}  // namespace sluice::cli
