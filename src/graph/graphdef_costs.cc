#include "graph/graphdef_costs.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "graph/graph.h"
#include "graph/proto/cost_graph.pb.h"
#include "graph/proto/graph.pb.h"
#include "graph/tensor_proto.h"

namespace sluice {
namespace {

// Splits "node:1" into a node and a number.
std::pair<std::string_view, int> SplitInput(std::string_view input) {
  const size_t colon = input.rfind(':');
  if (colon == std::string_view::npos) return {input, 0};
  int port = 0;
  std::from_chars(input.data() + colon + 1, input.data() + input.size(), port);
  return {input.substr(0, colon), port};
}

// The nodes of one graph, without their costs.
void AddNodes(const proto::GraphDef& graph, proto::CostGraphDef* costs) {
  std::unordered_map<std::string_view, int> ids;
  for (const proto::NodeDef& n : graph.node())
    ids.emplace(n.name(), costs->node_size() + static_cast<int>(ids.size()));
  for (const proto::NodeDef& n : graph.node()) {
    proto::CostGraphDef::Node* node = costs->add_node();
    node->set_name(n.name());
    node->set_device(n.device());
    node->set_id(ids[n.name()]);
    node->set_is_final(n.op() == "_Send");
    for (const std::string& input : n.input()) {
      const bool control = input.starts_with('^');
      const auto [name, port] =
          SplitInput(std::string_view(input).substr(control ? 1 : 0));
      const auto it = ids.find(name);
      if (it == ids.end()) continue;
      if (control) {
        node->add_control_input(it->second);
        continue;
      }
      proto::CostGraphDef::Node::InputInfo* info = node->add_input_info();
      info->set_preceding_node(it->second);
      info->set_preceding_port(port);
    }
  }
}

}  // namespace

Result<std::string> MakeCostGraphDef(
    const std::vector<std::string>& graph_defs,
    const std::function<const NodeCost*(const std::string& device,
                                        const std::string& node)>& cost_of) {
  proto::CostGraphDef costs;
  for (const std::string& bytes : graph_defs) {
    proto::GraphDef graph;
    if (!graph.ParseFromString(bytes))
      return InvalidArgument("cost graph: expected GraphDefs, got ",
                             bytes.size(), " other bytes");
    AddNodes(graph, &costs);
  }
  for (proto::CostGraphDef::Node& node : *costs.mutable_node()) {
    const NodeCost* const cost = cost_of(node.device(), node.name());
    node.set_inaccurate(cost == nullptr);
    if (cost == nullptr) continue;
    // (A node that ran costs at least 1 us.)
    const int64_t us = std::max<int64_t>((cost->ns + 500) / 1000, 1);
    node.set_compute_cost(us);
    node.set_compute_time(us);
    node.set_temporary_memory_size(cost->temporary_bytes);
    for (const NodeCost::Output& o : cost->outputs) {
      proto::CostGraphDef::Node::OutputInfo* info = node.add_output_info();
      info->set_size(o.bytes);
      info->set_alias_input_port(o.alias);
      info->set_dtype(static_cast<proto::DataType>(o.dtype));
      ShapeToProto(PartialShape(o.shape), info->mutable_shape());
    }
  }
  return costs.SerializeAsString();
}

}  // namespace sluice
