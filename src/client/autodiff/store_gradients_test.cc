// Gradients through TensorStores, against finite differences.
#include <random>

#include "client/control/functions.h"
#include "client/control/tensor_store.h"
#include "client/testing/gradient_test_util.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class StoreGradientTest : public GradientTest {};

TEST_F(StoreGradientTest, SumsThePartsOfAllReads) {
  const Output x = In();
  const TensorStore s(DType::kDouble);
  s.Write(3, x * x);
  const Output y = ops::Sin(s.Read(3)) * s.Read(3) + s.Read(3);
  ExpectGradients(y, {{x, Scalar(0.7)}}, 3);
}

TEST_F(StoreGradientTest, ChainsOfKeysInAnyOrderOfNodes) {
  const Output x = In();
  const TensorStore s(DType::kDouble, {.key_dtype = DType::kString});
  const Output y = s.Read("c") * s.Read("a");
  s.Write("c", ops::Sin(s.Read("b")) * s.Read("a"));
  s.Write("b", s.Read("a") * s.Read("a"));
  s.Write("a", x * 2.0);
  ExpectGradients(y, {{x, Scalar(0.4)}}, 2);
}

TEST_F(StoreGradientTest, ReadsWithoutAGradientDoNotCount) {
  const Output x = In();
  const TensorStore s(DType::kDouble);
  s.Write(0, x * x);
  s.Write(1, x * 5.0);  // Never read.
  const Output stopped = ops::StopGradient(s.Read(0));
  const Output other = ops::Exp(s.Read(0));  // On no path to y.
  const Output y = s.Read(0) * stopped;
  const Output g = Grad(y, x);
  Session session(graph_);
  const auto got = session.Run({{x, Scalar(3)}}, {g, other});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_DOUBLE_EQ((*got)[0].scalar<double>(), 2 * 3.0 * 9.0);
}

TEST_F(StoreGradientTest, AKeyWithoutReadsGivesZeros) {
  const Output x = In({2}, "x"), z = In();
  const TensorStore s(DType::kDouble);
  s.Write(0, z * 2.0);
  s.Write(1, SumOf(x * x));
  const Output k = Placeholder<int64_t>({}, "k");
  const Output y = s.Read(k) * z;
  const std::vector<Output> gs = Grad({y}, {x, z});
  Session session(graph_);
  const Feeds feeds = {{x, Tensor::Vector<double>({1, 2})},
                       {z, Scalar(3)},
                       {k, Tensor::Scalar<int64_t>(0)}};
  const auto got = session.Run(feeds, gs);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].ToVector<double>(), ::testing::ElementsAre(0, 0));
  EXPECT_DOUBLE_EQ((*got)[1].scalar<double>(), 12);
}

TEST_F(StoreGradientTest, ReadManyGivesEachKeyItsRow) {
  const Output x = In({2}, "x");
  const TensorStore s(DType::kDouble, {.element_shape = {2}});
  s.Write(5, x * x);
  s.Write(7, ops::Sin(x));
  const Output rows = s.ReadMany(Constant(Tensor::Vector<int64_t>({7, 5, 7})));
  const Output y =
      SumOf(rows * rows *
            Constant(Tensor::Of<double>(Shape({3, 2}), {1, 2, 3, 4, 5, 6})));
  ExpectGradients(y, {{x, Tensor::Vector<double>({0.3, 0.8})}}, 2);
}

TEST_F(StoreGradientTest, ReadManyOfKeysOfUnknownRank) {
  const Output x = In();
  const TensorStore s(DType::kDouble,
                      {.element_shape = PartialShape::Scalar()});
  s.Write(5, x * x);
  s.Write(7, ops::Sin(x));
  const Output keys = Placeholder<int64_t>(PartialShape(), "keys");
  const Output rows = s.ReadMany(keys);
  const Output g = Grad(SumOf(rows * rows), x);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Session session(graph_);
  const auto got =
      session.Run({{x, Scalar(0.3)}, {keys, Tensor::Vector<int64_t>({7, 5})}},
                  std::vector<Output>{g});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_NEAR((*got)[0].scalar<double>(),
              4 * 0.3 * 0.3 * 0.3 + 2 * std::sin(0.3) * std::cos(0.3), 1e-12);
}

