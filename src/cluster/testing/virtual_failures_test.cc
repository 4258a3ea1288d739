// Two hundred fault-injection runs: random programs over three tasks on a
// network that delays, reorders, drops, duplicates and truncates messages,
// while tasks die, are suspended, are cut off or restart, and failpoints
// trigger. Each run ends with the right values or an error that says what
// happened, none hangs, and none leaves anything behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/failpoint.h"
#include "base/thread_count_test_util.h"
#include "cluster/testing/cluster_test_util.h"
#include "cluster/testing/random_cluster_test_util.h"
#include "cluster/testing/test_scale_test_util.h"
#include "cluster/testing/virtual_network.h"

namespace sluice {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// Waits up to 30 seconds.
bool Soon(const std::function<bool()>& what) {
  for (int i = 0; i < 30'000 && !what(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return what();
}

constexpr const char* kFailpoints[] = {
    "transport.connect",    "rendezvous.send",       "rendezvous.recv",
    "worker.register_step", "worker.start_step",     "worker.deliver",
    "worker.end_step",      "worker.create_session", "master.create_session",
    "master.extend_graph",  "master.prepare_step",   "master.run_step",
    "master.start_part",    "master.done",           "master.partial_run"};

enum class Fault {
  kNone,
  kFailpoint,
  kKill,
  kStop,     // And never resumes.
  kPause,    // Resumes before it is missed.
  kCut,      // Two tasks lose contact.
  kRestart,  // A new incarnation takes the task's place.
};
constexpr int kNumFaults = 7;

// One fault-injection run.
class FaultInjectionRun {
 public:
  explicit FaultInjectionRun(uint64_t seed)
      : random_(seed), seed_(seed), program_(seed % 50) {
    options_.seed = seed;
    options_.max_delay_us = 100 + Below(2000);
    if (Below(2) == 0) options_.drop = 0.1 * Below(4);
    if (Below(2) == 0) options_.duplicate = 0.1 * Below(4);
    if (Below(5) == 0) options_.truncate = 0.01;
    options_.reorder = Below(5) != 0;
    fault_ = static_cast<Fault>(seed % kNumFaults);
    for (const int task : {0, 1, 2})
      tasks_.push_back(absl::StrCat("/job:w/replica:0/task:", task));
    program_.PlaceOver(tasks_, seed);
    victim_ = 1 + Below(2);  // (0 is the master's.)
  }

  void Run() {
    network_ = std::make_unique<VirtualNetwork>(options_);
    cluster_ = std::make_unique<TestCluster>(
        std::vector<std::pair<std::string, int>>{{"w", 3}},
        [this](TransportOptions o) { return network_->Join(std::move(o)); });
    std::atomic<bool> stop{false};
    std::thread pump([&] {
      while (!stop)
        if (!network_->Step())
          network_->AwaitEvent(std::chrono::milliseconds(1));
    });
    Steps();
    DisableFailpoints();
    if (Recovers()) {
      // (A loss may be reported late, even to a new session.)
      Result<std::vector<Tensor>> got = Unavailable("not run");
      for (int i = 0; i < 5 && !got.ok(); ++i) {
        HealAll();  // (A cut may have followed the last step.)
        Session session(cluster_->target("w", 0), program_.graph);
        got = session.Run(program_.feeds, program_.fetches, {}, Bound());
      }
      ExpectIdentical(got, program_.want);
    }
    ExpectQuiet();
    // (The servers send close messages on the network.)
    cluster_.reset();
    stop = true;
    pump.join();
    network_.reset();
  }
  const Status& failed() const { return failed_; }

 private:
  int Below(int n) {
    return static_cast<int>(random_() % static_cast<uint64_t>(n));
  }
  // A timeout, so that no run hangs.
  static RunOptions Bound() {
    RunOptions o;
    o.timeout_ms = 120'000;
    return o;
  }

  void Steps() {
    if (fault_ == Fault::kFailpoint) {
      const char* where =
          kFailpoints[seed_ / kNumFaults % std::size(kFailpoints)];
      const std::string spec =
          absl::StrCat(where, "=error(injected)@", Below(6), "*1");
      const Status s = EnableFailpoints(spec, seed_);
      ASSERT_TRUE(s.ok()) << s;
    }
    Session session(cluster_->target("w", 0), program_.graph);
    for (int step = 0; step < 5; ++step) {
      if (step == 2) InjectFault();
      const auto got =
          (seed_ + static_cast<uint64_t>(step)) % 3 == 0
              ? RunInStages(&session)
              : session.Run(program_.feeds, program_.fetches, {}, Bound());
      if (got.ok()) {
        ExpectIdentical(got, program_.want);
        continue;
      }
      failed_ = got.status();
      EXPECT_NE(failed_.code(), StatusCode::kDeadlineExceeded) << "it hung";
      EXPECT_THAT(std::string(failed_.message()),
                  AnyOf(HasSubstr("/job:w"), HasSubstr("injected")));
      if (fault_ == Fault::kNone || fault_ == Fault::kPause) {
        EXPECT_GT(options_.truncate, 0) << failed_;
      }
      break;
    }
    network_->Resume(tasks_[static_cast<size_t>(victim_)]);
    HealAll();
  }
  Result<std::vector<Tensor>> RunInStages(Session* session) {
    const Feeds& feeds = program_.feeds;
    SLUICE_ASSIGN_OR_RETURN(
        const auto run,
        session->StartPartialRun({feeds[0].first, feeds[1].first},
                                 program_.fetches));
    SLUICE_RETURN_IF_ERROR(run->Run({feeds[0]}, {}).status());
    return run->Run({feeds[1]}, program_.fetches);
  }
  void HealAll() {
    for (const std::string& other : tasks_)
      network_->Heal(tasks_[static_cast<size_t>(victim_)], other);
  }

  void InjectFault() {
    const std::string victim = tasks_[static_cast<size_t>(victim_)];
    const std::string other =
        tasks_[Below(2) == 0 ? 0 : 3 - static_cast<size_t>(victim_)];
    VirtualNetwork& n = *network_;
    const int64_t when = Below(20'000);
    switch (fault_) {
      case Fault::kKill:
        return n.At(when, [&n, victim] { n.Kill(victim); });
      case Fault::kStop:
        return n.At(when, [&n, victim] { n.Pause(victim); });
      case Fault::kPause:
        return n.At(when, [&n, victim] {
          n.Pause(victim);
          n.At(1'000'000, [&n, victim] { n.Resume(victim); });
        });
      case Fault::kCut:
        return n.At(when, [&n, victim, other] { n.Cut(victim, other); });
      case Fault::kRestart:
        cluster_->StopTask("w", victim_);
        return cluster_->StartTask("w", victim_);
      default:
        return;
    }
  }

  // Whether a new session must succeed.
  bool Recovers() const {
    return options_.truncate == 0 && fault_ != Fault::kKill &&
           fault_ != Fault::kStop;
  }
  void ExpectQuiet() {
    for (const int task : {0, 1, 2}) {
      SCOPED_TRACE(absl::StrCat("task ", task));
      Server& s = cluster_->server("w", task);
      EXPECT_EQ(s.master().steps().num_running(), 0u);
      EXPECT_EQ(s.master().steps().num_staged(), 0u);
      EXPECT_EQ(s.master().num_sessions(), 0u);
      // (A dead task does not learn that its session has ended.)
      if (fault_ == Fault::kKill && task == victim_) continue;
      EXPECT_TRUE(Soon([&] {
        return s.worker().num_sessions() == 0 &&
               s.worker().steps().num_running() == 0 &&
               s.worker().steps().early_bytes() == 0;
      })) << s.worker().num_sessions()
          << " sessions, " << s.worker().steps().num_running() << " steps, "
          << s.worker().steps().early_bytes() << " bytes of tokens";
    }
  }

  std::mt19937_64 random_;
  const uint64_t seed_;
  WholeProgram program_;
  VirtualNetworkOptions options_;
  Fault fault_;
  std::vector<std::string> tasks_;
  int victim_ = 0;
  Status failed_;
  std::unique_ptr<VirtualNetwork> network_;
  std::unique_ptr<TestCluster> cluster_;
};

TEST(VirtualFailuresTest, RandomFailuresEndCleanly) {
  const uint64_t runs = FullTests() ? 2000 : kSanitized ? 2 * kNumFaults : 200;
  size_t threads = 0;
  uint64_t failed = 0;
  for (uint64_t seed = 1; seed <= runs; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const int64_t live = Allocator::Cpu()->stats().live_bytes;
    {
      FaultInjectionRun run(seed);
      run.Run();
      failed += !run.failed().ok();
    }
    // (`live` may still count the last state of the run before this one.)
    EXPECT_TRUE(
        Soon([&] { return Allocator::Cpu()->stats().live_bytes <= live; }));
    if (seed == 1) threads = NumThreads();
    EXPECT_TRUE(Soon([&] { return NumThreads() <= threads; }))
        << NumThreads() << " threads, were " << threads;
    if (::testing::Test::HasFailure()) break;
  }
  DisableFailpoints();
  // (Some runs fail, but not all.)
  EXPECT_GT(failed, runs / 10);
  EXPECT_LT(failed, runs - runs / 10);
}

}  // namespace
}  // namespace sluice
