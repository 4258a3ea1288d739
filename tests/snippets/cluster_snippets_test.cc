// The documentation's examples of clusters, with tasks on this machine.
#include <fstream>
#include <nlohmann/json.hpp>

#include "cluster/common/cluster.h"
#include "cluster/testing/process_test_util.h"
#include "snippets/docs/tutorials/clusters.md/1.inc"
#include "tests/snippets/snippets_test_util.h"

namespace sluice {
namespace {

// Runs a step on the session's cluster.
void RunsSteps(Session& session) {
  const Result<Tensor> two = session.Run(Constant(1.0f) + 1.0f);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->scalar<float>(), 2);
}

TEST_F(SnippetTest, Clusters) {
  const auto start = [&]() -> Status {
#include "snippets/include/sluice/cluster.h/1.inc"
    RunsSteps(session);
    return OkStatus();
  };
  const Status status = start();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SnippetTest, LocalClusters) {
  const auto start = [&]() -> Status {
#include "snippets/src/cluster/local_cluster.h/1.inc"
    RunsSteps(session);
    return OkStatus();
  };
  const Status status = start();
  EXPECT_TRUE(status.ok()) << status;
}

// Writes a file with the address of a cluster's only task.
void WriteClusterFile() {
  std::ofstream("cluster.json")
      << "{\"worker\": [\"127.0.0.1:" << FreePorts(1).at(0) << "\"]}";
}

TEST_F(SnippetTest, TaskServers) {
  const InScratchFolder folder;
  WriteClusterFile();
  const auto start = [&]() -> Status {
#include "snippets/src/cluster/task_server.h/1.inc"
    RunsSteps(session);
    return OkStatus();
  };
  const Status status = start();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SnippetTest, ReplicaDevices) {
  Output x = Placeholder<float>({-1, 784});
#include "snippets/src/client/device_placement.h/1.inc"
  EXPECT_EQ(w.handle().node->device(), "/job:ps/task:0");
  EXPECT_EQ(b.handle().node->device(), "/job:ps/task:1");
  EXPECT_EQ(y.node->device(), "/job:worker/task:3");
}

TEST_F(SnippetTest, TutorialClusters) {
  const auto program = []() -> Status {
#include "snippets/docs/tutorials/clusters.md/2.inc"
    ::testing::internal::CaptureStdout();
#include "snippets/docs/tutorials/clusters.md/3.inc"
    const std::string shown1 =
#include "snippets/docs/tutorials/clusters.md/4.inc"
        ;
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), shown1);
    ::testing::internal::CaptureStdout();
#include "snippets/docs/tutorials/clusters.md/5.inc"
    const std::string shown2 =
#include "snippets/docs/tutorials/clusters.md/6.inc"
        ;
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), shown2);
    return OkStatus();
  };
  const Status status = program();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SnippetTest, PageClusterFile) {
  const Result<ClusterSpec> spec = ClusterSpec::Parse(
#include "snippets/docs/clusters.md/1.inc"
  );
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->Find("ps", 1).ok());
  EXPECT_TRUE(spec->Find("worker", 1).ok());
}

// (shell_test.py launches it.)
TEST_F(SnippetTest, PageLaunch) {
  const auto json = nlohmann::json::parse(
#include "snippets/docs/clusters.md/10.inc"
      , nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["jobs"]["worker"], 3);
}

TEST_F(SnippetTest, PageClient) {
  auto cluster = LocalCluster::Start({{"ps", 2}, {"worker", 1}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::string target = (*cluster)->target("worker", 0);
#include "snippets/docs/clusters.md/3.inc"
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  const Result<Tensor> value = session.Run(w);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->shape(), Shape({784, 100}));
}

TEST_F(SnippetTest, PageReplicas) {
  const int worker = 0;
  const Var w(1.0f, "w");
  VarOptions counter;
  counter.trainable = false;
  const Var step(Constant(Tensor::Scalar<int64_t>(0)), "global_step", counter);
  const Output loss = w * w;
#include "snippets/docs/clusters.md/16.inc"
  EXPECT_NE(train, nullptr);
  EXPECT_EQ(options.hooks.size(), 1u);
}

TEST_F(SnippetTest, PageTaskServer) {
  const InScratchFolder folder;
  WriteClusterFile();
  const auto start = [&]() -> Status {
#include "snippets/docs/clusters.md/4.inc"
    RunsSteps(session);
    return OkStatus();
  };
  const Status status = start();
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace sluice
