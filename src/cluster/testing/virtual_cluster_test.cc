// Steps over a network that delays, reorders, duplicates and drops messages,
// with tasks that die: each ends with the right value or with an error that
// says what happened, and leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "cluster/testing/cluster_test_util.h"
#include "cluster/testing/virtual_network.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr char kPsTask[] = "/job:ps/replica:0/task:0";

// Tasks on a virtual network that a thread runs as fast as possible.
class VirtualClusterTest : public ::testing::Test {
 protected:
  VirtualClusterTest() : use_(graph_) {}

  void Start(const VirtualNetworkOptions& options) {
    network_ = std::make_unique<VirtualNetwork>(options);
    cluster_ = std::make_unique<TestCluster>(
        std::vector<std::pair<std::string, int>>{{"ps", 1}, {"worker", 2}},
        [this](TransportOptions o) { return network_->Join(std::move(o)); });
    stop_ = false;
    pump_ = std::thread([this] {
      while (!stop_)
        if (!network_->Step())
          network_->AwaitEvent(std::chrono::milliseconds(1));
    });
  }
  void Stop() {
    // (The servers send close messages on the network.)
    cluster_.reset();
    stop_ = true;
    pump_.join();
    network_.reset();
  }
  // The sum of the numbers below n, in a loop over three tasks.
  static Output Sum(Output n) {
    return std::get<1>(CountAndSum(n, "/job:worker/task:1"));
  }

  Graph graph_;
  WithGraph use_;
  std::unique_ptr<VirtualNetwork> network_;
  std::unique_ptr<TestCluster> cluster_;
  std::atomic<bool> stop_{false};
  std::thread pump_;
};

// A step costs one message to each task and one back, beside its feeds and
// fetches; a loop's iterations do not involve the master.
TEST_F(VirtualClusterTest, MasterIsNotInvolvedInIterations) {
  VirtualNetworkOptions options;
  options.reorder = false;  // (Else a batch is cut into several frames.)
  Start(options);
  Graph graph;
  WithGraph use(graph);
  std::vector<Output> sums;
  for (const int32_t n : {3, 400})
    sums.push_back(std::get<1>(CountAndSum(Constant(n), "/job:worker/task:0")));
  {
    Session session(cluster_->target("worker", 1), graph);
    for (const Output& sum : sums) {
      ASSERT_TRUE(session.Run(sum).ok());  // Compiles it.
      Transport& master = cluster_->server("worker", 1).transport();
      const TransportStats before = master.stats();
      ASSERT_TRUE(session.Run(sum).ok());
      const TransportStats after = master.stats();
      EXPECT_EQ(after.frames_sent - before.frames_sent, 2);
      EXPECT_EQ(after.frames_received - before.frames_received, 3);
      EXPECT_EQ(after.tokens_received - before.tokens_received, 1);
    }
  }
  Stop();
}

TEST_F(VirtualClusterTest, LossyNetworkDoesNotChangeResults) {
  Output n = Placeholder<int32_t>({});
  Output sum = Sum(n);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualNetworkOptions options;
    options.seed = seed;
    options.drop = 0.05;
    options.duplicate = 0.1;
    Start(options);
    {
      Session session(cluster_->target("worker", 0), graph_);
      for (const int32_t count : {0, 1, 30}) {
        auto out = session.Run({{n, Tensor::Scalar<int32_t>(count)}}, sum);
        ASSERT_TRUE(out.ok()) << out.status();
        EXPECT_EQ(out->scalar<int32_t>(), count * (count - 1) / 2);
      }
    }
    EXPECT_TRUE(cluster_->Quiet());
    Stop();
  }
}

TEST_F(VirtualClusterTest, DeadTaskIsNamedUnlessStepSucceeds) {
  Output n = Placeholder<int32_t>({});
  Output sum = Sum(n);
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    VirtualNetworkOptions options;
    options.seed = seed;
    options.drop = seed % 3 == 0 ? 0.05 : 0;
    options.truncate = seed % 5 == 0 ? 0.01 : 0;
    Start(options);
    const char* const tasks[] = {kPsTask, "/job:worker/replica:0/task:1"};
    const std::string dies = tasks[random() % 2];
    const bool paused = random() % 4 == 0;
    {
      Session session(cluster_->target("worker", 0), graph_);
      const Feeds feeds = {{n, Tensor::Scalar<int32_t>(200)}};
      Status failed;
      for (int step = 0; step < 50 && failed.ok(); ++step) {
        if (step == 2)
          network_->At(static_cast<int64_t>(random() % 30000), [&] {
            if (paused)
              network_->Pause(dies);
            else
              network_->Kill(dies);
          });
        auto out = session.Run(feeds, sum);
        failed = out.status();
        if (out.ok()) {
          ASSERT_EQ(out->scalar<int32_t>(), 199 * 100);
        }
      }
      if (!failed.ok())
        EXPECT_THAT(std::string(failed.message()), HasSubstr("/job:"));
      else
        ADD_FAILURE() << "the task's death went unnoticed";
    }
    for (const auto& [job, task] :
         {std::pair<const char*, int>("worker", 0), {"worker", 1}, {"ps", 0}}) {
      Server& server = cluster_->server(job, task);
      EXPECT_EQ(server.master().steps().num_running(), 0u);
      if (server.worker().task() == dies) continue;
      // (Cancelled steps end soon; wait up to 30 seconds.)
      for (int i = 0; i < 3000 && (server.worker().num_sessions() > 0 ||
                                   server.worker().steps().num_running() > 0);
           ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_EQ(server.worker().num_sessions(), 0u);
      EXPECT_EQ(server.worker().steps().num_running(), 0u);
    }
    Stop();
  }
}

}  // namespace
}  // namespace sluice
