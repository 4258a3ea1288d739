#include "client/nn/metrics.h"

#include <functional>

#include "client/nn/metrics_at_k.h"
#include "client/nn/threshold_metrics.h"
#include "client/nn/training_record_test_util.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

using MetricTest = ClientTest;

// Those of record_training.py, of fed batches of 8.
struct Fed {
  Output chances, flags, classes, guesses, weights;
};

std::map<std::string, Metric> AllMetrics(const Fed& fed, bool weighted) {
  const Output sure = fed.chances > 0.5, other = 1 - fed.chances;
  const std::vector<double> at = {0.25, 0.5, 0.75};
  const Output scores = ops::Reshape(fed.chances, {2, 4}),
               several = ops::Reshape(fed.classes, {2, 4});
  const Output first = ops::StridedSlice(
      several, {0, 0}, {0, 1}, {1, 1},
      {.begin_mask = 1, .end_mask = 1, .shrink_axis_mask = 2});
  const Output of_rows = ops::Slice(fed.weights, {0}, {2}) + 0.5;
  std::map<std::string, Metric> metrics;
  const auto options = [&](const std::string& name) {
    MetricOptions o;
    o.name = name + (weighted ? "_weighted" : "");
    if (weighted) o.weights = fed.weights;
    return o;
  };
  const auto rows = [&](const std::string& name) {
    MetricOptions o = options(name);
    if (weighted) o.weights = of_rows;
    return o;
  };
#define ADD(name, function, ...) \
  metrics[name] = function(__VA_ARGS__, options(name))
  ADD("mean", StreamingMean, fed.chances);
  ADD("mean_tensor", StreamingMeanTensor, fed.chances);
  ADD("below", PercentageBelow, fed.chances, 0.4);
  ADD("absolute", StreamingMeanAbsoluteError, fed.chances, other);
  ADD("squared", StreamingMeanSquaredError, fed.chances, other);
  ADD("root", StreamingRootMeanSquaredError, fed.chances, other);
  ADD("relative", StreamingMeanRelativeError, fed.chances, other, fed.chances);
  ADD("accuracy", Accuracy, fed.classes, fed.guesses);
  ADD("precision", Precision, fed.flags, sure);
  ADD("recall", Recall, fed.flags, sure);
  for (const auto& [name, outcome] : std::map<std::string, Outcome>{
           {"true_positives", Outcome::kTruePositive},
           {"true_negatives", Outcome::kTrueNegative},
           {"false_positives", Outcome::kFalsePositive},
           {"false_negatives", Outcome::kFalseNegative}}) {
    ADD(name, CountOf, outcome, fed.flags, sure);
    ADD(name + "_at", CountAtThresholds, outcome, fed.flags, fed.chances, at);
  }
  ADD("precision_at", PrecisionAtThresholds, fed.flags, fed.chances, at);
  ADD("recall_at", RecallAtThresholds, fed.flags, fed.chances, at);
  ADD("auc", Auc, fed.flags, fed.chances, 200);
  ADD("auc_at", Auc, fed.flags, fed.chances, AucOptions{.thresholds = at});
  for (const auto& [name, summation] : std::map<std::string, AucSummation>{
           {"minoring", AucSummation::kMinoring},
           {"majoring", AucSummation::kMajoring}})
    ADD("auc_" + name, Auc, fed.flags, fed.chances,
        AucOptions{.summation = summation});
  for (const auto& [name, summation] : std::map<std::string, AucSummation>{
           {"trapezoidal", AucSummation::kTrapezoidal},
           {"careful_interpolation", AucSummation::kCarefulInterpolation}})
    ADD("auc_pr_" + name, Auc, fed.flags, fed.chances,
        (AucOptions{
            .curve = AucCurve::kPr, .summation = summation, .points = 20}));
  ADD("sensitivity", SensitivityAtSpecificity, fed.flags, fed.chances, 0.6,
      200);
  ADD("specificity", SpecificityAtSensitivity, fed.flags, fed.chances, 0.6,
      200);
  ADD("mean_iou", MeanIou, fed.classes, fed.guesses, 4);
  ADD("per_class", MeanPerClassAccuracy, fed.classes, fed.guesses, 4);
#undef ADD
  MetricOptions of_cosine = rows("cosine");
  if (weighted) of_cosine.weights = ops::ExpandDims(of_rows, 1);
  metrics["cosine"] =
      StreamingMeanCosineDistance(scores, 1 - scores, 1, of_cosine);
  metrics["precision_at_k"] =
      PrecisionAtK(several, scores, 2, {}, rows("precision_at_k"));
  metrics["precision_of_class"] = PrecisionAtK(
      several, scores, 3, {.class_id = 1}, rows("precision_of_class"));
  metrics["recall_at_k"] =
      RecallAtK(several, scores, 2, {}, rows("recall_at_k"));
  metrics["average_precision_at_k"] =
      AveragePrecisionAtK(several, scores, 3, rows("average_precision_at_k"));
  metrics["one_label_at_k"] =
      AveragePrecisionAtK(first, scores, 3, rows("one_label_at_k"));
  return metrics;
}

