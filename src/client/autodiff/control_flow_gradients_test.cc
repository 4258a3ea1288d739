// Gradients through conditionals and loops, against finite differences.
#include <random>

#include "client/control/tensor_array.h"
#include "client/testing/gradient_test_util.h"
#include "graph/graphdef.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CondGradientTest : public GradientTest {};
class WhileGradientTest : public GradientTest {};

TEST_F(CondGradientTest, UsesTheTakenBranch) {
  const Output x = In();
  const Output y = Cond(
      x < 1.0, [&] { return x * x * x; }, [&] { return ops::Sin(x); });
  ExpectGradients(y, {{x, Scalar(0.5)}}, 3);
  ExpectGradients(y, {{x, Scalar(1.5)}}, 3);
}

TEST_F(CondGradientTest, IsZeroForInputsOfTheUntakenBranch) {
  const Output x = In(), z = In({2, 3}, "z");
  const Output y = Cond(
      x < 1.0, [&] { return SumOf(z * z) * x; }, [&] { return x * 2.0; });
  const Tensor m =
      Tensor::Of<double>(Shape({2, 3}), {0.1, 0.2, 0.3, 0.4, 0.5, 0.6});
  ExpectGradients(y, {{x, Scalar(0.5)}, {z, m}}, 2);
  ExpectGradients(y, {{x, Scalar(1.5)}, {z, m}}, 2);
}

TEST_F(CondGradientTest, DifferentiatesNestedConditionals) {
  const Output x = In();
  const Output y = Cond(
      x < 1.0,
      [&] {
        const Output h = ops::Exp(x);
        return h * Cond(
                       x < 0.0, [&] { return h * h; }, [&] { return h + x; });
      },
      [&] { return x; });
  for (double v : {-0.5, 0.5, 1.5}) ExpectGradients(y * x, {{x, Scalar(v)}}, 2);
}

TEST_F(CondGradientTest, NestedConditionalMaySharePredicate) {
  const Output x = In();
  const Output small = x < 1.0;
  const Output y = Cond(
      small,
      [&] {
        const Output h = ops::Exp(x) * x;
        const Output inner = Cond(
            small, [&] { return ops::Sin(h) * h; }, [&] { return h; });
        return inner * h + h;
      },
      [&] { return x; });
  for (double v : {0.5, 1.5}) ExpectGradients(y, {{x, Scalar(v)}}, 2);
}

TEST_F(CondGradientTest, SparseReadsHaveKnownShape) {
  const Var kept(Tensor::Of<double>(Shape({4, 2}), {1, 2, 3, 4, 5, 6, 7, 8}),
                 "kept");
  Initialize();
  const Output fed = In({-1, 2}, "fed"), p = Placeholder<bool>({}, "p");
  const auto square = [](const Operand& table, int row) {
    const Output v = ops::Gather(table, {row, 0});
    return SumOf(v * v);
  };
  const Output y = Cond(
      p, [&] { return square(kept, 1) + square(fed, 2); },
      [&] { return square(fed, 1); });
  const Result<std::vector<Gradient>> g = Gradients({y}, {kept, fed});
  ASSERT_TRUE(g.ok()) << g.status();
  const Tensor t = Tensor::Of<double>(Shape({3, 2}), {1, 2, 3, 4, 5, 6});
  for (const bool taken : {true, false}) {
    const Feeds feeds = {{p, Tensor::Scalar(taken)}, {fed, t}};
    EXPECT_THAT(Values<int>((*g)[0].dense_shape, feeds), ElementsAre(4, 2));
    EXPECT_THAT(Values<int>((*g)[1].dense_shape, feeds), ElementsAre(3, 2));
  }
  EXPECT_THAT(Values<double>(Densify((*g)[1], Output()),
                             {{p, Tensor::Scalar(false)}, {fed, t}}),
              ElementsAre(2, 4, 6, 8, 0, 0));
}

TEST_F(WhileGradientTest, DifferentiatesPower) {
  const Output x = In(), n = Placeholder<int>(PartialShape::Scalar(), "n");
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < n; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, a * x};
      });
  for (int count : {0, 1, 5}) {
    SCOPED_TRACE(count);
    ExpectGradients(y, {{x, Scalar(1.1)}, {n, Tensor::Scalar(count)}}, 1);
  }
}

