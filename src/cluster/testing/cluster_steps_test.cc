// Steps over several tasks, run by sessions that connect to them: values,
// state, errors, cancellation and clean-up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "base/failpoint.h"
#include "cluster/testing/cluster_test_util.h"
#include "cluster/transport/grpc/transport.h"
#include "cluster/transport/ucx/transport.h"
#include "exec/core/device.h"
#include "graph/shape_context.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

Tensor F(float v) { return Tensor::Scalar<float>(v); }

class ClusterTest : public ::testing::Test {
 protected:
  ClusterTest() : use_(graph_), cluster_({{"ps", 1}, {"worker", 2}}) {}

  // 2 (x + 1) with each half on a different task.
  Output TwoHalves(Output x) {
    Output y;
    {
      DeviceScope on("/job:ps/task:0");
      y = x + 1.0f;
    }
    DeviceScope on("/job:worker/task:1");
    return y * 2.0f;
  }

  Graph graph_;
  WithGraph use_;
  TestCluster cluster_;
};

TEST_F(ClusterTest, StepOverThreeTasksMatchesOneTask) {
  Output x = Placeholder<float>({});
  Output y = TwoHalves(x);
  Session session(cluster_.target("worker", 0), graph_);
  for (int i = 0; i < 20; ++i) {
    auto out = session.Run({{x, F(static_cast<float>(i))}}, {y, x});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].scalar<float>(), 2.0f * (i + 1));
    EXPECT_EQ((*out)[1].scalar<float>(), static_cast<float>(i));
  }
}

TEST_F(ClusterTest, FetchedNodeWithoutOutputsRuns) {
  Var v;
  {
    DeviceScope on("/job:ps/task:0");
    v = Var(Constant(1.0f), "v");
  }
  Node* add = v.AssignAdd(2.0f);
  const Output two = TwoHalves(Constant(0.0f));
  Session session(cluster_.target("worker", 0), graph_);
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  auto out = session.Run({add, two});
  ASSERT_TRUE(out.ok()) << out.status();
  ASSERT_EQ(out->size(), 2u);
  EXPECT_FALSE((*out)[0].valid());
  EXPECT_EQ((*out)[1].scalar<float>(), 2);
  EXPECT_EQ(session.Run(v)->scalar<float>(), 3);
}

TEST_F(ClusterTest, PlacementLogListsNodesAndDevices) {
  Output x = Placeholder<float>({});
  Output y = TwoHalves(x);
  std::string log;
  SessionOptions options;
  options.placement_log = [&log](const std::string& table) { log += table; };
  Session session(cluster_.target("worker", 0), graph_, options);
  ASSERT_TRUE(session.Run({{x, F(1)}}, y).ok());
  EXPECT_THAT(log, HasSubstr(y.node->name()));
  EXPECT_THAT(log, HasSubstr("/job:ps/replica:0/task:0/device:CPU:0"));
  EXPECT_THAT(log, HasSubstr("/job:worker/replica:0/task:1/device:CPU:0"));
}

// Waits until the server has only `count` registered steps: a step that was
// running when it was evicted is removed at the next eviction.
bool FallsTo(size_t count, Session* session, Server& server,
             const std::vector<Output>& kinds) {
  for (size_t i = 0; i < 1000 && server.worker().num_steps() > count; ++i) {
    EXPECT_TRUE(session->Run(kinds[i % kinds.size()]).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return server.worker().num_steps() == count;
}

TEST(PreparedSteps, AreBoundedAndEvictedOnesAreRecompiled) {
  Graph graph;
  WithGraph use(graph);
  TestCluster cluster(
      {{"ps", 1}, {"worker", 1}},
      [](TransportOptions o) {
        return std::make_unique<LocalTransport>(std::move(o));
      },
      [](ServerOptions* o) { o->prepared_steps = 3; });
  Var v;
  std::vector<Output> sums;
  {
    DeviceScope on("/job:ps/task:0");
    v = Var(Constant(1.0f), "v");
    for (int i = 0; i < 8; ++i)
      sums.push_back(v.value() + static_cast<float>(i));
  }
  Session session(cluster.target("worker", 0), graph);
  ASSERT_TRUE(session.RunTargets({v.initializer()}).ok());
  auto first = session.MakeCallable({}, {sums[0]});
  ASSERT_TRUE(first.ok()) << first.status();
  // Each of them evicts another; the right one still runs.
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto out = session.Run(sums[i]);
      ASSERT_TRUE(out.ok()) << out.status();
      EXPECT_EQ(out->scalar<float>(), 1.0f + static_cast<float>(i));
    }
    const auto out = first->Run();
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].scalar<float>(), 1);
  }
  // Also when threads evict each other's.
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int n = 0; n < 20; ++n) {
        const auto out = session.Run(sums[2 * t + static_cast<size_t>(n) % 2]);
        ASSERT_TRUE(out.ok()) << out.status();
        EXPECT_GE(out->scalar<float>(), 1);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(FallsTo(3, &session, cluster.server("ps", 0), sums));
  EXPECT_LE(cluster.server("worker", 0).worker().num_steps(), 3u);
}

