// Chains of elementwise nodes give, block by block, the same bits as the
// separate nodes, and the same errors and tokens.
#include "exec/fusion/chains.h"

#include <cmath>
#include <limits>

#include "base/sanitizers.h"
#include "client/autodiff/gradients.h"
#include "client/control/control_flow.h"
#include "client/operators.h"
#include "session/testing/fusion_test_util.h"
#include "sluice/ops.h"

// (A separate namespace keeps the using-directive out of other files of a unity
// build.)
namespace sluice::chains_test {
namespace {

using namespace ops;  // NOLINT: a program of the graph reads like one.
using sluice::Shape;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ChainsTest : public FusionTest {
 protected:
  Output Floats(PartialShape shape) { return Feed(DType::kFloat, shape); }
  template <typename C>
  const auto& Pick(const C& from) {
    return from[random_() % from.size()];
  }
  int Below(int n) {
    return static_cast<int>(random_() % static_cast<uint32_t>(n));
  }
};

TEST_F(ChainsTest, LargeChainIsOneNodeWithExactResults) {
  const Output x = Floats({-1});
  const Output y =
      0.5f * x * (1.f + Tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
  for (const int64_t n : {1, 7, 1000, 8191, 8192, 8193, 100'003, 1'000'000}) {
    SCOPED_TRACE(n);
    Both({{x, Random({n})}}, {y});
  }
  EXPECT_THAT(Nodes({{x, Random({1000})}}, {y}),
              AllOf(HasSubstr("Tanh-"), HasSubstr("(_Chain)"),
                    Not(HasSubstr("(Tanh)")), Not(HasSubstr("(Mul)"))));
  EXPECT_THAT(Nodes({{x, Random({1000})}}, {y}, Off()), HasSubstr("(Tanh)"));
  Both({{x, Random({0})}}, {y});
}

TEST_F(ChainsTest, StepInputsAreUnchanged) {
  const Output x = Floats({-1});
  const Output y = Exp(x + 1.f) * 2.f;
  const Tensor fed = Random({50'000});
  const Tensor copy = *fed.Clone();
  Both({{x, fed}}, {y});
  EXPECT_TRUE(fed.Identical(copy));
  Both({{x, fed}}, {y, x});
}

TEST_F(ChainsTest, BroadcastsRowsColumnsAndPlanes) {
  const PartialShape any = PartialShape::Unknown();
  const Output x = Floats(any), v = Floats(any);
  const Output y = Sqrt(Abs(x * v - v)) + 1.f;
  struct Case {
    Shape x, v;
  };
  const std::vector<Case> cases = {{{100, 300}, {300}},
                                   {{100, 300}, {1, 300}},
                                   {{100, 300}, {100, 1}},
                                   {{4, 5, 6, 700}, {5, 1, 1}},
                                   {{4, 5, 600}, {4, 1, 1}},
                                   {{4, 5, 600}, {5, 600}},
                                   {{3, 9000}, {9000}},
                                   {{9000, 3}, {9000, 1}},
                                   {{4, 50, 60}, {4, 1, 60}},
                                   {{20'000}, {}},
                                   {{20'000}, {1}},
                                   {{1, 20'000}, {20'000}},
                                   {{20'000}, {1, 20'000}},
                                   {{300}, {100, 300}},
                                   {{100, 1}, {1, 300}},
                                   {{}, {}},
                                   {{1}, {}},
                                   {{1, 1}, {1}},
                                   {{2, 1, 30'000}, {30'000}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.x.ToString() + " " + c.v.ToString());
    Both({{x, Random(c.x)}, {v, Random(c.v)}}, {y});
  }
}

// Random chains over all types that there are, some of whose inner values are
// fetched, fed or read twice.
TEST_F(ChainsTest, RandomChainsGiveEqualBits) {
  const std::vector<const char*> unary = {
      "Neg",     "Square", "Abs",      "Relu",      "Exp",  "Tanh",
      "Sigmoid", "Erf",    "Softplus", "LeakyRelu", "Sign", "Identity"};
  const std::vector<const char*> binary = {
      "AddV2", "Sub", "Mul",      "Maximum",  "Minimum",  "RealDiv",
      "Pow",   "Mod", "ReluGrad", "TanhGrad", "BiasAdd2", "AddN"};
  const std::vector<const char*> integer = {"AddV2", "Sub", "Mul", "Maximum",
                                            "FloorDiv"};
  for (int seed = 0; seed < 120; seed += kSanitized ? 5 : 1) {
    SCOPED_TRACE(seed);
    random_.seed(static_cast<uint32_t>(seed));
    Graph graph;
    WithGraph use(graph);
    const int64_t rows = 1 + Below(60), columns = 1 + Below(900);
    const bool known = Below(2) == 0;
    const auto feed = [&](DType t, const Shape& s) {
      return Feed(t, known ? PartialShape(s) : PartialShape::Unknown());
    };
    Feeds feeds;
    std::vector<Output> floats, ints;
    const std::vector<Shape> shapes = {Shape({rows, columns}), Shape({columns}),
                                       Shape({rows, 1}), Shape({}),
                                       Shape({rows, columns})};
    for (const Shape& s : shapes) {
      for (const DType t : {DType::kFloat, DType::kInt32}) {
        (t == DType::kFloat ? floats : ints).push_back(feed(t, s));
        feeds.emplace_back((t == DType::kFloat ? floats : ints).back(),
                           Random(s, t));
      }
    }
    const Output whole = floats[0];
    const int length = 2 + Below(25);
    for (int i = 0; i < length; ++i) {
      const Output a = Pick(floats), b = Pick(floats);
      switch (Below(8)) {
        case 0:
        case 1:
          floats.push_back(Build(Pick(unary), {a}));
          break;
        case 2:
          floats.push_back(
              Build("Cast", {Pick(ints)}, {{"DstT", DType::kFloat}}));
          break;
        case 3:
          ints.push_back(Build(Pick(integer), {Pick(ints), Pick(ints)}));
          break;
        case 4:
          floats.push_back(
              Build("SelectV2", {Build("Less", {a, b}), b, whole}));
          break;
        default: {
          const std::string op = Pick(binary);
          if (op == "BiasAdd2")
            floats.push_back(Build("BiasAdd", {whole + a, floats[1]}));
          else if (op == "AddN")
            floats.push_back(Build("AddN", {whole + a, whole * b, whole - b}));
          else if (op.ends_with("Grad"))
            floats.push_back(Build(op.c_str(), {whole + a, whole - b}));
          else
            floats.push_back(Build(op.c_str(), {a, b}));
        }
      }
    }
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    std::vector<Output> fetches = {floats.back(), ints.back()};
    for (int i = Below(4); i > 0; --i) fetches.push_back(Pick(floats));
    if (Below(3) == 0) {  // An inner edge is fed.
      const Output inner = floats[floats.size() - 2];
      if (inner.node->op_name() != "Placeholder")
        feeds.emplace_back(inner, Random({rows, columns}));
    }
    Session plain(graph, Off()), session(graph);
    const auto want = plain.Run(feeds, fetches);
    const auto got = session.Run(feeds, fetches);
    ASSERT_EQ(got.status().message(), want.status().message());
    if (!want.ok()) continue;
    for (size_t i = 0; i < fetches.size(); ++i)
      EXPECT_TRUE((*got)[i].Identical((*want)[i]))
          << fetches[i].name() << ": " << (*got)[i].ToString() << " for "
          << (*want)[i].ToString();
  }
}

TEST_F(ChainsTest, ErrorsNameNodeAndLine) {
  const PartialShape any = PartialShape::Unknown();
  const Output a = Floats(any), b = Floats(any);
  const Output y = Exp((a * 2.f) + (b * 3.f));
  EXPECT_THAT(BothFail({{a, Random({3, 4})}, {b, Random({5})}}, y),
              AllOf(HasSubstr("(AddV2)"), HasSubstr("chains_test.cc")));
  const Output m = Feed(DType::kInt32, {-1}), n = Feed(DType::kInt32, {-1});
  const Output z = ops::FloorDiv(m + 1, n) * 2;
  Tensor divisors = *Tensor::Zeros(DType::kInt32, {40'000});
  EXPECT_THAT(BothFail({{m, divisors}, {n, divisors}}, z),
              AllOf(HasSubstr("division by zero"), HasSubstr("(FloorDiv)"),
                    HasSubstr("chains_test.cc")));
}

TEST_F(ChainsTest, GradientsOfLargeChainAreEqual) {
  const Output x = Floats({-1, 300}), w = Floats({300});
  const Output y = Tanh(x * w) * Sigmoid(x + w) + Relu(x);
  const auto g = Gradients({y}, {x, w});
  ASSERT_TRUE(g.ok()) << g.status();
  Both({{x, Random({200, 300})}, {w, Random({300})}},
       {y, (*g)[0].dense, (*g)[1].dense});
}

TEST_F(ChainsTest, LoopsAndBranchesMayContainChains) {
  const Output n = Feed(DType::kInt32, PartialShape({}));
  const Output x = Floats({-1}), w = Floats({-1});
  const std::vector<Output> out = While(
      std::vector<Output>{Constant<int32_t>(0), x},
      [&](const std::vector<Output>& v) { return Less(v[0], n); },
      [&](const std::vector<Output>& v) {
        const Output fixed = Exp(w * 0.1f);
        return std::vector<Output>{v[0] + 1, Tanh(v[1] * fixed + w) - fixed};
      },
      {.shape_invariants = {PartialShape({}), PartialShape({-1})}});
  for (const int64_t size : {5, 40'000})
    for (const int steps : {0, 4})
      Both({{n, Tensor::Scalar<int32_t>(steps)},
            {x, Random({size})},
            {w, Random({size})}},
           {out[1]});
  const Output z = Square(x) + 1.f;
  const Output branch = Cond(
      Greater(n, 2), [&] { return Exp(z * 0.1f) * w; },
      [&] { return Sqrt(z) - w; });
  for (const int v : {1, 3})
    Both({{n, Tensor::Scalar<int32_t>(v)},
          {x, Random({30'000})},
          {w, Random({30'000})}},
         {branch, z});
}

// A live value and one that may be dead are not in one chain, unless it has a
// single result.
TEST_F(ChainsTest, DeadValuesAffectNoOtherResults) {
  const Output p = Feed(DType::kBool, PartialShape({})), x = Floats({-1});
  const Output alive = Exp(x) + 1.f;
  const Node* sw = Build("Switch", {x, p}).node;
  const Output maybe = alive * Output(const_cast<Node*>(sw), 1) - 1.f;
  const Output other = Output(const_cast<Node*>(sw), 0);
  const Output merged = Build("Merge", {maybe, other});
  for (const bool v : {true, false})
    Both({{p, Tensor::Scalar<bool>(v)}, {x, Random({20'000})}},
         {alive, merged});
}

TEST_F(ChainsTest, LongChainIsSplit) {
  const Output x = Floats({-1});
  Output y = x, z = x;
  for (int i = 0; i < 200; ++i) {
    const Output next = y * 0.9f + z;
    z = y;
    y = next;
  }
  Both({{x, Random({20'000})}}, {y, z});
}

}  // namespace
}  // namespace sluice::chains_test
