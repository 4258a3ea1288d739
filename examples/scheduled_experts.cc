// A mixture of experts over four emulated devices, placed when it runs. A few
// experts get most of the rows (Zipf's law), and which ones is known only when
// the gate has run. Each expert runs on the device where it would end first,
// large inputs are cut over several devices, and the parameters are on the
// host: a device fetches those of the experts that it runs.
#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr int kRows = 256, kUnits = 16, kHidden = 32;
constexpr int kExperts = 12, kDevices = 4, kSteps = 150;

// Rows [n, kUnits] to [n, kUnits].
Output Expert(int e, Output rows) {
  const std::string name = absl::StrCat("expert_", e);
  Var w1 = GetVariable(name + "/w1", {kUnits, kHidden});
  Var w2 = GetVariable(name + "/w2", {kHidden, kUnits}, init::Zeros());
  return ops::MatMul(ops::Tanh(ops::MatMul(rows, w1)), w2);
}

// Each row goes to the expert with the largest score.
Output Mixture(Output rows, Output scores) {
  std::vector<std::string> devices;
  for (int d = 0; d < kDevices; ++d)
    devices.push_back(absl::StrCat("/device:EMU:", d));
  Output choice = ops::ArgMax(scores, 1, {.output_type = DType::kInt32});
  std::vector<Output> parts = ops::DynamicPartition(rows, choice, kExperts);
  std::vector<Output> from =
      ops::DynamicPartition(ops::Range(0, kRows, 1), choice, kExperts);
  std::vector<Output> results;
  for (int e = 0; e < kExperts; ++e)
    results.push_back(Scheduled(devices, parts[static_cast<size_t>(e)],
                                [e](Output rows) { return Expert(e, rows); },
                                {.rows_per_part = 48}));
  return ops::DynamicStitch(from, results);
}

}  // namespace

int main() {
  SetRandomSeed(1);
  Output x, y, scores, loss;
  Node* train = nullptr;
  {
    DeviceScope host("/device:CPU:0");
    x = Placeholder<float>({kRows, kUnits}, "x");
    y = Placeholder<float>({kRows, kUnits}, "y");
    scores = Placeholder<float>({kRows, kExperts}, "scores");
    loss = ops::Mean(ops::Square(Mixture(x, scores) - y), {0, 1});
    train = AdamOptimizer(0.01).Minimize(loss);
  }
  SessionOptions options;
  EmulatedDeviceOptions device;
  // Memory for the parameters of three experts, and for rows.
  device.parameter_bytes = 3 * 2 * kUnits * kHidden * 4;
  device.memory_bytes = 1 << 20;
  device.flops_per_s = 50e6;
  options.devices = EmulatedDevices(kDevices, device);
  Session session(CurrentGraph(), options);
  Status status = session.RunTargets({GlobalVariablesInitializer()});

  // Kind k of rows is multiplied by a matrix of its own, which its expert
  // learns.
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  std::vector<double> weights;
  for (int e = 0; e < kExperts; ++e) weights.push_back(1.0 / (e + 1));
  std::discrete_distribution<int> kind(weights.begin(), weights.end());
  std::vector<float> turn(kExperts * kUnits);
  for (float& t : turn) t = normal(random);
  double sum = 0;
  RunMetadata last;
  for (int step = 1; step <= kSteps && status.ok(); ++step) {
    Tensor xs = *Tensor::Zeros(DType::kFloat, {kRows, kUnits});
    Tensor ys = *Tensor::Zeros(DType::kFloat, {kRows, kUnits});
    Tensor gate = *Tensor::Zeros(DType::kFloat, {kRows, kExperts});
    for (int r = 0; r < kRows; ++r) {
      const int k = kind(random);
      gate.data<float>()[r * kExperts + k] = 1;
      for (int u = 0; u < kUnits; ++u) {
        const float v = normal(random);
        xs.data<float>()[r * kUnits + u] = v;
        ys.data<float>()[r * kUnits + (u + k) % kUnits] =
            v * turn[static_cast<size_t>(k * kUnits + u)];
      }
    }
    RunOptions run;
    run.trace = step == kSteps;
    const auto out = session.Run({{x, xs}, {y, ys}, {scores, gate}}, {loss},
                                 {train}, run, &last);
    status = out.status();
    if (!status.ok()) break;
    sum += (*out)[0].scalar<float>();
    if (step % 50 != 0) continue;
    std::printf("step %3d: mean squared error %.4f\n", step, sum / 50);
    sum = 0;
  }
  std::map<std::string, int> bodies;
  for (const TraceEvent& event : last.events)
    if (event.op == "Schedule") ++bodies[event.peer];
  for (const auto& [where, times] : bodies)
    std::printf("%s: %d parts of experts in the last step\n", where.c_str(),
                times);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
