// Watching a cluster whose tasks stop, die and come back.
#include "cluster/cluster_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <set>

#include "base/sanitizers.h"
#include "cluster/local_cluster.h"
#include "cluster/testing/child_process_test_util.h"
#include "cluster/testing/process_test_util.h"
#include "graph/hidden_attributes.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class ClusterWatchTest : public ::testing::Test {
 protected:
  static constexpr std::chrono::milliseconds kPatience{kSanitized ? 4000 : 400};
  // Much more than two times kPatience: what a Poll takes that waits for a
  // silent task and then for another one, on a busy machine.
  static constexpr double kMaxSeconds = 20;

  ClusterWatchTest() : cluster_({"ps", "worker"}) {
    cluster_.Spawn("ps");
    cluster_.Spawn("worker");
  }
  void Watch(const std::string& target) {
    auto watch = WatchCluster(target);
    ASSERT_TRUE(watch.ok()) << watch.status();
    watch_ = *std::move(watch);
    EXPECT_TRUE(Becomes("ps up, worker up")) << Errors();
  }
  // One Poll, formatted: which tasks are up and which are not.
  std::string Errors() {
    const auto start = std::chrono::steady_clock::now();
    seen_ = watch_->Poll(kPatience);
    took_ = std::chrono::steady_clock::now() - start;
    if (!seen_.ok()) return "error: " + std::string(seen_.status().message());
    EXPECT_EQ(seen_->size(), 2u);
    return "ps " + State(0) + ", worker " + State(1);
  }
  // On a busy machine a task that is up may fail to answer one Poll in time.
  bool Becomes(const std::string& states) {
    return BecomesTrue([&] { return Errors() == states; });
  }
  std::string State(size_t i) const {
    const TaskState& t = (*seen_)[i];
    return t.error.empty() && t.clock_ns > t.started_ns ? "up" : "lost";
  }

  ProcessCluster cluster_;
  std::unique_ptr<ClusterWatch> watch_;
  Result<std::vector<TaskState>> seen_ = Unavailable("");
  std::chrono::duration<double> took_{0};
};

TEST_F(ClusterWatchTest, SilentTaskDelaysNoOther) {
  Watch(cluster_.target("worker"));
  cluster_.Signal("ps", SIGSTOP);
  EXPECT_TRUE(Becomes("ps lost, worker up")) << Errors();
  EXPECT_LT(took_.count(), kMaxSeconds);
  cluster_.Signal("ps", SIGCONT);
  EXPECT_TRUE(Becomes("ps up, worker up")) << Errors();
  const uint64_t before = (*seen_)[0].incarnation;
  cluster_.Signal("ps", SIGKILL);
  EXPECT_TRUE(Becomes("ps lost, worker up")) << Errors();
  EXPECT_LT(took_.count(), kMaxSeconds);
  cluster_.Spawn("ps");
  EXPECT_TRUE(Becomes("ps up, worker up")) << Errors();
  EXPECT_NE((*seen_)[0].incarnation, before);
}

TEST_F(ClusterWatchTest, AnotherTaskAnswersWhenTheQueriedTaskFallsSilent) {
  Watch(cluster_.target("worker"));
  cluster_.Signal("worker", SIGSTOP);
  EXPECT_TRUE(Becomes("ps up, worker lost")) << Errors();
  EXPECT_LT(took_.count(), kMaxSeconds);
  // From now on the other task is asked.
  EXPECT_TRUE(Becomes("ps up, worker lost")) << Errors();
  EXPECT_LT(took_.count(), kMaxSeconds);
  cluster_.Signal("worker", SIGCONT);
  EXPECT_TRUE(Becomes("ps up, worker up")) << Errors();
}

TEST_F(ClusterWatchTest, NoTaskIsAnErrorUntilOneStarts) {
  Watch(cluster_.target("worker"));
  cluster_.Signal("ps", SIGKILL);
  cluster_.Signal("worker", SIGKILL);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Errors(), HasSubstr("error: grpc://127.0.0.1:"));
    EXPECT_LT(took_.count(), kMaxSeconds);
  }
  cluster_.Spawn("ps");
  EXPECT_TRUE(Becomes("ps up, worker lost")) << Errors();
}

// It is not known which tasks of a file are up.
TEST_F(ClusterWatchTest, AsksAnyTaskOfAClusterFile) {
  const std::string file =
      ::testing::TempDir() + "watch" + std::to_string(getpid()) + ".json";
  std::ofstream(file) << cluster_.spec().ToJson();
  Watch(file);
  for (const char* dead : {"ps", "worker"}) {
    cluster_.Signal(dead, SIGKILL);
    auto watch = WatchCluster(file);
    ASSERT_TRUE(watch.ok()) << watch.status();
    watch_ = *std::move(watch);
    EXPECT_TRUE(Becomes(dead == std::string("ps") ? "ps lost, worker up"
                                                  : "ps up, worker lost"))
        << Errors();
    cluster_.Spawn(dead);
    EXPECT_TRUE(Becomes("ps up, worker up")) << Errors();
  }
  unlink(file.c_str());
}

