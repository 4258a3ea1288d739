#include "tools/board/testing/sample_log.h"

#include <cmath>
#include <random>

#include "client/control/functions.h"
#include "graph/tensor_proto.h"
#include "session/step_stats.h"
#include "sluice/sluice.h"
#include "summary/event_writer.h"
#include "summary/proto/summary.pb.h"
#include "summary/summary.h"

namespace sluice::board {
namespace {

Tensor Floats(const std::vector<int64_t>& dims,
              const std::function<float(int64_t)>& value) {
  Tensor t(DType::kFloat, Shape(dims));
  for (int64_t i = 0; i < t.num_elements(); ++i) t.flat<float>()[i] = value(i);
  return t;
}

Status AddTensor(EventWriter* log, const std::string& tag, const Tensor& t,
                 int64_t step) {
  proto::Summary summary;
  SLUICE_RETURN_IF_ERROR(AddTensorSummary(tag, t, std::nullopt, &summary));
  return log->AddSummary(summary.SerializeAsString(), step);
}

// A graph that has all kinds of boxes, and a traced step of it.
Status AddGraphAndProfile(EventWriter* log) {
  Graph graph;
  WithGraph use(graph);
  SetRandomSeed(7);
  Output x = Placeholder<float>({32, 64}, "image");
  Output labels = Placeholder<float>({32, 10}, "labels");
  const Function gelu =
      DefineFunction("gelu", {DType::kFloat},
                     [](const std::vector<Output>& args) {
                       return Output(args[0] * ops::Sigmoid(1.702f * args[0]));
                     },
                     {.arg_shapes = {PartialShape({32, 128})}});
  Output h = x;
  {
    NameScope scope("dense");
    Var w = GetVariable("kernel_1", {64, 128});
    Var b = GetVariable("bias_1", {128});
    h = gelu({Output(ops::MatMul(h, w) + b)})[0];
  }
  {
    NameScope scope("refine");
    Var w = GetVariable("kernel_2", {128, 128});
    auto [i, state] = While(
        std::tuple{0, h}, [](Output n, Output) { return n < 3; },
        [&](Output n, Output s) {
          return std::tuple{n + 1, Output(ops::Tanh(ops::MatMul(s, w)) + s)};
        });
    h = state;
  }
  {
    NameScope scope("clip");
    Output norm = ops::Sqrt(ops::Mean(h * h, {0, 1}));
    h = Cond(
        norm > 10.0f, [&] { return Output(h / norm); },
        [&] { return Output(ops::Identity(h)); });
  }
  Output loss;
  {
    NameScope scope("loss");
    Var w = GetVariable("kernel_3", {128, 10});
    Output error = ops::MatMul(h, w) - labels;
    loss = ops::Mean(error * error, {0, 1});
  }
  Node* train = GradientDescentOptimizer(0.01).Minimize(loss);
  // (Gradients inline what they go through; this call stays one.)
  const Function perplexity = DefineFunction(
      "perplexity", {DType::kFloat}, [](const std::vector<Output>& args) {
        return Output(ops::Exp(ops::Minimum(args[0], 20.0f)));
      });
  Output shown = perplexity({loss})[0];
  SLUICE_ASSIGN_OR_RETURN(const std::string def, ExportGraphDef(graph));
  SLUICE_RETURN_IF_ERROR(log->AddGraph(def));

  Session session;
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  const Feeds feeds = {
      {x, Floats({32, 64}, [](int64_t i) { return std::sin(0.1f * i); })},
      {labels, Floats({32, 10}, [](int64_t i) { return i % 10 == 3; })}};
  for (const int64_t step : {0, 100}) {
    RunOptions options;
    options.trace = true;
    RunMetadata metadata;
    SLUICE_RETURN_IF_ERROR(
        session.Run(feeds, {loss, shown}, {train}, options, &metadata)
            .status());
    SLUICE_RETURN_IF_ERROR(log->AddRunMetadata(
        "train step", SerializeRunMetadata(metadata), step));
  }
  return OkStatus();
}

Status AddCurves(EventWriter* log, double speed, std::mt19937* random) {
  std::normal_distribution<double> noise;
  for (int64_t step = 0; step < 400; ++step) {
    const double t = static_cast<double>(step);
    const double loss = 0.15 + 2.2 * std::exp(-t * speed);
    const auto add = [&](const char* tag, double value) {
      return log->AddScalar(tag, value, step);
    };
    SLUICE_RETURN_IF_ERROR(
        add("loss/train", loss * std::exp(0.12 * noise(*random))));
    SLUICE_RETURN_IF_ERROR(add("learning_rate", 0.1 * std::pow(0.99, t)));
    SLUICE_RETURN_IF_ERROR(
        add("gradients/norm", 3 * loss * std::exp(0.3 * noise(*random))));
    if (step % 10 != 0) continue;
    SLUICE_RETURN_IF_ERROR(
        add("loss/validation", 1.1 * loss + 0.05 + 0.01 * noise(*random)));
    SLUICE_RETURN_IF_ERROR(
        add("accuracy/train", 1 - 0.9 * std::exp(-t * speed * 1.1)));
    SLUICE_RETURN_IF_ERROR(
        add("accuracy/validation",
            0.96 - 0.86 * std::exp(-t * speed) + 0.006 * noise(*random)));
    const double width = 0.02 + 0.1 * (1 - std::exp(-t * speed));
    SLUICE_RETURN_IF_ERROR(log->AddHistogram(
        "dense/kernel",
        Floats({2000},
               [&](int64_t) {
                 return static_cast<float>(width * noise(*random));
               }),
        step));
    SLUICE_RETURN_IF_ERROR(log->AddHistogram(
        "dense/activations",
        Floats({2000},
               [&](int64_t) {
                 return static_cast<float>(std::abs(noise(*random)) * loss);
               }),
        step));
  }
  return OkStatus();
}

Status AddOthers(EventWriter* log, std::mt19937* random) {
  std::normal_distribution<float> noise;
  for (int64_t step = 0; step <= 300; step += 100) {
    const auto phase = static_cast<float>(step) / 100;
    const Tensor image = Floats({1, 24, 24, 3}, [&](int64_t i) {
      const auto x = static_cast<float>(i / 3 % 24),
                 y = static_cast<float>(i / 72);
      return 0.5f + 0.5f *
                        std::sin(x * (0.2f + 0.1f * static_cast<float>(i % 3)) +
                                 phase) *
                        std::cos(y * 0.3f - phase);
    });
    SLUICE_RETURN_IF_ERROR(log->AddImages("samples/generated", image, step, 1));
    SLUICE_RETURN_IF_ERROR(log->AddAudio(
        "samples/tone",
        Floats({1, 4000},
               [&](int64_t i) {
                 return 0.5f * std::sin(0.3f * static_cast<float>(i));
               }),
        8000, step, 1));
    SLUICE_RETURN_IF_ERROR(
        log->AddText("samples/caption",
                     Tensor::Scalar<std::string>(
                         "## Step " + std::to_string(step) +
                         "\n\nThe model says **hello**, with `p = 0." +
                         std::to_string(step) +
                         "`.\n\n- one\n- two <script>alert(1)</script>"),
                     step));
  }
  // Four groups of words in 16 dimensions that move apart.
  const std::vector<std::string> words = {"red",   "blue",  "green", "one",
                                          "two",   "three", "cat",   "dog",
                                          "horse", "run",   "walk",  "jump"};
  std::vector<Tensor> noises;
  const Tensor around =
      Floats({12, 16}, [&](int64_t) { return noise(*random); });
  Tensor labels(DType::kString, {12});
  for (int64_t i = 0; i < 12; ++i)
    labels.flat<std::string>()[i] = words[static_cast<size_t>(i)];
  SLUICE_RETURN_IF_ERROR(AddTensor(log, "embedding/labels", labels, 0));
  for (int64_t step = 0; step <= 300; step += 100)
    SLUICE_RETURN_IF_ERROR(AddTensor(
        log, "embedding",
        Floats({12, 16},
               [&](int64_t i) {
                 const int64_t group = i / 16 / 3, column = i % 16;
                 return 0.3f * around.flat<float>()[i] +
                        (column == group ? static_cast<float>(step) / 100 : 0);
               }),
        step));
  return OkStatus();
}

}  // namespace

Status WriteSampleLog(const std::string& folder) {
  std::mt19937 random(3);
  for (const std::string run : {"baseline", "wide"}) {
    SLUICE_ASSIGN_OR_RETURN(const auto log,
                            EventWriter::Open(absl::StrCat(folder, "/", run)));
    SLUICE_RETURN_IF_ERROR(
        AddCurves(log.get(), run == "wide" ? 0.02 : 0.011, &random));
    if (run == "wide") {
      SLUICE_RETURN_IF_ERROR(AddOthers(log.get(), &random));
      SLUICE_RETURN_IF_ERROR(AddGraphAndProfile(log.get()));
    }
    SLUICE_RETURN_IF_ERROR(log->Close());
  }
  return OkStatus();
}

}  // namespace sluice::board
