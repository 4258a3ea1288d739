// Automatic batching gives the results of instances that run one by one, within
// rounding, and their errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <thread>

#include "base/sanitizers.h"
#include "client/autodiff/gradients.h"
#include "client/control/control_flow.h"
#include "client/control/functions.h"
#include "client/control/loops.h"
#include "client/control/tensor_array.h"
#include "client/control/tensor_store.h"
#include "client/operators.h"
#include "exec/batching/batch_form.h"
#include "exec/batching/batch_stage.h"
#include "graph/graphdef.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "session/compile.h"
#include "session/session.h"
#include "sluice/ops.h"

namespace sluice::batching_test {
namespace {

using namespace ops;  // NOLINT: a program of the graph reads like one.

using ::testing::HasSubstr;

class BatchingTest : public ::testing::Test {
 protected:
  static constexpr int kSamples = 5;

  BatchingTest() : use_(graph_) {}

  static SessionOptions Batched(uint64_t seed = 0) {
    SessionOptions o;
    o.batch_frames = true;
    o.scheduler_seed = seed;
    return o;
  }

  Tensor Random(std::initializer_list<int64_t> dims) {
    Tensor t(DType::kFloat, sluice::Shape(dims));
    std::uniform_real_distribution<float> draw(-1, 1);
    for (float& f : t.flat<float>()) f = draw(random_);
    return t;
  }

  static void ExpectNear(const Tensor& got, const Tensor& want,
                         const std::string& what) {
    ASSERT_TRUE(got.shape() == want.shape())
        << what << ": " << got.ToString() << " for " << want.ToString();
    for (int64_t i = 0; i < got.num_elements(); ++i)
      ASSERT_NEAR(
          got.flat<float>()[static_cast<size_t>(i)],
          want.flat<float>()[static_cast<size_t>(i)],
          1e-4 * std::max(1.f,
                          std::abs(want.flat<float>()[static_cast<size_t>(i)])))
          << what << ", element " << i;
  }

  // Runs one by one, batched, and batched in random orders.
  void Check(const Feeds& feeds, const std::vector<Output>& fetches) {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    Session plain(graph_);
    const auto want = plain.Run(feeds, fetches);
    ASSERT_TRUE(want.ok()) << want.status();
    for (uint64_t seed = 0; seed < 6; ++seed) {
      Session session(graph_, Batched(seed));
      for (int run = 0; run < 2; ++run) {  // The second on recycled state.
        const auto got = session.Run(feeds, fetches);
        ASSERT_TRUE(got.ok()) << got.status();
        for (size_t i = 0; i < fetches.size(); ++i)
          ExpectNear((*got)[i], (*want)[i],
                     absl::StrCat(fetches[i].name(), ", seed ", seed));
      }
    }
  }

  // The sizes of the runs of an op's kernels within frames, by a traced step.
  std::vector<int64_t> Instances(
      const Feeds& feeds, const std::vector<Output>& fetches,
      const std::string& op,
      const SessionOptions& session_options = Batched()) {
    Session session(graph_, session_options);
    RunOptions options;
    options.trace = true;
    RunMetadata metadata;
    const auto got = session.Run(feeds, fetches, {}, options, &metadata);
    EXPECT_TRUE(got.ok()) << got.status();
    std::vector<int64_t> sizes;
    for (const TraceEvent& e : metadata.events)
      if (e.op == op && !e.frame.empty()) sizes.push_back(e.instances);
    return sizes;
  }

  // f(row i of each input) for all i, in iterations that do not depend on each
  // other.
  using Body = std::function<Output(const std::vector<Output>&)>;
  static Output Map(const std::vector<Output>& inputs, DType result,
                    const Body& f, bool batch = false) {
    std::vector<sluice::TensorArray> in;
    for (const Output& x : inputs)
      in.push_back(sluice::TensorArray(x.dtype(), kSamples).Unstack(x));
    const auto [i, out] = While(
        std::tuple{Constant(0), sluice::TensorArray(result, kSamples)},
        [](Output i, const sluice::TensorArray&) { return i < kSamples; },
        [&](Output i, const sluice::TensorArray& out) {
          std::vector<Output> rows;
          for (const sluice::TensorArray& a : in) rows.push_back(a.Read(i));
          return std::tuple{i + 1, out.Write(i, f(rows))};
        },
        {.parallel_iterations = kSamples, .batch = batch});
    return out.Stack();
  }

  // Checks f on five samples of [4, 6], [4, 6] and [6], and that `op` ran for
  // `instances` of them at once.
  void CheckOp(const std::string& op, int64_t instances, const Body& f) {
    SCOPED_TRACE(op);
    const Output x = Placeholder<float>({kSamples, 4, 6}),
                 y = Placeholder<float>({kSamples, 4, 6}),
                 v = Placeholder<float>({kSamples, 6});
    const Feeds feeds = {{x, Random({kSamples, 4, 6})},
                         {y, Random({kSamples, 4, 6})},
                         {v, Random({kSamples, 6})}};
    const Output z = Map({x, y, v}, DType::kFloat, f);
    Check(feeds, {z});
    const std::vector<int64_t> sizes = Instances(feeds, {z}, op);
    ASSERT_FALSE(sizes.empty());
    EXPECT_EQ(*std::max_element(sizes.begin(), sizes.end()), instances);
  }

  // A binary tree network over a forest: for node i, the two children or -1,
  // and the word of a leaf.
  struct Forest {
    Output left, right, word, roots;  // Fed.
    Output table, w, b, leaf_w;       // Parameters, fed.
    Output states;                    // By tree.
    Feeds feeds;
    int leaves = 0, inner = 0;
  };
  static constexpr int kUnits = 8, kWords = 20;

