// Gradients of library functions built on loops, the values that gradients
// save, and graphs whose structure must be recovered first.
#include "client/control/higher_order.h"
#include "client/control/loops.h"
#include "client/control/tensor_array.h"
#include "client/testing/gradient_test_util.h"
#include "graph/control_flow.h"
#include "graph/control_flow_recovery.h"
#include "graph/graphdef.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LibraryGradientTest : public GradientTest {
 protected:
  // The values that loops save for others, of those that must be saved.
  std::vector<Output> Saved() const {
    std::vector<Output> values;
    for (const auto& n : graph_.nodes()) {
      if (n->op_name() != "ControlTrigger") continue;
      for (const Node* c : n->control_inputs())
        if (c->op_name() == "TensorArrayWriteV3") values.push_back(c->input(2));
    }
    return values;
  }
};

TEST_F(LibraryGradientTest, ComputesSecondOrderOfScan) {
  const Output xs = In({4}, "xs"), w = In(PartialShape::Scalar(), "w");
  const Output sums =
      Scan([&](Output total, Output x) { return ops::Tanh(total * w + x * x); },
           xs, Constant(0.1));
  ExpectGradients(
      sums,
      {{xs, Tensor::Vector<double>({0.3, -0.2, 0.5, 0.9})}, {w, Scalar(0.8)}},
      2, 1e-4);
}

TEST_F(LibraryGradientTest, ComputesThirdOrderOfMap) {
  const Output xs = In({3}, "xs"), w = In(PartialShape::Scalar(), "w");
  const Output y = MapFn([&](Output x) { return ops::Sin(x * w) * x; }, xs);
  ExpectGradients(
      y, {{xs, Tensor::Vector<double>({0.3, -0.2, 0.5})}, {w, Scalar(0.8)}}, 3,
      1e-4);
}

TEST_F(LibraryGradientTest, ComputesSecondOrderOfLstmCell) {
  constexpr int kUnits = 2, kInputs = 2, kSteps = 3;
  const Output xs = In({kSteps, 1, kInputs}, "xs");
  const Output w = In({kInputs + kUnits, 4 * kUnits}, "w");
  const TensorArray in = TensorArray(DType::kDouble, kSteps).Unstack(xs);
  const Output zero = Constant(Tensor::Of<double>(Shape({1, kUnits}), {0, 0}));
  const auto [t, c, h] = While(
      std::tuple{0, zero, zero},
      [&](Output t, Output, Output) { return t < kSteps; },
      [&](Output t, Output c, Output h) {
        const Output x = in.Read(t);
        const std::vector<Output> gates =
            ops::Split(1, ops::MatMul(ops::ConcatV2({x, h}, 1), w), 4);
        const Output next = c * ops::Sigmoid(gates[0]) +
                            ops::Sigmoid(gates[1]) * ops::Tanh(gates[2]);
        return std::tuple{t + 1, next,
                          ops::Tanh(next) * ops::Sigmoid(gates[3])};
      });
  std::vector<double> weights, rows;
  for (int i = 0; i < 32; ++i) weights.push_back(std::sin(i * 1.7));
  for (int i = 0; i < 6; ++i) rows.push_back(std::cos(i * 2.3));
  ExpectGradients(h,
                  {{xs, Tensor::Of<double>(Shape({3, 1, 2}), rows)},
                   {w, Tensor::Of<double>(Shape({4, 8}), weights)}},
                  2, 1e-4);
}

// ---- Saved values -----------------------------------------------------------

TEST_F(LibraryGradientTest, SavesOnlyWhatTheGradientNeeds) {
  const Output x = In(), w = In(PartialShape::Scalar(), "w");
  const auto [i, a] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 4; },
      [&](Output i, Output a) {
        // Sums, constants and captured values are not saved.
        return std::tuple{i + 1, (a + w) * 2.0 + ops::Cast(i, DType::kDouble)};
      });
  Grad(a, std::vector<GradTarget>{x, w}[0]);
  EXPECT_EQ(Saved().size(), 0u);
}

TEST_F(LibraryGradientTest, SavesEachValueOnceForAllOrders) {
  const Output x = In(), w = In(PartialShape::Scalar(), "w");
  const auto [i, a] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 4; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, ops::Tanh(a * w, {.name = "tanh"})};
      });
  const Output g = Grad(a, w);
  // The variable: its value for the gradient of w, its next value for that of
  // tanh.
  EXPECT_EQ(Saved().size(), 1u);
  Grad(a, x);
  EXPECT_EQ(Saved().size(), 1u);
  Grad(g, w);
  // The other saved values belong to the loops of the gradients.
  ControlFlowContext* const loop =
      sluice::ContextOf(graph_.FindNode("while/tanh"));
  int saved = 0;
  for (const auto& n : graph_.nodes())
    if (n->op_name() == "TensorArrayWriteV3" &&
        sluice::ContextOf(n.get()) == loop)
      ++saved;
  EXPECT_EQ(saved, 1);
}

