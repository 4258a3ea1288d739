#include "client/nn/learning_rates.h"

#include <algorithm>
#include <functional>

#include "client/nn/optimizers.h"
#include "client/nn/training_record_test_util.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

using LearningRateTest = ClientTest;

TEST_F(LearningRateTest, RatesAreTensorFlows) {
  const Output s = Placeholder<int64_t>({});
  const std::map<std::string, Output> rates = {
      {"exponential", ExponentialDecay(0.5, s, 7, 0.9)},
      {"exponential_staircase",
       ExponentialDecay(0.5, s, 7, 0.9, {.staircase = true})},
      {"natural_exp", NaturalExpDecay(0.5, s, 7, 0.3)},
      {"natural_exp_staircase",
       NaturalExpDecay(0.5, s, 7, 0.3, {.staircase = true})},
      {"inverse_time", InverseTimeDecay(0.5, s, 7, 0.3)},
      {"inverse_time_staircase",
       InverseTimeDecay(0.5, s, 7, 0.3, {.staircase = true})},
      {"polynomial", PolynomialDecay(0.5, s, 25, {.end = 0.01, .power = 1.5})},
      {"polynomial_cycle",
       PolynomialDecay(0.5, s, 9, {.end = 0.01, .power = 2, .cycle = true})},
      {"cosine", CosineDecay(0.5, s, 25, {.alpha = 0.1})},
      {"cosine_restarts",
       CosineDecayRestarts(0.5, s, 5, {.height_factor = 0.7, .alpha = 0.1})},
      {"cosine_restarts_equal",
       CosineDecayRestarts(
           0.5, s, 6,
           {.period_factor = 1, .height_factor = 0.7, .alpha = 0.1})},
      {"linear_cosine",
       LinearCosineDecay(0.5, s, 25,
                         {.periods = 1.5, .alpha = 0.1, .beta = 0.002})},
      {"piecewise", PiecewiseConstant(s, {4, 10, 30}, {0.5, 0.25, 0.1, 0.01})}};
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  size_t recorded = 0;
  for (const auto& [name, lines] : TrainingRecords())
    recorded += name.starts_with("rate.");
  EXPECT_EQ(rates.size(), recorded);
  for (const auto& [name, rate] : rates) {
    SCOPED_TRACE(name);
    EXPECT_EQ(rate.dtype(), DType::kFloat);
    Numbers got;
    for (int64_t i = 0; i <= 40; ++i)
      got.push_back(Eval(rate, {{s, Tensor::Scalar(i)}}).scalar<float>());
    ExpectNear(got, Recorded("rate." + name, "steps0to40"), 2e-6, 0.1);
  }
}

TEST_F(LearningRateTest, NodesHaveTensorFlowsNames) {
  const Output s = Placeholder<int64_t>({});
  const Output rate = ExponentialDecay(0.5, s, 7, 0.9, {.name = "rate"});
  ASSERT_TRUE(rate.valid()) << graph_.status();
  EXPECT_EQ(rate.node->name(), "rate");
  const Node* const power = rate.node->input(1).node;
  EXPECT_EQ(power->name(), "rate/Pow");
  EXPECT_EQ(power->input(1).node->name(), "rate/truediv");
  EXPECT_EQ(PolynomialDecay(0.5, s, 7).node->name(), "PolynomialDecay");
  EXPECT_EQ(CosineDecayRestarts(0.5, s, 7).node->name(), "SGDRDecay");
  // (TensorFlow's has no name of its own either.)
  const Output cosine = CosineDecay(0.5, s, 7);
  EXPECT_EQ(cosine.node->name(), "CosineDecay/mul_3");
  EXPECT_EQ(cosine.node->input(1).node->input(1).node->name(),
            "CosineDecay/add_1/y");
}

