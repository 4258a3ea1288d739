#include "cluster/common/cluster.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

bool IsJobName(const std::string& s) {
  return !s.empty() && absl::ascii_isalpha(static_cast<unsigned char>(s[0])) &&
         std::all_of(s.begin(), s.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '-';
         });
}

Status AddJob(const std::string& job, const Json& tasks, ClusterSpec* spec) {
  auto add = [&](int number, const Json& address) {
    if (!address.is_string())
      return InvalidArgument("job '", job, "', task ", number,
                             ": expected an address as a string, got ",
                             address.dump());
    return spec->Add(job, number, address.get<std::string>());
  };
  if (tasks.is_array()) {
    int number = 0;
    for (const Json& address : tasks)
      SLUICE_RETURN_IF_ERROR(add(number++, address));
    return OkStatus();
  }
  if (!tasks.is_object())
    return InvalidArgument(
        "job '", job, "': expected a list of addresses, got ", tasks.dump());
  for (const auto& [key, address] : tasks.items()) {
    int number = -1;
    if (!absl::SimpleAtoi(key, &number) || number < 0)
      return InvalidArgument("job '", job,
                             "': expected numbers of tasks, got '", key, "'");
    SLUICE_RETURN_IF_ERROR(add(number, address));
  }
  return OkStatus();
}

}  // namespace

bool IsHostPort(const std::string& address, int least_port) {
  const size_t colon = address.rfind(':');
  int port = 0;
  return colon != std::string::npos && colon > 0 &&
         absl::SimpleAtoi(address.substr(colon + 1), &port) &&
         port >= least_port && port < 65536;
}

std::string ClusterTask::name() const {
  return absl::StrCat("/job:", job, "/replica:0/task:", task);
}

Status ClusterSpec::Add(const std::string& job, int task,
                        const std::string& address) {
  if (!IsJobName(job))
    return InvalidArgument(
        "job: expected a letter, then letters, digits, '_' and '-', got '", job,
        "'");
  if (task < 0 || task >= 1 << 20)
    return InvalidArgument("task of job '", job,
                           "': expected a number below 1048576, got ", task);
  if (!IsHostPort(address))
    return InvalidArgument("job '", job, "', task ", task,
                           ": expected host:port, got '", address, "'");
  for (const ClusterTask& t : tasks_) {
    if (t.job == job && t.task == task)
      return InvalidArgument("job '", job, "': expected each task once, got ",
                             task, " again");
    if (t.address == address)
      return InvalidArgument("job '", job, "', task ", task,
                             ": expected a unique address, got that of ",
                             t.name(), ", '", address, "'");
  }
  ClusterTask t{job, task, address};
  auto before = [](const ClusterTask& a, const ClusterTask& b) {
    return std::tie(a.job, a.task) < std::tie(b.job, b.task);
  };
  tasks_.insert(std::upper_bound(tasks_.begin(), tasks_.end(), t, before), t);
  return OkStatus();
}

Result<ClusterSpec> ClusterSpec::Parse(std::string_view json) {
  Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object())
    return InvalidArgument(
        "cluster: expected a JSON object of jobs, got ",
        root.is_discarded() ? "something else" : root.type_name());
  if (auto it = root.find("cluster"); it != root.end() && it->is_object()) {
    Json inner = *it;
    root = std::move(inner);
  }
  ClusterSpec spec;
  for (const auto& [job, tasks] : root.items())
    SLUICE_RETURN_IF_ERROR(AddJob(job, tasks, &spec));
  if (spec.tasks_.empty())
    return InvalidArgument("cluster: expected at least one task, got none");
  return spec;
}

Result<ClusterSpec> ClusterSpec::Load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return NotFound("cluster file: expected a readable file, got '", path, "'");
  std::ostringstream text;
  text << file.rdbuf();
  Result<ClusterSpec> spec = Parse(text.str());
  return spec.ok() ? spec : Result<ClusterSpec>(Annotate(spec.status(), path));
}

Result<ClusterTask> ClusterSpec::Find(const std::string& job, int task) const {
  std::string names;
  for (const ClusterTask& t : tasks_) {
    if (t.job == job && t.task == task) return t;
    if (names.size() < 300)
      absl::StrAppend(&names, names.empty() ? "" : ", ", t.name());
  }
  return NotFound("task: expected one of ", names, ", got /job:", job,
                  "/replica:0/task:", task);
}

std::string ClusterSpec::ToJson() const {
  Json jobs = Json::object();
  for (const ClusterTask& t : tasks_)
    jobs[t.job][std::to_string(t.task)] = t.address;
  return Json{{"cluster", jobs}}.dump();
}

}  // namespace sluice
