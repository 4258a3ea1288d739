// Steps partitioned by hand: how far partitions run ahead of each other, which
// node an error names, how dead tokens act in other partitions.
#include <cmath>

#include "client/control/control_flow.h"
#include "client/testing/client_test_util.h"
#include "session/testing/partition_test_util.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Vars = std::vector<Output>;

class PartitionedStepTest : public ClientTest {
 protected:
  std::unique_ptr<CutStep> Cut(const std::vector<Output>& feeds,
                               const std::vector<Output>& fetches,
                               const std::vector<Node*>& targets = {},
                               bool regions = false) {
    CutStep::Options o;
    o.regions = regions;
    o.place = [](Graph* g) {  // As in the graph; else on 0.
      for (const auto& n : g->nodes())
        if (n->device().empty()) g->SetDevice(n.get(), TestDeviceName(0));
    };
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    auto cut = CutStep::Make(graph_, {feeds, fetches, targets}, o);
    EXPECT_TRUE(cut.ok()) << cut.status();
    return cut.ok() ? *std::move(cut) : nullptr;
  }
  // The peak memory of a step above the memory in use before.
  static int64_t Peak(CutStep& step, const std::vector<Tensor>& feeds,
                      uint64_t schedule) {
    Allocator::Cpu()->ResetPeak();
    const int64_t before = Allocator::Cpu()->stats().live_bytes;
    size_t untaken = 99;
    const auto got = step.Run(feeds, schedule, &untaken);
    EXPECT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(untaken, 0u);
    return Allocator::Cpu()->stats().peak_bytes - before;
  }
  // The result of a step after `init` was run, in twenty schedules.
  void ExpectAfter(Node* init, Output fetch, float want,
                   const std::vector<Output>& feeds = {},
                   const std::vector<Tensor>& values = {}) {
    const auto initialise = Cut({}, {}, {init});
    const auto step = Cut(feeds, {fetch});
    ASSERT_TRUE(initialise != nullptr && step != nullptr);
    ResourceManager resources;
    size_t untaken = 99;
    for (uint64_t schedule = 0; schedule < 20; ++schedule) {
      ASSERT_TRUE(initialise->Run({}, 0, &untaken, &resources).ok());
      const auto got = step->Run(values, schedule, &untaken, &resources);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ((*got)[0].scalar<float>(), want) << "schedule " << schedule;
    }
  }
};

// Device 0 makes a kilobyte in each iteration without waiting; device 1
// consumes it.
TEST_F(PartitionedStepTest, LoopMemoryDoesNotGrowWithIterations) {
  const Output n = Placeholder<int32_t>(PartialShape::Scalar());
  const Output x = Placeholder<float>({256});
  const auto loop = [&](bool consumer_has_a_variable) {
    Vars init = {Constant(0)};
    if (consumer_has_a_variable) init.push_back(x);
    return While(
        init, [&](Vars v) { return v[0] < n; },
        [&](Vars v) -> Vars {
          const Output made = x + ops::Cast(v[0], DType::kFloat);
          Vars next = {v[0] + 1};
          DeviceScope on(TestDeviceName(1));
          if (consumer_has_a_variable) {
            next.push_back(ops::Tanh(ops::Sin(made) + v[1]));
          } else {
            ControlDependencies after({ops::Tanh(ops::Sin(made)).node});
            next[0] = ops::Identity(next[0]);
          }
          return next;
        },
        {.parallel_iterations = 4});
  };
  // Once with a loop variable on the consumer's device, and once with only an
  // ordering edge.
  for (const bool variable : {true, false}) {
    const Vars out = loop(variable);
    for (const auto& node : graph_.nodes())
      if (variable && node->device().empty() &&
          node->name().find("_1") != std::string::npos &&
          node->op().role != OpRole::kConst)
        graph_.SetDevice(node.get(), TestDeviceName(1));
    const auto step = Cut({n, x}, {out.back()});
    ASSERT_NE(step, nullptr);
    ASSERT_EQ(step->partitions(), 2u);
    const Tensor vector(DType::kFloat, Shape({256}));
    for (const uint64_t schedule : {0, 3, 4}) {
      const int64_t few = Peak(*step, {Tensor::Scalar(40), vector}, schedule);
      const int64_t many =
          Peak(*step, {Tensor::Scalar(3000), vector}, schedule);
      EXPECT_LT(many, 60 << 10);
      EXPECT_LE(many, few + (16 << 10)) << "schedule " << schedule;
    }
  }
}

