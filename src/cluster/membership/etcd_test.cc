// Clusters whose members are registered in etcd: tasks find each other, and a
// task whose lease expires is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <thread>

#include "cluster/cluster_watch.h"
#include "cluster/membership/cluster_resolver.h"
#include "cluster/membership/etcd_membership.h"
#include "cluster/testing/etcd_test_util.h"
#include "cluster/worker_main.h"
#include "exec/testing/trace_test_util.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr char kEtcdPs[] = "/job:ps/replica:0/task:0";
constexpr std::chrono::milliseconds kPatience{1000};

// Runs this program as a task. (Before main, so that the test framework is not
// involved.)
const bool is_etcd_worker = [] {
  const char* job = std::getenv("SLUICE_TEST_ETCD_JOB");
  if (job == nullptr) return false;
  WorkerFlags flags;
  flags.cluster = std::getenv("SLUICE_TEST_CLUSTER");
  flags.job = job;
  flags.bind = "127.0.0.1:0";
  flags.peer_timeout_ms = 60000;  // Leases expire sooner.
  std::string error;
  const int code = sluice_worker_main(&flags, &error);
  if (code != 0) std::fprintf(stderr, "%s: %s\n", job, error.c_str());
  _exit(code);
}();

class EtcdTest : public ::testing::Test {
 protected:
  // One server for all tests; each uses a separate cluster in it.
  static void SetUpTestSuite() { etcd_ = new TestEtcd; }
  static void TearDownTestSuite() {
    delete etcd_;
    etcd_ = nullptr;
  }
  EtcdTest() : use_(graph_) {
    static int clusters = 0;
    name_ = "cluster" + std::to_string(clusters++);
  }
  void SetUp() override {
    if (std::system("command -v etcd >/dev/null") != 0)
      GTEST_SKIP() << "expected the program etcd (Debian's etcd-server)";
    ASSERT_FALSE(etcd_->endpoint().empty()) << etcd_->log();
  }

  EtcdOptions Options(std::map<std::string, int> expected = {}) const {
    EtcdOptions o;
    o.endpoints = {etcd_->endpoint()};
    o.name = name_;
    o.expected = std::move(expected);
    o.lease = lease_;
    o.call_patience = milliseconds(500);
    return o;
  }
  std::unique_ptr<EtcdMembership> Open(
      std::map<std::string, int> expected = {}) {
    auto m = EtcdMembership::Open(Options(std::move(expected)));
    EXPECT_TRUE(m.ok()) << m.status();
    return *std::move(m);
  }
  std::string source() const {
    return "etcd://" + etcd_->endpoint() + "/" + name_ +
           "?ps=1&worker=1&lease=2";
  }
  std::unique_ptr<ChildProcess> Spawn(const std::string& job) {
    return std::make_unique<ChildProcess>(
        "/proc/self/exe", std::vector<std::string>{},
        std::vector<std::string>{"SLUICE_TEST_ETCD_JOB=" + job,
                                 "SLUICE_TEST_CLUSTER=" + source()});
  }

  static TestEtcd* etcd_;
  seconds lease_{2};
  std::string name_;
  Graph graph_;
  WithGraph use_;
};
TestEtcd* EtcdTest::etcd_ = nullptr;

// Records the lost tasks that a membership reports. Thread-safe.
class Losses {
 public:
  void Hear(EtcdMembership* m) {
    m->OnLost([this](const std::string& task, uint64_t incarnation,
                     const Status& why) {
      std::lock_guard<std::mutex> lock(mu_);
      lost_[task] = {incarnation, why};
    });
  }
  bool Has(const std::string& task) {
    std::lock_guard<std::mutex> lock(mu_);
    return lost_.contains(task);
  }
  std::string Why(const std::string& task) {
    std::lock_guard<std::mutex> lock(mu_);
    return std::string(lost_[task].second.message());
  }
  uint64_t Incarnation(const std::string& task) {
    std::lock_guard<std::mutex> lock(mu_);
    return lost_[task].first;
  }
  size_t count() {
    std::lock_guard<std::mutex> lock(mu_);
    return lost_.size();
  }