TEST(PreparedSteps, StepEvictedDuringStartStillRuns) {
  Graph graph;
  WithGraph use(graph);
  TestCluster cluster(
      {{"ps", 1}, {"worker", 1}},
      [](TransportOptions o) {
        return std::make_unique<LocalTransport>(std::move(o));
      },
      [](ServerOptions* o) { o->prepared_steps = 1; });
  const DeviceScope on("/job:ps/task:0");
  const Var v(Constant(1.0f), "v");
  const Output one = v.value() + 1.0f, other = v.value() + 2.0f,
               third = v.value() + 3.0f;
  Session session(cluster.target("worker", 0), graph);
  ASSERT_TRUE(session.RunTargets({v.initializer()}).ok());
  ASSERT_TRUE(session.Run(one).ok());
  // Between the master's lookup and the task's.
  ASSERT_TRUE(EnableFailpoints("master.step_known=delay(500)*1").ok());
  Result<Tensor> out = Unavailable("not run");
  std::thread runs([&] { out = session.Run(one); });
  while (FailpointHits("master.step_known") == 0) std::this_thread::yield();
  EXPECT_TRUE(session.MakeCallable({}, {other}).ok());
  runs.join();
  DisableFailpoints();
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->scalar<float>(), 2);
  EXPECT_TRUE(FallsTo(1, &session, cluster.server("ps", 0), {one, third}));
}

TEST(EarlyFeeds, BeyondATasksLimitFailTheStepForThatReason) {
  Graph graph;
  WithGraph use(graph);
  TestCluster cluster(
      {{"ps", 1}, {"worker", 1}},
      [](TransportOptions o) {
        return std::make_unique<LocalTransport>(std::move(o));
      },
      [](ServerOptions* o) { o->limits.early_bytes = 1 << 16; });
  const DeviceScope on("/job:ps/task:0");
  const Output a = Placeholder<float>(), b = Placeholder<float>();
  const Output y = ops::Sum(a + b, IntVector({0}));
  Session session(cluster.target("worker", 0), graph);
  const auto run = [&](int64_t n) {
    const Tensor ones = Tensor::Vector<float>(std::vector<float>(n, 1.0f));
    return session.Run({{a, ones}, {b, ones}}, y);
  };
  const Status s = run(1 << 15).status();
  EXPECT_EQ(s.code(), StatusCode::kResourceExhausted) << s;
  EXPECT_THAT(std::string(s.message()),
              HasSubstr("tokens of steps that have not begun"));
  const Result<Tensor> fits = run(100);
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ(fits->scalar<float>(), 200);
}

TEST_F(ClusterTest, TheGraphMayGrowBetweenSteps) {
  Output x = Placeholder<float>({});
  Output y = TwoHalves(x);
  Session session(cluster_.target("ps", 0), graph_);
  for (int i = 0; i < 5; ++i) {
    auto out = session.Run({{x, F(1)}}, y);
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(out->scalar<float>(), 4.0f + 4.0f * i);
    y = y + y / (1.0f + i);
  }
}

TEST_F(ClusterTest, LoopMaySpanTasks) {
  Output n = Placeholder<int32_t>({});
  auto [i, total] = CountAndSum(n, "/job:worker/task:1");
  Session session(cluster_.target("worker", 0), graph_);
  for (const int32_t count : {0, 1, 7, 100}) {
    auto out = session.Run({{n, Tensor::Scalar<int32_t>(count)}}, {i, total});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].scalar<int32_t>(), count);
    EXPECT_EQ((*out)[1].scalar<int32_t>(), count * (count - 1) / 2);
  }
}