TEST_F(StoreGradientTest, BranchesCountWhatTheyRead) {
  const Output x = In();
  const TensorStore s(DType::kDouble);
  s.Write(0, x * x);
  const Output y = Cond(
      x < 1.0, [&] { return ops::Sin(s.Read(0)) * s.Read(0); },
      [&] { return x * 2.0; });
  const Output sum = y * x + s.Read(0);
  for (const double v : {0.5, 1.5}) ExpectGradients(sum, {{x, Scalar(v)}}, 2);
}

TEST_F(StoreGradientTest, WritesMayBeInBranches) {
  const Output x = In();
  const TensorStore s(DType::kDouble);
  Cond(
      x < 1.0, [&] { return s.Write(0, x * x); },
      [&] { return s.Write(0, ops::Sin(x)); });
  const Output y = s.Read(0) * x;
  for (const double v : {0.5, 1.5}) ExpectGradients(y, {{x, Scalar(v)}}, 2);
}

// A loop whose iterations read what others write, in the order of `order`.
TEST_F(StoreGradientTest, LoopOverAChainInReverse) {
  const Output x = In(), w = In(PartialShape::Scalar(), "w");
  const TensorStore s(DType::kDouble,
                      {.element_shape = PartialShape::Scalar()});
  s.Write(6, x);
  While(
      std::tuple{0}, [&](Output i) { return i < 6; },
      [&](Output i) {
        s.Write(i, ops::Sin(s.Read(i + 1) * w));
        return std::tuple{i + 1};
      },
      {.parallel_iterations = 8});
  const Output y = s.Read(0) * s.Read(3);
  ExpectGradients(y, {{x, Scalar(0.7)}, {w, Scalar(1.1)}}, 2);
}

TEST_F(StoreGradientTest, StoresWithinALoop) {
  const Output x = In();
  const auto [i, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 3; },
      [&](Output i, Output y) {
        const TensorStore s(DType::kDouble,
                            {.element_shape = PartialShape::Scalar()});
        const Output z = s.Read(1) * s.Read(0);
        s.Write(1, ops::Sin(s.Read(0)));
        s.Write(0, y * y);
        return std::tuple{i + 1, z + y};
      });
  ExpectGradients(y, {{x, Scalar(0.6)}}, 2);
}

TEST_F(StoreGradientTest, ReadsOfOneLoopMayServeAnother) {
  const Output x = In();
  const TensorStore s(DType::kDouble,
                      {.element_shape = PartialShape::Scalar()});
  const auto [i, y] = While(
      std::tuple{0, Constant(0.0)}, [&](Output i, Output) { return i < 4; },
      [&](Output i, Output y) {
        return std::tuple{i + 1, y + s.Read(i) * s.Read(3 - i)};
      },
      {.parallel_iterations = 8});
  While(
      std::tuple{0}, [&](Output i) { return i < 4; },
      [&](Output i) {
        s.Write(3 - i, ops::Sin(x * ops::Cast(i, DType::kDouble)));
        return std::tuple{i + 1};
      });
  ExpectGradients(y, {{x, Scalar(0.6)}}, 2);
}

