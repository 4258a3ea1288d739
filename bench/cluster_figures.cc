// Figure 7 of OSDI'16, null steps of synchronous workers, and Figure 11 of
// EuroSys'18, iterations of one loop over many tasks, on a single machine.
#include <atomic>
#include <thread>

#include "bench.h"
#include "cluster.h"
#include "device_loops.h"

namespace sluice::bench {
namespace {

// Which parameters a worker reads in a step.
enum class Null { kScalar, kDense, kSparse };
constexpr int kPs = 4;          // The paper uses 16, on separate machines.
constexpr int64_t kRow = 1000;  // Floats per row of the sparse matrix.

// The parameters, spread over all ps tasks, and a step that reads them and
// computes almost nothing.
struct NullStep {
  NullStep(Null kind, int64_t bytes, int worker) {
    WithGraph use(graph);
    const std::string here = absl::StrCat("/job:worker/task:", worker);
    std::vector<Output> read;
    const int64_t rows = bytes / kPs / 4 / kRow;
    for (int p = 0; p < kPs; ++p) {
      const bool scalar = kind == Null::kScalar;
      const PartialShape shape =
          scalar ? PartialShape::Scalar() : PartialShape({rows, kRow});
      Output variable, value;
      {
        DeviceScope there(absl::StrCat("/job:ps/task:", p));
        variable = Build("VariableV2", {},
                         {{"shape", shape}, {"dtype", DType::kFloat}},
                         absl::StrCat("v", p));
        init.push_back(
            Build("Assign",
                  {variable, scalar ? Constant(0.0f)
                                    : ops::Fill({static_cast<int32_t>(rows),
                                                 static_cast<int32_t>(kRow)},
                                                0.0f)})
                .node);
        if (kind == Null::kSparse) {
          // 32 rows in total, drawn in each step.
          const Output which =
              ops::RandomUniformInt(IntVector({32 / kPs}), Constant(int32_t{0}),
                                    Constant(static_cast<int32_t>(rows)));
          value = ops::GatherV2(variable, which, 0);
        }
      }
      DeviceScope at(here);
      if (kind == Null::kDense)
        value = ops::GatherV2(Build("Identity", {variable}), IntVector({0}), 0);
      if (scalar) value = Build("Identity", {variable}) + 0.0f;
      read.push_back(value);
    }
    DeviceScope at(here);
    step = ops::AddN(read).node;
  }
  Graph graph;
  std::vector<Node*> init;
  Node* step = nullptr;
};

// The median step time of all workers, each of which runs steps as fast as it
// can for about 1.5 seconds.
Result<double> NullStepMs(Null kind, int64_t bytes, int workers) {
  SLUICE_ASSIGN_OR_RETURN(
      auto cluster, Cluster::Start({{"ps", kPs}, {"worker", workers}}, "grpc"));
  {
    NullStep first(kind, bytes, 0);
    Session session(cluster->target("worker", 0), first.graph);
    SLUICE_RETURN_IF_ERROR(session.RunTargets(first.init));
  }
  std::vector<Status> results(static_cast<size_t>(workers));
  std::vector<std::vector<double>> times(static_cast<size_t>(workers));
  std::atomic<int> ready{0};
  std::atomic<int64_t> end{0};
  const auto work = [&](int w) -> Status {
    NullStep mine(kind, bytes, w);
    Session session(cluster->target("worker", w), mine.graph);
    Result<Session::Callable> step = session.MakeCallable({}, {}, {mine.step});
    Status s = step.status();
    if (s.ok()) s = step->Run().status();  // Warm-up.
    if (++ready == workers) end = NowNs() + 1'500'000'000;
    while (end == 0) std::this_thread::yield();
    auto& all = times[static_cast<size_t>(w)];
    while (s.ok() && (NowNs() < end || all.empty())) {
      const int64_t start = NowNs();
      s = step->Run().status();
      all.push_back(static_cast<double>(NowNs() - start) * 1e-6);
    }
    return s;
  };
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w)
    threads.emplace_back([&, w] { results[static_cast<size_t>(w)] = work(w); });
  for (std::thread& t : threads) t.join();
  std::vector<double> all;
  for (size_t w = 0; w < times.size(); ++w) {
    SLUICE_RETURN_IF_ERROR(results[w]);
    all.insert(all.end(), times[w].begin(), times[w].end());
  }
  std::nth_element(all.begin(),
                   all.begin() + static_cast<ptrdiff_t>(all.size() / 2),
                   all.end());
  return all[all.size() / 2];
}

constexpr int64_t kMB = 1'000'000;

#define SLUICE_FIGURE_7(workers)                           \
  SLUICE_BENCH("figure7.scalar.w" #workers ".ms") {        \
    return NullStepMs(Null::kScalar, 0, workers);          \
  }                                                        \
  SLUICE_BENCH("figure7.sparse1GB.w" #workers ".ms") {     \
    return NullStepMs(Null::kSparse, 1000 * kMB, workers); \
  }                                                        \
  SLUICE_BENCH("figure7.dense100MB.w" #workers ".ms") {    \
    return NullStepMs(Null::kDense, 100 * kMB, workers);   \
  }
SLUICE_FIGURE_7(1)
SLUICE_FIGURE_7(2)
SLUICE_FIGURE_7(4)
SLUICE_FIGURE_7(8)
SLUICE_FIGURE_7(16)
#undef SLUICE_FIGURE_7
// (A small machine has not enough memory for a gigabyte for each of more
// workers.)
#define SLUICE_FIGURE_7(workers)                          \
  SLUICE_BENCH("figure7.dense1GB.w" #workers ".ms") {     \
    return NullStepMs(Null::kDense, 1000 * kMB, workers); \
  }
SLUICE_FIGURE_7(1)
SLUICE_FIGURE_7(2)
SLUICE_FIGURE_7(4)
#undef SLUICE_FIGURE_7

Result<double> LoopOverTasks(int tasks, bool barrier,
                             const std::string& transport) {
  constexpr int kIterations = 500;
  SLUICE_ASSIGN_OR_RETURN(auto cluster,
                          Cluster::Start({{"worker", tasks}}, transport));
  std::vector<std::string> names;
  for (int i = 0; i < tasks; ++i)
    names.push_back("/job:worker/task:" + std::to_string(i));
  LoopOverDevices loop;
  BuildLoop(names, kIterations, barrier, &loop);
  Session session(cluster->target("worker", 0), loop.graph);
  return LoopItersPerS(session, loop, kIterations);
}

#define SLUICE_FIGURE_11(tasks)                                       \
  SLUICE_BENCH("figure11.grpc.independent.t" #tasks ".iters_per_s") { \
    return LoopOverTasks(tasks, false, "grpc");                       \
  }                                                                   \
  SLUICE_BENCH("figure11.grpc.barrier.t" #tasks ".iters_per_s") {     \
    return LoopOverTasks(tasks, true, "grpc");                        \
  }                                                                   \
  SLUICE_BENCH("figure11.ucx.independent.t" #tasks ".iters_per_s") {  \
    return LoopOverTasks(tasks, false, "ucx");                        \
  }                                                                   \
  SLUICE_BENCH("figure11.ucx.barrier.t" #tasks ".iters_per_s") {      \
    return LoopOverTasks(tasks, true, "ucx");                         \
  }
SLUICE_FIGURE_11(1)
SLUICE_FIGURE_11(2)
SLUICE_FIGURE_11(4)
SLUICE_FIGURE_11(8)
SLUICE_FIGURE_11(16)
#undef SLUICE_FIGURE_11

}  // namespace
}  // namespace sluice::bench
