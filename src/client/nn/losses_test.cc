#include "client/nn/losses.h"

#include <functional>

#include "client/nn/optimizers.h"
#include "client/nn/training_record_test_util.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

using LossTest = ClientTest;

TEST_F(LossTest, NumbersAreTensorFlows) {
  const auto recorded = [](const char* key, const Shape& shape,
                           DType dtype = DType::kFloat) {
    return Constant(TensorOf(dtype, shape, Recorded("loss", key)));
  };
  const Output labels = recorded("labels", {4, 3}),
               parts = recorded("parts", {4, 3}),
               logits = recorded("logits", {4, 3}),
               chances = recorded("chances", {4, 3}),
               classes = recorded("classes", {4}, DType::kInt32),
               rows = recorded("weights", {4});
  using Make = std::function<Output(LossOptions)>;
  const std::map<std::string, Make> losses = {
      {"absolute",
       [&](LossOptions o) { return AbsoluteDifference(labels, logits, o); }},
      {"squared",
       [&](LossOptions o) { return MeanSquaredError(labels, logits, o); }},
      {"huber",
       [&](LossOptions o) {
         o.delta = 1.5;
         return HuberLoss(labels, logits, o);
       }},
      {"log",
       [&](LossOptions o) {
         o.epsilon = 1e-3;
         return LogLoss(labels, chances, o);
       }},
      {"hinge", [&](LossOptions o) { return HingeLoss(labels, logits, o); }},
      {"cosine",
       [&](LossOptions o) { return CosineDistance(parts, chances, 1, o); }},
      {"sigmoid",
       [&](LossOptions o) { return SigmoidCrossEntropy(labels, logits, o); }},
      {"sigmoid_smooth",
       [&](LossOptions o) {
         o.label_smoothing = 0.2;
         return SigmoidCrossEntropy(labels, logits, o);
       }},
      {"softmax",
       [&](LossOptions o) { return SoftmaxCrossEntropy(parts, logits, o); }},
      {"softmax_smooth",
       [&](LossOptions o) {
         o.label_smoothing = 0.2;
         return SoftmaxCrossEntropy(parts, logits, o);
       }},
      {"sparse_softmax", [&](LossOptions o) {
         return SparseSoftmaxCrossEntropy(classes, logits, o);
       }}};
  const std::map<std::string, LossReduction> reductions = {
      {"NONE", LossReduction::kNone},
      {"SUM", LossReduction::kSum},
      {"SUM_OVER_BATCH_SIZE", LossReduction::kSumOverBatchSize},
      {"MEAN", LossReduction::kMean},
      {"SUM_BY_NONZERO_WEIGHTS", LossReduction::kSumByNonzeroWeights}};
  for (const auto& [name, make] : losses)
    for (const auto& [reduction_name, reduction] : reductions)
      for (const std::string weights : {"rows", "number", "none"}) {
        const std::string key = reduction_name + "." + weights;
        SCOPED_TRACE(name + " " + key);
        LossOptions options;
        options.reduction = reduction;
        if (weights == "number") options.weights = 0.5;
        if (weights == "none") options.weights = 0.0;
        if (weights == "rows")
          options.weights = name.find("softmax") != std::string::npos
                                ? rows
                                : ops::ExpandDims(rows, 1);
        ExpectNear(NumbersOf(Eval(make(options))),
                   Recorded("loss." + name, key), 3e-6);
      }
}

TEST_F(LossTest, PairwiseNumbersAreTensorFlows) {
  const auto recorded = [](const char* key, const Shape& shape) {
    return Constant(TensorOf(DType::kFloat, shape, Recorded("loss", key)));
  };
  const std::map<std::string, Operand> weights = {
      {"rows", recorded("weights", {4, 1})},
      {"number", 0.5},
      {"none", 0.0},
      {"elements", recorded("parts", {4, 3})}};
  for (const auto& [key, w] : weights)
    ExpectNear(NumbersOf(Eval(MeanPairwiseSquaredError(
                   recorded("labels", {4, 3}), recorded("logits", {4, 3}),
                   {.weights = w}))),
               Recorded("loss.pairwise", key), 2e-4);
  // Weights of rows whose shape only a step knows are not repeated.
  const Output later = Placeholder<float>();
  const Output loss =
      MeanPairwiseSquaredError(recorded("labels", {4, 3}),
                               recorded("logits", {4, 3}), {.weights = later});
  ExpectNear(
      NumbersOf(Eval(loss, {{later, TensorOf(DType::kFloat, {4, 1},
                                             Recorded("loss", "weights"))}})),
      Recorded("loss.pairwise", "rows"), 2e-4);
}