  Forest MakeForest(int most_leaves, bool batch = false) {
    std::vector<int32_t> left, right, word, roots;
    Forest f;
    const std::function<int32_t(int)> grow = [&](int n) {
      const auto at = static_cast<int32_t>(left.size());
      left.push_back(-1);
      right.push_back(-1);
      word.push_back(static_cast<int32_t>(random_() % kWords));
      (n == 1 ? f.leaves : f.inner) += 1;
      if (n > 1) {
        const int first =
            1 + static_cast<int>(random_() % static_cast<unsigned>(n - 1));
        const int32_t l = grow(first), r = grow(n - first);
        left[static_cast<size_t>(at)] = l;
        right[static_cast<size_t>(at)] = r;
      }
      return at;
    };
    for (int i = 0; i < kSamples; ++i)
      roots.push_back(grow(
          1 +
          static_cast<int>(random_() % static_cast<unsigned>(most_leaves))));
    f.left = Placeholder<int32_t>({-1});
    f.right = Placeholder<int32_t>({-1});
    f.word = Placeholder<int32_t>({-1});
    f.roots = Placeholder<int32_t>({kSamples});
    f.table = Placeholder<float>({kWords, kUnits});
    f.w = Placeholder<float>({2 * kUnits, 5 * kUnits});
    f.b = Placeholder<float>({5 * kUnits});
    f.leaf_w = Placeholder<float>({kUnits, 2 * kUnits});
    f.feeds = {{f.left, Tensor::Vector<int32_t>(left)},
               {f.right, Tensor::Vector<int32_t>(right)},
               {f.word, Tensor::Vector<int32_t>(word)},
               {f.roots, Tensor::Vector<int32_t>(roots)},
               {f.table, Random({kWords, kUnits})},
               {f.w, Random({2 * kUnits, 5 * kUnits})},
               {f.b, Random({5 * kUnits})},
               {f.leaf_w, Random({kUnits, 2 * kUnits})}};
    const DType i32 = DType::kInt32, f32 = DType::kFloat;
    const Function tree = DefineFunction(
        "tree", {i32, i32, i32, i32, f32, f32, f32, f32}, {f32, f32},
        [](const Function& self, const std::vector<Output>& a) {
          const Output node = a[0], left = a[1], right = a[2], word = a[3],
                       table = a[4], w = a[5], b = a[6], leaf_w = a[7];
          const Output child = GatherV2(left, node, 0);
          const auto [c, h] = Cond(
              child < 0,
              [&] {
                const Output row =
                    ExpandDims(GatherV2(table, GatherV2(word, node, 0), 0), 0);
                const auto parts = Split(1, MatMul(row, leaf_w), 2);
                return std::tuple{parts[0], Tanh(parts[0]) * Sigmoid(parts[1])};
              },
              [&] {
                const auto call = [&](Output child) {
                  return self({child, left, right, word, table, w, b, leaf_w});
                };
                const auto l = call(child), r = call(GatherV2(right, node, 0));
                const auto gates = Split(
                    1, BiasAdd(MatMul(ConcatV2({l[1], r[1]}, 1), w), b), 5);
                const Output c = l[0] * Sigmoid(gates[1]) +
                                 r[0] * Sigmoid(gates[2]) +
                                 Sigmoid(gates[0]) * Tanh(gates[4]);
                return std::tuple{c, Tanh(c) * Sigmoid(gates[3])};
              });
          return std::vector<Output>{c, h};
        },
        {.batch = batch});
    f.states = Map({f.roots}, f32, [&](const std::vector<Output>& root) {
      return tree(
          {root[0], f.left, f.right, f.word, f.table, f.w, f.b, f.leaf_w})[1];
    });
    return f;
  }

