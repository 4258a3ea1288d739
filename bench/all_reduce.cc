// All-reduce between processes on this machine, each with a session and a graph
// of its own, as in the peers' script (all_reduce_peers.py). The operations of
// a run follow each other in a loop of the graph, so that the clients do not
// count.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "bench.h"
#include "cluster.h"
#include "sluice/sluice.h"

namespace sluice::bench {
namespace {

// Runs `times` all-reduces of `count` floats.
struct ReducingMember {
  ReducingMember(int member, int members, int64_t count, int32_t times) {
    const WithGraph use(graph);
    const DeviceScope on(absl::StrCat("/job:worker/task:", member));
    const Output x = ops::Fill(
        Constant(Tensor::Vector<int32_t>({static_cast<int32_t>(count)})),
        Constant(1.0f));
    const auto [i, sum] = While(
        std::tuple(Output(Constant(int32_t{0})), x),
        [&](Output n, Output) { return n < times; },
        [&](Output n, Output v) {
          return std::tuple(
              Output(n + 1),
              AllReduce(v, Reduction::kMax, {.group = {.size = members}}));
        });
    last = ops::Slice(sum, Constant(Tensor::Vector<int32_t>({0})),
                      Constant(Tensor::Vector<int32_t>({1})));
  }
  Graph graph;
  Output last;
};

// The time of one all-reduce, in seconds.
Result<double> AllReduceSeconds(int members, int64_t count, int32_t times) {
  SLUICE_ASSIGN_OR_RETURN(auto cluster,
                          Cluster::Start({{"worker", members}}, "grpc"));
  std::vector<std::unique_ptr<ReducingMember>> graphs;
  std::vector<std::unique_ptr<Session>> sessions;
  for (int m = 0; m < members; ++m) {
    graphs.push_back(
        std::make_unique<ReducingMember>(m, members, count, times));
    SLUICE_RETURN_IF_ERROR(graphs.back()->graph.status());
    sessions.push_back(std::make_unique<Session>(cluster->target("worker", m),
                                                 graphs.back()->graph));
  }
  double best = 1e9;
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<Status> status(static_cast<size_t>(members));
    std::vector<std::thread> threads;
    const auto begin = std::chrono::steady_clock::now();
    for (size_t m = 0; m < sessions.size(); ++m)
      threads.emplace_back(
          [&, m] { status[m] = sessions[m]->Run(graphs[m]->last).status(); });
    for (std::thread& t : threads) t.join();
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;
    for (const Status& s : status) SLUICE_RETURN_IF_ERROR(s);
    // (The first run compiles the step and forms the group.)
    if (turn > 0) best = std::min(best, took.count() / times);
  }
  return best;
}

#define SLUICE_ALL_REDUCE_BENCHES(n)                                         \
  SLUICE_BENCH("allreduce" #n ".100MB.ms") {                                 \
    SLUICE_ASSIGN_OR_RETURN(const double s,                                  \
                            AllReduceSeconds(n, 25'000'000, 10));            \
    return s * 1e3;                                                          \
  }                                                                          \
  SLUICE_BENCH("allreduce" #n ".1kB.us") {                                   \
    SLUICE_ASSIGN_OR_RETURN(const double s, AllReduceSeconds(n, 250, 1000)); \
    return s * 1e6;                                                          \
  }
SLUICE_ALL_REDUCE_BENCHES(2)
SLUICE_ALL_REDUCE_BENCHES(4)
#undef SLUICE_ALL_REDUCE_BENCHES

}  // namespace
}  // namespace sluice::bench