TEST_F(LossTest, NodesHaveTensorFlowsNames) {
  const Output x = Placeholder<float>({4, 3}), y = Placeholder<float>({4, 3});
  const Output classes = Placeholder(DType::kInt32, {4});
  EXPECT_EQ(MeanSquaredError(y, x).node->name(), "mean_squared_error/value");
  EXPECT_EQ(MeanSquaredError(y, x).node->name(), "mean_squared_error_1/value");
  EXPECT_EQ(HuberLoss(y, x, {.name = "mine"}).node->name(), "mine/value");
  EXPECT_EQ(WeightedLoss(x, {.reduction = LossReduction::kNone}).node->name(),
            "weighted_loss/Mul");
  EXPECT_EQ(SoftmaxCrossEntropy(y, x).node->name(),
            "softmax_cross_entropy_loss/value");
  EXPECT_EQ(SparseSoftmaxCrossEntropy(classes, x).node->name(),
            "sparse_softmax_cross_entropy_loss/value");
  for (const char* name : {"mean_squared_error/SquaredDifference",
                           "mean_squared_error/num_present",
                           "softmax_cross_entropy_loss/labels_stop_gradient",
                           "softmax_cross_entropy_loss/xentropy",
                           "sparse_softmax_cross_entropy_loss/xentropy"})
    EXPECT_NE(graph_.FindNode(name), nullptr) << name;
}

TEST_F(LossTest, TotalLossIsTheSumOfWhatWasCollected) {
  EXPECT_FALSE(TotalLoss().valid());
  Graph graph;
  const WithGraph use(graph);
  const auto one = [] { return Constant(Tensor::Vector<float>({1, 2})); };
  AbsoluteDifference(one(), Zeros({2}));
  const Output inner = MeanSquaredError(one(), Zeros({2}), {.name = "inner/b"});
  HuberLoss(one(), Zeros({2}), {.collection = ""});
  VarOptions options;
  options.regularizer = [](const Output& v) { return 10 * v; };
  const Var w(Constant(2.0f), "w", options);
  EXPECT_EQ(Losses().size(), 2u);
  ASSERT_EQ(Losses("inner").size(), 1u);
  EXPECT_TRUE(Losses("inner")[0].SameAs(inner));
  const Output total = TotalLoss(), without = TotalLoss(false, "without");
  EXPECT_EQ(total.node->name(), "total_loss");
  Session session(graph);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  EXPECT_FLOAT_EQ(session.Run(total)->scalar<float>(), 1.5f + 2.5f + 20);
  EXPECT_FLOAT_EQ(session.Run(without)->scalar<float>(), 1.5f + 2.5f);
}

// [..., classes], also of a rank that only a step knows.
TEST_F(LossTest, LogitsMayHaveFurtherDimensions) {
  const Tensor x = Tensor::Of<float>({2, 1, 2}, {0, 0, 1, 1});
  const Tensor y = Tensor::Of<float>({2, 1, 2}, {1, 0, 0.5f, 0.5f});
  const Tensor classes = Tensor::Of<int32_t>({2, 1}, {1, 0});
  const LossOptions each = {.reduction = LossReduction::kNone};
  const std::vector<double> expected = {std::log(2.0), std::log(2.0)};
  const Output known = SoftmaxCrossEntropy(y, x, each);
  EXPECT_EQ(known.shape().ToString(), "[2,1]");
  ExpectNear(NumbersOf(Eval(known)), expected, 1e-6);
  ExpectNear(NumbersOf(Eval(SparseSoftmaxCrossEntropy(classes, x, each))),
             expected, 1e-6);
  const Output later = Placeholder<float>();
  const Output loss = SoftmaxCrossEntropy(y, later, each);
  ExpectNear(NumbersOf(Eval(loss, {{later, x}})), expected, 1e-6);
}

