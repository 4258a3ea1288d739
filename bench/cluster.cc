// Steps over the tasks of a cluster on this machine, each in a separate
// process: the workloads of the peers' script tf_dist.py.
#include "cluster.h"

#include "bench.h"
#include "device_loops.h"

namespace sluice::bench {
namespace {

std::vector<std::string> Tasks(int n) {
  std::vector<std::string> names;
  for (int i = 0; i < n; ++i)
    names.push_back("/job:worker/task:" + std::to_string(i));
  return names;
}

Result<double> Loop(int tasks, const std::string& transport, bool barrier) {
  constexpr int kIterations = 500;  // As in the peers' script.
  SLUICE_ASSIGN_OR_RETURN(auto cluster,
                          Cluster::Start({{"worker", tasks}}, transport));
  LoopOverDevices loop;
  BuildLoop(Tasks(tasks), kIterations, barrier, &loop);
  Session session(cluster->target("worker", 0), loop.graph);
  return LoopItersPerS(session, loop, kIterations);
}

// A step that only reads: a scalar from each of the other tasks, or 100 MB in
// total.
Result<double> NullMs(int tasks, const std::string& transport, bool dense) {
  SLUICE_ASSIGN_OR_RETURN(auto cluster,
                          Cluster::Start({{"worker", tasks}}, transport));
  Graph g;
  WithGraph use(g);
  const std::vector<std::string> names = Tasks(tasks);
  const int64_t holders = std::max(1, tasks - 1);
  std::vector<Node*> init;
  std::vector<Output> read;
  for (int i = std::min(1, tasks - 1); i < tasks; ++i) {
    Output variable;
    const Shape shape = dense ? Shape({25 * 1000 * 1000 / holders}) : Shape({});
    {
      DeviceScope there(names[static_cast<size_t>(i)]);
      variable =
          Build("VariableV2", {},
                {{"shape", PartialShape(shape)}, {"dtype", DType::kFloat}},
                absl::StrCat("v", i));
      const Output zero =
          dense ? ops::Fill(
                      IntVector({static_cast<int32_t>(shape.num_elements())}),
                      0.0f)
                : Constant(0.0f);
      init.push_back(Build("Assign", {variable, zero}).node);
    }
    DeviceScope here(names[0]);
    const Output value = Build("Identity", {variable});
    read.push_back(dense ? ops::GatherV2(value, IntVector({0}), 0)
                         : value + 0.0f);
  }
  Output sum;
  {
    DeviceScope here(names[0]);
    sum = ops::AddN(read);
  }
  Session session(cluster->target("worker", 0), g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets(init));
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({}, {}, {sum.node}));
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(dense ? 4 : 20, [&] {
                            return step.Run().status();
                          }));
  return s * 1e3;
}

#define SLUICE_DIST_BENCHES(n, prefix, transport)        \
  SLUICE_BENCH(prefix ".null_scalar.ms") {               \
    return NullMs(n, transport, false);                  \
  }                                                      \
  SLUICE_BENCH(prefix ".null_dense100MB.ms") {           \
    return NullMs(n, transport, true);                   \
  }                                                      \
  SLUICE_BENCH(prefix ".loop_independent.iters_per_s") { \
    return Loop(n, transport, false);                    \
  }                                                      \
  SLUICE_BENCH(prefix ".loop_barrier.iters_per_s") {     \
    return Loop(n, transport, true);                     \
  }
SLUICE_DIST_BENCHES(2, "dist2", "grpc")
SLUICE_DIST_BENCHES(4, "dist4", "grpc")
SLUICE_DIST_BENCHES(8, "dist8", "grpc")
SLUICE_DIST_BENCHES(2, "dist2.ucx", "ucx")
SLUICE_DIST_BENCHES(4, "dist4.ucx", "ucx")
SLUICE_DIST_BENCHES(8, "dist8.ucx", "ucx")
#undef SLUICE_DIST_BENCHES

}  // namespace
}  // namespace sluice::bench