// Random DAGs: node i reads some nodes before it in a hidden topological order,
// while the loop runs through the nodes in another.
TEST_F(StoreGradientTest, RandomDagsMatchAPlainEvaluation) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 4; ++round) {
    constexpr int64_t kNodes = 12;
    std::vector<int64_t> order(kNodes), topological(kNodes);
    for (int64_t i = 0; i < kNodes; ++i)
      order[static_cast<size_t>(i)] = topological[static_cast<size_t>(i)] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::shuffle(topological.begin(), topological.end(), random);
    std::vector<int64_t> left(kNodes), right(kNodes);
    std::vector<double> value(kNodes);
    const double v = 0.8, u = 0.9;
    for (size_t k = 0; k < kNodes; ++k) {
      const auto n = static_cast<size_t>(topological[k]);
      // (-1: the input.)
      const auto pick = [&]() -> int64_t {
        const auto at = static_cast<int64_t>(random() % (k + 1));
        return at == 0 ? -1 : topological[static_cast<size_t>(at - 1)];
      };
      left[n] = pick();
      right[n] = pick();
      const auto of = [&](int64_t m) {
        return m < 0 ? v : value[static_cast<size_t>(m)];
      };
      value[n] = std::sin(of(left[n]) * u) + 0.5 * of(right[n]);
    }
    Graph graph;
    const WithGraph here(graph);
    const Output x = In(), w = In(PartialShape::Scalar(), "w");
    const TensorStore s(DType::kDouble,
                        {.element_shape = PartialShape::Scalar()});
    const Output in_order = Constant(Tensor::Vector<int64_t>(order)),
                 lefts = Constant(Tensor::Vector<int64_t>(left)),
                 rights = Constant(Tensor::Vector<int64_t>(right));
    While(
        std::tuple{0}, [&](Output i) { return i < static_cast<int>(kNodes); },
        [&](Output i) {
          const Output n = ops::Gather(in_order, i);
          s.Write(n, ops::Sin(s.Read(ops::Gather(lefts, n)) * w) +
                         s.Read(ops::Gather(rights, n)) * 0.5);
          return std::tuple{i + 1};
        },
        {.parallel_iterations = static_cast<int>(kNodes) + 1});
    s.Write(-1, x);
    const Output root = s.Read(topological.back());
    const std::vector<Output> first = Grad({root}, {x, w});
    const std::vector<Output> second =
        Grad({first[0] * first[0] + first[1]}, {x, w});
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    const auto run = [&](double at_x, double at_w, uint64_t scheduler,
                         const std::vector<Output>& fetches) {
      Session session(graph, Seeded(scheduler));
      const Result<std::vector<Tensor>> got =
          session.Run({{x, Scalar(at_x)}, {w, Scalar(at_w)}}, fetches);
      EXPECT_TRUE(got.ok()) << got.status();
      std::vector<double> values;
      if (got.ok())
        for (const Tensor& t : *got) values.push_back(t.scalar<double>());
      values.resize(fetches.size(), NAN);
      return values;
    };
    for (const uint64_t scheduler : {uint64_t{0}, random() | 1}) {
      const auto y = run(v, u, scheduler, {root, first[0], first[1]});
      EXPECT_NEAR(y[0], value[static_cast<size_t>(topological.back())], 1e-12);
      const double h = 1e-5;
      const auto f = [&](double a, double b) {
        return run(a, b, scheduler, {root})[0];
      };
      EXPECT_NEAR(y[1], (f(v + h, u) - f(v - h, u)) / (2 * h), 1e-6);
      EXPECT_NEAR(y[2], (f(v, u + h) - f(v, u - h)) / (2 * h), 1e-6);
      const auto g = run(v, u, scheduler, second);
      const auto p = [&](double a, double b) {
        const auto d = run(a, b, scheduler, first);
        return d[0] * d[0] + d[1];
      };
      EXPECT_NEAR(g[0], (p(v + h, u) - p(v - h, u)) / (2 * h), 1e-5);
      EXPECT_NEAR(g[1], (p(v, u + h) - p(v, u - h)) / (2 * h), 1e-5);
    }
  }
}

TEST_F(StoreGradientTest, FunctionsThatReadAndWrite) {
  const Output x = In();
  const TensorStore s(DType::kDouble,
                      {.element_shape = PartialShape::Scalar()});
  const Function next =
      DefineFunction("next", {DType::kInt64, DType::kDouble},
                     [&](const std::vector<Output>& a) {
                       const Output before = s.Read(a[0]);
                       s.Write(a[0] + int64_t{1}, ops::Sin(before) * a[1]);
                       return before * a[1];
                     });
  const auto number = [](int64_t n) { return Constant(n); };
  next({number(2), x});  // No result of this call is used.
  next({number(0), x});
  const Output y = next({number(1), x * x})[0] + s.Read(3);
  s.Write(0, x * 1.5);
  ExpectGradients(y, {{x, Scalar(0.7)}}, 2);
}