// The gradient of a call runs where the call saved its values, whatever scope
// Grad is called in.
TEST_F(ClusterTest, GradientOfARecursiveCallRunsOnItsTask) {
  const Function chain =
      DefineFunction("chain", {DType::kInt32, DType::kFloat}, {DType::kFloat},
                     [](const Function& self, const std::vector<Output>& a) {
                       return Cond(
                           a[0] < 1, [&] { return a[1]; },
                           [&] {
                             return ops::Sin(self({a[0] - 1, a[1]})[0]) * a[1];
                           });
                     });
  const Output n = Placeholder<int32_t>({}), x = Placeholder<float>({});
  Output y, dy;
  {
    const DeviceScope on("/job:worker/task:1");
    y = chain({n, x})[0];
  }
  {
    const DeviceScope on("/job:ps/task:0");
    dy = Grad(y * 2.0f, x);
  }
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const Feeds feeds = {{n, Tensor::Scalar<int32_t>(3)}, {x, F(0.75f)}};
  Graph plain;
  Result<std::vector<Tensor>> want = [&] {
    const WithGraph use(plain);
    const Output v = Placeholder<float>({});
    Output z = v;
    for (int i = 0; i < 3; ++i) z = ops::Sin(z) * v;
    return Session(plain).Run({{v, F(0.75f)}},
                              std::vector<Output>{z, Grad(z * 2.0f, v)});
  }();
  ASSERT_TRUE(want.ok()) << want.status();
  Session session(cluster_.target("worker", 0), graph_);
  for (int i = 0; i < 3; ++i) {
    const auto got = session.Run(feeds, {y, dy});
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t k = 0; k < 2; ++k)
      EXPECT_FLOAT_EQ((*got)[k].scalar<float>(), (*want)[k].scalar<float>());
  }
}

// (A call's arguments and results are not the step's.)
TEST_F(ClusterTest, RecursiveFunctionMaySpanTasks) {
  const Function tree = DefineFunction(
      "tree", {DType::kInt32, DType::kFloat, DType::kFloat, DType::kInt32},
      {DType::kInt32, DType::kFloat, DType::kFloat, DType::kInt32},
      [](const Function& self, const std::vector<Output>& a) {
        const Output n = a[0];
        return Cond(
            n < 1, [&] { return a; },
            [&]() -> std::vector<Output> {
              Output half, more, sum;
              {
                DeviceScope on("/job:ps/task:0");
                half = a[1] * 0.5f;
              }
              {
                DeviceScope on("/job:worker/task:0");
                more = a[2] + 1.0f;
              }
              const auto left = self({n - 1, half, a[2], a[3]});
              const auto right = self({n - 2, a[1], more, a[3]});
              {
                DeviceScope on("/job:worker/task:1");
                sum = left[1] + right[1];
              }
              return {left[0], sum, left[2] + right[2], right[3]};
            });
      });
  Output n = Placeholder<int32_t>({}), x = Placeholder<float>({});
  const Output y = tree({n, x, x, n})[1];
  const Output dy = Grad(y, x);
  const Feeds feeds = {{n, Tensor::Scalar<int32_t>(6)}, {x, F(0.75f)}};
  SessionOptions options;
  for (const char* task :
       {"/job:worker/task:0", "/job:worker/task:1", "/job:ps/task:0"})
    options.devices.push_back(std::make_shared<CpuDevice>(
        *DeviceName::Parse(std::string(task) + "/replica:0/device:CPU:0")));
  Session here(graph_, options);
  const auto want = here.Run(feeds, {y, dy});
  ASSERT_TRUE(want.ok()) << want.status();
  Session session(cluster_.target("worker", 0), graph_);
  for (int i = 0; i < 3; ++i) {
    const auto got = session.Run(feeds, {y, dy});
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t k = 0; k < 2; ++k)
      EXPECT_EQ((*got)[k].ToString(), (*want)[k].ToString());
  }
}

TEST_F(ClusterTest, VariablesOutliveSessionsAndAreShared) {
  Var v;
  {
    DeviceScope on("/job:ps/task:0");
    v = Var(Constant(3.0f), "v");
  }
  Node* add = v.AssignAdd(Constant(1.0f));
  {
    Session session(cluster_.target("worker", 0), graph_);
    ASSERT_TRUE(session.RunTargets({v.initializer()}).ok());
    ASSERT_TRUE(session.RunTargets({add}).ok());
  }
  Session other(cluster_.target("worker", 1), graph_);
  auto value = other.Run(v.value());
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->scalar<float>(), 4);
}

TEST_F(ClusterTest, IsolatedSessionHasItsOwnState) {
  Var v;
  {
    DeviceScope on("/job:ps/task:0");
    v = Var(Constant(3.0f), "v");
  }
  Session shared(cluster_.target("worker", 0), graph_);
  ASSERT_TRUE(shared.RunTargets({v.initializer()}).ok());
  SessionOptions options;
  options.isolated = true;
  Session alone(cluster_.target("worker", 0), graph_, options);
  EXPECT_EQ(alone.Run(v.value()).status().code(),
            StatusCode::kFailedPrecondition);
  ASSERT_TRUE(alone.RunTargets({v.initializer()}).ok());
  ASSERT_TRUE(alone.RunTargets({v.AssignAdd(Constant(1.0f))}).ok());
  EXPECT_EQ(shared.Run(v.value())->scalar<float>(), 3);
  EXPECT_EQ(alone.Run(v.value())->scalar<float>(), 4);
}

