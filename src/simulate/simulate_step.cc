#include "simulate/simulate_step.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

std::string Time(double ns) {
  if (ns >= 1e9) return absl::StrFormat("%.3f s", ns * 1e-9);
  if (ns >= 1e6) return absl::StrFormat("%.3f ms", ns * 1e-6);
  return absl::StrFormat("%.2f us", ns * 1e-3);
}

// The lines of `shares` in falling order, without those that are 0.
void AppendShares(const std::string& title,
                  std::vector<std::pair<double, std::string>> shares, int most,
                  std::string* out) {
  std::stable_sort(
      shares.begin(), shares.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  if (shares.empty() || shares[0].first < 0.0005) return;
  absl::StrAppend(out, title, "\n");
  int left = most;
  for (const auto& [share, name] : shares) {
    if (share < 0.0005 || left-- == 0) break;
    absl::StrAppendFormat(out, "  %5.1f%%  %s\n", share * 100, name);
  }
}

}  // namespace

Result<StepPrediction> SimulateProgram(
    std::shared_ptr<const StepProgram> program, const ClusterModel& cluster,
    const SimulateOptions& options) {
  SLUICE_RETURN_IF_ERROR(cluster.Check());
  StepPrediction p;
  p.nodes = program->nodes;
  p.partitions = static_cast<int>(program->parts.size());
  p.transfers_of_unknown_size = program->transfers_of_unknown_size;
  Simulator simulator(cluster, {.trace = options.trace, .critical_path = true});
  Simulator::Start start;
  start.program = std::move(program);
  start.master =
      cluster.devices[static_cast<size_t>(options.default_device)].task;
  start.done = [&p](double now) { p.step_ns = now; };
  simulator.StartStep(0, std::move(start));
  SLUICE_RETURN_IF_ERROR(simulator.Run());
  p.events = simulator.events();
  p.path = simulator.LastCriticalPath();
  const double whole = std::max(p.step_ns, 1.0);
  for (size_t d = 0; d < cluster.devices.size(); ++d)
    p.device_use.push_back(simulator.DeviceBusy(static_cast<int>(d)) / whole);
  for (size_t m = 0; m < cluster.machines.size(); ++m) {
    p.core_use.push_back(simulator.CoresBusy(static_cast<int>(m)) / whole /
                         cluster.machines[m].cores);
    p.network_use.push_back(simulator.NetworkBusy(static_cast<int>(m)) / whole);
  }
  const std::pair<double, const char*> kinds[] = {{p.path.compute, "compute"},
                                                  {p.path.runtime, "runtime"},
                                                  {p.path.transfer, "transfer"},
                                                  {p.path.waiting, "waiting"}};
  p.bottleneck = std::max_element(std::begin(kinds), std::end(kinds))->second;
  p.trace = simulator.TakeTrace();
  return p;
}

Result<StepPrediction> SimulateStep(const Graph& graph,
                                    const StepSignature& signature,
                                    const ClusterModel& cluster,
                                    const SimulateOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(
      std::shared_ptr<const StepProgram> program,
      CompileForSimulation(graph, signature, cluster, options.measured,
                           options.unknown, options.default_device));
  return SimulateProgram(std::move(program), cluster, options);
}

std::string StepPrediction::ToString(const ClusterModel& cluster,
                                     int most) const {
  std::string out = absl::StrCat(
      "step: ", Time(step_ns), ", ", nodes, " nodes in ", partitions,
      " partitions, ", events, " events\n", "critical path: compute ",
      Time(path.compute), ", runtime ", Time(path.runtime), ", transfer ",
      Time(path.transfer), ", waiting ", Time(path.waiting), "; most of it is ",
      bottleneck, "\n");
  for (const auto& [what, ns] : path.longest)
    absl::StrAppend(&out, "  ", Time(ns), "  ", what, "\n");
  std::vector<std::pair<double, std::string>> devices, machines, networks;
  for (size_t d = 0; d < device_use.size(); ++d)
    devices.emplace_back(device_use[d], cluster.devices[d].name.ToString());
  for (size_t m = 0; m < core_use.size(); ++m) {
    machines.emplace_back(core_use[m], cluster.machines[m].name);
    networks.emplace_back(network_use[m], cluster.machines[m].name);
  }
  AppendShares("kernels on devices (100% is one core of a CPU):",
               std::move(devices), most, &out);
  AppendShares("cores of machines:", std::move(machines), most, &out);
  AppendShares("network of machines:", std::move(networks), most, &out);
  if (transfers_of_unknown_size > 0)
    absl::StrAppend(&out, "transfers whose size is not known before they run: ",
                    transfers_of_unknown_size,
                    " (unknown dimensions count as 1)\n");
  return out;
}

}  // namespace sluice