// The factors are collected, and their gradient is one product.
TEST_F(WhileGradientTest, BatchesWeightProductsOfFewRows) {
  const Output w = In({16, 17}, "w"), v = In({17, 16}, "v");
  const Output x = In({1, 16}), n = Placeholder<int>({}, "n");
  const auto layers = [&](Output count, Output first) {
    return std::get<1>(While(
        std::tuple{0, first}, [&](Output i, Output) { return i < count; },
        [&](Output i, Output h) {
          return std::tuple{i + 1,
                            ops::Tanh(ops::MatMul(ops::MatMul(h, w), v))};
        }));
  };
  std::mt19937 random(11);
  const auto some = [&random](const Shape& shape) {
    Tensor t(DType::kDouble, shape);
    for (double& d : t.flat<double>())
      d = static_cast<double>(random() % 200) / 400 - 0.25;
    return t;
  };
  const Feeds weights = {{w, some(Shape({16, 17}))},
                         {v, some(Shape({17, 16}))}};
  const auto fed = [&](int count) {
    Feeds feeds = weights;
    feeds.emplace_back(x, some(Shape({1, 16})));
    feeds.emplace_back(n, Tensor::Scalar(count));
    return feeds;
  };
  const Output y = layers(n, x);
  ExpectGradients(y * y, fed(0));
  ExpectGradients(y * y, fed(3), 2);
  // The loop itself is inside a loop, and runs in some iterations only.
  const Output nested = std::get<1>(While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output h) {
        return std::tuple{i + 1, Cond(
                                     ops::Equal(i, 1), [&] { return h * 0.5; },
                                     [&] { return layers(i + n, h); })};
      }));
  ExpectGradients(nested * nested, fed(1));
  for (const auto& node : graph_.nodes())
    EXPECT_NE(node->op_name(), "MatMulAdd") << node->name();
}

// Weights that multiply a column, twice in each iteration.
TEST_F(WhileGradientTest, BatchesWeightProductsOfColumns) {
  const Output w = In({16, 17}, "w");
  const Output x = In({17, 1}), n = Placeholder<int>({}, "n");
  const Output y = std::get<1>(While(
      std::tuple{0, x}, [&](Output i, Output) { return i < n; },
      [&](Output i, Output h) {
        const Output up = ops::Tanh(ops::MatMul(w, h));
        return std::tuple{i + 1,
                          ops::Tanh(ops::MatMul(w, up, {.transpose_a = true}))};
      }));
  std::mt19937 random(13);
  const auto some = [&random](const Shape& shape) {
    Tensor t(DType::kDouble, shape);
    for (double& d : t.flat<double>())
      d = static_cast<double>(random() % 200) / 400 - 0.25;
    return t;
  };
  for (const int count : {0, 1, 4}) {
    SCOPED_TRACE(count);
    ExpectGradients(y * y,
                    {{w, some(Shape({16, 17}))},
                     {x, some(Shape({17, 1}))},
                     {n, Tensor::Scalar(count)}},
                    count == 1 ? 2 : 1);
  }
  // No loop has a running sum of the weights' shape.
  for (const auto& node : graph_.nodes())
    if (node->op_name() == "Merge") {
      EXPECT_NE(node->output_shape(0).ToString(), "[16,17]") << node->name();
    }
}

TEST_F(WhileGradientTest, ComputesHigherOrders) {
  const Output x = In();
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 4; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, ops::Sin(a) * x};
      });
  ExpectGradients(y, {{x, Scalar(1.1)}}, 3, 1e-4);
}

TEST_F(WhileGradientTest, DifferentiatesCapturedMatrixWeight) {
  const Output x = In({1, 3}), w = In({3, 3}, "w");
  const auto [i, h] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 4; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, ops::Tanh(ops::MatMul(a, w))};
      });
  const Feeds feeds = {
      {x, Tensor::Of<double>(Shape({1, 3}), {0.1, -0.2, 0.3})},
      {w, Tensor::Of<double>(Shape({3, 3}),
                             {0.5, -0.1, 0.2, 0.7, 0.3, 0.1, -0.4, 0.2, 0.6})}};
  ExpectGradients(h, feeds, 3, 1e-4);
}