  Graph graph_;
  WithGraph use_;
  std::mt19937 random_{20240817};
};

TEST_F(BatchingTest, Elementwise) {
  using Rows = std::vector<Output>;
  CheckOp("Tanh", 5, [](const Rows& r) { return Tanh(r[0]); });
  CheckOp("Mul", 5, [](const Rows& r) { return Mul(r[0], r[1]); });
  CheckOp("AddV2", 5, [](const Rows& r) { return AddV2(r[0], r[2]); });
  CheckOp("AddV2", 5, [](const Rows& r) { return AddV2(r[2], r[0]); });
  CheckOp("AddN", 5, [](const Rows& r) { return AddN({r[0], r[1], r[0]}); });
  CheckOp("TanhGrad", 5, [](const Rows& r) { return TanhGrad(r[0], r[1]); });
  CheckOp("SigmoidGrad", 5,
          [](const Rows& r) { return SigmoidGrad(r[0], r[1]); });
  const Output w = Constant(Random({4, 6})), v = Constant(Random({6}));
  CheckOp("Sub", 5, [&](const Rows& r) { return Sub(w, r[0]); });
  CheckOp("Maximum", 5, [&](const Rows& r) { return Maximum(r[0], v); });
  // An op without broadcasting gets a copy of the constant for each instance.
  CheckOp("AddN", 5, [&](const Rows& r) { return AddN({r[0], w}); });
  CheckOp("BiasAdd", 5, [&](const Rows& r) { return BiasAdd(r[0], v); });
  // One bias each: not the same for all rows.
  CheckOp("BiasAdd", 1, [](const Rows& r) { return BiasAdd(r[0], r[2]); });
}

// What is the same for all instances is computed once.
TEST_F(BatchingTest, EqualInstances) {
  const Output x = Placeholder<float>({kSamples, 4, 6}),
               same = Placeholder<float>({kSamples, 6});
  const Output y = Map({x}, DType::kFloat, [&](const std::vector<Output>& r) {
    return Sum(r[0], 0) + Mul(same, same);
  });
  const Feeds feeds = {{x, Random({kSamples, 4, 6})},
                       {same, Random({kSamples, 6})}};
  Check(feeds, {y});
  EXPECT_EQ(Instances(feeds, {y}, "Mul"), std::vector<int64_t>{kSamples});
}

// More weights at a time than groups are kept.
TEST_F(BatchingTest, ManySignatures) {
  const Output x = Placeholder<float>({kSamples, 4, 6}),
               w = Placeholder<float>({kSamples, 6, 6});
  const Output y =
      Map({x, w}, DType::kFloat, [&](const std::vector<Output>& r) {
        // Rows 0 to n of x times the weights of the sample, for each n.
        const auto [n, sum] = While(
            std::tuple{Constant(1), Zeros({6})},
            [](Output n, Output) { return n < 5; },
            [&](Output n, Output sum) {
              const Output rows =
                  Slice(r[0], Constant(Tensor::Vector<int32_t>({0, 0})),
                        Pack({n, Constant(6)}));
              return std::tuple{n + 1, sum + Sum(MatMul(rows, r[1]), 0)};
            });
        return sum;
      });
  Check({{x, Random({kSamples, 4, 6})}, {w, Random({kSamples, 6, 6})}}, {y});
}

TEST_F(BatchingTest, Products) {
  using Rows = std::vector<Output>;
  const Output w = Constant(Random({6, 3})), t = Constant(Random({3, 6}));
  CheckOp("MatMul", 5, [&](const Rows& r) { return MatMul(r[0], w); });
  const auto transposed = [](bool a, bool b) {
    MatMulAttrs attrs;
    attrs.transpose_a = a;
    attrs.transpose_b = b;
    return attrs;
  };
  CheckOp("MatMul", 5, [&](const Rows& r) {
    return MatMul(r[0], t, transposed(false, true));
  });
  CheckOp("MatMul", 1, [&](const Rows& r) {
    return MatMul(r[0], r[1], transposed(true, false));
  });
  CheckOp("MatMul", 1, [&](const Rows& r) {
    return MatMul(r[0], r[1], transposed(false, true));
  });
  const Output square = Constant(Random({6, 6}));
  CheckOp("MatMulAdd", 5, [&](const Rows& r) {
    return Build("MatMulAdd", {r[0], square, r[1]});
  });
}

TEST_F(BatchingTest, PartsAndRows) {
  using Rows = std::vector<Output>;
  CheckOp("ConcatV2", 5, [](const Rows& r) {
    return ConcatV2({r[0], r[1]}, 1);
  });
  CheckOp("ConcatV2", 5, [](const Rows& r) {
    return ConcatV2({r[0], r[1]}, -1);
  });
  CheckOp("ConcatV2", 5, [](const Rows& r) {
    return ConcatV2({r[0], r[1]}, 0);
  });
  CheckOp("ConcatV2", 5, [](const Rows& r) {
    return ConcatV2({r[0], r[1]}, -2);
  });
  CheckOp("Split", 5, [](const Rows& r) { return Split(1, r[0], 3)[1]; });
  CheckOp("Split", 5, [](const Rows& r) { return Split(0, r[0], 2)[1]; });
  CheckOp("SplitV", 5, [](const Rows& r) {
    return SplitV(r[0], Constant(Tensor::Vector<int64_t>({1, 5})), 1, 2)[1];
  });
  const auto ints = [](std::vector<int32_t> v) {
    return Constant(Tensor::Vector<int32_t>(v));
  };
  CheckOp("Slice", 5, [&](const Rows& r) {
    return Slice(r[0], ints({0, 2}), ints({4, 3}));
  });
  CheckOp("Slice", 5, [&](const Rows& r) {
    return Slice(r[0], ints({0, 2}), ints({-1, -1}));
  });
  CheckOp("Slice", 5, [&](const Rows& r) {
    return Slice(r[0], ints({1, 2}), ints({-1, -1}));
  });
  CheckOp("Slice", 5, [&](const Rows& r) {
    return Slice(r[0], ints({0, 2}), ints({3, 3}));
  });
  const Output table = Constant(Random({7, 3}));
  const auto index = [](const Rows& r) {
    return Cast(Abs(r[0]) * 6.9f, DType::kInt32);
  };
  CheckOp("GatherV2", 5,
          [&](const Rows& r) { return GatherV2(table, index(r), 0); });
  CheckOp("GatherV2", 1, [&](const Rows& r) {
    return GatherV2(table, Minimum(index(r), 2), 1);
  });
  CheckOp("Softmax", 5, [](const Rows& r) { return Softmax(r[0]); });
  CheckOp("Softmax", 5, [](const Rows& r) { return Softmax(r[2]); });
  CheckOp("LogSoftmax", 5, [](const Rows& r) { return LogSoftmax(r[0]); });
  CheckOp("SoftmaxCrossEntropyWithLogits", 5, [](const Rows& r) {
    return SoftmaxCrossEntropyWithLogits(r[0], Softmax(r[1])).loss;
  });
  // Labels of rank 1 broadcast along the rows, however many there are.
  CheckOp("SoftmaxCrossEntropyWithLogits", 1, [](const Rows& r) {
    return SoftmaxCrossEntropyWithLogits(
               ExpandDims(r[2], 0),
               Reshape(Sum(r[2], 0), Constant(Tensor::Vector<int32_t>({1}))))
        .loss;
  });
  CheckOp("SparseSoftmaxCrossEntropyWithLogits", 5, [&](const Rows& r) {
    return SparseSoftmaxCrossEntropyWithLogits(
               r[0], Constant(Tensor::Vector<int32_t>({1, 0, 5, 2})))
        .backprop;
  });
  CheckOp("Sum", 5, [](const Rows& r) { return Sum(r[0], 1); });
  CheckOp("Max", 5, [](const Rows& r) { return Max(r[0], -1); });
  CheckOp("Mean", 5, [](const Rows& r) { return Mean(r[0], 0); });
  CheckOp("Min", 5, [&](const Rows& r) { return Min(r[0], ints({0, 1})); });
  CheckOp("Transpose", 5, [&](const Rows& r) {
    return Transpose(r[0], ints({1, 0}));
  });
  CheckOp("Tile", 5, [&](const Rows& r) { return Tile(r[0], ints({2, 1})); });
  CheckOp("Pad", 5, [&](const Rows& r) {
    return Pad(r[0], Constant(Tensor::Of<int32_t>({2, 2}, {1, 0, 0, 2})));
  });
  CheckOp("Cumsum", 5, [](const Rows& r) { return Cumsum(r[0], 0); });
  // Each with its own right-hand side.
  CheckOp("BatchMatMulV2", 5, [](const Rows& r) {
    BatchMatMulV2Attrs attrs;
    attrs.adj_y = true;
    return BatchMatMulV2(r[0], r[1], attrs);
  });
  // Integers and bools that are found from floats.
  CheckOp("TopKV2", 5, [](const Rows& r) {
    const auto best = TopKV2(r[0], 2);
    return best.values + Cast(best.indices, DType::kFloat);
  });
  CheckOp("ArgMax", 5,
          [](const Rows& r) { return Cast(ArgMax(r[0], 1), DType::kFloat); });
  CheckOp("Less", 5,
          [](const Rows& r) { return SelectV2(Less(r[0], r[1]), r[0], r[1]); });
  CheckOp("OneHot", 5, [](const Rows& r) {
    return OneHot(ArgMax(Concat(1, {r[0], r[1], r[0]}), 1), 18, 1.f, 0.f);
  });
}

// All instances of a level of all trees in one product, however the trees grow.
TEST_F(BatchingTest, RecursiveTrees) {
  const Forest f = MakeForest(12);
  Check(f.feeds, {f.states});
  const std::vector<int64_t> sizes = Instances(f.feeds, {f.states}, "MatMul");
  int64_t sum = 0;
  for (const int64_t n : sizes) sum += n;
  EXPECT_EQ(sum, f.leaves + f.inner);
  // At most one product for each height of a node.
  EXPECT_LE(sizes.size(), 12u);
  EXPECT_GE(*std::max_element(sizes.begin(), sizes.end()), f.leaves);
}

TEST_F(BatchingTest, GradientsOfRecursiveTrees) {
  const Forest f = MakeForest(6);
  const Output loss =
      Sum(f.states * f.states, Constant(Tensor::Vector<int32_t>({0, 1, 2})));
  std::vector<Output> fetches = {loss};
  for (const Output& p : {f.table, f.w, f.b, f.leaf_w})
    fetches.push_back(Grad(loss, p));
  Check(f.feeds, fetches);
  const std::vector<int64_t> sizes = Instances(f.feeds, fetches, "SigmoidGrad");
  ASSERT_FALSE(sizes.empty());
  EXPECT_GT(*std::max_element(sizes.begin(), sizes.end()), 5);
}

// f(n, x) = n < 1 ? tanh(x) : f(n - 1, x * w) + f(n - 1, x + w)
Function BinaryTree() {
  return DefineFunction(
      "binary", {DType::kInt32, DType::kFloat, DType::kFloat}, {DType::kFloat},
      [](const Function& self, const std::vector<Output>& a) {
        return Cond(
            a[0] < 1, [&] { return Tanh(a[1]); },
            [&] {
              return Tanh(self({a[0] - 1, a[1] * a[2], a[2]})[0]) +
                     self({a[0] - 1, a[1] + a[2], a[2]})[0];
            });
      });
}

TEST_F(BatchingTest, OpenCallsAreBounded) {
  const Output n = Placeholder<int32_t>({}), x = Placeholder<float>({32}),
               w = Placeholder<float>({32});
  const Output y = BinaryTree()({n, x, w})[0];
  const std::vector<Output> fetches = {y, Grad(y, x), Grad(y, w)};
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const Feeds feeds = {
      {n, Tensor::Scalar(8)}, {x, Random({32})}, {w, Random({32})}};
  Feeds many = feeds;
  many[0].second = Tensor::Scalar(11);
  Session plain(graph_);
  const auto want = plain.Run(feeds, fetches);
  ASSERT_TRUE(want.ok()) << want.status();
  std::map<int, int64_t> peak;  // Of the forward pass.
  for (const int most : {0, 1, 8, 64}) {
    for (const uint64_t seed : {0, 3}) {
      SCOPED_TRACE(absl::StrCat(most, " frames, seed ", seed));
      SessionOptions options = Batched(seed);
      options.batch_open_frames = most;
      Session session(graph_, options);
      const auto got = session.Run(feeds, fetches);
      ASSERT_TRUE(got.ok()) << got.status();
      for (size_t i = 0; i < fetches.size(); ++i)
        ExpectNear((*got)[i], (*want)[i], fetches[i].name());
      if (seed != 0) continue;
      RunMetadata metadata;
      ASSERT_TRUE(
          session.Run(many, std::vector<Output>{y}, {}, {}, &metadata).ok());
      peak[most] = metadata.step_peak_bytes;
    }
  }
  // (2,048 calls are open at once without a bound.)
  EXPECT_LT(4 * peak[64], peak[0]);
  EXPECT_LT(peak[1], peak[64]);
  EXPECT_LT(peak[512], peak[0]);
  // What waits begins in groups.
  SessionOptions options = Batched();
  options.batch_open_frames = 512;
  const std::vector<int64_t> sizes = Instances(feeds, {y}, "Tanh", options);
  ASSERT_FALSE(sizes.empty());
  EXPECT_GE(*std::max_element(sizes.begin(), sizes.end()), 32);
}

// Calls that wait for others through a store, in the order opposite to the one
// in which they begin.
TEST_F(BatchingTest, CallsThatServeOthersRunHoweverFewMayBeOpen) {
  const Output n = Placeholder<int64_t>({}), x = Placeholder<float>({16});
  const sluice::TensorStore s(DType::kFloat, {.element_shape = {16}});
  // f(k, d): d levels of a tree, whose calls are numbered from 2k and 2k + 1
  // on; each reads what its right sibling has written.
  const Function f = DefineFunction(
      "f", {DType::kInt64, DType::kInt64}, {DType::kFloat},
      [&](const Function& self, const std::vector<Output>& a) {
        const Output k = a[0], d = a[1];
        const Output from = s.Read(k + int64_t{1});
        s.Write(k, Tanh(from * 0.5f + x));
        return Cond(
            d < int64_t{1}, [&] { return from * 0.5f; },
            [&] {
              const Output below = k * int64_t{3};
              s.Write(below + int64_t{2}, x);
              return self({below, d - int64_t{1}})[0] +
                     self({below + int64_t{1}, d - int64_t{1}})[0];
            });
      });
  s.Write(Constant(int64_t{2}), x);
  const Output y = f({Constant(int64_t{1}), n})[0];
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const Feeds feeds = {{n, Tensor::Scalar<int64_t>(6)}, {x, Random({16})}};
  Session plain(graph_);
  const auto want = plain.Run(feeds, std::vector<Output>{y});
  ASSERT_TRUE(want.ok()) << want.status();
  for (const int most : {1, 2, 40})
    for (uint64_t seed = 0; seed < 5; ++seed) {
      SCOPED_TRACE(absl::StrCat(most, " frames, seed ", seed));
      SessionOptions options = Batched(seed);
      options.batch_open_frames = most;
      Session session(graph_, options);
      const auto got = session.Run(feeds, std::vector<Output>{y});
      ASSERT_TRUE(got.ok()) << got.status();
      ExpectNear((*got)[0], (*want)[0], "y");
    }
}

TEST_F(BatchingTest, FailedAndCancelledStepsDropCallsThatWait) {
  const Output n = Placeholder<int32_t>({}), x = Placeholder<float>({32}),
               w = Placeholder<float>({32});
  const Output y = BinaryTree()({n, x, w})[0];
  SessionOptions options = Batched();
  options.batch_open_frames = 16;
  options.max_call_depth = 9;
  Session session(graph_, options);
  for (int round = 0; round < 3; ++round) {
    Feeds feeds = {
        {n, Tensor::Scalar(11)}, {x, Random({32})}, {w, Random({32})}};
    const auto deep = session.Run(feeds, std::vector<Output>{y});
    EXPECT_THAT(std::string(deep.status().message()), HasSubstr("call depth"));
    feeds[0].second = Tensor::Scalar(7);
    EXPECT_TRUE(session.Run(feeds, std::vector<Output>{y}).ok());
  }
}

// Samples that leave their loop after different numbers of iterations, by what
// they compute, with a conditional on the way.
TEST_F(BatchingTest, ValueDependentControlFlow) {
  const Output x = Placeholder<float>({kSamples, 1, 16}),
               w = Placeholder<float>({16, 16});
  const Output y = Map({x}, DType::kFloat, [&](const std::vector<Output>& r) {
    const auto all = Constant(Tensor::Vector<int32_t>({0, 1}));
    const auto [i, state] = While(
        std::tuple{Constant(0), r[0]},
        [&](Output i, Output s) {
          return LogicalAnd(Less(Sum(Abs(s), all), 12.f), i < 20);
        },
        [&](Output i, Output s) {
          const Output next = Tanh(MatMul(s, w));
          return std::tuple{
              i + 1,
              Cond(
                  Sum(next, all) < 0.f, [&] { return next - Sigmoid(s); },
                  [&] { return next * 1.25f + s * 0.5f; })};
        });
    return state;
  });
  const Feeds feeds = {{x, Random({kSamples, 1, 16})}, {w, Random({16, 16})}};
  Check(feeds, {y});
  const std::vector<int64_t> sizes = Instances(feeds, {y}, "MatMul");
  ASSERT_FALSE(sizes.empty());
  EXPECT_EQ(*std::max_element(sizes.begin(), sizes.end()), kSamples);
}

// ---- On request -------------------------------------------------------------

// The plan of a step as a session with no options builds it.
Result<BuiltPlan> PlanOf(const Graph& graph, const Feeds& feeds,
                         const std::vector<Output>& fetches) {
  StepSignature signature;
  for (const auto& [fed, value] : feeds) signature.feeds.push_back(fed);
  signature.fetches = fetches;
  SLUICE_ASSIGN_OR_RETURN(OptimizedStep step,
                          OptimizeStep(graph, signature, true, true));
  return BuildPlan(std::move(step.graph), step.targets,
                   {.batch_frames = BatchFrames::kRequested},
                   [](const Node& n, std::shared_ptr<Kernel>* k) {
                     *k = std::make_shared<Kernel>();
                     return n.op().kernel(n, k->get());
                   });
}

// What is asked for in one loop holds there, and the rest is fused as ever.
TEST_F(BatchingTest, RequestOfALoop) {
  const Output x = Placeholder<float>({kSamples, 4, 6}),
               w = Placeholder<float>({6, 6}), n = Placeholder<int32_t>({});
  const Feeds feeds = {{x, Random({kSamples, 4, 6})},
                       {w, Random({6, 6})},
                       {n, Tensor::Scalar(9)}};
  const auto layer = [&](const std::vector<Output>& r) {
    return Tanh(Softmax(MatMul(r[0], w)));
  };
  const Output asked = Map({x}, DType::kFloat, layer, /*batch=*/true),
               other = Map({x}, DType::kFloat, layer);
  const auto [i, sum] = While(
      std::tuple{Constant(0), Constant(0.f)},
      [&](Output i, Output) { return i < n; },
      [](Output i, Output sum) {
        return std::tuple{i + 1, sum * 0.5f + 1.f};
      });
  const std::vector<Output> fetches = {asked, other, sum};
  Check(feeds, fetches);
  // (Traced steps have no regions.)
  const std::vector<int64_t> sizes =
      Instances(feeds, fetches, "Softmax", SessionOptions());
  EXPECT_EQ(std::count(sizes.begin(), sizes.end(), kSamples), 1);
  EXPECT_EQ(std::count(sizes.begin(), sizes.end(), 1), kSamples);

  const auto built = PlanOf(graph_, feeds, fetches);
  ASSERT_TRUE(built.ok()) << built.status();
  std::map<std::string, int> held, not_held;
  for (const PlanNode& node : built->plan->nodes)
    ++((node.flags & PlanNode::kHeld) != 0 ? held
                                           : not_held)[node.node->op_name()];
  // One region runs the three kernels for all instances.
  EXPECT_EQ(held["_Region"], 1);
  EXPECT_EQ(held["MatMul"] + held["Softmax"] + held["Tanh"], 0);
  // The other loops are regions as a whole: the index and the array's flow of
  // one are left.
  EXPECT_EQ(not_held["Softmax"], 0);
  EXPECT_GE(not_held["_Region"], 2);
  EXPECT_EQ(not_held["NextIteration"], 2);
}

TEST_F(BatchingTest, PlanWithoutARequestHasNoStage) {
  const Forest f = MakeForest(3);
  const auto built = PlanOf(graph_, f.feeds, {f.states});
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->plan->stage, nullptr);
  for (const PlanNode& node : built->plan->nodes)
    EXPECT_EQ(node.flags & PlanNode::kHeld, 0);
}

// Also after a gradient, whose function is another, and in a copy that was
// exported and imported.
TEST_F(BatchingTest, RequestOfAFunction) {
  const Forest f = MakeForest(8, /*batch=*/true);
  const Output loss =
      Sum(f.states * f.states, Constant(Tensor::Vector<int32_t>({0, 1, 2})));
  const std::vector<Output> fetches = {f.states, Grad(loss, f.w)};
  Check(f.feeds, fetches);
  const auto largest = [](const std::vector<int64_t>& sizes) {
    return sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
  };
  EXPECT_GE(largest(Instances(f.feeds, fetches, "MatMul", SessionOptions())),
            f.leaves);
  EXPECT_GT(
      largest(Instances(f.feeds, fetches, "SigmoidGrad", SessionOptions())),
      kSamples);

  const Result<std::string> bytes = ExportGraphDef(graph_);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  Graph copy;
  ASSERT_TRUE(ImportGraphDef(*bytes, copy).ok());
  Feeds feeds;
  for (const auto& [fed, value] : f.feeds)
    feeds.emplace_back(Output(copy.FindNode(fed.node->name()), fed.index),
                       value);
  const auto built =
      PlanOf(copy, feeds,
             {Output(copy.FindNode(f.states.node->name()), f.states.index)});
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_NE(built->plan->stage, nullptr);
}

// The values that a call saved for its gradient leave their Optional within the
// region that reads them, for all calls at once.
TEST_F(BatchingTest, SavedValuesAreUnpackedInRegions) {
  const Forest f = MakeForest(8, /*batch=*/true);
  const Output loss =
      Sum(f.states * f.states, Constant(Tensor::Vector<int32_t>({0, 1, 2})));
  const auto built = PlanOf(graph_, f.feeds, {loss, Grad(loss, f.w)});
  ASSERT_TRUE(built.ok()) << built.status();
  int unpacked = 0;
  for (const PlanNode& node : built->plan->nodes) {
    if (node.node->op_name() != "OptionalGetValue") continue;
    ++unpacked;  // (The predicate, and what the branch saved.)
    for (int i = 0; i < node.node->num_outputs(); ++i)
      EXPECT_FALSE(IsFloating(node.node->output_type(i)))
          << node.node->Describe();
  }
  EXPECT_GT(unpacked, 0);
}

// A request of a loop holds for the functions that it calls.
TEST_F(BatchingTest, RequestReachesFunctionsCalledInALoop) {
  const Output x = Placeholder<float>({kSamples, 1, 16}),
               w = Placeholder<float>({16, 16});
  const Function deep =
      DefineFunction("deep", {DType::kFloat, DType::kInt32}, {DType::kFloat},
                     [&](const Function& self, const std::vector<Output>& a) {
                       return Cond(
                           a[1] < 1, [&] { return a[0]; },
                           [&] {
                             return self({Tanh(MatMul(a[0], w)), a[1] - 1})[0];
                           });
                     });
  const Output y = Map(
      {x}, DType::kFloat,
      [&](const std::vector<Output>& r) {
        return deep({r[0], Constant(3)})[0];
      },
      /*batch=*/true);
  const Feeds feeds = {{x, Random({kSamples, 1, 16})}, {w, Random({16, 16})}};
  Check(feeds, {y});
  const std::vector<int64_t> sizes =
      Instances(feeds, {y}, "MatMul", SessionOptions());
  EXPECT_EQ(sizes, std::vector<int64_t>(3, kSamples));
}

// ---- Errors and ends --------------------------------------------------------

// The instance with the error is named, as without batching.
TEST_F(BatchingTest, ErrorNamesTheInstance) {
  const Output index = Placeholder<int32_t>({kSamples, 2}),
               table = Placeholder<float>({7, 3});
  const Output y = Map(
      {index}, DType::kFloat,
      [&](const std::vector<Output>& r) { return GatherV2(table, r[0], 0); });
  const Feeds feeds = {
      {index,
       Tensor::Of<int32_t>({kSamples, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 0, 0})},
      {table, Random({7, 3})}};
  SessionOptions one_by_one;
  one_by_one.regions = one_by_one.fusion = false;
  Session plain(graph_, one_by_one), batched(graph_, Batched());
  const Status want = plain.Run(feeds, {y}).status();
  const Status got = batched.Run(feeds, {y}).status();
  EXPECT_EQ(got, want);
  EXPECT_THAT(std::string(got.message()), HasSubstr("iteration 3"));
  const Feeds good = {
      {index, Tensor::Zeros(DType::kInt32, {kSamples, 2}).value()},
      {table, Random({7, 3})}};
  EXPECT_TRUE(batched.Run(good, {y}).ok());
}

// The kernels of a region run for all instances before the next one does; the
// error still names the node and the instance.
TEST_F(BatchingTest, ErrorInARegionNamesNodeAndInstance) {
  const Output x = Placeholder<float>({kSamples, 3, 3});
  const Output y = Map({x}, DType::kFloat, [&](const std::vector<Output>& r) {
    return Tanh(MatrixInverse(MatMul(r[0], r[0]))) * 2.f;
  });
  Tensor values = Random({kSamples, 3, 3});
  std::fill_n(values.raw<float>() + 3 * 9, 9, 0.f);
  SessionOptions one_by_one;
  one_by_one.regions = one_by_one.fusion = false;
  Session plain(graph_, one_by_one), batched(graph_, Batched());
  const Status want = plain.Run({{x, values}}, {y}).status();
  EXPECT_THAT(std::string(want.message()),
              AllOf(HasSubstr("(MatrixInverse)"), HasSubstr("iteration 3")));
  for (int run = 0; run < 2; ++run)
    EXPECT_EQ(batched.Run({{x, values}}, {y}).status(), want);
  values.raw<float>()[3 * 9] = values.raw<float>()[3 * 9 + 4] =
      values.raw<float>()[3 * 9 + 8] = 1.f;
  EXPECT_TRUE(batched.Run({{x, values}}, {y}).ok());
}

std::atomic<int> counted_runs{0};

// The negative of x; its kernel counts how often it runs. As a user's own op it
// is checked against its declared shape, that of one instance.
SLUICE_OP(OwnOpsTestCounted)
    .Input("x: float")
    .Output("y: float")
    .Shape(UnchangedShape)
    .Kernel(Cpu(
        [](KernelContext& ctx) {
          ++counted_runs;
          const Tensor& x = ctx.input(0);
          SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kFloat, x.shape()));
          for (int64_t i = 0; i < x.num_elements(); ++i)
            ctx.output(0).raw<float>()[i] = -x.raw<float>()[i];
          return OkStatus();
        },
        /*expensive=*/true))
    .NoGradient("for a test");
