// Gradients of recursive functions: their values against finite differences,
// and their cost, which is linear in the number of calls.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "client/control/functions.h"
#include "client/testing/gradient_test_util.h"
#include "client/variables.h"
#include "graph/graphdef.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Names a gradient that nobody registers.
Output GradientLess(const Output &v) {
  const GradientOverride none("Sin", "no such gradient");
  return ops::Sin(v);
}

class RecursionGradientTest : public GradientTest {
 protected:
  using Args = std::vector<Output>;
  static constexpr DType kD = DType::kDouble;
  static constexpr DType kI = DType::kInt32;

  static Output N() {
    return Placeholder<int32_t>(PartialShape::Scalar(), "n");
  }
  static Tensor Int(int32_t n) { return Tensor::Scalar<int32_t>(n); }

  // f(x, n) = n <= 0 ? x : sin(f(x, n - 1)) * x
  static Function Chain(bool recompute = false) {
    return DefineFunction(
        "chain", {kD, kI}, {kD},
        [](const Function &self, const Args &a) {
          return Cond(
              a[1] <= 0, [&] { return a[0]; },
              [&] {
                return ops::Sin(self({a[0], a[1] - 1})[0]) * a[0];
              });
        },
        {.arg_shapes = {PartialShape::Scalar(), PartialShape::Scalar()},
         .result_shapes = {PartialShape::Scalar()},
         .recompute_in_gradient = recompute});
  }
  // f(x, n) = n < 2 ? x : sin(f(x, n - 1)) * f(x, n - 2)
  static Function Tree() {
    return DefineFunction("tree", {kD, kI}, {kD},
                          [](const Function &self, const Args &a) {
                            return Cond(
                                a[1] < 2, [&] { return a[0]; },
                                [&] {
                                  return ops::Sin(self({a[0], a[1] - 1})[0]) *
                                         self({a[0], a[1] - 2})[0];
                                });
                          },
                          {.result_shapes = {PartialShape::Scalar()}});
  }
  // The number of nodes that a step executes.
  static int64_t NodesRun(const Graph &graph, const Output &y,
                          const Feeds &feeds) {
    Session session(const_cast<Graph &>(graph));
    RunMetadata metadata;
    const auto got = session.Run(feeds, std::vector<Output>{y}, {},
                                 {.trace = true}, &metadata);
    EXPECT_TRUE(got.ok()) << got.status();
    return static_cast<int64_t>(metadata.events.size());
  }
};

// Calls that are not inlined share one gradient, in which integers have none.
TEST_F(RecursionGradientTest, IntegersHaveNone) {
  const Output n = N();
  const Function f = DefineFunction("doubling", {kI}, {kI},
                                    [](const Function &self, const Args &a) {
                                      return Cond(
                                          a[0] > 100, [&] { return a[0]; },
                                          [&] { return self({a[0] * 2})[0]; });
                                    });
  const Output y = f({n})[0];
  EXPECT_FALSE(Grad(y, n).valid());
  const auto got = Gradients({y}, {n}, {.integers = true});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.status().code(), StatusCode::kUnimplemented) << got.status();
  EXPECT_THAT(Grad(n * n, n, {.integers = true}).dtype(), kI);
}

TEST_F(RecursionGradientTest, CostOfChainIsLinearInItsCalls) {
  const Output x = In(), n = N();
  const Output dx = Grad(Chain()({x, n})[0], x);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const auto nodes = [&](int k) {
    return NodesRun(graph_, dx, {{x, Scalar(0.9)}, {n, Int(k)}});
  };
  const int64_t base = nodes(10), twice = nodes(20), more = nodes(110);
  EXPECT_EQ(more - base, 10 * (twice - base));
}

