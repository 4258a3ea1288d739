#include <cmath>
#include <set>

#include "client/control/control_flow.h"
#include "client/device_placement.h"
#include "client/testing/client_test_util.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

using OptimizerTest = ClientTest;

Tensor Floats(std::initializer_list<float> v) {
  return Tensor::Vector<float>(v);
}

TEST_F(OptimizerTest, GradientDescentStepsDownhill) {
  for (bool reference : {false, true}) {
    const Var v(Constant(Floats({1, 2})), "v", {.reference = reference});
    RunNode(v.initializer());
    GradientDescentOptimizer optimizer(0.5);
    Node* train = optimizer.Minimize(ops::Sum(v * v, 0), {.variables = {v}});
    ASSERT_NE(train, nullptr) << graph_.status();
    RunNode(train);
    EXPECT_THAT(Values<float>(v), ElementsAre(0, 0));
    EXPECT_TRUE(optimizer.SlotNames().empty());
  }
}

TEST_F(OptimizerTest, AdagradFollowsItsFormula) {
  for (bool reference : {false, true}) {
    const Var v(Constant(Floats({1, -2})), "v", {.reference = reference});
    AdagradOptimizer optimizer(0.1);
    const Output c = Constant(Floats({3, 4}));
    Node* train = optimizer.Minimize(ops::Sum(v * c, 0), {.variables = {v}});
    ASSERT_NE(train, nullptr) << graph_.status();
    Initialize();
    const Var slot = optimizer.GetSlot(v, "accumulator");
    ASSERT_TRUE(slot.valid());
    EXPECT_EQ(slot.name(), v.name() + "/Adagrad");
    EXPECT_EQ(slot.is_reference(), reference);
    float a[2] = {0.1f, 0.1f}, w[2] = {1, -2};
    const float g[2] = {3, 4};
    for (int step = 0; step < 3; ++step) {
      RunNode(train);
      for (int i = 0; i < 2; ++i) {
        a[i] += g[i] * g[i];
        w[i] -= 0.1f * g[i] / std::sqrt(a[i]);
      }
      EXPECT_THAT(Values<float>(v), Pointwise(FloatNear(1e-6f), w));
      EXPECT_THAT(Values<float>(slot), Pointwise(FloatNear(1e-5f), a));
    }
  }
}

TEST_F(OptimizerTest, SparseGradientsTouchOnlyTheirRows) {
  for (bool reference : {false, true}) {
    const Output start =
        Constant(Tensor::Of<float>(Shape({3, 2}), {1, 1, 1, 1, 1, 1}));
    const Output rows = Constant(Tensor::Vector<int32_t>({2, 0, 2}));
    const Var v(start, "sgd", {.reference = reference});
    GradientDescentOptimizer sgd(1);
    Node* step = sgd.Minimize(ops::Sum(ops::GatherV2(v, rows, 0), {0, 1}),
                              {.variables = {v}});
    const Var w(start, "adagrad", {.reference = reference});
    AdagradOptimizer adagrad(0.1, 0.5);
    Node* adagrad_step = adagrad.Minimize(
        ops::Sum(ops::GatherV2(w, rows, 0), {0, 1}), {.variables = {w}});
    ASSERT_NE(adagrad_step, nullptr) << graph_.status();
    Initialize();
    RunNode(step);
    EXPECT_THAT(Values<float>(v), ElementsAre(0, 0, 1, 1, -1, -1));
    RunNode(adagrad_step);
    // Repeated rows are summed before they are squared.
    EXPECT_THAT(Values<float>(adagrad.GetSlot(w, "accumulator")),
                ElementsAre(1.5f, 1.5f, 0.5f, 0.5f, 4.5f, 4.5f));
    const float once = 1 - 0.1f / std::sqrt(1.5f);
    const float twice = 1 - 0.2f / std::sqrt(4.5f);
    const float expected[] = {once, once, 1, 1, twice, twice};
    EXPECT_THAT(Values<float>(w), Pointwise(FloatNear(1e-6f), expected));
  }
}

TEST_F(OptimizerTest, CountsSteps) {
  const Var step(Constant(Tensor::Scalar<int64_t>(0)), "global_step",
                 {.trainable = false});
  const Var v(1.0, "v");
  Node* train =
      GradientDescentOptimizer(0.25).Minimize(v * v, {.global_step = step});
  Initialize();
  RunNode(train);
  RunNode(train);
  EXPECT_THAT(Values<int64_t>(step), ElementsAre(2));
  EXPECT_THAT(Values<float>(v), ElementsAre(0.25f));
}

