// Gradients in the bodies of functions that go on through captured values.
#include "client/autodiff/outside_gradients.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>

#include "client/control/functions.h"
#include "client/control/higher_order.h"
#include "client/testing/gradient_test_util.h"
#include "graph/graphdef.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class OutsideGradientTest : public GradientTest {
 protected:
  std::string Name() { return "f" + std::to_string(functions_++); }
  // build(), in the body of a function; the result of its call.
  Output InFunction(const std::function<Output()>& build) {
    return DefineFunction(
        Name(), {}, [&](const std::vector<Output>&) { return build(); })({})[0];
  }
  // Taken in a body, and in a body of a body, it is what it is outside; and so
  // are its gradients.
  void ExpectAsOutside(const std::function<Output()>& build,
                       const Feeds& feeds) {
    const auto gradient = [&] { return Grad(build(), feeds[0].first); };
    const Output want = SumOf(gradient());
    const Output once = SumOf(InFunction(gradient));
    const Output twice =
        SumOf(InFunction([&] { return InFunction(gradient); }));
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    for (const uint64_t seed : {0, 7, 8}) {
      EXPECT_NEAR(Value(once, feeds, seed), Value(want, feeds), 1e-9);
      EXPECT_NEAR(Value(twice, feeds, seed), Value(want, feeds), 1e-9);
    }
    ExpectGradients(once, feeds, 2, 1e-3);
    ExpectGradients(twice, feeds, 1, 1e-4);
  }
  Feeds At(double v) const { return {{x_, Scalar(v)}}; }

  const Output x_ = In();
  int functions_ = 0;
};

TEST_F(OutsideGradientTest, GoesOnThroughCapturedValues) {
  const Output y = x_ * 3.0;
  EXPECT_EQ(Value(InFunction([&] { return Grad(y + x_, x_); }), At(2)), 4);
  const Output s = ops::Sin(x_), t = s * ops::Exp(y);
  ExpectAsOutside([&] { return t * s * x_; }, At(0.7));
}

TEST_F(OutsideGradientTest, GoesOnThroughOuterBodies) {
  const Output y = InFunction([&] {
    const Output a = ops::Sin(x_);
    return InFunction([&] {
      const Output b = a * x_;
      return InFunction([&] { return Grad(a * b * ops::Exp(x_), x_) * b; });
    });
  });
  const Output a = ops::Sin(x_), b = a * x_;
  EXPECT_NEAR(Value(y, At(0.7)),
              Value(Grad(a * b * ops::Exp(x_), x_) * b, At(0.7)), 1e-12);
  ExpectGradients(y, At(0.7), 2, 1e-3);
}

TEST_F(OutsideGradientTest, GoesOnThroughOuterLoopsAndConditionals) {
  const Output looped = std::get<1>(While(
      std::tuple{0, x_}, [](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, ops::Sin(a) * x_ + a};
      }));
  ExpectAsOutside([&] { return looped * looped * x_; }, At(0.6));
  const Output scanned =
      ops::Sum(Scan([&](Output a, Output e) { return ops::Sin(a * e) + x_; },
                    ops::Pack({x_, x_ * x_, looped}), x_),
               IntVector({0}));
  ExpectAsOutside([&] { return scanned * x_; }, At(0.6));
  const Output chosen = Cond(
      x_ < 1.0, [&] { return ops::Sin(x_) * x_; }, [&] { return looped; });
  for (const double v : {0.6, 1.1})
    ExpectAsOutside([&] { return chosen * chosen * x_; }, At(v));
}

TEST_F(OutsideGradientTest, MayBeTakenInLoopsAndBranches) {
  const Output y = ops::Sin(x_);
  const auto looped = [&](const std::function<Output(Output)>& gradient) {
    return std::get<1>(While(
        std::tuple{0, x_}, [](Output i, Output) { return i < 3; },
        [&](Output i, Output a) {
          return std::tuple{i + 1, ops::Sin(a * y) + gradient(a)};
        }));
  };
  const auto gradient = [&](Output a) { return Grad(a * y * x_, x_) * 0.3; };
  const Output want = looped(gradient);
  const Output function_in_loop = looped([&](Output a) {
    const Output b = a * y;
    return InFunction([&] { return Grad(b * x_, x_) * 0.3; });
  });
  const Output loop_in_function = InFunction([&] { return looped(gradient); });
  const auto flat = [&](Output a) {
    const Output b = a * y;
    return Grad(b * x_, x_) * 0.3;
  };
  EXPECT_NEAR(Value(function_in_loop, At(0.7)), Value(looped(flat), At(0.7)),
              1e-9);
  EXPECT_NEAR(Value(loop_in_function, At(0.7)), Value(want, At(0.7)), 1e-9);
  const Output branches = InFunction([&] {
    return Cond(
        x_ < 1.0,
        [&] {
          const Output b = y * x_;
          return InFunction([&] { return Grad(b * y, x_); });
        },
        [&] { return Grad(y * y, x_); });
  });
  for (const double v : {0.7, 1.2}) {
    const double s = std::sin(v), c = std::cos(v);
    EXPECT_NEAR(Value(branches, At(v)),
                v < 1 ? 2 * s * c * v + s * s : 2 * s * c, 1e-9);
    ExpectGradients(branches, At(v), 1, 1e-4);
  }
}