// Another gradient through the call would draw other numbers than it did.
TEST_F(RecursionGradientTest, SecondGradientThroughRandomCallIsAnError) {
  const Function noisy = DefineFunction(
      "noisy", {kD, kI}, {kD}, [](const Function &self, const Args &a) {
        return Cond(
            a[1] <= 0, [&] { return a[0]; },
            [&] {
              const Output u =
                  ops::RandomUniform(Constant(Tensor::Vector<int32_t>({})), kD);
              return self({a[0] * u, a[1] - 1})[0];
            });
      });
  const Output x = In(), n = N();
  const Output y = noisy({x, n})[0], dx = Grad(y, x);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Session session(graph_);
  const auto got = session.Run({{x, Scalar(0.7)}, {n, Int(4)}}, {y, dx});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_NEAR((*got)[0].scalar<double>(), 0.7 * (*got)[1].scalar<double>(),
              1e-12);
  EXPECT_FALSE(Grad(dx, x).valid());
  EXPECT_THAT(graph_.status().ToString(),
              ::testing::HasSubstr("without effects and random numbers"));
}

TEST_F(RecursionGradientTest, ForwardValueIsNotComputedTwice) {
  const Output x = In(), n = N();
  const Output y = Chain()({x, n})[0];
  const Output dx = Grad(y, x);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Session session(graph_);
  RunMetadata metadata;
  const auto got =
      session.Run({{x, Scalar(0.9)}, {n, Int(7)}}, std::vector<Output>{y, dx},
                  {}, {.trace = true}, &metadata);
  ASSERT_TRUE(got.ok()) << got.status();
  int sines = 0;
  for (const TraceEvent &e : metadata.events)
    if (e.op == std::string("Sin")) ++sines;
  EXPECT_EQ(sines, 7);
}

TEST_F(RecursionGradientTest, StepWithoutGradientSavesNothing) {
  const Output x = In(), n = N();
  const Output y = Chain()({x, n})[0];
  const Feeds feeds = {{x, Scalar(0.9)}, {n, Int(20)}};
  const int64_t before = NodesRun(graph_, y, feeds);
  ASSERT_TRUE(Grad(y, x).valid()) << graph_.status();
  // (The call's own node is an identity now.)
  EXPECT_EQ(NodesRun(graph_, y, feeds), before + 1);
}

TEST_F(RecursionGradientTest, RecomputesOnRequest) {
  const Output x = In(), n = N();
  const Output y = Chain(true)({x, n})[0];
  ExpectGradients(y, {{x, Scalar(0.9)}, {n, Int(5)}}, 2);
  const Output dx = Grad(y, x);
  const auto nodes = [&](int k) {
    return NodesRun(graph_, dx, {{x, Scalar(0.9)}, {n, Int(k)}});
  };
  EXPECT_GT(nodes(40) - nodes(30), 2 * (nodes(20) - nodes(10)));
}

TEST_F(RecursionGradientTest, DifferentiatesTreesOfParallelCalls) {
  const Output x = In(), n = N();
  const Output y = Tree()({x, n})[0];
  for (const int k : {0, 1, 2, 7})
    ExpectGradients(y, {{x, Scalar(0.8)}, {n, Int(k)}}, k < 7 ? 3 : 1);
}

TEST_F(RecursionGradientTest, SecondGradientOfOneCallIsRight) {
  const Output x = In(), n = N();
  const Output y = Tree()({x, n})[0];
  const Output both = Grad(y, x) + Grad(ops::Sin(y), x);
  const Feeds feeds = {{x, Scalar(0.8)}, {n, Int(6)}};
  EXPECT_NEAR(Value(both, feeds), Numeric(y + ops::Sin(y), feeds, 0)[0], 1e-6);
}

TEST_F(RecursionGradientTest, DifferentiatesMutualRecursion) {
  const FunctionOptions scalar = {.result_shapes = {PartialShape::Scalar()}};
  const Function even = DeclareFunction("even", {kD, kI}, {kD}, scalar);
  const Function odd = DeclareFunction("odd", {kD, kI}, {kD}, scalar);
  const auto body = [](const Function &next, bool square) {
    return [=](const Args &a) {
      return Cond(
          a[1] <= 0, [&] { return -a[0]; },
          [&] {
            return next({square ? a[0] * a[0] : ops::Cos(a[0]), a[1] - 1})[0] *
                   a[0];
          });
    };
  };
  DefineBody(even, body(odd, true), scalar);
  DefineBody(odd, body(even, false), scalar);
  const Output x = In(), n = N();
  const Output y = even({x, n})[0];
  for (const int k : {0, 1, 5})
    ExpectGradients(y, {{x, Scalar(0.7)}, {n, Int(k)}}, 2);
}

