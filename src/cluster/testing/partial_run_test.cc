// Partial runs over several tasks: stages, errors, termination and clean-up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include "base/sanitizers.h"
#include "cluster/local_cluster.h"
#include "cluster/testing/cluster_test_util.h"
#include "cluster/testing/random_cluster_test_util.h"
#include "exec/devices/emulated_device.h"
#include "graph/graphdef.h"
#include "graph/tensor_proto.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

Tensor Value(float v) { return Tensor::Scalar<float>(v); }

class PartialRunTest : public ::testing::Test {
 protected:
  PartialRunTest() : use_(graph_), cluster_({{"ps", 1}, {"worker", 2}}) {
    x_ = Placeholder<float>({}, "x");
    y_ = Placeholder<float>({}, "y");
  }
  std::unique_ptr<Session> Connect() {
    return std::make_unique<Session>(cluster_.target("worker", 0), graph_);
  }
  // Negates on the ps and adds on a worker: -x, then y - x.
  std::pair<Output, Output> Stages() {
    Output a;
    {
      DeviceScope on("/job:ps/task:0");
      a = -x_;
    }
    DeviceScope on("/job:worker/task:1");
    return {a, a + y_};
  }
  // Loops over two tasks until it is cancelled, once it is fed with 1.
  Output Endless(Output start) {
    return While(
        start,
        [](Output i) {
          DeviceScope on("/job:worker/task:0");
          return i > 0.0f;
        },
        [](Output i) {
          DeviceScope on("/job:ps/task:0");
          return Output(ops::Maximum(i, Constant(1.0f)));
        });
  }
  static std::string Text(const Status& s) { return s.ToString(); }

  Graph graph_;
  WithGraph use_;
  TestCluster cluster_;
  Output x_, y_;
};

TEST_F(PartialRunTest, IsFedAndFetchedInStages) {
  auto [a, b] = Stages();
  auto session = Connect();
  for (int i = 0; i < 20; ++i) {
    const float v = static_cast<float>(i);
    auto run = session->StartPartialRun({x_, y_}, {a, b, x_});
    ASSERT_TRUE(run.ok()) << run.status();
    auto first = (*run)->Run({{x_, Value(v)}}, {a, x_});
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ((*first)[0].scalar<float>(), -v);
    EXPECT_EQ((*first)[1].scalar<float>(), v);
    EXPECT_THAT(Text((*run)->Run({}, {b}).status()), HasSubstr("'y:0'"));
    EXPECT_FALSE((*run)->Run({{x_, Value(3)}}, {}).ok());
    EXPECT_FALSE((*run)->Run({{y_, Value(3)}, {y_, Value(4)}}, {}).ok());
    EXPECT_FALSE((*run)->Run({{y_, Tensor::Scalar<int32_t>(3)}}, {}).ok());
    EXPECT_FALSE((*run)->Run({}, {a}).ok());
    auto second = (*run)->Run({{y_, Value(10)}}, {b});
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ((*second)[0].scalar<float>(), 10 - v);
  }
  session.reset();
  EXPECT_TRUE(cluster_.Quiet());
}

TEST_F(PartialRunTest, UnfetchedValuesCanBeFetchedLater) {
  auto [a, b] = Stages();
  auto session = Connect();
  auto run = session->StartPartialRun({x_, y_}, {a, b});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE((*run)->Run({{x_, Value(2)}}, {}).ok());
  ASSERT_TRUE((*run)->Run({{y_, Value(5)}}, {}).ok());
  auto both = (*run)->Run({}, {b, a});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ((*both)[0].scalar<float>(), 3);
  EXPECT_EQ((*both)[1].scalar<float>(), -2);
}

TEST_F(PartialRunTest, TargetsRunWithTheLastFeed) {
  Var v;
  {
    DeviceScope on("/job:ps/task:0");
    v = Var(Constant(1.0f), "v");
  }
  Node* add = v.AssignAdd(x_ * y_);
  auto session = Connect();
  ASSERT_TRUE(session->RunTargets({v.initializer()}).ok());
  auto run = session->StartPartialRun({x_, y_}, {}, {add});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE((*run)->Run({{x_, Value(2)}}, {}).ok());
  EXPECT_EQ(session->Run(v.value())->scalar<float>(), 1);
  ASSERT_TRUE((*run)->Run({{y_, Value(3)}}, {}).ok());
  EXPECT_EQ(session->Run(v.value())->scalar<float>(), 7);
}

