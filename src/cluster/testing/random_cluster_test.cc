// Programs give the same results however they are partitioned between
// processes: random nests of conditionals and loops with their gradients, and
// random graphs of the primitives, with each node placed at random on one of
// the devices (one or two per task) of two or three tasks, over each transport.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "cluster/testing/cluster_test_util.h"
#include "cluster/testing/process_test_util.h"
#include "cluster/testing/random_cluster_test_util.h"
#include "cluster/testing/test_scale_test_util.h"
#include "cluster/testing/virtual_network.h"
#include "cluster/transport/grpc/transport.h"
#include "cluster/transport/ucx/transport.h"
#include "exec/testing/random_graph.h"

namespace sluice {
namespace {

enum class Net { kVirtual, kGrpc, kUcx };

// Tasks connected only by a transport, with two devices each.
class RandomCluster : public ::testing::TestWithParam<Net> {
 protected:
  void SetUp() override {
    if (GetParam() == Net::kUcx && !HaveUcx())
      GTEST_SKIP() << "this build is without UCX";
    if (GetParam() == Net::kVirtual) {
      VirtualNetworkOptions options;
      options.drop = 0.02;
      options.duplicate = 0.05;
      network_ = std::make_unique<VirtualNetwork>(options);
      pump_ = std::thread([this] {
        while (!stop_)
          if (!network_->Step())
            network_->AwaitEvent(std::chrono::milliseconds(1));
      });
    }
    // (Names are unique in a network.)
    for (const auto& [job, tasks] : {std::pair("two", 2), {"three", 3}})
      clusters_.push_back(std::make_unique<TestCluster>(
          std::vector<std::pair<std::string, int>>{{job, tasks}},
          [this](TransportOptions o) { return Make(std::move(o)); },
          [](ServerOptions* o) { o->cpu_devices = 2; }));
  }
  void TearDown() override {
    clusters_.clear();
    stop_ = true;
    if (pump_.joinable()) pump_.join();
  }

  // Each program runs over one of the transports with two or three tasks, or
  // over all transports with both.
  static bool Picks(uint64_t seed, int tasks) {
    if (FullTests()) return true;
    return Picks(seed) && static_cast<int>(seed / 3 % 2) == tasks - 2;
  }
  static bool Picks(uint64_t seed) {
    return FullTests() || (seed % 3 == static_cast<uint64_t>(GetParam()) &&
                           (!kSanitized || seed % 10 == 0));
  }

