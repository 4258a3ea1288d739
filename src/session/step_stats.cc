#include "session/step_stats.h"

#include <chrono>
#include <map>

#include "absl/strings/str_cat.h"
#include "io/proto/step_stats.pb.h"

namespace sluice {
namespace {

// What events of a step on one device leave out.
constexpr char kOnlyDevice[] = "/job:localhost/replica:0/task:0/device:CPU:0";

void AppendField(uint32_t number, const std::string& bytes, std::string* to) {
  // (Tag and length as varints.)
  to->push_back(static_cast<char>(number << 3 | 2));
  uint64_t n = bytes.size();
  for (; n >= 128; n >>= 7) to->push_back(static_cast<char>((n & 127) | 128));
  to->push_back(static_cast<char>(n));
  to->append(bytes);
}

}  // namespace

std::string TimelineLabel(const TraceEvent& event) {
  std::string label =
      absl::StrCat(event.node, " = ", event.op, ": ", event.Shapes());
  if (event.instances != 1) absl::StrAppend(&label, " x ", event.instances);
  if (event.kind == TraceEvent::kKernel && !event.peer.empty())
    absl::StrAppend(&label, " -> ", event.peer, "; ", event.tensor);
  return label;
}

std::string SerializeRunMetadata(const RunMetadata& metadata) {
  const int64_t since_1970 =
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::system_clock::now().time_since_epoch())
          .count() -
      NowNs();
  proto::StepStats stats;
  std::map<std::string, proto::DeviceStepStats*> devices;
  for (const TraceEvent& e : metadata.events) {
    if (e.kind != TraceEvent::kKernel) continue;
    proto::DeviceStepStats*& device = devices[e.device];
    if (device == nullptr) {
      device = stats.add_dev_stats();
      device->set_device(e.device.empty() ? kOnlyDevice : e.device);
    }
    proto::NodeExecStats* n = device->add_node_stats();
    const int64_t start = e.start_ns + since_1970, ns = e.end_ns - e.start_ns;
    n->set_node_name(e.node);
    n->set_timeline_label(TimelineLabel(e));
    n->set_thread_id(static_cast<uint32_t>(e.thread));
    n->set_all_start_nanos(start);
    n->set_all_start_micros(start / 1000);
    n->set_op_end_rel_nanos(ns);
    n->set_op_end_rel_micros(ns / 1000);
    n->set_all_end_rel_nanos(ns);
    n->set_all_end_rel_micros(ns / 1000);
    if (e.allocated_bytes > 0) {
      proto::AllocatorMemoryUsed* memory = n->add_memory();
      memory->set_allocator_name("cpu");
      memory->set_total_bytes(e.allocated_bytes);
    }
    for (size_t i = 0; i < e.outputs.size(); ++i) {
      if (e.outputs[i].dtype == DType::kInvalid) continue;
      proto::NodeOutput* output = n->add_output();
      output->set_slot(static_cast<int32_t>(i));
      proto::TensorDescription* tensor = output->mutable_tensor_description();
      for (int d = 0; d < e.outputs[i].shape.rank(); ++d)
        tensor->mutable_shape()->add_dim()->set_size(e.outputs[i].shape.dim(d));
      tensor->mutable_allocation_description()->set_requested_bytes(
          e.outputs[i].bytes);
    }
  }
  // RunMetadata has step_stats as field 1 and cost_graph as field 2.
  std::string out;
  AppendField(1, stats.SerializeAsString(), &out);
  if (!metadata.cost_graph.empty()) AppendField(2, metadata.cost_graph, &out);
  return out;
}

}  // namespace sluice