// A store that a function makes for itself.
TEST_F(StoreGradientTest, StoresWithinAFunction) {
  const Output x = In();
  const Function f =
      DefineFunction("f", {DType::kDouble}, [&](const std::vector<Output>& a) {
        const TensorStore s(DType::kDouble,
                            {.element_shape = PartialShape::Scalar()});
        const Output y = s.Read(1) * s.Read(0);
        s.Write(1, ops::Sin(s.Read(0)));
        s.Write(0, a[0] * a[0]);
        return y;
      });
  const Output y = f({x})[0] * f({x + 0.5})[0];
  ExpectGradients(y, {{x, Scalar(0.7)}}, 2);
}

// ---- Recursive functions

using Args = std::vector<Output>;

Output Number(int64_t n) { return Constant(n); }

TEST_F(StoreGradientTest, RecursiveFunctionsRead) {
  const Output x = In();
  const TensorStore s(DType::kDouble);
  const Function product = DefineFunction(
      "product", {DType::kInt64}, {DType::kDouble},
      [&](const Function& self, const Args& a) {
        return Cond(
            a[0] < int64_t{1}, [&] { return s.Read(0); },
            [&] { return s.Read(a[0]) * self({a[0] - int64_t{1}})[0]; });
      });
  for (int64_t i = 0; i < 4; ++i)
    s.Write(i, ops::Sin(x * static_cast<double>(i + 1)));
  ExpectGradients(product({Number(3)})[0] * s.Read(1), {{x, Scalar(0.7)}});
}

TEST_F(StoreGradientTest, RecursiveFunctionsWrite) {
  const Output x = In();
  const TensorStore s(DType::kDouble);
  const Function fill = DefineFunction(
      "fill", {DType::kInt64, DType::kDouble}, {DType::kInt64},
      [&](const Function& self, const Args& a) {
        return Cond(
            a[0] < int64_t{1}, [&] { return a[0]; },
            [&] {
              s.Write(a[0], a[1]);
              return self({a[0] - int64_t{1}, ops::Sin(a[1]) * a[1]})[0];
            });
      });
  fill({Number(3), x * x});
  ExpectGradients(s.Read(2) * s.Read(1) + s.Read(3), {{x, Scalar(0.9)}});
}

// A tree whose nodes get the states of their children from the store: node k
// has the children 2k and 2k + 1.
Function TreeByStore(const TensorStore& s, const Output& x, const Output& w,
                     int64_t leaves) {
  return DefineFunction(
      "tree", {DType::kInt64}, {DType::kInt64},
      [&](const Function& self, const Args& a) {
        const Output k = a[0];
        return Cond(
            k >= leaves,
            [&] {
              s.Write(k, ops::Sin(x * ops::Cast(k, DType::kDouble)));
              return k;
            },
            [&] {
              const Output left = k * int64_t{2}, right = left + int64_t{1};
              s.Write(k, ops::Tanh(s.Read(left) * w) + s.Read(right) * 0.5);
              return self({left})[0] + self({right})[0];
            });
      });
}

TEST_F(StoreGradientTest, TreesByRecursionAndStore) {
  const Output x = In(), w = In(PartialShape::Scalar(), "w");
  const TensorStore s(DType::kDouble,
                      {.element_shape = PartialShape::Scalar()});
  TreeByStore(s, x, w, 8)({Number(1)});
  ExpectGradients(s.Read(1) * s.Read(3), {{x, Scalar(0.3)}, {w, Scalar(1.1)}});
}