TEST_F(ClusterTest, ResetClearsContainersInAllTasks) {
  Var a, b;
  {
    DeviceScope on("/job:ps/task:0");
    a = Var(Constant(1.0f), "a");
  }
  {
    DeviceScope on("/job:worker/task:1");
    b = Var(Constant(2.0f), "b");
  }
  Session session(cluster_.target("worker", 0), graph_);
  ASSERT_TRUE(session.RunTargets({a.initializer(), b.initializer()}).ok());
  ASSERT_TRUE(session.Reset({"no such container"}).ok());
  EXPECT_TRUE(session.Run({a.value(), b.value()}).ok());
  ASSERT_TRUE(session.Reset().ok());
  EXPECT_FALSE(session.Run(a.value()).ok());
  EXPECT_FALSE(session.Run(b.value()).ok());
}

TEST_F(ClusterTest, RemoteErrorNamesNodeAndLine) {
  Output x = Placeholder<float>({-1});
  Output bad;
  int line = 0;
  {
    DeviceScope on("/job:ps/task:0");
    line = __LINE__ + 1;
    bad = ops::Reshape(x, Constant(Tensor::Vector<int32_t>({3})));
  }
  Output y;
  {
    DeviceScope on("/job:worker/task:1");
    y = bad + 1.0f;
  }
  // The same devices, all in this process.
  SessionOptions options;
  for (const char* task : {"/job:ps/task:0", "/job:worker/task:1"})
    options.devices.push_back(std::make_shared<CpuDevice>(
        *DeviceName::Parse(std::string(task) + "/replica:0/device:CPU:0")));
  Session here(graph_, options);
  Session there(cluster_.target("worker", 0), graph_);
  const Feeds feeds = {{x, Tensor::Vector<float>({1, 2})}};
  const Status expected = here.Run(feeds, y).status();
  ASSERT_FALSE(expected.ok());
  EXPECT_THAT(std::string(expected.message()),
              HasSubstr("cluster_steps_test.cc:" + std::to_string(line)));
  const Status got = there.Run(feeds, y).status();
  EXPECT_EQ(got.code(), expected.code());
  EXPECT_EQ(std::string(got.message()),
            std::string(expected.message()) + "; on /job:ps/replica:0/task:0");
  // The session still works.
  EXPECT_TRUE(there.Run({{x, Tensor::Vector<float>({1, 2, 3})}}, y).ok());
  EXPECT_EQ(cluster_.server("ps", 0).worker().steps().num_running(), 0u);
}

TEST_F(ClusterTest, UnsendableValueErrorNamesItsNode) {
  Var v;
  Output list;
  {
    DeviceScope on("/job:ps/task:0");
    v = Var(Constant(1.0f), "v");
    list = ops::EmptyTensorList(Constant(Tensor::Vector<int32_t>({})),
                                Constant(int32_t{3}), DType::kFloat);
  }
  Session session(cluster_.target("worker", 0), graph_);
  for (const auto& [fetch, node] :
       {std::pair(list, list), {v.handle(), v.handle()}}) {
    const Status s = session.Run(fetch).status();
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
    EXPECT_THAT(std::string(s.message()),
                HasSubstr("value for another task: expected plain"));
    EXPECT_THAT(std::string(s.message()), HasSubstr(node.node->Describe()));
  }
  auto run = session.StartPartialRun({}, {list});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(std::string((*run)->Run({}, {list}).status().message()),
              HasSubstr(list.node->Describe()));
}