TEST_F(LearningRateTest, NumbersMayBeComputed) {
  const Output s = Placeholder<int64_t>({});
  const Output half = Constant(0.5f), two = Constant(2.0f);
  const std::vector<std::pair<Output, Output>> same = {
      {PolynomialDecay(0.5, s, 9, {.end = half, .power = two}),
       PolynomialDecay(0.5, s, 9, {.end = 0.5, .power = 2.0})},
      {CosineDecay(0.5, s, 9, {.alpha = half}),
       CosineDecay(0.5, s, 9, {.alpha = 0.5})},
      {CosineDecayRestarts(0.5, s, 3, {.period_factor = two}),
       CosineDecayRestarts(0.5, s, 3, {.period_factor = 2.0})},
      {LinearCosineDecay(0.5, s, 9, {.periods = two, .alpha = half}),
       LinearCosineDecay(0.5, s, 9, {.periods = 2.0, .alpha = 0.5})}};
  for (const auto& [computed, given] : same)
    for (int64_t i = 0; i < 12; ++i)
      EXPECT_NEAR(Eval(computed, {{s, Tensor::Scalar(i)}}).scalar<float>(),
                  Eval(given, {{s, Tensor::Scalar(i)}}).scalar<float>(), 1e-6)
          << given.node->name() << ", step " << i;
}

TEST_F(LearningRateTest, NoiseIsAddedToTheLinearPart) {
  const Output s = Placeholder<int64_t>({});
  const Output none = LinearCosineDecay(
      0.5, s, 9,
      {.noisy = true, .sample = [](DType t) { return ScalarOf(t, 0); }});
  const Output plain = LinearCosineDecay(0.5, s, 9);
  const Output one =
      LinearCosineDecay(0.5, s, 9,
                        {.noisy = true,
                         .initial_variance = 4.0,
                         .variance_decay = 2.0,
                         .sample = [](DType t) { return ScalarOf(t, 1); }});
  for (int64_t i = 0; i < 12; ++i) {
    const double step = std::min<double>(static_cast<double>(i), 9);
    const double wave = (1 + std::cos(3.14159265358979 * step / 9)) / 2;
    const float expected =
        Eval(plain, {{s, Tensor::Scalar(i)}}).scalar<float>();
    EXPECT_NEAR(Eval(none, {{s, Tensor::Scalar(i)}}).scalar<float>(), expected,
                1e-7);
    EXPECT_NEAR(Eval(one, {{s, Tensor::Scalar(i)}}).scalar<float>(),
                expected + 0.5 * wave * 2 / (1 + step), 1e-6)
        << "step " << i;
  }
}

TEST_F(LearningRateTest, WarmUpReachesAnySchedule) {
  const Output s = Placeholder<int64_t>({});
  const Output falling = InverseTimeDecay(0.5, s, 10, 1.0);
  const Output rate = WarmUp(falling, s, 4, 0.2);
  for (int64_t i = 0; i < 10; ++i) {
    const double whole = 0.5 / (1 + static_cast<double>(i) / 10);
    const double part = i < 4 ? 0.2 + 0.8 * static_cast<double>(i) / 4 : 1;
    EXPECT_NEAR(Eval(rate, {{s, Tensor::Scalar(i)}}).scalar<float>(),
                whole * part, 1e-6)
        << "step " << i;
  }
}

TEST_F(LearningRateTest, RatesHaveTheTypeOfTheFirstOne) {
  const Output s = Placeholder<int32_t>({});
  const Output rate = ExponentialDecay(Constant(0.5), s, 7, 0.9);
  EXPECT_EQ(rate.dtype(), DType::kDouble);
  EXPECT_NEAR(Eval(rate, {{s, Tensor::Scalar(3)}}).scalar<double>(),
              0.5 * std::pow(0.9, 3.0 / 7), 1e-14);
}

TEST_F(LearningRateTest, OptimizersFollowTheGlobalStep) {
  const Var step(Constant(Tensor::Scalar<int64_t>(0)), "global_step",
                 {.trainable = false});
  const Var w(0.0, "w");
  Node* train = GradientDescentOptimizer(
                    PiecewiseConstant(step, {0, 1}, {1.0, 10.0, 100.0}))
                    .Minimize(-w, {.global_step = step, .variables = {w}});
  ASSERT_NE(train, nullptr) << graph_.status();
  Initialize();
  for (const float expected : {1.0f, 11.0f, 111.0f, 211.0f}) {
    RunNode(train);
    EXPECT_FLOAT_EQ(Values<float>(w)[0], expected);
  }
}

TEST_F(LearningRateTest, PiecewiseNeedsOneValueMore) {
  EXPECT_FALSE(
      PiecewiseConstant(Constant(int32_t{1}), {1, 2}, {0.1, 0.2}).valid());
  EXPECT_THAT(
      std::string(graph_.status().message()),
      HasSubstr("expected one value more than boundaries, got 2 and 2"));
}

}  // namespace
}  // namespace sluice