TEST_F(StoreGradientTest, TreesByRecursionAndStoreInBatches) {
  const Output x = In(), w = In(PartialShape::Scalar(), "w");
  const TensorStore s(DType::kDouble,
                      {.element_shape = PartialShape::Scalar()});
  TreeByStore(s, x, w, 16)({Number(1)});
  const std::vector<Output> gs = Grad({s.Read(1)}, {x, w});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const Feeds feeds = {{x, Scalar(0.3)}, {w, Scalar(1.1)}};
  SessionOptions batched;
  batched.batch_frames = true;
  Session plain(graph_), together(graph_, batched);
  const auto want = plain.Run(feeds, gs), got = together.Run(feeds, gs);
  ASSERT_TRUE(want.ok()) << want.status();
  ASSERT_TRUE(got.ok()) << got.status();
  for (size_t i = 0; i < 2; ++i)
    EXPECT_NEAR((*got)[i].scalar<double>(), (*want)[i].scalar<double>(), 1e-12);
}

TEST_F(StoreGradientTest, CallsInALoopReadAndWrite) {
  const Output x = In();
  const TensorStore s(DType::kDouble,
                      {.element_shape = PartialShape::Scalar()});
  // f(k, n): the product of n elements from k on.
  const Function f = DefineFunction(
      "f", {DType::kInt64, DType::kInt64}, {DType::kDouble},
      [&](const Function& self, const Args& a) {
        return Cond(
            a[1] < int64_t{1}, [&] { return Constant(1.0); },
            [&] {
              return s.Read(a[0]) *
                     self({a[0] + int64_t{1}, a[1] - int64_t{1}})[0];
            });
      },
      {.result_shapes = {PartialShape::Scalar()}});
  s.Write(0, x);
  const auto [i, y] = While(
      std::tuple{int64_t{0}, Constant(0.0)},
      [&](Output i, Output) { return i < int64_t{3}; },
      [&](Output i, Output y) {
        const Output product = f({i * int64_t{0}, i + int64_t{1}})[0];
        s.Write(i + int64_t{1}, ops::Sin(product + x));
        return std::tuple{i + int64_t{1}, y + product};
      });
  ExpectGradients(y + s.Read(3), {{x, Scalar(0.6)}});
}

TEST_F(StoreGradientTest, RecursiveFunctionsReadInLoops) {
  const Output x = In();
  const TensorStore s(DType::kDouble,
                      {.element_shape = PartialShape::Scalar()});
  const Function f = DefineFunction(
      "f", {DType::kInt64}, {DType::kDouble},
      [&](const Function& self, const Args& a) {
        return Cond(
            a[0] < int64_t{1}, [&] { return Constant(0.5); },
            [&] {
              const auto [i, sum] = While(
                  std::tuple{int64_t{0}, self({a[0] - int64_t{1}})[0]},
                  [&](Output i, Output) { return i < a[0]; },
                  [&](Output i, Output sum) {
                    return std::tuple{i + int64_t{1},
                                      ops::Sin(sum * s.Read(i))};
                  });
              s.Write(a[0], sum * x);
              return sum;
            });
      });
  s.Write(0, x * x);
  ExpectGradients(f({Number(3)})[0] + s.Read(2), {{x, Scalar(0.8)}});
}

// The key is the same in all iterations, so that nothing but the pivot of the
// body keeps the read, and what announces it, out of the last one.
TEST_F(StoreGradientTest, RecursiveFunctionsReadOneKeyInLoops) {
  const Output x = In();
  const TensorStore s(DType::kDouble,
                      {.element_shape = PartialShape::Scalar()});
  const Function f = DefineFunction(
      "f", {DType::kDouble, DType::kInt64}, {DType::kDouble},
      [&](const Function& self, const Args& a) {
        return Cond(
            a[1] < int64_t{1}, [&] { return a[0] * 1.0; },
            [&] {
              s.Write(a[1], ops::Sin(a[0]));
              const Output y = std::get<1>(While(
                  std::tuple{0, a[0]}, [](Output i, Output) { return i < 3; },
                  [&](Output i, Output y) {
                    return std::tuple{i + 1, ops::Sin(y + s.Read(a[1]))};
                  }));
              return self({y, a[1] - int64_t{1}})[0] * y;
            });
      },
      {.arg_shapes = {PartialShape::Scalar(), PartialShape::Scalar()},
       .result_shapes = {PartialShape::Scalar()}});
  ExpectGradients(f({x, Number(3)})[0], {{x, Scalar(0.8)}});
}

