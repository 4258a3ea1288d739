// Errors of nodes built by library functions name the user's line.
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "client/control/control_flow.h"
#include "client/control/higher_order.h"
#include "client/control/tensor_array.h"
#include "client/nn/rnn.h"
#include "client/testing/client_test_util.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// The nodes whose line is not in this file, with their lines.
std::vector<std::string> Strangers(const Graph& g) {
  std::vector<std::string> found;
  for (const auto& n : g.nodes())
    if (!n->loc().known() ||
        std::strstr(n->loc().file, "lines_test") == nullptr)
      found.push_back(n->name() + " at " + n->loc().ToString());
  return found;
}

// The lines of the nodes of an op.
std::vector<int> LinesOf(const Graph& g, const std::string& op) {
  std::vector<int> lines;
  for (const auto& n : g.nodes())
    if (n->op_name() == op) lines.push_back(n->loc().line);
  return lines;
}

class SourceLinesTest : public ClientTest {
 protected:
  // All nodes so far belong to the user.
  void ExpectAllMine() {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    EXPECT_THAT(Strangers(graph_), IsEmpty());
  }

  const Output rows_ = Placeholder<float>({-1, -1});
  const Output x_ = Placeholder<float>({});
};

TEST_F(SourceLinesTest, NodesOfConditionalsAndGradientsHaveTheUsersLine) {
  const Output y = Cond(
      x_ < 0, [&] { return -x_; }, [&] { return x_ * x_; });
  const Output z = Case<Output>(
      {{x_ < 0, [&] { return -x_; }}, {x_ < 10, [&] { return x_ * x_; }}},
      nullptr, /*exclusive=*/true);
  Grad({y, z}, {x_});
  ExpectAllMine();
}

TEST_F(SourceLinesTest, NodesOfLoopsAndGradientsHaveTheUsersLine) {
  const Output n = Placeholder<int>({});
  const auto [i, y] = While(
      std::tuple{0, x_}, [&](Output i, Output) { return i < n; },
      [&](Output i, Output y) {
        return std::tuple{
            i + 1, Cond(
                       y < 0, [&] { return y * x_; }, [&] { return y + x_; })};
      },
      {.maximum_iterations = 10});
  const Output slope = Grad(y, x_);
  Grad(slope, x_);
  ExpectAllMine();
}

TEST_F(SourceLinesTest, ShapeErrorsNameTheLinesOfBothInputs) {
  const int line = __LINE__;
  const Output a = ops::Relu(Placeholder<float>({3, 4}));
  const Output b = Placeholder<float>({5, 6}, "b");
  ops::MatMul(a, b);
  const auto at = [](int after) { return Here(line + after, "lines_test.cc"); };
  EXPECT_THAT(
      std::string(graph_.status().message()),
      AllOf(StartsWith("matrices: expected inner dimensions that agree, got "
                       "[3,4] and [5,6]; node 'MatMul' (MatMul) at "),
            HasSubstr(at(3) + "; inputs 'Relu' (Relu) [3,4] at "),
            HasSubstr(at(1) + ", 'b' (Placeholder) [5,6] at "),
            EndsWith(at(2))));
}

TEST_F(SourceLinesTest, NodesOfMapsFoldsAndScansHaveTheUsersLine) {
  const auto add = [](Output a, Output r) { return a + r * r; };
  const Output all[] = {MapFn([](Output r) { return r * r; }, rows_),
                        FoldL(add, rows_), FoldR(add, rows_),
                        Scan(add, rows_, ops::Sum(rows_, 0))};
  for (const Output& y : all) Grad(y, rows_);
  ExpectAllMine();
}

TEST_F(SourceLinesTest, NodesOfRecurrentNetworksHaveTheUsersLine) {
  const Output x = Placeholder<float>({-1, -1, 3});
  const Output step = Placeholder<float>({-1, 3});
  const Output lengths = Placeholder<int>({-1});
  const RnnResult deep = DynamicRnn(MultiRnnCell({LstmCell(4), GruCell(3)}), x,
                                    {.sequence_length = Operand(lengths)});
  const BidirectionalRnnResult both =
      BidirectionalDynamicRnn(BasicRnnCell(2), GruCell(3), x);
  const StaticRnnResult flat = StaticRnn(
      DropoutWrapper(LstmCell(4, {.peepholes = true}), {.input_keep = 0.5}),
      {step, step});
  Grad({deep.outputs, both.forward.outputs, flat.outputs[1]}, {x, step});
  ExpectAllMine();
}