TEST_F(PartitionedStepTest, PureConsumerLagIsBounded) {
  // Device 1 returns only the signal that it has begun an iteration.
  const Output n = Placeholder<int32_t>(PartialShape::Scalar());
  const Output x = Placeholder<float>({256});
  const Vars out = While(
      Vars{Constant(0), Constant(0.f)}, [&](Vars v) { return v[0] < n; },
      [&](Vars v) -> Vars {
        const Output made = x + ops::Cast(v[0], DType::kFloat);
        const Output next = v[0] + 1;
        DeviceScope on(TestDeviceName(1));
        return {next, ops::Sum(made, {0}) + v[1]};
      },
      {.parallel_iterations = 4});
  // All nodes of the second variable are on 1.
  for (const char* name : {"while/Enter_1", "while/Merge_1", "while/Switch_1",
                           "while/NextIteration_1", "while/Identity_1"}) {
    Node* node = graph_.FindNode(name);
    ASSERT_NE(node, nullptr) << name;
    graph_.SetDevice(node, TestDeviceName(1));
  }
  const auto step = Cut({n, x}, {out[0], out[1]});
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->Count("_RecvSignal"), 1);
  const Tensor vector(DType::kFloat, Shape({256}));
  for (const uint64_t schedule : {0, 3, 4}) {
    const int64_t few = Peak(*step, {Tensor::Scalar(40), vector}, schedule);
    const int64_t many = Peak(*step, {Tensor::Scalar(3000), vector}, schedule);
    EXPECT_LE(many, few + (16 << 10)) << "schedule " << schedule;
  }
}

TEST_F(PartitionedStepTest, ErrorNamesTheUsersNodeOnAnyDevice) {
  const Output x = Placeholder<float>({2});
  Output y;
  const int line = __LINE__ + 3;
  {
    DeviceScope on(TestDeviceName(1));
    y = Build("CheckNumerics", {ops::Log(x)},
              {{"message", std::string("log")}});
  }
  const auto step = Cut({x}, {y + x});
  ASSERT_NE(step, nullptr);
  size_t untaken = 0;
  const auto got = step->Run({Tensor::Vector<float>({-1, 1})}, 0, &untaken);
  EXPECT_THAT(std::string(got.status().message()),
              HasSubstr(Here(line, __FILE__)));
  EXPECT_TRUE(step->Run({Tensor::Vector<float>({1, 1})}, 0, &untaken).ok());
}

TEST_F(PartitionedStepTest, ControlTriggerFiresAfterRemoteDeadTokens) {
  const Output p = Placeholder<bool>(PartialShape::Scalar());
  Node* sw = BuildNode("Switch", {Constant(1.f), p});
  Output a, b;
  {
    DeviceScope on(TestDeviceName(1));
    a = ops::Neg(Output(sw, 0));
    b = ops::Neg(Output(sw, 1));
  }
  Node* trigger;
  {
    ControlDependencies after({a.node, b.node});
    trigger = BuildNode("ControlTrigger", {});
  }
  ControlDependencies after({trigger});
  const Output done = ops::Identity(Constant(5));
  const auto step = Cut({p}, {done});
  ASSERT_NE(step, nullptr);
  for (const bool value : {true, false}) {
    size_t untaken = 99;
    const auto got = step->Run({Tensor::Scalar(value)}, 0, &untaken);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ((*got)[0].scalar<int32_t>(), 5);
    EXPECT_EQ(untaken, 0u);
  }
}

TEST_F(PartitionedStepTest, FetchOfUntakenBranchIsReported) {
  const Output p = Placeholder<bool>(PartialShape::Scalar());
  Node* sw = BuildNode("Switch", {Constant(1.f), p});
  Output y;
  {
    DeviceScope on(TestDeviceName(1));
    y = ops::Neg(Output(sw, 0));
  }
  const auto step = Cut({p}, {y});
  ASSERT_NE(step, nullptr);
  size_t untaken = 99;
  EXPECT_TRUE(step->Run({Tensor::Scalar(false)}, 0, &untaken).ok());
  const auto got = step->Run({Tensor::Scalar(true)}, 0, &untaken);
  EXPECT_THAT(std::string(got.status().message()),
              HasSubstr("a branch that was not taken"));
  EXPECT_EQ(untaken, 0u);
}

// A reference variable on another device is read after the reader's
// dependencies.
TEST_F(PartitionedStepTest, VariableIsReadAfterItIsSet) {
  const Output v =
      Build("VariableV2", {},
            {{"dtype", DType::kFloat}, {"shape", PartialShape({})}});
  Node* init = BuildNode("Assign", {v, Constant(1.f)});
  const Output add = Build("AssignAdd", {v, Constant(2.f)});
  Output y;
  {
    DeviceScope on(TestDeviceName(1));
    const Output snapshot = ops::Identity(v);
    ControlDependencies after({add.node});
    y = snapshot * 10.f;
  }
  ExpectAfter(init, y, 30.f);
}

// `with control_dependencies([add]): y = v + 5`, as TensorFlow writes it: the
// edge from the update ends only at the constant.
TEST_F(PartitionedStepTest,
       VariableReadWaitsForControlInputsOfReadersConstant) {
  const Output v =
      Build("VariableV2", {},
            {{"dtype", DType::kFloat}, {"shape", PartialShape({})}});
  Node* init = BuildNode("Assign", {v, Constant(1.f)});
  const Output read = ops::Identity(v);
  const Output add = Build("AssignAdd", {v, Constant(2.f)});
  for (int device = 0; device < 2; ++device) {
    DeviceScope on(TestDeviceName(device));
    Output five;
    {
      ControlDependencies after({add.node});
      five = Constant(5.f);
    }
    const Output y = Build("AddV2", {read, five});
    ASSERT_TRUE(y.node->control_inputs().empty());
    SCOPED_TRACE(device);
    ExpectAfter(init, y, 8.f);
  }
}

