// Candidates for the chief of a training run, in processes that are killed and
// suspended: another takes over, and the run ends as an undisturbed one.
#include "base/chief_election.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/failpoint.h"
#include "client/device_placement.h"
#include "cluster/membership/etcd_election.h"
#include "cluster/server.h"
#include "cluster/testing/etcd_test_util.h"
#include "cluster/testing/process_test_util.h"
#include "io/file.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kElectionSteps = 200;
constexpr float kElectionRate = 0.0078125f;

std::string ElectionVariable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// (w - 3)^2, with w on the ps.
struct ElectionModel {
  explicit ElectionModel(const std::string& worker_device)
      : devices(ReplicaDeviceSetter(
            {.ps_tasks = 1, .worker_device = worker_device})),
        w(Constant(0.0f), "w"),
        step(Constant(Tensor::Scalar<int64_t>(0)), "global_step", [] {
          VarOptions counter;
          counter.trainable = false;
          return counter;
        }()) {}
  DeviceFunctionScope devices;
  Var w, step;
};

// One candidate, with the gradient of the first of two replicas in each update.
void TrainAsCandidate(const std::string& number) {
  Graph graph;
  const WithGraph use(graph);
  const std::string me = "/job:worker/task:" + number;
  const ElectionModel model(me);
  GradientDescentOptimizer sgd(kElectionRate);
  SyncReplicas replicas(sgd, {.replicas = 2, .to_aggregate = 1});
  Node* const train = replicas.Minimize(ops::Square(model.w - 3.0f),
                                        {.global_step = model.step});
  TrainingOptions options;
  options.target = ElectionVariable("SLUICE_TEST_TARGET");
  options.session_options.device_filters = {"/job:ps", me};
  options.chief_election = ElectionVariable("SLUICE_TEST_ELECTION");
  options.folder = ElectionVariable("SLUICE_TEST_FOLDER");
  options.last_step = kElectionSteps;
  options.save = {.steps = 10};
  options.wait_for_saves = true;
  options.retry_seconds = 0.1;
  options.hooks = {replicas.Hook(/*is_chief=*/false)};
  options.log = [](const std::string& line) {
    std::fprintf(stderr, "%s\n", line.c_str());
  };
  auto training = TrainingSession::Start(options);
  Status s = training.status();
  if (s.ok())
    s = (*training)->Train({train}, [](int64_t) -> Result<Feeds> {
      std::this_thread::sleep_for(milliseconds(10));
      return Feeds();
    });
  std::fprintf(stderr, "end: %s\n", s.ToString().c_str());
  _exit(s.ok() ? 0 : 1);
}

const bool is_candidate = [] {
  const std::string number = ElectionVariable("SLUICE_TEST_CANDIDATE");
  if (number.empty()) return false;
  TrainAsCandidate(number);
  return true;
}();

class ChiefElectionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v etcd >/dev/null") != 0)
      GTEST_SKIP() << "expected the program etcd (Debian's etcd-server)";
    etcd_ = std::make_unique<TestEtcd>();
    ASSERT_FALSE(etcd_->endpoint().empty()) << etcd_->log();
    std::string pattern = ::testing::TempDir() + "sluice_chief_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override {
    DisableFailpoints();
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  EtcdOptions Options() const {
    EtcdOptions o;
    o.endpoints = {etcd_->endpoint()};
    o.name = "run";
    o.lease = std::chrono::seconds(2);
    o.call_patience = milliseconds(500);
    return o;
  }
  std::unique_ptr<EtcdElection> Join() {
    auto e = EtcdElection::Join(Options());
    EXPECT_TRUE(e.ok()) << e.status();
    return *std::move(e);
  }
  void StartTasks() {
    const std::vector<int> ports = FreePorts(3);
    ClusterSpec cluster;
    for (size_t i = 0; i < 3; ++i)
      ASSERT_TRUE(cluster
                      .Add(i == 0 ? "ps" : "worker",
                           i == 0 ? 0 : static_cast<int>(i) - 1,
                           absl::StrCat("127.0.0.1:", ports[i]))
                      .ok());
    for (const ClusterTask& t : cluster.tasks()) {
      ServerOptions o;
      o.cluster = cluster;
      o.job = t.job;
      o.task = t.task;
      o.allow_host_access = true;  // (Tasks write the checkpoints.)
      auto server = Server::Start(o);
      ASSERT_TRUE(server.ok()) << server.status();
      tasks_[absl::StrCat(t.job, t.task)] = *std::move(server);
    }
  }
  std::unique_ptr<ChildProcess> Candidate(int number) {
    return std::make_unique<ChildProcess>(
        "/proc/self/exe", std::vector<std::string>{},
        std::vector<std::string>{
            absl::StrCat("SLUICE_TEST_CANDIDATE=", number),
            "SLUICE_TEST_TARGET=" +
                tasks_[absl::StrCat("worker", number)]->target(),
            absl::StrCat("SLUICE_TEST_ELECTION=etcd://", etcd_->endpoint(),
                         "/run?lease=", kSanitized ? 10 : 5),
            "SLUICE_TEST_FOLDER=" + folder_ + "/run"},
        LogOf(number));
  }
  std::string LogOf(int number) const {
    return absl::StrCat(folder_, "/log", number);
  }
  std::string Log(int number) const {
    const auto text = ReadFile(LogOf(number));
    return text.ok() ? *text : "";
  }
  bool Says(int number, const std::string& text) const {
    return BecomesTrue(
        [&] { return Log(number).find(text) != std::string::npos; });
  }
  // (Updates run beside the steps of a replica, which may thus miss the 10th
  // and save after 11, 21 and 31.)
  bool SavesAfter30Steps(int number) const {
    return Says(number, "saved " + folder_ + "/run/model.ckpt-3");
  }
  // What an undisturbed run ends with.
  void ExpectEnded() {
    Graph graph;
    const WithGraph use(graph);
    const ElectionModel model("/job:worker/task:1");
    Session session(tasks_["worker1"]->target(), graph);
    const auto out = session.Run({}, {model.w.Read(), model.step.Read()});
    ASSERT_TRUE(out.ok()) << out.status();
    float w = 0;
    for (int64_t i = 0; i < kElectionSteps; ++i)
      w -= kElectionRate * 2 * (w - 3);
    EXPECT_NEAR((*out)[0].scalar<float>(), w, 1e-4);
    EXPECT_EQ((*out)[1].scalar<int64_t>(), kElectionSteps);
  }

  std::unique_ptr<TestEtcd> etcd_;
  std::string folder_;
  std::map<std::string, std::unique_ptr<Server>> tasks_;
};

TEST_F(ChiefElectionTest, OneIsElectedAndAnotherFollows) {
  auto first = Join();
  EXPECT_TRUE(first->elected());
  auto second = Join();
  EXPECT_FALSE(second->elected());
  std::atomic<int> changes{0};
  second->OnChange([&] { ++changes; });
  first.reset();  // Gives up the office at once.
  EXPECT_TRUE(BecomesTrue([&] { return second->elected(); }));
  EXPECT_TRUE(BecomesTrue([&] { return changes == 1; }));
  EXPECT_FALSE(Join()->elected());
}

