#include "client/nn/metrics.h"

#include <functional>

#include "client/nn/training_record_test_util.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

using MetricTest = ClientTest;

TEST_F(MetricTest, NumbersAndNamesAreTensorFlows) {
  const Output chances = Placeholder<float>({8}),
               flags = Placeholder(DType::kInt32, {8}),
               classes = Placeholder(DType::kInt32, {8}),
               guesses = Placeholder(DType::kInt32, {8}),
               weights = Placeholder<float>({8});
  for (const bool weighted : {false, true}) {
    SCOPED_TRACE(weighted);
    const auto options = [&](const char* name) {
      MetricOptions o;
      o.name = std::string(name) + (weighted ? "_weighted" : "");
      if (weighted) o.weights = weights;
      return o;
    };
    const std::map<std::string, Metric> metrics = {
        {"mean", StreamingMean(chances, options("mean"))},
        {"accuracy", Accuracy(classes, guesses, options("accuracy"))},
        {"precision", Precision(flags, chances > 0.5, options("precision"))},
        {"recall", Recall(flags, chances > 0.5, options("recall"))},
        {"auc", Auc(flags, chances, 200, options("auc"))},
        {"mean_iou", MeanIou(classes, guesses, 4, options("mean_iou"))}};
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    std::vector<Node*> updates;
    for (const auto& [name, m] : metrics) {
      ASSERT_NE(m.update, nullptr) << name;
      updates.push_back(m.update);
    }
    RunNode(MetricsInitializer());
    for (const auto& [name, m] : metrics)
      EXPECT_EQ(Eval(m.value).scalar<float>(), 0) << name;
    for (size_t batch = 0; batch < 3; ++batch) {
      const auto of = [&](const char* key, DType t = DType::kInt32) {
        return TensorOf(t, {8}, Recorded("metric", key), 8 * batch);
      };
      const Status ran = session_.RunTargets(
          updates, {{chances, of("chances", DType::kFloat)},
                    {flags, of("flags")},
                    {classes, of("classes")},
                    {guesses, of("guesses")},
                    {weights, of("weights", DType::kFloat)}});
      ASSERT_TRUE(ran.ok()) << ran;
      for (const auto& [name, m] : metrics) {
        SCOPED_TRACE(name);
        ExpectNear(
            {Eval(m.value).scalar<float>()},
            Recorded(absl::StrCat("metric.", name, weighted ? "_weighted" : ""),
                     absl::StrCat("batch", batch)),
            2e-6);
      }
    }
  }
  for (const Var& v : VariablesIn(kMetricVariables)) {
    const std::string& name = v.name();
    const size_t slash = name.find('/');
    bool found = false;
    for (const auto& [key, numbers] :
         TrainingRecords().at("metric." + name.substr(0, slash)))
      found |= key == "var:" + name;
    EXPECT_TRUE(found) << "unexpected variable " << name;
  }
  EXPECT_TRUE(TrainableVariables().empty());
  EXPECT_TRUE(GlobalVariables().empty());
}

// [n, 1] against [n] is n elements, not n * n.
TEST_F(MetricTest, LastDimensionsOfOneAreDropped) {
  const auto ints = [](const Shape& shape) {
    return Constant(Tensor::Of<int32_t>(shape, {1, 0, 1, 1}));
  };
  const Output column = ints({4, 1}), row = ints({4});
  const Output guesses = Constant(Tensor::Vector<int32_t>({1, 1, 0, 1}));
  const Output guess_column = ops::ExpandDims(guesses, 1);
  const Output weights = Constant(Tensor::Of<float>({4, 1}, {1, 2, 3, 4}));
  const Output chances = ops::Cast(guesses, DType::kFloat);
  const std::vector<std::pair<Metric, double>> metrics = {
      {Accuracy(column, guesses), 0.5},
      {Accuracy(row, guess_column), 0.5},
      {Accuracy(row, guesses, {.weights = weights}), 0.5},
      {Precision(column, guesses), 2.0 / 3},
      {Precision(row, guesses, {.weights = weights}), 5.0 / 7},
      {Recall(row, guess_column), 2.0 / 3},
      {Recall(column, guess_column,
              {.weights = Tensor::Vector<float>({1, 2, 3, 4})}),
       5.0 / 8},
      {Auc(column, chances, 3, {.weights = weights}), 5.0 / 16},
      {MeanIou(column, guesses, 2), 0.25}};
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  RunNode(MetricsInitializer());
  for (const auto& [metric, expected] : metrics) {
    RunNode(metric.update);
    EXPECT_NEAR(Eval(metric.value).scalar<float>(), expected, 1e-5)
        << metric.value.name();
  }
}

TEST_F(MetricTest, ShapesThatDoNotFitAreErrors) {
  const Output two = Constant(Tensor::Vector<int32_t>({1, 0}));
  const auto refused = [&](const char* message,
                           const std::function<Metric()>& make) {
    Graph graph;
    const WithGraph use(graph);
    EXPECT_EQ(make().update, nullptr);
    EXPECT_THAT(std::string(graph.status().message()), HasSubstr(message));
  };
  const Tensor pair = Tensor::Vector<int32_t>({1, 0});
  const Tensor one = Tensor::Vector<int32_t>({1});
  const Tensor square = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
  using Make = Metric (*)(const Operand&, const Operand&, const MetricOptions&,
                          SourceLoc);
  for (const Make make : {Make{Accuracy}, Make{Precision}, Make{Recall}}) {
    refused("labels and predictions of one shape, got [2] and [1]",
            [&] { return make(pair, one, {}, CallerLoc()); });
    refused("got [2,2] for values [2]",
            [&] { return make(pair, pair, {.weights = square}, CallerLoc()); });
    const Output any = Placeholder(DType::kInt32);
    const Metric late = make(any, two, {}, CallerLoc());
    RunNode(MetricsInitializer());
    RunNode(late.update, {{any, Tensor::Of<int32_t>({2, 1}, {1, 0})}});
    EXPECT_FLOAT_EQ(Eval(late.value).scalar<float>(), 1);
    EXPECT_EQ(session_.RunTargets({late.update}, {{any, one}}).code(),
              StatusCode::kInvalidArgument);
  }
}

TEST_F(MetricTest, ClassesOutOfRangeAreErrors) {
  const Metric m = MeanIou(Constant(Tensor::Vector<int32_t>({1})),
                           Constant(Tensor::Vector<int32_t>({4})), 4);
  RunNode(MetricsInitializer());
  const Status ran = session_.RunTargets({m.update});
  EXPECT_EQ(ran.code(), StatusCode::kInvalidArgument) << ran;
  EXPECT_EQ(Auc(Constant(1.0f), Constant(1.0f), 1).update, nullptr);
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("expected thresholds in [2, 1000000], got 1"));
}

}  // namespace
}  // namespace sluice
