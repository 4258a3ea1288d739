#include "session/session_config.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "exec/devices/emulated_device.h"
#include "graph/graphdef_messages.h"
#include "session/proto/config.pb.h"

namespace sluice {
namespace {

Result<std::string> Quoted(const std::string& s) {
  for (const char c : s)
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ')
      return InvalidArgument(
          "cluster: expected names and addresses without "
          "quotes and control characters, got '",
          s, "'");
  return absl::StrCat("\"", s, "\"");
}

// 0 if the number is not set, or negative.
Result<int> DeviceCount(const proto::ConfigProto& c, const char* type) {
  constexpr int kMaxDevices = 1024;
  const auto it = c.device_count().find(type);
  if (it == c.device_count().end()) return 0;
  if (it->second > kMaxDevices)
    return InvalidArgument("device_count: expected at most ", kMaxDevices, " ",
                           type, " devices, got ", it->second);
  return std::max(it->second, 0);
}

}  // namespace

Result<std::string> ClusterText(const proto::ClusterDef& cluster) {
  std::string text;
  for (const proto::JobDef& job : cluster.job()) {
    SLUICE_ASSIGN_OR_RETURN(const std::string name, Quoted(job.name()));
    absl::StrAppend(&text, text.empty() ? "{" : ", ", name, ": {");
    const std::map<int, std::string> tasks(job.tasks().begin(),
                                           job.tasks().end());
    bool first = true;
    for (const auto& [number, address] : tasks) {
      SLUICE_ASSIGN_OR_RETURN(const std::string quoted, Quoted(address));
      absl::StrAppend(&text, first ? "" : ", ", "\"", number, "\": ", quoted);
      first = false;
    }
    text += "}";
  }
  return text.empty() ? "{}" : text + "}";
}

Result<ConfiguredSession> SessionFromConfig(std::string_view config,
                                            SessionOptions defaults) {
  proto::ConfigProto c;
  SLUICE_RETURN_IF_ERROR(ParseMessage(config, "ConfigProto", &c));
  SessionOptions o = std::move(defaults);
  // (The caller's thread counts as one. Negative: only that one.)
  if (const int n = c.inter_op_parallelism_threads(); n != 0)
    o.inter_op_threads = std::max(n - 1, 0);
  if (c.intra_op_parallelism_threads() != 0)
    o.intra_op_threads = c.intra_op_parallelism_threads();
  SLUICE_ASSIGN_OR_RETURN(const int cpus, DeviceCount(c, "CPU"));
  SLUICE_ASSIGN_OR_RETURN(const int emulated, DeviceCount(c, "EMU"));
  if (cpus > 1 || emulated > 0) o.devices = CpuDevices(std::max(cpus, 1));
  if (emulated > 0) {
    SLUICE_ASSIGN_OR_RETURN(const auto how,
                            ParseEmulatedDevice(c.emulated_device()));
    // (The first of them is a CPU.)
    const auto devices = EmulatedDevices(emulated, how);
    o.devices.insert(o.devices.end(), devices.begin() + 1, devices.end());
  }
  const proto::OptimizerOptions& optimizer =
      c.graph_options().optimizer_options();
  if (optimizer.opt_level() < proto::OptimizerOptions::L1) {
    o.constant_folding = optimizer.do_constant_folding();
    o.common_subexpressions = optimizer.do_common_subexpression_elimination();
    o.fusion = o.regions = false;
  }
  if (c.log_device_placement())
    o.placement_log = [](const std::string& text) {
      std::fputs(text.c_str(), stderr);
    };
  o.batch_frames |= c.batch_frames();
  o.soft_placement = c.allow_soft_placement();
  o.isolated = c.isolate_session_state();
  o.device_filters.assign(c.device_filters().begin(), c.device_filters().end());
  o.cost_model_every = c.graph_options().build_cost_model();
  o.cost_model_after = c.graph_options().build_cost_model_after();
  if (c.cluster_def().job_size() > 0) {
    SLUICE_ASSIGN_OR_RETURN(o.cluster, ClusterText(c.cluster_def()));
    // (As in TensorFlow, such sessions share no state by default.)
    o.isolated |=
        !c.experimental().share_session_state_in_clusterspec_propagation();
  }
  return ConfiguredSession{std::move(o),
                           std::max<int64_t>(c.operation_timeout_in_ms(), 0)};
}

}  // namespace sluice
