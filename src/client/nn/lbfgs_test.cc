#include "client/nn/lbfgs.h"

#include <cmath>
#include <random>

#include "client/testing/client_test_util.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

using LbfgsTest = ClientTest;

TEST_F(LbfgsTest, FindsTheMinimumOfRosenbrocksValley) {
  const Var x(Constant(-1.2), "x"), y(Constant(1.0), "y");  // doubles
  const LbfgsResult fit = Lbfgs({x, y}, [](const std::vector<Output>& at) {
    return 100 * ops::Square(at[1] - at[0] * at[0]) + ops::Square(1 - at[0]);
  });
  ASSERT_NE(fit.train, nullptr) << graph_.status();
  Initialize();
  const auto got = session_.Run(
      {}, {fit.loss, fit.converged, fit.iterations, fit.evaluations},
      {fit.train});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE((*got)[1].scalar<bool>());
  EXPECT_LT((*got)[0].scalar<double>(), 1e-8);
  EXPECT_LT((*got)[2].scalar<int32_t>(), 60);
  EXPECT_GE((*got)[3].scalar<int32_t>(), (*got)[2].scalar<int32_t>());
  EXPECT_NEAR(Values<double>(x)[0], 1, 1e-4);
  EXPECT_NEAR(Values<double>(y)[0], 1, 1e-4);
}

TEST_F(LbfgsTest, SolvesQuadraticsInFewIterations) {
  // Eigenvalues from 1 to 1000.
  const Var x(Constant(Tensor::Of<double>({2, 2}, {1, 2, 3, 4})), "x");
  const Output scales =
      Constant(Tensor::Of<double>({2, 2}, {1, 10, 100, 1000}));
  const LbfgsResult fit = Lbfgs({x}, [&](const std::vector<Output>& at) {
    return ops::Sum(scales * ops::Square(at[0] - 5), {0, 1});
  });
  ASSERT_NE(fit.train, nullptr) << graph_.status();
  Initialize();
  const auto got = session_.Run({}, {fit.iterations}, {fit.train});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_LT((*got)[0].scalar<int32_t>(), 40);
  for (double v : Values<double>(x)) EXPECT_NEAR(v, 5, 1e-4);
}

// Logistic regression of several variables, in float: the gradient at the end
// is zero, which no other point has (the loss is strictly convex).
TEST_F(LbfgsTest, FitsLogisticRegression) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal;
  Tensor features(DType::kFloat, {200, 5}), labels(DType::kFloat, {200, 1});
  for (float& v : features.flat<float>()) v = normal(random);
  for (int i = 0; i < 200; ++i)
    labels.flat<float>()[static_cast<size_t>(i)] =
        features.flat<float>()[static_cast<size_t>(5 * i)] + normal(random) > 0;
  const Output x = Constant(features), y = Constant(labels);
  const Var w(Zeros({5, 1}), "w"), b(Zeros({}), "b");
  const auto loss = [&](const Output& w_at, const Output& b_at) {
    const Output z = ops::MatMul(x, w_at) + b_at;
    return ops::Mean(ops::Softplus(z) - y * z, {0, 1}) +
           0.01 * ops::Sum(ops::Square(w_at), {0, 1});
  };
  const LbfgsResult fit = Lbfgs({w, b}, [&](const std::vector<Output>& at) {
    return loss(at[0], at[1]);
  });
  const Output at_end = loss(w, b);
  const std::vector<Output> slopes = Grad({at_end}, {w, b});
  ASSERT_NE(fit.train, nullptr) << graph_.status();
  Initialize();
  const auto got =
      session_.Run({}, {fit.loss, fit.converged, fit.iterations}, {fit.train});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE((*got)[1].scalar<bool>());
  EXPECT_LT((*got)[2].scalar<int32_t>(), 30);
  EXPECT_NEAR(Eval(at_end).scalar<float>(), (*got)[0].scalar<float>(), 1e-6f);
  for (const Output& slope : slopes)
    for (float v : Values<float>(slope)) EXPECT_NEAR(v, 0, 3e-4f);
}