TEST_F(WhileGradientTest, BodyMayHoldConditional) {
  const Output x = In();
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 5; },
      [&](Output i, Output a) {
        const Output b = ops::Sin(a);
        const Output next = Cond(
            ops::Equal(i % 2, 0), [&] { return b * a * x; },
            [&] { return ops::Exp(-b) + a; });
        return std::tuple{i + 1, next};
      });
  ExpectGradients(y, {{x, Scalar(0.7)}}, 3, 1e-4);
}

TEST_F(WhileGradientTest, BodyMayHoldDataDependentConditional) {
  const Output x = In();
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 6; },
      [&](Output i, Output a) {
        const Output next = Cond(
            a < 1.0, [&] { return a * 2.0 + ops::Cos(a); },
            [&] { return a * 0.3 * x; });
        return std::tuple{i + 1, next};
      });
  ExpectGradients(y, {{x, Scalar(0.7)}}, 2, 1e-4);
}

TEST_F(WhileGradientTest, DifferentiatesNestedLoops) {
  const Output x = In(), w = In(PartialShape::Scalar(), "w");
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        const Output c = ops::Sin(a);
        const auto [j, b] = While(
            std::tuple{0, a}, [&](Output j, Output) { return j <= i; },
            [&](Output j, Output b) {
              return std::tuple{j + 1, b * w + ops::Cos(b) * c};
            });
        return std::tuple{i + 1, b * 0.5 + a};
      });
  ExpectGradients(y, {{x, Scalar(0.7)}, {w, Scalar(0.9)}}, 3, 1e-4);
}

TEST_F(WhileGradientTest, DifferentiatesThreeNestedLoopsWithConditionals) {
  const Output x = In(), w = In(PartialShape::Scalar(), "w");
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        return std::tuple{
            i + 1, Cond(
                       ops::Equal(i, 1), [&] { return a * w; },
                       [&] {
                         const auto [j, b] = While(
                             std::tuple{0, a},
                             [&](Output j, Output) { return j < 2; },
                             [&](Output j, Output b) {
                               const auto inner = While(
                                   std::tuple{0, b},
                                   [&](Output k, Output) { return k < i + 1; },
                                   [&](Output k, Output c) {
                                     return std::tuple{
                                         k + 1, ops::Sin(c) * w + b * 0.1};
                                   });
                               const Output c = std::get<1>(inner);
                               return std::tuple{
                                   j + 1, Cond(
                                              c < b, [&] { return c * a; },
                                              [&] { return c + w; })};
                             });
                         return b;
                       })};
      });
  ExpectGradients(y, {{x, Scalar(0.7)}, {w, Scalar(0.9)}}, 2, 1e-4);
}

TEST_F(WhileGradientTest, DifferentiatesLoopInConditional) {
  const Output x = In();
  const Output y = Cond(
      x < 1.0,
      [&] {
        const Output z = x * 2.0;
        const auto [i, a] = While(
            std::tuple{0, z}, [&](Output i, Output) { return i < 3; },
            [&](Output i, Output a) {
              return std::tuple{i + 1, a * z};
            });
        return a;
      },
      [&] { return x * x; });
  ExpectGradients(y, {{x, Scalar(0.7)}}, 3, 1e-4);
  ExpectGradients(y, {{x, Scalar(1.7)}}, 3, 1e-4);
}

TEST_F(WhileGradientTest, HandlesUnusedInvariantAndNonRealVariables) {
  const Output x = In(), z = In(PartialShape::Scalar(), "z");
  const auto r = While(
      std::vector<Output>{Constant(0), x, z, Constant(3.0), Constant(true)},
      [&](std::vector<Output> v) { return v[0] < 4; },
      [&](std::vector<Output> v) {
        return std::vector<Output>{v[0] + 1, v[1] * v[2], v[2], v[1],
                                   ops::LogicalNot(v[4])};
      });
  ExpectGradients(r[1], {{x, Scalar(0.7)}, {z, Scalar(1.2)}}, 2);
  ExpectGradients(r[2], {{x, Scalar(0.7)}, {z, Scalar(1.2)}}, 2);
  ExpectGradients(r[3], {{x, Scalar(0.7)}, {z, Scalar(1.2)}}, 2);
  ExpectGradients(r[1] + r[2] * r[3], {{x, Scalar(0.7)}, {z, Scalar(1.2)}}, 2);
}

