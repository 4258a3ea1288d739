// Text that steps print in other tasks, and where it appears.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "cluster/local_cluster.h"
#include "cluster/testing/cluster_test_util.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// With both kinds of stubs.
class ClusterPrintTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      auto c = LocalCluster::Start({{"ps", 1}, {"worker", 2}});
      ASSERT_TRUE(c.ok()) << c.status();
      grpc_ = *std::move(c);
      target_ = grpc_->target("worker", 0);
    } else {
      cluster_ = std::make_unique<TestCluster>(
          std::vector<std::pair<std::string, int>>{{"ps", 1}, {"worker", 2}});
      target_ = cluster_->target("worker", 0);
    }
    options_.log = [this](const std::string& text) {
      std::lock_guard<std::mutex> lock(mu_);
      lines_.push_back(text);
    };
  }
  // Counts to n; prints on two tasks, the counter and `name` with it.
  Output Loop(Output n, const std::string& name) {
    return While(
        Output(Constant(int32_t{0})),
        [&](Output i) {
          DeviceScope on("/job:worker/task:0");
          return i < n;
        },
        [&](Output i) {
          Output next;
          {
            DeviceScope on("/job:ps/task:0");
            next = ops::Print(i + 1, {i}, {.message = name + " ps "});
          }
          DeviceScope on("/job:worker/task:0");
          return Output(ops::Print(next, {next}, {.message = name + " here "}));
        });
  }
  std::vector<std::string> Of(const std::string& what) {
    std::lock_guard<std::mutex> lock(mu_);
    std::vector<std::string> found;
    for (const std::string& l : lines_)
      if (l.find(what) != std::string::npos) found.push_back(l);
    return found;
  }

  Graph graph_;
  WithGraph use_{graph_};
  std::unique_ptr<LocalCluster> grpc_;
  std::unique_ptr<TestCluster> cluster_;
  std::string target_;
  std::mutex mu_;
  std::vector<std::string> lines_;  // GUARDED_BY(mu_)
  RunOptions options_;
};

TEST_P(ClusterPrintTest, OutputOfAllTasksReachesTheClientLog) {
  Output n = Placeholder<int32_t>({});
  Output count = Loop(n, "a");
  Session session(target_, graph_);
  for (const bool traced : {false, true}) {
    lines_.clear();
    options_.trace = traced;
    RunMetadata metadata;
    auto out = session.Run({{n, Tensor::Scalar<int32_t>(3)}}, {count}, {},
                           options_, &metadata);
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_THAT(Of("ps"),
                ElementsAre("a ps [0]\n", "a ps [1]\n", "a ps [2]\n"));
    EXPECT_THAT(Of("here"),
                ElementsAre("a here [1]\n", "a here [2]\n", "a here [3]\n"));
  }
  // (Without a log it goes to the tasks' standard error.)
  lines_.clear();
  ASSERT_TRUE(session.Run({{n, Tensor::Scalar<int32_t>(1)}}, count).ok());
  EXPECT_TRUE(lines_.empty());
}

TEST_P(ClusterPrintTest, FailedStepDeliversItsOutput) {
  Output x = Placeholder<float>({-1});
  Output bad;
  {
    DeviceScope on("/job:worker/task:1");
    bad = ops::Reshape(ops::Print(x, {x}, {.message = "saw "}),
                       Constant(Tensor::Vector<int32_t>({3})));
  }
  Session session(target_, graph_);
  const Status s =
      session.Run({{x, Tensor::Vector<float>({1, 2})}}, {bad}, {}, options_)
          .status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
  EXPECT_THAT(lines_, ElementsAre("saw [1 2]\n"));
}

// While the step runs, not at its end.
TEST_P(ClusterPrintTest, LinesArriveDuringTheStep) {
  Output endless = Loop(Constant(int32_t{INT32_MAX}), "b");
  Session session(target_, graph_);
  std::atomic<bool> seen{false};
  options_.log = [&](const std::string& text) {
    if (text.find("b ps [2]") != std::string::npos) seen = true;
  };
  std::thread closer([&] {
    while (!seen) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(session.Close().ok());
  });
  const Status s = session.Run({}, {endless}, {}, options_).status();
  closer.join();
  EXPECT_EQ(s.code(), StatusCode::kCancelled) << s;
}

// A log may even run steps on the task whose line it receives.
TEST_P(ClusterPrintTest, SlowLogDelaysNoOtherStep) {
  Output n = Placeholder<int32_t>({});
  Output count = Loop(n, "c"), other;
  {
    DeviceScope on("/job:ps/task:0");
    other = n + 1;
  }
  Session session(target_, graph_);
  int steps = 0;
  options_.log = [&](const std::string&) {
    RunOptions soon;
    soon.timeout_ms = 20000;
    const auto out =
        session.Run({{n, Tensor::Scalar<int32_t>(1)}}, {other}, {}, soon);
    ASSERT_TRUE(out.ok()) << out.status();
    steps += (*out)[0].scalar<int32_t>() == 2;
  };
  const auto out =
      session.Run({{n, Tensor::Scalar<int32_t>(2)}}, {count}, {}, options_);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(steps, 4);
}

TEST_P(ClusterPrintTest, ConcurrentStepsHaveSeparateLogs) {
  Output n = Placeholder<int32_t>({});
  Session session(target_, graph_);
  std::vector<Output> counts;
  for (int t = 0; t < 4; ++t)
    counts.push_back(Loop(n, std::string(1, static_cast<char>('p' + t))));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mutex mu;
      std::string log;
      RunOptions options;
      options.log = [&](const std::string& text) {
        std::lock_guard<std::mutex> lock(mu);
        log += text[0];
      };
      for (int i = 0; i < 10; ++i) {
        log.clear();
        const auto out = session.Run({{n, Tensor::Scalar<int32_t>(3)}},
                                     {counts[t]}, {}, options);
        ASSERT_TRUE(out.ok()) << out.status();
        EXPECT_EQ(log, std::string(6, static_cast<char>('p' + t)));
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST_P(ClusterPrintTest, ExcessiveOutputIsTruncated) {
  constexpr int64_t kElements = 1 << 19;
  Output big = Placeholder<float>({kElements});
  auto [n, same] = While(
      std::tuple(Output(Constant(int32_t{0})), big),
      [](Output i, Output) { return i < 12; },
      [](Output i, Output v) {
        DeviceScope on("/job:ps/task:0");
        return std::tuple(Output(i + 1),
                          Output(ops::Print(v, {v}, {.summarize = kElements})));
      });
  Session session(target_, graph_);
  Tensor zeros(DType::kFloat, Shape({kElements}));
  std::fill_n(zeros.data<float>(), kElements, 0.0f);
  const auto out = session.Run({{big, zeros}}, {n}, {same.node}, options_);
  ASSERT_TRUE(out.ok()) << out.status();
  // A megabyte each.
  ASSERT_EQ(lines_.size(), 8u);
  EXPECT_THAT(lines_.back(), HasSubstr("left out"));
}

INSTANTIATE_TEST_SUITE_P(Stubs, ClusterPrintTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Grpc" : "InProcess";
                         });

}  // namespace
}  // namespace sluice