TEST_F(ChiefElectionTest, WhoCannotRenewGivesUpBeforeAnotherIsElected) {
  auto first = Join();
  ASSERT_TRUE(first->elected());
  auto second = Join();
  std::atomic<bool> both{false}, stop{false};
  std::thread looks([&] {
    while (!stop) {
      if (first->elected() && second->elected()) both = true;
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  // (Of both, but the second has no office to renew.)
  ASSERT_TRUE(EnableFailpoints("election.renew=error").ok());
  EXPECT_TRUE(BecomesTrue([&] { return !first->elected(); }));
  DisableFailpoints();
  EXPECT_TRUE(
      BecomesTrue([&] { return first->elected() || second->elected(); }));
  stop = true;
  looks.join();
  EXPECT_FALSE(both);
}

TEST_F(ChiefElectionTest, ErrorsNameTheSource) {
  const auto join = [](const std::string& source) {
    std::unique_ptr<ChiefElection> election;
    Status s;
    sluice_join_election(&source, &election, &s);
    return std::string(s.message());
  };
  EXPECT_THAT(join("slurm"), HasSubstr("'slurm'"));
  EXPECT_THAT(join("etcd://nowhere"), HasSubstr("etcd://nowhere"));
  EXPECT_THAT(join(absl::StrCat("etcd://127.0.0.1:", UnusedPort(), "/x")),
              HasSubstr("etcd at 127.0.0.1"));
}

TEST_F(ChiefElectionTest, AnotherTakesOverWhenTheChiefIsKilled) {
  StartTasks();
  auto first = Candidate(0);
  ASSERT_TRUE(Says(0, "elected as the chief")) << Log(0);
  auto second = Candidate(1);
  ASSERT_TRUE(Says(1, "standing by")) << Log(1);
  ASSERT_TRUE(SavesAfter30Steps(0)) << Log(0);
  first->Signal(SIGKILL);
  ASSERT_TRUE(Says(1, "taking over")) << Log(1);
  ASSERT_TRUE(Says(1, "restored " + folder_ + "/run/model.ckpt-")) << Log(1);
  ASSERT_TRUE(BecomesTrue([&] { return second->Ended(); })) << Log(1);
  EXPECT_EQ(second->Wait(), 0) << Log(1);
  ExpectEnded();
}

TEST_F(ChiefElectionTest, OfficeThatIsLostAndRegainedBetweenStepsBeginsAgain) {
  StartTasks();
  Graph graph;
  const WithGraph use(graph);
  const ElectionModel model("/job:worker/task:0");
  GradientDescentOptimizer sgd(kElectionRate);
  Node* const train =
      sgd.Minimize(ops::Square(model.w - 3.0f), {.global_step = model.step});
  TrainingOptions options;
  options.target = tasks_["worker0"]->target();
  options.chief_election = "etcd://" + etcd_->endpoint() + "/run?lease=2";
  options.folder = folder_ + "/run";
  options.last_step = 20;
  options.save = {.steps = 5};
  options.wait_for_saves = true;
  options.retry_seconds = 0.1;
  std::string lines;
  options.log = [&](const std::string& line) { lines += line + "\n"; };
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  EtcdClient client({etcd_->endpoint()}, milliseconds(500));
  const auto held = [&] {
    int64_t revision = 0;
    const auto entries = client.List("/sluice-chief/run/", &revision);
    return entries.ok() && !entries->empty();
  };
  bool once = false;
  const Status s =
      (*training)->Train({train}, [&](int64_t step) -> Result<Feeds> {
        if (step < 7 || std::exchange(once, true)) return Feeds();
        EXPECT_TRUE(held());
        EXPECT_TRUE(EnableFailpoints("election.renew=error").ok());
        EXPECT_TRUE(BecomesTrue([&] { return !held(); }));
        DisableFailpoints();
        EXPECT_TRUE(BecomesTrue(held));
        // (It is known in this process a little later than in etcd.)
        std::this_thread::sleep_for(milliseconds(300));
        return Feeds();
      });
  EXPECT_TRUE(s.ok()) << s << lines;
  EXPECT_TRUE(once);
  EXPECT_THAT(lines, HasSubstr("was not the chief for a time"));
  EXPECT_THAT(lines, HasSubstr("restored " + folder_ + "/run/model.ckpt-5"));
  EXPECT_EQ((*training)->step(), 20);
}

TEST_F(ChiefElectionTest, SuspendedChiefGoesOnAsACandidate) {
  StartTasks();
  auto first = Candidate(0);
  ASSERT_TRUE(Says(0, "elected as the chief")) << Log(0);
  auto second = Candidate(1);
  ASSERT_TRUE(Says(1, "standing by")) << Log(1);
  ASSERT_TRUE(SavesAfter30Steps(0)) << Log(0);
  first->Signal(SIGSTOP);
  ASSERT_TRUE(Says(1, "taking over")) << Log(1);
  ASSERT_TRUE(Says(1, "restored ")) << Log(1);
  first->Signal(SIGCONT);
  EXPECT_TRUE(Says(0, "no longer the chief")) << Log(0);
  ASSERT_TRUE(BecomesTrue([&] { return second->Ended(); })) << Log(1);
  EXPECT_EQ(second->Wait(), 0) << Log(1);
  ASSERT_TRUE(BecomesTrue([&] { return first->Ended(); })) << Log(0);
  EXPECT_EQ(first->Wait(), 0) << Log(0);
  ExpectEnded();
}

}  // namespace
}  // namespace sluice