TEST_F(PartialRunTest, ControlEdgeFromFedNodeNeedsItsInputs) {
  Output a, y;
  {
    DeviceScope on("/job:ps/task:0");
    a = -x_;
    ControlDependencies after({a.node});
    y = a * 2.0f;
  }
  auto session = Connect();
  auto run = session->StartPartialRun({x_, a}, {y});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(Text((*run)->Run({{a, Value(3)}}, {y}).status()),
              HasSubstr("'x:0'"));
  run = session->StartPartialRun({x_, a}, {y});
  ASSERT_TRUE(run.ok()) << run.status();
  auto out = (*run)->Run({{a, Value(3)}, {x_, Value(1)}}, {y});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), 6);
}

TEST_F(PartialRunTest, UnfinishedRunsAreLimited) {
  auto [a, b] = Stages();
  auto session = Connect();
  std::vector<std::unique_ptr<Session::PartialRun>> runs;
  Status s;
  while (s.ok() && runs.size() <= 256) {
    auto run = session->StartPartialRun({x_, y_}, {a, b});
    s = run.status();
    if (s.ok()) runs.push_back(*std::move(run));
  }
  EXPECT_EQ(s.code(), StatusCode::kResourceExhausted) << s;
  EXPECT_EQ(runs.size(), 256u);
  // This does not affect other sessions.
  EXPECT_TRUE(Connect()->StartPartialRun({x_, y_}, {a, b}).ok());
  runs.clear();
  EXPECT_TRUE(session->StartPartialRun({x_, y_}, {a, b}).ok());
}

TEST_F(PartialRunTest, FetchInUntakenBranchIsAnError) {
  Output taken, not_taken;
  (void)Cond(
      x_ > 0.0f,
      [&] {
        DeviceScope on("/job:ps/task:0");
        return taken = y_ + 1.0f;
      },
      [&] {
        DeviceScope on("/job:worker/task:1");
        return not_taken = y_ - 1.0f;
      });
  auto session = Connect();
  auto run = session->StartPartialRun({x_, y_}, {taken, not_taken});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE((*run)->Run({{x_, Value(1)}}, {}).ok());
  auto out = (*run)->Run({{y_, Value(1)}}, {taken});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), 2);
  const Status s = (*run)->Run({}, {not_taken}).status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
  EXPECT_THAT(Text(s), HasSubstr("a branch that was not taken"));
}

TEST_F(PartialRunTest, DeadFetchKeepsLiveFetchesOfItsStage) {
  Output taken, not_taken;
  (void)Cond(
      x_ > 0.0f,
      [&] {
        DeviceScope on("/job:ps/task:0");
        return taken = y_ + 1.0f;
      },
      [&] {
        DeviceScope on("/job:worker/task:1");
        return not_taken = y_ - 1.0f;
      });
  const Output z = Placeholder<float>({}, "z");
  auto session = Connect();
  auto run = session->StartPartialRun({x_, y_, z}, {taken, not_taken, x_, z});
  ASSERT_TRUE(run.ok()) << run.status();
  const Status s =
      (*run)
          ->Run({{x_, Value(1)}, {y_, Value(1)}}, {taken, not_taken, x_})
          .status();
  EXPECT_THAT(Text(s), HasSubstr("a branch that was not taken"));
  // Live values can still be fetched, alone and with others, but only once; the
  // dead one is dead.
  auto out = (*run)->Run({}, {x_});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), 1);
  EXPECT_FALSE((*run)->Run({}, {x_}).ok());
  EXPECT_THAT(Text((*run)->Run({}, {not_taken}).status()),
              HasSubstr("a branch that was not taken"));
  out = (*run)->Run({{z, Value(7)}}, {z, taken});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), 7);
  EXPECT_EQ((*out)[1].scalar<float>(), 2);
}

