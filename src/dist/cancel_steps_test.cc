// Steps of clusters that are cancelled by what RunOptions names: at any moment,
// before they begin too, wherever they run, and nothing else.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "dist/cluster_test_util.h"
#include "dist/local_cluster.h"

namespace sluice {
namespace {

// Within tests and over gRPC, where tasks of one program talk without it.
class CancelStepsTest : public ::testing::TestWithParam<bool> {
 protected:
  CancelStepsTest() : use_(graph_) {
    if (!GetParam()) {
      local_ = std::make_unique<TestCluster>(
          std::vector<std::pair<std::string, int>>{{"ps", 1}, {"worker", 1}});
      target_ = local_->target("worker", 0);
      return;
    }
    auto grpc = LocalCluster::Start({{"ps", 1}, {"worker", 1}});
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

TEST_P(CancelStepsTest, AStepThatWasCancelledBeforeItBeginsDoesNotBegin) {
  Session s(target_, graph_);
  const Output never = On("/job:ps/task:0", Forever);
  Cancellation cancellation;
  cancellation.Cancel();
  RunOptions options;
  options.cancellation = &cancellation;
  EXPECT_EQ(s.Run({}, {never}, {}, options).status().code(),
            StatusCode::kCancelled);
}

TEST_P(CancelStepsTest, EndsThatStepAtAnyMomentAndNoOther) {
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

TEST_P(CancelStepsTest, AStageThatWaitsIsCancelled) {
  Session s(target_, graph_);
  const Output x = Placeholder<int32_t>({}), y = Placeholder<int32_t>({});
  const Output never = On("/job:ps/task:0", Forever);
  auto run = s.StartPartialRun({x, y}, {x + 1, never});
  ASSERT_TRUE(run.ok()) << run.status();
  Cancellation cancellation;
  std::thread t([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancellation.Cancel();
  });
  EXPECT_EQ((*run)
                ->Run({{x, Tensor::Scalar(1)}, {y, Tensor::Scalar(1)}}, {never},
                      &cancellation)
                .status()
                .code(),
            StatusCode::kCancelled);
  t.join();
}

}  // namespace
}  // namespace sluice