const BatchFormRegistrar counted_batch("OwnOpsTestCounted", PartByPart<1>);

// A region reads a table that differs in each iteration: its other kernels run
// together all the same.
TEST_F(BatchingTest, RegionsGatherFromTablesOfTheirInstance) {
  constexpr int kMany = 12;  // More than wait in groups of one.
  const Output x = Placeholder<float>({kMany, 4, 6}),
               w = Placeholder<float>({6, 6});
  const sluice::TensorArray in =
      sluice::TensorArray(DType::kFloat, kMany).Unstack(x);
  const auto [i, out] = While(
      std::tuple{Constant(0), sluice::TensorArray(DType::kFloat, kMany)},
      [](Output i, const sluice::TensorArray&) { return i < kMany; },
      [&](Output i, const sluice::TensorArray& out) {
        const auto [k, h, order] = While(
            std::tuple{Constant(0), in.Read(i),
                       Constant(Tensor::Vector<float>({1, 2, 3, 4}))},
            [](Output k, Output, Output) { return k < 3; },
            [&](Output k, Output h, Output order) {
              const Output next = Tanh(MatMul(h, w)),
                           counted = Build("OwnOpsTestCounted",
                                           {Sum(next, 1) + order});
              const auto top = TopKV2(counted, 4);
              const auto as = [](Output x, const std::vector<int32_t>& shape) {
                return Reshape(x, Constant(Tensor::Vector<int32_t>(shape)));
              };
              return std::tuple{k + 1,
                                as(GatherV2(next, top.indices, 0), {4, 6}),
                                as(top.values, {4})};
            });
        return std::tuple{i + 1, out.Write(i, h)};
      },
      {.parallel_iterations = kMany, .batch = true});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const std::vector<Output> fetches = {out.Stack()};
  const Feeds feeds = {{x, Random({kMany, 4, 6})}, {w, Random({6, 6})}};
  Check(feeds, fetches);
  Session session(graph_);
  counted_runs = 0;
  ASSERT_TRUE(session.Run(feeds, fetches).ok());
  EXPECT_EQ(counted_runs, 3);
}

