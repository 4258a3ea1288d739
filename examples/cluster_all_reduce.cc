// Data-parallel training: two workers have a copy of a residual network each,
// compute gradients of their own images, and apply the mean of both, which they
// get by all-reduce. No task has a special role. Both run in this program and
// communicate over loopback.
//   example_cluster_all_reduce [STEPS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "sluice/cluster.h"
#include "sluice/sluice.h"

using namespace sluice;

constexpr int kWorkers = 2, kBatch = 32, kSide = 16;

// Two convolutions, whose result is added to what they are given.
Output Block(Output x, int64_t filters, int64_t stride) {
  ConvOptions conv = {.strides = stride, .padding = Padding::kSame};
  Output h = Conv2D(x, filters, 3, conv);
  if (stride > 1) x = Conv2D(x, filters, 1, conv);
  conv.strides = 1;
  return ops::Relu(Conv2D(ops::Relu(h), filters, 3, conv) + x);
}

Output Network(Output images) {
  const Output h = Conv2D(images, 8, 3, {.activation = ops::Relu});
  return Dense(GlobalAveragePooling(Block(Block(h, 8, 1), 16, 2)), 4);
}

// Noise with bars of one of four widths.
void Draw(std::mt19937* random, Tensor* images, Tensor* labels) {
  for (int64_t i = 0; i < kBatch; ++i) {
    const int64_t label = (*random)() % 4;
    labels->data<int64_t>()[i] = label;
    for (int64_t p = 0; p < kSide * kSide; ++p)
      images->data<float>()[i * kSide * kSide + p] =
          static_cast<float>((*random)() % 100) / 100 +
          static_cast<float>(p % kSide >> label & 1);
  }
}

// One worker, with its own graph, variables and loop. Returns its weights.
Result<Tensor> Train(const LocalCluster& cluster, int worker, int steps) {
  Graph graph;
  const WithGraph use(graph);
  const DeviceScope here(absl::StrCat("/job:worker/task:", worker));
  SetRandomSeed(worker + 1);
  const Output x = Placeholder<float>({kBatch, kSide, kSide, 1});
  const Output y = Placeholder<int64_t>({kBatch});
  const Output loss = SparseSoftmaxCrossEntropy(y, Network(x));
  AdamOptimizer adam(3e-3);
  AllReduceOptimizer mean(adam, {.group = {.size = kWorkers}});
  Node* train = mean.Minimize(loss);
  // The workers begin with the first one's values.
  Node* same_start = mean.BroadcastVariables(worker == 0);
  Session session(cluster.target("worker", worker), graph);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_RETURN_IF_ERROR(session.RunTargets({same_start}));
  std::mt19937 random(static_cast<unsigned>(worker));
  Tensor images(DType::kFloat, {kBatch, kSide, kSide, 1});
  Tensor labels(DType::kInt64, {kBatch});
  for (int step = 1; step <= steps; ++step) {
    Draw(&random, &images, &labels);
    SLUICE_ASSIGN_OR_RETURN(
        const std::vector<Tensor> out,
        session.Run({{x, images}, {y, labels}}, {loss}, {train}));
    if (step % std::max(steps / 3, 1) == 0)
      std::printf("worker %d, step %3d: loss %.3f\n", worker, step,
                  out[0].scalar<float>());
  }
  return session.Run(TrainableVariables().back());
}

int main(int argc, char** argv) {
  const int steps = std::max(argc > 1 ? std::atoi(argv[1]) : 90, 3);
  const auto cluster = LocalCluster::Start({{"worker", kWorkers}});
  if (!cluster.ok()) return 1;
  std::vector<Result<Tensor>> weights(kWorkers, Tensor());
  std::vector<std::thread> workers;
  for (int w = 0; w < kWorkers; ++w)
    workers.emplace_back([&, w] {
      weights[static_cast<size_t>(w)] = Train(**cluster, w, steps);
    });
  for (std::thread& t : workers) t.join();
  for (const auto& w : weights)
    if (!w.ok()) std::fprintf(stderr, "%s\n", w.status().ToString().c_str());
  if (!weights[0].ok() || !weights[1].ok()) return 1;
  const bool same = weights[0]->Identical(*weights[1]);
  std::printf("the weights are %s\n", same ? "the same" : "different");
  return same ? 0 : 1;
}