TEST_F(MetricTest, NumbersAndNamesAreTensorFlows) {
  const Fed fed = {.chances = Placeholder<float>({8}),
                   .flags = Placeholder(DType::kInt32, {8}),
                   .classes = Placeholder(DType::kInt32, {8}),
                   .guesses = Placeholder(DType::kInt32, {8}),
                   .weights = Placeholder<float>({8})};
  for (const bool weighted : {false, true}) {
    SCOPED_TRACE(weighted);
    const std::map<std::string, Metric> metrics = AllMetrics(fed, weighted);
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    std::vector<Output> updates;
    for (const auto& [name, m] : metrics) {
      ASSERT_NE(m.update, nullptr) << name;
      updates.push_back(m.updated);
    }
    RunNode(MetricsInitializer());
    for (const auto& [name, m] : metrics) {
      // Divisions of these are those of TensorFlow, by 0.
      if (name.ends_with("_at_k") || name.ends_with("_of_class")) continue;
      for (const double v : NumbersOf(Eval(m.value)))
        EXPECT_EQ(v, name == "cosine" ? 1 : 0) << name;
    }
    for (size_t batch = 0; batch < 3; ++batch) {
      const auto of = [&](const char* key, DType t = DType::kInt32) {
        return TensorOf(t, {8}, Recorded("metric", key), 8 * batch);
      };
      const auto ran =
          session_.Run({{fed.chances, of("chances", DType::kFloat)},
                        {fed.flags, of("flags")},
                        {fed.classes, of("classes")},
                        {fed.guesses, of("guesses")},
                        {fed.weights, of("weights", DType::kFloat)}},
                       updates);
      ASSERT_TRUE(ran.ok()) << ran.status();
      size_t i = 0;
      for (const auto& [name, m] : metrics) {
        SCOPED_TRACE(name);
        const std::string key =
            absl::StrCat("metric.", name, weighted ? "_weighted" : "");
        ExpectNear(NumbersOf(Eval(m.value)),
                   Recorded(key, absl::StrCat("batch", batch)), 2e-6);
        ExpectNear(NumbersOf((*ran)[i++]),
                   Recorded(key, absl::StrCat("update", batch)), 2e-6);
      }
    }
  }
  for (const Var& v : VariablesIn(kMetricVariables)) {
    const std::string& name = v.name();
    const size_t slash = name.find('/');
    bool found = false;
    for (const auto& [key, numbers] :
         TrainingRecords().at("metric." + name.substr(0, slash)))
      // (TensorFlow's "max_1" is behind an op of that name.)
      found |= key == "var:" + name || key == "var:" + name + "_1";
    EXPECT_TRUE(found) << "unexpected variable " << name;
  }
  EXPECT_TRUE(TrainableVariables().empty());
  EXPECT_TRUE(GlobalVariables().empty());
}

// Sparse labels are those of the dense ones; a class that occurs twice counts
// once, but dense for the average precision.
TEST_F(MetricTest, SparseLabelsAreSetsOfClasses) {
  const Output scores = Constant(
      Tensor::Of<float>({2, 4}, {0.1f, 0.4f, 0.3f, 0.2f, 0.9f, 0, 0.5f, 0.7f}));
  const SparseOutput labels = {
      Constant(Tensor::Of<int64_t>({3, 2}, {0, 0, 0, 1, 1, 0})),
      Constant(Tensor::Vector<int64_t>({1, 3, 2})),
      Constant(Tensor::Vector<int64_t>({2, 2}))};
  const Output twice = Constant(Tensor::Of<int64_t>({2, 2}, {1, 1, 2, 2}));
  const SparseOutput sparse_twice = {
      Constant(Tensor::Of<int64_t>({4, 2}, {0, 0, 0, 1, 1, 0, 1, 1})),
      Constant(Tensor::Vector<int64_t>({1, 1, 2, 2})),
      Constant(Tensor::Vector<int64_t>({2, 2}))};
  const Output padded = Constant(Tensor::Of<int64_t>({2, 2}, {2, -1, 3, 1}));
  const Output best = ops::TopKV2(scores, 2).indices;  // 1 2 and 0 3.
  const std::vector<std::pair<Metric, double>> metrics = {
      {PrecisionAtK(labels, scores, 2), 1.0 / 4},
      {RecallAtK(labels, scores, 2), 1.0 / 3},
      {RecallAtTopK(labels, best, 2, {.class_id = 3}), 0},
      {PrecisionAtTopK(twice, best), 1.0 / 4},
      {RecallAtK(twice, scores, 3), 1},
      {AveragePrecisionAtK(labels, scores, 3), (5.0 / 6 + 1.0 / 3) / 2},
      {AveragePrecisionAtTopK(labels, best), (0.5 + 0) / 2},
      {AveragePrecisionAtTopK(twice, best), (0.5 + 0) / 2},
      {AveragePrecisionAtTopK(sparse_twice, best), (1.0 + 0) / 2},
      {AveragePrecisionAtTopK(padded, best), (0.5 + 0.25) / 2}};
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  RunNode(MetricsInitializer());
  for (const auto& [metric, expected] : metrics) {
    RunNode(metric.update);
    EXPECT_NEAR(Eval(metric.value).scalar<double>(), expected, 1e-9)
        << metric.value.node->name();
  }
}

