#include "client/device_placement.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "graph/device_name.h"

namespace sluice {
namespace {

const std::vector<std::string>& StateOps() {
  static const auto* const ops = new std::vector<std::string>{
      "Variable",
      "VariableV2",
      "AutoReloadVariable",
      "VarHandleOp",
      "MutableHashTable",
      "MutableHashTableV2",
      "MutableHashTableOfTensors",
      "MutableHashTableOfTensorsV2",
      "MutableDenseHashTable",
      "MutableDenseHashTableV2",
      "ConditionalAccumulator",
      "ResourceConditionalAccumulator",
      "SparseConditionalAccumulator",
  };
  return *ops;
}

// Shared by copies in the scopes of several threads.
struct Loads {
  std::mutex mu;
  std::vector<double> of_task;  // GUARDED_BY(mu)
};

}  // namespace

TaskStrategy RoundRobin(int tasks) {
  return LeastLoaded(tasks, [](const Node&) { return 1; });
}

double BytesOfState(const Node& node) {
  const AttrValue* const dtype = node.FindAttr("dtype");
  const AttrValue* const shape = node.FindAttr("shape");
  const DType* type = dtype == nullptr ? nullptr : dtype->get<DType>();
  const PartialShape* dims =
      shape == nullptr ? nullptr : shape->get<PartialShape>();
  if (type == nullptr || dims == nullptr) return 1;
  double bytes =
      IsPlain(*type) ? static_cast<double>(DTypeSize(*type)) : sizeof(void*);
  if (dims->rank_known())
    for (const int64_t d : dims->dims())
      bytes *= d < 0 ? 1.0 : static_cast<double>(d);
  return bytes;
}

TaskStrategy LeastLoaded(int tasks, StateLoad load) {
  if (load == nullptr) load = BytesOfState;
  auto loads = std::make_shared<Loads>();
  loads->of_task.resize(static_cast<size_t>(std::max(tasks, 1)));
  return [loads, load = std::move(load)](const Node& node) {
    const double cost = load(node);
    std::lock_guard<std::mutex> lock(loads->mu);
    const auto least =
        std::min_element(loads->of_task.begin(), loads->of_task.end());
    *least += cost;
    return static_cast<int>(least - loads->of_task.begin());
  };
}

DeviceFunction ReplicaDeviceSetter(ReplicaDeviceOptions options) {
  if (options.ps_tasks <= 0)
    return [](const Node* node) { return node->device(); };
  if (options.ps_ops.empty()) options.ps_ops = StateOps();
  if (!options.strategy) options.strategy = RoundRobin(options.ps_tasks);
  return [o = std::move(options)](const Node* node) -> std::string {
    const bool makes_state =
        !o.ps_device.empty() && std::find(o.ps_ops.begin(), o.ps_ops.end(),
                                          node->op_name()) != o.ps_ops.end();
    const std::string& device = makes_state ? o.ps_device : o.worker_device;
    const Result<DeviceName> ours = DeviceName::Parse(device);
    const Result<DeviceName> within = DeviceName::Parse(node->device());
    // (The placer reports an invalid name.)
    if (!ours.ok()) return device;
    if (!within.ok()) return node->device();
    const DeviceName merged = within->WithDefaults(*ours);
    // The task is in the job whose tasks were counted.
    if (!makes_state || ours->job.empty() || merged.job != ours->job ||
        within->task >= 0)
      return merged.ToString();
    return absl::StrCat(merged.ToString(), "/task:", o.strategy(*node));
  };
}

}  // namespace sluice