// A list that grows in one task and is read in others, in a loop over all, and
// its gradient; in process and over connections, inline or not.
TEST(ClusterLists, PassBetweenTasksInLoopsAndGradients) {
  constexpr const char* kTasks[] = {"/job:ps/task:0", "/job:worker/task:0",
                                    "/job:worker/task:1"};
  const auto over_grpc = [](TransportOptions o) {
    o.local_shortcut = false;
    GrpcTransportOptions grpc;
    static_cast<TransportOptions&>(grpc) = std::move(o);
    return std::make_unique<GrpcTransport>(std::move(grpc));
  };
  const auto over_ucx = [](TransportOptions o) {
    o.local_shortcut = false;
    UcxTransportOptions ucx;
    static_cast<TransportOptions&>(ucx) = std::move(o);
    return MakeUcxTransport(std::move(ucx));
  };
  for (const int length : {0, 3, 40000}) {  // 0: strings.
    SCOPED_TRACE(length);
    Graph graph;
    WithGraph use(graph);
    const bool strings = length == 0;
    const DType dtype = strings ? DType::kString : DType::kFloat;
    Output n = Placeholder<int32_t>({}), x = Placeholder<float>({length}), list;
    const Output any = Constant(int32_t{-1});
    {
      DeviceScope on(kTasks[0]);
      list = ops::EmptyTensorList(any, any, dtype);
    }
    auto [i, grown] = While(
        std::tuple(Output(Constant(int32_t{0})), list),
        [&](Output i, Output) {
          DeviceScope on(kTasks[1]);
          return i < n;
        },
        [&](Output i, Output l) {
          DeviceScope on(kTasks[2]);
          const Output item = strings ? Output(ops::AsString(i))
                                      : x * Output(ops::Cast(i, DType::kFloat));
          return std::tuple(Output(i + 1),
                            Output(ops::TensorListPushBack(l, item)));
        });
    std::vector<Output> fetches;
    {
      DeviceScope on(kTasks[1]);
      fetches.push_back(ops::TensorListLength(grown));
      fetches.push_back(
          ops::TensorListGetItem(grown, fetches[0] - 1, any, dtype));
    }
    if (!strings) {
      DeviceScope on(kTasks[0]);
      const Output all = ops::TensorListStack(grown, any, dtype);
      fetches.push_back(
          ops::Sum(all, Constant(Tensor::Vector<int32_t>({0, 1}))));
      auto gradients = Gradients({fetches.back()}, {x});
      ASSERT_TRUE(gradients.ok()) << gradients.status();
      fetches.push_back((*gradients)[0].dense);
    }
    Tensor ones(DType::kFloat, Shape({length}));
    for (float& f : ones.flat<float>()) f = 1;
    for (int net = 0; net < (HaveUcx() ? 3 : 2); ++net) {
      const std::vector<std::pair<std::string, int>> jobs = {{"ps", 1},
                                                             {"worker", 2}};
      const auto cluster = net == 0 ? std::make_unique<TestCluster>(jobs)
                           : net == 1
                               ? std::make_unique<TestCluster>(jobs, over_grpc)
                               : std::make_unique<TestCluster>(jobs, over_ucx);
      Session session(cluster->target("worker", 0), graph);
      for (const int32_t count : {1, 5}) {
        auto out = session.Run({{n, Tensor::Scalar<int32_t>(count)}, {x, ones}},
                               fetches);
        ASSERT_TRUE(out.ok()) << out.status();
        EXPECT_EQ((*out)[0].scalar<int32_t>(), count);
        if (strings) {
          EXPECT_EQ((*out)[1].scalar<std::string>(), std::to_string(count - 1));
          continue;
        }
        const float sum = static_cast<float>(count * (count - 1) / 2);
        for (const float f : (*out)[1].flat<float>())
          ASSERT_EQ(f, static_cast<float>(count - 1));
        EXPECT_EQ((*out)[2].scalar<float>(), static_cast<float>(length) * sum);
        ASSERT_EQ((*out)[3].shape(), ones.shape());
        for (const float f : (*out)[3].flat<float>()) ASSERT_EQ(f, sum);
      }
      EXPECT_TRUE(session.Close().ok());
      EXPECT_TRUE(cluster->Quiet());
    }
  }
}

// Loops over two tasks until it is cancelled.
Output Endless() {
  return While(
      Output(Constant(int32_t{1})),
      [](Output i) {
        DeviceScope on("/job:worker/task:0");
        return i > 0;
      },
      [](Output i) {
        DeviceScope on("/job:ps/task:0");
        return Output(ops::Maximum(i, Constant(int32_t{1})));
      });
}

TEST_F(ClusterTest, DeadlineEndsStepInAllTasks) {
  Output endless = Endless();
  Session session(cluster_.target("worker", 1), graph_);
  RunOptions options;
  options.timeout_ms = 50;
  const Status s = session.Run({}, {endless}, {}, options).status();
  EXPECT_EQ(s.code(), StatusCode::kDeadlineExceeded) << s;
  ASSERT_TRUE(session.Close().ok());
  EXPECT_TRUE(cluster_.Quiet());
}

SLUICE_OP(ClusterTestForgets)
    .Input("x: float")
    .Output("y: float")
    .Shape(UnchangedShape)
    .Kernel(Cpu([](KernelContext&) { return OkStatus(); }));

TEST_F(ClusterTest, RemoteKernelErrorNamesItsNode) {
  Output x = Placeholder<float>({});
  Output y;
  {
    DeviceScope on("/job:ps/task:0");
    y = Build("ClusterTestForgets", {x}, {}, "forgets");
  }
  const Output z = y + 1.0f;
  Session session(cluster_.target("worker", 0), graph_);
  const Status s = session.Run({{x, F(1)}}, z).status();
  EXPECT_EQ(s.code(), StatusCode::kInternal) << s;
  EXPECT_THAT(std::string(s.message()),
              HasSubstr("kernel: expected float as output 0 ('y'), got none: "
                        "the kernel did not set it; node 'forgets' "
                        "(ClusterTestForgets) at "));
}

