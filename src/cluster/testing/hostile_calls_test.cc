// The part of the table of hostile calls (tests/hostile_calls_test_util.h) that
// needs libsluice_cluster.
#include "cluster/testing/process_test_util.h"
#include "sluice/cluster.h"
#include "tests/hostile_calls_test_util.h"

namespace sluice {
namespace {

HOSTILE(ClustersOfNothing, "LocalCluster::Start LocalCluster::target") {
  using Jobs = std::vector<std::pair<std::string, int>>;
  for (const Jobs& jobs :
       {Jobs{}, Jobs{{"", 1}}, Jobs{{"worker", 0}}, Jobs{{"worker", -1}},
        Jobs{{"worker", INT_MIN}}, Jobs{{"worker", INT_MAX}}, Jobs{{"a b", 1}},
        Jobs{{"/job:x", 1}}, Jobs{{"w", 1}, {"w", 1}}, Jobs{{"\n", 1}}})
    EXPECT_FALSE(LocalCluster::Start(jobs).ok())
        << (jobs.empty() ? "" : jobs[0].first);
  for (const char* transport : {"", "tcp", "\n"})
    EXPECT_FALSE(LocalCluster::Start({{"worker", 1}}, transport).ok());
  const auto cluster = LocalCluster::Start({{"worker", 1}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  for (const int task : {INT_MIN, -1, 1, INT_MAX})
    EXPECT_EQ((*cluster)->target("worker", task), "");
  EXPECT_EQ((*cluster)->target("", 0), "");
  // Feeds of cluster steps are checked as in this process.
  Graph g;
  const WithGraph use(g);
  const Output x = Placeholder<float>({2}), y = x + x;
  Session session((*cluster)->target("worker", 0), g);
  ExpectRefused(session.Run({{x, Tensor()}}, y), "got none");
  ExpectRefused(session.Run({{x, Tensor(DType::kFloat, {-1})}}, y), "[-1]");
  ExpectRefused(session.Run(Output()), "expected an output");
  EXPECT_TRUE(session.Run({{x, Tensor::Vector<float>({1, 2})}}, y).ok());
}

HOSTILE(TasksOfNothing,
        "TaskServer::Start TaskServer::task TaskServer::target "
        "TaskServer::Stop TaskServer::Drain TaskServer::idle "
        "TaskServer::metrics") {
  const auto refused = [](const std::function<void(TaskServerOptions*)>& set) {
    TaskServerOptions options;
    options.cluster = "localhost:0";
    options.job = "worker";
    set(&options);
    return !TaskServer::Start(options).ok();
  };
  using O = TaskServerOptions;
  EXPECT_FALSE(TaskServer::Start({}).ok());
  EXPECT_TRUE(refused([](O* o) { o->cluster = "/no/such/file"; }));
  EXPECT_TRUE(refused([](O* o) { o->cluster = std::string(1000, '{'); }));
  EXPECT_TRUE(refused([](O* o) { o->job = "a b"; }));
  EXPECT_TRUE(refused([](O* o) { o->task = INT_MIN; }));
  EXPECT_TRUE(refused([](O* o) { o->bind = "nowhere"; }));
  EXPECT_TRUE(refused([](O* o) { o->devices = "cpu=-1"; }));
  EXPECT_TRUE(refused([](O* o) { o->devices = "emu=1(("; }));
  EXPECT_TRUE(refused([](O* o) { o->transport = "tcp"; }));
  EXPECT_TRUE(refused([](O* o) { o->peer_timeout_ms = -1; }));
  EXPECT_TRUE(refused([](O* o) { o->step_timeout_ms = -1; }));
  EXPECT_TRUE(refused([](O* o) { o->max_message_mb = INT64_MIN; }));
  EXPECT_TRUE(refused([](O* o) { o->tls_key = "/no/such/file"; }));
  EXPECT_TRUE(refused([](O* o) { o->metrics = "nowhere"; }));
  EXPECT_TRUE(refused([](O* o) { o->drain_seconds = NAN; }));
  TaskServerOptions possible;
  possible.cluster =
      absl::StrCat("{\"worker\": [\"127.0.0.1:", FreePorts(1)[0], "\"]}");
  possible.job = "worker";
  const auto task = TaskServer::Start(possible);
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ((*task)->metrics(), "");
  (*task)->Drain();
  (*task)->Drain();
  EXPECT_TRUE((*task)->idle());
}

}  // namespace
}  // namespace sluice
