// TensorStores of one task that the nodes of others write and read, and steps
// over several tasks that nothing can end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/local_cluster.h"
#include "cluster/testing/cluster_test_util.h"
#include "cluster/testing/process_test_util.h"
#include "cluster/testing/virtual_network.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kStorePs = "/job:ps/task:0";
constexpr const char* kStoreWorker[] = {"/job:worker/task:0",
                                        "/job:worker/task:1"};

// Programs over one ps and two workers.
class ClusterStoreTest : public ::testing::Test {
 protected:
  ClusterStoreTest() : use_(graph_) {}

  void Start() {
    cluster_ = std::make_unique<TestCluster>(
        std::vector<std::pair<std::string, int>>{{"ps", 1}, {"worker", 2}});
  }
  // Over a network that delays and reorders what is sent.
  void StartOnNetwork(uint64_t seed) {
    VirtualNetworkOptions options;
    options.seed = seed;
    options.max_delay_us = 3000;
    options.duplicate = 0.1;
    network_ = std::make_unique<VirtualNetwork>(options);
    cluster_ = std::make_unique<TestCluster>(
        std::vector<std::pair<std::string, int>>{{"ps", 1}, {"worker", 2}},
        [this](TransportOptions o) { return network_->Join(std::move(o)); });
    pump_ = std::thread([this] {
      while (!stop_)
        if (!network_->Step())
          network_->AwaitEvent(std::chrono::milliseconds(1));
    });
  }
  void TearDown() override {
    cluster_.reset();  // (The servers send close messages.)
    stop_ = true;
    if (pump_.joinable()) pump_.join();
  }
  std::unique_ptr<Session> Connect() {
    return std::make_unique<Session>(cluster_->target("worker", 0), graph_);
  }
  static TensorStore StoreOnPs(const std::string& name = "states") {
    const DeviceScope on(kStorePs);
    return TensorStore(DType::kFloat, {.name = name});
  }
  // 0.9 x + 0.1, on a task.
  static Output Move(const char* task, Output x) {
    const DeviceScope on(task);
    return x * 0.9f + 0.1f;
  }

  Graph graph_;
  const WithGraph use_;
  std::unique_ptr<VirtualNetwork> network_;
  std::unique_ptr<TestCluster> cluster_;
  std::atomic<bool> stop_{false};
  std::thread pump_;
};

TEST_F(ClusterStoreTest, TasksReadAndWriteAStoreOfAnother) {
  Start();
  const Output x = Placeholder<float>({}, "x");
  const TensorStore s = StoreOnPs();
  Output y;
  {
    const DeviceScope on(kStoreWorker[0]);
    s.Write(0, ops::Sin(x));
    y = s.Read(1) + 0.0f;
  }
  {
    const DeviceScope on(kStoreWorker[1]);
    const Output in = s.Read(0);
    s.Write(1, in * in);
  }
  const Output g = Grad(y, x);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const auto session = Connect();
  for (int i = 0; i < 3; ++i) {
    const Result<std::vector<Tensor>> got =
        session->Run({{x, Tensor::Scalar(0.5f)}}, {y, g});
    ASSERT_TRUE(got.ok()) << got.status();
    const float v = std::sin(0.5f);
    EXPECT_NEAR((*got)[0].scalar<float>(), v * v, 1e-6);
    EXPECT_NEAR((*got)[1].scalar<float>(), 2 * v * std::cos(0.5f), 1e-6);
  }
}

// The iterations of a loop over three tasks, in the opposite order of their
// keys.
TEST_F(ClusterStoreTest, IterationsOfALoopOverTasksWaitForEachOther) {
  Start();
  constexpr int kSteps = 20;
  const Output x = Placeholder<float>({}, "x");
  const TensorStore s = StoreOnPs();
  s.Write(kSteps, x);
  While(
      std::tuple{0}, [](Output i) { return i < kSteps; },
      [&](Output i) {
        s.Write(i, Move(kStoreWorker[1], Move(kStoreWorker[0], s.Read(i + 1))));
        return std::tuple{i + 1};
      },
      {.parallel_iterations = kSteps + 1});
  const Output y = s.Read(0);
  const Output g = Grad(y, x);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const auto session = Connect();
  const auto got = session->Run({{x, Tensor::Scalar(3.0f)}}, {y, g});
  ASSERT_TRUE(got.ok()) << got.status();
  float want = 3;
  for (int i = 0; i < 2 * kSteps; ++i) want = want * 0.9f + 0.1f;
  EXPECT_NEAR((*got)[0].scalar<float>(), want, 1e-5);
  EXPECT_NEAR((*got)[1].scalar<float>(), std::pow(0.9, 2 * kSteps), 1e-5);
}

