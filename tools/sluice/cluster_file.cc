#include "tools/sluice/cluster_file.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "io/file.h"

namespace sluice::cli {
namespace {

using Json = nlohmann::json;

Result<Json> ReadJson(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return InvalidArgument(path, ": expected a JSON object, got other text");
  return json;
}

// The numbers of an object, by name.
using Members = std::map<std::string, double*>;

Status ReadNumbers(const std::string& where, const Json& json,
                   const Members& members) {
  if (!json.is_object())
    return InvalidArgument(where, ": expected an object, got ", json.dump());
  for (const auto& [name, value] : json.items()) {
    const auto it = members.find(name);
    if (it == members.end()) {
      std::string names;
      for (const auto& [known, at] : members)
        absl::StrAppend(&names, names.empty() ? "" : ", ", known);
      return InvalidArgument(where, ": expected one of ", names, ", got '",
                             name, "'");
    }
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      return InvalidArgument(where, ".", name, ": expected a number, got ",
                             value.dump());
    *it->second = value.get<double>();
  }
  return OkStatus();
}

Members CostMembers(RuntimeCosts& c) {
  return {{"node_ns", &c.node_ns},
          {"kernel_ns", &c.kernel_ns},
          {"token_ns", &c.token_ns},
          {"send_ns", &c.send_ns},
          {"receive_ns", &c.receive_ns},
          {"hop_ns", &c.hop_ns},
          {"step_ns", &c.step_ns},
          {"task_ns", &c.task_ns},
          {"copy_bytes_per_s", &c.copy_bytes_per_s}};
}

Members DeviceMembers(DeviceModel& d) {
  return {{"flops", &d.flops},
          {"bytes_per_s", &d.bytes_per_s},
          {"peer_bytes_per_s", &d.peer_bytes_per_s},
          {"launch_ns", &d.launch_ns}};
}

// A whole number of [1, most].
Result<int> Whole(const std::string& where, double value, int most) {
  if (!(value >= 1 && value <= most) || value != std::floor(value))
    return InvalidArgument(where, ": expected a whole number of 1 to ", most,
                           ", got ", value);
  return static_cast<int>(value);
}

Status ReadMachine(const std::string& where, const Json& json,
                   MachineModel* machine) {
  double cores = machine->cores;
  SLUICE_RETURN_IF_ERROR(ReadNumbers(where, json,
                                     {{"cores", &cores},
                                      {"bytes_per_s", &machine->bytes_per_s},
                                      {"latency_ns", &machine->latency_ns}}));
  SLUICE_ASSIGN_OR_RETURN(machine->cores,
                          Whole(where + ".cores", cores, 1'000'000));
  return OkStatus();
}

Status ReadDevices(const std::string& where, const Json& json, size_t first,
                   ClusterModel* cluster) {
  if (!json.is_object())
    return InvalidArgument(where, ": expected an object, got ", json.dump());
  for (const auto& [type, value] : json.items()) {
    DeviceModel device;
    double count = 1, memory = 0;
    Members members = DeviceMembers(device);
    members["count"] = &count;
    members["memory_bytes"] = &memory;
    SLUICE_RETURN_IF_ERROR(
        ReadNumbers(absl::StrCat(where, ".", type), value, members));
    SLUICE_ASSIGN_OR_RETURN(
        const int number,
        Whole(absl::StrCat(where, ".", type, ".count"), count, 1024));
    device.memory_bytes = static_cast<int64_t>(memory);
    for (size_t t = first; t < cluster->tasks.size(); ++t)
      for (int i = 0; i < number; ++i) {
        device.task = static_cast<int>(t);
        device.name = {.job = cluster->tasks[t].job,
                       .replica = 0,
                       .task = cluster->tasks[t].task,
                       .type = type,
                       .number = i};
        cluster->devices.push_back(device);
      }
  }
  return OkStatus();
}

Status ReadJob(const std::string& job, const Json& json,
               const std::map<std::string, int>& machines,
               const MachineModel& own, const DeviceModel& cpu,
               ClusterModel* cluster) {
  const std::string where = absl::StrCat("jobs.", job);
  if (!json.is_object())
    return InvalidArgument(where, ": expected an object, got ", json.dump());
  double tasks = 1;
  int machine = -1;
  for (const auto& [name, value] : json.items()) {
    if (name == "tasks" && value.is_number()) {
      tasks = value.get<double>();
    } else if (name == "machine" && value.is_string()) {
      const auto it = machines.find(value.get<std::string>());
      if (it == machines.end())
        return InvalidArgument(where, ".machine: expected one of 'machines', ",
                               "got ", value.dump());
      machine = it->second;
    } else if (name != "devices") {
      return InvalidArgument(where, ": expected tasks (a number), machine (a ",
                             "name) or devices, got '", name,
                             "': ", value.dump());
    }
  }
  SLUICE_ASSIGN_OR_RETURN(const int count,
                          Whole(where + ".tasks", tasks, 1'000'000));
  const size_t first = cluster->tasks.size();
  cluster->AddTasks(job, count, machine, own, cpu);
  if (json.contains("devices"))
    SLUICE_RETURN_IF_ERROR(
        ReadDevices(where + ".devices", json["devices"], first, cluster));
  return OkStatus();
}

}  // namespace

Result<ClusterModel> ReadClusterFile(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const Json json, ReadJson(path));
  ClusterModel cluster;
  MachineModel own;
  DeviceModel cpu;
  std::map<std::string, int> machines;
  if (json.contains("calibration")) {
    if (!json["calibration"].is_string())
      return InvalidArgument(path, ": calibration: expected a path, got ",
                             json["calibration"].dump());
    std::string other = json["calibration"].get<std::string>();
    const size_t slash = path.rfind('/');
    if (!other.starts_with('/') && slash != std::string::npos)
      other = path.substr(0, slash + 1) + other;
    SLUICE_ASSIGN_OR_RETURN(const Json measured, ReadJson(other));
    if (measured.contains("costs"))
      SLUICE_RETURN_IF_ERROR(ReadNumbers(other + ": costs", measured["costs"],
                                         CostMembers(cluster.costs)));
    if (measured.contains("cpu"))
      SLUICE_RETURN_IF_ERROR(
          ReadNumbers(other + ": cpu", measured["cpu"], DeviceMembers(cpu)));
  }
  for (const auto& [name, value] : json.items()) {
    if (name == "costs") {
      SLUICE_RETURN_IF_ERROR(
          ReadNumbers("costs", value, CostMembers(cluster.costs)));
    } else if (name == "cpu") {
      SLUICE_RETURN_IF_ERROR(ReadNumbers("cpu", value, DeviceMembers(cpu)));
    } else if (name == "machine") {
      SLUICE_RETURN_IF_ERROR(ReadMachine("machine", value, &own));
    } else if (name == "machines" && value.is_object()) {
      for (const auto& [machine, members] : value.items()) {
        machines[machine] = static_cast<int>(cluster.machines.size());
        MachineModel made;
        made.name = machine;
        SLUICE_RETURN_IF_ERROR(
            ReadMachine("machines." + machine, members, &made));
        cluster.machines.push_back(made);
      }
    } else if (name != "calibration" && name != "jobs") {
      return InvalidArgument(path, ": expected calibration, costs, cpu, ",
                             "machine, machines or jobs, got '", name, "'");
    }
  }
  if (!json.contains("jobs") || !json["jobs"].is_object())
    return InvalidArgument(path, ": expected an object 'jobs', got none");
  for (const auto& [job, value] : json["jobs"].items())
    SLUICE_RETURN_IF_ERROR(ReadJob(job, value, machines, own, cpu, &cluster));
  SLUICE_RETURN_IF_ERROR(cluster.Check());
  return cluster;
}

std::string CalibrationText(const RuntimeCosts& costs, const DeviceModel& cpu) {
  Json json;
  RuntimeCosts c = costs;
  for (const auto& [name, value] : CostMembers(c)) json["costs"][name] = *value;
  json["cpu"] = {{"flops", cpu.flops}, {"bytes_per_s", cpu.bytes_per_s}};
  return json.dump(2) + "\n";
}

}  // namespace sluice::cli
