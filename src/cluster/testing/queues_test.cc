// Queues of one task that clients of several tasks share, and pipelines over
// tasks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "client/variables.h"
#include "cluster/local_cluster.h"
#include "cluster/testing/cluster_test_util.h"
#include "data/coordinator.h"
#include "data/dataset.h"
#include "graph/device_scope.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

class ClusterQueuesTest : public ::testing::Test {
 protected:
  ClusterQueuesTest() : cluster_({{"ps", 1}, {"worker", 2}}) {}

  // A client's own graph, and its session on a task. The queue is on the ps.
  struct Client {
    explicit Client(const std::string& target) : use(graph) {
      const DeviceScope ps("/job:ps/task:0");
      queue = Queue::Fifo({{DType::kInt64, {}}},
                          {.capacity = 3, .shared_name = "shared"});
      value = Placeholder<int64_t>({});
      put = queue.Enqueue({value});
      took = queue.Dequeue()[0];
      close = queue.Close();
      session = std::make_unique<Session>(target, graph);
    }
    Graph graph;
    WithGraph use;
    Queue queue;
    Output value, took;
    Node *put, *close;
    std::unique_ptr<Session> session;
  };
  std::unique_ptr<Client> Connect(int worker) {
    return std::make_unique<Client>(cluster_.target("worker", worker));
  }

  TestCluster cluster_;
};

TEST_F(ClusterQueuesTest, ClientsOfTwoTasksShareAQueueOfAThird) {
  constexpr int64_t kCount = 60;
  Coordinator threads;
  ASSERT_TRUE(threads
                  .Start([&]() -> Status {
                    const auto client = Connect(0);
                    for (int64_t i = 0; i < kCount; ++i)
                      SLUICE_RETURN_IF_ERROR(client->session->RunTargets(
                          {client->put}, {{client->value, Tensor::Scalar(i)}}));
                    return client->session->RunTargets({client->close});
                  })
                  .ok());
  const auto client = Connect(1);
  std::vector<int64_t> got;
  for (;;) {
    const Result<Tensor> x = client->session->Run(client->took);
    if (!x.ok()) {
      EXPECT_EQ(x.status().code(), StatusCode::kOutOfRange) << x.status();
      break;
    }
    got.push_back(x->scalar<int64_t>());
  }
  std::vector<int64_t> want(kCount);
  std::iota(want.begin(), want.end(), 0);
  EXPECT_EQ(got, want);
  EXPECT_TRUE(threads.Join().ok());
}

TEST_F(ClusterQueuesTest, ClientsThatGoWhileTheyWaitLoseNoElement) {
  const auto producer = Connect(0);
  for (int round = 0; round < 5; ++round) {
    // One dequeue is cancelled by its client, one ends with its session.
    auto one = Connect(0), other = Connect(1);
    Cancellation stop;
    Coordinator waiting;
    ASSERT_TRUE(waiting
                    .Start([&] {
                      RunOptions options;
                      options.cancellation = &stop;
                      EXPECT_FALSE(
                          one->session->Run({}, {one->took}, {}, options).ok());
                      return OkStatus();
                    })
                    .ok());
    ASSERT_TRUE(waiting
                    .Start([&] {
                      EXPECT_FALSE(other->session->Run(other->took).ok());
                      return OkStatus();
                    })
                    .ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * round));
    stop.Cancel();
    EXPECT_TRUE(other->session->Close().ok());
    EXPECT_TRUE(waiting.Join().ok());
    // Whether or not the two had begun to wait, the element is the next one's.
    const Tensor element = Tensor::Scalar<int64_t>(round);
    ASSERT_TRUE(producer->session
                    ->RunTargets({producer->put}, {{producer->value, element}})
                    .ok());
    const auto next = Connect(1);
    const Result<Tensor> got = next->session->Run(next->took);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->scalar<int64_t>(), round);
  }
}

TEST_F(ClusterQueuesTest, APipelineRunsOnAnotherTaskThanItsReader) {
  Graph graph;
  const WithGraph use(graph);
  DatasetIterator input = [] {
    const DeviceScope worker("/job:worker/task:1");
    return Dataset::Range(100)
        .Map([](Output x) { return x * x; })
        .Batch(10)
        .MakeIterator();
  }();
  Output sum;
  {
    const DeviceScope worker("/job:worker/task:0");
    sum = ops::Sum(input.Next()[0], 0);
  }
  Session session(cluster_.target("ps", 0), graph);
  ASSERT_TRUE(input.Start(session).ok());
  int64_t total = 0;
  for (int i = 0; i < 10; ++i) {
    const Result<Tensor> got = session.Run(sum);
    ASSERT_TRUE(got.ok()) << got.status();
    total += got->scalar<int64_t>();
  }
  EXPECT_EQ(total, 328350);
  EXPECT_EQ(session.Run(sum).status().code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(input.Join().ok());
}

}  // namespace
}  // namespace sluice