TEST_F(RecursionGradientTest, DifferentiatesUnequalNestedBranches) {
  // The branches save different values, and one branch has two of its own.
  const Function f =
      DefineFunction("f", {kD, kI}, {kD},
                     [](const Function &self, const Args &a) {
                       const Output x = a[0], n = a[1];
                       return Cond(
                           n <= 0, [&] { return x; },
                           [&] {
                             const Output inner = self({x * 0.9, n - 1})[0];
                             return Cond(
                                 ops::Equal(ops::FloorMod(n, 2), 0),
                                 [&] { return ops::Sin(inner) * ops::Exp(x); },
                                 [&] {
                                   return Cond(
                                       x > 0.5, [&] { return inner * inner; },
                                       [&] {
                                         return self({inner, n - 2})[0] + x;
                                       });
                                 });
                           });
                     },
                     {.result_shapes = {PartialShape::Scalar()}});
  const Output x = In(), n = N();
  const Output y = f({x, n})[0];
  for (const int k : {0, 1, 2, 3, 6})
    ExpectGradients(y, {{x, Scalar(0.6)}, {n, Int(k)}}, 2);
}

TEST_F(RecursionGradientTest, DifferentiatesRecursionInLoops) {
  const Function f = Chain();
  const Output x = In(), n = N();
  const Output y = std::get<1>(While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output y) {
        return std::tuple{i + 1, f({y, n + i})[0] * x};
      }));
  ExpectGradients(y, {{x, Scalar(0.9)}, {n, Int(2)}}, 2);
}

TEST_F(RecursionGradientTest, DifferentiatesLoopsOfCallsInRecursion) {
  // The loop of each call calls the function.
  const Function f = DefineFunction(
      "f", {kD, kI}, {kD},
      [](const Function &self, const Args &a) {
        return Cond(
            a[1] <= 0, [&] { return ops::Sin(a[0]); },
            [&] {
              return std::get<1>(While(
                  std::tuple{0, a[0]},
                  [&](Output i, Output) { return i < a[1]; },
                  [&](Output i, Output y) {
                    const Output z = self({y * a[0], a[1] - 1})[0];
                    return std::tuple{i + 1, z + y * 0.5};
                  }));
            });
      },
      {.arg_shapes = {PartialShape::Scalar(), PartialShape::Scalar()},
       .result_shapes = {PartialShape::Scalar()}});
  const Output x = In(), n = N();
  ExpectGradients(f({x, n})[0], {{x, Scalar(0.7)}, {n, Int(3)}}, 1);
}

// What the gradient of a loop needs is the next value of a variable, of which
// the last one is saved when the loop has ended.
TEST_F(RecursionGradientTest, LoopsSaveTheirLastValues) {
  for (const bool in_branch : {false, true}) {
    SCOPED_TRACE(in_branch ? "in a branch" : "outside of branches");
    const auto loop = [](const Output &x) {
      return std::get<1>(While(
          std::tuple{0, x}, [](Output i, Output) { return i < 3; },
          [&](Output i, Output y) {
            return std::tuple{i + 1, ops::Tanh(y * x)};
          }));
    };
    const Function f = DefineFunction(
        in_branch ? "inside" : "outside", {kD, kI}, {kD},
        [&](const Function &self, const Args &a) {
          const Output before = in_branch ? Output() : loop(a[0]);
          return Cond(
              a[1] <= 0, [&] { return in_branch ? a[0] * 1.0 : before; },
              [&] {
                const Output y = in_branch ? loop(a[0]) : before;
                return self({ops::Sin(y), a[1] - 1})[0] * y;
              });
        },
        {.arg_shapes = {PartialShape::Scalar(), PartialShape::Scalar()},
         .result_shapes = {PartialShape::Scalar()}});
    const Output x = In(), n = N();
    ExpectGradients(f({x, n})[0], {{x, Scalar(1.3)}, {n, Int(2)}}, 2);
  }
}

