// Gradients in the bodies of functions with respect to captured values.
#include "client/autodiff/outside_gradients.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>

#include "client/control/functions.h"
#include "client/control/higher_order.h"
#include "client/testing/gradient_test_util.h"

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
  // Taken in a body, and in a body of a body, dy/dx is an error that names what
  // was captured.
  void ExpectRefused(const std::function<Output()>& y, const GradTarget& x,
                     const std::string& captured) {
    const auto gradient = [&] { return Grad(y(), x); };
    for (const bool twice : {false, true}) {
      graph_.ClearErrors();
      InFunction([&] { return twice ? InFunction(gradient) : gradient(); });
      const std::string message(graph_.status().message());
      EXPECT_THAT(message,
                  HasSubstr("expected no captured value that depends on an "
                            "outer x otherwise than by being it"));
      EXPECT_THAT(message, HasSubstr("node '" + captured));
      EXPECT_THAT(message, HasSubstr("outside_gradients_test.cc:"));
    }
    graph_.ClearErrors();
  }
  Feeds At(double v) const { return {{x_, Scalar(v)}}; }

  const Output x_ = In();
  int functions_ = 0;
};

TEST_F(OutsideGradientTest, CoversCapturedXs) {
  const Output other = In({}, "other");
  const auto gradient = [&] {
    return Grad(ops::Sin(x_) * x_ * other, x_) + Grad(x_ * other, other);
  };
  const Feeds feeds = {{x_, Scalar(0.7)}, {other, Scalar(0.4)}};
  const Output want = gradient(), once = InFunction(gradient),
               twice = InFunction([&] { return InFunction(gradient); });
  EXPECT_NEAR(Value(once, feeds), Value(want, feeds), 1e-12);
  EXPECT_NEAR(Value(twice, feeds), Value(want, feeds), 1e-12);
  ExpectGradients(once, feeds, 2, 1e-3);
  const auto second = [&] { return Grad(Grad(x_ * x_ * x_, x_), x_); };
  EXPECT_NEAR(Value(InFunction(second), At(0.7)), 6 * 0.7, 1e-12);
}

TEST_F(OutsideGradientTest, RefusesToLeaveOutWhatDependsOnXs) {
  const Output y = ops::Sin(x_), z = y * 2.0;
  ExpectRefused([&] { return y + x_; }, x_, "Sin");
  ExpectRefused([&] { return z * x_; }, x_, z.node->name());
  // An x may depend on another.
  const auto both = [&] {
    const std::vector<Output> grads = Grad({y * x_}, {x_, y});
    return grads[0] + grads[1];
  };
  InFunction(both);
  EXPECT_THAT(std::string(graph_.status().message()), HasSubstr("node 'Sin"));
  graph_.ClearErrors();
  const Output looped = std::get<1>(While(
      std::tuple{0, x_}, [](Output i, Output) { return i < 3; },
      [&](Output i, Output a) {
        return std::tuple{i + 1, ops::Sin(a) * x_};
      }));
  ExpectRefused([&] { return looped * x_; }, x_, "");
  const Output chosen = Cond(
      x_ < 1.0, [&] { return ops::Sin(x_); }, [&] { return x_; });
  ExpectRefused([&] { return chosen * x_; }, x_, "");
}

TEST_F(OutsideGradientTest, RefusesItInOuterBodies) {
  const auto build = [&] {
    const Output a = ops::Sin(x_);
    return InFunction([&] { return Grad(a * x_, x_); });
  };
  InFunction(build);
  EXPECT_THAT(std::string(graph_.status().message()), HasSubstr("node 'Sin"));
}

TEST_F(OutsideGradientTest, RefusesItForVariables) {
  const Var v(Constant(Tensor::Scalar<double>(1.5)), "v");
  const Output y = v.Read() * v.Read();
  ExpectRefused([&] { return y * v.Read(); }, v, y.node->name());
}

TEST_F(OutsideGradientTest, StopsWhereToldAndReportsWhatIsUnconnected) {
  const Output y = x_ * x_, other = In({}, "other");
  const auto stopped = [&] {
    return Grad(y * x_, x_, {.stop_gradients = {y}});
  };
  EXPECT_NEAR(Value(InFunction(stopped), At(1.2)), 1.44, 1e-12);
  InFunction([&] {
    const auto grads = Gradients({y * 2.0}, {y, other});
    EXPECT_TRUE(grads.ok() && (*grads)[0] && !(*grads)[1]);
    return y;
  });
  EXPECT_EQ(Value(InFunction([&] {
                    return Grad(y * 2.0, other,
                                {.unconnected = Unconnected::kZero});
                  }),
                  {{x_, Scalar(1.2)}, {other, Scalar(1)}}),
            0);
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