TEST_F(WhileGradientTest, StoppedVariablesHaveZeroGradients) {
  const Output x = In(), z = In(PartialShape::Scalar(), "z"),
               w = In(PartialShape::Scalar(), "w");
  const auto [i, a, b] = While(
      std::tuple{0, x, z * 2.0},
      [&](Output i, Output, Output) { return i < 3; },
      [&](Output i, Output a, Output b) {
        return std::tuple{i + 1, a * 2.0, b + w};
      });
  const Output y = a + ops::StopGradient(b);
  const std::vector<Output> g = Grad({y}, {x, z, w});
  ASSERT_TRUE(g[1].valid() && g[2].valid());
  const Feeds feeds = {{x, Scalar(0.7)}, {z, Scalar(1.2)}, {w, Scalar(2.0)}};
  EXPECT_EQ(Value(g[0], feeds), 8);
  EXPECT_EQ(Value(g[1], feeds), 0);
  EXPECT_EQ(Value(g[2], feeds), 0);
  // None if the ys do not depend on it, or if no gradient flows.
  EXPECT_FALSE(Grad(a, z).valid());
  EXPECT_FALSE(Grad(a, w).valid());
  EXPECT_FALSE(Grad(ops::StopGradient(a + b), x).valid());
}

TEST_F(WhileGradientTest, VariablesThatAreStoppedInTheBodyHaveZeroGradients) {
  const Output x = In(), z = In(PartialShape::Scalar(), "z"),
               w = In(PartialShape::Scalar(), "w");
  const auto [i, a, b] = While(
      std::tuple{0, x, z * 2.0},
      [&](Output i, Output, Output) { return i < 3; },
      [&](Output i, Output a, Output b) {
        const Output stopped = ops::StopGradient(b * b * w);
        return std::tuple{i + 1, a * 2.0 + stopped, stopped};
      });
  const std::vector<Output> g = Grad({a}, {x, z, w});
  ASSERT_TRUE(g[1].valid());
  const Feeds feeds = {{x, Scalar(0.7)}, {z, Scalar(1.2)}, {w, Scalar(2.0)}};
  EXPECT_EQ(Value(g[0], feeds), 8);
  EXPECT_EQ(Value(g[1], feeds), 0);
  EXPECT_FALSE(g[2].valid());
  // Whatever else is asked for at the same time.
  const std::vector<Output> alone = Grad({a}, {z, w});
  ASSERT_TRUE(alone[0].valid());
  EXPECT_EQ(Value(alone[0], feeds), 0);
  EXPECT_FALSE(alone[1].valid());
  EXPECT_FALSE(Grad(Output(i), z).valid());
}

TEST_F(WhileGradientTest, DifferentiatesGrowingShapes) {
  const Output x = In({2});
  const WhileOptions grow = {
      .shape_invariants = {PartialShape::Scalar(), PartialShape({-1})}};
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, ops::ConcatV2({ops::Sin(a), a * a}, 0)};
      },
      grow);
  ExpectGradients(y, {{x, Tensor::Vector<double>({0.3, 0.6})}}, 2);
}

