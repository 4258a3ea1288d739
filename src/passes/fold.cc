#include "graph/shape_context.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace sluice {
namespace {

constexpr size_t kMaxBytes = 10 << 20;

bool Foldable(const Node& n) {
  if (n.op().stateful || n.num_outputs() == 0 || !n.control_inputs().empty())
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

// Ops that only read the shape of their input.
bool ReadsOnlyShape(const Node& n) {
  const std::string& op = n.op_name();
  return op == "Shape" || op == "ShapeN" || op == "Size" || op == "Rank";
}

}  // namespace

Result<std::unique_ptr<Graph>> FoldConstants(const Graph& graph,
                                             const Evaluator& evaluate) {
  auto out = std::make_unique<Graph>();
  out->producer_version = graph.producer_version;
  out->functions() = graph.functions();
  GraphRewriter rewriter(graph, out.get());
  // Nodes downstream of control flow: dead in some steps.
  std::vector<uint8_t> may_be_dead(graph.nodes().size(), 0);

  auto constant_of = [&](const Output& o) -> const Tensor* {
    const Output now = rewriter.Map(o);
    if (!now || now.node->op().role != OpRole::kConst ||
        !now.node->control_inputs().empty())
      return nullptr;
    const AttrValue* v = now.node->FindAttr("value");
    return v == nullptr ? nullptr : v->get<Tensor>();
  };
  auto fold = [&](const Node& n, std::vector<Tensor> values) {
    for (int i = 0; i < n.num_outputs(); ++i) {
      NodeSpec c;
      c.op = "Const";
      c.name = out->UniqueName(i == 0 ? n.name() : absl::StrCat(n.name(), "/folded_", i));
      const DType t = values[static_cast<size_t>(i)].dtype();
      c.attrs = {{"value", std::move(values[static_cast<size_t>(i)])}, {"dtype", t}};
      c.device = n.device();
      c.loc = n.loc();
      SLUICE_ASSIGN_OR_RETURN(Node * node, out->AddNode(std::move(c)));
      rewriter.Replace(n, i, Output(node));
    }
    // A constant is always there: nobody needs to wait for it.
    rewriter.ReplaceControl(n, nullptr);
    return OkStatus();
  };

  SLUICE_RETURN_IF_ERROR(rewriter.Run([&](const Node& n) -> Status {
    bool dead = n.op().role == OpRole::kSwitch || n.op().role == OpRole::kEnter ||
                n.op().role == OpRole::kMerge;
    for (const Output& in : n.inputs())
      dead = dead || may_be_dead[static_cast<size_t>(in.node->id())] != 0;
    for (const Node* c : n.control_inputs())
      dead = dead || may_be_dead[static_cast<size_t>(c->id())] != 0;
    may_be_dead[static_cast<size_t>(n.id())] = dead;

    if (Foldable(n)) {
      std::vector<Tensor> inputs;
      for (const Output& in : n.inputs())
        if (const Tensor* t = constant_of(in)) inputs.push_back(*t);
      Result<std::vector<Tensor>> values = NotFound("");
      if (inputs.size() == static_cast<size_t>(n.num_inputs()) && n.num_inputs() > 0) {
        values = evaluate(n, std::move(inputs));
      } else if (!dead && ReadsOnlyShape(n)) {
        std::vector<Tensor> known;
        for (int i = 0; i < n.num_outputs(); ++i)
          if (std::optional<Tensor> t = ConstantValue(Output(const_cast<Node*>(&n), i)))
            known.push_back(*std::move(t));
        if (known.size() == static_cast<size_t>(n.num_outputs())) values = known;
      }
      if (values.ok()) {
        size_t bytes = 0;
        for (const Tensor& t : *values) bytes += t.bytes();
        if (bytes <= kMaxBytes) return fold(n, *std::move(values));
      }
    }
    rewriter.Copy(n);
    return OkStatus();
  }));
  return out;
}

}  // namespace sluice