TEST_F(OptimizerTest, LearningRateMayBeComputed) {
  const Var v(Constant(1.0), "v");  // double
  const Output rate = Placeholder<float>();
  Node* train = GradientDescentOptimizer(rate).Minimize(3 * v);
  Initialize();
  RunNode(train, {{rate, Tensor::Scalar(0.5f)}});
  EXPECT_THAT(Values<double>(v), ElementsAre(-0.5));
}

TEST_F(OptimizerTest, GradientsMayBeChangedBeforeApplying) {
  const Var v(1.0, "v"), w(1.0, "w");
  GradientDescentOptimizer optimizer(1);
  auto grads = optimizer.ComputeGradients(v * 5 + w);
  ASSERT_TRUE(grads.ok()) << grads.status();
  ASSERT_EQ(grads->size(), 2u);
  (*grads)[0].gradient = ops::Minimum((*grads)[0].gradient.dense, 2);
  const auto train = optimizer.ApplyGradients(*grads, {.name = "clipped"});
  ASSERT_TRUE(train.ok()) << train.status();
  Initialize();
  RunNode(*train);
  EXPECT_THAT(Values<float>(v), ElementsAre(-1));
  EXPECT_THAT(Values<float>(w), ElementsAre(0));
}

TEST_F(OptimizerTest, GatesDoNotChangeTheResult) {
  for (GradientGate gate :
       {GradientGate::kReads, GradientGate::kOp, GradientGate::kGraph}) {
    const Var v(2.0, "v"), w(3.0, "w");
    Node* train = GradientDescentOptimizer(0.1).Minimize(
        v * w, {.variables = {v, w}, .gate = gate});
    ASSERT_NE(train, nullptr) << graph_.status();
    RunNode(v.initializer());
    RunNode(w.initializer());
    RunNode(train);
    EXPECT_FLOAT_EQ(Values<float>(v)[0], 1.7f);
    EXPECT_FLOAT_EQ(Values<float>(w)[0], 2.8f);
  }
}

TEST_F(OptimizerTest, StepsUseTheValuesAtTheirStart) {
  // For any order of the ready nodes: updates wait for reads.
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph;
    const WithGraph use(graph);
    SessionOptions options;
    options.scheduler_seed = seed;
    Session session(graph, options);
    const Var v(2.0, "v"), w(3.0, "w");
    const Output loss = v * w + ops::Square(v) * w + w;
    Node* train = GradientDescentOptimizer(0.1).Minimize(loss);
    ASSERT_NE(train, nullptr) << graph.status();
    ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    const auto before = session.Run({}, {loss}, {train});
    ASSERT_TRUE(before.ok()) << before.status();
    EXPECT_FLOAT_EQ((*before)[0].scalar<float>(), 21);
    const auto after = session.Run({v, w});
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_FLOAT_EQ((*after)[0].scalar<float>(), 2 - 0.1f * 15);
    EXPECT_FLOAT_EQ((*after)[1].scalar<float>(), 3 - 0.1f * 7);
  }
}

// Between a worker and the task of its variables only values travel: neither
// waits for single nodes of the other to end.
TEST_F(OptimizerTest, NoControlEdgeConnectsWorkerAndParameterServer) {
  Graph graph;
  const WithGraph use(graph);
  const DeviceFunctionScope devices(ReplicaDeviceSetter(
      {.ps_tasks = 1, .worker_device = "/job:worker/task:1"}));
  const Var a(Ones({3, 4}), "a"), b(Ones({4, 2}), "b"), c(Ones({2}), "c"),
      step(int64_t{0}, "step");
  const Output loss =
      ops::Sum(ops::MatMul(ops::Relu(ops::MatMul(Ones({5, 3}), a)), b) + c,
               Constant(Tensor::Vector<int32_t>({0, 1})));
  Node* const train = GradientDescentOptimizer(0.1).Minimize(
      loss, {.global_step = step, .variables = {a, b, c}});
  ASSERT_NE(train, nullptr) << graph.status();
  std::set<const Node*> seen;
  std::vector<const Node*> open = {train};
  size_t updates = 0;
  while (!open.empty()) {
    const Node* const n = open.back();
    open.pop_back();
    if (!seen.insert(n).second) continue;
    updates += n->op().name.find("ApplyGradientDescent") != std::string::npos;
    for (const Output& in : n->inputs()) open.push_back(in.node);
    for (const Node* before : n->control_inputs()) {
      open.push_back(before);
      EXPECT_EQ(before->device(), n->device())
          << before->name() << " before " << n->name();
    }
  }
  EXPECT_EQ(updates, 3u);
  EXPECT_EQ(train->device(), a.handle().node->device());
}

