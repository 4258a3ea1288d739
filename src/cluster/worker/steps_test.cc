// Tokens that come before their step or after it, and steps that must not run.
#include "cluster/worker/steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <thread>

#include "cluster/testing/transport_test_util.h"
#include "cluster/transport/transport_base.h"

namespace sluice {
namespace {

class WorkerStepsTest : public ::testing::Test {
 protected:
  WorkerSteps& Make(StepLimits limits, Transport* transport = nullptr) {
    steps_ = std::make_unique<WorkerSteps>("/job:w/replica:0/task:0", limits,
                                           transport);
    return *steps_;
  }
  void Send(uint64_t run, int64_t floats, uint32_t partition = 0) {
    TokenMessage m;
    m.value = *Tensor::Zeros(DType::kFloat, Shape({floats}));
    steps_->Deliver(run, partition, std::span<TokenMessage>(&m, 1));
  }
  // Runs a step of no partitions to its end.
  Status Run(uint64_t run) {
    StepRequest request;
    request.run = run;
    request.step = std::make_shared<RegisteredStep>();
    std::mutex mu;
    std::condition_variable cv;
    bool done = false;
    Status status;
    request.done = [&](StepOutcome o) {
      std::lock_guard<std::mutex> lock(mu);
      status = o.status;
      done = true;
      cv.notify_all();
    };
    steps_->Start(std::move(request));
    std::unique_lock<std::mutex> lock(mu);
    cv.wait(lock, [&] { return done; });
    return status;
  }

  std::unique_ptr<WorkerSteps> steps_;
};

TEST_F(WorkerStepsTest, EarlyTokensAreBounded) {
  StepLimits limits;
  limits.early_bytes = 10000;
  WorkerSteps& steps = Make(limits);
  for (int i = 0; i < 100; ++i) Send(1, 1000);
  EXPECT_LE(steps.early_bytes(), 10000u);
  EXPECT_GT(steps.early_bytes(), 4000u);
  // It lacks tokens, so running it would wait forever.
  EXPECT_EQ(Run(1).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(steps.early_bytes(), 0u);
  EXPECT_TRUE(Run(2).ok());
}

TEST_F(WorkerStepsTest, TokensOfEndedStepsAreDropped) {
  WorkerSteps& steps = Make({});
  Send(1, 10);
  EXPECT_GT(steps.early_bytes(), 0u);
  EXPECT_TRUE(Run(1).ok());
  EXPECT_EQ(steps.early_bytes(), 0u);
  Send(1, 10);
  EXPECT_EQ(steps.early_bytes(), 0u);
}

TEST_F(WorkerStepsTest, AStepCancelledBeforeItBeginsDoesNotRun) {
  WorkerSteps& steps = Make({});
  Send(1, 10);
  steps.Cancel(1, Cancelled("by a test"));
  EXPECT_EQ(steps.early_bytes(), 0u);
  EXPECT_EQ(Run(1).code(), StatusCode::kCancelled);
  steps.Forget(2);
  Send(2, 10);
  EXPECT_EQ(steps.early_bytes(), 0u);
}

TEST_F(WorkerStepsTest, StepOfEndedSessionReportsItsReason) {
  Make({}).CancelSession(0, Unavailable("task '/job:w/task:1' is gone"));
  EXPECT_EQ(Run(1).message(), "task '/job:w/task:1' is gone");
}

TEST_F(WorkerStepsTest, EarlyTokensExpire) {
  StepLimits limits;
  limits.early_expiry = std::chrono::milliseconds(50);
  WorkerSteps& steps = Make(limits);
  for (const uint64_t first : {1, 100}) {
    for (uint64_t run = first; run < first + 99; ++run) Send(run, 1000);
    EXPECT_GT(steps.early_bytes(), 0u);
    // (Nothing need come for what waits to go; half a minute is never.)
    for (int i = 0; i < 3000 && steps.early_bytes() > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(steps.early_bytes(), 0u);
    EXPECT_EQ(Run(first).code(), StatusCode::kCancelled);
  }
}

TEST_F(WorkerStepsTest, FeedsAreReturnedOnce) {
  WorkerSteps& steps = Make({});
  Send(1, 3, kFeedPartition);
  std::vector<uint32_t> args;
  std::vector<Tensor> values;
  EXPECT_TRUE(steps.TakeFeeds(1, &args, &values).ok());
  ASSERT_EQ(values.size(), 1u);
  EXPECT_EQ(values[0].num_elements(), 3);
  EXPECT_TRUE(steps.TakeFeeds(1, &args, &values).ok());
  EXPECT_EQ(values.size(), 1u);
  EXPECT_EQ(steps.early_bytes(), 0u);
}

TEST_F(WorkerStepsTest, FeedsBeyondTheLimitAreMissingForThatReason) {
  StepLimits limits;
  limits.early_bytes = 10000;
  WorkerSteps& steps = Make(limits);
  std::vector<uint32_t> args;
  std::vector<Tensor> values;
  Send(1, 5000, kFeedPartition);  // (Floats: too large by itself.)
  EXPECT_EQ(steps.TakeFeeds(1, &args, &values).code(),
            StatusCode::kResourceExhausted);
  EXPECT_TRUE(values.empty());
  // Nothing of a further step fits beside those of others.
  for (uint64_t run = 2; steps.early_bytes() + 100 < limits.early_bytes; ++run)
    Send(run, 1);
  Send(10000, 1, kFeedPartition);
  EXPECT_EQ(steps.TakeFeeds(10000, &args, &values).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(Run(10000).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(values.empty());
}

TEST_F(WorkerStepsTest, StepDoesNotStartForLostMaster) {
  RecordingHandler handler;
  TransportOptions options;
  options.task = "/job:w/replica:0/task:0";
  LocalTransport transport(options), other(options);
  ASSERT_TRUE(transport.Start(&handler).ok() && other.Start(&handler).ok());
  const PeerId master =
      *transport.Connect({options.task, other.address(), other.incarnation()});
  transport.Disconnect(master, Unavailable("task 'x' died"));
  WorkerSteps& steps = Make({}, &transport);
  StepRequest request;
  request.run = 1;
  request.step = std::make_shared<RegisteredStep>();
  request.master = master;
  Status status;
  request.done = [&](StepOutcome o) { status = o.status; };
  steps.Start(std::move(request));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "task 'x' died");
  EXPECT_EQ(steps.num_running(), 0u);
  steps_.reset();
}

}  // namespace
}  // namespace sluice