// Many instances of a region are divided over threads.
TEST_F(BatchingTest, ManyInstancesOnSeveralThreads) {
  constexpr int kMany = 100;
  const Output x = Placeholder<float>({kMany, 4, 4}),
               w = Placeholder<float>({4, 4});
  const sluice::TensorArray in =
      sluice::TensorArray(DType::kFloat, kMany).Unstack(x);
  const auto [i, out] = While(
      std::tuple{Constant(0), sluice::TensorArray(DType::kFloat, kMany)},
      [](Output i, const sluice::TensorArray&) { return i < kMany; },
      [&](Output i, const sluice::TensorArray& out) {
        const Output y = Tanh(MatMul(in.Read(i), w));
        return std::tuple{i + 1, out.Write(i, MatrixInverse(y) + y)};
      },
      {.parallel_iterations = kMany});
  const std::vector<Output> fetches = {out.Stack()};
  Tensor values = Random({kMany, 4, 4});
  for (int n = 0; n < kMany; ++n)  // (Far from singular.)
    for (int d = 0; d < 4; ++d) values.raw<float>()[n * 16 + d * 5] += 4;
  Tensor unit = Tensor::Zeros(DType::kFloat, {4, 4}).value();
  for (int d = 0; d < 4; ++d) unit.raw<float>()[d * 5] = 0.3f;
  const Feeds feeds = {{x, values}, {w, unit}};
  Session plain(graph_);
  const auto want = plain.Run(feeds, fetches);
  ASSERT_TRUE(want.ok()) << want.status();
  SessionOptions options = Batched();
  options.intra_op_threads = 3;
  Session session(graph_, options);
  for (int run = 0; run < 3; ++run) {
    const auto got = session.Run(feeds, fetches);
    ASSERT_TRUE(got.ok()) << got.status();
    ExpectNear((*got)[0], (*want)[0], "all");
  }
  Tensor bad = *values.Clone();
  std::fill_n(bad.raw<float>() + 77 * 16, 16, 0.f);
  const Status error = session.Run({{x, bad}, {w, unit}}, fetches).status();
  EXPECT_THAT(std::string(error.message()),
              AllOf(HasSubstr("(MatrixInverse)"), HasSubstr("iteration 77")));
  EXPECT_TRUE(session.Run(feeds, fetches).ok());
}

