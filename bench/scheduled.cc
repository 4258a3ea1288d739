// Run-time placement: what a decision costs, and a mixture of experts whose
// gate prefers few of them, over four emulated devices.
#include "client/control/scheduled.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench.h"
#include "exec/scheduling/scheduler.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

// ---- Decisions --------------------------------------------------------------

// A decision among four devices by cost, with two parameters that some of them
// hold, 64 of them together, and its end.
SLUICE_BENCH("schedule.decision_ns") {
  constexpr int kTogether = 64, kRounds = 200;
  ScheduledBody body;
  body.name = "bench";
  body.policy_name = "cost";
  SLUICE_ASSIGN_OR_RETURN(body.policy, FindSchedulePolicy("cost"));
  body.bytes_per_s = 12e9;
  body.ns_per_row = 1000;
  body.element_bytes = {4};
  body.parameters = {ParameterNumber("bench_w"), ParameterNumber("bench_b")};
  body.parameter_bytes = 2048;
  const auto scheduler = std::make_shared<Scheduler>();
  std::vector<Tensor> values;  // Of the variables.
  for (size_t p = 0; p < body.parameters.size(); ++p)
    values.push_back(Tensor(DType::kFloat, {256}));
  for (int d = 0; d < 4; ++d) {
    body.devices.push_back(absl::StrCat("/device:BENCH:", d));
    body.device_numbers.push_back(ScheduledDeviceNumber(body.devices.back()));
    const auto cache = std::make_shared<ParameterCache>(1 << 20);
    if (d % 2 == 0)
      for (size_t p = 0; p < values.size(); ++p)
        cache->Keep(body.parameters[p],
                    scheduler->HeldValue(body.parameters[p], values[p]),
                    Tensor(DType::kFloat, {256}));
    scheduler->SetCache(body.device_numbers.back(), cache);
  }
  const Scheduler::Step step(scheduler);
  const Tensor shape = Tensor::Vector<int32_t>({32, 64});
  const std::vector<const Tensor*> shapes = {&shape};
  std::vector<Decision> decisions(kTogether);
  SLUICE_ASSIGN_OR_RETURN(
      const double seconds, Best(20, [&]() -> Status {
        for (int r = 0; r < kRounds; ++r) {
          for (Decision& d : decisions) {
            d.body = &body;
            SLUICE_RETURN_IF_ERROR(d.ReadShapes(shapes));
          }
          SLUICE_RETURN_IF_ERROR(scheduler->Decide(decisions, &step));
          for (const Decision& d : decisions)
            SLUICE_RETURN_IF_ERROR(scheduler->Done(d.ticket, &step).status());
        }
        return OkStatus();
      }));
  return seconds / (kRounds * kTogether) * 1e9;
}

// ---- Experts ----------------------------------------------------------------

constexpr int kMoeRows = 256, kMoeUnits = 128, kMoeHidden = 256;
constexpr int kMoeDevices = 4;
constexpr int64_t kExpertBytes = int64_t{2} * kMoeUnits * kMoeHidden * 4;

// Devices on which a row takes 0.5 ms, which keep `experts` experts and have
// half a megabyte more for rows and what is in flight; a copy of an expert
// takes as long as 8 rows.
constexpr double kCopyRate = 62e6;
EmulatedDeviceOptions MoeDevice(int experts) {
  EmulatedDeviceOptions d;
  d.memory_bytes = 2 * experts * kExpertBytes + (int64_t{1} << 19);
  d.parameter_bytes = experts * kExpertBytes;
  d.flops_per_s = 0.25e9;
  d.kernel_ns = 5'000;
  d.bytes_per_s = 50e9;
  d.copy_ns = 10'000;
  d.copy_bytes_per_s = kCopyRate;
  d.peer_bytes_per_s = 0;
  return d;
}

enum class Experts { kStatic, kScheduled, kSplit };

// Rows of the batch for each expert, by Zipf's law with exponent 1; which
// expert is the most popular is drawn at random.
Tensor ZipfChoices(int experts, std::mt19937* random) {
  std::vector<int32_t> rank(static_cast<size_t>(experts));
  std::iota(rank.begin(), rank.end(), 0);
  std::shuffle(rank.begin(), rank.end(), *random);
  std::vector<double> weights;
  for (int e = 0; e < experts; ++e) weights.push_back(1.0 / (e + 1));
  std::discrete_distribution<size_t> draw(weights.begin(), weights.end());
  Tensor choice(DType::kInt32, {kMoeRows});
  for (int32_t& c : choice.flat<int32_t>()) c = rank[draw(*random)];
  return choice;
}

