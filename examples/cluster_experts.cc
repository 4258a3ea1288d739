// Experts on separate tasks, inside a recurrent network: at each element every
// sequence is sent to the expert that its gate prefers, which runs on its own
// task; an expert without input does not run. One loop over five tasks, with
// conditionals partitioned across them, and gradients through everything.
#include <cstdio>
#include <random>

#include "sluice/cluster.h"
#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr int kBatch = 8, kLength = 6, kUnits = 12, kExperts = 4;
constexpr int kKinds = 4, kDepth = kKinds + 1, kSteps = 600;

// Rows [n, kDepth + kUnits] to [n, kUnits], on the expert's task.
Output Expert(int e, Output rows) {
  DeviceScope on(absl::StrCat("/job:expert/task:", e));
  Var w = GetVariable("w", {kDepth + kUnits, kUnits});
  Var b = GetVariable("b", {kUnits}, init::Zeros());
  return ops::Tanh(ops::MatMul(rows, w) + b);
}

RnnCell MixtureCell() {
  return FunctionCell(kUnits, {kUnits}, [](Output x, const RnnState& state) {
    Output in = ops::ConcatV2({x, state[0]}, 1);
    Var gate = GetVariable("gate", {kDepth + kUnits, kExperts});
    Output chances = ops::Softmax(ops::MatMul(in, gate));
    Output choice = ops::ArgMax(chances, 1, {.output_type = DType::kInt32});
    // Sends rows to the experts and puts the results back in place.
    Output places = ops::Range(0, kBatch, 1);
    std::vector<Output> rows = ops::DynamicPartition(in, choice, kExperts);
    std::vector<Output> from = ops::DynamicPartition(places, choice, kExperts);
    std::vector<Output> results;
    for (int e = 0; e < kExperts; ++e) {
      NameScope scope(absl::StrCat("expert_", e));
      const size_t i = static_cast<size_t>(e);
      results.push_back(Cond(
          ops::Size(from[i]) > 0, [&] { return Expert(e, rows[i]); },
          [&] {
            return ops::Fill({0, kUnits}, 0.0f);
          }));
    }
    // The gate learns through the weight of its choice.
    Output y = ops::DynamicStitch(from, results);
    Output weight = ops::Max(chances, 1, {.keep_dims = true});
    Output next = ops::Reshape(y, {kBatch, kUnits}) * weight;
    return RnnStep{next, {next}};
  });
}

}  // namespace

int main() {
  auto cluster = LocalCluster::Start({{"expert", kExperts}, {"worker", 1}});
  if (!cluster.ok()) {
    std::fprintf(stderr, "%s\n", cluster.status().ToString().c_str());
    return 1;
  }
  // Each element is a number and the operation to apply to it.
  SetRandomSeed(4);
  DeviceScope on("/job:worker/task:0");
  Output x = Placeholder<float>({kBatch, kLength, kDepth});
  Output y = Placeholder<float>({kBatch});
  RnnResult rnn = DynamicRnn(MixtureCell(), x);
  Var w = GetVariable("w", {kUnits, 1}), b = GetVariable("b", {1});
  Output guess =
      ops::Reshape(ops::MatMul(rnn.state[0], w) + b, IntVector({kBatch}));
  Output error = guess - y;
  Output loss = ops::Mean(error * error, 0);
  Node* train = AdagradOptimizer(0.1).Minimize(loss, {.colocate = true});

  Session session((*cluster)->target("worker", 0));
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  std::mt19937 random(1);
  std::uniform_real_distribution<float> number(-1, 1);
  double sum = 0;
  RunMetadata last_step;
  for (int step = 1; step <= kSteps && status.ok(); ++step) {
    Tensor xs = *Tensor::Zeros(DType::kFloat, {kBatch, kLength, kDepth});
    Tensor ys = *Tensor::Zeros(DType::kFloat, {kBatch});
    for (int i = 0; i < kBatch * kLength; ++i) {
      const float v = number(random);
      const int kind = static_cast<int>(random() % kKinds);
      const float effect[kKinds] = {v, -v, v * v, 0};
      xs.data<float>()[i * kDepth] = v;
      xs.data<float>()[i * kDepth + 1 + kind] = 1;
      ys.data<float>()[i / kLength] += effect[kind] / 2;
    }
    RunOptions options;
    options.trace = step == kSteps;
    const auto out =
        session.Run({{x, xs}, {y, ys}}, {loss}, {train}, options, &last_step);
    status = out.status();
    if (!status.ok()) break;
    sum += (*out)[0].scalar<float>();
    if (step % 100 != 0) continue;
    std::printf("step %3d: mean squared error %.4f\n", step, sum / 100);
    sum = 0;
  }
  for (int e = 0; e < kExperts; ++e) {
    const std::string task = absl::StrCat("/job:expert/replica:0/task:", e);
    int products = 0;
    for (const TraceEvent& event : last_step.events)
      products += event.device.starts_with(task) &&
                  event.op.find("MatMul") != std::string::npos;
    std::printf("%s: %d products in the last step\n", task.c_str(), products);
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
