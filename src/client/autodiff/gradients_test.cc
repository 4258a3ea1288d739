#include <cmath>
#include <random>
#include <stdexcept>

#include "client/control/control_flow.h"
#include "client/testing/client_test_util.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class GradientsTest : public ClientTest {
 protected:
  // The one gradient, which must exist.
  Gradient One(Output y, const GradTarget& x, const GradientOptions& o = {}) {
    Result<std::vector<Gradient>> g = Gradients({y}, {x}, o);
    EXPECT_TRUE(g.ok()) << g.status();
    return g.ok() ? (*g)[0] : Gradient();
  }
  std::string Error(Output y, const GradTarget& x,
                    const GradientOptions& o = {}) {
    const Status s = Gradients({y}, {x}, o).status();
    EXPECT_FALSE(s.ok());
    return std::string(s.message());
  }
};

TEST_F(GradientsTest, DifferentiatesPolynomial) {
  const Output x = Placeholder<float>();
  const Output y = x * x * x + 2 * x;
  const Feeds feeds = {{x, Tensor::Scalar(3.0f)}};
  const Output dy = Grad(y, x);
  EXPECT_THAT(Values<float>(dy, feeds), ElementsAre(29));
  const Output ddy = Grad(dy, x);
  EXPECT_THAT(Values<float>(ddy, feeds), ElementsAre(18));
  EXPECT_THAT(Values<float>(Grad(ddy, x), feeds), ElementsAre(6));
}

TEST_F(GradientsTest, SumOverSeveralYsAndPaths) {
  const Output x = Constant(Tensor::Vector<float>({1, 2}));
  const Output z = x * 3;
  const std::vector<Output> g =
      Grad({z + x, z, x}, std::vector<GradTarget>{x, z});
  EXPECT_THAT(Values<float>(g[0]), ElementsAre(8, 8));  // 3+1, 3, 1.
  EXPECT_THAT(Values<float>(g[1]), ElementsAre(2, 2));
}

TEST_F(GradientsTest, StartFromInitialGradients) {
  const Output x = Constant(Tensor::Vector<float>({1, 2}));
  const Output seed = Constant(Tensor::Vector<float>({10, 100}));
  EXPECT_THAT(Values<float>(Grad(x * x, x, {.grad_ys = {seed}})),
              ElementsAre(20, 400));
  const Output wrong = Constant(Tensor::Vector<float>({1, 2, 3}));
  EXPECT_THAT(Error(x * x, x, {.grad_ys = {wrong}}),
              HasSubstr("expected shape [2]"));
  EXPECT_THAT(Error(x * x, x, {.grad_ys = {Constant(1)}}),
              HasSubstr("expected float as"));
  EXPECT_THAT(Error(x, x, {.grad_ys = {seed, seed}}),
              HasSubstr("grad_ys: expected at most 1"));
}

TEST_F(GradientsTest, StartFromSlices) {
  const Output x = Constant(Tensor::Vector<float>({1, 2, 3}));
  const Gradient rows =
      Gradient::Slices(Constant(Tensor::Vector<int32_t>({2, 0, 2})),
                       Constant(Tensor::Vector<float>({10, 100, 1})), {});
  EXPECT_THAT(Values<float>(Grad(x * x, x, {.grad_ys = {rows}})),
              ElementsAre(200, 0, 66));
  const std::vector<Gradient> same =
      *Gradients({ops::Identity(x)}, {x}, {.grad_ys = {rows}});
  ASSERT_TRUE(same[0].is_sparse());
  EXPECT_THAT(Values<float>(same[0].values), ElementsAre(10, 100, 1));
  EXPECT_THAT(
      Error(x, x,
            {.grad_ys = {Gradient::Slices(rows.indices, rows.indices, {})}}),
      HasSubstr("expected float as"));
}

TEST_F(GradientsTest, StopAtStopGradients) {
  const Output x = Constant(2.0f);
  const Output h = x * x;
  const Output y = h * x;
  EXPECT_THAT(Values<float>(Grad(y, x)), ElementsAre(12));
  EXPECT_THAT(Values<float>(Grad(y, x, {.stop_gradients = {h}})),
              ElementsAre(4));
  EXPECT_THAT(Values<float>(Grad(ops::StopGradient(h) * x, x)), ElementsAre(4));
}