// One partial run holds a mutex of the ps until it is fed; the other waits.
TEST_F(PartialRunTest, AMutexLockThatWaitsForAnotherRunDoesNotHoldUpAStage) {
  Output held, locked, freed, last;
  {
    DeviceScope on("/job:worker/task:1");
    held = x_ * 2.0f;
    freed = y_ * 2.0f;
  }
  {
    DeviceScope on("/job:ps/task:0");
    Output lock;
    {
      ControlDependencies after({held.node});
      lock = Build("MutexLock", {Build("MutexV2", {})});
    }
    {
      ControlDependencies after({lock.node});
      locked = held + 1.0f;
    }
    ControlDependencies after({freed.node});
    Node* const consumed = BuildNode("ConsumeMutexLock", {lock});
    ControlDependencies at_last({consumed});
    last = freed + 1.0f;
  }
  auto session = Connect();
  const auto begin = [&] {
    auto run = session->StartPartialRun({x_, y_}, {held, locked, freed, last});
    EXPECT_TRUE(run.ok()) << run.status();
    return *std::move(run);
  };
  const auto run_stage = [](Session::PartialRun& run, const Feeds& feeds,
                            Output fetch) {
    const auto got = run.Run(feeds, {fetch});
    EXPECT_TRUE(got.ok()) << got.status();
    return got.ok() ? (*got)[0].scalar<float>() : 0;
  };
  for (int i = 0; i < 5; ++i) {
    auto holder = begin();
    EXPECT_EQ(run_stage(*holder, {{x_, Value(1)}}, locked), 3);
    auto waiter = begin();
    EXPECT_EQ(run_stage(*waiter, {{x_, Value(2)}}, held), 4);
    // Everything is fed, but not everything fetched.
    EXPECT_EQ(run_stage(*waiter, {{y_, Value(3)}}, freed), 6);
    EXPECT_EQ(run_stage(*holder, {{y_, Value(4)}}, last), 9);
    EXPECT_EQ(run_stage(*waiter, {}, last), 7);
    EXPECT_EQ(run_stage(*holder, {}, freed), 8);
  }
  session.reset();
  EXPECT_TRUE(cluster_.Quiet());
}

TEST_F(PartialRunTest, StageErrorNamesNodeAndFailsLaterStages) {
  const Output z = Placeholder<float>({-1});
  Output bad;
  {
    DeviceScope on("/job:ps/task:0");
    bad = ops::Reshape(z, Constant(Tensor::Vector<int32_t>({3})));
  }
  auto [a, b] = Stages();
  auto session = Connect();
  auto run = session->StartPartialRun({x_, y_, z}, {bad, b});
  ASSERT_TRUE(run.ok()) << run.status();
  const Status first =
      (*run)->Run({{z, Tensor::Vector<float>({1})}}, {bad}).status();
  EXPECT_THAT(Text(first), HasSubstr(bad.node->name()));
  EXPECT_EQ((*run)->Run({{x_, Value(1)}, {y_, Value(1)}}, {b}).status(), first);
  run->reset();
  // The session still works.
  EXPECT_TRUE(session->Run({{x_, Value(1)}, {y_, Value(1)}}, b).ok());
  session.reset();
  EXPECT_TRUE(cluster_.Quiet());
}

