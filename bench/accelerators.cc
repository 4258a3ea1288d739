// The benefit of loops on accelerators: the figures of EuroSys'18, section 6,
// on emulated devices (exec/devices/emulated_device.h), in real time.
#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

std::string Accelerator(int i) { return absl::StrCat("/device:EMU:", i); }

// Figure 12. A pipeline of eight devices: each multiplies its own state by the
// previous device's result. The host sums the last device's results. A K40
// takes 1.5 ms for a product of 1024 x 1024 and 0.4 ms to copy it; here the
// matrices are smaller but the durations are the same.
Result<double> Figure12(int parallel_iterations) {
  constexpr int kDevices = 8, kIterations = 100;
  Graph graph;
  const WithGraph use(graph);
  std::vector<Output> init = {Constant(int32_t{0}), Constant(0.0f)};
  Tensor unit = *Tensor::Zeros(DType::kFloat, Shape({16, 16}));
  for (int i = 0; i < 16; ++i) unit.data<float>()[17 * i] = 1;
  for (int d = 0; d < kDevices; ++d) init.push_back(Constant(unit));
  const auto last = While(
      init, [&](const std::vector<Output>& v) { return v[0] < kIterations; },
      [&](const std::vector<Output>& v) {
        std::vector<Output> next = {v[0] + 1, v[1]};
        Output passed = Constant(unit);
        for (int d = 0; d < kDevices; ++d) {
          const DeviceScope there(Accelerator(d));
          passed = ops::MatMul(v[static_cast<size_t>(d) + 2], passed);
          next.push_back(passed);
        }
        const DeviceScope host("/device:CPU:0");
        next[1] = v[1] + ops::Mean(passed, {0, 1});
        return next;
      },
      {.parallel_iterations = parallel_iterations});
  EmulatedDeviceOptions device;
  device.op_ns["MatMul"] = 1'500'000;
  device.copy_ns = 400'000;
  device.peer_bytes_per_s = 0;  // Through the host, as measured there.
  SessionOptions options;
  options.devices = EmulatedDevices(kDevices, device);
  Session session(graph, options);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({}, {last[1]}));
  SLUICE_ASSIGN_OR_RETURN(
      const double s, Best(3, [&]() -> Status {
        SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> out, step.Run());
        if (out[0].scalar<float>() != kIterations / 16.0f)
          return Internal("figure 12: wrong sum ", out[0].ToString());
        return OkStatus();
      }));
  return kIterations / s;
}

SLUICE_BENCH("figure12.par1.iters_per_s") { return Figure12(1); }
SLUICE_BENCH("figure12.par2.iters_per_s") { return Figure12(2); }
SLUICE_BENCH("figure12.par4.iters_per_s") { return Figure12(4); }
SLUICE_BENCH("figure12.par8.iters_per_s") { return Figure12(8); }
SLUICE_BENCH("figure12.par16.iters_per_s") { return Figure12(16); }
SLUICE_BENCH("figure12.par32.iters_per_s") { return Figure12(32); }

// A training step of an LSTM with `layers` layers on `devices` devices.
struct LstmTask {
  int layers, devices, steps, batch, units;
  bool swap = false;
  EmulatedDeviceOptions device;
};

// Seconds per step.
Result<double> TrainLstm(const LstmTask& t, int times) {
  Graph graph;
  const WithGraph use(graph);
  SetRandomSeed(1);
  std::vector<RnnCell> layers;
  for (int l = 0; l < t.layers; ++l)
    layers.push_back(DeviceWrapper(LstmCell(t.units),
                                   Accelerator(l * t.devices / t.layers)));
  Tensor values(DType::kFloat, Shape({t.steps, t.batch, t.units}));
  for (int64_t i = 0; i < values.num_elements(); ++i)
    values.data<float>()[i] = static_cast<float>(i % 13) / 13;
  const Output x = Placeholder<float>({t.steps, t.batch, t.units});
  const RnnResult rnn = DynamicRnn(MultiRnnCell(layers), x,
                                   {.time_major = true, .swap_memory = t.swap});
  Output loss;
  {
    const DeviceScope last(Accelerator(t.devices - 1));
    loss = ops::Mean(ops::Square(rnn.outputs - 0.5f), {0, 1, 2});
  }
  Node* const train =
      GradientDescentOptimizer(0.1).Minimize(loss, {.colocate = true});
  SessionOptions options;
  EmulatedDeviceOptions device = t.device;
  device.peer_bytes_per_s = 0;  // Through the host, as measured there.
  options.devices = EmulatedDevices(t.devices, device);
  Session session(graph, options);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({x}, {loss}, {train}));
  return Best(times, [&] { return step.Run({values}).status(); });
}

// Figure 15. A product takes 1 ms, as on a K40 for 512 units and sequences.
Result<double> Figure15(int devices) {
  LstmTask t{8, devices, 40, 8, 32, false, {}};
  t.device.kernel_ns = 30'000;
  t.device.op_ns = {{"MatMul", 1'000'000},
                    {"MatMulAdd", 1'000'000},
                    {"MatMulBothWays", 1'000'000}};
  t.device.copy_ns = 100'000;
  SLUICE_ASSIGN_OR_RETURN(const double s, TrainLstm(t, 3));
  return s * 1e3;
}

SLUICE_BENCH("figure15.devices1.step_ms") { return Figure15(1); }
SLUICE_BENCH("figure15.devices2.step_ms") { return Figure15(2); }
SLUICE_BENCH("figure15.devices4.step_ms") { return Figure15(4); }
SLUICE_BENCH("figure15.devices8.step_ms") { return Figure15(8); }

// Table 1. Four layers, sequences of increasing length, on a device with memory
// for the saved values of 500 elements; 0 where that is not enough.
Result<double> Table1(int steps, bool swap) {
  LstmTask t{4, 1, steps, 32, 32, swap, {}};
  t.device.kernel_ns = 10'000;
  t.device.op_ns = {
      {"MatMul", 250'000}, {"MatMulAdd", 250'000}, {"MatMulBothWays", 250'000}};
  t.device.copy_ns = 50'000;
  t.device.memory_bytes = int64_t{80} << 20;
  const Result<double> s = TrainLstm(t, 1);
  if (s.status().code() == StatusCode::kResourceExhausted) return 0.0;
  SLUICE_RETURN_IF_ERROR(s.status());
  return *s / steps * 1e3;
}

#define SLUICE_TABLE1(steps)                           \
  SLUICE_BENCH("table1.kept.T" #steps ".iter_ms") {    \
    return Table1(steps, false);                       \
  }                                                    \
  SLUICE_BENCH("table1.swapped.T" #steps ".iter_ms") { \
    return Table1(steps, true);                        \
  }
SLUICE_TABLE1(100)
SLUICE_TABLE1(200)
SLUICE_TABLE1(500)
SLUICE_TABLE1(600)
SLUICE_TABLE1(700)
SLUICE_TABLE1(900)
SLUICE_TABLE1(1000)

}  // namespace
}  // namespace sluice::bench