 private:
  std::mutex mu_;
  std::map<std::string, std::pair<uint64_t, Status>> lost_;
};

TEST_F(EtcdTest, TasksWaitForEachOther) {
  lease_ = seconds(10);  // Does not expire, even on slow machines.
  Losses losses;         // (Used by the client until its end.)
  auto client = Open({{"ps", 1}, {"worker", 2}});
  auto ps = Open(), worker0 = Open(), worker1 = Open();
  ASSERT_TRUE(ps->Join({"ps", 0, "10.0.0.1:1"}, 7, nullptr).ok());
  ASSERT_TRUE(worker1->Join({"worker", 1, "10.0.0.3:1"}, 9, nullptr).ok());
  Result<ClusterSpec> spec = client->Members(milliseconds(50));
  ASSERT_FALSE(spec.ok());
  EXPECT_THAT(std::string(spec.status().message()),
              HasSubstr("expected /job:worker/replica:0/task:0 to register"));
  std::thread late([&] {
    ASSERT_TRUE(worker0->Join({"worker", 0, "10.0.0.2:1"}, 8, nullptr).ok());
  });
  spec = client->Members(seconds(30));
  late.join();
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->tasks().size(), 3u);
  EXPECT_EQ(spec->Find("worker", 0)->address, "10.0.0.2:1");
  // A task that leaves is gone at once.
  losses.Hear(client.get());
  worker1->Leave();
  EXPECT_TRUE(
      BecomesTrue([&] { return client->Present()->tasks().size() == 2; }));
  EXPECT_TRUE(
      BecomesTrue([&] { return losses.Has("/job:worker/replica:0/task:1"); }));
  EXPECT_EQ(losses.count(), 1u);
  EXPECT_EQ(losses.Incarnation("/job:worker/replica:0/task:1"), 9u);
}

TEST_F(EtcdTest, MembersIncludeTasksThatJoinedEarlier) {
  lease_ = seconds(10);  // Does not expire, even on slow machines.
  auto client = Open();
  for (int i = 0; i < 5; ++i) {
    auto ps = Open();
    ASSERT_TRUE(ps->Join({"ps", i, "10.0.0.1:1"}, 7, nullptr).ok());
    EXPECT_EQ(ps->Present()->tasks().size(), 1u);
    EXPECT_EQ(client->Present()->tasks().size(), 1u);
  }
}

TEST_F(EtcdTest, TaskNumberHasOneOwner) {
  lease_ = seconds(10);  // Does not expire, even on slow machines.
  auto first = Open();
  lease_ = seconds(1);  // How long the second waits.
  auto second = Open();
  ASSERT_TRUE(first->Join({"ps", 0, "10.0.0.1:1"}, 7, nullptr).ok());
  const Status s = second->Join({"ps", 0, "10.0.0.9:1"}, 8, nullptr);
  EXPECT_EQ(s.code(), StatusCode::kAlreadyExists) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("10.0.0.1:1"));
  EXPECT_THAT(std::string(s.message()), HasSubstr(kEtcdPs));
  // Another task takes the place as soon as it is free.
  std::thread next([&] {
    const Status joined = second->Join({"ps", 0, "10.0.0.9:1"}, 8, nullptr);
    EXPECT_TRUE(joined.ok()) << joined;
  });
  first->Leave();
  next.join();
  EXPECT_TRUE(BecomesTrue([&] {
    const auto spec = second->Present();
    return spec.ok() && spec->tasks().size() == 1 &&
           spec->tasks()[0].address == "10.0.0.9:1";
  }));
}