TEST_F(StoreGradientTest, MutualRecursionPassesAStoreOn) {
  const Output x = In();
  const TensorStore s(DType::kDouble,
                      {.element_shape = PartialShape::Scalar()});
  const Function odd =
      DeclareFunction("odd", {DType::kInt64, DType::kResource, DType::kDouble},
                      {DType::kDouble});
  const auto next = [](const Args& a) {
    return Args{a[0] - int64_t{1}, a[1], ops::Sin(a[2])};
  };
  const auto store = [](const Output& handle) {
    return TensorStore::FromHandle(handle, DType::kDouble);
  };
  const Function even =
      DefineFunction("even", {DType::kInt64, DType::kResource, DType::kDouble},
                     [&](const Args& a) {
                       return Cond(
                           a[0] < int64_t{1}, [&] { return a[2]; },
                           [&] {
                             store(a[1]).Write(a[0], a[2] * 3.0);
                             return odd(next(a))[0] * 2.0;
                           });
                     });
  DefineFunction("odd", {DType::kInt64, DType::kResource, DType::kDouble},
                 [&](const Args& a) {
                   return Cond(
                       a[0] < int64_t{1}, [&] { return a[2]; },
                       [&] {
                         return even(next(a))[0] *
                                store(a[1]).Read(a[0] + int64_t{1});
                       });
                 });
  const Output y = even({Number(4), s.handle(), x})[0];
  ExpectGradients(y * s.Read(2), {{x, Scalar(0.8)}});
}

// Each call makes a store, for itself and for the calls within.
TEST_F(StoreGradientTest, RecursiveFunctionsMakeStores) {
  const Output x = In();
  const Function f = DefineFunction(
      "f", {DType::kInt64, DType::kResource, DType::kDouble}, {DType::kDouble},
      [&](const Function& self, const Args& a) {
        const TensorStore given = TensorStore::FromHandle(a[1], DType::kDouble);
        return Cond(
            a[0] < int64_t{1}, [&] { return given.Read(0) * a[2]; },
            [&] {
              const TensorStore mine(DType::kDouble);
              mine.Write(0, ops::Sin(given.Read(0) + a[2]));
              const Output y =
                  self({a[0] - int64_t{1}, mine.handle(), a[2] * 1.1})[0];
              return y * mine.Read(0) + given.Read(0);
            });
      });
  const TensorStore s(DType::kDouble);
  s.Write(0, x * x);
  ExpectGradients(f({Number(3), s.handle(), x})[0], {{x, Scalar(0.7)}});
}

TEST_F(StoreGradientTest, PrivateStoresOfRecursiveFunctionsHaveAllOrders) {
  const Output x = In();
  const Function f = DefineFunction(
      "f", {DType::kInt64, DType::kDouble}, {DType::kDouble},
      [&](const Function& self, const Args& a) {
        return Cond(
            a[0] < int64_t{1}, [&] { return a[1]; },
            [&] {
              const TensorStore mine(DType::kDouble);
              mine.Write(0, ops::Sin(a[1]));
              return self({a[0] - int64_t{1}, mine.Read(0) * a[1]})[0] *
                     mine.Read(0);
            });
      });
  ExpectGradients(f({Number(3), x})[0], {{x, Scalar(0.7)}}, 2);
}

