#include "client/nn/gradient_accumulation.h"

#include "client/nn/adam_optimizers.h"
#include "client/nn/optimizers.h"
#include "client/testing/client_test_util.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using AccumulationTest = ClientTest;

Output MeanSquare(const Output& x, const Output& w) {
  return ops::Mean(ops::Square(x - w), 0);
}

TEST_F(AccumulationTest, EveryNthRunAppliesTheMean) {
  const Var w(1.0, "w");
  const Var step(Constant(Tensor::Scalar<int64_t>(0)), "global_step",
                 {.trainable = false});
  const Output g = Placeholder<float>({});
  GradientDescentOptimizer sgd(1.0);
  GradientAccumulator accumulator(sgd, 3);
  Node* run = accumulator.Minimize(w * g, {.global_step = step});
  ASSERT_NE(run, nullptr) << graph_.status();
  Initialize();
  EXPECT_EQ(accumulator.Sum(w).name(), "w/GradientAccumulator");
  float expected = 1;
  for (int i = 0; i < 9; ++i) {
    RunNode(run, {{g, Tensor::Scalar(static_cast<float>(i))}});
    if (i % 3 == 2) expected -= static_cast<float>(i - 1);
    EXPECT_FLOAT_EQ(Values<float>(w)[0], expected) << "run " << i;
    EXPECT_EQ(Values<int64_t>(step)[0], (i + 1) / 3);
    EXPECT_EQ(Values<int64_t>(accumulator.count())[0], (i + 1) % 3);
  }
}

TEST_F(AccumulationTest, SlotsMoveOnlyWhenTheMeanIsApplied) {
  const Var w(1.0, "w");
  AdamOptimizer adam(0.1);
  GradientAccumulator accumulator(adam, 2);
  Node* run = accumulator.Minimize(w * w);
  ASSERT_NE(run, nullptr) << graph_.status();
  Initialize();
  RunNode(run);
  EXPECT_FLOAT_EQ(Values<float>(adam.GetSlot(w, "m"))[0], 0);
  EXPECT_FLOAT_EQ(Values<float>(adam.GetNonSlot("beta1_power"))[0], 0.9f);
  RunNode(run);
  EXPECT_FLOAT_EQ(Values<float>(adam.GetSlot(w, "m"))[0], 0.2f);
  EXPECT_FLOAT_EQ(Values<float>(adam.GetNonSlot("beta1_power"))[0], 0.81f);
  EXPECT_NEAR(Values<float>(w)[0], 0.9f, 1e-6f);
}

TEST_F(AccumulationTest, SparseGradientsAreAccumulatedByRow) {
  const Var w(Zeros({4, 2}), "w");
  const Output ids = Placeholder<int32_t>({2});
  GradientDescentOptimizer sgd(2.0);
  GradientAccumulator accumulator(sgd, 2);
  Node* run = accumulator.Minimize(ops::Sum(ops::GatherV2(w, ids, 0), {0, 1}));
  ASSERT_NE(run, nullptr) << graph_.status();
  Initialize();
  RunNode(run, {{ids, Tensor::Vector<int32_t>({1, 1})}});
  EXPECT_THAT(Values<float>(accumulator.Sum(w)),
              ElementsAre(0, 0, 2, 2, 0, 0, 0, 0));
  RunNode(run, {{ids, Tensor::Vector<int32_t>({1, 3})}});
  EXPECT_THAT(Values<float>(w), ElementsAre(0, 0, -3, -3, 0, 0, -1, -1));
  EXPECT_THAT(Values<float>(accumulator.Sum(w)),
              ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
}

// In every order of the ready nodes: no run reads values of the next update.
TEST_F(AccumulationTest, LossIsThatBeforeTheUpdate) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph;
    const WithGraph use(graph);
    SessionOptions options;
    options.scheduler_seed = seed;
    Session session(graph, options);
    const Var w(2.0, "w");
    const Output loss = w * w + ops::Exp(w * 0);
    GradientDescentOptimizer sgd(0.25);
    GradientAccumulator accumulator(sgd, 2);
    Node* run = accumulator.Minimize(loss);
    ASSERT_NE(run, nullptr) << graph.status();
    ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    for (const float expected : {5.0f, 5.0f, 2.0f, 2.0f}) {
      const auto got = session.Run({}, {loss}, {run});
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_FLOAT_EQ((*got)[0].scalar<float>(), expected);
    }
  }
}