// Nothing but the condition reads the second variable, so the function's body
// has no Switch of it.
TEST_F(RecursionGradientTest, LoopsWithAVariableOnlyOfTheCondition) {
  const Function f = DefineFunction(
      "f", {kD, kI}, {kD},
      [](const Function &self, const Args &a) {
        return Cond(
            a[1] <= 0, [&] { return a[0] * 1.0; },
            [&] {
              const Output y = std::get<2>(While(
                  std::tuple{0, a[0], a[0]},
                  [](Output i, Output limit, Output) {
                    return i < 3 && limit < 100.0;
                  },
                  [&](Output i, Output, Output y) {
                    return std::tuple{i + 1, ops::Sin(a[0] * 2.0),
                                      ops::Sin(y * 3.0)};
                  }));
              return self({ops::Sin(y), a[1] - 1})[0] * y;
            });
      },
      {.arg_shapes = {PartialShape::Scalar(), PartialShape::Scalar()},
       .result_shapes = {PartialShape::Scalar()}});
  const Output x = In(), n = N();
  ExpectGradients(f({x, n})[0], {{x, Scalar(0.7)}, {n, Int(2)}}, 2);
}

TEST_F(RecursionGradientTest, DifferentiatesCapturedVariables) {
  const Var w(Constant(Tensor::Vector<double>({0.5, 1.5, 2.5})), "w");
  Initialize();
  // Sparse gradients: each call reads one row.
  const Function f =
      DefineFunction("f", {kI}, {kD},
                     [&](const Function &self, const Args &a) {
                       return Cond(
                           a[0] <= 0, [&] { return Constant(1.0); },
                           [&] {
                             return ops::Gather(w, ops::FloorMod(a[0], 3)) *
                                    self({a[0] - 1})[0];
                           });
                     },
                     {.result_shapes = {PartialShape::Scalar()}});
  const Output n = N();
  const Output y = f({n})[0];
  const Output dw = Grad(y, w);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  // y = w1 w2 w0 w1 w2.
  const Result<Tensor> got = session_.Run({{n, Int(5)}}, dw);
  ASSERT_TRUE(got.ok()) << got.status();
  const double v0 = 0.5, v1 = 1.5, v2 = 2.5;
  ExpectClose({v1 * v1 * v2 * v2, 2 * v0 * v1 * v2 * v2, 2 * v0 * v1 * v1 * v2},
              *got, 1e-9);
}

TEST_F(RecursionGradientTest, GraphDefsCarryGradientsOfRecursion) {
  const Output x = In(), n = N();
  const Output dx = Grad(Tree()({x, n})[0], x);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const Feeds feeds = {{x, Scalar(0.8)}, {n, Int(6)}};
  const double want = Value(dx, feeds);
  const Result<std::string> bytes = ExportGraphDef(graph_);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  Graph read;
  const Status imported = ImportGraphDef(*bytes, read);
  ASSERT_TRUE(imported.ok()) << imported;
  Session session(read);
  const auto find = [&](const Output &o) { return *read.FindOutput(o.name()); };
  const Result<Tensor> got =
      session.Run({{find(x), Scalar(0.8)}, {find(n), Int(6)}}, find(dx));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_NEAR(got->scalar<double>(), want, 1e-12);
}

// Errors of the gradient's body name the lines of the forward ops.
TEST_F(RecursionGradientTest, ErrorsNameTheClientsLines) {
  const Output x = In(), n = N();
  const auto recursion = [&](const std::string &name, auto op) {
    return DefineFunction(name, {kD, kI}, {kD},
                          [&](const Function &self, const Args &a) {
                            return Cond(
                                a[1] < 1, [&] { return a[0]; },
                                [&] {
                                  return op(self({a[0], a[1] - 1})[0]);
                                });
                          });
  };
  // (The gradient of sqrt at 0 is not finite.)
  const Function checked = recursion("checked", [](const Output &v) {
    return ops::Sqrt(ops::CheckNumerics(v, "checked here"));
  });
  const Output g = Grad(checked({x, n})[0], x);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Session session(graph_);
  const auto run =
      session.Run({{x, Scalar(0)}, {n, Int(3)}}, std::vector<Output>{g});
  EXPECT_THAT(std::string(run.status().message()),
              AllOf(HasSubstr("recursion_gradients_test.cc"),
                    Not(HasSubstr("function_gradients.cc"))));
  // An op without a gradient.
  const Function refused = recursion(
      "refused", [](const Output &v) { return ops::Sqrt(GradientLess(v)); });
  const Output none = Grad(refused({x, n})[0], x);
  const auto missing =
      session.Run({{x, Scalar(1)}, {n, Int(3)}}, std::vector<Output>{none});
  const std::string text(graph_.status().ok() ? missing.status().message()
                                              : graph_.status().message());
  EXPECT_THAT(text, AllOf(HasSubstr("recursion_gradients_test.cc"),
                          Not(HasSubstr("function_gradients.cc"))));
}

