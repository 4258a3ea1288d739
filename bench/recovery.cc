// How long a training run stands still when a task with variables is killed
// and started again at once: until its step fails, and until it trains on, with
// the variables of the latest checkpoint.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "bench.h"
#include "client/device_placement.h"
#include "cluster.h"
#include "sluice/sluice.h"

namespace sluice::bench {
namespace {

constexpr int kKills = 50;
using Clock = std::chrono::steady_clock;

struct Standstills {
  std::vector<double> noticed_ms, trains_ms;  // Since the kill; sorted.
};

// What the training thread tells the one that kills.
struct Progress {
  std::mutex mu;
  int64_t steps = 0;            // GUARDED_BY(mu)
  int64_t steps_at_loss = -1;   // GUARDED_BY(mu)
  Clock::time_point loss;       // GUARDED_BY(mu): the first after a kill.
  Clock::time_point last_step;  // GUARDED_BY(mu)
  bool stop = false;            // GUARDED_BY(mu)
};

Status TrainOn(const Cluster& cluster, const std::string& folder,
               Progress* progress) {
  Graph graph;
  const WithGraph use(graph);
  const DeviceFunctionScope devices(ReplicaDeviceSetter(
      {.ps_tasks = 2, .worker_device = "/job:worker/task:0"}));
  const Output x = RandomUniform({32, 784});
  const Output loss = ops::Mean(
      ops::Square(Dense(Dense(x, 100, {.activation = ops::Relu}), 10)), {0, 1});
  VarOptions counter;
  counter.trainable = false;
  const Var step(Constant(Tensor::Scalar<int64_t>(0)), "global_step", counter);
  Node* const train =
      GradientDescentOptimizer(0.01).Minimize(loss, {.global_step = step});
  TrainingOptions options;
  options.target = cluster.target("worker", 0);
  options.folder = folder;
  options.save = {.steps = 200};
  options.max_retries = 1000;
  options.retry_seconds = 0.05;
  options.log = [progress](const std::string& line) {
    if (line.find("was aborted") == std::string::npos) return;
    std::lock_guard<std::mutex> lock(progress->mu);
    if (progress->steps_at_loss >= 0) return;
    progress->steps_at_loss = progress->steps;
    progress->loss = Clock::now();
  };
  SLUICE_ASSIGN_OR_RETURN(auto training,
                          TrainingSession::Start(options, graph));
  while (true) {
    SLUICE_RETURN_IF_ERROR(training->RunStep({train}));
    std::lock_guard<std::mutex> lock(progress->mu);
    ++progress->steps;
    progress->last_step = Clock::now();
    if (progress->stop) return OkStatus();
  }
}

Result<Standstills> Measure() {
  SLUICE_ASSIGN_OR_RETURN(auto cluster,
                          Cluster::Start({{"ps", 2}, {"worker", 1}}, "grpc",
                                         /*peer_timeout_ms=*/5000));
  const std::string folder = (std::filesystem::temp_directory_path() /
                              absl::StrCat("sluice-recovery-", getpid()))
                                 .string();
  // (After an error here the thread is left to itself.)
  static Progress progress;
  static Status status;
  std::thread trains([&] { status = TrainOn(*cluster, folder, &progress); });
  const absl::Cleanup leave = [&trains] {
    if (trains.joinable()) trains.detach();
  };
  const auto trained = [] {
    std::lock_guard<std::mutex> lock(progress.mu);
    return progress.steps > 0;
  };
  for (int i = 0; i < 3000 && !trained(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  Standstills result;
  const auto ms = [](Clock::duration d) {
    return std::chrono::duration<double, std::milli>(d).count();
  };
  for (int kill = 0; kill < kKills; ++kill) {
    // (Somewhere between two checkpoints.)
    std::this_thread::sleep_for(
        std::chrono::milliseconds(100 + 37 * kill % 200));
    {
      std::lock_guard<std::mutex> lock(progress.mu);
      progress.steps_at_loss = -1;
    }
    const Clock::time_point at = Clock::now();
    SLUICE_RETURN_IF_ERROR(cluster->Restart("ps", kill % 2));
    for (bool again = false; !again;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (Clock::now() - at > std::chrono::seconds(60))
        return DeadlineExceeded("bench: expected training to go on, got none");
      std::lock_guard<std::mutex> lock(progress.mu);
      again = progress.steps_at_loss >= 0 &&
              progress.steps > progress.steps_at_loss;
      if (!again) continue;
      result.noticed_ms.push_back(ms(progress.loss - at));
      result.trains_ms.push_back(ms(progress.last_step - at));
    }
  }
  {
    std::lock_guard<std::mutex> lock(progress.mu);
    progress.stop = true;
  }
  trains.join();
  SLUICE_RETURN_IF_ERROR(status);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  std::sort(result.noticed_ms.begin(), result.noticed_ms.end());
  std::sort(result.trains_ms.begin(), result.trains_ms.end());
  return result;
}

// A quantile over the kills.
Result<double> Of(std::vector<double> Standstills::*which, double q) {
  static const auto* const all = new Result<Standstills>(Measure());
  if (!all->ok()) return all->status();
  const std::vector<double>& values = (**all).*which;
  return values[static_cast<size_t>(q *
                                    static_cast<double>(values.size() - 1))];
}

#define SLUICE_RECOVERY_BENCHES(name, which)                          \
  SLUICE_BENCH("recovery." name "_ms.p50") { return Of(which, 0.5); } \
  SLUICE_BENCH("recovery." name "_ms.p90") { return Of(which, 0.9); } \
  SLUICE_BENCH("recovery." name "_ms.max") { return Of(which, 1); }
SLUICE_RECOVERY_BENCHES("noticed", &Standstills::noticed_ms)
SLUICE_RECOVERY_BENCHES("trains_again", &Standstills::trains_ms)
#undef SLUICE_RECOVERY_BENCHES

}  // namespace
}  // namespace sluice::bench
