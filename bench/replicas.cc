// Training by several workers, each a process, with one parameter server: the
// 784-100-10 network, synchronously and asynchronously, as in the peers' script
// (replicas_peers.py).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "bench.h"
#include "cluster.h"
#include "replica_graph.h"
#include "sluice/sluice.h"

namespace sluice::bench {
namespace {

constexpr int kWarmUpSteps = 20, kTimedSteps = 200;

// Updates of the shared variables per second.
Result<double> UpdatesPerS(int workers, bool sync) {
  SLUICE_ASSIGN_OR_RETURN(
      auto cluster, Cluster::Start({{"ps", 1}, {"worker", workers}}, "grpc"));
  std::vector<Status> status(static_cast<size_t>(workers));
  std::atomic<int> warm{0};
  std::atomic<bool> failed{false};
  std::vector<double> seconds(static_cast<size_t>(workers));
  const auto work = [&](int worker) -> Status {
    Replica r(worker, workers, sync);
    SLUICE_RETURN_IF_ERROR(r.graph.status());
    TrainingOptions options;
    options.target = cluster->target("worker", worker);
    options.session_options.device_filters = {
        "/job:ps", absl::StrCat("/job:worker/task:", worker)};
    options.is_chief = worker == 0;
    options.retry_seconds = 0.05;
    options.log = [](const std::string&) {};
    if (sync) options.hooks = {r.replicas->Hook(options.is_chief)};
    SLUICE_ASSIGN_OR_RETURN(auto training,
                            TrainingSession::Start(options, r.graph));
    SLUICE_ASSIGN_OR_RETURN(Session* const session, training->session());
    SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                            session->MakeCallable({}, {}, {r.train}));
    for (int i = 0; i < kWarmUpSteps; ++i)
      SLUICE_RETURN_IF_ERROR(step.Run().status());
    ++warm;
    // (Synchronous ones wait for each other anyway.)
    while (warm < workers && !sync && !failed) std::this_thread::yield();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimedSteps; ++i)
      SLUICE_RETURN_IF_ERROR(step.Run().status());
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;
    seconds[static_cast<size_t>(worker)] = took.count();
    return training->Close();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < workers; ++i)
    threads.emplace_back([&, i] {
      Status& s = status[static_cast<size_t>(i)];
      s = work(i);
      if (!s.ok()) failed = true;
    });
  for (std::thread& t : threads) t.join();
  for (const Status& s : status) SLUICE_RETURN_IF_ERROR(s);
  const double longest = *std::max_element(seconds.begin(), seconds.end());
  return (sync ? 1 : workers) * kTimedSteps / longest;
}

#define SLUICE_REPLICAS_BENCHES(n)                   \
  SLUICE_BENCH("replicas" #n ".sync.steps_per_s") {  \
    return UpdatesPerS(n, true);                     \
  }                                                  \
  SLUICE_BENCH("replicas" #n ".async.steps_per_s") { \
    return UpdatesPerS(n, false);                    \
  }
SLUICE_REPLICAS_BENCHES(2)
SLUICE_REPLICAS_BENCHES(4)
SLUICE_REPLICAS_BENCHES(8)
#undef SLUICE_REPLICAS_BENCHES

}  // namespace
}  // namespace sluice::bench