TEST_F(EtcdTest, StoppedTaskIsLostAndRejoinsUnlessReplaced) {
  Losses losses;
  auto ps = Spawn("ps"), worker = Spawn("worker");
  auto client = Open({{"ps", 1}, {"worker", 1}});
  ASSERT_TRUE(client->Members(seconds(30)).ok());
  losses.Hear(client.get());
  ps->Signal(SIGSTOP);
  worker->Signal(SIGSTOP);
  auto usurper = Open();
  // (It waits until the lease has expired.)
  const Status joined = usurper->Join({"worker", 0, "10.0.0.9:1"}, 8, nullptr);
  ASSERT_TRUE(joined.ok()) << joined;
  ASSERT_TRUE(BecomesTrue([&] { return losses.Has(kEtcdPs); }));
  EXPECT_THAT(losses.Why(kEtcdPs), HasSubstr("expected its lease"));
  EXPECT_THAT(losses.Why(kEtcdPs), HasSubstr(kEtcdPs));
  EXPECT_FALSE(client->Members(milliseconds(10)).ok());
  ps->Signal(SIGCONT);
  worker->Signal(SIGCONT);
  EXPECT_TRUE(client->Members(seconds(30)).ok());
  EXPECT_EQ(worker->Wait(), 1);
  EXPECT_FALSE(ps->Ended());
}

TEST_F(EtcdTest, TasksSurviveAnEtcdRestart) {
  Losses losses;
  auto client = Open();
  auto ps = Open();
  ASSERT_TRUE(ps->Join({"ps", 0, "10.0.0.1:1"}, 7, nullptr).ok());
  ASSERT_TRUE(client->Members(seconds(30)).ok());
  losses.Hear(client.get());
  etcd_->Kill();
  EXPECT_EQ(client->Present()->tasks().size(), 1u);
  etcd_->Start();
  ASSERT_FALSE(etcd_->endpoint().empty()) << etcd_->log();
  auto worker = Open();
  ASSERT_TRUE(worker->Join({"worker", 0, "10.0.0.2:1"}, 8, nullptr).ok());
  EXPECT_TRUE(
      BecomesTrue([&] { return client->Present()->tasks().size() == 2; }));
  // Its lease is renewed: it outlives its duration.
  std::this_thread::sleep_for(lease_ + milliseconds(1500));
  EXPECT_EQ(client->Present()->tasks().size(), 2u);
  EXPECT_EQ(losses.count(), 0u);
}

TEST_F(EtcdTest, UnreachableEtcdIsNamedInError) {
  const std::string nobody = "127.0.0.1:" + std::to_string(UnusedPort());
  EtcdOptions o = Options();
  o.endpoints = {nobody};
  o.call_patience = milliseconds(100);
  auto m = EtcdMembership::Open(o);
  ASSERT_FALSE(m.ok());
  EXPECT_EQ(m.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(m.status().message()), HasSubstr(nobody));
  // The next server is tried.
  o.call_patience = milliseconds(500);
  o.endpoints = {nobody, etcd_->endpoint()};
  m = EtcdMembership::Open(o);
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_TRUE((*m)->Join({"ps", 0, "10.0.0.1:1"}, 7, nullptr).ok());
}

TEST_F(EtcdTest, WatchEndsWhenItsServerLosesTheLeader) {
  TestEtcd pair(2);
  ASSERT_FALSE(pair.endpoint().empty()) << pair.log();
  EtcdClient client({pair.endpoint()}, milliseconds(2000));
  std::atomic<bool> ended = false;
  Status why;
  std::thread watches([&] {
    why = client.Watch("/", 1, [] { return true; });
    ended = true;
  });
  pair.Kill(1);  // The first is not a majority.
  EXPECT_TRUE(BecomesTrue([&] { return ended.load(); }));
  client.Shutdown();
  watches.join();
  EXPECT_EQ(why.code(), StatusCode::kUnavailable) << why;
}

