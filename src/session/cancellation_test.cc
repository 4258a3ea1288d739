// Steps that are cancelled through RunOptions.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "client/control/control_flow.h"
#include "client/operators.h"
#include "session/session.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

class CancellationTest : public ::testing::TestWithParam<bool> {
 protected:
  CancellationTest() : use_(graph_) {}

  Output Forever() {
    return While(
        Constant(1), [](Output i) { return i >= 0; },
        [](Output i) { return ops::Abs(i); });
  }
  SessionOptions Options() const {
    SessionOptions o;
    o.regions = GetParam();
    return o;
  }

  Graph graph_;
  WithGraph use_;
};
INSTANTIATE_TEST_SUITE_P(WithAndWithoutRegions, CancellationTest,
                         ::testing::Bool());

TEST_P(CancellationTest, CancelAtAnyMomentEndsOnlyThatStep) {
  const Output never = Forever(), one = Constant(1);
  Session s(graph_, Options());
  for (int round = 0; round < 40; ++round) {
    Cancellation cancellation;
    std::thread t([&] {
      RunOptions options;
      options.cancellation = &cancellation;
      EXPECT_EQ(s.Run({}, {never}, {}, options).status().code(),
                StatusCode::kCancelled);
    });
    for (std::atomic<int> i{0}; i < round * 3000; ++i) {
    }
    cancellation.Cancel();
    t.join();
    EXPECT_TRUE(s.Run(one).ok());
  }
}

TEST_P(CancellationTest, CancelledPartialRunStaysCancelled) {
  const Output x = ops::Placeholder(DType::kInt32);
  const Output sum = x + 1, never = Forever();
  Session s(graph_, Options());
  auto run = s.StartPartialRun({x}, {sum, never});
  ASSERT_TRUE(run.ok()) << run.status();
  Cancellation cancellation;
  RunOptions options;
  options.cancellation = &cancellation;
  std::thread t([&] { cancellation.Cancel(); });
  EXPECT_EQ((*run)->Run({{x, Tensor::Scalar(1)}}, {}, options).status().code(),
            StatusCode::kCancelled);
  t.join();
  EXPECT_EQ((*run)->Run({}, {never}).status().code(), StatusCode::kCancelled);
}

// The deadline of a stage applies only to that stage.
TEST_P(CancellationTest, StageDeadlineEndsThePartialRun) {
  const Output x = ops::Placeholder(DType::kInt32);
  const Output y = ops::Placeholder(DType::kInt32);
  const Output first = y + 1;
  const Output bound = x;
  const Output late = While(
      Output(Constant(1)), [&](Output i) { return i < bound; },
      [](Output i) { return Output(ops::Minimum(i + 1, Constant(5))); });
  Session s(graph_, Options());
  auto run = s.StartPartialRun({y, x}, {first, late});
  ASSERT_TRUE(run.ok()) << run.status();
  RunOptions options;
  options.trace = true;
  EXPECT_EQ((*run)->Run({}, {}, options).status().code(),
            StatusCode::kInvalidArgument);
  options.trace = false;
  options.timeout_ms = 20;
  const auto got = (*run)->Run({{y, Tensor::Scalar(1)}}, {first}, options);
  ASSERT_TRUE(got.ok()) << got.status();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const Status out =
      (*run)->Run({{x, Tensor::Scalar(9)}}, {late}, options).status();
  EXPECT_EQ(out.code(), StatusCode::kDeadlineExceeded) << out;
  EXPECT_EQ((*run)->Run({}, {late}).status().code(), out.code());
}

}  // namespace
}  // namespace sluice