TEST_F(RecursionGradientTest, GreatDepthHasGradients) {
  // (Frames of the stack are larger under sanitizers.)
  constexpr int kDepth = kSanitized ? 20'000 : 100'000;
  const Output x = In(), n = N();
  const Output y = Chain()({x, n})[0];
  const Output dx = Grad(y, x);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const Result<Tensor> got =
      session_.Run({{x, Scalar(1.0)}, {n, Int(kDepth)}}, dx);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(std::isfinite(got->scalar<double>()));
  // What was saved is freed without recursion when only it is computed.
  double want = 0, value = 1;  // x = 1: d = cos(f) * d * x + sin(f).
  double d = 1;
  for (int k = 0; k < kDepth; ++k) {
    d = std::cos(value) * d + std::sin(value);
    value = std::sin(value);
  }
  want = d;
  EXPECT_NEAR(got->scalar<double>(), want, 1e-6 * std::fabs(want));
}

// ---- Gradients that are sums over the calls ---------------------------------

// Arrays whose shapes no signature tells, so that their gradients are deferred
// sums (graph/summed_arguments.h).
class SharedArgumentTest : public RecursionGradientTest {
 protected:
  static Tensor Filled(const Shape &shape, double first) {
    Tensor t(DType::kDouble, shape);
    for (double &v : t.flat<double>()) v = std::sin(first++);
    return t;
  }
  // The ops of one kind that a step runs, by the name of the op.
  static int64_t CountRuns(const Graph &graph, const std::vector<Output> &ys,
                           const Feeds &feeds, const std::string &op) {
    Session session(const_cast<Graph &>(graph));
    RunMetadata metadata;
    const auto got = session.Run(feeds, ys, {}, {.trace = true}, &metadata);
    EXPECT_TRUE(got.ok()) << got.status();
    return std::count_if(metadata.events.begin(), metadata.events.end(),
                         [&](const TraceEvent &e) { return e.op == op; });
  }
  // h(n) = n < 1 ? table[0] : tanh(h(n - 1) w + b) + h(n - 2) + table[n % 3]
  static Function Model() {
    return DefineFunction(
        "model", {kI, kD, kD, kD}, {kD},
        [](const Function &self, const Args &a) {
          const Output n = a[0], w = a[1], b = a[2], table = a[3];
          return Cond(
              n < 1,
              [&] { return ops::ExpandDims(ops::GatherV2(table, 0, 0), 0); },
              [&] {
                const Output h = self({n - 1, w, b, table})[0];
                const Output row = ops::ExpandDims(
                    ops::GatherV2(table, ops::FloorMod(n, 3), 0), 0);
                return ops::Tanh(ops::BiasAdd(ops::MatMul(h, w), b)) +
                       self({n - 2, w, b, table})[0] + row;
              });
        },
        {.result_shapes = {PartialShape({1, 2})}});
  }
  const Output n_ = N(), w_ = In({2, 2}, "w"), b_ = In({2}, "b"),
               table_ = In({3, 2}, "table");
  Feeds FeedsFor(int n) const {
    return {{n_, Int(n)},
            {w_, Filled(Shape({2, 2}), 1)},
            {b_, Filled(Shape({2}), 5)},
            {table_, Filled(Shape({3, 2}), 7)}};
  }
  // The sum of four calls, made in a loop.
  Output SumOverLoop() const {
    const Function model = Model();
    return std::get<1>(While(
        std::tuple{0, Constant(0.0)}, [](Output i, Output) { return i < 4; },
        [&](Output i, Output sum) {
          return std::tuple{i + 1,
                            sum + SumOf(model({n_ + i, w_, b_, table_})[0])};
        }));
  }
};

