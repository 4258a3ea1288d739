// Gradients of loops: every option, every length, every type, and everything
// that a body may read.
#include <complex>

#include "client/control/higher_order.h"
#include "client/control/tensor_array.h"
#include "client/testing/gradient_test_util.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

class LoopGradientCases : public GradientTest {
 protected:
  static Output Count(const std::string& name) {
    return Placeholder<int>(PartialShape::Scalar(), name);
  }
  // The number of nodes that allow their saved values to be swapped out.
  int NumSwapping() const {
    int n = 0;
    for (const auto& node : graph_.nodes())
      n += node->AttrOr<bool>("swap_memory", false) ? 1 : 0;
    return n;
  }
};

TEST_F(LoopGradientCases, LoopOptionsDoNotChangeGradients) {
  const Output x = In(), n = Count("n"), most = Count("most");
  const Output most64 = ops::Cast(most, DType::kInt64);
  const WhileOptions options[] = {
      {},
      {.parallel_iterations = 1},
      {.swap_memory = true},
      {.maximum_iterations = 3},
      {.maximum_iterations = most},
      {.parallel_iterations = 2,
       .swap_memory = true,
       .maximum_iterations = most64},
      {.shape_invariants = {PartialShape::Scalar(), PartialShape::Unknown()}},
  };
  for (size_t o = 0; o < std::size(options); ++o) {
    SCOPED_TRACE("options " + std::to_string(o));
    const auto [i, y] = While(
        std::tuple{0, x}, [&](Output i, Output) { return i < n; },
        [&](Output i, Output a) {
          // An inner loop with the same bound on its iterations.
          WhileOptions inner = options[o];
          inner.shape_invariants.clear();
          const auto [j, b] = While(
              std::tuple{0, ops::Reshape(a, Constant(Tensor(DType::kInt32,
                                                            Shape({0}))))},
              [&](Output j, Output) { return j < i; },
              [&](Output j, Output b) {
                return std::tuple{j + 1, ops::Sin(b) * x};
              },
              inner);
          return std::tuple{i + 1, b + a * x};
        },
        options[o]);
    for (const int count : {0, 1, 4})
      ExpectGradients(y,
                      {{x, Scalar(.8)},
                       {n, Tensor::Scalar(count)},
                       {most, Tensor::Scalar(2)}},
                      count == 4 ? 2 : 1, 1e-4);
  }
}

TEST_F(LoopGradientCases, ZeroIterationsDifferentiateInitialValues) {
  const Output x = In({3}), w = In({3}, "w"), n = Count("n"), m = Count("m");
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < n; },
      [&](Output i, Output a) {
        const auto [j, b] = While(
            std::tuple{0, a * w}, [&](Output j, Output) { return j < m; },
            [&](Output j, Output b) {
              return std::tuple{j + 1, ops::Tanh(b) * w};
            });
        return std::tuple{i + 1, b};
      });
  const std::vector<Output> g = Grad({y}, {x, w});
  for (const auto& [outer, inner] : {std::pair{0, 0}, {0, 2}, {2, 0}, {2, 1}}) {
    const Feeds feeds = {{x, Tensor::Vector<double>({.3, -.2, .7})},
                         {w, Tensor::Vector<double>({.9, .4, -.6})},
                         {n, Tensor::Scalar(outer)},
                         {m, Tensor::Scalar(inner)}};
    ExpectGradients(y, feeds, 2, 1e-4);
    if (outer == 0) {
      EXPECT_THAT(Values<double>(g[0], feeds), ElementsAre(1, 1, 1));
      EXPECT_THAT(Values<double>(g[1], feeds), ElementsAre(0, 0, 0));
    }
  }
}

TEST_F(LoopGradientCases, MapsFoldsAndScansMayHaveNoRows) {
  const Output xs = Placeholder<double>({-1, 2}, "xs"), w = In({2}, "w");
  const auto step = [&](Output a, Output x) { return ops::Tanh(a * w + x); };
  const Output map = MapFn([&](Output x) { return ops::Sin(x * w); }, xs);
  const Output fold = FoldL(step, xs, w), scan = Scan(step, xs, w);
  const Feeds none = {{xs, *Tensor::Make(DType::kDouble, Shape({0, 2}))},
                      {w, Tensor::Vector<double>({.5, .25})}};
  const Feeds two = {{xs, Tensor::Of<double>(Shape({2, 2}), {.1, .2, .3, .4})},
                     {w, Tensor::Vector<double>({.5, .25})}};
  for (const Output& y : {map, fold, scan}) {
    ExpectGradients(y, two, 2, 1e-4);
    const std::vector<Output> g = Grad({y}, {xs, w});
    EXPECT_EQ(Eval(g[0], none).shape(), Shape({0, 2}));
    const double slope = y.SameAs(fold) ? 1 : 0;
    EXPECT_THAT(Values<double>(g[1], none), ElementsAre(slope, slope));
  }
}