TEST_F(WhileGradientTest, SparseReadsInLoopStaySparse) {
  const Var table(Tensor::Of<double>(Shape({4, 2}), {1, 2, 3, 4, 5, 6, 7, 8}),
                  "table");
  Initialize();
  const Output x = In();
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        const Output rows = ops::Gather(table, ops::Pack({i, i + 1}));
        return std::tuple{i + 1, a * 2.0 + SumOf(rows * rows) * x};
      });
  const Result<std::vector<Gradient>> g = Gradients({y}, {table, x});
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_TRUE((*g)[0].is_sparse());
  const Feeds feeds = {{x, Scalar(0.5)}};
  // Rows 0..1 in iteration 0 with weight 4, 1..2 with 2, 2..3 with 1.
  EXPECT_THAT(Values<double>(Densify((*g)[0], table.handle()), feeds),
              ElementsAre(4, 8, 18, 24, 15, 18, 7, 8));
  EXPECT_THAT(Values<int>((*g)[0].indices, feeds).size(), 6u);
  EXPECT_THAT(Values<int>((*g)[0].dense_shape, feeds), ElementsAre(4, 2));
}

TEST_F(WhileGradientTest, SparseReadsReportFedShape) {
  const Output table = In({-1, 2}, "table"), n = Placeholder<int>({}, "n");
  const auto [i, y] = While(
      std::tuple{0, Constant(1.0)}, [&](Output i, Output) { return i < n; },
      [&](Output i, Output a) {
        const auto [j, b] = While(
            std::tuple{0, a}, [&](Output j, Output) { return j < n; },
            [&](Output j, Output b) {
              return std::tuple{j + 1, b + SumOf(ops::Gather(table, i + j))};
            });
        return std::tuple{i + 1, b};
      });
  const Result<std::vector<Gradient>> g = Gradients({y}, {table});
  ASSERT_TRUE(g.ok()) << g.status();
  const Tensor t = Tensor::Of<double>(Shape({3, 2}), {1, 2, 3, 4, 5, 6});
  for (const int count : {0, 2}) {
    const Feeds feeds = {{table, t}, {n, Tensor::Scalar(count)}};
    EXPECT_THAT(Values<int>((*g)[0].dense_shape, feeds), ElementsAre(3, 2));
  }
  EXPECT_THAT(Values<double>(Densify((*g)[0], Output()),
                             {{table, t}, {n, Tensor::Scalar(2)}}),
              ElementsAre(1, 1, 2, 2, 1, 1));
}

TEST_F(WhileGradientTest, DifferentiatesSparseReadsInBranchOfLoop) {
  const Output table = In({4, 2}, "table"), n = Placeholder<int>({}, "n");
  const auto [i, y] = While(
      std::tuple{0, Constant(0.5)}, [&](Output i, Output) { return i < n; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, Cond(
                                     ops::Equal(i % 2, 1),
                                     [&] {
                                       const Output row = ops::Gather(table, i);
                                       return a * SumOf(row * row);
                                     },
                                     [&] { return ops::Sin(a) + a; })};
      });
  const Tensor t =
      Tensor::Of<double>(Shape({4, 2}), {.1, .2, .3, .4, .5, .6, .7, .8});
  for (const int count : {0, 1, 2, 4})
    ExpectGradients(y, {{table, t}, {n, Tensor::Scalar(count)}}, 2, 1e-4);
}

TEST_F(WhileGradientTest, BodyMayComputeGradients) {
  // Newton's method: each step takes two derivatives in the body.
  const Output x = In();
  const auto f = [](Output v) { return v * v * v - v * 2.0 + ops::Sin(v); };
  const auto [i, root] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 20; },
      [&](Output i, Output v) {
        const Output g = Grad(f(v), v);
        return std::tuple{i + 1, v - g / Grad(g, v)};
      });
  const double at = Value(root, {{x, Scalar(1.0)}});
  EXPECT_NEAR(3 * at * at - 2 + std::cos(at), 0, 1e-9);
}

TEST_F(WhileGradientTest, BodyMayDifferentiateInnerLoopAndCapture) {
  const Output x = In(), w = In(PartialShape::Scalar(), "w");
  const Output ww = w * w;
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        const auto [j, b] = While(
            std::tuple{0, a}, [&](Output j, Output) { return j < 2; },
            [&](Output j, Output b) {
              return std::tuple{j + 1, b * b * ww};
            });
        const std::vector<Output> g = Grad({b}, std::vector<GradTarget>{a, w});
        return std::tuple{i + 1, a * 0.9 + g[0] * 0.01 + g[1] * 0.01};
      });
  ExpectGradients(y, {{x, Scalar(0.7)}, {w, Scalar(0.9)}}, 2, 1e-4);
}