TEST_F(LossTest, LossesOfHalfLogitsAreHalves) {
  const Output logits =
      ops::Cast(Constant(Tensor::Of<float>({1, 2}, {0, 0})), DType::kHalf);
  const Output loss =
      SparseSoftmaxCrossEntropy(Constant(Tensor::Vector<int32_t>({1})), logits);
  EXPECT_EQ(loss.dtype(), DType::kHalf);
  EXPECT_NEAR(Eval(ops::Cast(loss, DType::kFloat)).scalar<float>(),
              std::log(2.0), 1e-3);
}

TEST_F(LossTest, LossesAreTrained) {
  const Var w(Zeros({2}), "w");
  Node* train = GradientDescentOptimizer(0.25).Minimize(
      MeanSquaredError(Constant(Tensor::Vector<float>({1, 2})), w,
                       {.reduction = LossReduction::kSum}));
  ASSERT_NE(train, nullptr) << graph_.status();
  Initialize();
  RunNode(train);
  EXPECT_THAT(Values<float>(w), ::testing::ElementsAre(0.5f, 1.0f));
}

TEST_F(LossTest, SigmoidCrossEntropyHasItsGradientAtZero) {
  const Output x = Constant(Tensor::Vector<float>({0, 2, -2}));
  const Output z = Constant(Tensor::Vector<float>({0.25f, 1, 0.5f}));
  const Output loss =
      SigmoidCrossEntropy(z, x, {.reduction = LossReduction::kSum});
  // sigmoid(x) - z.
  ExpectNear(
      NumbersOf(Eval(Grad(loss, x))),
      {0.25, 1 / (1 + std::exp(-2.0)) - 1, 1 / (1 + std::exp(2.0)) - 0.5},
      1e-6);
}