TEST_F(StoreGradientTest, ArgumentsChooseBetweenStores) {
  const Output x = In();
  const TensorStore one(DType::kDouble), two(DType::kDouble);
  const Function f = DefineFunction(
      "f", {DType::kInt64, DType::kResource, DType::kResource},
      {DType::kDouble}, [&](const Function& self, const Args& a) {
        return Cond(
            a[0] < int64_t{1}, [&] { return Constant(1.0); },
            [&] {
              const Output either = Cond(
                  ops::Equal(ops::FloorMod(a[0], int64_t{2}), int64_t{0}),
                  [&] { return a[1]; }, [&] { return a[2]; });
              const TensorStore s =
                  TensorStore::FromHandle(either, DType::kDouble);
              // (The two change places in the call.)
              return s.Read(a[0]) * self({a[0] - int64_t{1}, a[2], a[1]})[0];
            });
      });
  for (int64_t k = 1; k < 5; ++k) {
    one.Write(k, ops::Sin(x * static_cast<double>(k)));
    two.Write(k, ops::Exp(x * (0.1 * static_cast<double>(k))));
  }
  ExpectGradients(f({Number(4), one.handle(), two.handle()})[0],
                  {{x, Scalar(0.7)}});
}

TEST_F(StoreGradientTest, AStepWithOneOfTheGradientsRuns) {
  const Output x = In(), w = In(PartialShape::Scalar(), "w");
  const TensorStore s(DType::kDouble);
  TreeByStore(s, x, w, 4)({Number(1)});
  const std::vector<Output> gs = Grad({s.Read(1)}, {x, w});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const Feeds feeds = {{x, Scalar(0.3)}, {w, Scalar(1.1)}};
  const double h = 1e-6;
  for (size_t i = 0; i < 2; ++i) {
    Feeds low = feeds, high = feeds;
    low[i].second = Scalar(low[i].second.scalar<double>() - h);
    high[i].second = Scalar(high[i].second.scalar<double>() + h);
    EXPECT_NEAR(Value(gs[i], feeds),
                (Value(s.Read(1), high) - Value(s.Read(1), low)) / (2 * h),
                1e-6);
  }
}

TEST_F(StoreGradientTest, SecondGradientsOfRecursionOverAStoreAreErrors) {
  const Output x = In();
  const TensorStore s(DType::kDouble);
  const Function f = DefineFunction(
      "f", {DType::kInt64}, {DType::kDouble},
      [&](const Function& self, const Args& a) {
        return Cond(
            a[0] < int64_t{1}, [&] { return s.Read(0); },
            [&] { return s.Read(a[0]) * self({a[0] - int64_t{1}})[0]; });
      });
  s.Write(0, x);
  s.Write(1, x * x);
  const Output g = Grad(f({Number(1)})[0], x);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Grad(g, x);
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("one gradient, of first order"));
}

TEST_F(StoreGradientTest, FunctionsThatReturnAStoreAreErrors) {
  const Output x = In();
  const TensorStore s(DType::kDouble);
  const Function f = DefineFunction(
      "f", {DType::kInt64, DType::kDouble}, {DType::kResource, DType::kDouble},
      [&](const Function& self, const Args& a) {
        return Cond(
            a[0] < int64_t{1},
            [&] {
              s.Write(0, a[1]);
              return Args{s.handle(), a[1]};
            },
            [&] {
              return self({a[0] - int64_t{1}, a[1] * a[1]});
            });
      });
  const Args results = f({Number(1), x});
  const Output y = Grad(results[1], x);
  Session session(graph_);
  const auto got = session.Run({{x, Scalar(2)}}, std::vector<Output>{y});
  EXPECT_THAT(std::string(graph_.status().ok() ? got.status().message()
                                               : graph_.status().message()),
              HasSubstr("returns a handle"));
}

// ---- Stores that steps share

// What the step writes has a gradient; what others have written is constant.
TEST_F(StoreGradientTest, SharedStoresHaveTheGradientOfTheStepsWrites) {
  const Output x = In(), old = In(PartialShape::Scalar(), "old");
  const Output key = Placeholder<int64_t>({}, "key");
  const TensorStore s(DType::kDouble, {.shared_name = "kept"});
  const Output before = s.Write(-1, old);
  s.Write(key, x * x);
  const Output y = s.Read(key) * s.Read(key) * s.Read(-1);
  const Output g = Grad(y, x);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Session session(graph_);
  ASSERT_TRUE(session.Run({{old, Scalar(5)}}, before).ok());
  for (int64_t step = 0; step < 3; ++step) {
    const auto got = session.Run({{x, Scalar(2.0 + static_cast<double>(step))},
                                  {key, Tensor::Scalar<int64_t>(step)}},
                                 std::vector<Output>{g});
    const double v = 2.0 + static_cast<double>(step);
    // y = 5 x^4
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_DOUBLE_EQ((*got)[0].scalar<double>(), 20 * v * v * v);
  }
}