// Also if the gradients of several losses are applied together.
TEST_F(OptimizerTest, AllLossesAreThoseBeforeTheUpdate) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph;
    const WithGraph use(graph);
    SessionOptions options;
    options.scheduler_seed = seed;
    Session session(graph, options);
    const Var w(2.0, "w");
    const Output first = w * 3, second = w * 5;
    GradientDescentOptimizer sgd(0.25);
    const auto of_first = sgd.ComputeGradients(first);
    const auto of_second = sgd.ComputeGradients(second);
    ASSERT_TRUE(of_first.ok() && of_second.ok()) << graph.status();
    const auto train = sgd.ApplyGradients(
        {{(*of_first)[0].gradient.dense + (*of_second)[0].gradient.dense, w}});
    ASSERT_TRUE(train.ok()) << train.status();
    ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    const auto got = session.Run({}, {first, second}, {*train});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_FLOAT_EQ((*got)[0].scalar<float>(), 6);
    EXPECT_FLOAT_EQ((*got)[1].scalar<float>(), 10);
    EXPECT_FLOAT_EQ((*session.Run(w)).scalar<float>(), 0);
  }
}

TEST_F(OptimizerTest, SlotNamesIgnoreNameScopes) {
  const Var v(1.0, "v");
  AdagradOptimizer optimizer(0.1);
  const NameScope scope("train");
  ASSERT_NE(optimizer.Minimize(v * 2), nullptr) << graph_.status();
  EXPECT_EQ(optimizer.GetSlot(v, "accumulator").name(), "v/Adagrad");
  EXPECT_FALSE((optimizer.GetSlot(v, "none such")).valid());
}

TEST_F(OptimizerTest, ReportsMissingVariablesAndGradients) {
  GradientDescentOptimizer optimizer(0.1);
  const Output x = Constant(1.0f);
  EXPECT_THAT(std::string(optimizer.ComputeGradients(x).status().message()),
              HasSubstr("expected variables to train"));
  const Var v(1.0, "v");
  EXPECT_EQ(optimizer.Minimize(x * 2), nullptr);
  const int line = __LINE__ - 1;
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("expected a gradient for some variable, got none for "
                        "v"));
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr(Here(line, __FILE__)));
}

TEST_F(OptimizerTest, LossMustBeReal) {
  const Var v(1, "v");
  EXPECT_THAT(std::string(GradientDescentOptimizer(0.1)
                              .ComputeGradients(v * 2)
                              .status()
                              .message()),
              HasSubstr("floating type, got int32"));
}

TEST_F(OptimizerTest, OptimizerMayTrainInLoopBody) {
  const Var x(8.0f, "x");
  AdagradOptimizer optimizer(1.0);
  const Output steps = While(
      0, [](Output n) { return n < 5; },
      [&](Output n) {
        const ControlDependencies trained({optimizer.Minimize(x * x)});
        return n + 1;
      },
      {.parallel_iterations = 1});
  const Var y(8.0f, "y");
  AdagradOptimizer same(1.0);
  Node* step = same.Minimize(y * y, {.variables = {y}});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Initialize();
  EXPECT_THAT(Values<int32_t>(steps), ::testing::ElementsAre(5));
  for (int i = 0; i < 5; ++i) RunNode(step);
  EXPECT_LT(Values<float>(x)[0], 6);
  EXPECT_FLOAT_EQ(Values<float>(x)[0], Values<float>(y)[0]);
}

// A resource value that was read before the loop is used in every iteration,
// and the read precedes the updates; a reference is read in each iteration, as
// in TensorFlow.
TEST_F(OptimizerTest, LoopMayUpdateVariablesReadBeforeIt) {
  for (const bool reference : {false, true}) {
    SCOPED_TRACE(reference);
    const Var w(Constant(1.0f), "w", {.reference = reference});
    const Var b(Constant(0.0f), "b", {.reference = reference});
    // Three times: w -= 0.1 * 2 * the value read; each time, four times: b -=
    // 0.1.
    const Output n = While(
        Output(Constant(0)), [](Output i) { return i < 3; },
        [&](Output i) {
          Output value = w;
          Node* outer = GradientDescentOptimizer(0.1).Minimize(
              value * value, {.variables = {w}});
          const Output inner = While(
              Output(Constant(0)), [](Output j) { return j < 4; },
              [&](Output j) {
                Node* step = GradientDescentOptimizer(0.1).Minimize(
                    b + w.Read(), {.variables = {b}});
                const ControlDependencies updated({step});
                return j + 1;
              });
          const ControlDependencies updated({outer, inner.node});
          return i + 1;
        },
        {.parallel_iterations = 1});
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    Initialize();
    EXPECT_EQ(Eval(n).scalar<int32_t>(), 3);
    EXPECT_NEAR(Eval(w.Read()).scalar<float>(), reference ? 0.512f : 0.4f,
                1e-5f);
    EXPECT_NEAR(Eval(b.Read()).scalar<float>(), -1.2f, 1e-5f);
  }
}

}  // namespace
}  // namespace sluice