TEST_F(LibraryGradientTest, SavesOnlyShapesWhereTheySuffice) {
  const Output x = In({-1});
  const auto [i, a] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, a + ops::Sum(a * 2.0, {0})};
      });
  const Output g = Grad(a, x);
  for (const Output& saved : Saved())
    EXPECT_EQ(saved.dtype(), DType::kInt32) << saved.name();
  EXPECT_THAT(Values<double>(g, {{x, Tensor::Vector<double>({1, 2})}}),
              ElementsAre(125, 125));
}

TEST_F(LibraryGradientTest, UnfetchedGradientsRunNothing) {
  const Output x = In();
  const auto [i, a] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, a * a};
      });
  Grad(Grad(a, x), x);
  RunOptions options;
  options.trace = true;
  RunMetadata metadata;
  ASSERT_TRUE(
      session_.Run({{x, Scalar(1.1)}}, {a}, {}, options, &metadata).ok());
  EXPECT_THAT(metadata.ChromeTrace(), ::testing::Not(HasSubstr("TensorArray")));
}

// ---- Recovered structure ----------------------------------------------------

TEST_F(LibraryGradientTest, DifferentiatesHandBuiltLoops) {
  const Output x = In();
  const Output i = OpenMerge(ops::Enter(0, "loop"));
  const Output a = OpenMerge(ops::Enter(x, "loop"));
  const Output factor = ops::Enter(x, "loop", {.is_constant = true});
  const Output go =
      ops::LoopCond(ops::Less(i, ops::Enter(4, "loop", {.is_constant = true})));
  const auto [i_done, i_again] = ops::Switch(i, go);
  const auto [a_done, a_again] = ops::Switch(a, go);
  CloseMerge(i, ops::NextIteration(ops::AddV2(
                    i_again, ops::Enter(1, "loop", {.is_constant = true}))));
  CloseMerge(a, ops::NextIteration(ops::Mul(ops::Sin(a_again), factor)));
  const Output end = ops::Exit(a_done);
  const auto [no, yes] = ops::Switch(end, ops::Less(end, x));
  const Output y = ops::Merge({ops::Square(no), ops::Sin(yes)}).output;
  ExpectGradients(y, {{x, Scalar(0.9)}}, 2, 1e-4);
  ExpectGradients(y, {{x, Scalar(1.9)}}, 2, 1e-4);
}

// Only the condition reads the second variable, so it has no Switch.
TEST_F(LibraryGradientTest, PrimitiveLoopsMayLackASwitch) {
  const Output x = In();
  const auto enter = [](const Operand& v, bool constant) {
    return ops::Enter(v, "loop", {.is_constant = constant});
  };
  const Output i = OpenMerge(enter(0, false));
  const Output limit = OpenMerge(enter(x, false));
  const Output y = OpenMerge(enter(x, false));
  const Output again = ops::LoopCond(
      ops::LogicalAnd(ops::Less(i, enter(3, true)),
                      ops::Less(limit, enter(Constant(100.0), true))));
  const auto [i_done, i_again] = ops::Switch(i, again);
  const auto [y_done, y_again] = ops::Switch(y, again);
  CloseMerge(i, ops::NextIteration(ops::AddV2(i_again, enter(1, true))));
  CloseMerge(limit, ops::NextIteration(ops::Tanh(y_again)));
  CloseMerge(y, ops::NextIteration(ops::Sin(y_again * enter(x, true))));
  ExpectGradients(ops::Exit(y_done), {{x, Scalar(0.7)}}, 2);
}

TEST_F(LibraryGradientTest, RejectsFramesThatDoNotNest) {
  const Output x = In();
  const Output in = ops::Enter(x, "one", {.is_constant = true});
  const Output other = ops::Enter(x, "two", {.is_constant = true});
  const Output both = ops::Mul(in, other);
  EXPECT_THAT(
      std::string(RecoverControlFlow(&graph_).message()),
      HasSubstr(
          "expected all inputs from one frame, got 'Enter' in frame 'one'"));
  EXPECT_THAT(std::string(Gradients({both}, {x}).status().message()),
              HasSubstr("(Mul)"));
}

TEST_F(LibraryGradientTest, RejectsExitOutsideFrames) {
  const Output x = In();
  ops::Enter(x, "one", {.is_constant = true});
  const Output out = ops::Exit(x);
  EXPECT_THAT(std::string(Gradients({out}, {x}).status().message()),
              HasSubstr("Exit: expected to be inside a frame, got the root"));
}

}  // namespace
}  // namespace sluice
