#include "passes/rewrite.h"

#include <algorithm>

namespace sluice {

Status GraphRewriter::Run(const std::function<Status(const Node&)>& visit) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(from_));
  for (const Node* n : order) SLUICE_RETURN_IF_ERROR(visit(*n));
  for (const auto& [old, copy] : merges_)
    for (int i = 0; i < old->num_inputs(); ++i)
      if (!copy->input(i)) {
        const Output source = Map(old->input(i));
        if (!source)
          return Internal("a pass dropped the source of a back edge; ",
                          old->Describe());
        SLUICE_RETURN_IF_ERROR(to_->SetBackEdge(copy, i, source));
      }
  return OkStatus();
}

Node* GraphRewriter::Copy(const Node& n) {
  Node* copy = to_->CopyNode(n, MapInputs(n), MapControl(n));
  for (int i = 0; i < n.num_outputs(); ++i) outputs_[Output(const_cast<Node*>(&n), i)] = Output(copy, i);
  nodes_[&n] = copy;
  for (const Output& in : copy->inputs())
    if (!in) {
      merges_.emplace_back(&n, copy);
      break;
    }
  return copy;
}

void GraphRewriter::Replace(const Node& n, int i, Output replacement) {
  outputs_[Output(const_cast<Node*>(&n), i)] = replacement;
}

void GraphRewriter::ReplaceControl(const Node& n, Node* by) { nodes_[&n] = by; }

Output GraphRewriter::Map(const Output& o) const {
  auto it = outputs_.find(o);
  return it == outputs_.end() ? Output() : it->second;
}

std::vector<Output> GraphRewriter::MapInputs(const Node& n) const {
  std::vector<Output> out;
  out.reserve(n.inputs().size());
  for (const Output& in : n.inputs()) out.push_back(Map(in));
  return out;
}

std::vector<Node*> GraphRewriter::MapControl(const Node& n) const {
  std::vector<Node*> out;
  for (const Node* c : n.control_inputs()) {
    auto it = nodes_.find(c);
    Node* to = it == nodes_.end() ? nullptr : it->second;
    if (to != nullptr && std::find(out.begin(), out.end(), to) == out.end())
      out.push_back(to);
  }
  return out;
}

}  // namespace sluice
