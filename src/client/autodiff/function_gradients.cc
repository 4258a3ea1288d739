#include "client/autodiff/function_gradients.h"

#include <unordered_map>
#include <unordered_set>

#include "client/autodiff/backprop.h"
#include "graph/control_flow_recovery.h"
#include "graph/function.h"
#include "graph/node_names.h"
#include "passes/lower_functional.h"

namespace sluice {
namespace {

// The gradient where none flows: zeros like the value.
Output NoGradientLike(const Output& x) {
  if (RemoveRef(x.dtype()) == DType::kString)
    return Build("Identity", {x}, {}, "", {});
  return Build("ZerosLike", {x}, {}, "", {});
}

// The type of the variable behind an argument: from the argument, or from the
// ops that read it.
DType VariableTypeOfArg(const FunctionBody& body, size_t i) {
  const DType told = ToldVariableType(*body.args[i]);
  if (told != DType::kInvalid) return told;
  std::unordered_set<const Node*> handles = {body.args[i]};
  for (const Node* n : body.order)
    for (const Output& in : n->inputs()) {
      if (handles.count(in.node) == 0) continue;
      if (n->FindAttr("dtype") != nullptr) return n->TypeAttr("dtype");
      if (n->op().role != OpRole::kCompute) handles.insert(n);
    }
  return DType::kFloat;
}

// g(x..., dy...) -> dx..., for f(x...) -> y...: contains the nodes of f and of
// its gradients.
Status BuildGradient(const FunctionBody& f, FunctionBody* out) {
  Graph& g = *out->graph;
  const WithGraph use(g);
  std::unordered_map<const Node*, Node*> copies;
  std::vector<std::pair<const Node*, Node*>> open;
  for (const Node* n : f.order) {
    std::vector<Output> inputs;
    std::vector<Node*> controls;
    bool back = false;
    for (const Output& in : n->inputs()) {
      const auto it = copies.find(in.node);
      back = back || it == copies.end();
      inputs.push_back(it == copies.end() ? Output()
                                          : Output(it->second, in.index));
    }
    for (const Node* c : n->control_inputs()) controls.push_back(copies.at(c));
    Node* copy = g.CopyNode(*n, std::move(inputs), std::move(controls));
    copies.emplace(n, copy);
    if (back) open.emplace_back(n, copy);
  }
  for (const auto& [n, copy] : open)
    for (int i = 0; i < n->num_inputs(); ++i)
      if (!copy->input(i).valid())
        SLUICE_RETURN_IF_ERROR(g.SetBackEdge(
            copy, i, Output(copies.at(n->input(i).node), n->input(i).index)));
  TakeScopes(&g);
  std::vector<Output> ys, dys;
  std::vector<GradTarget> xs;
  for (size_t i = 0; i < f.args.size(); ++i) {
    Node* arg = copies.at(f.args[i]);
    out->args.push_back(arg);
    xs.push_back(Output(arg));
    if (arg->output_type(0) == DType::kResource)
      TellVariable(&g, arg, VariableTypeOfArg(f, i), ToldVariableShape(*arg));
  }
  for (const Output& result : f.results) {
    Node* dy = BuildNode("_Arg", {},
                         {{"T", RemoveRef(result.dtype())},
                          {"index", static_cast<int64_t>(out->args.size())}},
                         "dy");
    if (dy == nullptr) return g.status();
    out->args.push_back(dy);
    SLUICE_RETURN_IF_ERROR(g.SetShape(Output(dy), result.shape()));
    if (!IsDifferentiable(result.dtype())) continue;
    ys.emplace_back(copies.at(result.node), result.index);
    dys.emplace_back(dy);
  }
  std::vector<Gradient> grads(xs.size());
  if (!ys.empty()) {
    GradientOptions options;
    options.grad_ys.assign(dys.begin(), dys.end());
    SLUICE_ASSIGN_OR_RETURN(grads, Gradients(ys, xs, options));
  }
  for (size_t i = 0; i < xs.size(); ++i) {
    const Output x = xs[i].output;
    const DType t = RemoveRef(x.dtype());
    Output dx = IsDifferentiable(t) ? Densify(grads[i], x) : Output();
    if (!dx.valid() && t == DType::kResource) {
      const Output zero = ScalarOf(VariableTypeOfArg(f, i), 0, {});
      dx = Build("Fill", {Build("VariableShape", {x}, {}, "", {}), zero}, {},
                 "", {});
    } else if (!dx.valid()) {
      dx = NoGradientLike(x);
    }
    if (!dx.valid()) return g.status();
    out->results.push_back(dx);
  }
  return g.status();
}

[[maybe_unused]] const bool installed = [] {
  SetGradientBuilder(BuildGradient);
  return true;
}();

// The function that a node calls, whose arguments are the inputs from `first`
// on.
FunctionRef FunctionOf(const Node& n, int* first) {
  if (KindOfCall(n) != CallKind::kGradient) return CalledFunction(n, first);
  *first = 0;
  return FunctionRef{n.op_name(), std::make_shared<AttrMap>(
                                      AttrMap{{"Tin", *n.FindAttr("Tin")},
                                              {"Tout", *n.FindAttr("Tout")},
                                              {"f", *n.FindAttr("f")}})};
}

}  // namespace

Status CallGradient(GradContext& c) {
  int first = 0;
  const FunctionRef f = FunctionOf(*c.op, &first);
  std::vector<Output> inputs(c.op->inputs().begin() + first,
                             c.op->inputs().end());
  AttrValue::Types dx_types;
  for (const Output& in : inputs) {
    const DType t = RemoveRef(in.dtype());
    const DType of_variable =
        t == DType::kResource ? VariableType(in) : DType::kInvalid;
    dx_types.push_back(of_variable != DType::kInvalid ? of_variable
                       : t == DType::kResource        ? DType::kFloat
                                                      : t);
  }
  for (int i = 0; i < c.op->num_outputs(); ++i)
    inputs.push_back(c.dy[static_cast<size_t>(i)].valid()
                         ? c.dy[static_cast<size_t>(i)]
                         : NoGradientLike(c.output(i)));
  Node* g = BuildNode("SymbolicGradient", std::move(inputs),
                      {{"f", f}, {"Tout", dx_types}});
  if (g == nullptr) return OkStatus();  // The graph has the error.
  for (int i = 0; i < g->num_outputs(); ++i)
    if (IsDifferentiable(c.op->input_type(first + i)))
      c.grads[static_cast<size_t>(first + i)] = Output(g, i);
  return OkStatus();
}

Status LowerForGradients(const std::vector<Output>& ys,
                         const std::vector<Output>& xs) {
  Graph& g = CurrentGraph();
  for (const auto* list : {&ys, &xs})
    for (const Output& o : *list)  // Invalid outputs are reported elsewhere.
      if (!o.valid() || o.graph() != &g || o.dtype() == DType::kInvalid)
        return OkStatus();
  std::vector<uint8_t> needed(static_cast<size_t>(g.num_nodes())),
      reached(needed.size());
  std::vector<std::vector<Node*>> consumers(needed.size());
  std::vector<Node*> open, functional;
  const auto mark = [&open](std::vector<uint8_t>& set, Node* n) {
    uint8_t& m = set[static_cast<size_t>(n->id())];
    if (m == 0) open.push_back(n);
    m = 1;
  };
  for (const Output& y : ys) mark(needed, y.node);
  while (!open.empty()) {
    Node* n = open.back();
    open.pop_back();
    if (n->op().role == OpRole::kFunctional) functional.push_back(n);
    for (const Output& in : n->inputs())
      if (in.node != nullptr) {
        consumers[static_cast<size_t>(in.node->id())].push_back(n);
        mark(needed, in.node);
      }
  }
  if (functional.empty()) return OkStatus();
  // Inlined nodes belong to the context of the node that they replace.
  SLUICE_RETURN_IF_ERROR(RecoverControlFlow(&g));
  for (const Output& x : xs) mark(reached, x.node);
  while (!open.empty()) {
    Node* n = open.back();
    open.pop_back();
    for (Node* c : consumers[static_cast<size_t>(n->id())]) mark(reached, c);
  }
  for (Node* n : functional)
    if (reached[static_cast<size_t>(n->id())] != 0 && CanLowerInPlace(*n))
      SLUICE_RETURN_IF_ERROR(LowerInPlace(g, n));
  return OkStatus();
}

}  // namespace sluice