TEST_F(ClusterStoreTest, DeadlockOverTasksIsTold) {
  Start();
  const Output x = Placeholder<float>({}, "x");
  const TensorStore s = StoreOnPs();
  const Output a = Move(kStoreWorker[0], s.Read(1)) * x;
  s.Write(0, Move(kStoreWorker[1], a));
  const Output y = s.Read(0);
  const auto session = Connect();
  for (const int64_t timeout : {0, 0, 600'000}) {
    const Status error =
        session
            ->Run({{x, Tensor::Scalar(1.0f)}}, {y}, {}, {.timeout_ms = timeout})
            .status();
    EXPECT_EQ(error.code(), StatusCode::kFailedPrecondition) << error;
    EXPECT_THAT(
        std::string(error.message()),
        AllOf(HasSubstr("deadlock"), HasSubstr("key 0"), HasSubstr("key 1"),
              HasSubstr("'states'"), HasSubstr("tensor_store_steps_test.cc")));
  }
  session->Close().IgnoreError();
  EXPECT_TRUE(cluster_->Quiet());
}

// Stores at home on two tasks, each waiting for the other.
TEST_F(ClusterStoreTest, DeadlockNamesTheKeysOfAllTasks) {
  Start();
  TensorStore left, right;
  {
    const DeviceScope on(kStoreWorker[0]);
    left = TensorStore(DType::kFloat, {.name = "left"});
  }
  {
    const DeviceScope on(kStoreWorker[1]);
    right = TensorStore(DType::kFloat, {.name = "right"});
  }
  left.Write(1, right.Read(2));
  right.Write(2, left.Read(1));
  const Output y = Move(kStorePs, left.Read(1));
  const auto session = Connect();
  const Status error = session->Run({}, y).status();
  EXPECT_THAT(
      std::string(error.message()),
      AllOf(HasSubstr("deadlock"), HasSubstr("'left'"), HasSubstr("'right'"),
            HasSubstr("key 1"), HasSubstr("key 2")));
}

TEST_F(ClusterStoreTest, ADeadlockWithinOneTaskIsTold) {
  Start();
  TensorStore s;
  {
    const DeviceScope on(kStoreWorker[0]);
    s = TensorStore(DType::kFloat);
  }
  const auto session = Connect();
  const Status error = session->Run({}, s.Read(4)).status();
  EXPECT_THAT(std::string(error.message()),
              AllOf(HasSubstr("deadlock"), HasSubstr("key 4")));
}

// A value goes through all tasks, one after another, while all others wait and
// most of the time it is on its way: that is no deadlock. Without the last
// write it is one.
TEST_F(ClusterStoreTest, WhatIsOnItsWayIsNoDeadlock) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  StartOnNetwork(seed);
  constexpr int kSteps = 6;
  const Output x = Placeholder<float>({}, "x");
  const TensorStore s = StoreOnPs();
  TensorStore other;
  {
    const DeviceScope on(kStoreWorker[1]);
    other = TensorStore(DType::kFloat);
  }
  for (int i = kSteps; i > 0; --i) {
    other.Write(i, Move(kStoreWorker[0], s.Read(i - 1)));
    s.Write(i, Move(kStoreWorker[1], other.Read(i)));
  }
  const Output y = s.Read(kSteps), stuck = s.Read(-1);
  s.Write(0, Move(kStoreWorker[0], x));
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const auto session = Connect();
  const Feeds feeds = {{x, Tensor::Scalar(3.0f)}};
  float want = 3;
  for (int i = 0; i < 2 * kSteps + 1; ++i) want = want * 0.9f + 0.1f;
  for (int round = 0; round < 30; ++round) {
    const auto got = session->Run(feeds, y);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_NEAR(got->scalar<float>(), want, 1e-5);
  }
  for (int round = 0; round < 5; ++round) {
    const Status error = session->Run(feeds, {y, stuck}).status();
    EXPECT_THAT(std::string(error.message()),
                AllOf(HasSubstr("deadlock"), HasSubstr("key -1"),
                      Not(HasSubstr("key 0"))));
  }
}

