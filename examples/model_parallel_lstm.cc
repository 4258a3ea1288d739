// Eight LSTM layers, each on its own device, in one loop that is partitioned
// over all of them, forward and backward (EuroSys'18, section 6.4). A layer
// works on an element while the next one works on the element before it, and
// the optimizer updates weights on their devices. The devices are emulated:
// each takes 300 us for a product, whatever this machine's load.
#include <cmath>
#include <cstdio>
#include <random>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr int kLayers = 8, kSteps = 12, kBatch = 16, kUnits = 16;

std::string Accelerator(int layer, int devices) {
  return "/device:EMU:" + std::to_string(layer * devices / kLayers);
}

// Trains it to produce a wave whose amplitude is its first input. Prints the
// loss and returns a step's time in ms; negative after an error.
double Train(int devices, int steps) {
  Graph graph;
  WithGraph use(graph);
  SetRandomSeed(1);
  Output x = Placeholder<float>({kSteps, kBatch, 1}, "x");
  Output wanted = Placeholder<float>({kSteps, kBatch, 1}, "wanted");
  std::vector<RnnCell> layers;
  for (int l = 0; l < kLayers; ++l)
    layers.push_back(DeviceWrapper(LstmCell(kUnits), Accelerator(l, devices)));
  RnnResult rnn = DynamicRnn(MultiRnnCell(layers), x, {.time_major = true});
  Output loss;
  {
    DeviceScope last(Accelerator(kLayers - 1, devices));
    Var w = GetVariable("w", {kUnits, 1});
    Var b = GetVariable("b", {1}, init::Zeros());
    Output rows = ops::Reshape(rnn.outputs, {kSteps * kBatch, kUnits});
    Output error =
        ops::Reshape(ops::MatMul(rows, w) + b, {kSteps, kBatch, 1}) - wanted;
    loss = ops::Mean(error * error, {0, 1, 2});
  }
  Node* train = AdagradOptimizer(0.1).Minimize(loss, {.colocate = true});

  EmulatedDeviceOptions emulated;
  emulated.op_ns = {{"MatMul", 300'000}, {"MatMulAdd", 300'000}};
  SessionOptions options;
  options.devices = EmulatedDevices(devices, emulated);
  Session session(graph, options);
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  std::mt19937 random(1);
  double ms = 0;
  for (int step = 0; step < steps && status.ok(); ++step) {
    Tensor in(DType::kFloat, {kSteps, kBatch, 1}), out(in.dtype(), in.shape());
    std::uniform_real_distribution<float> height(0.5, 1.5);
    for (int i = 0; i < kSteps * kBatch; ++i) {
      float* a = in.data<float>() + i % kBatch;
      in.data<float>()[i] = i < kBatch ? height(random) : 0;
      out.data<float>()[i] =
          *a * std::sin(0.5f * static_cast<float>(i / kBatch));
    }
    RunMetadata cost;
    const auto got =
        session.Run({{x, in}, {wanted, out}}, {loss}, {train}, {}, &cost);
    status = got.status();
    ms = static_cast<double>(cost.wall_ns) / 1e6;
    if (status.ok() && step % 20 == 0)
      std::printf("step %3d: loss %.4f\n", step, (*got)[0].scalar<float>());
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? ms : -1;
}

}  // namespace

int main() {
  const double one = Train(1, 3), eight = Train(kLayers, 101);
  if (one < 0 || eight < 0) return 1;
  std::printf("a step takes %.0f ms on one device, %.0f ms on %d\n", one, eight,
              kLayers);
  return 0;
}