TEST_F(GradientsTest, UnconnectedXsGetNoneOrZero) {
  const Output x = Constant(Tensor::Vector<float>({1, 2}));
  const Output other = Constant(Tensor::Vector<float>({5}));
  const Var v(Ones({2, 2}), "v");
  Initialize();
  const Output y = x * 2;
  EXPECT_FALSE(One(y, other));
  EXPECT_FALSE(Grad(y, other).valid());
  const GradientOptions zero = {.unconnected = Unconnected::kZero};
  EXPECT_THAT(Values<float>(Grad(y, other, zero)), ElementsAre(0));
  EXPECT_THAT(Values<float>(Grad(y, v, zero)), ElementsAre(0, 0, 0, 0));
}

TEST_F(GradientsTest, XsMayDependOnEachOther) {
  const Output x = Constant(3.0f);
  const Output h = x * x;
  const std::vector<Output> g = Grad({h * 2}, std::vector<GradTarget>{x, h});
  EXPECT_THAT(Values<float>(g[0]), ElementsAre(12));
  EXPECT_THAT(Values<float>(g[1]), ElementsAre(2));
  EXPECT_THAT(Values<float>(Grad(x, x)), ElementsAre(1));
}

TEST_F(GradientsTest, DoNotFlowThroughIntegers) {
  const Output x = Constant(3.0f);
  const Output y =
      ops::Cast(ops::Cast(x, DType::kInt32) * 2, DType::kFloat) + x;
  EXPECT_THAT(Values<float>(Grad(y, x)), ElementsAre(1));
  EXPECT_FALSE(
      Grad(ops::Cast(ops::Cast(x, DType::kInt32), DType::kFloat), x).valid());
  const Output text = Constant(Tensor::Scalar<std::string>("a"));
  EXPECT_THAT(Error(text, text), HasSubstr("real type"));
}

TEST_F(GradientsTest, VariableGradientsCoverAllReads) {
  for (bool reference : {false, true}) {
    const Var v(2.0, "v", {.reference = reference});
    RunNode(v.initializer());
    const Output y = v * v + Output(v) * 5;
    EXPECT_THAT(Values<float>(Grad(y, v)), ElementsAre(9));
  }
}

TEST_F(GradientsTest, AreNamedAfterTheirOps) {
  const Output x = Constant(2.0f);
  const Output y = ops::Tanh(x, {.name = "deep"});
  EXPECT_EQ(Grad(y, x).node->name().rfind("gradients/deep_grad/", 0), 0u);
  EXPECT_EQ(Grad(y, x, {.name = "again"}).node->name().rfind("again/", 0), 0u);
}

TEST_F(GradientsTest, ColocateWithForwardOpsOnRequest) {
  const Output x = Constant(2.0f);
  const Output y = ops::Tanh(x, {.name = "deep"});
  const auto* groups = [&](Output g) {
    const AttrValue* a = g.node->FindAttr("_class");
    return a == nullptr ? nullptr : a->get<AttrValue::Strings>();
  }(Grad(y, x, {.colocate = true}));
  ASSERT_NE(groups, nullptr);
  EXPECT_THAT(*groups, ElementsAre("loc:@deep"));
  EXPECT_EQ(Grad(y, x).node->FindAttr("_class"), nullptr);
}

TEST_F(GradientsTest, GatingDoesNotChangeValues) {
  const Output x = Constant(2.0f), z = Constant(5.0f);
  const std::vector<Output> g =
      Grad({x * z}, std::vector<GradTarget>{x, z}, {.gate_ops = true});
  EXPECT_THAT(Values<float>(g[0]), ElementsAre(5));
  EXPECT_EQ(g[0].node->control_inputs().size(), 1u);  // And it has an input.
}

// ---- Errors -----------------------------------------------------------------

TEST_F(GradientsTest, MissingGradientErrorNamesOpLineAndPath) {
  const Output x = Placeholder<float>({2}, "x");
  const Output a = ops::Tanh(x, {.name = "a"});
  Node* bad = BuildNode("NoSuchGradientOp", {a}, {}, "bad", CallerLoc());
  const int line = __LINE__ - 1;
  ASSERT_NE(bad, nullptr) << graph_.status();
  const std::string error = Error(ops::Tanh(Output(bad), {.name = "top"}), x);
  EXPECT_THAT(error, HasSubstr("'bad' (NoSuchGradientOp)"));
  EXPECT_THAT(error, HasSubstr(Here(line, __FILE__)));
  EXPECT_THAT(error, HasSubstr("top <- bad <- a <- x"));
}

