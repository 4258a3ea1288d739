// A binary Tree-LSTM over random trees, as a recursive function: the workload
// of the peers' scripts (32 trees of 20 leaves, 128 units).
#include <functional>
#include <random>
#include <tuple>
#include <vector>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

constexpr int kTreeCount = 32, kTreeLeaves = 20, kTreeUnits = 128,
              kTreeWords = 1000;

// The nodes of all trees: children, or -1 and the word of a leaf.
struct RandomTrees {
  std::vector<int32_t> left, right, word, roots;

  explicit RandomTrees(uint32_t seed) : random_(seed) {
    for (int i = 0; i < kTreeCount; ++i) roots.push_back(Grow(kTreeLeaves));
  }

 private:
  int32_t Draw(int below) {
    return static_cast<int32_t>(random_() % static_cast<uint32_t>(below));
  }
  int32_t Grow(int leaves) {
    const size_t at = left.size();
    left.push_back(-1);
    right.push_back(-1);
    word.push_back(leaves == 1 ? Draw(kTreeWords) : 0);
    if (leaves > 1) {
      const int first = 1 + Draw(leaves - 1);
      left[at] = Grow(first);
      right[at] = Grow(leaves - first);
    }
    return static_cast<int32_t>(at);
  }

  std::mt19937 random_;
};

Output TreeParameter(const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(0, 0.1f);
  Tensor t(DType::kFloat, shape);
  for (float& f : t.flat<float>()) f = draw(random);
  return Constant(t);
}

Result<double> TreesPerSecond(bool gradient, bool batched) {
  Graph g;
  WithGraph use(g);
  Var table(TreeParameter({kTreeWords, kTreeUnits}, 1)),
      w(TreeParameter({2 * kTreeUnits, 5 * kTreeUnits}, 2)),
      b(Zeros({5 * kTreeUnits})),
      leaf_w(TreeParameter({kTreeUnits, 2 * kTreeUnits}, 3));
  const Output left = Placeholder<int32_t>({-1}),
               right = Placeholder<int32_t>({-1}),
               word = Placeholder<int32_t>({-1}),
               roots = Placeholder<int32_t>({kTreeCount});
  const DType i32 = DType::kInt32, f32 = DType::kFloat;
  const Function tree = DefineFunction(
      "tree", {i32, i32, i32, i32, f32, f32, f32, f32}, {f32, f32},
      [](const Function& self, const std::vector<Output>& a) {
        const Output node = a[0], left = a[1], right = a[2], word = a[3],
                     table = a[4], w = a[5], b = a[6], leaf_w = a[7];
        const Output child = ops::GatherV2(left, node, 0);
        const auto [c, h] = Cond(
            child < 0,
            [&] {
              const Output row = ops::ExpandDims(
                  ops::GatherV2(table, ops::GatherV2(word, node, 0), 0), 0);
              const auto parts = ops::Split(1, ops::MatMul(row, leaf_w), 2);
              return std::tuple{parts[0],
                                ops::Tanh(parts[0]) * ops::Sigmoid(parts[1])};
            },
            [&] {
              const auto l = self(
                             {child, left, right, word, table, w, b, leaf_w}),
                         r = self({ops::GatherV2(right, node, 0), left, right,
                                   word, table, w, b, leaf_w});
              const auto gates = ops::Split(
                  1,
                  ops::BiasAdd(ops::MatMul(ops::ConcatV2({l[1], r[1]}, 1), w),
                               b),
                  5);
              const Output c = l[0] * ops::Sigmoid(gates[1]) +
                               r[0] * ops::Sigmoid(gates[2]) +
                               ops::Sigmoid(gates[0]) * ops::Tanh(gates[4]);
              return std::tuple{c, ops::Tanh(c) * ops::Sigmoid(gates[3])};
            });
        return std::vector<Output>{c, h};
      },
      {.arg_shapes = {PartialShape::Scalar(), PartialShape({-1}),
                      PartialShape({-1}), PartialShape({-1}),
                      PartialShape({kTreeWords, kTreeUnits}),
                      PartialShape({2 * kTreeUnits, 5 * kTreeUnits}),
                      PartialShape({5 * kTreeUnits}),
                      PartialShape({kTreeUnits, 2 * kTreeUnits})},
       .result_shapes = {PartialShape({1, kTreeUnits}),
                         PartialShape({1, kTreeUnits})}});
  const TensorArray each = TensorArray(i32, kTreeCount).Unstack(roots);
  const Output table_value = table.value(), w_value = w.value(),
               b_value = b.value(), leaf_value = leaf_w.value();
  const auto [i, states] = While(
      std::tuple{0, TensorArray(f32, kTreeCount)},
      [](Output i, const TensorArray&) { return i < kTreeCount; },
      [&](Output i, const TensorArray& states) {
        const Output state = tree({each.Read(i), left, right, word, table_value,
                                   w_value, b_value, leaf_value})[1];
        return std::tuple{i + 1, states.Write(i, state)};
      },
      {.parallel_iterations = kTreeCount});
  const Output loss =
      ops::Sum(states.Stack(), Constant(Tensor::Vector<int32_t>({0, 1, 2})));
  std::vector<Output> fetches = {loss};
  if (gradient)
    for (const Output& g :
         Grad({loss}, {table_value, w_value, b_value, leaf_value}))
      fetches.push_back(ops::Identity(g));
  SLUICE_RETURN_IF_ERROR(g.status());
  SessionOptions options;
  options.batch_frames = batched;
  Session session(g, options);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_ASSIGN_OR_RETURN(
      Session::Callable step,
      session.MakeCallable({left, right, word, roots}, fetches));
  // Other trees in each step: nothing is kept per structure.
  uint32_t seed = 0;
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(20, [&]() -> Status {
                            const RandomTrees t(++seed);
                            return step
                                .Run({Tensor::Vector<int32_t>(t.left),
                                      Tensor::Vector<int32_t>(t.right),
                                      Tensor::Vector<int32_t>(t.word),
                                      Tensor::Vector<int32_t>(t.roots)})
                                .status();
                          }));
  return kTreeCount / s;
}

SLUICE_BENCH("treelstm.L20.U128.B32.trees_per_s") {
  return TreesPerSecond(true, true);
}
SLUICE_BENCH("treelstm.L20.U128.B32.one_by_one.trees_per_s") {
  return TreesPerSecond(true, false);
}
SLUICE_BENCH("treelstm.L20.U128.B32.fwd.trees_per_s") {
  return TreesPerSecond(false, true);
}
SLUICE_BENCH("treelstm.L20.U128.B32.fwd.one_by_one.trees_per_s") {
  return TreesPerSecond(false, false);
}

}  // namespace
}  // namespace sluice::bench