TEST_F(LbfgsTest, SaysWhenItHasNotConverged) {
  const Var x(Constant(-1.2), "x"), y(Constant(1.0), "y");
  const LbfgsResult fit =
      Lbfgs({x, y},
            [](const std::vector<Output>& at) {
              return 100 * ops::Square(at[1] - at[0] * at[0]) +
                     ops::Square(1 - at[0]);
            },
            {.max_iterations = 3});
  const Var z(Constant(1.0), "z");  // Falls for ever.
  const LbfgsResult endless =
      Lbfgs({z}, [](const std::vector<Output>& at) { return -at[0]; },
            {.max_iterations = 5, .name = "endless"});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Initialize();
  EXPECT_FALSE(Eval(fit.converged).scalar<bool>());
  EXPECT_EQ(Eval(fit.iterations).scalar<int32_t>(), 3);
  EXPECT_FALSE(Eval(endless.converged).scalar<bool>());
}

TEST_F(LbfgsTest, NonFiniteLossesShortenTheStep) {
  // -log(x): the first step from 0.1 to the left would be outside of the
  // domain.
  const Var x(Constant(0.1), "x");
  const LbfgsResult fit = Lbfgs({x}, [](const std::vector<Output>& at) {
    return at[0] - 0.01 * ops::Log(at[0]);
  });
  ASSERT_NE(fit.train, nullptr) << graph_.status();
  Initialize();
  RunNode(fit.train);
  EXPECT_NEAR(Values<double>(x)[0], 0.01, 1e-4);
}

TEST_F(LbfgsTest, AFailedLineSearchGivesItsBestStep) {
  // Falls evenly until 1.2, and then meets a wall: after the step to 1 the
  // slope is as before, and the step to 2, the last one, is much worse.
  const Var x(Constant(0.0), "x");
  const LbfgsResult fit = Lbfgs({x},
                                [](const std::vector<Output>& at) {
                                  const Output beyond =
                                      ops::Maximum(at[0] - 1.2, 0.0);
                                  return 100 * ops::Square(beyond) - at[0];
                                },
                                {.max_iterations = 1, .max_search = 2});
  ASSERT_NE(fit.train, nullptr) << graph_.status();
  Initialize();
  const auto got =
      session_.Run({}, {fit.loss, fit.evaluations, fit.converged}, {fit.train});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].scalar<double>(), -1);
  EXPECT_EQ((*got)[1].scalar<int32_t>(), 3);
  EXPECT_FALSE((*got)[2].scalar<bool>());
  EXPECT_EQ(Values<double>(x)[0], 1);
}

TEST_F(LbfgsTest, NonsenseIsRefused) {
  const auto loss = [](const std::vector<Output>& at) { return at[0]; };
  const auto message = [&](const std::vector<Var>& vars,
                           const LbfgsOptions& options) {
    Graph graph;
    const WithGraph use(graph);
    std::vector<Var> all;
    for (const Var& v : vars) all.push_back(v);
    EXPECT_EQ(Lbfgs(all, loss, options).train, nullptr);
    return std::string(graph.status().message());
  };
  EXPECT_THAT(message({}, {}), HasSubstr("expected variables, got none"));
  EXPECT_THAT(message({Var()}, {}), HasSubstr("expected a variable, got none"));
  EXPECT_THAT(message({Var(1, "i")}, {}),
              HasSubstr("expected float or double, got int32; variable 'i'"));
  EXPECT_THAT(message({Var(1.0, "f"), Var(Constant(1.0), "d")}, {}),
              HasSubstr("expected variables of one type, float, got double"));
  EXPECT_THAT(message({Var(1.0, "g")}, {.history = 0}),
              HasSubstr("expected history in [1, 100000], got 0"));
  const Var v(Constant(Tensor::Vector<float>({1, 2})), "v");
  EXPECT_EQ(Lbfgs({v}, loss).train, nullptr);
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("expected a scalar loss of type float, got float [2]"));
}

}  // namespace
}  // namespace sluice