TEST_F(GradientsTest, FlatOpsPassNoneAndUndifferentiableOpsFail) {
  const Output x = Constant(Tensor::Vector<float>({1.5f, 2}));
  EXPECT_THAT(Values<float>(Grad(ops::Floor(x) + x, x)), ElementsAre(1, 1));
  EXPECT_THAT(Error(ops::Unique(x).y, x), HasSubstr("(Unique)"));
}

TEST_F(GradientsTest, ErrorNamesMergeOutsideConditionals) {
  const Output x = Placeholder<float>({}, "x");
  const auto [no, yes] = ops::Switch(x, Placeholder<bool>());
  const auto [other_no, other_yes] = ops::Switch(x, Placeholder<bool>());
  const Output y = ops::Merge({no * 2, other_yes}).output;
  const Status s = Gradients({y}, {x}).status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()), HasSubstr("(Merge)"));
}

TEST_F(GradientsTest, RejectNullAndForeignArguments) {
  const Output x = Constant(1.0f);
  EXPECT_THAT(Error(Output(), x), HasSubstr("ys[0]: expected an output"));
  EXPECT_THAT(Error(x, Output()), HasSubstr("xs[0]: expected an output"));
  Graph other;
  Output foreign;
  {
    const WithGraph there(other);
    foreign = Constant(1.0f);
  }
  EXPECT_THAT(Error(x, foreign), HasSubstr("of another"));
}

TEST_F(GradientsTest, GradientFunctionErrorsNameTheNode) {
  ASSERT_TRUE(RegisterGradient("GradientsTest.Wrong", [](GradContext& c) {
                c.grads[0] = Constant(Tensor::Vector<float>({1, 2, 3}));
                return OkStatus();
              }).ok());
  const Output x = Constant(Tensor::Vector<float>({1, 2}));
  Output y;
  {
    const GradientOverride use("Tanh", "GradientsTest.Wrong");
    y = ops::Tanh(x, {.name = "odd"});
  }
  const std::string error = Error(y, x);
  EXPECT_THAT(error, HasSubstr("'odd' (Tanh)"));
  EXPECT_THAT(error, HasSubstr("[3]"));
}

// ---- User-defined gradients -------------------------------------------------

TEST_F(GradientsTest, OverrideScopeReplacesGradientFunction) {
  ASSERT_TRUE(RegisterGradient("GradientsTest.Half", [](GradContext& c) {
                c.grads[0] = c.dy[0] * 0.5f;
                return OkStatus();
              }).ok());
  const Output x = Constant(2.0f);
  Output y;
  {
    const GradientOverride use("Identity", "GradientsTest.Half");
    y = ops::Identity(x);
  }
  EXPECT_THAT(Values<float>(Grad(y + ops::Identity(x), x)), ElementsAre(1.5f));
}

TEST_F(GradientsTest, UserMayRegisterMissingGradient) {
  const Output x = Constant(Tensor::Vector<float>({3, 1, 3}));
  const Output y = ops::Unique(x).y;
  EXPECT_THAT(Error(y, x), HasSubstr("expected an op that has one"));
  ASSERT_TRUE(RegisterGradient("Unique", [](GradContext& c) {
                c.grads[0] = ops::Gather(c.dy[0], c.output(1));
                return OkStatus();
              }).ok());
  EXPECT_THAT(Values<float>(Grad(y, x)), ElementsAre(1, 1, 1));
}

