#include "client/nn/constraints.h"

#include "client/control/functions.h"
#include "client/nn/embedding.h"
#include "client/nn/layers.h"
#include "client/nn/optimizers.h"
#include "client/testing/client_test_util.h"
#include "client/variable_scope.h"
#include "graph/graphdef.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ConstraintsTest : public ClientTest {
 protected:
  std::vector<float> Run(Session& session, const Output& o) {
    const Result<Tensor> t = session.Run(o);
    EXPECT_TRUE(t.ok()) << t.status();
    return t.ok() ? t->ToVector<float>() : std::vector<float>();
  }
};

TEST_F(ConstraintsTest, ValuesThatMeetThemStayAndOthersMoveThere) {
  // (Keras's formulas; layer_numbers_test.cc has its numbers in training.)
  const Output w = Constant(Tensor::Of<float>(Shape({2, 2}), {3, 0, 4, 0.5}));
  const auto made = [&](const Constraint& c) {
    const Tensor t = Eval(c(w));
    return t.ToVector<float>();
  };
  using ::testing::FloatNear;
  EXPECT_THAT(made(MaxNorm(2)),
              ElementsAre(FloatNear(1.2f, 1e-5), 0, FloatNear(1.6f, 1e-5),
                          FloatNear(0.5f, 1e-5)));
  EXPECT_THAT(made(UnitNorm({-1})),
              ElementsAre(FloatNear(1, 1e-5), 0, FloatNear(0.9923f, 1e-4),
                          FloatNear(0.1240f, 1e-4)));
  EXPECT_THAT(made(MinMaxNorm(1, 2)),
              ElementsAre(FloatNear(1.2f, 1e-5), 0, FloatNear(1.6f, 1e-5),
                          FloatNear(1, 1e-5)));
  EXPECT_THAT(Eval(NonNegative()(Constant(Tensor::Vector<float>({-1, 0, 2}))))
                  .ToVector<float>(),
              ElementsAre(0, 0, 2));
}

TEST_F(ConstraintsTest, EveryOptimizerAppliesThemAfterItsUpdate) {
  for (const bool reference : {false, true}) {
    Graph g;
    const WithGraph use(g);
    const Var v(Constant(Tensor::Vector<float>({1, 1})), "v",
                {.reference = reference});
    const Var free(Constant(Tensor::Vector<float>({1, 1})), "free",
                   {.reference = reference});
    ASSERT_TRUE(SetConstraint(v, NonNegative()).ok());
    EXPECT_TRUE(HasConstraint(v));
    EXPECT_FALSE(HasConstraint(free));
    const Output by = Constant(Tensor::Vector<float>({3, -3}));
    const Output loss = ops::Sum(v * by, {0}) + ops::Sum(free * by, {0});
    Node* const slow = GradientDescentOptimizer(0.1).Minimize(loss);
    Node* const fast = MomentumOptimizer(1, 0.0).Minimize(loss);
    Node* const init = GlobalVariablesInitializer();
    ASSERT_TRUE(g.status().ok()) << g.status();
    Session session(g);
    ASSERT_TRUE(session.RunTargets({init}).ok());
    ASSERT_TRUE(session.RunTargets({fast}).ok());
    EXPECT_THAT(Run(session, v), ElementsAre(0, 4));
    EXPECT_THAT(Run(session, free), ElementsAre(-2, 4));
    ASSERT_TRUE(session.RunTargets({slow}).ok());
    EXPECT_THAT(Run(session, v)[0], 0);
    EXPECT_FLOAT_EQ(Run(session, v)[1], 4.3f);
  }
}

TEST_F(ConstraintsTest, ExportedGraphsKeepThem) {
  std::string bytes;
  {
    Graph g;
    const WithGraph use(g);
    const Var v(Constant(Tensor::Vector<float>({1, 1})), "model/v");
    ASSERT_TRUE(
        SetConstraint(v, [](Output w) { return ops::Minimum(w, 2.0f); }).ok());
    bytes = *ExportGraphDef(g);
  }
  ASSERT_TRUE(ImportGraphDef(bytes, graph_).ok());
  const Var v = Var::FromHandle(*graph_.FindOutput("model/v:0"));
  EXPECT_TRUE(HasConstraint(v));
  Node* const train = GradientDescentOptimizer(1).Minimize(
      ops::Sum(v * -5.0f, {0}), {.variables = {v}});
  ASSERT_NE(train, nullptr) << graph_.status();
  Session session(graph_);
  ASSERT_TRUE(session.RunTargets({v.initializer()}).ok());
  ASSERT_TRUE(session.RunTargets({train}).ok());
  EXPECT_THAT(Run(session, v), ElementsAre(2, 2));
}

TEST_F(ConstraintsTest, LayersShareTheConstraintOfTheirVariable) {
  const Output x = Ones({1, 2});
  Output y;
  for (const Constraint& c : {NonNegative(), MaxNorm(0.1)}) {
    const VariableScope scope("s", {.reuse = Reuse::kAuto});
    y = Dense(x, 2, {.use_bias = false, .kernel_constraint = c, .name = "d"});
  }
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const Var kernel = GlobalVariables()[0];
  Node* const train = GradientDescentOptimizer(1).Minimize(ops::Sum(y, {0, 1}));
  Node* const start =
      kernel.Assign(Constant(Tensor::Of<float>(Shape({2, 2}), {5, 5, 0, 0})));
  Session session(graph_);
  ASSERT_TRUE(session.RunTargets({start}).ok());
  ASSERT_TRUE(session.RunTargets({train}).ok());
  // The first layer made it.
  EXPECT_THAT(Run(session, kernel), ElementsAre(4, 4, 0, 0));
}

TEST_F(ConstraintsTest, WhatIsRefusedLeavesNothing) {
  const Var v(Constant(Tensor::Vector<float>({1, 1})), "v");
  const Output outside = Constant(2.0f);
  const auto refused = [&](const Constraint& constraint, const char* message) {
    const Status s = SetConstraint(v, constraint);
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(s.message()),
                ::testing::AllOf(HasSubstr("constraint of variable 'v'"),
                                 HasSubstr(message)));
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    EXPECT_TRUE(graph_.functions().empty());
    EXPECT_FALSE(HasConstraint(v));
  };
  refused(MaxNorm(-1), "expected a finite norm of 0 or more, got -1");
  refused(MaxNorm(1, {3}), "expected axes from -1 to 0, got 3");
  refused([&](const Output& w) { return w * outside; }, "another graph");
  refused([](const Output& w) { return ops::Sum(w, {0}); },
          "expected a value of type and shape float[2], got float[]");
  refused([](const Output&) { return Output(); }, "got none");
  EXPECT_TRUE(SetConstraint(v, NonNegative()).ok());
  EXPECT_EQ(graph_.functions().size(), 1u);
  EXPECT_TRUE(SetConstraint(v, UnitNorm()).ok());
}

TEST_F(ConstraintsTest, SparseGradientsAreRefused) {
  const Var table(Ones({4, 2}), "table");
  ASSERT_TRUE(SetConstraint(table, UnitNorm()).ok());
  const Output loss = ops::Sum(
      EmbeddingLookup(table, Constant(Tensor::Vector<int32_t>({1, 2}))),
      {0, 1});
  EXPECT_EQ(GradientDescentOptimizer(1).Minimize(loss), nullptr);
  EXPECT_THAT(graph_.status().ToString(),
              HasSubstr("expected a dense gradient of variable 'table', which "
                        "has a constraint, got a sparse one"));
}

}  // namespace
}  // namespace sluice
