#include "simulate/cluster_model.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

Status Positive(const std::string& what, double value) {
  if (std::isfinite(value) && value > 0) return OkStatus();
  return InvalidArgument(what, ": expected a number above 0, got ", value);
}

Status NotNegative(const std::string& what, double value) {
  if (std::isfinite(value) && value >= 0) return OkStatus();
  return InvalidArgument(what, ": expected 0 or more, got ", value);
}

}  // namespace

void ClusterModel::AddTasks(const std::string& job, int count, int machine,
                            const MachineModel& like, const DeviceModel& cpu) {
  int next = 0;
  for (const TaskModel& t : tasks)
    if (t.job == job) next = std::max(next, t.task + 1);
  for (int i = 0; i < count; ++i) {
    int on = machine;
    if (machine < 0) {
      on = static_cast<int>(machines.size());
      machines.push_back(like);
      machines.back().name = absl::StrCat(job, next + i);
    }
    DeviceModel device = cpu;
    device.task = static_cast<int>(tasks.size());
    device.name = {
        .job = job, .replica = 0, .task = next + i, .type = "CPU", .number = 0};
    devices.push_back(device);
    tasks.push_back({job, next + i, on});
  }
}

int ClusterModel::FindDevice(const std::string& name) const {
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i].name.ToString() == name) return static_cast<int>(i);
  return -1;
}

Status ClusterModel::Check() const {
  for (const auto& [what, value] : {std::pair("node_ns", costs.node_ns),
                                    {"kernel_ns", costs.kernel_ns},
                                    {"token_ns", costs.token_ns},
                                    {"send_ns", costs.send_ns},
                                    {"receive_ns", costs.receive_ns},
                                    {"hop_ns", costs.hop_ns},
                                    {"step_ns", costs.step_ns},
                                    {"task_ns", costs.task_ns}})
    SLUICE_RETURN_IF_ERROR(NotNegative(what, value));
  SLUICE_RETURN_IF_ERROR(Positive("copy_bytes_per_s", costs.copy_bytes_per_s));
  for (const MachineModel& m : machines) {
    const std::string where = absl::StrCat("machine '", m.name, "': ");
    SLUICE_RETURN_IF_ERROR(Positive(where + "cores", m.cores));
    SLUICE_RETURN_IF_ERROR(Positive(where + "bytes_per_s", m.bytes_per_s));
    SLUICE_RETURN_IF_ERROR(NotNegative(where + "latency_ns", m.latency_ns));
  }
  std::set<std::pair<std::string, int>> names;
  for (const TaskModel& t : tasks) {
    if (t.machine < 0 || t.machine >= static_cast<int>(machines.size()))
      return InvalidArgument("task '", t.job, ":", t.task,
                             "': expected one of ", machines.size(),
                             " machines, got number ", t.machine);
    if (t.task < 0 || !names.emplace(t.job, t.task).second)
      return InvalidArgument("task '", t.job, ":", t.task,
                             "': expected a number of its own, got it twice");
  }
  if (tasks.empty())
    return InvalidArgument("cluster: expected at least one task, got none");
  std::set<std::string> seen;
  for (const DeviceModel& d : devices) {
    const std::string name = d.name.ToString();
    const std::string where = absl::StrCat("device '", name, "': ");
    if (!d.name.complete())
      return InvalidArgument(where, "expected a complete name, got ", name);
    if (!seen.insert(name).second)
      return InvalidArgument(where, "expected it once, got it twice");
    if (d.task < 0 || d.task >= static_cast<int>(tasks.size()))
      return InvalidArgument(where, "expected one of ", tasks.size(),
                             " tasks, got number ", d.task);
    const TaskModel& t = tasks[static_cast<size_t>(d.task)];
    if (t.job != d.name.job || t.task != d.name.task)
      return InvalidArgument(where,
                             "expected a device of its task, got one of ",
                             t.job, ":", t.task);
    SLUICE_RETURN_IF_ERROR(Positive(where + "flops", d.flops));
    SLUICE_RETURN_IF_ERROR(Positive(where + "bytes_per_s", d.bytes_per_s));
    SLUICE_RETURN_IF_ERROR(
        Positive(where + "peer_bytes_per_s", d.peer_bytes_per_s));
    SLUICE_RETURN_IF_ERROR(NotNegative(where + "launch_ns", d.launch_ns));
  }
  if (devices.empty())
    return InvalidArgument("cluster: expected at least one device, got none");
  return OkStatus();
}

}  // namespace sluice