TEST_F(EtcdTest, ForeignKeysAreIgnored) {
  auto m = Open();
  EtcdClient raw({etcd_->endpoint()}, milliseconds(2000));
  seconds granted{0};
  const auto lease = raw.Grant(seconds(60), &granted);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_GE(granted, seconds(2));
  for (const char* key : {"nothing", "ps/x", "ps/1/y"})
    ASSERT_TRUE(raw.Claim({"/sluice/" + name_ + "/" + key, "{}"}, *lease).ok());
  ASSERT_TRUE(
      raw.Claim({"/sluice/" + name_ + "/ps/2", "no json"}, *lease).ok());
  ASSERT_TRUE(m->Join({"ps", 0, "10.0.0.1:1"}, 7, nullptr).ok());
  const auto spec = m->Members(seconds(30));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->tasks().size(), 1u);
  // A task without an address is an error that names it.
  ASSERT_TRUE(raw.Claim({"/sluice/" + name_ + "/ps/3", "{}"}, *lease).ok());
  EXPECT_TRUE(BecomesTrue([&] { return !m->Present().ok(); }));
  EXPECT_THAT(std::string(m->Present().status().message()),
              HasSubstr("task 3"));
  EXPECT_TRUE(raw.Revoke(*lease).ok());
  EXPECT_FALSE(*raw.KeepAlive(*lease));
}

TEST_F(EtcdTest, SessionsFindClusterAndLeaseExpiryFailsSteps) {
  auto ps = Spawn("ps");
  auto worker = Spawn("worker");
  Output x = Placeholder<float>({});
  Output y;
  {
    DeviceScope on("/job:ps/task:0");
    y = x + 1.0f;
  }
  {
    DeviceScope on("/job:worker/task:0");
    y = y * 2.0f;
  }
  Output endless = While(
      Output(Constant(int32_t{1})),
      [](Output i) {
        DeviceScope on("/job:worker/task:0");
        return i > 0;
      },
      [](Output i) {
        DeviceScope on("/job:ps/task:0");
        return Output(ops::Maximum(i, Constant(int32_t{1})));
      });
  const Feeds feeds = {{x, Tensor::Scalar<float>(3)}};
  auto session = std::make_unique<Session>(source(), graph_);
  auto out = session->Run(feeds, y);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->scalar<float>(), 8);

  auto watch = WatchCluster(source());
  ASSERT_TRUE(watch.ok()) << watch.status();
  const auto seen = (*watch)->Poll(kPatience);
  ASSERT_TRUE(seen.ok()) << seen.status();
  ASSERT_EQ(seen->size(), 2u);
  for (const TaskState& t : *seen) {
    EXPECT_EQ(t.error, "");
    EXPECT_EQ(t.steps, 1) << t.task;
    EXPECT_EQ(t.sessions, 1) << t.task;
    EXPECT_GT(t.bytes_sent, 0) << t.task;
    EXPECT_GT(t.clock_ns, t.started_ns) << t.task;
  }

  // A traced step over connections: covers both tasks and their transfers.
  RunOptions traced;
  traced.trace = true;
  RunMetadata metadata;
  const auto again = session->Run(feeds, {y}, {}, traced, &metadata);
  ASSERT_TRUE(again.ok()) << again.status();
  const SeenTrace trace = CheckTrace(metadata.ChromeTrace());
  EXPECT_EQ(trace.processes.size(), 2u);
  EXPECT_GE(trace.arrows.size(), 1u);

  // (Its transport's timeout is a minute.)
  std::thread stopper([&] {
    EXPECT_TRUE(BecomesTrue([&] {
      const auto now = (*watch)->Poll(kPatience);
      return now.ok() && (*now)[0].running_steps == 1;
    }));
    ps->Signal(SIGSTOP);
  });
  const Status s = session->Run(endless).status();
  stopper.join();
  EXPECT_EQ(s.code(), StatusCode::kUnavailable) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr(kEtcdPs));
  EXPECT_THAT(std::string(s.message()), HasSubstr("expected its lease"));
  // Another task in its place, and a new session.
  ps = Spawn("ps");
  session = std::make_unique<Session>(source(), graph_);
  out = session->Run(feeds, y);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->scalar<float>(), 8);
}

}  // namespace
}  // namespace sluice