SLUICE_OP(ClusterTestFails)
    .Input("message: string")
    .Output("same: string")
    .Shape(UnchangedShape)
    .Kernel(Cpu([](KernelContext& ctx) {
      return OutOfRange(ctx.input(0).scalar<std::string>());
    }));

// The client cannot tell which task its session's master belongs to, so errors
// of that task name it too.
TEST_F(ClusterTest, AnErrorOfAKernelNamesItsTaskOnce) {
  const Output message = Placeholder<std::string>({});
  std::map<std::string, Output> fails;  // By task.
  for (const std::string task :
       {"/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0",
        "/job:worker/replica:0/task:1"}) {
    const DeviceScope on(task);
    fails[task] = Build("ClusterTestFails", {message}, {}, "fails");
  }
  Session session(cluster_.target("worker", 0), graph_);
  const auto error = [&](const std::string& task, const std::string& text) {
    const Status s =
        session.Run({{message, Tensor::Scalar(text)}}, fails[task]).status();
    EXPECT_EQ(s.code(), StatusCode::kOutOfRange) << s;
    return std::string(s.message());
  };
  for (const auto& [task, unused] : fails) {
    EXPECT_THAT(error(task, "full"),
                MatchesRegex("full; node 'fails.*; on " + task));
    const std::string named = "task '" + task + "' is full";
    EXPECT_THAT(error(task, named),
                AllOf(HasSubstr(named), Not(HasSubstr("; on"))));
    EXPECT_THAT(error(task, task + "2 is full"), EndsWith("; on " + task));
  }
}

TEST_F(ClusterTest, EveryMethodButCloseFailsAfterClose) {
  Output x = Placeholder<float>({});
  Output y = -x;
  const std::vector<Tensor> one = {Tensor::Scalar(1.0f)};
  Session session(cluster_.target("worker", 1), graph_);
  auto callable = session.MakeCallable({x}, {y});
  ASSERT_TRUE(callable.ok()) << callable.status();
  auto partial = session.StartPartialRun({x}, {y});
  ASSERT_TRUE(partial.ok()) << partial.status();
  ASSERT_TRUE(session.Close().ok());
  for (const Status& s :
       {session.Run({{x, one[0]}}, y).status(),
        session.MakeCallable({x}, {y}).status(),
        session.StartPartialRun({x}, {y}).status(), session.Reset(),
        session.ListDevices().status(), callable->Run(one).status(),
        (*partial)->Run({{x, one[0]}}, {y}).status()})
    EXPECT_EQ(s.code(), StatusCode::kFailedPrecondition) << s;
  EXPECT_TRUE(session.Close().ok());
}