TEST_F(GradientsTest, NamesCanBeRegisteredOnce) {
  const UserGradient none = [](GradContext&) { return OkStatus(); };
  EXPECT_EQ(RegisterGradient("Tanh", none).code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(RegisterGradient("GradientsTest.Once", none).ok());
  EXPECT_EQ(RegisterGradient("GradientsTest.Once", none).code(),
            StatusCode::kAlreadyExists);
  EXPECT_FALSE(RegisterGradient("GradientsTest.Null", nullptr).ok());
}

// ---- Missing gradients ------------------------------------------------------

SLUICE_OP(GradientsTestRounded)
    .Input("x: float")
    .Output("y: float")
    .Shape(UnchangedShape)
    .NoGradient("rounding has no slope");

// The message when a missing gradient is fetched.
class NoneGradientsTest : public GradientsTest {
 protected:
  std::string Fetch(Output gradient) {
    EXPECT_EQ(gradient.node, nullptr);
    const Status s = session_.Run(gradient).status();
    EXPECT_FALSE(s.ok());
    return std::string(s.message());
  }
  const Output x_ = ops::Placeholder(DType::kFloat, {.name = "x"});
};

TEST_F(NoneGradientsTest, ErrorGivesReasonOfDecliningOp) {
  const int line = __LINE__ + 1;
  const Output y = Build("GradientsTestRounded", {x_ * 2}, {}, "rounded") + 1;
  const std::string want =
      "no gradient flows to 'x:0': rounding has no slope; node 'rounded' "
      "(GradientsTestRounded) at ";
  EXPECT_THAT(Fetch(Grad(y, x_)), HasSubstr(want));
  EXPECT_THAT(Fetch(Grad(y, x_)), HasSubstr(Here(line, __FILE__)));
  // The same for nodes built on it, and for an optimizer without other
  // gradients.
  Build("Neg", {Grad(y, x_)});
  EXPECT_THAT(std::string(graph_.status().message()), HasSubstr(want));
}

TEST_F(NoneGradientsTest, OptimizerErrorGivesReason) {
  const Var v(1.0f, "v");
  const Output loss = Build("GradientsTestRounded", {v}, {}, "rounded");
  GradientDescentOptimizer(0.1f).Minimize(loss);
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("no gradient flows to 'v:0': rounding has no slope; "
                        "node 'rounded' (GradientsTestRounded)"));
}

TEST_F(NoneGradientsTest, ErrorNamesBlockingNode) {
  const auto cast = [](Output x, DType t, const char* name) {
    return ops::Cast(x, t, {.name = name});
  };
  const Output whole = cast(x_, DType::kInt32, "whole");
  EXPECT_THAT(Fetch(Grad(cast(whole, DType::kFloat, "back") * 2, x_)),
              HasSubstr("'whole:0' is int32, and gradients are of floating "
                        "types; node 'back' (Cast)"));
  const Output above = ops::Greater(x_, Output(Constant(0.0f)), {.name = "up"});
  EXPECT_THAT(
      Fetch(Grad(ops::SelectV2(above, Output(Constant(1.0f)),
                               Output(Constant(2.0f)), {.name = "choice"}),
                 x_)),
      HasSubstr("; node 'up' (Greater)"));
  EXPECT_THAT(Fetch(Grad(ops::StopGradient(x_, {.name = "end"}) + 1, x_)),
              HasSubstr("; node 'end' (StopGradient)"));
  const Output h = ops::Neg(x_, {.name = "h"});
  EXPECT_THAT(Fetch(Grad(h * 2, x_, {.stop_gradients = {h}})),
              HasSubstr("it is one of stop_gradients; node 'h' (Neg)"));
  const Output n = Placeholder<int32_t>({}, "n");
  EXPECT_THAT(Fetch(Grad(cast(n, DType::kFloat, "of_n"), n)),
              HasSubstr("'n:0' is int32"));
  EXPECT_THAT(Fetch(Grad(x_, h)),
              HasSubstr("no gradient flows to 'h:0': no y depends on it"));
}

TEST_F(NoneGradientsTest, ErrorNamesGradientFunctionThatReturnedNone) {
  ASSERT_TRUE(RegisterGradient("NoneGradientsTest.Nothing", [](GradContext&) {
                return OkStatus();
              }).ok());
  Output y;
  {
    const GradientOverride use("Tanh", "NoneGradientsTest.Nothing");
    y = ops::Tanh(x_ * 2, {.name = "odd"});
  }
  EXPECT_THAT(Fetch(Grad(y, x_)),
              HasSubstr("its gradient function returns none for its input "
                        "'Mul:0'; node 'odd' (Tanh)"));
}

TEST_F(NoneGradientsTest, ErrorNamesBlockingNodeInLoop) {
  const Output y = While(
      x_ * 2, [](Output v) { return v < 100; },
      [](Output v) { return Build("GradientsTestRounded", {v + v}); });
  const Output z = Build("GradientsTestRounded", {y}, {}, "last");
  EXPECT_THAT(Fetch(Grad(z, x_)),
              HasSubstr("rounding has no slope; node 'last'"));
  WhileOptions options;
  options.back_prop = false;
  const Output w = While(
      x_, [](Output v) { return v < 100; }, [](Output v) { return v + v; },
      options);
  EXPECT_THAT(Fetch(Grad(w, x_)), HasSubstr("has back_prop off; node "));
}