TEST_F(PartialRunTest, UnfinishedRunLeavesNothing) {
  auto [a, b] = Stages();
  auto session = Connect();
  for (int i = 0; i < 10; ++i) {
    auto run = session->StartPartialRun({x_, y_}, {a, b});
    ASSERT_TRUE(run.ok()) << run.status();
    if (i % 2 != 0) continue;
    EXPECT_TRUE((*run)->Run({{x_, Value(1)}}, {a}).ok());
  }
  for (const auto& [job, task] : {std::pair("ps", 0), {"worker", 1}}) {
    WorkerSteps& steps = cluster_.server(job, task).worker().steps();
    for (int i = 0; i < 30'000 && steps.num_running() > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(steps.num_running(), 0u);
  }
  EXPECT_EQ(cluster_.server("worker", 0).master().steps().num_staged(), 0u);
}

TEST_F(PartialRunTest, EndOfSessionEndsTheRun) {
  auto [a, b] = Stages();
  std::unique_ptr<Session::PartialRun> run;
  {
    auto session = Connect();
    auto started = session->StartPartialRun({x_, y_}, {a, b});
    ASSERT_TRUE(started.ok()) << started.status();
    run = *std::move(started);
    ASSERT_TRUE(run->Run({{x_, Value(1)}}, {a}).ok());
  }
  EXPECT_EQ(run->Run({{y_, Value(1)}}, {b}).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(cluster_.Quiet());
}

TEST_F(PartialRunTest, ClosingTheSessionWakesWaitingStage) {
  Output endless = Endless(x_);
  auto session = Connect();
  auto run = session->StartPartialRun({x_, y_}, {endless, y_});
  ASSERT_TRUE(run.ok()) << run.status();
  std::atomic<bool> begun{false};
  std::thread closer([&] {
    while (!begun) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(session->Close().ok());
  });
  begun = true;
  const Status s = (*run)->Run({{x_, Value(1)}}, {endless}).status();
  closer.join();
  EXPECT_THAT(s.code(), ::testing::AnyOf(StatusCode::kCancelled,
                                         StatusCode::kFailedPrecondition))
      << s;
  EXPECT_TRUE(cluster_.Quiet());
}

TEST_F(PartialRunTest, LostTaskFailsRunAndIsNamed) {
  Output endless = Endless(x_);
  auto session = Connect();
  auto waits = session->StartPartialRun({x_, y_}, {endless, y_});
  ASSERT_TRUE(waits.ok()) << waits.status();
  auto [a, b] = Stages();
  Output c;
  {
    DeviceScope on("/job:ps/task:0");
    c = b * 2.0f;
  }
  auto rests = session->StartPartialRun({x_, y_}, {a, c});
  ASSERT_TRUE(rests.ok()) << rests.status();
  ASSERT_TRUE((*rests)->Run({{x_, Value(1)}}, {a}).ok());
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    cluster_.StopTask("ps", 0);
  });
  const Status s = (*waits)->Run({{x_, Value(1)}}, {endless}).status();
  killer.join();
  EXPECT_THAT(Text(s), HasSubstr("/job:ps/replica:0/task:0"));
  EXPECT_THAT(Text((*rests)->Run({{y_, Value(1)}}, {c}).status()),
              HasSubstr("/job:ps/replica:0/task:0"));
  // (The master learns of it slightly later.)
  Status begun;
  for (int n = 0; n < 30'000 && begun.ok(); ++n) {
    begun = session->StartPartialRun({x_, y_}, {a, c}).status();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_THAT(Text(begun), HasSubstr("/job:ps/replica:0/task:0"));
  waits->reset();
  rests->reset();
  session.reset();
  EXPECT_TRUE(cluster_.Quiet());
}

TEST_F(PartialRunTest, ConcurrentRunsAreIndependent) {
  auto [a, b] = Stages();
  auto session = Connect();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t, a = a, b = b] {
      for (int i = 0; i < 20; ++i) {
        const float v = static_cast<float>(100 * t + i);
        auto run = session->StartPartialRun({x_, y_}, {a, b});
        ASSERT_TRUE(run.ok()) << run.status();
        auto first = (*run)->Run({{x_, Value(v)}}, {a});
        ASSERT_TRUE(first.ok()) << first.status();
        EXPECT_EQ((*first)[0].scalar<float>(), -v);
        auto second = (*run)->Run({{y_, Value(1)}}, {b});
        ASSERT_TRUE(second.ok()) << second.status();
        EXPECT_EQ((*second)[0].scalar<float>(), 1 - v);
      }
    });
  for (std::thread& t : threads) t.join();
  session.reset();
  EXPECT_TRUE(cluster_.Quiet());
}

// Each is fed one of its feeds first and then the other.
TEST(PartialRuns, RandomProgramsMatchFullRuns) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  const std::vector<std::string> tasks = {"/job:ps/replica:0/task:0",
                                          "/job:worker/replica:0/task:0",
                                          "/job:worker/replica:0/task:1"};
  for (uint64_t seed = 0; seed < 30; seed += kSanitized ? 5 : 1) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    WholeProgram p(seed);
    p.PlaceOver(tasks, seed);
    Session session(cluster.target("worker", static_cast<int>(seed % 2)),
                    p.graph);
    auto run = session.StartPartialRun({p.feeds[0].first, p.feeds[1].first},
                                       p.fetches);
    ASSERT_TRUE(run.ok()) << run.status();
    const size_t first = seed % 2;
    ASSERT_TRUE((*run)->Run({p.feeds[first]}, {}).ok());
    // Fetches that need only these feeds arrive now; the others are refused.
    std::vector<Output> later;
    std::vector<size_t> places;
    std::vector<Tensor> got(p.fetches.size());
    for (size_t f = 0; f < got.size(); ++f) {
      Result<std::vector<Tensor>> early = (*run)->Run({}, {p.fetches[f]});
      if (early.ok()) {
        got[f] = (*early)[0];
        continue;
      }
      later.push_back(p.fetches[f]);
      places.push_back(f);
    }
    const auto rest = (*run)->Run({p.feeds[1 - first]}, later);
    ASSERT_TRUE(rest.ok()) << rest.status();
    for (size_t i = 0; i < later.size(); ++i) got[places[i]] = (*rest)[i];
    ExpectIdentical(got, p.want);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_TRUE(cluster.Quiet());
}