TEST_F(ClusterTest, ClosingASessionCancelsItsStepsInAllTasks) {
  Output endless = Endless();
  Session session(cluster_.target("worker", 1), graph_);
  std::thread closer([&] {
    while (cluster_.server("ps", 0).worker().steps().num_running() == 0)
      std::this_thread::yield();
    EXPECT_TRUE(session.Close().ok());
  });
  const Status s = session.Run(endless).status();
  closer.join();
  EXPECT_EQ(s.code(), StatusCode::kCancelled) << s;
  EXPECT_EQ(session.Run(endless).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(cluster_.Quiet());
}

TEST_F(ClusterTest, RestartedTaskFailsSessionAndIsNamed) {
  Output x = Placeholder<float>({});
  Output y = TwoHalves(x);
  auto session =
      std::make_unique<Session>(cluster_.target("worker", 0), graph_);
  ASSERT_TRUE(session->Run({{x, F(1)}}, y).ok());
  cluster_.StopTask("ps", 0);
  cluster_.StartTask("ps", 0);
  const Status s = session->Run({{x, F(1)}}, y).status();
  ASSERT_FALSE(s.ok());
  EXPECT_THAT(std::string(s.message()), HasSubstr("/job:ps/replica:0/task:0"));
  session = std::make_unique<Session>(cluster_.target("worker", 0), graph_);
  auto out = session->Run({{x, F(1)}}, y);
  EXPECT_TRUE(out.ok()) << out.status();
}

// The report of an incarnation's death may arrive after its successor has
// started.
TEST_F(ClusterTest, OnlyTheDeadIncarnationIsLost) {
  Output x = Placeholder<float>({});
  Output y = TwoHalves(x);
  const Feeds feeds = {{x, F(1)}};
  Session session(cluster_.target("worker", 0), graph_);
  ASSERT_TRUE(session.Run(feeds, y).ok());
  Master& master = cluster_.server("worker", 0).master();
  const uint64_t now = cluster_.server("ps", 0).worker().incarnation();
  const char ps[] = "/job:ps/replica:0/task:0";
  master.LoseTask(ps, now - 1, Unavailable("an earlier one"));
  EXPECT_TRUE(session.Run(feeds, y).ok());
  master.LoseTask(ps, now, Unavailable("this one is gone"));
  const Status s = session.Run(feeds, y).status();
  EXPECT_THAT(std::string(s.message()), HasSubstr("this one is gone"));
}

TEST_F(ClusterTest, TaskThatEndsDuringStepFailsItAndIsNamed) {
  Output endless = Endless();
  Session session(cluster_.target("worker", 1), graph_);
  std::thread killer([&] {
    while (cluster_.server("ps", 0).worker().steps().num_running() == 0)
      std::this_thread::yield();
    cluster_.StopTask("ps", 0);
  });
  const Status s = session.Run(endless).status();
  killer.join();
  ASSERT_FALSE(s.ok());
  EXPECT_THAT(std::string(s.message()), HasSubstr("/job:ps/replica:0/task:0"));
  EXPECT_EQ(cluster_.server("worker", 0).worker().steps().num_running(), 0u);
}

TEST_F(ClusterTest, ConcurrentClientsUpdateOneVariable) {
  constexpr int kClients = 4, kSteps = 25;
  {
    DeviceScope on("/job:ps/task:0");
    Var v(Constant(0.0f), "v");
    Session session(cluster_.target("worker", 0), graph_);
    ASSERT_TRUE(session.RunTargets({v.initializer()}).ok());
  }
  std::vector<std::thread> clients;
  std::atomic<int> failures{0};
  for (int c = 0; c < kClients; ++c)
    clients.emplace_back([&, c] {
      Graph g;
      WithGraph use(g);
      Var v;
      {
        DeviceScope on("/job:ps/task:0");
        v = Var(Constant(0.0f), "v");
      }
      Output delta;
      {
        DeviceScope on("/job:worker/task:" + std::to_string(c % 2));
        delta = Constant(0.5f) + Placeholder<float>({}, "x");
      }
      Node* add = v.AssignAdd(delta);
      Session session(cluster_.target("worker", c % 2), g);
      const Output x = *g.FindOutput("x");
      for (int i = 0; i < kSteps; ++i)
        if (!session.RunTargets({add}, {{x, F(0.5f)}}).ok()) ++failures;
    });
  for (std::thread& t : clients) t.join();
  EXPECT_EQ(failures, 0);
  Session session(cluster_.target("worker", 0), graph_);
  const Output v = *graph_.FindOutput("v/Read/ReadVariableOp");
  auto value = session.Run(v);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->scalar<float>(), kClients * kSteps);
}

TEST_F(ClusterTest, ASessionKnowsTheDevicesOfAllTasks) {
  Session session(cluster_.target("worker", 0), graph_);
  auto devices = session.ListDevices();
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_THAT(*devices,
              ElementsAre("/job:ps/replica:0/task:0/device:CPU:0",
                          "/job:worker/replica:0/task:0/device:CPU:0",
                          "/job:worker/replica:0/task:1/device:CPU:0"));
}

TEST_F(ClusterTest, UnknownTargetsAndDevicesAreNamedInErrors) {
  Output x = Placeholder<float>({});
  Output y = x + 1.0f;
  Session session(cluster_.target("worker", 0), graph_);
  Session nowhere("inproc://nobody", graph_);
  EXPECT_EQ(nowhere.Run({{x, F(1)}}, y).status().code(),
            StatusCode::kUnavailable);
  Session unknown("pigeon://coop", graph_);
  EXPECT_THAT(std::string(unknown.Run({{x, F(1)}}, y).status().message()),
              HasSubstr("inproc://"));
  Output nowhere_to_run;
  {
    DeviceScope on("/job:chief/task:0");
    nowhere_to_run = x + 2.0f;
  }
  EXPECT_THAT(
      std::string(session.Run({{x, F(1)}}, nowhere_to_run).status().message()),
      HasSubstr("/job:chief"));
}

TEST_F(ClusterTest, ATracedStepShowsTheNodesOfAllTasks) {
  Output x = Placeholder<float>({});
  Output y = TwoHalves(x);
  Session session(cluster_.target("worker", 0), graph_);
  RunOptions options;
  options.trace = true;
  RunMetadata metadata;
  auto out = session.Run({{x, F(1)}}, {y}, {}, options, &metadata);
  ASSERT_TRUE(out.ok()) << out.status();
  int sums = 0, products = 0;
  for (const TraceEvent& e : metadata.events) {
    sums += e.op == "AddV2";
    products += e.op == "Mul";
  }
  EXPECT_EQ(sums, 1);
  EXPECT_EQ(products, 1);
}

