#include <algorithm>

#include "graph/shape_context.h"
#include "passes/passes.h"

namespace sluice {
namespace {

constexpr size_t kMaxBytes = 10 << 20;

bool Foldable(const Node& n) {
  const OpFacts& facts = n.op().facts;
  if (facts.not_foldable || facts.has_effects || facts.has_identity ||
      facts.waits || n.op().host_reach != nullptr || n.num_outputs() == 0 ||
      !n.control_inputs().empty())
    return false;
  if (n.op().role != OpRole::kCompute && n.op().role != OpRole::kIdentity)
    return false;
  for (int i = 0; i < n.num_outputs(); ++i) {
    const DType t = n.output_type(i);
    if (IsRef(t) || t == DType::kResource || t == DType::kVariant) return false;
  }
  for (const Output& in : n.inputs())
    if (IsRef(in.dtype())) return false;
  for (int i = 0; i < n.num_outputs(); ++i) {  // Not worth computing first.
    const int64_t elements = n.output_shape(i).num_elements();
    if (elements > static_cast<int64_t>(kMaxBytes)) return false;
  }
  return true;
}

// Null if the value is unknown, or ordered after another node.
const Tensor* ConstantOf(const Output& o) {
  if (o.node->op().role != OpRole::kConst || !o.node->control_inputs().empty())
    return nullptr;
  const AttrValue* v = o.node->FindAttr("value");
  return v == nullptr ? nullptr : v->get<Tensor>();
}

class Folder {
 public:
  Folder(Graph* graph, const Evaluator& evaluate)
      : graph_(graph), evaluate_(evaluate) {}

  Status Run() {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                            TopologicalOrder(*graph_));
    may_be_dead_.resize(order.size(), 0);
    folded_.resize(order.size(), 0);
    for (Node* n : order) SLUICE_RETURN_IF_ERROR(Visit(n));
    return OkStatus();
  }

 private:
  // Nodes that folding adds have no mark.
  static bool At(const std::vector<uint8_t>& marks, const Node* n) {
    const auto id = static_cast<size_t>(n->id());
    return id < marks.size() && marks[id] != 0;
  }

  Status Visit(Node* n) {
    SLUICE_RETURN_IF_ERROR(ReadWhatWasFolded(n));
    const OpRole role = n->op().role;
    bool dead = role == OpRole::kSwitch || role == OpRole::kEnter ||
                role == OpRole::kMerge;
    for (const Output& in : n->inputs())
      dead = dead || At(may_be_dead_, in.node);
    for (const Node* c : n->control_inputs())
      dead = dead || At(may_be_dead_, c);
    may_be_dead_[static_cast<size_t>(n->id())] = dead;
    if (!Foldable(*n)) return OkStatus();
    const Result<std::vector<Tensor>> values = Compute(*n, dead);
    if (!values.ok() || values->empty()) return OkStatus();
    size_t bytes = 0;
    for (const Tensor& t : *values) bytes += t.bytes();
    return bytes <= kMaxBytes ? Fold(n, *values) : OkStatus();
  }

  // Redirects inputs from outputs that became separate nodes, and drops control
  // edges from constants, which are always available.
  Status ReadWhatWasFolded(Node* n) {
    for (int i = 0; i < n->num_inputs(); ++i) {
      const Output in = n->input(i);
      if (in.index == 0 || !At(folded_, in.node)) continue;
      SLUICE_RETURN_IF_ERROR(
          graph_->ReplaceInput(n, i, Output(others_.at(in))));
    }
    const std::vector<Node*>& control = n->control_inputs();
    auto was_folded = [this](const Node* c) { return At(folded_, c); };
    if (std::any_of(control.begin(), control.end(), was_folded)) {
      std::vector<Node*> rest = control;
      std::erase_if(rest, was_folded);
      graph_->SetControlInputs(n, std::move(rest));
    }
    return OkStatus();
  }

  // Empty if the values are unknown.
  Result<std::vector<Tensor>> Compute(const Node& n, bool dead) const {
    std::vector<Tensor> known;
    const bool all =
        std::all_of(n.inputs().begin(), n.inputs().end(),
                    [](const Output& in) { return ConstantOf(in) != nullptr; });
    if (all && n.num_inputs() > 0) {
      for (const Output& in : n.inputs()) known.push_back(*ConstantOf(in));
      return evaluate_(n, std::move(known));
    }
    if (dead || !ReadsOnlyShapes(n.kind())) return known;
    for (int i = 0; i < n.num_outputs(); ++i) {
      std::optional<Tensor> t = ConstantValue(Output(const_cast<Node*>(&n), i));
      if (!t) return std::vector<Tensor>();
      known.push_back(*std::move(t));
    }
    return known;
  }

  Status Fold(Node* n, const std::vector<Tensor>& values) {
    for (size_t i = 1; i < values.size(); ++i) {
      NodeSpec c;
      c.op = "Const";
      c.name = graph_->UniqueName(absl::StrCat(n->name(), "/folded_", i));
      c.attrs = {{"value", values[i]}, {"dtype", values[i].dtype()}};
      c.device = n->device();
      c.loc = n->loc();
      SLUICE_ASSIGN_OR_RETURN(Node * other, graph_->AddNode(std::move(c)));
      others_.emplace(Output(n, static_cast<int>(i)), other);
    }
    folded_[static_cast<size_t>(n->id())] = 1;
    return graph_->TurnIntoConstant(n, values[0]);
  }

  Graph* const graph_;
  const Evaluator& evaluate_;
  // By id. Downstream of control flow: dead in some steps.
  std::vector<uint8_t> may_be_dead_;
  std::vector<uint8_t> folded_;
  // The constants of outputs other than 0 of folded nodes.
  OutputMap<Node*> others_;
};

}  // namespace

Status FoldConstants(Graph* graph, const Evaluator& evaluate) {
  return Folder(graph, evaluate).Run();
}

}  // namespace sluice