TEST_F(ClusterStoreTest, StepsSeeWritesThatAreAddedLater) {
  Start();
  const TensorStore s = StoreOnPs();
  const Output y = Move(kStoreWorker[1], s.Read(0));
  const auto session = Connect();
  EXPECT_THAT(std::string(session->Run({}, y).status().message()),
              HasSubstr("deadlock"));
  s.Write(0, Move(kStoreWorker[0], Constant(1.0f)));
  const auto got = session->Run({}, y);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_NEAR(got->scalar<float>(), 1.0f, 1e-6);
}

// Not of a store that other steps may write: the deadline ends it, and names
// the read.
TEST_F(ClusterStoreTest, ReadsOfASharedStoreWaitForOtherSteps) {
  Start();
  const Output k = Placeholder<int64_t>({}, "k"),
               v = Placeholder<float>({}, "v");
  TensorStore s;
  {
    const DeviceScope on(kStorePs);
    s = TensorStore(DType::kFloat, {.shared_name = "kept"});
  }
  const Output written = s.Write(k, v);
  const Output y = Move(kStoreWorker[1], s.Read(k));
  const auto session = Connect();
  const auto at = [&](int64_t key) {
    return std::pair<Output, Tensor>{k, Tensor::Scalar<int64_t>(key)};
  };
  const Status late =
      session->Run({at(1)}, {y}, {}, {.timeout_ms = 150}).status();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late;
  Result<Tensor> got = Tensor();
  std::thread reader([&] { got = session->Run({at(1)}, y); });
  const auto wrote =
      session->Run({at(1), {v, Tensor::Scalar(1.0f)}}, written).status();
  reader.join();
  EXPECT_TRUE(wrote.ok()) << wrote;
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_NEAR(got->scalar<float>(), 1.0f, 1e-6);
}

TEST_F(ClusterStoreTest, PartialRunsWaitForTheirClient) {
  Start();
  const Output x = Placeholder<float>({}, "x"), z = Placeholder<float>({}, "z");
  const TensorStore s = StoreOnPs();
  const Output a = Move(kStoreWorker[0], s.Read(0));
  s.Write(0, Move(kStoreWorker[1], x));
  const Output b = Move(kStoreWorker[1], s.Read(1));
  s.Write(1, Move(kStoreWorker[0], z) * a);
  const auto session = Connect();
  for (int round = 0; round < 5; ++round) {
    auto run = session->StartPartialRun({x, z}, {a, b});
    ASSERT_TRUE(run.ok()) << run.status();
    auto first = (*run)->Run({{x, Tensor::Scalar(1.0f)}}, {a});
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_NEAR((*first)[0].scalar<float>(), 1.0f, 1e-6);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    auto second = (*run)->Run({{z, Tensor::Scalar(1.0f)}}, {b});
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_NEAR((*second)[0].scalar<float>(), 1.0f, 1e-6);
  }
}

TEST_F(ClusterStoreTest, OtherProcessesReadAndWrite) {
  ProcessCluster cluster({"ps", "worker"});
  for (const std::string role : {"ps", "worker"}) cluster.Spawn(role);
  const Output x = Placeholder<float>({}, "x");
  const TensorStore s = StoreOnPs();
  Output y, stuck;
  {
    const DeviceScope on(kStoreWorker[0]);
    y = s.Read(1) + 0.0f;
    s.Write(1, ops::Sin(s.Read(0)));
    s.Write(0, x * x);
    stuck = y + s.Read(2);
  }
  const Output g = Grad(y, x);
  Session session(cluster.target("worker"), graph_);
  const Feeds feeds = {{x, Tensor::Scalar(0.5f)}};
  const auto got = session.Run(feeds, {y, g});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_NEAR((*got)[0].scalar<float>(), std::sin(0.25f), 1e-6);
  EXPECT_NEAR((*got)[1].scalar<float>(), std::cos(0.25f), 1e-6);
  const Status error = session.Run(feeds, stuck).status();
  EXPECT_THAT(std::string(error.message()),
              AllOf(HasSubstr("deadlock"), HasSubstr("key 2")));
}

}  // namespace
}  // namespace sluice
