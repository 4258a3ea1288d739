// Gradients across contexts: of values from around a loop, taken in its body;
// of values from a condition; of graphs and functions that contain gradients.
#include <functional>

#include "client/control/functions.h"
#include "client/control/higher_order.h"
#include "client/testing/gradient_test_util.h"
#include "graph/graphdef.h"

namespace sluice {
namespace {

class NestedGradientTest : public GradientTest {
 protected:
  // The gradient of each element of y, taken in a map's body, equals that of
  // the element, for several orders of execution.
  void ExpectJacobian(const Output& y, const Feeds& feeds) {
    const Output x = feeds[0].first;
    const Output rows =
        MapFn([&](Output k) { return Grad(ops::Gather(y, k), x); },
              Constant(Tensor::Vector<int>({0, 1, 2})));
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    std::vector<double> want;
    for (const int k : {0, 1, 2})
      for (const double d : Numeric(ops::Gather(y, Constant(k)), feeds, 0))
        want.push_back(d);
    for (uint64_t seed = 0; seed < 12; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      Session session(graph_, Seeded(seed));
      const Result<Tensor> got = session.Run(feeds, rows);
      ASSERT_TRUE(got.ok()) << got.status();
      ExpectClose(want, *got, 1e-5);
    }
  }
  static Output TanhLoop(const Output& x) {
    return std::get<1>(While(
        std::tuple{0, x}, [](Output i, Output) { return i < 3; },
        [&](Output i, Output a) {
          return std::tuple{i + 1, ops::Tanh(a * x + ops::ReverseV2(a, {0}))};
        }));
  }
  // Two loops, one with arrays.
  static Output LoopAndScan(const Output& x) {
    const auto [i, y] = While(
        std::tuple{0, x}, [](Output i, Output) { return i < 3; },
        [&](Output i, Output a) {
          return std::tuple{i + 1, ops::Sin(a) * x + a};
        });
    return y + ops::Sum(
                   Scan([&](Output a, Output e) { return ops::Sin(a * e) + x; },
                        ops::Pack({x, x * x, y}), x),
                   IntVector({0}));
  }
  static Feeds Three(const Output& x) {
    return {{x, Tensor::Vector<double>({0.3, 0.5, 0.9})}};
  }
};

TEST_F(NestedGradientTest, LoopBodyMayDifferentiateOuterLoop) {
  const Output x = In({3});
  const Output y = TanhLoop(x);
  ExpectJacobian(y, Three(x));
  // Rows of the second derivative, for a loop that is itself a gradient.
  ExpectJacobian(Grad(SumOf(y * y), x), Three(x));
}

TEST_F(NestedGradientTest, LoopBodyMayDifferentiateOuterConditional) {
  const Output x = In({3}), p = Placeholder<bool>(PartialShape::Scalar(), "p");
  const Output y = Cond(
      p,
      [&] {
        const Output s = ops::Sin(x) * x;
        return Cond(
            SumOf(s) < 100.0, [&] { return s * x; }, [&] { return s; });
      },
      [&] { return TanhLoop(x); });
  for (const bool holds : {true, false}) {
    Feeds feeds = Three(x);
    feeds.emplace_back(p, Tensor::Scalar(holds));
    ExpectJacobian(y, feeds);
  }
}

TEST_F(NestedGradientTest, BodyMayUseNodesOfLoopCondition) {
  const Output x = In();
  Output kept;
  const auto [i, y] = While(
      std::tuple{0, x},
      [&](Output i, Output a) {
        kept = ops::Sin(a) * x;
        return ops::LogicalAnd(kept < 10.0, i < 4);
      },
      [&](Output i, Output a) {
        return std::tuple{i + 1, a + kept};
      });
  ExpectGradients(y, {{x, Scalar(0.9)}}, 2, 1e-4);
}

// The condition is computed once more than the body: values that the body
// computes only from its nodes must not be part of it, or the loop would never
// end.
TEST_F(NestedGradientTest, BodyMayUseOnlyNodesOfLoopCondition) {
  const Output x = In();
  const Feeds feeds = {{x, Scalar(0.9)}};
  Output kept, small;
  const auto pred = [&](Output i, Output a) {
    kept = ops::Sin(a) * x;
    small = kept < 0.5;
    return i < 4;
  };
  const auto loop = [&](const std::function<Output()>& body) {
    return std::get<1>(While(std::tuple{0, x}, pred, [&](Output i, Output) {
      return std::tuple{i + 1, body()};
    }));
  };
  const std::vector<std::pair<const char*, Output>> loops = {
      {"itself", loop([&] { return kept; })},
      {"a node of it", loop([&] { return ops::Cos(kept); })},
      {"a conditional on it", loop([&] {
         return Cond(
             small, [&] { return ops::Sin(kept); }, [&] { return kept; });
       })},
      {"a loop that begins with it", loop([&] {
         return std::get<1>(While(
             std::tuple{0, kept}, [](Output j, Output) { return j < 2; },
             [&](Output j, Output b) {
               return std::tuple{j + 1, ops::Sin(b) + kept};
             }));
       })}};
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  for (const auto& [name, y] : loops) {
    SCOPED_TRACE(name);
    Session session(graph_);
    const auto got = session.Run(feeds, {y}, {}, {.timeout_ms = 5000});
    ASSERT_TRUE(got.ok()) << got.status();
    ExpectGradients(y, feeds, 2, 1e-4);
  }
}

TEST_F(NestedGradientTest, DifferentiatesScanInFunction) {
  const Function f = DefineFunction(
      "f", {DType::kDouble},
      [](const std::vector<Output>& a) {
        return Scan([&](Output s, Output e) { return ops::Sin(s * e) + a[0]; },
                    ops::Pack({a[0], a[0] * a[0]}), a[0]);
      },
      {.arg_shapes = {PartialShape::Scalar()}});
  const Output x = In();
  ExpectGradients(f({x})[0], {{x, Scalar(0.6)}}, 2, 1e-4);
}

TEST_F(NestedGradientTest, DifferentiatesRecursionWithLoop) {
  const Function f =
      DefineFunction("f", {DType::kDouble, DType::kInt32}, {DType::kDouble},
                     [](const Function& self, const std::vector<Output>& a) {
                       return Cond(
                           a[1] <= 0, [&] { return ops::Sin(a[0]); },
                           [&] {
                             const Output y = std::get<1>(While(
                                 std::tuple{0, a[0]},
                                 [&](Output i, Output) { return i < a[1]; },
                                 [&](Output i, Output y) {
                                   return std::tuple{i + 1, y * a[0] + 0.1};
                                 }));
                             return y * self({a[0] * 0.5, a[1] - 1})[0];
                           });
                     },
                     {.result_shapes = {PartialShape::Scalar()}});
  const Output x = In();
  ExpectGradients(f({x, Constant(3)})[0], {{x, Scalar(0.9)}}, 2, 1e-3);
}

TEST_F(NestedGradientTest, DifferentiatesFunctionThatComputesGradients) {
  const Function f = DefineFunction("f", {DType::kDouble},
                                    [](const std::vector<Output>& a) {
                                      const Output y = LoopAndScan(a[0]);
                                      return Grad(y, a[0]) + y;
                                    },
                                    {.arg_shapes = {PartialShape::Scalar()}});
  const Output x = In();
  ExpectGradients(f({x})[0], {{x, Scalar(0.6)}}, 2, 1e-3);
}

// A call completes only when the effects of the function's loop are done.
TEST_F(NestedGradientTest, CallWaitsForEffectsOfLoopInFunction) {
  const Var v(Constant(Tensor::Scalar<double>(0)), "v");
  Initialize();
  const Function f = DefineFunction(
      "f", {DType::kResource, DType::kDouble},
      [](const std::vector<Output>& a) {
        While(
            Constant(0), [](Output i) { return i < 3; },
            [&](Output i) {
              Node* add = BuildNode("AssignAddVariableOp", {a[0], a[1]});
              const ControlDependencies after({add});
              return i + 1;
            });
        return a[1];
      });
  const Output y = f({v.handle(), Constant(Tensor::Scalar<double>(2))})[0];
  const ControlDependencies after({y.node});
  EXPECT_EQ(Values<double>(v.Read()), std::vector<double>{6});
}

// A graph with a first derivative, imported once or twice, with the same names
// or new ones: the derivative, another one and its derivatives all agree.
TEST_F(NestedGradientTest, DifferentiatesImportedGraphsWithGradients) {
  std::string bytes;
  {
    Graph g;
    const WithGraph use(g);
    const Output x = In(), y = LoopAndScan(x);
    ops::Identity(y, {.name = "y"});
    ops::Identity(Grad(y, x), {.name = "dy"});
    ASSERT_TRUE(g.status().ok()) << g.status();
    bytes = *ExportGraphDef(g);
  }
  for (const std::vector<std::string>& prefixes :
       {std::vector<std::string>{""}, {"p"}, {"p", "q"}, {"", "q"}}) {
    Graph to;
    const WithGraph use(to);
    for (const std::string& p : prefixes) {
      ImportOptions options;
      options.prefix = p;
      const Status s = ImportGraphDef(bytes, to, options);
      ASSERT_TRUE(s.ok()) << s;
    }
    Feeds feeds;
    std::vector<Output> fetches;
    for (const std::string& p : prefixes) {
      const auto find = [&](const std::string& name) {
        return *to.FindOutput(p.empty() ? name : p + "/" + name);
      };
      const Output x = find("x"), y = find("y"), dy = find("dy");
      feeds.emplace_back(x, Scalar(0.6));
      const Output ddy = Grad(dy, x);
      for (const Output& o : {y, dy, Grad(y, x), ddy}) fetches.push_back(o);
    }
    fetches.push_back(LoopAndScan(feeds[0].first));
    ASSERT_TRUE(to.status().ok()) << to.status();
    for (const uint64_t seed : {0, 3}) {
      Session session(to, Seeded(seed));
      const auto at = [&](double moved) {
        Feeds f = feeds;
        f[0].second = Scalar(0.6 + moved);
        const auto got = session.Run(f, fetches);
        EXPECT_TRUE(got.ok()) << got.status();
        std::vector<double> values(fetches.size());
        for (size_t i = 0; got.ok() && i < values.size(); ++i)
          values[i] = (*got)[i].scalar<double>();
        return values;
      };
      const std::vector<double> v = at(0), above = at(1e-5), below = at(-1e-5);
      const double d = (above[0] - below[0]) / 2e-5;
      const double dd = (above[1] - below[1]) / 2e-5;
      for (size_t k = 0; k + 4 < v.size(); k += 4) {
        EXPECT_NEAR(v[k + 1], d, 1e-5);
        EXPECT_NEAR(v[k + 2], d, 1e-5);
        EXPECT_NEAR(v[k + 3], dd, 1e-4);
      }
      EXPECT_NEAR(v.back(), v[0], 1e-12);
    }
  }
}

}  // namespace
}  // namespace sluice