  std::unique_ptr<Transport> Make(TransportOptions o) {
    o.local_shortcut = false;
    // (Generous, because busy machines answer slowly and no task dies here.)
    o.peer_timeout = std::chrono::milliseconds(60'000);
    if (network_ != nullptr) return network_->Join(std::move(o));
    if (GetParam() == Net::kUcx) {
      UcxTransportOptions ucx;
      static_cast<TransportOptions&>(ucx) = std::move(o);
      return MakeUcxTransport(std::move(ucx));
    }
    GrpcTransportOptions grpc;
    static_cast<TransportOptions&>(grpc) = std::move(o);
    return std::make_unique<GrpcTransport>(std::move(grpc));
  }

  // Runs the step, placed at random, over two and over three tasks. `before`,
  // if given, runs first, and `after` is fetched last, each as a separate step.
  void ExpectSame(Graph* graph, const Feeds& feeds,
                  const std::vector<Output>& fetches,
                  const std::vector<Node*>& targets,
                  const std::vector<Tensor>& want, uint64_t seed,
                  Node* before = nullptr, Output after = Output(),
                  const Tensor& want_after = Tensor(), bool rounded = false) {
    for (int tasks = 2; tasks <= 3; ++tasks) {
      if (!Picks(seed, tasks)) continue;
      SCOPED_TRACE(absl::StrCat("over ", tasks, " tasks, seed ", seed));
      TestCluster& cluster = *clusters_[static_cast<size_t>(tasks) - 2];
      const std::string job = tasks == 2 ? "two" : "three";
      const auto name = [&](int d) {
        return absl::StrCat("/job:", job, "/replica:0/task:", d % tasks,
                            "/device:CPU:", d / tasks);
      };
      PlaceAtRandom(graph, seed / 6 % 2 == 0 ? 2 * tasks : tasks, seed * 31 + 7,
                    name);
      const int64_t live = Allocator::Cpu()->stats().live_bytes;
      {
        SessionOptions options;
        options.regions = seed % 2 == 0;
        options.constant_folding = seed % 5 != 1;
        options.common_subexpressions = seed % 5 != 2;
        options.scheduler_seed = seed % 7 == 3 ? seed : 0;
        Session session(cluster.target(job, static_cast<int>(seed) % tasks),
                        *graph, options);
        if (before != nullptr) {
          const Status s = session.RunTargets({before});
          ASSERT_TRUE(s.ok()) << s;
        }
        RunOptions run;
        run.timeout_ms = 60'000;  // Instead of hanging.
        const auto got = session.Run(feeds, fetches, targets, run);
        if (rounded)
          ExpectNearlyIdentical(got, want);
        else
          ExpectIdentical(got, want);
        if (HasFailure()) return;
        if (before != nullptr) {
          const auto value = session.Run(after);
          ASSERT_TRUE(value.ok()) << value.status();
          EXPECT_EQ(value->ToString(), want_after.ToString());
          ASSERT_TRUE(session.Reset().ok());
        }
      }
      ASSERT_TRUE(cluster.Quiet());
      // (A step's last thread releases its state shortly after the step; wait
      // up to 30 seconds. `live` may still count the state of a step before
      // this one, so that less than `live` is no error.)
      for (int i = 0; i < 30'000 && Allocator::Cpu()->stats().live_bytes > live;
           ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_LE(Allocator::Cpu()->stats().live_bytes, live);
    }
  }

  std::unique_ptr<VirtualNetwork> network_;
  std::atomic<bool> stop_{false};
  std::thread pump_;
  std::vector<std::unique_ptr<TestCluster>> clusters_;  // With 2 and 3 tasks.
};

TEST_P(RandomCluster, ProgramsAndGradientsMatchLocalRuns) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    if (!Picks(seed)) continue;
    WholeProgram p(seed);
    ExpectSame(&p.graph, p.feeds, p.fetches, {}, p.want, seed);
    if (HasFailure()) return;
  }
}

TEST_P(RandomCluster, ProgramsWithStoresMatchLocalRuns) {
  for (uint64_t seed = 5000; seed < 5100; ++seed) {
    if (!Picks(seed)) continue;
    WholeProgram p(seed, true);
    ExpectSame(&p.graph, p.feeds, p.fetches, {}, p.want, seed, nullptr,
               Output(), Tensor(), true);
    if (HasFailure()) return;
  }
}

// Dead loops, Merges of several, constants that wait, and a counter that every
// branch and iteration may change.
TEST_P(RandomCluster, RawGraphsMatchLocalRuns) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    if (!Picks(seed)) continue;
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    std::vector<uint8_t> bytes(20 + random() % 200);
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
    RandomGraph g;
    RandomGraphMaker(bytes.data(), bytes.size(), &g).Make();
    ASSERT_TRUE(g.graph.status().ok()) << g.graph.status();
    const Feeds feeds(g.feeds.begin(), g.feeds.end());
    std::vector<Output> fetches;
    std::vector<Node*> targets;
    std::vector<Tensor> want;
    Tensor counted;
    {
      Session session(g.graph);
      ASSERT_TRUE(session.RunTargets({g.init_counter}).ok());
      for (const Output& f : g.fetches)  // Some are dead.
        if (session.Run(feeds, f).ok()) fetches.push_back(f);
      for (const CounterAdd& a : g.adds) targets.push_back(a.node);
      ASSERT_TRUE(session.RunTargets({g.init_counter}).ok());
      if (fetches.empty() && targets.empty()) continue;
      const auto got = session.Run(feeds, fetches, targets);
      ASSERT_TRUE(got.ok()) << got.status();
      want = *got;
      counted = *session.Run(g.counter);
    }
    ExpectSame(&g.graph, feeds, fetches, targets, want, seed, g.init_counter,
               g.counter, counted);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, RandomCluster,
                         ::testing::Values(Net::kVirtual, Net::kGrpc,
                                           Net::kUcx),
                         [](const auto& info) {
                           return info.param == Net::kVirtual ? "Virtual"
                                  : info.param == Net::kGrpc  ? "Grpc"
                                                              : "Ucx";
                         });

// The same between processes, where sessions, graphs and partitions are also
// sent.
class RandomProcesses : public ::testing::TestWithParam<std::string> {};

TEST_P(RandomProcesses, ProgramsAndGradientsMatchLocalRuns) {
  if (GetParam() == "ucx" && !HaveUcx())
    GTEST_SKIP() << "this build is without UCX";
  const std::vector<std::string> jobs = {"a", "b", "c"};
  ProcessCluster cluster(jobs);
  for (const std::string& job : jobs)
    cluster.Spawn(
        job, "",
        {"SLUICE_TEST_TRANSPORT=" + GetParam(), "SLUICE_TEST_DEVICES=cpu=2",
         "SLUICE_TEST_TIMEOUT_MS=60000"});
  const uint64_t stride = FullTests() ? 1 : kSanitized ? 49 : 9;
  for (uint64_t seed = FullTests() ? 0 : 3; seed < 200; seed += stride) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    WholeProgram p(seed);
    std::vector<std::string> tasks;
    for (size_t i = 0; i < 2 + seed % 2; ++i)
      tasks.push_back(absl::StrCat("/job:", jobs[i], "/replica:0/task:0"));
    p.PlaceOver(tasks, seed, /*devices=*/1 + seed / 2 % 2);
    Session session(cluster.target(jobs[seed % 3]), p.graph);
    RunOptions run;
    run.timeout_ms = 60'000;
    for (int step = 0; step < 3; ++step)
      ExpectIdentical(session.Run(p.feeds, p.fetches, {}, run), p.want);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, RandomProcesses,
                         ::testing::Values("grpc", "ucx"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sluice
