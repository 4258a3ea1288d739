// Training by several workers, each a process, with one parameter server: the
// 784-100-10 network, synchronously and asynchronously, as in the peers' script
// (replicas_peers.py).
#include <algorithm>
#include <chrono>
#include <iostream>

#include "base/cluster_library.h"
#include "bench.h"
#include "cluster.h"
#include "cluster/worker_main.h"
#include "process.h"
#include "replica_graph.h"
#include "sluice/sluice.h"

namespace sluice::bench {
namespace {

constexpr int kWarmUpSteps = 20, kTimedSteps = 200;

// A worker: its task's server and client are one process, as in a program of
// users. Arguments: the cluster's file, the transport, the worker's number, the
// number of workers, whether training is synchronous, the task's target. Says
// "warm" after some steps; at the next line runs the measured ones and says how
// long they took.
Status Work(const std::vector<std::string>& arguments) {
  if (arguments.size() != 6)
    return InvalidArgument("replicas.worker: expected 6 arguments, got ",
                           arguments.size());
  const int worker = std::stoi(arguments[2]);
  const bool sync = arguments[4] == "1";
  TaskServerOptions server;
  server.cluster = arguments[0];
  server.transport = arguments[1];
  server.job = "worker";
  server.task = worker;
  server.peer_timeout_ms = 60'000;
  // (As TaskServer::Start; `sluice` loads the cluster library when it needs
  // it.)
  SLUICE_ASSIGN_OR_RETURN(void* const start, DistSymbol("sluice_start_task"));
  std::shared_ptr<void> task;
  Status started;
  reinterpret_cast<decltype(&sluice_start_task)>(start)(&server, &task,
                                                        &started);
  SLUICE_RETURN_IF_ERROR(started);
  Replica r(worker, std::stoi(arguments[3]), sync);
  SLUICE_RETURN_IF_ERROR(r.graph.status());
  TrainingOptions options;
  options.target = arguments[5];
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
  std::printf("warm\n");
  std::fflush(stdout);
  std::string line;
  std::getline(std::cin, line);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimedSteps; ++i)
    SLUICE_RETURN_IF_ERROR(step.Run().status());
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - begin;
  std::printf("%.9f\n", took.count());
  std::fflush(stdout);
  // (The task serves the others until all are done.)
  std::getline(std::cin, line);
  return training->Close();
}
const ProcessRegistrar worker_main("replicas.worker", Work);

// Updates of the shared variables per second.
Result<double> UpdatesPerS(const std::string& transport, int workers,
                           bool sync) {
  SLUICE_ASSIGN_OR_RETURN(
      auto cluster, Cluster::Start({{"ps", 1}, {"worker", workers}}, transport,
                                   60'000, {"worker"}));
  std::vector<std::unique_ptr<Process>> processes;
  for (int i = 0; i < workers; ++i) {
    SLUICE_ASSIGN_OR_RETURN(
        auto p, Process::Start("replicas.worker",
                               {cluster->file(), transport, absl::StrCat(i),
                                absl::StrCat(workers), sync ? "1" : "0",
                                cluster->target("worker", i)}));
    processes.push_back(std::move(p));
  }
  for (const auto& p : processes) SLUICE_RETURN_IF_ERROR(p->Receive().status());
  for (const auto& p : processes) p->Send("go");
  double longest = 0;
  for (const auto& p : processes) {
    SLUICE_ASSIGN_OR_RETURN(const std::string seconds, p->Receive());
    longest = std::max(longest, std::stod(seconds));
  }
  for (const auto& p : processes) p->Send("end");
  return (sync ? 1 : workers) * kTimedSteps / longest;
}

#define SLUICE_REPLICAS_BENCHES(n)                       \
  SLUICE_BENCH("replicas" #n ".sync.steps_per_s") {      \
    return UpdatesPerS("grpc", n, true);                 \
  }                                                      \
  SLUICE_BENCH("replicas" #n ".async.steps_per_s") {     \
    return UpdatesPerS("grpc", n, false);                \
  }                                                      \
  SLUICE_BENCH("replicas" #n ".ucx.sync.steps_per_s") {  \
    return UpdatesPerS("ucx", n, true);                  \
  }                                                      \
  SLUICE_BENCH("replicas" #n ".ucx.async.steps_per_s") { \
    return UpdatesPerS("ucx", n, false);                 \
  }
SLUICE_REPLICAS_BENCHES(2)
SLUICE_REPLICAS_BENCHES(4)
SLUICE_REPLICAS_BENCHES(8)
#undef SLUICE_REPLICAS_BENCHES

}  // namespace
}  // namespace sluice::bench
