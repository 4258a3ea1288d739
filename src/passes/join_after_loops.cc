#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/op_def.h"
#include "graph/tensor_array_info.h"
#include "passes/passes.h"

namespace sluice {
namespace {

// The name of the loop's frame if `n` is the Switch of a loop variable; else
// empty.
std::string FrameOf(const Node* n) {
  for (const OpRole role : {OpRole::kSwitch, OpRole::kMerge}) {
    if (n->op().role != role) return "";
    n = n->input(0).node;
  }
  return n->op().role == OpRole::kEnter && !n->BoolAttr("is_constant")
             ? n->AttrOr<std::string>("frame_name", "")
             : "";
}

// The frame whose Exit produces a value; empty if none does.
std::string FrameBehind(const Output& o) {
  const Node* n = o.node;
  for (;;) {
    if (n->op().role == OpRole::kIdentity) {
      n = n->input(0).node;
    } else if (n->kind() == OpKind::kTensorArrayGrad) {
      n = n->input(1).node;  // A forwarded flow.
    } else {
      break;
    }
  }
  return n->op().role == OpRole::kExit ? FrameOf(n->input(0).node) : "";
}

Result<Node*> AddExit(Graph* graph, Node* of) {
  NodeSpec spec;
  spec.op = "Exit";
  spec.name = graph->UniqueName(of->name() + "/done");
  spec.device = of->device();
  spec.loc = of->loc();
  spec.attrs["T"] = AttrValue(of->TypeAttr("T"));
  spec.inputs = {Output(of, 0)};
  return graph->AddNode(std::move(spec));
}

}  // namespace

Status JoinAfterLoops(Graph* graph) {
  std::unordered_map<std::string, std::vector<Node*>> joins;  // By frame.
  for (const auto& n : graph->nodes()) {
    if (n->kind() != OpKind::kTensorArrayGather) continue;
    const Node* const array = TensorArrayBehind(n->input(0));
    if (array == nullptr || array->kind() != OpKind::kTensorArrayGrad) continue;
    const std::string frame = FrameBehind(n->input(2));
    if (!frame.empty()) joins[frame].push_back(n.get());
  }
  if (joins.empty()) return OkStatus();
  // Every value that the last iteration computes goes to some variable, which
  // leaves the loop even if its Exit has no readers.
  std::vector<std::pair<Node*, std::string>> ends;
  std::unordered_set<const Node*> left;  // Switches that have an Exit.
  const auto nodes = graph->nodes().size();
  for (size_t i = 0; i < nodes; ++i) {
    Node* const n = graph->nodes()[i].get();
    if (n->op().role != OpRole::kExit) continue;
    const std::string frame = FrameOf(n->input(0).node);
    if (joins.count(frame) == 0) continue;
    left.insert(n->input(0).node);
    ends.emplace_back(n, frame);
  }
  for (size_t i = 0; i < nodes; ++i) {
    Node* const n = graph->nodes()[i].get();
    if (left.count(n) != 0 || n->op().role != OpRole::kSwitch ||
        IsRef(n->output_type(0)))
      continue;
    const std::string frame = FrameOf(n);
    if (joins.count(frame) == 0) continue;
    SLUICE_ASSIGN_OR_RETURN(Node * exit, AddExit(graph, n));
    ends.emplace_back(exit, frame);
  }
  for (const auto& [end, frame] : ends)
    for (Node* join : joins[frame])
      if (end->device() == join->device())
        SLUICE_RETURN_IF_ERROR(graph->AddControlEdge(end, join));
  return OkStatus();
}

}  // namespace sluice
