#include "graph/deferred_sums.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/control_flow.h"
#include "graph/graph.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

struct DeferredTermForm {
  DeferredTermBuilder build = nullptr;
  bool has_sum = false;
};

// Filled by static initialisers, in any order.
std::map<std::string_view, DeferredTermForm>& DeferredTermForms() {
  static auto* forms = new std::map<std::string_view, DeferredTermForm>;
  return *forms;
}

// Without a builder if the op has none.
DeferredTermForm DeferredTermFormOf(const Node& n) {
  const auto it = DeferredTermForms().find(n.op_name());
  return it == DeferredTermForms().end() ? DeferredTermForm() : it->second;
}

bool IsZeros(const Node& n) {
  if (n.kind() == OpKind::kZerosLike) return true;
  const bool fill = n.kind() == OpKind::kFill;
  if (!fill && n.op().role != OpRole::kConst) return false;
  const std::optional<Tensor> value =
      ConstantValue(fill ? n.input(1) : Output(const_cast<Node*>(&n)));
  if (!value.has_value() || value->num_elements() > 64) return false;
  const Result<Tensor> zeros = Tensor::Zeros(value->dtype(), value->shape());
  return zeros.ok() && value->Identical(*zeros);
}

// The branch of `cond` that the value belongs to; `otherwise` for neither.
int BranchOr(const Output& value, const Conditional* cond, int otherwise) {
  for (ControlFlowContext* c = ContextOf(value); c != nullptr; c = c->outer())
    if (c->AsCond() != nullptr && c->AsCond()->conditional() == cond)
      return c->AsCond()->branch();
  return otherwise;
}

// The summands that a node passes on: those of a sum, or of the branches.
bool IsSumOfInputs(const Node& n) {
  return n.kind() == OpKind::kAddN || n.op().role == OpRole::kMerge ||
         n.op().role == OpRole::kIdentity;
}

}  // namespace

DeferredTermRegistrar::DeferredTermRegistrar(const char* op,
                                             DeferredTermBuilder build,
                                             bool has_sum) {
  DeferredTermForms().emplace(op, DeferredTermForm{build, has_sum});
}

Output DeferredSums::Of(const Output& dense, int depth) {
  if (const auto it = made_.find(dense); it != made_.end()) return it->second;
  const Output sum = Make(dense, depth);
  made_[dense] = sum;
  return sum;
}

Output DeferredSums::Make(const Output& dense, int depth) {
  Node* const n = dense.node;
  const AtLine at(n->loc());
  if (n->op().role == OpRole::kMerge && depth < kMaxDepth) {
    const Output merged = OfMerge(dense, depth);
    if (merged.valid()) return merged;
  }
  const ContextScope there(ContextOf(dense));
  if (n->op().role == OpRole::kIdentity && n->control_inputs().empty() &&
      depth < kMaxDepth)
    return Of(n->input(0), depth + 1);
  if (n->kind() == OpKind::kAddN && depth < kMaxDepth) {
    std::vector<Output> sums;
    for (const Output& in : n->inputs()) sums.push_back(Of(in, depth + 1));
    return Build("DeferredAdd", std::move(sums), {}, "", {});
  }
  if (IsZeros(*n)) return Build("DeferredNone", {}, {}, "", {});
  if (const DeferredTermBuilder build = DeferredTermFormOf(*n).build)
    if (const std::optional<Output> term = build(*n)) return *term;
  return Build("DeferredSum", {dense}, {}, "", {});
}

// Null if it is no merge of a conditional's branches.
Output DeferredSums::OfMerge(const Output& dense, int depth) {
  Node* const n = dense.node;
  Conditional* const cond = n->graph()->control_flow().ConditionalOf(n);
  if (cond == nullptr || n->num_inputs() != 2 || dense.index != 0)
    return Output();
  Output side[2];
  for (int i = 0; i < 2; ++i) {
    const int branch = BranchOr(n->input(i), cond, i);
    if (side[branch].node != nullptr) return Output();
    side[branch] = Of(n->input(i), depth + 1);
  }
  return Output(cond->AddMerge(side[0], side[1], n->loc()));
}

Output DeferredValueOf(const Output& sum, const Output& like) {
  const bool resource = RemoveRef(like.dtype()) == DType::kResource;
  const PartialShape known = resource ? VariableShape(like) : like.shape();
  Output shape;
  if (known.fully_known()) {
    shape = Constant(Tensor::Vector<int64_t>(std::vector<int64_t>(
                         known.dims().begin(), known.dims().end())),
                     "", {});
  } else {
    shape = Build(resource ? "VariableShape" : "Shape", {like},
                  {{"out_type", DType::kInt64}}, "", {});
  }
  DType type = RemoveRef(like.dtype());
  if (resource) {
    type = VariableDType(like);
    if (type == DType::kInvalid) type = DType::kFloat;
  }
  return Build("DeferredValue", {sum, shape}, {{"T", type}}, "", {});
}

bool HasDeferredTerm(const Output& dense) {
  constexpr size_t kMostNodes = 256;
  std::vector<const Node*> open = {dense.node};
  for (size_t i = 0; i < open.size() && i < kMostNodes; ++i) {
    const Node* const n = open[i];
    if (n == nullptr) continue;  // An open back edge.
    if (DeferredTermFormOf(*n).has_sum) return true;
    if (IsSumOfInputs(*n))
      for (const Output& in : n->inputs()) open.push_back(in.node);
  }
  return false;
}

}  // namespace sluice
