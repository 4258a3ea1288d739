#include <algorithm>

#include "passes/passes.h"

namespace sluice {
namespace {

// Accumulates the matrix products among the terms of an AddN in place, in the
// buffer of the first one.
class ProductSummer {
 public:
  explicit ProductSummer(Graph* graph)
      : graph_(graph), readers_(graph->nodes().size()) {
    for (const auto& n : graph->nodes()) {
      for (const Output& in : n->inputs()) ++readers_[Id(in.node)];
      for (const Node* c : n->control_inputs()) readers_[Id(c)] += kMany;
    }
  }

  // The replacement of the sum; null if it is kept.
  Result<Output> Replace(const Node& sum) {
    if (sum.kind() != OpKind::kAddN || !sum.control_inputs().empty() ||
        readers_[Id(&sum)] >= kMany)
      return Output();
    std::vector<Output> others;
    std::vector<const Node*> products;
    for (const Output& in : sum.inputs()) {
      if (IsProductOf(sum, in)) {
        products.push_back(in.node);
      } else {
        others.push_back(in);
      }
    }
    // (A single product next to several other terms would only add a pass over
    // them.)
    if (products.empty() || (products.size() == 1 && others.size() > 1))
      return Output();
    if (others.empty()) {
      others.emplace_back(const_cast<Node*>(products[0]), 0);
      products.erase(products.begin());
    }
    Output so_far = others[0];
    if (others.size() > 1) {
      const auto n = static_cast<int64_t>(others.size());
      SLUICE_ASSIGN_OR_RETURN(so_far,
                              Add(sum, "AddN", std::move(others), {{"N", n}}));
    }
    for (const Node* p : products) {
      const AttrMap sides = {{"transpose_a", p->BoolAttr("transpose_a")},
                             {"transpose_b", p->BoolAttr("transpose_b")}};
      SLUICE_ASSIGN_OR_RETURN(
          so_far,
          Add(*p, "MatMulAdd", {p->input(0), p->input(1), so_far}, sides));
    }
    return so_far;
  }

 private:
  static constexpr int kMany = 1 << 20;  // More than one.
  static size_t Id(const Node* n) { return static_cast<size_t>(n->id()); }

  // A product without other readers that waits only for its factors.
  bool IsProductOf(const Node& sum, const Output& term) const {
    const Node& n = *term.node;
    const DType t = term.dtype();
    return n.kind() == OpKind::kMatMul && readers_[Id(&n)] == 1 &&
           n.control_inputs().empty() && n.device() == sum.device() &&
           (t == DType::kFloat || t == DType::kDouble) &&
           !IsRef(n.input(0).dtype()) && !IsRef(n.input(1).dtype());
  }

  // Adds a node in the place of `like`.
  Result<Output> Add(const Node& like, const char* op,
                     std::vector<Output> inputs, AttrMap attrs) {
    NodeSpec spec;
    spec.op = op;
    spec.name = graph_->UniqueName(like.name() + "/sum");
    spec.device = like.device();
    spec.loc = like.loc();
    spec.attrs = std::move(attrs);
    spec.attrs["T"] = AttrValue(like.TypeAttr("T"));
    spec.inputs = std::move(inputs);
    SLUICE_ASSIGN_OR_RETURN(Node * made, graph_->AddNode(std::move(spec)));
    return Output(made, 0);
  }

  Graph* const graph_;
  std::vector<int> readers_;  // By id: edges out; a control edge counts kMany.
};

}  // namespace

Status AccumulateProducts(Graph* graph) {
  const auto is_sum = [](const auto& n) { return n->kind() == OpKind::kAddN; };
  if (std::none_of(graph->nodes().begin(), graph->nodes().end(), is_sum))
    return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                          TopologicalOrder(*graph));
  ProductSummer summer(graph);
  std::vector<Output> instead(order.size());  // By id; null: itself.
  for (Node* n : order) {
    for (int i = 0; i < n->num_inputs(); ++i)
      if (const Output o = instead[static_cast<size_t>(n->input(i).node->id())];
          o.valid())
        SLUICE_RETURN_IF_ERROR(graph->ReplaceInput(n, i, o));
    SLUICE_ASSIGN_OR_RETURN(instead[static_cast<size_t>(n->id())],
                            summer.Replace(*n));
  }
  return OkStatus();
}

}  // namespace sluice