// While helpers run parts of a group, the driver goes on with what other parts
// made ready: calls end and begin, saved values are taken, sums are joined.
TEST_F(BatchingTest, TreesOnSeveralThreads) {
  Forest f = MakeForest(200);
  ASSERT_GT(f.leaves, 200);  // Several parts for each thread.
  const Output loss =
      Sum(f.states * f.states, Constant(Tensor::Vector<int32_t>({0, 1, 2})));
  std::vector<Output> fetches = Grad({loss}, {f.table, f.w, f.b, f.leaf_w});
  fetches.push_back(f.states);
  Session plain(graph_);
  const auto want = plain.Run(f.feeds, fetches);
  ASSERT_TRUE(want.ok()) << want.status();
  SessionOptions options = Batched();
  options.intra_op_threads = 3;
  Session session(graph_, options);
  const auto check = [&] {
    const auto got = session.Run(f.feeds, fetches);
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t i = 0; i < fetches.size(); ++i)
      ExpectNear((*got)[i], (*want)[i], fetches[i].name());
  };
  for (int run = 0; run < 5; ++run) check();
  // Parts that run when the step fails.
  Tensor& words = f.feeds[2].second;
  const Tensor good = words;
  words = *good.Clone();
  for (int32_t& word : words.flat<int32_t>())
    if (random_() % 40 == 0) word = kWords;
  for (int run = 0; run < 5; ++run)
    EXPECT_THAT(std::string(session.Run(f.feeds, fetches).status().message()),
                AllOf(HasSubstr("got 20"), HasSubstr("(GatherV2)"),
                      HasSubstr("function 'tree")));
  words = good;
  check();
}