TEST_F(StoreGradientTest, SharedStoresInRecursiveFunctions) {
  const Output x = In();
  const Output base = Placeholder<int64_t>({}, "base");
  const TensorStore s(DType::kDouble, {.shared_name = "kept"});
  const Function f = DefineFunction(
      "f", {DType::kInt64, DType::kDouble}, {DType::kDouble},
      [&](const Function& self, const Args& a) {
        return Cond(
            ops::Equal(ops::FloorMod(a[0], int64_t{10}), int64_t{0}),
            [&] { return a[1]; },
            [&] {
              s.Write(a[0], ops::Sin(a[1]));
              return self({a[0] - int64_t{1}, a[1] * 1.5})[0] * s.Read(a[0]);
            });
      });
  const Output y = f({base + int64_t{3}, x})[0];
  const Output g = Grad(y, x);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Session session(graph_);
  int64_t at = 0;
  const auto run = [&](double v, const Output& fetch) {
    at += 10;
    const auto got =
        session.Run({{x, Scalar(v)}, {base, Tensor::Scalar<int64_t>(at)}},
                    std::vector<Output>{fetch});
    EXPECT_TRUE(got.ok()) << got.status();
    return got.ok() ? (*got)[0].scalar<double>() : NAN;
  };
  for (const double v : {0.4, 0.9})
    EXPECT_NEAR(run(v, g), (run(v + 1e-6, y) - run(v - 1e-6, y)) / 2e-6, 1e-6);
}

// ---- Handles that stand for one of several stores

TEST_F(StoreGradientTest, AConditionalMayChooseAStore) {
  const Output x = In(), z = In(PartialShape::Scalar(), "z");
  const TensorStore one(DType::kDouble), two(DType::kDouble);
  one.Write(0, ops::Sin(x));
  two.Write(0, x * x * z);
  const Output handle = Cond(
      z < 1.0, [&] { return one.handle(); }, [&] { return two.handle(); });
  const TensorStore either = TensorStore::FromHandle(handle, DType::kDouble);
  either.Write(1, ops::Exp(either.Read(0)));
  const Output y = either.Read(1) * either.Read(0) + one.Read(0) * two.Read(0);
  for (const double v : {0.5, 1.5})
    ExpectGradients(y, {{x, Scalar(0.7)}, {z, Scalar(v)}}, 2);
}

TEST_F(StoreGradientTest, IterationsMayChooseAStore) {
  const Output x = In();
  const TensorStore one(DType::kDouble,
                        {.element_shape = PartialShape::Scalar()}),
      two(DType::kDouble, {.element_shape = PartialShape::Scalar()});
  one.Write(0, x);
  two.Write(0, x * x);
  const auto [i, y] = While(
      std::tuple{int64_t{0}, Constant(0.0)},
      [&](Output i, Output) { return i < int64_t{4}; },
      [&](Output i, Output y) {
        const Output handle = Cond(
            ops::Equal(ops::FloorMod(i, int64_t{2}), int64_t{0}),
            [&] { return one.handle(); }, [&] { return two.handle(); });
        const TensorStore s = TensorStore::FromHandle(
            handle, DType::kDouble, {.element_shape = PartialShape::Scalar()});
        s.Write(i + int64_t{1}, ops::Sin(s.Read(0) * x));
        return std::tuple{i + int64_t{1}, y + s.Read(i + int64_t{1})};
      });
  ExpectGradients(y + one.Read(3) * two.Read(2), {{x, Scalar(0.7)}}, 2);
}

}  // namespace
}  // namespace sluice