TEST_F(NoneGradientsTest, SecondOrderErrorNamesBlockingNode) {
  const Output dy = Grad(x_ * 3, x_);
  EXPECT_THAT(Fetch(Grad(dy, x_)),
              HasSubstr("a shape does not depend on the elements; node "
                        "'gradients/Mul_grad/Shape' (Shape)"));
}

// ---- Functions that misbehave -----------------------------------------------

class WrongGradientsTest : public GradientsTest {
 protected:
  // The error for this gradient of node 'odd'.
  std::string Told(const UserGradient& fn) {
    static int number = 0;
    const std::string name = absl::StrCat("WrongGradientsTest.", ++number);
    EXPECT_TRUE(RegisterGradient(name, fn).ok());
    const Output x = Placeholder<float>({2});
    const GradientOverride use("Mul", name);
    const std::string error =
        Error(ops::Mul(x, x, {.name = absl::StrCat("odd", number)}), x);
    EXPECT_THAT(error, HasSubstr(absl::StrCat("gradient of node 'odd", number,
                                              "' (Mul) at ")));
    return error;
  }
};

TEST_F(WrongGradientsTest, ErrorNamesTheNode) {
  EXPECT_THAT(Told([](GradContext&) { return InvalidArgument("not today"); }),
              HasSubstr("not today"));
  EXPECT_THAT(Told([](GradContext& c) {
                c.grads = {c.dy[0]};
                return OkStatus();
              }),
              HasSubstr("expected 2 gradients, got 1"));
  EXPECT_THAT(Told([](GradContext& c) {
                c.grads[0] = ops::Cast(c.dy[0], DType::kInt32);
                return OkStatus();
              }),
              HasSubstr("expected float for input Placeholder_2:0, got int32"));
  EXPECT_THAT(Told([](GradContext& c) {
                c.grads[1] = Constant(Tensor::Vector<float>({1, 2, 3}));
                return OkStatus();
              }),
              HasSubstr("expected shape [2] for input Placeholder_3:0, got "
                        "[3]; node 'gradients_"));
  Graph other;
  EXPECT_THAT(Told([&](GradContext& c) {
                const WithGraph use(other);
                c.grads[0] = Placeholder<float>({2});
                return OkStatus();
              }),
              HasSubstr("expected an output of the same graph"));
  EXPECT_THAT(Told([](GradContext& c) {
                c.grads[0] = Output(c.dy[0].node, 7);
                return OkStatus();
              }),
              HasSubstr("expected one of 1 outputs"));
  EXPECT_THAT(Told([](GradContext& c) {
                c.grads[0] = Gradient::Slices(Output(), c.dy[0], Output());
                return OkStatus();
              }),
              HasSubstr("expected slices with indices of int32 or int64"));
  EXPECT_THAT(Told([](GradContext&) -> Status {
                throw std::runtime_error("thrown here");
              }),
              HasSubstr("gradient: expected no exception, got 'thrown here'"));
}

TEST_F(WrongGradientsTest, ErrorNamesUnregisteredOverride) {
  const Output x = Placeholder<float>({2});
  const GradientOverride use("Tanh", "WrongGradientsTest.Misspelt");
  EXPECT_THAT(Error(ops::Tanh(x, {.name = "odd"}), x),
              HasSubstr("got none for node 'odd' (Tanh) at "));
  EXPECT_THAT(Error(ops::Tanh(x), x),
              HasSubstr("gradient 'WrongGradientsTest.Misspelt': expected a "
                        "registered function"));
}

// ---- Sparse -----------------------------------------------------------------

class SparseGradientsTest : public GradientsTest {
 protected:
  SparseGradientsTest()
      : table_(Constant(
                   Tensor::Of<float>(Shape({4, 2}), {1, 2, 3, 4, 5, 6, 7, 8})),
               "table") {
    Initialize();
  }
  Output Rows(std::initializer_list<int32_t> rows) {
    return ops::GatherV2(table_, Constant(Tensor::Vector<int32_t>(rows)), 0);
  }
  Var table_;
};