TEST(PartialRuns, EvictedPartialStepIsRecompiled) {
  Graph graph;
  WithGraph use(graph);
  TestCluster cluster(
      {{"worker", 1}},
      [](TransportOptions o) {
        return std::make_unique<LocalTransport>(std::move(o));
      },
      [](ServerOptions* o) { o->prepared_steps = 1; });
  Output x = Placeholder<float>({}), y = x + 1.0f, z = x + 2.0f;
  Session session(cluster.target("worker", 0), graph);
  auto one = session.StartPartialRun({x}, {y});
  ASSERT_TRUE(one.ok()) << one.status();
  auto two = session.StartPartialRun({x}, {z});
  ASSERT_TRUE(two.ok()) << two.status();
  auto three = session.StartPartialRun({x}, {y});
  ASSERT_TRUE(three.ok()) << three.status();
  for (const auto& [run, fetch, want] :
       {std::tuple(&one, y, 2.0f), {&two, z, 3.0f}, {&three, y, 2.0f}}) {
    auto out = (**run)->Run({{x, Value(1)}}, {fetch});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].scalar<float>(), want);
  }
}

// Requests that our client never makes.
TEST(PartialRuns, MasterRejectsInvalidRequests) {
  Graph graph;
  WithGraph use(graph);
  TestCluster cluster({{"worker", 1}});
  Output x = Placeholder<float>({}, "x"), y = ops::Neg(x);
  Master& master = cluster.server("worker", 0).master();
  proto::CreateSessionResponse session, other;
  ASSERT_TRUE(master.CreateSession({}, &session).ok());
  ASSERT_TRUE(master.CreateSession({}, &other).ok());
  proto::ExtendGraphRequest extend;
  extend.set_session(session.session());
  extend.set_graph_def(*ExportGraphDef(graph));
  ASSERT_TRUE(master.ExtendGraph(extend).ok());
  proto::PrepareStepRequest prepare;
  prepare.set_session(session.session());
  prepare.add_feed("x:0");
  prepare.add_fetch(y.name());
  proto::PrepareStepResponse whole, staged;
  ASSERT_TRUE(master.PrepareStep(prepare, &whole).ok());
  prepare.set_staged(true);
  ASSERT_TRUE(master.PrepareStep(prepare, &staged).ok());

  proto::BeginPartialRunRequest begin;
  proto::BeginPartialRunResponse begun;
  begin.set_session(session.session());
  begin.set_step(whole.step());
  EXPECT_EQ(master.BeginPartialRun(begin, &begun).code(),
            StatusCode::kInvalidArgument);
  begin.set_step(99);
  EXPECT_FALSE(master.BeginPartialRun(begin, &begun).ok());
  EXPECT_TRUE(begun.unknown_step());
  proto::RunStepRequest run_whole;
  StepAnswer ran;
  run_whole.set_session(session.session());
  run_whole.set_step(staged.step());
  const std::vector<Tensor> fed = {Value(1)};
  EXPECT_EQ(master.RunStep(run_whole, fed, &ran, nullptr).code(),
            StatusCode::kInvalidArgument);

  begin.set_step(staged.step());
  begun.Clear();
  ASSERT_TRUE(master.BeginPartialRun(begin, &begun).ok());
  proto::PartialRunRequest stage;
  const auto answer = [&] {
    proto::PartialRunResponse response;
    return master.PartialRun(stage, &response);
  };
  stage.set_session(session.session());
  stage.set_run(begun.run() + 1);
  EXPECT_EQ(answer().code(), StatusCode::kFailedPrecondition);
  stage.set_run(begun.run());
  stage.set_session(other.session());
  EXPECT_EQ(answer().code(), StatusCode::kFailedPrecondition);
  stage.set_session(session.session());
  stage.add_fetch(1);
  EXPECT_EQ(answer().code(), StatusCode::kInvalidArgument);
  stage.set_fetch(0, 0);
  stage.add_fetch(0);
  EXPECT_EQ(answer().code(), StatusCode::kInvalidArgument);
  stage.clear_fetch();
  auto* feed = stage.add_feed();
  feed->set_number(7);
  *feed->mutable_tensor() = *SerializeTensorProto(Value(1));
  EXPECT_EQ(answer().code(), StatusCode::kInvalidArgument);
  feed->set_number(0);
  feed->set_tensor("no tensor");
  EXPECT_FALSE(answer().ok());
  // Another dtype or shape is refused, and the step continues.
  *feed->mutable_tensor() = *SerializeTensorProto(Tensor::Scalar<int64_t>(1));
  EXPECT_EQ(answer().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(answer().message()),
              HasSubstr("'x:0': expected float[], got int64[]"));
  *feed->mutable_tensor() = *SerializeTensorProto(Tensor::Vector<float>({1}));
  EXPECT_THAT(std::string(answer().message()),
              HasSubstr("'x:0': expected float[], got float[1]"));
  run_whole.set_step(whole.step());
  const std::vector<Tensor> others = {Tensor::Vector<float>({1})};
  EXPECT_EQ(master.RunStep(run_whole, others, &ran, nullptr).code(),
            StatusCode::kInvalidArgument);
  *feed->mutable_tensor() = *SerializeTensorProto(Value(1));
  EXPECT_TRUE(answer().ok()) << answer();
  for (const auto& s : {session, other}) {
    proto::CloseSessionRequest close;
    close.set_session(s.session());
    EXPECT_TRUE(master.CloseSession(close).ok());
  }
  EXPECT_TRUE(cluster.Quiet());
}

