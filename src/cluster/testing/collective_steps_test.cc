// Collective operations between tasks, each with a session and a graph of its
// own: values, tasks that are killed, and groups that are formed anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "base/failpoint.h"
#include "cluster/testing/child_process_test_util.h"
#include "cluster/testing/cluster_test_util.h"
#include "cluster/testing/process_test_util.h"
#include "cluster/testing/test_scale_test_util.h"
#include "cluster/testing/virtual_network.h"
#include "ops/collectives/hub.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr char kAnyMismatch[] = "expected the same of all members";

// Element i of what a member sums: they differ, so that parts in wrong places
// show.
float ElementAt(float value, int number, int64_t i) {
  return value + static_cast<float>(number) + static_cast<float>(i % 97);
}

// One member: a graph on its task that sums a vector of `count` elements, and
// the session that runs it.
class SumMember {
 public:
  SumMember(const std::string& device, int number, int members, int64_t count)
      : number_(number), members_(members), count_(count) {
    const WithGraph use(graph_);
    const DeviceScope on(device);
    x_ = Placeholder<float>({-1}, "x");
    sum_ = Build("CollectiveReduce", {x_},
                 {{"group_size", int64_t{members}},
                  {"group_key", int64_t{1}},
                  {"instance_key", int64_t{1}},
                  {"merge_op", "Add"},
                  {"final_op", "Id"}});
  }
  Status Connect(const std::string& target) {
    session_ = std::make_unique<Session>(target, graph_);
    return OkStatus();
  }
  // Returns the sum's first element; Internal if another does not fit it. (The
  // deadline tells which test has a step that does not end.)
  Result<float> Run(float value, int64_t timeout_ms = 120'000) {
    Tensor x(DType::kFloat, Shape({count_}));
    for (int64_t i = 0; i < count_; ++i)
      x.raw<float>()[i] = ElementAt(value, number_, i);
    RunOptions options;
    options.timeout_ms = timeout_ms;
    auto got = session_->Run({{x_, x}}, {sum_}, {}, options);
    if (!got.ok()) return got.status();
    const Tensor& sum = (*got)[0];
    for (int64_t i = 0; i < count_; ++i)
      if (sum.raw<float>()[i] !=
          sum.raw<float>()[0] + static_cast<float>(members_ * (i % 97)))
        return Internal("sum: element ", i, " is ", sum.raw<float>()[i]);
    return sum.raw<float>()[0];
  }
  Status Reset(const std::vector<std::string>& containers) {
    return session_->Reset(containers);
  }

 private:
  const int number_, members_;
  Graph graph_;
  const int64_t count_;
  Output x_, sum_;
  std::unique_ptr<Session> session_;
};

// What members 0 ... n - 1 with these values get.
float SumOfMembers(float value, int n) {
  return value * static_cast<float>(n) + static_cast<float>(n * (n - 1)) / 2;
}

std::vector<Result<float>> RunAll(
    std::vector<std::unique_ptr<SumMember>>& members, float value) {
  std::vector<std::future<Result<float>>> runs;
  for (auto& m : members)
    runs.push_back(
        std::async(std::launch::async, [&m, value] { return m->Run(value); }));
  std::vector<Result<float>> results;
  for (auto& r : runs) results.push_back(r.get());
  return results;
}

std::vector<std::unique_ptr<SumMember>> MembersOf(TestCluster& cluster, int n,
                                                  int64_t count) {
  std::vector<std::unique_ptr<SumMember>> members;
  for (int i = 0; i < n; ++i) {
    members.push_back(std::make_unique<SumMember>(
        absl::StrCat("/job:worker/task:", i), i, n, count));
    EXPECT_TRUE(members.back()->Connect(cluster.target("worker", i)).ok());
  }
  return members;
}

