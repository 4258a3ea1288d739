// Cancellation of cluster steps through RunOptions: at any time, including
// before they begin, wherever they run, and without affecting other steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/failpoint.h"
#include "cluster/local_cluster.h"
#include "cluster/testing/cluster_test_util.h"
#include "exec/core/host_functions.h"

namespace sluice {
namespace {

// In process and over gRPC, where the tasks of one process call each other
// directly.
class CancelStepsTest : public ::testing::TestWithParam<bool> {
 protected:
  CancelStepsTest() : use_(graph_) {
    if (!GetParam()) {
      local_ = std::make_unique<TestCluster>(
          std::vector<std::pair<std::string, int>>{{"ps", 1}, {"worker", 1}});
      target_ = local_->target("worker", 0);
      return;
    }
    auto grpc = LocalCluster::Start({{"ps", 1}, {"worker", 1}}, "grpc",
                                    /*allow_host_access=*/true);
    EXPECT_TRUE(grpc.ok()) << grpc.status();
    if (!grpc.ok()) return;
    grpc_ = *std::move(grpc);
    target_ = grpc_->target("worker", 0);
  }

  static Output On(const char* device, Output (*build)()) {
    DeviceScope on(device);
    return build();
  }
  static Output Forever() {
    return While(
        Constant(1), [](Output i) { return i >= 0; },
        [](Output i) { return ops::Abs(i); });
  }
  static Output One() { return Constant(1) + Constant(0); }