// The same with an input that is computed after the update, through other
// nodes.
TEST_F(PartitionedStepTest, VariableReadWaitsForControlInputsOfOtherInputs) {
  const Output v =
      Build("VariableV2", {},
            {{"dtype", DType::kFloat}, {"shape", PartialShape({})}});
  Node* init = BuildNode("Assign", {v, Constant(1.f)});
  const Output read = ops::Identity(v);
  const Output x = Build("Placeholder", {}, {{"dtype", DType::kFloat}});
  const Output add = Build("AssignAdd", {v, Constant(2.f)});
  for (int device = 0; device < 2; ++device) {
    DeviceScope on(TestDeviceName(device));
    Output late;
    {
      ControlDependencies after({add.node});
      late = ops::Neg(x);
    }
    const Output y = Build("AddV2", {read, ops::Neg(late)});
    ASSERT_TRUE(y.node->control_inputs().empty());
    SCOPED_TRACE(device);
    ExpectAfter(init, y, 8.f, {x}, {Tensor::Scalar(5.f)});
  }
}

// A loop that captures the value and changes the variable.
TEST_F(PartitionedStepTest, VariableIsReadInEachIterationThatChangesIt) {
  const Output v =
      Build("VariableV2", {},
            {{"dtype", DType::kFloat}, {"shape", PartialShape({})}});
  Node* init = BuildNode("Assign", {v, Constant(1.f)});
  const Output read = ops::Identity(v);
  for (int device = 0; device < 2; ++device) {
    const auto [n, sum] = While(
        std::tuple{Constant(0), Constant(0.f)},
        [](Output i, Output) { return i < 3; },
        [&](Output i, Output sum) {
          const ControlDependencies before({sum.node});
          const Output add = Build("AssignAdd", {v, Constant(2.f)});
          const ControlDependencies after({add.node});
          DeviceScope on(TestDeviceName(device));
          return std::tuple{i + 1, sum + read * 10.f};
        });
    SCOPED_TRACE(device);
    ExpectAfter(init, sum, 150.f);
  }
}

// As in `with control_dependencies([update]): assign_add(step, 1)`, where in
// TensorFlow only the constant has the edge from the update.
TEST_F(PartitionedStepTest, ReaderOfConstantWaitsForItsControlInputs) {
  const auto variable = [] {
    return Build("VariableV2", {},
                 {{"dtype", DType::kFloat}, {"shape", PartialShape({})}});
  };
  const Output saved = variable();
  Output step, read;
  {
    DeviceScope on(TestDeviceName(1));
    step = variable();
    read = ops::Identity(step);
  }
  const Output update = Build("Assign", {saved, read});
  Node *add, *start;
  {
    DeviceScope on(TestDeviceName(1));
    Output one;
    {
      ControlDependencies after({update.node});
      one = Constant(1.f);
    }
    ASSERT_EQ(one.node->control_inputs().size(), 1u);
    add = BuildNode("AssignAdd", {step, one});
    ASSERT_EQ(add->control_inputs().size(), 0u);
    start = BuildNode("Assign", {step, Constant(5.f)});
  }
  const auto initialise = Cut({}, {}, {start});
  const auto train = Cut({}, {}, {add});
  const auto look = Cut({}, {ops::Identity(saved)});
  ASSERT_TRUE(initialise != nullptr && train != nullptr && look != nullptr);
  ResourceManager resources;
  size_t untaken = 99;
  for (uint64_t schedule = 0; schedule < 20; ++schedule) {
    ASSERT_TRUE(initialise->Run({}, 0, &untaken, &resources).ok());
    ASSERT_TRUE(train->Run({}, schedule, &untaken, &resources).ok());
    const auto got = look->Run({}, 0, &untaken, &resources);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ((*got)[0].scalar<float>(), 5.f) << "schedule " << schedule;
  }
}

// Cheap nodes before and after work on another device do not form one region,
// which would wait for itself.
TEST_F(PartitionedStepTest, RegionsDoNotWaitForThemselves) {
  const Output x = Placeholder<float>({2});
  const Output u = ops::Sin(x), v = ops::Sin(u);
  Output w;
  {
    DeviceScope on(TestDeviceName(1));
    w = ops::Cos(u);
  }
  const Output y = ops::Tanh(v * w + u);
  const auto step = Cut({x}, {y}, {}, true);
  ASSERT_NE(step, nullptr);
  EXPECT_GT(step->Count("_Region"), 0);
  size_t untaken = 99;
  const auto got = step->Run({Tensor::Vector<float>({1, 2})}, 0, &untaken);
  ASSERT_TRUE(got.ok()) << got.status();
  for (int i = 0; i < 2; ++i) {
    const float a = std::sin(i + 1.f);
    EXPECT_FLOAT_EQ((*got)[0].data<float>()[i],
                    std::tanh(std::sin(a) * std::cos(a) + a));
  }
}

}  // namespace
}  // namespace sluice
