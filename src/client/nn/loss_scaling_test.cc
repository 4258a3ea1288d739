#include "client/nn/loss_scaling.h"

#include <limits>

#include "client/nn/adam_optimizers.h"
#include "client/nn/optimizers.h"
#include "client/nn/training_record_test_util.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

using LossScalingTest = ClientTest;

TEST_F(LossScalingTest, ScaleFollowsTensorFlowsRule) {
  const Var w(1.0, "w");
  const Output slope = Placeholder<float>({});
  GradientDescentOptimizer sgd(0.5);
  LossScaling scaling({.initial = 8, .growth_steps = 3});
  Node* train = scaling.Minimize(sgd, w * slope);
  ASSERT_NE(train, nullptr) << graph_.status();
  EXPECT_EQ(scaling.scale().name(), "current_loss_scale");
  EXPECT_EQ(scaling.good_steps().name(), "good_steps");
  Initialize();
  const Numbers finite = Recorded("loss_scale", "finite"),
                scales = Recorded("loss_scale", "scales"),
                values = Recorded("loss_scale", "values");
  ASSERT_EQ(finite.size(), 20u);
  for (size_t i = 0; i < finite.size(); ++i) {
    SCOPED_TRACE(i);
    RunNode(train,
            {{slope,
              Tensor::Scalar(finite[i] != 0
                                 ? 0.25f
                                 : std::numeric_limits<float>::infinity())}});
    EXPECT_EQ(Values<float>(scaling.scale())[0], scales[i]);
    EXPECT_FLOAT_EQ(Values<float>(w)[0], static_cast<float>(values[i]));
  }
}

TEST_F(LossScalingTest, SkippedStepsChangeNothing) {
  for (const bool dynamic : {false, true}) {
    SCOPED_TRACE(dynamic);
    Graph graph;
    const WithGraph use(graph);
    Session session(graph);
    const Var w(1.0, "w"), v(1.0, "v");
    const Var step(Constant(Tensor::Scalar<int64_t>(0)), "global_step",
                   {.trainable = false});
    const Output x = Placeholder<float>({});
    AdamOptimizer adam(0.1);
    LossScaling scaling({.initial = 4, .dynamic = dynamic});
    Node* train = scaling.Minimize(adam, w * x + v, {.global_step = step});
    ASSERT_NE(train, nullptr) << graph.status();
    ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    const float nan = std::numeric_limits<float>::quiet_NaN();
    ASSERT_TRUE(session.RunTargets({train}, {{x, Tensor::Scalar(nan)}}).ok());
    EXPECT_EQ(session.Run(w)->scalar<float>(), 1);
    EXPECT_EQ(session.Run(v)->scalar<float>(), 1);
    EXPECT_EQ(session.Run(adam.GetSlot(v, "m"))->scalar<float>(), 0);
    EXPECT_EQ(session.Run(step)->scalar<int64_t>(), 0);
    EXPECT_EQ(session.Run(scaling.scale())->scalar<float>(), dynamic ? 2 : 4);
    ASSERT_TRUE(session.RunTargets({train}, {{x, Tensor::Scalar(1.0f)}}).ok());
    EXPECT_NEAR(session.Run(w)->scalar<float>(), 0.9f, 1e-6f);
    EXPECT_EQ(session.Run(step)->scalar<int64_t>(), 1);
  }
}

// A gradient of 1e-9 is zero as a half, but not times 2^15.
TEST_F(LossScalingTest, SmallHalfGradientsAreNotLost) {
  const Var w(0.0, "w");
  const Output h = ops::Cast(w, DType::kHalf);
  const Output half = ops::Cast(Constant(1e-4f), DType::kHalf);
  const Output loss = ops::Cast(h * half * half, DType::kFloat);
  GradientDescentOptimizer sgd(1e8), same(1e8);
  LossScaling scaling({.dynamic = false});
  Node* scaled = scaling.Minimize(sgd, loss, {.variables = {w}});
  Node* plain = same.Minimize(loss, {.variables = {w}});
  ASSERT_NE(scaled, nullptr) << graph_.status();
  Initialize();
  RunNode(plain);
  EXPECT_EQ(Values<float>(w)[0], 0);
  RunNode(scaled);
  EXPECT_NEAR(Values<float>(w)[0], -1, 0.01f);
}

TEST_F(LossScalingTest, SparseGradientsStaySparse) {
  const Var w(Zeros({3, 2}), "w");
  const Output ids = Constant(Tensor::Vector<int32_t>({2}));
  GradientDescentOptimizer sgd(1.0);
  LossScaling scaling;
  const auto grads =
      scaling.ComputeGradients(sgd, ops::Sum(ops::GatherV2(w, ids, 0), {0, 1}));
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_TRUE((*grads)[0].gradient.is_sparse());
  Node* train = scaling.ApplyGradients(sgd, *grads);
  ASSERT_NE(train, nullptr) << graph_.status();
  Initialize();
  RunNode(train);
  EXPECT_THAT(Values<float>(w), ::testing::ElementsAre(0, 0, 0, 0, -1, -1));
}

TEST_F(LossScalingTest, BuildsInTheGraphOfTheLoss) {
  const Var w(1.0, "w");
  const Output loss = w * w;
  GradientDescentOptimizer sgd(0.25);
  LossScaling scaling;
  Graph other;
  Node* train = nullptr;
  {
    const WithGraph use(other);
    train = scaling.Minimize(sgd, loss);
  }
  EXPECT_EQ(other.num_nodes(), 0);
  ASSERT_NE(train, nullptr) << graph_.status();
  Initialize();
  RunNode(train);
  EXPECT_FLOAT_EQ(Values<float>(w)[0], 0.5f);
}

TEST_F(LossScalingTest, NonsenseIsRefused) {
  const Var w(1.0, "w");
  GradientDescentOptimizer sgd(1.0);
  for (const auto& [options, message] :
       std::vector<std::pair<LossScalingOptions, std::string>>{
           {{.initial = 0}, "expected a positive initial scale, got 0"},
           {{.factor = 1}, "expected a factor above 1, got 1"},
           {{.growth_steps = 0},
            "expected a positive number of steps, got 0"}}) {
    const auto got = LossScaling(options).ComputeGradients(sgd, w * w);
    EXPECT_THAT(std::string(got.status().message()), HasSubstr(message));
  }
}

}  // namespace
}  // namespace sluice