// A step that ends in the midst of held nodes leaves nothing behind.
TEST_F(BatchingTest, DeadlineAmongHeldNodes) {
  const Output x = Placeholder<float>({kSamples, 32, 32}),
               n = Placeholder<int32_t>({});
  const Output y = Map({x}, DType::kFloat, [&](const std::vector<Output>& r) {
    const auto [i, s] = While(
        std::tuple{Constant(0), r[0]}, [&](Output i, Output) { return i < n; },
        [&](Output i, Output s) {
          return std::tuple{i + 1, Tanh(s)};
        });
    return s;
  });
  Session session(graph_, Batched());
  const Tensor values = Random({kSamples, 32, 32});
  RunOptions options;
  options.timeout_ms = 50;
  const Status s = session
                       .Run({{x, values}, {n, Tensor::Scalar(INT32_MAX)}}, {y},
                            {}, options, nullptr)
                       .status();
  EXPECT_EQ(s.code(), StatusCode::kDeadlineExceeded) << s;
  Check({{x, values}, {n, Tensor::Scalar(3)}}, {y});
  EXPECT_TRUE(session.Run({{x, values}, {n, Tensor::Scalar(3)}}, {y}).ok());
}

// Cancelled at any moment, also among held nodes; the session goes on.
TEST_F(BatchingTest, CancellationAmongHeldNodes) {
  const Output x = Placeholder<float>({kSamples, 8, 8}),
               n = Placeholder<int32_t>({});
  const Output y = Map({x}, DType::kFloat, [&](const std::vector<Output>& r) {
    const auto [i, s] = While(
        std::tuple{Constant(0), r[0]}, [&](Output i, Output) { return i < n; },
        [&](Output i, Output s) {
          return std::tuple{i + 1, Tanh(s * s)};
        });
    return s;
  });
  const Tensor values = Random({kSamples, 8, 8});
  Session session(graph_, Batched());
  for (int round = 0; round < 20; ++round) {
    Cancellation cancellation;
    std::thread t([&] {
      RunOptions options;
      options.cancellation = &cancellation;
      EXPECT_EQ(session
                    .Run({{x, values}, {n, Tensor::Scalar(INT32_MAX)}}, {y}, {},
                         options, nullptr)
                    .status()
                    .code(),
                StatusCode::kCancelled);
    });
    for (std::atomic<int> i{0}; i < round * 3000; ++i) {
    }
    cancellation.Cancel();
    t.join();
    EXPECT_TRUE(session.Run({{x, values}, {n, Tensor::Scalar(2)}}, {y}).ok());
  }
}

