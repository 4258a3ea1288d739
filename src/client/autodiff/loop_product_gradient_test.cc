// The gradient of weights that a loop multiplies rows by: for every way of
// summing its parts (in the loop, from collected rows, from rows that the loop
// writes anyway), it equals that of the unrolled loop.
#include <gmock/gmock.h>

#include <functional>
#include <random>

#include "client/control/control_flow.h"
#include "client/control/tensor_array.h"
#include "client/testing/client_test_util.h"

namespace sluice {
namespace {

constexpr int kSteps = 5, kUnits = 6;

// One recurrent step, given the previous state, the rows of the inputs and the
// step number.
using RowOf = std::function<Output(Output i)>;
using CellStep = std::function<Output(Output h, const RowOf& row, Output i)>;

struct Shapes {
  int rows;        // Rows of h: fewer or more than the units.
  int iterations;  // At most kSteps.
};

class LoopProductGradientTest : public ::testing::TestWithParam<Shapes> {
 protected:
  LoopProductGradientTest() : use_(graph_), random_(7) {}

  Tensor Random(const Shape& shape) {
    Tensor t(DType::kDouble, shape);
    std::normal_distribution<double> normal(0, .4);
    for (double& v : t.flat<double>()) v = normal(random_);
    return t;
  }

  // Compares the gradients (and second derivatives) of both forms.
  void Compare(const CellStep& step,
               const std::function<Output(const TensorArray&, Output h)>& end =
                   nullptr) {
    const int rows = GetParam().rows, n = GetParam().iterations;
    const Output x = Placeholder<double>({kSteps, rows, kUnits}, "x");
    const Output u = Placeholder<double>({kUnits, kUnits}, "u");
    const Output w = Placeholder<double>({kUnits, kUnits}, "w");
    const Feeds feeds = {{x, Random({kSteps, rows, kUnits})},
                         {u, Random({kUnits, kUnits})},
                         {w, Random({kUnits, kUnits})}};
    const Output begin =
        Constant(*Tensor::Zeros(DType::kDouble, Shape({rows, kUnits})));
    // The array's contents are computed, so that rows may be overwritten.
    const auto projected = [&] {
      return ops::Reshape(
          ops::MatMul(ops::Reshape(x, {kSteps * rows, kUnits}), u),
          {kSteps, rows, kUnits});
    };
    const auto cell = [&](Output h, const RowOf& row, Output i) {
      return step(ops::MatMul(h, w), row, i);
    };
    std::vector<std::vector<Output>> forms;
    for (const bool unrolled : {false, true}) {
      const TensorArray in = TensorArray(DType::kDouble, kSteps,
                                         {.clear_after_read = false,
                                          .element_shape = {rows, kUnits}})
                                 .Unstack(projected());
      const RowOf row = [&](Output i) { return in.Read(i); };
      Output h = begin;
      if (unrolled) {
        for (int i = 0; i < n; ++i) h = cell(h, row, Constant(i));
      } else {
        h = std::get<1>(While(
            std::tuple{0, begin}, [&](Output i, Output) { return i < n; },
            [&](Output i, Output h) {
              return std::tuple{i + 1, cell(h, row, i)};
            }));
      }
      if (end) h = end(in, h);
      const auto gradients = [&](const Output& y) {
        return Grad({ops::Sum(y * y, {0, 1})}, {x, u, w},
                    {.unconnected = Unconnected::kZero});
      };
      const std::vector<Output> first = gradients(h);
      const std::vector<Output> second = gradients(first[2]);
      std::vector<Output> all = {h};
      all.insert(all.end(), first.begin(), first.end());
      all.insert(all.end(), second.begin(), second.end());
      forms.push_back(all);
    }
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    for (const uint64_t seed : {0, 1, 2}) {
      SessionOptions options;
      options.scheduler_seed = seed;
      Session session(graph_, options);
      const auto loop = session.Run(feeds, forms[0]);
      const auto unrolled = session.Run(feeds, forms[1]);
      ASSERT_TRUE(loop.ok()) << loop.status();
      ASSERT_TRUE(unrolled.ok()) << unrolled.status();
      for (size_t i = 0; i < loop->size(); ++i)
        EXPECT_THAT((*loop)[i].ToVector<double>(),
                    ::testing::Pointwise(::testing::DoubleNear(1e-9),
                                         (*unrolled)[i].ToVector<double>()))
            << "result " << i << ", seed " << seed;
    }
  }

  Graph graph_;
  WithGraph use_;
  std::mt19937_64 random_;
};

TEST_P(LoopProductGradientTest, DifferentiatesPlainNetwork) {
  Compare([](Output hw, const RowOf& row, Output i) {
    return ops::Tanh(row(i) + hw);
  });
}

TEST_P(LoopProductGradientTest, RowsMayBeReadTwice) {
  Compare([](Output hw, const RowOf& row, Output i) {
    return ops::Tanh(row(i) + hw) * .5 + ops::Sin(row(i));
  });
}

TEST_P(LoopProductGradientTest, RowsMayBeReadBackwards) {
  Compare([](Output hw, const RowOf& row, Output i) {
    return ops::Tanh(row(kSteps - 1 - i) + hw);
  });
}

TEST_P(LoopProductGradientTest, RowsMayBeReadInBranches) {
  Compare([](Output hw, const RowOf& row, Output i) {
    return Cond(
        ops::Equal(i % 2, 0), [&] { return ops::Tanh(row(i) + hw); },
        [&] { return ops::Sin(hw) + .25; });
  });
}

TEST_P(LoopProductGradientTest, RowsMayBeReadAfterTheLoop) {
  Compare([](Output hw, const RowOf& row,
             Output i) { return ops::Tanh(row(i) + hw); },
          [](const TensorArray& in, Output h) {
            return h * in.Read(1) + ops::Sum(in.Stack(), 0);
          });
}

TEST_P(LoopProductGradientTest, RowGradientMayDifferFromProductGradient) {
  Compare([](Output hw, const RowOf& row, Output i) {
    return ops::Tanh(row(i) * .5 + hw);
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, LoopProductGradientTest,
                         ::testing::Values(Shapes{2, kSteps}, Shapes{2, 3},
                                           Shapes{2, 1}, Shapes{2, 0},
                                           Shapes{8, kSteps}),
                         [](const auto& p) {
                           return "Rows" + std::to_string(p.param.rows) +
                                  "Iterations" +
                                  std::to_string(p.param.iterations);
                         });

}  // namespace
}  // namespace sluice
