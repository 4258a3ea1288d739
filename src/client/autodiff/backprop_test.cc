// What a call of Gradients costs, counted in visits of nodes.
#include "client/autodiff/backprop.h"

#include <functional>
#include <mutex>

#include "client/control/control_flow.h"
#include "client/control/tensor_array.h"
#include "client/testing/client_test_util.h"

namespace sluice {
namespace {

struct Cost {
  int64_t visits = 0, nodes = 0;  // Looked at, and added.
};

// The cost of differentiating a chain of `length` parts; part(h, w) continues
// the chain h.
Cost CostOf(int length, const std::function<Output(Output h, Output w)>& part) {
  Graph graph;
  const WithGraph use(graph);
  const Output w = Placeholder<double>({16, 16}, "w");
  Output h = Placeholder<double>({1, 16}, "x");
  for (int i = 0; i < length; ++i) h = part(h, w);
  const std::vector<Output> ys = {h};
  const std::vector<GradTarget> xs = {w};
  const GradientOptions options;
  const int before = graph.num_nodes();
  const std::lock_guard<std::recursive_mutex> lock(graph.mutex());
  StoreScope stores;
  Backprop backprop(ys, xs, options, &stores);
  const auto grads = backprop.Run();
  EXPECT_TRUE(grads.ok()) << grads.status();
  EXPECT_TRUE(grads.ok() && (*grads)[0]) << "no gradient";
  return {backprop.num_visits(), graph.num_nodes() - before};
}

// Each part of a longer chain costs what it costs in a shorter one.
void ExpectLinear(const std::function<Output(Output h, Output w)>& part) {
  const Cost a = CostOf(8, part), b = CostOf(16, part), c = CostOf(32, part);
  EXPECT_GT(b.visits, a.visits);
  EXPECT_EQ(c.visits - b.visits, 2 * (b.visits - a.visits));
  EXPECT_EQ(c.nodes - b.nodes, 2 * (b.nodes - a.nodes));
}

Output Loop(const Output& h,
            const std::function<Output(Output i, Output h)>& body) {
  return std::get<1>(While(
      std::tuple{0, h}, [](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, body(i, a)};
      }));
}

TEST(BackpropCostTest, OfAChainOfOpsIsLinear) {
  ExpectLinear([](Output h, Output w) { return ops::Tanh(ops::MatMul(h, w)); });
}

TEST(BackpropCostTest, OfAChainOfConditionalsIsLinear) {
  ExpectLinear([](Output h, Output w) {
    return Cond(
        ops::Sum(h, {0, 1}) > 0., [&] { return ops::MatMul(h, w); },
        [&] { return ops::Tanh(h); });
  });
}

TEST(BackpropCostTest, OfAChainOfLoopsIsLinear) {
  ExpectLinear([](Output h, Output w) {
    return Loop(h,
                [&](Output, Output a) { return ops::Tanh(ops::MatMul(a, w)); });
  });
}

// The array of each loop is looked for by the products of all.
TEST(BackpropCostTest, OfAChainOfLoopsThatReadRowsIsLinear) {
  ExpectLinear([](Output h, Output w) {
    const TensorArray rows =
        TensorArray(DType::kDouble, 3, {.element_shape = {1, 16}})
            .Unstack(ops::Reshape(ops::Tile(h * 2., {3, 1}), {3, 1, 16}));
    return Loop(h, [&](Output i, Output a) {
      return ops::Tanh(rows.Read(i) + ops::MatMul(a, w));
    });
  });
}

TEST(BackpropCostTest, OfAChainOfNestedLoopsIsLinear) {
  ExpectLinear([](Output h, Output w) {
    return Loop(h, [&](Output, Output a) {
      return Loop(
          a, [&](Output, Output b) { return ops::Tanh(ops::MatMul(b, w)); });
    });
  });
}

}  // namespace
}  // namespace sluice