  Graph graph_;
  WithGraph use_;
  std::unique_ptr<TestCluster> local_;
  std::unique_ptr<LocalCluster> grpc_;
  std::string target_;
};
INSTANTIATE_TEST_SUITE_P(WithAndWithoutGrpc, CancelStepsTest,
                         ::testing::Bool());

TEST_P(CancelStepsTest, StepCancelledBeforeStartDoesNotRun) {
  Session s(target_, graph_);
  const Output never = On("/job:ps/task:0", Forever);
  Cancellation cancellation;
  cancellation.Cancel();
  RunOptions options;
  options.cancellation = &cancellation;
  EXPECT_EQ(s.Run({}, {never}, {}, options).status().code(),
            StatusCode::kCancelled);
}

TEST_P(CancelStepsTest, CancelAtAnyMomentEndsOnlyThatStep) {
  Session s(target_, graph_);
  const Output never = On("/job:ps/task:0", Forever);
  const Output one = On("/job:ps/task:0", One);
  for (int round = 0; round < 20; ++round) {
    Cancellation cancellation;
    std::thread t([&] {
      RunOptions options;
      options.cancellation = &cancellation;
      EXPECT_EQ(s.Run({}, {never}, {}, options).status().code(),
                StatusCode::kCancelled);
    });
    std::this_thread::sleep_for(std::chrono::microseconds(round * 100));
    cancellation.Cancel();
    t.join();
    EXPECT_TRUE(s.Run(one).ok());
  }
}

TEST_P(CancelStepsTest, WaitingStageIsCancelled) {
  Session s(target_, graph_);
  const Output x = Placeholder<int32_t>({}), y = Placeholder<int32_t>({});
  const Output never = On("/job:ps/task:0", Forever);
  auto run = s.StartPartialRun({x, y}, {x + 1, never});
  ASSERT_TRUE(run.ok()) << run.status();
  Cancellation cancellation;
  RunOptions options;
  options.cancellation = &cancellation;
  std::thread t([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancellation.Cancel();
  });
  EXPECT_EQ((*run)
                ->Run({{x, Tensor::Scalar(1)}, {y, Tensor::Scalar(1)}}, {never},
                      options)
                .status()
                .code(),
            StatusCode::kCancelled);
  t.join();
}

TEST_P(CancelStepsTest, StageDeadlineEndsStepAndNamesPendingTask) {
  Session s(target_, graph_);
  const Output x = Placeholder<int32_t>({}), y = Placeholder<int32_t>({});
  Output never;
  {
    DeviceScope on("/job:ps/task:0");
    never = While(
        y, [](Output i) { return i > 0; },
        [](Output i) { return Output(ops::Maximum(i, Constant(1))); });
  }
  auto run = s.StartPartialRun({x, y}, {x + 1, never});
  ASSERT_TRUE(run.ok()) << run.status();
  RunOptions options;
  options.timeout_ms = 20'000;
  EXPECT_TRUE((*run)->Run({{x, Tensor::Scalar(1)}}, {}, options).ok());
  options.timeout_ms = 100;
  const Status late =
      (*run)->Run({{y, Tensor::Scalar(1)}}, {never}, options).status();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late;
  EXPECT_THAT(std::string(late.message()),
              testing::HasSubstr("/job:ps/replica:0/task:0"));
  EXPECT_EQ((*run)->Run({}, {never}).status().code(), late.code());
}

// A host function that blocks until it is released.
class BlockingFunction {
 public:
  explicit BlockingFunction(const char* name) : name_(name) {
    AddHostFunction(name_, [this](std::vector<Tensor> args, const auto&) {
      std::unique_lock<std::mutex> lock(mu_);
      ++entered_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
      return args;
    });
  }
  ~BlockingFunction() { RemoveHostFunction(name_); }
  Output operator()(Output in) const {
    return Build("PyFunc", {in},
                 {{"token", name_},
                  {"Tin", AttrValue::Types{DType::kInt32}},
                  {"Tout", AttrValue::Types{DType::kInt32}}});
  }
  bool AwaitEntered(int count) {
    std::unique_lock<std::mutex> lock(mu_);
    return changed_.wait_for(lock, std::chrono::seconds(30),
                             [&] { return entered_ >= count; });
  }
  void Open() {
    std::lock_guard<std::mutex> lock(mu_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  const std::string name_;
  std::mutex mu_;
  std::condition_variable changed_;
  int entered_ = 0;
  bool open_ = false;
};

// Not even steps of the same client or between the same tasks, whichever thread
// delivered the token that the kernel was waiting for.
TEST_P(CancelStepsTest, BlockingKernelsDelayNoOtherStepOrDeadline) {
  constexpr int kBlocked = 6;
  BlockingFunction blocks("blocks");
  const Output x = Placeholder<int32_t>({}), z = Placeholder<int32_t>({});
  Output near, y, other, late;
  {
    const DeviceScope on("/job:worker/task:0");
    near = x + 1;
    late = blocks(z);
  }
  {
    const DeviceScope on("/job:ps/task:0");
    y = blocks(near);
    other = near + 1;
  }
  Session s(target_, graph_);
  std::vector<std::thread> threads;
  for (int i = 0; i < kBlocked; ++i) {
    threads.emplace_back([&] {
      EXPECT_TRUE(s.Run({{x, Tensor::Scalar(1)}}, y).ok());
    });
    const bool blocked = blocks.AwaitEntered(i + 1);
    EXPECT_TRUE(blocked) << i;
    RunOptions soon;
    soon.timeout_ms = 10'000;
    const auto out = s.Run({{x, Tensor::Scalar(1)}}, {other}, {}, soon);
    EXPECT_TRUE(out.ok()) << i << ": " << out.status();
    if (!blocked || !out.ok()) break;
  }
  // A stage that the master's own task runs.
  auto run = s.StartPartialRun({z}, {late});
  ASSERT_TRUE(run.ok()) << run.status();
  std::thread releases([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    blocks.Open();
  });
  RunOptions soon;
  soon.timeout_ms = 100;
  EXPECT_EQ((*run)->Run({{z, Tensor::Scalar(1)}}, {late}, soon).status().code(),
            StatusCode::kDeadlineExceeded);
  releases.join();
  for (std::thread& t : threads) t.join();
}

// The same for a token that is delivered together with an earlier message.
TEST_P(CancelStepsTest, BlockingKernelDoesNotDelayStepStart) {
  BlockingFunction first("first"), blocks("blocks");
  const Output x = Placeholder<int32_t>({});
  Output near, y, other;
  {
    const DeviceScope on("/job:worker/task:0");
    near = x + 1;
    y = first(near);
  }
  {
    const DeviceScope on("/job:ps/task:0");
    y = blocks(y);
    other = near + 1;
  }
  Session s(target_, graph_);
  const Feeds feeds = {{x, Tensor::Scalar(1)}};
  ASSERT_TRUE(s.Run(feeds, other).ok());
  std::thread blocked([&] { EXPECT_TRUE(s.Run(feeds, y).ok()); });
  EXPECT_TRUE(first.AwaitEntered(1));
  // The ps is busy with the other step's start when the token arrives.
  ASSERT_TRUE(EnableFailpoints("worker.start_step=delay(300)*2").ok());
  Result<std::vector<Tensor>> out = Unavailable("not run");
  std::thread next([&] {
    RunOptions soon;
    soon.timeout_ms = 10'000;
    out = s.Run(feeds, {other}, {}, soon);
  });
  while (FailpointHits("worker.start_step") == 0) std::this_thread::yield();
  first.Open();
  EXPECT_TRUE(blocks.AwaitEntered(1));
  next.join();
  DisableFailpoints();
  EXPECT_TRUE(out.ok()) << out.status();
  blocks.Open();
  blocked.join();
}

// After the time it takes to notice a death, another silent task must not cost
// the same time again.
TEST(DeadTasks, EndStepWhileAnotherTaskIsSilent) {
  Graph graph;
  const WithGraph use(graph);
  BlockingFunction blocks("blocks");
  const auto build = [&](const char* device, Output in) {
    const DeviceScope on(device);
    return blocks(in);
  };
  TestCluster cluster(
      {{"ps", 1}, {"worker", 2}},
      [](TransportOptions o) {
        return std::make_unique<LocalTransport>(std::move(o));
      },
      [](ServerOptions* o) { o->peer_timeout = std::chrono::seconds(20); });
  const Output x = Placeholder<int32_t>({}), y = Placeholder<int32_t>({});
  const Output a = build("/job:ps/task:0", x),
               b = build("/job:worker/task:1", y);
  Session s(cluster.target("worker", 0), graph);
  Status status;
  std::thread runs([&] {
    status = s.Run({{x, Tensor::Scalar(1)}, {y, Tensor::Scalar(1)}},
                   std::vector<Output>{a, b})
                 .status();
  });
  EXPECT_TRUE(blocks.AwaitEntered(2));
  const auto begin = std::chrono::steady_clock::now();
  cluster.server("worker", 0)
      .master()
      .LoseTask("/job:worker/replica:0/task:1",
                cluster.server("worker", 1).worker().incarnation(),
                Unavailable("task 1 is dead"));
  runs.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(status.message(), "task 1 is dead");
  blocks.Open();
  EXPECT_TRUE(s.Close().ok());
  EXPECT_TRUE(cluster.Quiet());
}

}  // namespace
}  // namespace sluice
