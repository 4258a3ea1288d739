#include "session/cost_model.h"

#include <algorithm>

namespace sluice {

void CostModel::Add(const TraceEvent& e, const std::string& device) {
  NodeCost& cost = costs_[{device, e.node}];
  cost.ns = std::max(cost.ns, e.end_ns - e.start_ns);
  if (e.kind == TraceEvent::kSend) return;  // (The value is another node's.)
  int64_t kept = 0;
  cost.outputs.resize(std::max(cost.outputs.size(), e.outputs.size()));
  for (size_t i = 0; i < e.outputs.size(); ++i) {
    const TraceOutput& o = e.outputs[i];
    if (o.alias < 0) kept += o.bytes;
    TraceOutput& most = cost.outputs[i];
    if (most.dtype == DType::kInvalid || o.bytes > most.bytes) most = o;
  }
  cost.temporary_bytes =
      std::max(cost.temporary_bytes, e.allocated_bytes - kept);
}

Result<std::string> CostModel::Update(
    const std::vector<TraceEvent>& events,
    const std::vector<std::string>& partitions) {
  // (With a single device, events may omit it.)
  const bool one = partitions.size() == 1;
  std::lock_guard<std::mutex> lock(mu_);
  for (const TraceEvent& e : events) Add(e, one ? "" : e.device);
  return MakeCostGraphDef(
      partitions, [&](const std::string& device, const std::string& node) {
        const auto it = costs_.find({one ? "" : device, node});
        return it == costs_.end() ? nullptr : &it->second;
      });
}

}  // namespace sluice