TEST_F(AccumulationTest, MicroBatchesInOneStepAreOneLargeBatch) {
  const Output x = Placeholder<float>({6});
  const Tensor batch = Tensor::Vector<float>({1, 5, -2, 4, 3, 7});
  const Var w(0.5, "w"), whole(0.5, "whole"), unused(1.0, "unused");
  AdamOptimizer adam(0.1), same(0.1);
  const AccumulatedStep step = MinimizeInMicroBatches(
      adam, 3,
      [&](const Output& i) {
        return MeanSquare(ops::Slice(x, ops::ExpandDims(i * 2, 0), {2}), w);
      },
      {.variables = {w, unused}});
  ASSERT_NE(step.train, nullptr) << graph_.status();
  Node* at_once = same.Minimize(MeanSquare(x, whole), {.variables = {whole}});
  ASSERT_NE(at_once, nullptr) << graph_.status();
  Initialize();
  const float before = Eval(MeanSquare(x, whole), {{x, batch}}).scalar<float>();
  EXPECT_FLOAT_EQ(Eval(step.loss, {{x, batch}}).scalar<float>(), before);
  for (int i = 0; i < 5; ++i) {
    RunNode(step.train, {{x, batch}});
    RunNode(at_once, {{x, batch}});
  }
  EXPECT_NEAR(Values<float>(w)[0], Values<float>(whole)[0], 1e-6f);
  EXPECT_GT(Values<float>(w)[0], 0.9f);
  EXPECT_FLOAT_EQ(Values<float>(unused)[0], 1);
}

// Steps do not compute the initial values of variables again.
TEST_F(AccumulationTest, VariablesOfUnknownShapeAreInitializedOnce) {
  const Output start = Placeholder<float>();
  const Var w(start, "w");
  const auto loss = [&](const Output&) {
    return ops::Reshape(
        ops::Sum(w * w, 0),
        Constant(Tensor::Vector<int32_t>(std::vector<int32_t>())));
  };
  GradientDescentOptimizer sgd(0.25), other(0.25);
  GradientAccumulator accumulator(sgd, 2);
  Node* run = accumulator.Minimize(loss({}));
  ASSERT_NE(run, nullptr) << graph_.status();
  Node* in_one_step = MinimizeInMicroBatches(other, 2, loss).train;
  ASSERT_NE(in_one_step, nullptr) << graph_.status();
  RunNode(GlobalVariablesInitializer(),
          {{start, Tensor::Vector<float>({8, 4})}});
  RunNode(run);
  RunNode(run);
  EXPECT_THAT(Values<float>(w), ElementsAre(4, 2));
  RunNode(in_one_step);
  EXPECT_THAT(Values<float>(w), ElementsAre(2, 1));
}

TEST_F(AccumulationTest, BuildsInTheGraphOfTheLoss) {
  const Var w(1.0, "w");
  const Output loss = w * w;
  GradientDescentOptimizer sgd(0.25);
  GradientAccumulator accumulator(sgd, 1);
  Graph other;
  Node* run = nullptr;
  {
    const WithGraph use(other);
    run = accumulator.Minimize(loss);
  }
  EXPECT_EQ(other.num_nodes(), 0);
  ASSERT_NE(run, nullptr) << graph_.status();
  Initialize();
  RunNode(run);
  EXPECT_FLOAT_EQ(Values<float>(w)[0], 0.5f);
}

TEST_F(AccumulationTest, NonsenseIsRefused) {
  const Var w(1.0, "w");
  GradientDescentOptimizer sgd(1.0);
  EXPECT_EQ(GradientAccumulator(sgd, 0).Minimize(w * w), nullptr);
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("expected a positive number of micro-batches, got 0"));
  Graph other;
  const WithGraph use(other);
  EXPECT_EQ(MinimizeInMicroBatches(sgd, 2, nullptr).train, nullptr);
  EXPECT_FALSE(other.status().ok());
}

}  // namespace
}  // namespace sluice