// Milliseconds per step, for batches whose popular experts change with time.
Result<double> ZipfExperts(int experts, int experts_in_memory, Experts how) {
  Graph graph;
  const WithGraph use(graph);
  SetRandomSeed(1);
  const Output x = Placeholder<float>({kMoeRows, kMoeUnits}, "x");
  const Output choice = Placeholder<int32_t>({kMoeRows}, "choice");
  std::vector<std::string> devices;
  for (int d = 0; d < kMoeDevices; ++d)
    devices.push_back(absl::StrCat("/device:EMU:", d));
  std::vector<Output> rows, from, results;
  {
    const DeviceScope host("/device:CPU:0");
    rows = ops::DynamicPartition(x, choice, experts);
    from = ops::DynamicPartition(ops::Range(0, kMoeRows, 1), choice, experts);
  }
  for (int e = 0; e < experts; ++e) {
    const auto i = static_cast<size_t>(e);
    const std::string name = absl::StrCat("expert_", e);
    const auto expert = [&](Output in) {
      const Output w1 = GetVariable(name + "/w1", {kMoeUnits, kMoeHidden});
      const Output w2 = GetVariable(name + "/w2", {kMoeHidden, kMoeUnits});
      return ops::MatMul(ops::Relu(ops::MatMul(in, w1)), w2);
    };
    if (how == Experts::kStatic) {
      const DeviceScope on(devices[i % kMoeDevices]);
      results.push_back(expert(rows[i]));
    } else {
      results.push_back(Scheduled(
          devices, rows[i], expert,
          {.bytes_per_s = kCopyRate,
           .rows_per_part = how == Experts::kSplit ? kMoeRows / 16 : 0}));
    }
  }
  Output y;
  {
    const DeviceScope host("/device:CPU:0");
    y = ops::DynamicStitch(from, results);
  }
  SLUICE_RETURN_IF_ERROR(graph.status());
  SessionOptions options;
  options.devices = EmulatedDevices(kMoeDevices, MoeDevice(experts_in_memory));
  Session session(graph, options);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({x, choice}, {y}));
  std::mt19937 random(7);
  const Tensor in = *Tensor::Zeros(DType::kFloat, {kMoeRows, kMoeUnits});
  // Each batch is run several times; what it costs to turn to others counts.
  constexpr int kBatches = 6, kTimes = 4;
  SLUICE_RETURN_IF_ERROR(
      step.Run({in, ZipfChoices(experts, &random)}).status());
  double seconds = 0;
  for (int b = 0; b < kBatches; ++b) {
    const Tensor choices = ZipfChoices(experts, &random);
    for (int t = 0; t < kTimes; ++t) {
      const int64_t start = NowNs();
      SLUICE_RETURN_IF_ERROR(step.Run({in, choices}).status());
      seconds += static_cast<double>(NowNs() - start) * 1e-9;
    }
  }
  return seconds / (kBatches * kTimes) * 1e3;
}

// 16 experts; each device keeps five.
SLUICE_BENCH("moe.zipf.static.step_ms") {
  return ZipfExperts(16, 5, Experts::kStatic);
}
SLUICE_BENCH("moe.zipf.scheduled.step_ms") {
  return ZipfExperts(16, 5, Experts::kScheduled);
}
SLUICE_BENCH("moe.zipf.split.step_ms") {
  return ZipfExperts(16, 5, Experts::kSplit);
}
// How many times as fast as static placement.
SLUICE_BENCH("moe.zipf.scheduled_vs_static") {
  SLUICE_ASSIGN_OR_RETURN(const double fixed,
                          ZipfExperts(16, 5, Experts::kStatic));
  SLUICE_ASSIGN_OR_RETURN(const double scheduled,
                          ZipfExperts(16, 5, Experts::kSplit));
  return fixed / scheduled;
}
// Static placement fills the memory with 24 experts.
SLUICE_BENCH("moe.zipf.static.experts24.step_ms") {
  return ZipfExperts(24, 5, Experts::kStatic);
}
SLUICE_BENCH("moe.zipf.split.experts48.step_ms") {
  return ZipfExperts(48, 5, Experts::kSplit);
}

}  // namespace
}  // namespace sluice::bench