TEST_F(MetricTest, PredictionsOutsideOfTheirRangeFailTheStep) {
  const Output chances = Placeholder<float>({2});
  const Metric area = Auc(Constant(Tensor::Vector<int32_t>({0, 1})), chances);
  RunNode(MetricsInitializer());
  const Status failed = session_.RunTargets(
      {area.update}, {{chances, Tensor::Vector<float>({0.5f, 1.5f})}});
  EXPECT_EQ(failed.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(failed.message()),
              HasSubstr("predictions must be in [0, 1]"));
}

// What is not known of the shapes is found out by the step.
TEST_F(MetricTest, WeightsOfUnknownRankFit) {
  const Output values = Placeholder<float>(), weights = Placeholder<float>();
  const Metric mean = StreamingMean(values, {.weights = weights});
  ASSERT_NE(mean.update, nullptr) << graph_.status();
  const Tensor row = Tensor::Vector<float>({1, 5}),
               column = Tensor::Of<float>({2, 1}, {1, 5});
  const Tensor w_row = Tensor::Vector<float>({3, 1}),
               w_column = Tensor::Of<float>({2, 1}, {3, 1});
  for (const auto& [x, w, expected] :
       std::vector<std::tuple<Tensor, Tensor, double>>{
           {row, w_row, 2},
           {row, w_column, 2},
           {column, w_row, 2},
           {column, w_column, 2},
           {row, Tensor::Scalar(0.5f), 3}}) {
    RunNode(MetricsInitializer());
    const auto got = session_.Run({{values, x}, {weights, w}}, mean.updated);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->scalar<float>(), expected);
  }
  EXPECT_FALSE(
      session_
          .Run({{values, row}, {weights, Tensor::Vector<float>({1, 2, 3})}},
               mean.updated)
          .ok());
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

// Elements are paired by their places, not by their numbers.
TEST_F(MetricTest, ShapesAreEqualInAStep) {
  const Tensor wide = Tensor::Of<float>({2, 3}, {1, 0, 1, 1, 0, 0}),
               tall = Tensor::Of<float>({3, 2}, {1, 0, 1, 1, 0, 0}),
               flat = Tensor::Vector<float>({1, 0, 1, 1, 0, 0}),
               column = Tensor::Of<float>({6, 1}, {1, 0, 1, 1, 0, 0});
  const PartialShape unknown, two(Dims{-1, -1});
  for (const PartialShape& of_labels : {unknown, two})
    for (const PartialShape& of_predictions : {unknown, two}) {
      const Output labels = Placeholder(DType::kFloat, of_labels),
                   predictions = Placeholder(DType::kFloat, of_predictions);
      const bool any_rank = !of_labels.rank_known();
      for (const Metric& m :
           {Accuracy(labels, predictions),
            StreamingMeanSquaredError(labels, predictions),
            Precision(labels, predictions), Auc(labels, predictions)}) {
        RunNode(MetricsInitializer());
        const auto run = [&](const Tensor& l, const Tensor& p) {
          return session_
              .RunTargets({m.update}, {{labels, l}, {predictions, p}})
              .code();
        };
        EXPECT_EQ(run(wide, wide), StatusCode::kOk);
        EXPECT_EQ(run(wide, tall), StatusCode::kInvalidArgument);
        EXPECT_EQ(run(column, wide), StatusCode::kInvalidArgument);
        if (!any_rank) continue;
        EXPECT_EQ(run(flat, column), StatusCode::kOk);
        EXPECT_EQ(run(flat, wide), StatusCode::kInvalidArgument);
      }
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