TEST_F(SourceLinesTest, NodesOfArraysAndTrainingHaveTheUsersLine) {
  const TensorArray a = TensorArray(DType::kFloat, 10).Unstack(rows_);
  a.Stack();
  const Var w(RandomUniform({3, 4}), "w");
  const Var v = GetVariable("v", {3}, init::GlorotUniform());
  const Output loss = ops::Sum(ops::MatMul(rows_, w), {0, 1}) +
                      ops::Sum(ops::Gather(v, {1}), 0);
  AdagradOptimizer(0.1).Minimize(loss);
  GradientDescentOptimizer(0.1).Minimize(loss);
  GlobalVariablesInitializer();
  ExpectAllMine();
}

// A callable is the caller's code: its nodes have their own lines, not the line
// of the call that receives it.
TEST_F(SourceLinesTest, NodesBuiltInCallablesKeepTheirOwnLines) {
  int inside = 0;
  MapFn(
      [&](Output r) {
        inside = __LINE__ + 1;
        return ops::Tanh(r);
      },
      rows_);
  EXPECT_THAT(LinesOf(graph_, "Tanh"), ElementsAre(inside));
  Scan(
      [&](Output a, Output r) {
        inside = __LINE__ + 1;
        return a + ops::Exp(r);
      },
      rows_);
  EXPECT_THAT(LinesOf(graph_, "Exp"), ElementsAre(inside));
  const RnnCell cell = FunctionCell(3, {3}, [&](Output x, const RnnState& s) {
    inside = __LINE__ + 1;
    const Output h = ops::Sin(x) + s[0];
    return RnnStep{h, {h}};
  });
  DynamicRnn(cell, Placeholder<float>({2, 5, 3}));
  EXPECT_THAT(LinesOf(graph_, "Sin"), ElementsAre(inside));
  ExpectAllMine();
}

// Within a user's library function, all nodes have the line of its caller.
TEST_F(SourceLinesTest, NodesOfUserLibraryHaveTheLineOfItsCaller) {
  const auto squares = [this](SourceLoc loc = CallerLoc()) {
    const AtLine at(loc);
    return MapFn([](Output r) { return ops::Square(r); }, rows_);
  };
  const int call = __LINE__ + 1;
  squares();
  EXPECT_THAT(LinesOf(graph_, "Square"), ElementsAre(call));
  EXPECT_THAT(LinesOf(graph_, "Enter"), Each(call));
}

TEST_F(SourceLinesTest, StepErrorNamesTheCall) {
  const Output xs = Placeholder<float>();
  const int call = __LINE__ + 1;
  const Output y = MapFn([](Output r) { return r; }, xs);
  const Result<Tensor> got = session_.Run({{xs, Tensor::Scalar<float>(1)}}, y);
  ASSERT_FALSE(got.ok());
  EXPECT_THAT(std::string(got.status().message()),
              HasSubstr(Here(call, __FILE__)));
}

// Functions that return a status instead of recording an error in the graph.
TEST_F(SourceLinesTest, GradientErrorNamesTheCall) {
  const auto names = [](const Status& s, int line) {
    EXPECT_FALSE(s.ok());
    EXPECT_THAT(std::string(s.message()), HasSubstr(Here(line, __FILE__)));
  };
  names(Gradients({Output()}, {x_}).status(), __LINE__);
  names(Gradients({x_}, {x_}, {.grad_ys = {rows_, rows_}}).status(), __LINE__);
  GradientDescentOptimizer optimizer(0.1);
  names(optimizer.ComputeGradients(x_).status(), __LINE__);
  names(optimizer.ApplyGradients({}).status(), __LINE__);
  EXPECT_TRUE(graph_.status().ok()) << graph_.status();
}

TEST_F(SourceLinesTest, NodesOfComputeAndApplyGradientsHaveTheUsersLine) {
  const Var w(RandomUniform({3, 4}), "w");
  GradientDescentOptimizer optimizer(0.1);
  const Result<std::vector<GradAndVar>> grads = optimizer.ComputeGradients(
      ops::Sum(ops::MatMul(rows_, w), {0, 1}), {.gate = GradientGate::kGraph});
  ASSERT_TRUE(grads.ok()) << grads.status();
  ASSERT_TRUE(optimizer.ApplyGradients(*grads).ok());
  ExpectAllMine();
}

}  // namespace
}  // namespace sluice