TEST_F(WhileGradientTest, DifferentiatesTensorArrays) {
  const Output xs = In({4}, "xs"), x = In();
  const TensorArray in =
      TensorArray(DType::kDouble, 4, {.clear_after_read = false}).Unstack(xs);
  const auto [i, a, out] = While(
      std::tuple{0, x, TensorArray(DType::kDouble, 4)},
      [&](Output i, Output, TensorArray) { return i < 4; },
      [&](Output i, Output a, TensorArray out) {
        const Output next = ops::Sin(a) * in.Read(i) + in.Read(3 - i);
        return std::tuple{i + 1, next, out.Write(i, next * a)};
      });
  const Feeds feeds = {{xs, Tensor::Vector<double>({0.1, 0.6, 0.3, 1.2})},
                       {x, Scalar(0.7)}};
  ExpectGradients(a, feeds, 2, 1e-4);
  ExpectGradients(out.Stack(), feeds, 2, 1e-4);
}

TEST_F(WhileGradientTest, StopGradientsAndBackPropOffStopIt) {
  const Output x = In();
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, a * ops::StopGradient(a * x)};
      });
  // y = x^(2^3) x^(1 + 2 + 4); not stopped: x * (the rest).
  const double v = 1.1;
  EXPECT_NEAR(Value(Grad(y, x), {{x, Scalar(v)}}), std::pow(v, 14), 1e-9);
  EXPECT_FALSE(Grad(y * 1.0, x, {.stop_gradients = {y}}).valid());
  const auto [k, z] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, a * x};
      },
      {.back_prop = false});
  EXPECT_FALSE(Grad(z, x).valid());
  EXPECT_NEAR(Value(Grad(z + x, x), {{x, Scalar(v)}}), 1, 1e-9);
}

TEST_F(WhileGradientTest, ErrorsNameTheOpAndThePath) {
  const Output x = Placeholder<float>({3}, "x");
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, a + ops::Unique(a, {.name = "strange"}).y};
      },
      {.shape_invariants = {PartialShape::Scalar(), PartialShape()}});
  const Status s = Gradients({y}, {x}).status();
  EXPECT_THAT(std::string(s.message()), HasSubstr("strange' (Unique)"));
  EXPECT_THAT(std::string(s.message()), HasSubstr(" <- "));
}

TEST_F(WhileGradientTest, RejectsTargetsInsideLoops) {
  const Output x = In();
  Output within;
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        within = ops::Sin(a);
        return std::tuple{i + 1, within};
      });
  EXPECT_THAT(std::string(Gradients({y}, {within}).status().message()),
              HasSubstr("expected xs outside of loops"));
  EXPECT_THAT(std::string(Gradients({y, within}, {x}).status().message()),
              HasSubstr("expected ys of one loop"));
}

// Errors elsewhere in the graph, including a half-built loop, do not affect
// gradients.
TEST_F(WhileGradientTest, IgnoresUnrelatedGraphErrors) {
  const Output x = In(), one = Constant(1.0);
  const Output failed = While(
      one, [](Output a) { return a < 3.0; },
      [&](Output a) { return ops::MatMul(a, one); });
  EXPECT_FALSE(failed.valid());
  EXPECT_FALSE(Cond(
                   x < 1.0, [&] { return failed; }, [&] { return x; })
                   .valid());
  const size_t errors = graph_.errors().size();
  ASSERT_GE(errors, 1u);
  const auto [i, a] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        return std::tuple{
            i + 1, Cond(
                       a < 1.0, [&] { return a * x; }, [&] { return -a; })};
      });
  const Output y = a * a, dx = Grad(y, x);
  EXPECT_EQ(graph_.errors().size(), errors) << graph_.errors().back();
  ASSERT_TRUE(dx.valid());
  EXPECT_TRUE(ExportGraphDef(graph_).ok());
  const Result<Tensor> value = session_.Run(Feeds{{x, Scalar(0.5)}}, dx);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_NEAR(value->scalar<double>(), 8 * std::pow(0.5, 7), 1e-12);
}

}  // namespace
}  // namespace sluice
