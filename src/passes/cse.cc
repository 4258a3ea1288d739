#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace sluice {
namespace {

bool Mergeable(const Node& n) {
  if (n.op().stateful || n.num_outputs() == 0) return false;
  switch (n.op().role) {
    case OpRole::kCompute:
    case OpRole::kConst:
    case OpRole::kIdentity:
      break;
    default:
      return false;
  }
  // A Placeholder that is not fed must name itself.
  if (n.num_inputs() == 0 && n.op().role != OpRole::kConst) return false;
  for (int i = 0; i < n.num_outputs(); ++i)
    if (IsRef(n.output_type(i)) || n.output_type(i) == DType::kResource) return false;
  for (const Output& in : n.inputs())  // What a reference holds may change.
    if (IsRef(in.dtype())) return false;
  return true;
}

// Everything but the attributes, as bytes.
std::string Key(const Node& n, std::vector<Output> inputs,
                std::vector<Node*> control) {
  auto less = [](const Output& a, const Output& b) {
    return a.node->id() != b.node->id() ? a.node->id() < b.node->id()
                                        : a.index < b.index;
  };
  if (n.op().commutative) std::sort(inputs.begin(), inputs.end(), less);
  std::sort(control.begin(), control.end(),
            [](const Node* a, const Node* b) { return a->id() < b->id(); });
  std::string key = absl::StrCat(n.op_name(), "|", n.device());
  for (const Output& o : inputs) absl::StrAppend(&key, "|", o.node->id(), ":", o.index);
  for (const Node* c : control) absl::StrAppend(&key, "|^", c->id());
  if (const AttrValue* v = n.FindAttr("value"))
    if (const Tensor* t = v->get<Tensor>())
      absl::StrAppend(&key, "|", DTypeName(t->dtype()), t->shape().ToString(),
                      t->Summarize(4));
  return key;
}

bool SameAttrs(const Node& a, const Node& b) {
  return a.attrs().size() == b.attrs().size() && a.attrs() == b.attrs();
}

}  // namespace

Result<std::unique_ptr<Graph>> MergeCommonSubexpressions(const Graph& graph) {
  auto out = std::make_unique<Graph>();
  out->producer_version = graph.producer_version;
  out->functions() = graph.functions();
  GraphRewriter rewriter(graph, out.get());
  std::unordered_map<std::string, std::vector<Node*>> seen;
  SLUICE_RETURN_IF_ERROR(rewriter.Run([&](const Node& n) -> Status {
    if (!Mergeable(n)) {
      rewriter.Copy(n);
      return OkStatus();
    }
    std::vector<Node*>& same =
        seen[Key(n, rewriter.MapInputs(n), rewriter.MapControl(n))];
    for (Node* m : same)
      if (SameAttrs(n, *m)) {
        for (int i = 0; i < n.num_outputs(); ++i) rewriter.Replace(n, i, Output(m, i));
        rewriter.ReplaceControl(n, m);
        return OkStatus();
      }
    same.push_back(rewriter.Copy(n));
    return OkStatus();
  }));
  return out;
}

}  // namespace sluice