TEST(PartialRuns, DeviceMemoryIsCopiedForFeedsAndFetches) {
  Graph graph;
  WithGraph use(graph);
  TestCluster cluster(
      {{"ps", 1}, {"worker", 1}},
      [](TransportOptions o) {
        return std::make_unique<LocalTransport>(std::move(o));
      },
      [](ServerOptions* o) {
        o->more_devices = [](const DeviceName& task,
                             std::vector<std::unique_ptr<Device>>* devices) {
          DeviceName name = task;
          name.type = "EMU";
          name.number = 0;
          devices->push_back(
              std::make_unique<EmulatedDevice>(name, EmulatedDeviceOptions()));
          return OkStatus();
        };
      });
  Output x = Placeholder<float>({2}), y = Placeholder<float>({2}), a, b;
  {
    DeviceScope on("/job:ps/task:0/device:EMU:0");
    a = ops::Tanh(x);
  }
  {
    DeviceScope on("/job:worker/task:0/device:EMU:0");
    b = a * y;
  }
  Session session(cluster.target("worker", 0), graph);
  const Tensor ones = Tensor::Vector<float>({1, 1});
  for (int i = 0; i < 5; ++i) {
    auto run = session.StartPartialRun({x, y}, {a, b});
    ASSERT_TRUE(run.ok()) << run.status();
    auto first = (*run)->Run({{x, ones}}, {a});
    ASSERT_TRUE(first.ok()) << first.status();
    auto second = (*run)->Run({{y, ones}}, {b});
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ((*first)[0].ToString(), (*second)[0].ToString());
    EXPECT_FLOAT_EQ((*first)[0].data<float>()[0], std::tanh(1.0f));
  }
}