TEST(CollectiveStepsTest, TasksGetTheSum) {
  for (const int n : {2, 3, 4})
    for (const int64_t count : {1, 1000, 700'001}) {
      TestCluster cluster({{"worker", n}});
      auto members = MembersOf(cluster, n, count);
      for (int step = 0; step < 4; ++step)
        for (const auto& sum : RunAll(members, static_cast<float>(step))) {
          ASSERT_TRUE(sum.ok()) << sum.status();
          EXPECT_EQ(*sum, SumOfMembers(static_cast<float>(step), n));
        }
      members.clear();
      EXPECT_TRUE(cluster.Quiet());
    }
}

TEST(CollectiveStepsTest, MembersOfOneSessionOverTasks) {
  TestCluster cluster({{"worker", 3}});
  Graph graph;
  const WithGraph use(graph);
  std::vector<Output> sums;
  for (int i = 0; i < 3; ++i) {
    const DeviceScope on(absl::StrCat("/job:worker/task:", i));
    sums.push_back(Build("CollectiveReduce", {Constant(1.0f * (i + 1))},
                         {{"group_size", int64_t{3}},
                          {"group_key", int64_t{1}},
                          {"instance_key", int64_t{1}},
                          {"merge_op", "Mul"},
                          {"final_op", "Id"}}));
  }
  Session session(cluster.target("worker", 1), graph);
  for (int step = 0; step < 3; ++step) {
    const auto got = session.Run({}, sums);
    ASSERT_TRUE(got.ok()) << got.status();
    for (const Tensor& t : *got) EXPECT_EQ(t.scalar<float>(), 6);
  }
}

TEST(CollectiveStepsTest, DisagreementIsAnErrorForAll) {
  TestCluster cluster({{"worker", 3}});
  std::vector<std::unique_ptr<SumMember>> members;
  for (int i = 0; i < 3; ++i) {
    members.push_back(std::make_unique<SumMember>(
        absl::StrCat("/job:worker/task:", i), i, 3, i == 1 ? 5 : 4));
    ASSERT_TRUE(members.back()->Connect(cluster.target("worker", i)).ok());
  }
  for (const auto& sum : RunAll(members, 1)) {
    ASSERT_FALSE(sum.ok());
    EXPECT_THAT(sum.status().message(), HasSubstr(kAnyMismatch));
    EXPECT_THAT(sum.status().message(), HasSubstr("float[5]"));
  }
}

TEST(CollectiveStepsTest, AStepPastItsDeadlineEndsThoseOfAll) {
  TestCluster cluster({{"worker", 3}});
  auto members = MembersOf(cluster, 3, 10);
  for (int round = 0; round < 2; ++round) {
    auto other =
        std::async(std::launch::async, [&] { return members[0]->Run(1); });
    EXPECT_EQ(members[1]->Run(1, 100).status().code(),
              StatusCode::kDeadlineExceeded);
    const Status s = other.get().status();
    EXPECT_EQ(s.code(), StatusCode::kAborted) << s;
    EXPECT_THAT(s.message(), HasSubstr("/job:worker/replica:0/task:1"));
    // The third hears of it too, if there was a group.
    // (What the others have sent may be enough for one more step, which then
    // ends before it hears of it.)
    if (round > 0) {
      Status third = members[2]->Run(1).status();
      if (third.ok()) third = members[2]->Run(1).status();
      EXPECT_EQ(third.code(), StatusCode::kAborted) << third;
    }
    for (const auto& sum : RunAll(members, 2)) {
      ASSERT_TRUE(sum.ok()) << sum.status();
      EXPECT_EQ(*sum, SumOfMembers(2, 3));
    }
  }
}

TEST(CollectiveStepsTest, ATaskThatStopsIsNamedAndReplaced) {
  TestCluster cluster({{"worker", 3}});
  auto members = MembersOf(cluster, 3, 10);
  for (const auto& sum : RunAll(members, 2)) ASSERT_TRUE(sum.ok());
  for (int round = 0; round < 2; ++round) {
    std::vector<std::future<Result<float>>> waiting;
    for (int i = 0; i < 2; ++i)
      waiting.push_back(std::async(std::launch::async,
                                   [&, i] { return members[i]->Run(1); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cluster.StopTask("worker", 2);
    for (auto& w : waiting) {
      const Status s = w.get().status();
      EXPECT_THAT(s.message(), HasSubstr("task:2")) << s;
    }
    cluster.StartTask("worker", 2);
    // The other sessions knew the lost task.
    members = MembersOf(cluster, 3, 10);
    for (const auto& sum : RunAll(members, 3)) {
      ASSERT_TRUE(sum.ok()) << sum.status();
      EXPECT_EQ(*sum, SumOfMembers(3, 3));
    }
  }
}

// Waits until the network of a task has noticed that another has stopped.
void AwaitLoss(TestCluster& cluster, int task, int64_t before) {
  const Transport& t = cluster.server("worker", task).transport();
  for (int i = 0; i < 20'000 && t.stats().peers_lost == before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GT(t.stats().peers_lost, before);
}

// A task with no member in a group does not break it, nor keep it from being
// formed again with other members, whichever is first.
TEST(CollectiveStepsTest, TheSizeOfAGroupMayChange) {
  for (int first = 0; first < 3; ++first) {
    SCOPED_TRACE(first);
    TestCluster cluster({{"worker", 3}});
    auto members = MembersOf(cluster, 2, 10);
    for (int step = 0; step < 3; ++step)
      for (const auto& sum : RunAll(members, 1))
        ASSERT_TRUE(sum.ok()) << sum.status();
    members.clear();
    members = MembersOf(cluster, 3, 10);
    auto early = std::async(std::launch::async, [&] {
      return members[static_cast<size_t>(first)]->Run(2, 20'000);
    });
    collectives::Hub& hub =
        cluster.server("worker", first).worker().collectives();
    while (hub.num_waiting() == 0) std::this_thread::yield();
    std::vector<std::future<Result<float>>> others;
    for (int i = 0; i < 3; ++i)
      if (i != first)
        others.push_back(std::async(std::launch::async, [&members, i] {
          return members[static_cast<size_t>(i)]->Run(2, 20'000);
        }));
    const auto check = [](const Result<float>& sum) {
      ASSERT_TRUE(sum.ok()) << sum.status();
      EXPECT_EQ(*sum, SumOfMembers(2, 3));
    };
    for (auto& o : others) check(o.get());
    check(early.get());
  }
}

TEST(CollectiveStepsTest, NewSessionsDoNotGetErrorsOfEarlierOnes) {
  // The tasks hear of the loss before the new sessions, or at any time after
  // they have begun, or not before their steps have ended.
  for (const char* when : {"0", "20", "40", "1000"}) {
    SCOPED_TRACE(when);
    TestCluster cluster({{"worker", 3}});
    auto members = MembersOf(cluster, 3, 10);
    for (const auto& sum : RunAll(members, 2))
      ASSERT_TRUE(sum.ok()) << sum.status();
    members.clear();
    const auto lost = [&](int task) {
      return cluster.server("worker", task).transport().stats().peers_lost;
    };
    const int64_t before[] = {lost(0), lost(1)};
    ASSERT_TRUE(
        EnableFailpoints(absl::StrCat("transport.lost=delay(", when, ")"))
            .ok());
    cluster.StopTask("worker", 2);
    AwaitLoss(cluster, 0, before[0]);
    AwaitLoss(cluster, 1, before[1]);
    cluster.StartTask("worker", 2);
    members = MembersOf(cluster, 3, 10);
    for (int step = 0; step < 3; ++step)
      for (const auto& sum : RunAll(members, 3)) {
        ASSERT_TRUE(sum.ok()) << sum.status();
        EXPECT_EQ(*sum, SumOfMembers(3, 3));
      }
    DisableFailpoints();
  }
}

// The group was never formed, and the tasks heard of the loss before the steps
// began: these say so instead of waiting, and go on with the task's next
// incarnation.
TEST(CollectiveStepsTest, ALossBeforeTheFirstStepIsReported) {
  TestCluster cluster({{"worker", 3}});
  auto members = MembersOf(cluster, 3, 10);
  cluster.StopTask("worker", 2);
  for (int task = 0; task < 2; ++task) AwaitLoss(cluster, task, 0);
  for (size_t i = 0; i < 2; ++i) {
    const Status s = members[i]->Run(1, 20'000).status();
    EXPECT_EQ(s.code(), StatusCode::kUnavailable) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("/job:worker/replica:0/"
                                                    "task:2"));
  }
  cluster.StartTask("worker", 2);
  members[2] = std::make_unique<SumMember>("/job:worker/task:2", 2, 3, 10);
  ASSERT_TRUE(members[2]->Connect(cluster.target("worker", 2)).ok());
  for (const auto& sum : RunAll(members, 3)) {
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ(*sum, SumOfMembers(3, 3));
  }
}

// As when its process is killed between two steps: its task lives.
TEST(CollectiveStepsTest, TheEndOfAClientBetweenStepsEndsTheWaitsOfOthers) {
  TestCluster cluster({{"worker", 3}});
  auto members = MembersOf(cluster, 3, 10);
  for (const bool while_they_wait : {true, false}) {
    SCOPED_TRACE(while_they_wait);
    for (const auto& sum : RunAll(members, 2))
      ASSERT_TRUE(sum.ok()) << sum.status();
    if (!while_they_wait) members[2].reset();
    std::vector<std::future<Result<float>>> others;
    for (size_t i = 0; i < 2; ++i)
      others.push_back(std::async(
          std::launch::async, [&, i] { return members[i]->Run(2, 20'000); }));
    if (while_they_wait) {
      for (const int task : {0, 1})
        while (cluster.server("worker", task)
                   .worker()
                   .collectives()
                   .num_waiting() == 0)
          std::this_thread::yield();
      members[2].reset();
    }
    for (auto& other : others) {
      const Status s = other.get().status();
      EXPECT_EQ(s.code(), StatusCode::kAborted) << s;
      EXPECT_THAT(std::string(s.message()),
                  AllOf(HasSubstr("/job:worker/replica:0/task:2"),
                        HasSubstr("whose session was closed")));
    }
    members[2] = std::make_unique<SumMember>("/job:worker/task:2", 2, 3, 10);
    ASSERT_TRUE(members[2]->Connect(cluster.target("worker", 2)).ok());
  }
  for (const auto& sum : RunAll(members, 3)) {
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ(*sum, SumOfMembers(3, 3));
  }
}

// Each member begins a session when it has ended another, while others may be
// in their last step of theirs.
TEST(CollectiveStepsTest, SessionsFollowEachOtherWithoutAnError) {
  for (const int64_t count : {1, 700'001}) {
    TestCluster cluster({{"worker", 3}});
    std::vector<std::future<Status>> threads;
    for (int i = 0; i < 3; ++i)
      threads.push_back(std::async(std::launch::async, [&, i]() -> Status {
        for (int session = 0; session < (count == 1 ? 20 : 4); ++session) {
          SumMember member(absl::StrCat("/job:worker/task:", i), i, 3, count);
          SLUICE_RETURN_IF_ERROR(member.Connect(cluster.target("worker", i)));
          for (int step = 0; step <= session % 3; ++step) {
            SLUICE_ASSIGN_OR_RETURN(const float sum, member.Run(2, 60'000));
            if (sum != SumOfMembers(2, 3)) return Internal("sum: got ", sum);
          }
        }
        return OkStatus();
      }));
    for (auto& t : threads) {
      const Status s = t.get();
      EXPECT_TRUE(s.ok()) << s;
    }
    EXPECT_TRUE(cluster.Quiet());
  }
}

TEST(CollectiveStepsTest, ResetKeepsTheNetworkOfGroups) {
  TestCluster cluster({{"worker", 2}});
  auto members = MembersOf(cluster, 2, 10);
  const std::vector<std::string> cleared[] = {{}, {"_collectives"}};
  for (const auto& containers : cleared) {
    ASSERT_TRUE(members[0]->Reset(containers).ok());
    std::vector<std::future<Result<float>>> runs;
    for (auto& m : members)
      runs.push_back(
          std::async(std::launch::async, [&m] { return m->Run(1, 20'000); }));
    for (auto& r : runs) {
      const auto sum = r.get();
      ASSERT_TRUE(sum.ok()) << sum.status();
      EXPECT_EQ(*sum, SumOfMembers(1, 2));
    }
  }
}

// A model with variables of its own; the gradients are in several buckets.
struct CopiedModel {
  CopiedModel(int64_t batch, uint64_t seed) {
    SetRandomSeed(static_cast<int64_t>(seed));
    x = Placeholder<float>({batch, 5}, "x");
    y = Placeholder<float>({batch, 1}, "y");
    Var w1(RandomUniform({5, 7}, -1, 1), "w1"), b1(RandomUniform({7}), "b1");
    Var w2(RandomUniform({7, 1}, -1, 1), "w2"), b2(RandomUniform({1}), "b2");
    const Output guess =
        ops::MatMul(ops::Tanh(ops::MatMul(x, w1) + b1), w2) + b2;
    loss = ops::Mean(ops::Square(guess - y), {0, 1});
    values = {w1, b1, w2, b2};
  }
  Output x, y, loss;
  std::vector<Output> values;
};

Feeds RowsOf(const CopiedModel& m, int64_t step, int64_t begin, int64_t end) {
  Tensor x(DType::kFloat, {end - begin, 5}), y(DType::kFloat, {end - begin, 1});
  for (int64_t i = begin; i < end; ++i) {
    float sum = 0;
    for (int64_t k = 0; k < 5; ++k) {
      const auto v = static_cast<float>((step * 131 + i * 17 + k * 7) % 23);
      x.flat<float>()[static_cast<size_t>((i - begin) * 5 + k)] = v / 23 - 0.5f;
      sum += v * static_cast<float>(k);
    }
    y.flat<float>()[static_cast<size_t>(i - begin)] = sum / 200;
  }
  return {{m.x, x}, {m.y, y}};
}

TEST(CollectiveStepsTest, CopiesTrainLikeOneLargeBatch) {
  constexpr int kMembers = 3, kRows = 4, kSteps = 12;
  for (const int64_t bucket : {int64_t{0}, int64_t{64}, int64_t{1} << 20}) {
    TestCluster cluster({{"worker", kMembers}});
    std::vector<std::vector<Tensor>> got(kMembers);
    std::vector<Status> status(kMembers);
    std::vector<std::thread> threads;
    for (int m = 0; m < kMembers; ++m)
      threads.emplace_back([&, m] {
        const auto train = [&]() -> Status {
          Graph graph;
          const WithGraph use(graph);
          const DeviceScope on(absl::StrCat("/job:worker/task:", m));
          // Only the first begins with the right values.
          const CopiedModel model(kRows, m == 0 ? 5 : 100 + m);
          MomentumOptimizer momentum(0.1, 0.9);
          AllReduceOptimizer mean(
              momentum, {.group = {.size = kMembers}, .bucket_bytes = bucket});
          Node* const step = mean.Minimize(model.loss);
          Node* const same = mean.BroadcastVariables(m == 0);
          SLUICE_RETURN_IF_ERROR(graph.status());
          Session session(cluster.target("worker", m), graph);
          SLUICE_RETURN_IF_ERROR(
              session.RunTargets({GlobalVariablesInitializer()}));
          SLUICE_RETURN_IF_ERROR(session.RunTargets({same}));
          for (int s = 0; s < kSteps; ++s)
            SLUICE_RETURN_IF_ERROR(session.RunTargets(
                {step}, RowsOf(model, s, m * kRows, (m + 1) * kRows)));
          SLUICE_ASSIGN_OR_RETURN(got[static_cast<size_t>(m)],
                                  session.Run(model.values));
          return OkStatus();
        };
        status[static_cast<size_t>(m)] = train();
      });
    for (std::thread& t : threads) t.join();
    for (const Status& s : status) ASSERT_TRUE(s.ok()) << s;
    Graph graph;
    const WithGraph use(graph);
    const CopiedModel whole(kMembers * kRows, 5);
    MomentumOptimizer momentum(0.1, 0.9);
    Node* const step = momentum.Minimize(whole.loss);
    Session session(graph);
    ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    const auto start = session.Run(whole.values);
    for (int s = 0; s < kSteps; ++s)
      ASSERT_TRUE(
          session.RunTargets({step}, RowsOf(whole, s, 0, kMembers * kRows))
              .ok());
    const auto want = session.Run(whole.values);
    ASSERT_TRUE(start.ok() && want.ok());
    for (size_t v = 0; v < want->size(); ++v) {
      EXPECT_FALSE((*start)[v].Identical((*want)[v]));
      for (size_t m = 0; m < kMembers; ++m) {
        EXPECT_TRUE(got[m][v].Identical(got[0][v]));
        for (int64_t i = 0; i < (*want)[v].num_elements(); ++i)
          EXPECT_NEAR(got[m][v].flat<float>()[static_cast<size_t>(i)],
                      (*want)[v].flat<float>()[static_cast<size_t>(i)], 2e-5);
      }
    }
  }
}

// Messages are delayed, reordered, repeated and sent again.
TEST(CollectiveStepsTest, OverAnyNetwork) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    VirtualNetworkOptions options;
    options.seed = seed;
    options.drop = 0.05;
    options.duplicate = 0.05;
    auto network = std::make_unique<VirtualNetwork>(options);
    auto cluster = std::make_unique<TestCluster>(
        std::vector<std::pair<std::string, int>>{{"worker", 4}},
        [&](TransportOptions o) { return network->Join(std::move(o)); });
    std::atomic<bool> stop{false};
    std::thread pump([&] {
      while (!stop)
        if (!network->Step()) network->AwaitEvent(std::chrono::milliseconds(1));
    });
    {
      auto members = MembersOf(*cluster, 4, 300'000);
      for (int step = 0; step < 3; ++step)
        for (const auto& sum : RunAll(members, static_cast<float>(step))) {
          ASSERT_TRUE(sum.ok()) << sum.status();
          EXPECT_EQ(*sum, SumOfMembers(static_cast<float>(step), 4));
        }
    }
    cluster.reset();
    stop = true;
    pump.join();
  }
}

// Real processes, over gRPC. Each task has a client in this process.
class CollectiveProcessTest : public ::testing::Test {
 protected:
  static constexpr int kTasks = 3;
  CollectiveProcessTest() : cluster_({"a", "b", "c"}) {
    for (const std::string& job : jobs_) cluster_.Spawn(job);
    Open();
  }
  void Open() {
    members_.clear();
    for (int i = 0; i < kTasks; ++i) {
      members_.push_back(std::make_unique<SumMember>(
          absl::StrCat("/job:", jobs_[static_cast<size_t>(i)], "/task:0"), i,
          kTasks, count_));
      EXPECT_TRUE(members_.back()
                      ->Connect(cluster_.target(jobs_[static_cast<size_t>(i)]))
                      .ok());
    }
  }
  const std::vector<std::string> jobs_ = {"a", "b", "c"};
  int64_t count_ = 1'000'000;
  ProcessCluster cluster_;
  std::vector<std::unique_ptr<SumMember>> members_;
};

TEST_F(CollectiveProcessTest, AKilledTaskIsNamedAndTheGroupFormedAnew) {
  std::mt19937 rng(5);
  for (int round = 0; round < 3; ++round) {
    for (int step = 0; step < 3; ++step)
      for (const auto& sum : RunAll(members_, static_cast<float>(step))) {
        ASSERT_TRUE(sum.ok()) << sum.status();
        EXPECT_EQ(*sum, SumOfMembers(static_cast<float>(step), kTasks));
      }
    // The others run until one is killed, at any point of their steps.
    const size_t victim = rng() % kTasks;
    std::vector<std::future<Status>> runs;
    for (size_t i = 0; i < kTasks; ++i)
      runs.push_back(std::async(std::launch::async, [&, i] {
        for (;;)
          if (const auto sum = members_[i]->Run(1); !sum.ok())
            return sum.status();
      }));
    std::this_thread::sleep_for(std::chrono::milliseconds(50 + rng() % 100));
    cluster_.Signal(jobs_[victim], SIGKILL);
    for (size_t i = 0; i < kTasks; ++i) {
      const Status s = runs[i].get();
      if (i != victim) {
        EXPECT_THAT(s.message(),
                    AnyOf(HasSubstr("/job:" + jobs_[victim]),
                          HasSubstr(cluster_.target(jobs_[victim]))))
            << s;
      }
    }
    cluster_.Spawn(jobs_[victim]);
    Open();
  }
}

}  // namespace
}  // namespace sluice