TEST_F(LossTest, WeightsMustFitTheLosses) {
  const Output loss = Constant(Tensor::Vector<float>({1, 2}));
  const Tensor column = Tensor::Of<float>({2, 1}, {1, 3});
  {
    Graph graph;
    const WithGraph use(graph);
    const Output there = Constant(Tensor::Vector<float>({1, 2}));
    EXPECT_FALSE(WeightedLoss(there, {.weights = column}).valid());
    EXPECT_THAT(std::string(graph.status().message()),
                HasSubstr("sizes that are 1 or equal to theirs, got [2,1] for "
                          "values [2]"));
  }
  // Shapes that only a step knows.
  const Output weights = Placeholder<float>();
  const Output weighted = WeightedLoss(
      loss, {.weights = weights, .reduction = LossReduction::kSum});
  EXPECT_FLOAT_EQ(Eval(weighted, {{weights, Tensor::Vector<float>({1, 3})}})
                      .scalar<float>(),
                  7);
  EXPECT_FLOAT_EQ(
      Eval(weighted, {{weights, Tensor::Scalar(2.0f)}}).scalar<float>(), 6);
  EXPECT_EQ(session_.Run({{weights, column}}, weighted).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(LossTest, WeightsOfUnknownRankHaveThatOfTheLosses) {
  const Output weights = Placeholder<float>();
  const Output loss =
      WeightedLoss(Constant(Tensor::Of<float>({2, 2}, {1, 1, 9, 9})),
                   {.weights = weights, .reduction = LossReduction::kSum});
  const auto fed = [&](const Tensor& w) {
    return session_.Run({{weights, w}}, loss);
  };
  EXPECT_FLOAT_EQ(fed(Tensor::Of<float>({2, 1}, {1, 0}))->scalar<float>(), 2);
  EXPECT_FLOAT_EQ(fed(Tensor::Scalar(2.0f))->scalar<float>(), 40);
  // Not one weight for each column.
  const Status refused = fed(Tensor::Vector<float>({1, 0})).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("weights can not be broadcast to values"));
}

TEST_F(LossTest, LabelsOfRowsHaveTheShapeOfTheLogits) {
  const Tensor x = Tensor::Of<float>({2, 3, 2}, {0, 9, 0, 9, 0, 9,  //
                                                 9, 0, 9, 0, 9, 0});
  const Tensor classes = Tensor::Of<int32_t>({2, 3}, {1, 1, 1, 0, 0, 0}),
               turned = Tensor::Of<int32_t>({3, 2}, {1, 1, 1, 0, 0, 0});
  {
    Graph graph;
    const WithGraph use(graph);
    EXPECT_FALSE(SparseSoftmaxCrossEntropy(turned, x).valid());
    EXPECT_THAT(std::string(graph.status().message()),
                HasSubstr("without their last dimension, got [3,2] and "
                          "[2,3,2]"));
  }
  // What only a step knows: the sizes, or also the rank of either.
  const PartialShape unknown, two(Dims{-1, -1}), three(Dims{-1, -1, 2});
  for (const PartialShape& of_labels : {unknown, two})
    for (const PartialShape& of_logits : {unknown, three}) {
      const Output labels = Placeholder(DType::kInt32, of_labels),
                   logits = Placeholder(DType::kFloat, of_logits);
      const Output loss = SparseSoftmaxCrossEntropy(labels, logits);
      EXPECT_NEAR(Eval(loss, {{labels, classes}, {logits, x}}).scalar<float>(),
                  0, 1e-3);
      EXPECT_EQ(
          session_.Run({{labels, turned}, {logits, x}}, loss).status().code(),
          StatusCode::kInvalidArgument);
      if (of_labels.rank_known()) continue;
      const Tensor column = Tensor::Of<int32_t>({2, 3, 1}, {1, 1, 1, 0, 0, 0});
      EXPECT_NEAR(Eval(loss, {{labels, column}, {logits, x}}).scalar<float>(),
                  0, 1e-3);
    }
  const Output parts = Placeholder(DType::kFloat, three),
               logits = Placeholder(DType::kFloat, three);
  const Output loss = SoftmaxCrossEntropy(parts, logits);
  const Tensor same = Tensor::Of<float>({2, 3, 2}, {0, 1, 0, 1, 0, 1,  //
                                                    1, 0, 1, 0, 1, 0}),
               other = Tensor::Of<float>({3, 2, 2}, {0, 1, 0, 1, 0, 1,  //
                                                     1, 0, 1, 0, 1, 0});
  EXPECT_NEAR(Eval(loss, {{parts, same}, {logits, x}}).scalar<float>(), 0,
              1e-3);
  EXPECT_EQ(session_.Run({{parts, other}, {logits, x}}, loss).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(LossTest, PairsAreOfAnExamplesElements) {
  // Weights of elements are not of pairs: the formula is TensorFlow's.
  const auto with = [&](float x) {
    return Eval(MeanPairwiseSquaredError(
                    Zeros({1, 3}),
                    Constant(Tensor::Of<float>({1, 3}, {1, 2, x})),
                    {.weights = Tensor::Of<float>({1, 3}, {1, 1, 0})}))
        .scalar<float>();
  };
  // 2 (sum e^2 / 1 - (sum e)^2 / 2), once for each of the two weights.
  EXPECT_FLOAT_EQ(with(0), 2 * 2 * (5 - 4.5));
  EXPECT_FLOAT_EQ(with(3), 2 * 2 * (14 - 18));
}

TEST_F(LossTest, OptionsMayBeTensors) {
  const Output y = Zeros({2}), p = Constant(Tensor::Vector<float>({1, 4}));
  const Output delta = Placeholder<float>({});
  const Output loss =
      HuberLoss(y, p, {.reduction = LossReduction::kSum, .delta = delta});
  EXPECT_FLOAT_EQ(Eval(loss, {{delta, Tensor::Scalar(2.0f)}}).scalar<float>(),
                  0.5f + 2 * (4 - 1));
  const Output log = LogLoss(y, Zeros({2}), {.epsilon = Constant(1.0f)});
  EXPECT_FLOAT_EQ(Eval(log).scalar<float>(), -std::log(2.0f));
}

TEST_F(LossTest, ShapesMustBeEqual) {
  EXPECT_FALSE(MeanSquaredError(Zeros({2, 1}), Zeros({2})).valid());
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("expected labels and predictions of one shape, got "
                        "[2,1] and [2]"));
}

}  // namespace
}  // namespace sluice