// Variables are read where the loop reads them, and their gradients add up.
TEST_F(LoopGradientCases, DifferentiatesVariablesReadInBody) {
  for (const bool reference : {false, true}) {
    SCOPED_TRACE(reference);
    const Var w(Tensor::Scalar<double>(1.5), reference ? "ref" : "res",
                {.reference = reference});
    const Output x = In();
    const auto [i, y] = While(
        std::tuple{0, x}, [](Output i, Output) { return i < 4; },
        [&](Output i, Output a) {
          const Output next = Cond(
              ops::Equal(i, 2), [&] { return a * w + w; },
              [&] { return a * w; });
          return std::tuple{i + 1, next};
        });
    Initialize();
    const Output dw = Grad(y, w);
    ASSERT_TRUE(dw.valid()) << graph_.status();
    // y = ((x w^2) w + w) w; dy/dw = 4 x w^3 + 2 w.
    EXPECT_NEAR(Eval(y, {{x, Scalar(.5)}}).scalar<double>(), .5 * 5.0625 + 2.25,
                1e-12);
    EXPECT_NEAR(Eval(dw, {{x, Scalar(.5)}}).scalar<double>(),
                4 * .5 * 3.375 + 3, 1e-12);
    EXPECT_NEAR(Eval(Grad(dw, w), {{x, Scalar(.5)}}).scalar<double>(),
                12 * .5 * 2.25 + 2, 1e-12);
  }
}

// An embedding: rows of a table in a nested loop, and the second derivative.
TEST_F(LoopGradientCases, LookupsInNestedLoopsAreSparse) {
  const Var table(Tensor::Of<double>(Shape({5, 2}),
                                     {.1, .2, .3, .4, .5, .6, .7, .8, .9, 1}),
                  "table");
  Initialize();
  const Output x = In();
  const Output ids =
      Constant(Tensor::Of<int32_t>(Shape({2, 3}), {4, 0, 4, 1, 4, 0}));
  const auto [i, y] = While(
      std::tuple{0, x}, [](Output i, Output) { return i < 2; },
      [&](Output i, Output a) {
        const Output row = ops::Gather(ids, i);
        const auto [j, b] = While(
            std::tuple{0, a}, [](Output j, Output) { return j < 3; },
            [&](Output j, Output b) {
              const Output v = ops::Gather(table, ops::Gather(row, j));
              return std::tuple{j + 1, b + SumOf(v * v) * x};
            });
        return std::tuple{i + 1, b};
      });
  const Result<std::vector<Gradient>> g = Gradients({y}, {table});
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_TRUE((*g)[0].is_sparse());
  const Feeds feeds = {{x, Scalar(.5)}};
  EXPECT_EQ(Eval((*g)[0].indices, feeds).num_elements(), 6);
  const Output dense = Densify((*g)[0], table.handle());
  // Row 4 is read three times, row 0 twice, row 1 once.
  EXPECT_THAT(Values<double>(dense, feeds),
              ::testing::Pointwise(::testing::DoubleNear(1e-12),
                                   {.2, .4, .3, .4, 0., 0., 0., 0., 2.7, 3.}));
  const Output again = Grad(SumOf(dense * dense), x);
  ASSERT_TRUE(again.valid()) << graph_.status();
  // The sum is proportional to the square of x.
  const double sum = .04 + .16 + .09 + .16 + 7.29 + 9;
  EXPECT_NEAR(Eval(again, feeds).scalar<double>(), 4 * sum, 1e-9);
}

template <typename T>
class LoopGradientTypes : public ClientTest {};
using FloatingTypes =
    ::testing::Types<float, double, half, bfloat16, std::complex<float>,
                     std::complex<double>>;
TYPED_TEST_SUITE(LoopGradientTypes, FloatingTypes);

// x to the power of four, and 4 x^3 (its conjugate for complex numbers, as in
// TensorFlow).
TYPED_TEST(LoopGradientTypes, MatchTheUnrolledGraph) {
  const DType t = DTypeOf<TypeParam>();
  const Output fed = Placeholder<float>({2});
  Output x = ops::Cast(fed, t);
  if constexpr (requires(TypeParam v) { v.imag(); })
    x = ops::Mul(x, Constant(Tensor::Scalar(TypeParam(.6f, .8f))));
  const auto [i, y] = While(
      std::tuple{0, x}, [](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, ops::Mul(a, x)};
      });
  const Output unrolled = ops::Mul(ops::Mul(ops::Mul(x, x), x), x);
  const GradientOptions ones = {.grad_ys = {ops::OnesLike(x)}};
  const Output g = Grad(y, x, ones), want = Grad(unrolled, x, ones);
  ASSERT_TRUE(g.valid() && want.valid()) << this->graph_.status();
  EXPECT_EQ(g.dtype(), t);
  const Tensor at = Tensor::Vector<float>({.5f, -1.25f});
  for (const Output& o : {y, g}) {
    const Output reference = o.SameAs(g) ? want : unrolled;
    const auto both = this->session_.Run({{fed, at}}, {o, reference});
    ASSERT_TRUE(both.ok()) << both.status();
    const Tensor a = (*both)[0], b = (*both)[1];
    for (size_t k = 0; k < 2; ++k) {
      const auto d =
          a.template flat<TypeParam>()[k] - b.template flat<TypeParam>()[k];
      EXPECT_LT(std::abs(static_cast<std::complex<double>>(d)), .02);
    }
  }
}

}  // namespace
}  // namespace sluice
