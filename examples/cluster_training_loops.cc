// One training loop per worker, in the graph: each client makes a single call,
// whose loop updates shared variables on a parameter server thousands of times.
// No client takes part in an iteration; one of them observes the progress.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "sluice/cluster.h"
#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr int kWorkers = 3, kIterations = 20000;

// Learns y = 3 x - 1.
struct Model {
  Var w, b, done;  // `done` counts iterations of all workers.
  Model() {
    DeviceScope on("/job:ps/task:0");
    w = Var(Constant(0.0f), "w");
    b = Var(Constant(0.0f), "b");
    done = Var(Constant(0.0f), "done");
  }
};

// Trains in a single step.
Status Train(const LocalCluster& cluster, int worker) {
  Graph graph;
  const WithGraph use(graph);
  SetRandomSeed(worker + 1);
  Model m;
  DeviceScope on(absl::StrCat("/job:worker/task:", worker));
  Output end = While(
      Output(Constant(0)), [](Output i) { return i < kIterations; },
      [&](Output i) {
        // Each iteration draws new examples.
        ControlDependencies each({i.node});
        Output x = ops::RandomUniform({16}, DType::kFloat);
        Output error = m.w.Read() * x + m.b.Read() - (3.0f * x - 1.0f);
        Output loss = ops::Mean(error * error, 0);
        Node* step = GradientDescentOptimizer(0.02).Minimize(
            loss, {.variables = {m.w, m.b}});
        ControlDependencies updated({step, m.done.AssignAdd(Constant(1.0f))});
        return i + 1;
      },
      {.parallel_iterations = 1, .name = "train"});
  Session session(cluster.target("worker", worker), graph);
  const auto start = std::chrono::steady_clock::now();
  const auto count = session.Run(end);
  if (!count.ok()) return count.status();
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  std::printf("worker %d: %d iterations in one call, %.0f a second\n", worker,
              count->scalar<int32_t>(),
              count->scalar<int32_t>() / took.count());
  return OkStatus();
}

}  // namespace

int main() {
  auto cluster = LocalCluster::Start({{"ps", 1}, {"worker", kWorkers}});
  if (!cluster.ok()) {
    std::fprintf(stderr, "%s\n", cluster.status().ToString().c_str());
    return 1;
  }
  Graph graph;
  const WithGraph use(graph);
  Model m;
  Session watch((*cluster)->target("ps", 0), graph);
  Status status = watch.RunTargets({GlobalVariablesInitializer()});
  std::vector<Status> results(kWorkers);
  std::vector<std::thread> clients;
  std::atomic<int> running{kWorkers};
  for (int w = 0; w < kWorkers; ++w)
    clients.emplace_back([&, w] {
      results[static_cast<size_t>(w)] = Train(**cluster, w);
      --running;
    });
  const auto look = [&] {
    const auto now = watch.Run({m.done.value(), m.w.value(), m.b.value()});
    if (now.ok())
      std::printf("after %4.0f iterations: y = %.3f x %+.3f\n",
                  (*now)[0].scalar<float>(), (*now)[1].scalar<float>(),
                  (*now)[2].scalar<float>());
    return now.status();
  };
  while (status.ok() && running > 0) {
    status = look();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  for (std::thread& t : clients) t.join();
  if (status.ok()) status = look();
  for (const Status& s : results)
    if (status.ok()) status = s;
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