TEST_F(SparseGradientsTest, StaySparseThroughReads) {
  const Gradient g = One(Rows({3, 0, 3}) * 2, table_);
  ASSERT_TRUE(g.is_sparse());
  EXPECT_THAT(Values<int32_t>(g.indices), ElementsAre(3, 0, 3));
  EXPECT_THAT(Values<float>(g.values), Each(2));
  EXPECT_THAT(Values<float>(Densify(g, table_.handle())),
              ElementsAre(2, 2, 0, 0, 0, 0, 4, 4));
}

TEST_F(SparseGradientsTest, AreConcatenatedWhenAdded) {
  const Gradient g = One(
      ops::Sum(Rows({1}), {0, 1}) + ops::Sum(Rows({1, 2}) * 3, {0, 1}), table_);
  ASSERT_TRUE(g.is_sparse());
  EXPECT_THAT(Values<float>(Densify(g, table_.handle())),
              ElementsAre(0, 0, 4, 4, 3, 3, 0, 0));
}

TEST_F(SparseGradientsTest, AreAddedToDenseOnes) {
  const Gradient g = One(
      ops::Sum(Rows({0}), {0, 1}) + ops::Sum(table_ * 1.0f, {0, 1}), table_);
  EXPECT_FALSE(g.is_sparse());
  EXPECT_THAT(Values<float>(g.dense), ElementsAre(2, 2, 1, 1, 1, 1, 1, 1));
}

TEST_F(SparseGradientsTest, BecomeDenseForOpsThatNeedIt) {
  const Output scaled = ops::Tanh(table_);
  const Output y =
      ops::GatherV2(scaled, Constant(Tensor::Vector<int32_t>({1, 1})), 0);
  const Gradient g = One(y, table_);
  EXPECT_FALSE(g.is_sparse());
  const std::vector<float> d = Values<float>(g.dense);
  // 1 - tanh^2 loses most of its digits here.
  EXPECT_NEAR(d[2], 2 * (1 - std::tanh(3.0) * std::tanh(3.0)), 1e-6);
  EXPECT_EQ(d[0], 0);
}

TEST_F(SparseGradientsTest, CannotBecomeDenseWithoutShape) {
  const Gradient g =
      Gradient::Slices(Constant(Tensor::Vector<int32_t>({0})),
                       Constant(Tensor::Vector<float>({1})), Output());
  EXPECT_FALSE(Densify(g).valid());
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("sparse gradient"));
}

// ---- Against finite differences ---------------------------------------------

// A random acyclic graph of doubles; every tensor is [2,3].
class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) {
      xs.push_back(Placeholder<double>({2, 3}));
      pool_.push_back(xs.back());
    }
    const int ops = 5 + Below(15);
    for (int i = 0; i < ops; ++i) pool_.push_back(Next());
    std::vector<Output> terms = {pool_.back()};
    for (const Output& x : pool_)
      if (Below(3) == 0) terms.push_back(x);
    y = ops::Sum(ops::AddN(terms), {0, 1});
  }
  int Below(int n) {
    return static_cast<int>(random_() % static_cast<uint32_t>(n));
  }
  double Value() { return std::uniform_real_distribution<>(-1, 1)(random_); }

  std::vector<Output> xs;
  Output y;

 private:
  Output Any() {
    return pool_[static_cast<size_t>(Below(static_cast<int>(pool_.size())))];
  }
  Output Next() {
    const Output a = Any(), b = Any();
    switch (Below(14)) {
      case 0:
        return a + b;
      case 1:
        return a - b * 0.5;
      case 2:
        return ops::Tanh(a * b);
      case 3:
        return ops::Sigmoid(a);
      case 4:
        return ops::Tanh(
            ops::MatMul(ops::MatMul(a, b, {.transpose_b = true}), Any()));
      case 5:
        return a + ops::Mean(b, 0, {.keep_dims = true});
      case 6:
        return ops::Tanh(ops::Reshape(ops::Reshape(a, {3, 2}), {2, 3}));
      case 7:
        return ops::Slice(ops::ConcatV2({a, b}, 0), {1, 0}, {2, 3});
      case 8:
        return ops::Maximum(a, b);
      case 9:
        return a / (2 + ops::Square(b));
      case 10:
        return ops::Sqrt(1 + ops::Square(a));
      case 11:
        return ops::Transpose(ops::Transpose(ops::Sin(a), {1, 0}), {1, 0});
      case 12:
        return ops::SelectV2(a < b, a, -b);
      default:
        return -a * 0.7;
    }
  }
  std::mt19937 random_;
  std::vector<Output> pool_;
};