TEST_F(OutsideGradientTest, CoversVariables) {
  const Var v(Constant(Tensor::Scalar<double>(1.5)), "v");
  Initialize();
  const Output y = v.Read() * v.Read();
  const Output once = InFunction([&] { return Grad(y * v.Read(), v); });
  const Output twice =
      InFunction([&] { return InFunction([&] { return Grad(y * x_, v); }); });
  EXPECT_NEAR(Values<double>(once)[0], 3 * 1.5 * 1.5, 1e-12);
  EXPECT_NEAR(Values<double>(twice, At(2))[0], 6, 1e-12);
}

TEST_F(OutsideGradientTest, SecondOrdersGoOnToo) {
  const Output y = ops::Exp(x_) * x_;
  const auto second = [&] { return Grad(Grad(y * x_ * x_, x_), x_); };
  EXPECT_NEAR(Value(InFunction(second), At(0.6)), Value(second(), At(0.6)),
              1e-9);
  ExpectGradients(InFunction(second), At(0.6), 1, 1e-4);
}

// The argument is another value than what is passed: no gradient of x.
TEST_F(OutsideGradientTest, ArgumentsAreNotWhatIsPassed) {
  const Output y = ops::Sin(x_);
  const Function f = DefineFunction(
      "own", {DType::kDouble}, [&](const std::vector<Output>& a) {
        const Output g = Grad(y * a[0] * a[0], x_);  // cos(x) a^2
        return FunctionResults(
            std::vector<Output>{g, Grad(g * x_, a[0]), Grad(g * x_, x_)});
      });
  const auto results = f({x_});
  const double v = 0.7, c = std::cos(v);
  EXPECT_NEAR(Value(results[0], At(v)), c * v * v, 1e-9);
  EXPECT_NEAR(Value(results[1], At(v)), 2 * c * v * v, 1e-9);
  EXPECT_NEAR(Value(results[2], At(v)), (c - v * std::sin(v)) * v * v, 1e-9);
}

// Both at an earlier gradient and before it.
TEST_F(OutsideGradientTest, SecondOrdersStopWhereTold) {
  const Output y = ops::Sin(x_);
  for (const bool before : {false, true}) {
    const auto second = [&] {
      const Output a = ops::Exp(x_), g = Grad(y * a * x_, x_);
      return Grad(g * y, x_, {.stop_gradients = {before ? a : g}});
    };
    EXPECT_NEAR(Value(InFunction(second), At(0.6)), Value(second(), At(0.6)),
                1e-9);
  }
}

// What is exported does not need the functions whose calls were inlined.
TEST_F(OutsideGradientTest, ExportsHaveNone) {
  const Output y = ops::Sin(x_);
  const Output inlined = InFunction([&] { return Grad(y * x_, x_); });
  const Output kept = DefineFunction(
      "kept", {DType::kDouble},
      [](const std::vector<Output>& a) { return a[0] * a[0]; })({inlined})[0];
  const Result<std::string> bytes = ExportGraphDef(graph_);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_THAT(*bytes, ::testing::Not(HasSubstr("_GradientOutside")));
  Graph other;
  ASSERT_TRUE(ImportGraphDef(*bytes, other).ok());
  Session session(other);
  const Result<Tensor> got =
      session.Run({{Output(other.FindNode(x_.node->name())), Scalar(0.7)}},
                  Output(other.FindNode(kept.node->name())));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_NEAR(got->flat<double>()[0],
              std::pow(std::cos(0.7) * 0.7 + std::sin(0.7), 2), 1e-12);
}

TEST_F(OutsideGradientTest, StopsWhereToldAndReportsWhatIsUnconnected) {
  const Output y = x_ * x_, z = y * x_, other = In({}, "other");
  const auto stopped = [&] {
    return Grad(z * y * x_, x_, {.stop_gradients = {y}});
  };
  EXPECT_NEAR(Value(InFunction(stopped), At(1.2)), Value(stopped(), At(1.2)),
              1e-9);
  InFunction([&] {
    const auto grads = Gradients({z * 2.0}, {x_, other});
    EXPECT_TRUE(grads.ok() && (*grads)[0] && !(*grads)[1]);
    return y;
  });
  EXPECT_EQ(Value(InFunction([&] {
                    return Grad(z * 2.0, other,
                                {.unconnected = Unconnected::kZero});
                  }),
                  {{x_, Scalar(1.2)}, {other, Scalar(1)}}),
            0);
}

TEST_F(OutsideGradientTest, RecursiveFunctionsReportIt) {
  const Output y = ops::Sin(x_);
  const Function f =
      DefineFunction("f", {DType::kInt32}, {DType::kDouble},
                     [&](const Function& self, const std::vector<Output>& a) {
                       const Output g = Grad(y * x_, x_);
                       return Cond(
                           a[0] <= 0, [&] { return g; },
                           [&] { return self({a[0] - 1})[0] * g; });
                     });
  f({Constant(2)});
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("pass what they go through as arguments"));
}

TEST_F(OutsideGradientTest, BodiesRefuseOuterControlInputs) {
  const Output y = ops::Sin(x_);
  for (const bool in_branch : {false, true}) {
    graph_.ClearErrors();
    InFunction([&] {
      const auto build = [&] {
        const ControlDependencies after({y.node});
        return ops::Identity(Constant(1.0));
      };
      return in_branch ? Cond(Constant(true), build, [] { return 2.0f; })
                       : build();
    });
    EXPECT_THAT(std::string(graph_.status().message()),
                HasSubstr("control input: expected a node of this graph, got "
                          "node 'Sin' (Sin)"));
  }
}

}  // namespace
}  // namespace sluice
