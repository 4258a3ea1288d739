// The replicated training step of bench/replicas.cc, which the simulator
// predicts too.
#ifndef SLUICE_BENCH_REPLICA_GRAPH_H_
#define SLUICE_BENCH_REPLICA_GRAPH_H_

#include <cstdint>
#include <optional>

#include "client/device_placement.h"
#include "sluice/sluice.h"

namespace sluice::bench {

inline constexpr int64_t kReplicaBatch = 32;

// The 784-100-10 network with its variables on one parameter server.
struct Replica {
  Replica(int worker, int workers, bool sync) {
    const WithGraph use(graph);
    SetRandomSeed(7);
    const DeviceFunctionScope devices(ReplicaDeviceSetter(
        {.ps_tasks = 1,
         .worker_device = absl::StrCat("/job:worker/task:", worker)}));
    Tensor images(DType::kFloat, {kReplicaBatch, 784}),
        labels(DType::kInt32, {kReplicaBatch});
    for (int64_t i = 0; i < images.num_elements(); ++i)
      images.flat<float>()[i] = static_cast<float>(i * 37 % 256) / 256.0f;
    for (int64_t i = 0; i < kReplicaBatch; ++i)
      labels.flat<int32_t>()[i] = static_cast<int32_t>(i % 10);
    const Output hidden =
        Dense(Constant(images), 100, {.activation = ops::Relu});
    const Output loss =
        SparseSoftmaxCrossEntropy(Constant(labels), Dense(hidden, 10));
    VarOptions counter;
    counter.trainable = false;
    step = Var(Constant(Tensor::Scalar<int64_t>(0)), "global_step", counter);
    if (sync) {
      replicas.emplace(sgd, SyncReplicasOptions{.replicas = workers});
      train = replicas->Minimize(loss, {.global_step = step});
    } else {
      train = sgd.Minimize(loss, {.global_step = step});
    }
  }
  Graph graph;
  GradientDescentOptimizer sgd{0.01};
  std::optional<SyncReplicas> replicas;
  Var step;
  Node* train = nullptr;
};

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_REPLICA_GRAPH_H_