TEST_F(SharedArgumentTest, ProductsBiasesAndTablesAreSummedOnce) {
  const Output y = Model()({n_, w_, b_, table_})[0];
  for (const int n : {0, 1, 4}) ExpectGradients(y, FeedsFor(n), n < 4 ? 2 : 1);
}

TEST_F(SharedArgumentTest, NoArrayOfTheSumsSizeIsMadePerCall) {
  const Output y = SumOf(Model()({n_, w_, b_, table_})[0]);
  const std::vector<Output> gs = Grad({y}, {w_, b_, table_});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const auto runs = [&](int n, const char *op) {
    return CountRuns(graph_, gs, FeedsFor(n), op);
  };
  for (const int n : {3, 6}) {
    EXPECT_EQ(runs(n, "DeferredValue"), 3);
    EXPECT_EQ(runs(n, "BiasAddGrad"), 0);
    EXPECT_EQ(runs(n, "UnsortedSegmentSum"), 0);
    // Those of the gradients of h. (The forward ones add a bias.)
    EXPECT_EQ(runs(n, "MatMul"), runs(n, "DeferredProduct"));
  }
  EXPECT_GT(runs(6, "DeferredProduct"), runs(3, "DeferredProduct"));
}

TEST_F(SharedArgumentTest, LoopsOfCallsSumAfterTheLoop) {
  const Function model = Model();
  const Output y = std::get<1>(While(
      std::tuple{0, Constant(Tensor::Of<double>(Shape({1, 2}), {0.5, -0.5}))},
      [](Output i, Output) { return i < 3; },
      [&](Output i, Output h) {
        const Output called = model({n_ + i, w_, b_, table_})[0];
        return std::tuple{i + 1, h * 0.5 + called * h};
      }));
  ExpectGradients(y, FeedsFor(1), 2);
  const std::vector<Output> gs = Grad({SumOf(y * y)}, {w_, b_, table_});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
}

TEST_F(SharedArgumentTest, OneLoopsSumsAreReadOnce) {
  const Output y = SumOverLoop();
  const std::vector<Output> gs = Grad({y}, {w_, b_, table_});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(CountRuns(graph_, gs, FeedsFor(2), "DeferredValue"), 3);
}

TEST_F(SharedArgumentTest, MutualRecursionMaySwapThem) {
  // even(n, u, v) calls odd(n, v, u), which calls even(n, u, v) on.
  const FunctionOptions none;
  const Function even = DeclareFunction("even", {kI, kD, kD}, {kD}, none);
  const Function odd = DeclareFunction("odd", {kI, kD, kD}, {kD}, none);
  const auto body = [](const Function &next) {
    return [=](const Args &a) {
      return Cond(
          a[0] <= 0, [&] { return ops::MatMul(a[1], a[2]); },
          [&] {
            return ops::Tanh(
                ops::MatMul(next({a[0] - 1, a[2], a[1]})[0], a[1]));
          });
    };
  };
  DefineBody(even, body(odd), none);
  DefineBody(odd, body(even), none);
  const Output v = In({2, 2}, "v");
  const Output y = even({n_, w_, v})[0];
  for (const int n : {0, 1, 3})
    ExpectGradients(y,
                    {{n_, Int(n)},
                     {w_, Filled(Shape({2, 2}), 1)},
                     {v, Filled(Shape({2, 2}), 9)}},
                    n < 3 ? 2 : 1);
}