// In the state of a task, in a session of its own state there, and in a
// session of the process without a cluster.
TEST(ClusterWatch, ReportsThePipelinesOfTasksAndOfTheirProcess) {
  Graph graph;
  const WithGraph use(graph);
  const auto cluster = LocalCluster::Start({{"worker", 2}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  DatasetIterator there, here;
  {
    const DeviceScope on("/job:worker/task:1");
    there =
        Dataset::Range(1000).Prefetch(4).Batch(2).Prefetch(3).MakeIterator();
  }
  {
    const NameScope scope("local");
    here = Dataset::Range(1000).Prefetch(5).MakeIterator();
  }
  Session remote((*cluster)->target("worker", 0), graph), local(graph);
  ASSERT_TRUE(there.Start(remote).ok());
  ASSERT_TRUE(here.Start(local).ok());
  auto watch = WatchCluster((*cluster)->target("worker", 0));
  ASSERT_TRUE(watch.ok()) << watch.status();
  std::vector<StageCounters> all, of_task;
  const auto full = [](const StageCounters& c) {
    return c.ready == c.capacity && c.full_ns > 0;
  };
  EXPECT_TRUE(BecomesTrue([&] {
    const auto seen = (*watch)->Poll(std::chrono::milliseconds(4000));
    if (!seen.ok() || seen->size() != 2) return false;
    of_task = (*seen)[1].stages;
    all = (*seen)[0].stages;
    all.insert(all.end(), of_task.begin(), of_task.end());
    return all.size() == 4 && std::all_of(all.begin(), all.end(), full);
  }));
  const auto find = [](const std::vector<StageCounters>& in,
                       const std::string& stage) {
    for (const StageCounters& c : in)
      if (c.stage == stage && c.pipeline.find("local") == std::string::npos)
        return c;
    return StageCounters();
  };
  const StageCounters batch = find(of_task, "batch"),
                      last = find(of_task, "prefetch");
  EXPECT_EQ(batch.number, 1);
  EXPECT_EQ(batch.inputs, std::vector<int64_t>{0});
  EXPECT_EQ(last.number, 2);
  EXPECT_EQ(last.inputs, std::vector<int64_t>{1});
  EXPECT_EQ(last.capacity, 3);
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const StageCounters& c) {
                            return c.pipeline.find("local") == 0;
                          }),
            1);
  there.Stop();
  here.Stop();
}

// Of sessions that have a state each; and names that are no text.
TEST(ClusterWatch, KeepsPipelinesOfSeveralStatesApart) {
  const auto cluster = LocalCluster::Start({{"worker", 1}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::string target = (*cluster)->target("worker", 0);
  SessionOptions own;
  own.isolated = true;
  Graph graphs[3];
  DatasetIterator inputs[3];
  std::unique_ptr<Session> sessions[3];
  for (int i = 0; i < 3; ++i) {
    const WithGraph use(graphs[i]);
    Dataset data = Dataset::Range(1000).Prefetch(4);
    if (i == 1) data = data.Batch(2).Prefetch(3);
    inputs[i] = data.MakeIterator();
    if (i == 2)
      for (const auto& node : graphs[i].nodes())
        if (node->AttrOr<std::string>(kPipelineAttr, "") != "")
          graphs[i].SetAttr(node.get(), kPipelineAttr,
                            std::string(1000, '\xff'));
    sessions[i] = std::make_unique<Session>(target, graphs[i], own);
    ASSERT_TRUE(inputs[i].Start(*sessions[i]).ok());
  }
  auto watch = WatchCluster(target);
  ASSERT_TRUE(watch.ok()) << watch.status();
  std::map<std::string, std::set<std::string>> found;
  EXPECT_TRUE(BecomesTrue([&] {
    found.clear();
    const auto seen = (*watch)->Poll(std::chrono::milliseconds(4000));
    if (!seen.ok() || seen->size() != 1) return false;
    for (const StageCounters& c : (*seen)[0].stages)
      found[c.pipeline].insert(c.stage);
    return found.size() == 3;
  })) << ::testing::PrintToString(found);
  std::string odd;
  for (int k = 0; k < 66; ++k) odd += "\xef\xbf\xbd";  // At most 200 bytes.
  EXPECT_EQ(found.count(odd), 1u) << ::testing::PrintToString(found);
  found.erase(odd);
  ASSERT_EQ(found.size(), 2u);
  const auto& [first, stages] = *found.begin();
  const auto& [second, other_stages] = *found.rbegin();
  EXPECT_EQ(second, first + " #2");
  // (Sessions are in no order.)
  EXPECT_EQ(std::set({stages.size(), other_stages.size()}),
            std::set<size_t>({1, 3}))
      << ::testing::PrintToString(found);
  for (DatasetIterator& input : inputs) input.Stop();
}

TEST(ClusterWatch, RejectsMissingFileAndUnknownAddress) {
  const auto none = WatchCluster("no_such_file.json");
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("no_such_file.json"));
  EXPECT_FALSE(WatchCluster("inproc://nobody").ok());
}

}  // namespace
}  // namespace sluice