// Other trees in each step, of other sizes: nothing is kept for a structure.
TEST_F(BatchingTest, MemoryIsFlatOverVariedSamples) {
  constexpr int kSteps = kSanitized ? 200 : 20'000;  // Of five samples.
  const Forest f = MakeForest(6);
  Session session(graph_, Batched());
  const auto step = session.MakeCallable(
      {f.left, f.right, f.word, f.roots, f.table, f.w, f.b, f.leaf_w},
      {f.states});
  ASSERT_TRUE(step.ok()) << step.status();
  int64_t settled = 0;
  for (int i = 0; i < kSteps; ++i) {
    std::vector<int32_t> left, right, word, roots;
    const std::function<int32_t(int)> grow = [&](int n) {
      const size_t at = left.size();
      left.push_back(-1);
      right.push_back(-1);
      word.push_back(static_cast<int32_t>(random_() % kWords));
      if (n > 1) {
        const int first =
            1 + static_cast<int>(random_() % static_cast<unsigned>(n - 1));
        const int32_t l = grow(first), r = grow(n - first);
        left[at] = l;
        right[at] = r;
      }
      return static_cast<int32_t>(at);
    };
    for (int k = 0; k < kSamples; ++k)
      roots.push_back(grow(1 + static_cast<int>(random_() % 6)));
    std::vector<Tensor> fed = {
        Tensor::Vector<int32_t>(left), Tensor::Vector<int32_t>(right),
        Tensor::Vector<int32_t>(word), Tensor::Vector<int32_t>(roots)};
    for (size_t k = 4; k < f.feeds.size(); ++k)
      fed.push_back(f.feeds[k].second);
    const auto got = step->Run(fed);
    ASSERT_TRUE(got.ok()) << got.status();
    fed.clear();
    if (i == kSteps / 10) settled = Allocator::Cpu()->stats().live_bytes;
  }
  EXPECT_LE(Allocator::Cpu()->stats().live_bytes, settled + 4096);
}

}  // namespace
}  // namespace sluice::batching_test