TEST_F(ClusterTest, EndedSessionsLeaveNothing) {
  Output x = Placeholder<float>({});
  Output y = TwoHalves(x);
  for (int i = 0; i < 3; ++i) {
    Session session(cluster_.target("worker", i % 2), graph_);
    EXPECT_TRUE(session.Run({{x, F(1)}}, y).ok());
  }
  EXPECT_TRUE(cluster_.Quiet());
}

TEST_F(ClusterTest, MasterLogsTaskRestart) {
  Output y = TwoHalves(Constant(1.0f));
  const auto run = [&] {
    ::testing::internal::CaptureStderr();
    Session session(cluster_.target("worker", 0), graph_);
    EXPECT_TRUE(session.Run(y).ok());
    return ::testing::internal::GetCapturedStderr();
  };
  const char* const kAgain =
      "task /job:ps/replica:0/task:0 was restarted (incarnation ";
  EXPECT_THAT(run(), Not(HasSubstr(kAgain)));
  cluster_.StopTask("ps", 0);
  cluster_.StartTask("ps", 0);
  EXPECT_THAT(run(), HasSubstr(kAgain));
  EXPECT_THAT(run(), Not(HasSubstr(kAgain)));  // (Once.)
}

TEST(DeviceFiltersTest, TasksThatAreNotUsedMayBeDown) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  Graph graph;
  const WithGraph use(graph);
  Output x;
  {
    const DeviceScope on("/job:ps/task:0");
    x = Constant(1.0f) + Constant(2.0f);
  }
  const auto with = [](std::vector<std::string> filters) {
    SessionOptions options;
    options.device_filters = std::move(filters);
    return options;
  };
  const SessionOptions mine = with({"/job:ps", "/job:worker/task:0"});
  Session before(cluster.target("worker", 0), graph, mine);
  ASSERT_TRUE(before.Run(x).ok());
  cluster.StopTask("worker", 1);
  EXPECT_TRUE(before.Run(x).ok());
  Session after(cluster.target("worker", 0), graph, mine);
  EXPECT_TRUE(after.Run(x).ok());
  Session all(cluster.target("worker", 0), graph);
  EXPECT_THAT(std::string(all.Run(x).status().message()),
              HasSubstr("/job:worker/replica:0/task:1"));
  // The target is always used.
  Session target_only(cluster.target("worker", 0), graph, with({"/job:none"}));
  EXPECT_TRUE(target_only.Run(Constant(1)).ok());
  EXPECT_THAT(std::string(target_only.Run(x).status().message()),
              HasSubstr("/job:ps/task:0"));
  Session wrong(cluster.target("worker", 0), graph, with({"/job:ps/task:x"}));
  EXPECT_THAT(std::string(wrong.Run(x).status().message()),
              HasSubstr("device filter"));
}

TEST(DrainTest, RunningStepsEndAndNoneBegin) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}});
  Graph graph;
  const WithGraph use(graph);
  Queue queue;
  Output taken;
  {
    const DeviceScope on("/job:ps/task:0");
    queue = Queue::Fifo({{DType::kFloat, {}}}, {.shared_name = "numbers"});
    taken = queue.Dequeue()[0];
  }
  Node* const put = queue.Enqueue({1.0f});
  Session session(cluster.target("worker", 0), graph);
  ASSERT_TRUE(session.Run(queue.Size()).ok());
  Result<Tensor> result = NotFound("");
  std::thread step([&] { result = session.Run(taken); });
  Server& ps = cluster.server("ps", 0);
  Server& worker = cluster.server("worker", 0);
  while (ps.worker().steps().num_running() == 0) std::this_thread::yield();
  Session at_ps(cluster.target("ps", 0), graph);
  ASSERT_TRUE(at_ps.Run(queue.Size()).ok());
  // The one that coordinates refuses steps as a whole.
  worker.Drain();
  EXPECT_FALSE(worker.idle());
  const Status refused = session.Run(queue.Size()).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("begins no others"));
  Session late(cluster.target("worker", 0), graph);
  EXPECT_EQ(late.Run(queue.Size()).status().code(), StatusCode::kUnavailable);
  ASSERT_TRUE(at_ps.RunTargets({put}).ok());
  step.join();
  EXPECT_TRUE(result.ok()) << result.status();
  while (!worker.idle()) std::this_thread::yield();
  // As does a task whose part it is.
  ps.Drain();
  while (!ps.idle()) std::this_thread::yield();
  EXPECT_EQ(at_ps.Run(queue.Size()).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace sluice