TEST_F(SharedArgumentTest, ArgumentsThatOneCallChangesAreNotShared) {
  const Function f = DefineFunction(
      "f", {kI, kD}, {kD}, [](const Function &self, const Args &a) {
        return Cond(
            a[0] <= 0, [&] { return a[1]; },
            [&] {
              return ops::Tanh(ops::MatMul(self({a[0] - 1, a[1]})[0], a[1])) +
                     self({a[0] - 2, a[1] * 0.5})[0];
            });
      });
  const Output y = f({n_, w_})[0];
  for (const int n : {0, 3})
    ExpectGradients(y, {{n_, Int(n)}, {w_, Filled(Shape({2, 2}), 1)}}, 2);
  const std::vector<Output> gs =
      Grad(std::vector<Output>{SumOf(y)}, std::vector<GradTarget>{w_});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(
      CountRuns(graph_, gs, {{n_, Int(3)}, {w_, Filled(Shape({2, 2}), 1)}},
                "DeferredValue"),
      0);
}

TEST_F(SharedArgumentTest, ArgumentsThatNothingReadsHaveZeros) {
  // In neither branch; and only in the one that is not taken.
  const Function f = DefineFunction(
      "f", {kI, kD, kD, kD}, {kD}, [](const Function &self, const Args &a) {
        return Cond(
            a[0] <= 0, [&] { return a[1]; },
            [&] {
              return Cond(
                  a[0] > 100, [&] { return ops::Sin(a[3]); },
                  [&] {
                    return ops::Tanh(self({a[0] - 1, a[1], a[2], a[3]})[0]) *
                           2.0;
                  });
            });
      });
  const Output unread = In({2, 3}, "unread"), untaken = In({2, 2}, "untaken");
  const Output y = SumOf(f({n_, w_, unread, untaken})[0]);
  const std::vector<Output> gs =
      Grad({y}, {w_, unread, untaken}, {.unconnected = Unconnected::kZero});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const auto got = session_.Run({{n_, Int(3)},
                                 {w_, Filled(Shape({2, 2}), 1)},
                                 {unread, Filled(Shape({2, 3}), 1)},
                                 {untaken, Filled(Shape({2, 2}), 1)}},
                                gs);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE((*got)[1].Identical(*Tensor::Zeros(kD, Shape({2, 3}))));
  EXPECT_TRUE((*got)[2].Identical(*Tensor::Zeros(kD, Shape({2, 2}))));
}

TEST_F(SharedArgumentTest, BatchedStepsGiveTheSame) {
  const Output y = SumOverLoop();
  const std::vector<Output> gs = Grad({y}, {w_, b_, table_});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const auto want = session_.Run(FeedsFor(3), gs);
  ASSERT_TRUE(want.ok()) << want.status();
  for (const uint64_t seed : {0, 5, 6}) {
    SessionOptions options = Seeded(seed);
    options.batch_frames = true;
    const auto got = Session(graph_, options).Run(FeedsFor(3), gs);
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t i = 0; i < gs.size(); ++i)
      ExpectClose((*want)[i].ToVector<double>(), (*got)[i], 1e-12);
  }
}

TEST_F(SharedArgumentTest, CapturedVariablesAreShared) {
  const Var w(Constant(Filled(Shape({2, 2}), 1)), "w");
  Initialize();
  const Function f =
      DefineFunction("f", {kI}, {kD}, [&](const Function &self, const Args &a) {
        return Cond(
            a[0] <= 0, [&] { return ops::MatMul(w, w); },
            [&] { return ops::Tanh(ops::MatMul(self({a[0] - 1})[0], w)); });
      });
  const Output value = In({2, 2}, "value");
  const Function same = DefineFunction(
      "same", {kI, kD}, {kD}, [](const Function &self, const Args &a) {
        return Cond(
            a[0] <= 0, [&] { return ops::MatMul(a[1], a[1]); },
            [&] {
              return ops::Tanh(ops::MatMul(self({a[0] - 1, a[1]})[0], a[1]));
            });
      });
  const Output dw = Grad(SumOf(f({n_})[0]), w);
  const Output want = Grad(SumOf(same({n_, value})[0]), value);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const Feeds feeds = {{n_, Int(4)}, {value, Filled(Shape({2, 2}), 1)}};
  const auto got = session_.Run(feeds, std::vector<Output>{dw, want});
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectClose((*got)[1].ToVector<double>(), (*got)[0], 1e-12);
}

}  // namespace
}  // namespace sluice
