#include "client/nn/moving_averages.h"

#include "client/nn/training_record_test_util.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::UnorderedElementsAre;

using MovingAverageTest = ClientTest;

TEST_F(MovingAverageTest, NumbersAndNamesAreTensorFlows) {
  int compared = 0;
  for (const std::string name : {"plain", "num_updates", "zero_debias"}) {
    SCOPED_TRACE(name);
    Graph graph;
    const WithGraph use(graph);
    Session session(graph);
    const Var w(TensorOf(DType::kFloat, {3}, Recorded("problem", "b")), "w");
    const Output x = Placeholder(DType::kFloat, {3}, "x");
    const Output n = Placeholder<float>({});
    MovingAverageOptions options;
    if (name == "num_updates") options.num_updates = n;
    options.zero_debias = name == "zero_debias";
    ExponentialMovingAverage averages(0.9, options);
    Node* apply = nullptr;
    {
      const ControlDependencies moved({w.AssignAdd(x)});
      apply = averages.Apply({w}, {x});
    }
    ASSERT_NE(apply, nullptr) << graph.status();
    EXPECT_EQ(apply->name(), "ExponentialMovingAverage");
    ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    const Numbers xs = Recorded("problem", "bias");
    for (size_t i = 0; i < 20; ++i) {
      const Status ran = session.RunTargets(
          {apply}, {{x, TensorOf(DType::kFloat, {3}, xs, 3 * i)},
                    {n, Tensor::Scalar(static_cast<float>(i))}});
      ASSERT_TRUE(ran.ok()) << ran;
    }
    for (const auto& [variable, numbers] :
         TrainingRecords().at("average." + name)) {
      SCOPED_TRACE(variable);
      Node* handle = graph.FindNode(variable);
      ASSERT_NE(handle, nullptr);
      const Result<Tensor> value = session.Run(Var::FromHandle(Output(handle)));
      ASSERT_TRUE(value.ok()) << value.status();
      ExpectNear(NumbersOf(*value), numbers, 3e-6);
      ++compared;
    }
    EXPECT_EQ(averages.Average(w).name(), "w/ExponentialMovingAverage");
    EXPECT_EQ(averages.Average(x).name(), "x/ExponentialMovingAverage");
  }
  EXPECT_EQ(compared, 11);
}

TEST_F(MovingAverageTest, AveragesAreRestoredForTheirVariables) {
  const Var w(1.0, "w"), b(1.0, "b"), step(0, "step", {.trainable = false});
  ExponentialMovingAverage averages(0.5);
  EXPECT_FALSE(averages.Average(w).valid());
  EXPECT_EQ(averages.AverageName(w), "w/ExponentialMovingAverage");
  ASSERT_NE(averages.Apply({w}), nullptr) << graph_.status();
  const auto restored = averages.VariablesToRestore();
  EXPECT_THAT(restored, UnorderedElementsAre(Key("w/ExponentialMovingAverage"),
                                             Key("b/ExponentialMovingAverage"),
                                             Key("step")));
  EXPECT_TRUE(restored.at("w/ExponentialMovingAverage").SameAs(w));
  EXPECT_THAT(averages.VariablesToRestore({w}),
              UnorderedElementsAre(Key("w/ExponentialMovingAverage"), Key("b"),
                                   Key("step")));
}

TEST_F(MovingAverageTest, AveragesMadeLaterStartAtTheVariablesValue) {
  for (const bool reference : {false, true}) {
    const Var w(1.0, reference ? "ref" : "w", {.reference = reference});
    RunNode(w.initializer());
    RunNode(w.Assign(5.0f));
    ExponentialMovingAverage averages(0.5);
    Node* apply = averages.Apply({w});
    ASSERT_NE(apply, nullptr) << graph_.status();
    RunNode(averages.Average(w).initializer());
    EXPECT_FLOAT_EQ(Values<float>(averages.Average(w))[0], 5);
    RunNode(w.Assign(9.0f));
    RunNode(apply);
    EXPECT_FLOAT_EQ(Values<float>(averages.Average(w))[0], 7);
  }
}

TEST_F(MovingAverageTest, LiteralDecaysAreSubtractedAsDoubles) {
  const Var w(0.0, "w");
  Node* moved = AssignMovingAverage(w, 1.0, 0.999);
  ASSERT_NE(moved, nullptr) << graph_.status();
  Initialize();
  RunNode(moved);
  EXPECT_EQ(Values<float>(w)[0], static_cast<float>(1 - 0.999));
  EXPECT_NE(Values<float>(w)[0], 1 - 0.999f);
}

TEST_F(MovingAverageTest, IntegersHaveNoAverage) {
  ExponentialMovingAverage averages(0.5);
  EXPECT_EQ(averages.Apply({Var(1, "counter")}), nullptr);
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("expected a floating type, got int32; 'counter'"));
}

}  // namespace
}  // namespace sluice
