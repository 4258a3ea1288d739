#include "simulate/op_work.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

double ElementsOf(const Output& o, bool* known) {
  const PartialShape& shape = o.shape();
  if (!shape.rank_known()) {
    *known = false;
    return 1;
  }
  double n = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.dim(i) < 0) {
      *known = false;
    } else {
      n *= static_cast<double>(shape.dim(i));
    }
  }
  return n;
}

}  // namespace

MeasuredCosts CostsFromTrace(const std::vector<TraceEvent>& events) {
  std::unordered_map<std::string, std::vector<double>> all;
  for (const TraceEvent& e : events)
    if (e.kind == TraceEvent::kKernel)
      all[e.node].push_back(static_cast<double>(e.end_ns - e.start_ns));
  MeasuredCosts costs;
  for (auto& [node, times] : all) {
    const auto middle =
        times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    costs[node] = *middle;
  }
  return costs;
}

double OpWork::NsOn(const DeviceModel& device) const {
  if (measured_ns >= 0) return measured_ns;
  return 1e9 * std::max(flops / device.flops, bytes / device.bytes_per_s);
}

double StaticBytes(const Output& o, bool* known) {
  const DType type = RemoveRef(o.dtype());
  if (!IsPlain(type)) return 8;
  return ElementsOf(o, known) * static_cast<double>(DTypeSize(type));
}

OpWork WorkOf(const Node& node, const MeasuredCosts& measured) {
  OpWork work;
  if (node.op().role != OpRole::kCompute) return work;
  if (!measured.empty()) {
    const auto it = measured.find(node.name());
    work.measured_ns = it == measured.end() ? 0 : it->second;
    return work;
  }
  bool* const known = &work.shapes_known;
  const OpKind kind = node.kind();
  if (node.op().touches_no_elements || ReadsOnlyShapes(kind)) return work;
  double in = 0, out = 0, elements = 0;
  // (An update returns its reference; it touches as much of the variable as it
  // is given.)
  const bool updates = node.num_outputs() > 0 && IsRef(node.output_type(0));
  for (const Output& o : node.inputs())
    if (!updates || !IsRef(o.dtype())) in += StaticBytes(o, known);
  if (updates) in *= 2;
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (IsRef(node.output_type(i))) continue;
    const Output o(const_cast<Node*>(&node), i);
    out += StaticBytes(o, known);
    elements += ElementsOf(o, known);
  }
  work.bytes = in + out;
  work.flops = elements;
  switch (kind) {
    case OpKind::kRefVariable:
    case OpKind::kVarHandle:
    case OpKind::kReadVariable:
    case OpKind::kReshape:
    case OpKind::kExpandDims:
    case OpKind::kSqueeze:
      work.bytes = work.flops = 0;
      break;
    case OpKind::kGather:
      work.bytes = 2 * out;
      break;
    case OpKind::kMatMul:
    case OpKind::kMatMulAdd:
    case OpKind::kBatchMatMul: {
      // [m,k] [k,n] -> [m,n], whatever is transposed.
      const double a = ElementsOf(node.input(0), known);
      const double b = ElementsOf(node.input(1), known);
      if (kind != OpKind::kBatchMatMul) {
        work.flops = 2 * std::sqrt(a * b * elements);
      } else {
        const PartialShape& left = node.input(0).shape();
        const bool adjoint = node.BoolAttr("adj_x");
        const int rank = left.rank_known() ? left.rank() : 0;
        const double k = rank < 2
                             ? 1
                             : static_cast<double>(std::max<int64_t>(
                                   1, left.dim(adjoint ? rank - 2 : rank - 1)));
        work.flops = 2 * elements * k;
      }
      break;
    }
    case OpKind::kConv2D: {
      const PartialShape& filter = node.input(1).shape();
      const double channels =
          filter.rank_known() && filter.rank() == 4
              ? static_cast<double>(std::max<int64_t>(1, filter.dim(3)))
              : 1;
      work.flops = 2 * elements * ElementsOf(node.input(1), known) / channels;
      break;
    }
    default:
      break;
  }
  return work;
}

}  // namespace sluice