// Clients that make arbitrary requests, in any order, from several threads.
TEST(PartialRuns, RandomRequestsDoNotStopTheMaster) {
  Graph graph;
  WithGraph use(graph);
  TestCluster cluster({{"ps", 1}, {"worker", 1}});
  Output x = Placeholder<float>({}, "x"), y = Placeholder<float>({}, "y"), z;
  {
    DeviceScope on("/job:ps/task:0");
    z = x + y;
  }
  const std::string def = *ExportGraphDef(graph);
  Master& master = cluster.server("worker", 0).master();
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    proto::CreateSessionResponse session;
    ASSERT_TRUE(master.CreateSession({}, &session).ok());
    proto::ExtendGraphRequest extend;
    extend.set_session(session.session());
    extend.set_graph_def(def);
    ASSERT_TRUE(master.ExtendGraph(extend).ok());
    proto::PrepareStepRequest prepare;
    prepare.set_session(session.session());
    for (const char* feed : {"x:0", "y:0"}) prepare.add_feed(feed);
    for (const std::string& fetch : {z.name(), x.name()})
      prepare.add_fetch(fetch);
    prepare.set_staged(true);
    proto::PrepareStepResponse prepared;
    ASSERT_TRUE(master.PrepareStep(prepare, &prepared).ok());
    proto::BeginPartialRunRequest begin;
    begin.set_session(session.session());
    begin.set_step(prepared.step());
    std::vector<uint64_t> runs;
    for (int i = 0; i < 3; ++i) {
      proto::BeginPartialRunResponse begun;
      ASSERT_TRUE(master.BeginPartialRun(begin, &begun).ok());
      runs.push_back(begun.run());
    }
    std::vector<std::thread> clients;
    for (uint64_t c = 0; c < 3; ++c)
      clients.emplace_back([&, c] {
        std::mt19937_64 random(seed * 3 + c);
        for (int i = 0; i < 6; ++i) {
          const uint64_t run =
              random() % 8 == 0 ? random() : runs[random() % runs.size()];
          if (random() % 8 == 0) {
            proto::EndPartialRunRequest end;
            end.set_session(session.session());
            end.set_run(run);
            EXPECT_TRUE(master.EndPartialRun(end).ok());
            continue;
          }
          proto::PartialRunRequest stage;
          stage.set_session(session.session());
          stage.set_run(run);
          for (uint64_t n = random() % 3; n > 0; --n) {
            auto* feed = stage.add_feed();
            feed->set_number(static_cast<uint32_t>(random() % 3));
            feed->set_tensor(*SerializeTensorProto(
                random() % 6 == 0 ? Tensor::Scalar<int32_t>(1) : Value(1)));
          }
          for (uint64_t n = random() % 3; n > 0; --n)
            stage.add_fetch(static_cast<uint32_t>(random() % 3));
          proto::PartialRunResponse response;
          (void)master.PartialRun(stage, &response);
        }
      });
    std::this_thread::sleep_for(std::chrono::milliseconds(seed % 5));
    proto::CloseSessionRequest close;  // Some await unfed values.
    close.set_session(session.session());
    EXPECT_TRUE(master.CloseSession(close).ok());
    for (std::thread& t : clients) t.join();
    ASSERT_TRUE(cluster.Quiet());
  }
}

TEST(PartialRuns, WorkOverGrpc) {
  auto cluster = LocalCluster::Start({{"ps", 1}, {"worker", 2}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  Graph graph;
  WithGraph use(graph);
  Output x = Placeholder<float>({-1}), y = Placeholder<float>({-1});
  Output a, b;
  {
    DeviceScope on("/job:ps/task:0");
    a = -x;
  }
  {
    DeviceScope on("/job:worker/task:1");
    b = a + y;
  }
  Session session((*cluster)->target("worker", 0), graph);
  for (const int64_t n : {0, 1, 100000}) {
    Tensor v(DType::kFloat, Shape({n}));
    for (int64_t i = 0; i < n; ++i) v.data<float>()[i] = static_cast<float>(i);
    auto run = session.StartPartialRun({x, y}, {a, b});
    ASSERT_TRUE(run.ok()) << run.status();
    auto first = (*run)->Run({{x, v}}, {a});
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ((*first)[0].num_elements(), n);
    auto second = (*run)->Run({{y, v}}, {b});
    ASSERT_TRUE(second.ok()) << second.status();
    ASSERT_EQ((*second)[0].num_elements(), n);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ((*second)[0].data<float>()[i], 0);
  }
  // One that is open when the tasks stop.
  auto open = session.StartPartialRun({x, y}, {a, b});
  ASSERT_TRUE(open.ok()) << open.status();
  cluster->reset();
  EXPECT_FALSE((*open)->Run({{x, Tensor::Vector<float>({1})}}, {a}).ok());
}

}  // namespace
}  // namespace sluice