// Central differences of the scalar y by every element of every x.
void ExpectDerivatives(Session& session, Output y,
                       const std::vector<Output>& xs,
                       const std::vector<Output>& gradients,
                       std::vector<Tensor> at) {
  const Result<Session::Callable> value = session.MakeCallable(xs, {y});
  ASSERT_TRUE(value.ok()) << value.status();
  const Result<Session::Callable> slope = session.MakeCallable(xs, gradients);
  ASSERT_TRUE(slope.ok()) << slope.status();
  const Result<std::vector<Tensor>> got = slope->Run(at);
  ASSERT_TRUE(got.ok()) << got.status();
  constexpr double kStep = 1e-5;
  for (size_t x = 0; x < xs.size(); ++x) {
    for (size_t i = 0; i < 6; ++i) {
      double y_at[2];
      for (int side : {0, 1}) {
        std::vector<Tensor> moved = at;
        moved[x] = *at[x].Clone();
        moved[x].flat<double>()[i] += side == 0 ? -kStep : kStep;
        const auto result = value->Run(moved);
        ASSERT_TRUE(result.ok()) << result.status();
        y_at[side] = (*result)[0].scalar<double>();
      }
      const double expected = (y_at[1] - y_at[0]) / (2 * kStep);
      EXPECT_NEAR((*got)[x].flat<double>()[i], expected,
                  1e-5 * (1 + std::abs(expected)))
          << "x " << x << " element " << i;
    }
  }
}

TEST(RandomGraphGradientsTest, AgreeWithFiniteDifferences) {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const uint32_t first = given != nullptr ? std::stoul(given) : 1;
  for (uint32_t seed = first; seed < first + 25; ++seed) {
    SCOPED_TRACE("SLUICE_TEST_SEED=" + std::to_string(seed));
    Graph graph;
    const WithGraph use(graph);
    Session session(graph);
    RandomGraph g(seed);
    std::vector<Tensor> at;
    for (size_t i = 0; i < g.xs.size(); ++i) {
      at.push_back(Tensor(DType::kDouble, Shape({2, 3})));
      for (double& v : at.back().flat<double>()) v = g.Value();
    }
    const GradientOptions zero = {.unconnected = Unconnected::kZero};
    const std::vector<GradTarget> xs(g.xs.begin(), g.xs.end());
    const std::vector<Output> dy = Grad({g.y}, xs, zero);
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    ExpectDerivatives(session, g.y, g.xs, dy, at);
    // A function of the gradients, weighted so that no symmetry hides a
    // mistake.
    const Output weights = Constant(
        Tensor::Of<double>(Shape({2, 3}), {0.3, -0.5, 0.9, 0.1, 0.7, -1.1}));
    std::vector<Output> terms;
    for (const Output& d : dy) terms.push_back(ops::Sum(d * weights, {0, 1}));
    const Output z = ops::AddN(terms);
    const std::vector<Output> dz = Grad({z}, xs, zero);
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    ExpectDerivatives(session, z, g.xs, dz, at);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST_F(GradientsTest, TimeIsLinearInChainLength) {
  const auto chain = [](const Output& x, int length) {
    Output y = x;
    for (int i = 0; i < length; ++i) y = y + x;
    return y;
  };
  const Output x = Placeholder<float>(PartialShape::Scalar());
  EXPECT_THAT(
      Values<float>(Grad(chain(x, 300), x), {{x, Tensor::Scalar(1.0f)}}),
      ElementsAre(301));
  // The number of added nodes does not grow faster than that of existing ones.
  const int before = graph_.num_nodes();
  const Output g = Grad(chain(x, 10000), x);
  ASSERT_TRUE(g.valid()) << graph_.status();
  EXPECT_EQ(g.node->num_inputs(), 10001);
  EXPECT_LT(graph_.num_nodes() - before, 3 * 10001);
}

}  // namespace
}  // namespace sluice

// An op without a gradient that does not declare that it has none.
SLUICE_OP(NoSuchGradientOp)
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .Shape(sluice::UnchangedShape)
    .Doc("Test only.");
