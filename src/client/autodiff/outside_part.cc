// The node itself, and what becomes of it where its function is called.
#include "client/autodiff/outside_part.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "client/autodiff/gradient_values.h"
#include "client/autodiff/gradients.h"
#include "client/body_captures.h"
#include "graph/builder.h"
#include "graph/call_hook.h"
#include "graph/control_flow.h"
#include "graph/control_flow_recovery.h"
#include "graph/frames.h"
#include "graph/function.h"
#include "graph/hidden_attributes.h"
#include "passes/lower_functional.h"

namespace sluice {
namespace {

AttrValue::Types TypesIn(const std::vector<Output>& outputs) {
  AttrValue::Types types;
  for (const Output& o : outputs) types.push_back(RemoveRef(o.dtype()));
  return types;
}

}  // namespace

bool IsOutsidePart(const Node& n) { return n.op_name() == kGradientOutsideOp; }

OutsidePart ReadOutsidePart(const Node& n) {
  OutsidePart part;
  int next = 0;
  for (const auto& [attr, list] :
       {std::pair{"Ty", &part.ys}, std::pair{"Tdy", &part.dys},
        std::pair{"Tx", &part.xs}, std::pair{"Tstop", &part.stops}})
    for (size_t k = n.AttrOr<AttrValue::Types>(attr, {}).size(); k > 0; --k)
      list->push_back(n.input(next++));
  part.is_outer = n.AttrOr<AttrValue::Bools>(kIsOuterAttr, {});
  return part;
}

Node* BuildOutsidePart(const OutsidePart& part) {
  std::vector<Output> inputs;
  for (const auto* list : {&part.ys, &part.dys, &part.xs, &part.stops})
    inputs.insert(inputs.end(), list->begin(), list->end());
  AttrValue::Types gradients;
  for (const Output& x : part.xs)
    gradients.push_back(RemoveRef(x.dtype()) == DType::kResource
                            ? VariableType(x)
                            : RemoveRef(x.dtype()));
  return BuildNode(kGradientOutsideOp, std::move(inputs),
                   {{"Ty", TypesIn(part.ys)},
                    {"Tdy", TypesIn(part.dys)},
                    {"Tx", TypesIn(part.xs)},
                    {"Tstop", TypesIn(part.stops)},
                    {"Tout", gradients},
                    {kIsOuterAttr, AttrValue(part.is_outer)}},
                   "gradients_outside");
}

// ---- Where the function is called -------------------------------------------

namespace {

// Whether the body of a function that a node calls has such nodes. (Those of
// the functions that the body itself calls became nodes of the body.)
bool CallsOutsidePart(const Node& call) {
  bool found = false;
  const auto look = [&](const FunctionRef& f) {
    const Result<const FunctionBody*> body =
        call.graph()->function_library().Instantiate(f);
    if (!body.ok()) return;  // (Reported where it is needed.)
    for (const Node* n : (*body)->order) found = found || IsOutsidePart(*n);
  };
  if (KindOfCall(call) == CallKind::kCall) {
    int first = 0;
    look(CalledFunction(call, &first));
  } else {
    for (const auto& [name, value] : call.attrs()) ForEachFunction(value, look);
  }
  return found;
}

// The inlined call of one function with such nodes.
class InlinedCall {
 public:
  explicit InlinedCall(Node* call) : graph_(*call->graph()), call_(call) {}

  Status Run() {
    SLUICE_RETURN_IF_ERROR(RecoverControlFlow(&graph_));
    SLUICE_RETURN_IF_ERROR(SeparateArguments());
    const auto first = static_cast<size_t>(graph_.num_nodes());
    SLUICE_RETURN_IF_ERROR(LowerInPlace(graph_, call_));
    SLUICE_RETURN_IF_ERROR(RecoverControlFlow(&graph_));
    std::vector<Node*> inlined;
    for (size_t i = first; i < graph_.nodes().size(); ++i)
      if (IsOutsidePart(*graph_.nodes()[i]))
        inlined.push_back(graph_.nodes()[i].get());
    for (Node* const n : inlined) SLUICE_RETURN_IF_ERROR(Replace(n));
    return OkStatus();
  }

 private:
  // Puts an identity before each input of the call: the argument. Gradients
  // with respect to it are not those of the value that is passed, which the
  // body may also have captured.
  Status SeparateArguments() {
    const ContextScope there(ContextOf(call_));
    const AtLine at(call_->loc());
    const NameScope scope(call_->name());
    for (int i = 0; i < call_->num_inputs(); ++i) {
      const Output value = call_->input(i);
      SLUICE_ASSIGN_OR_RETURN(
          const Output argument,
          Built(Build("Identity", {value}, {}, "argument")));
      passed_.emplace(argument.node, value);
      SLUICE_RETURN_IF_ERROR(graph_.ReplaceInput(call_, i, argument));
    }
    return OkStatus();
  }

  // The outer value that an argument stands for, of the outermost graph,
  // loop and branch that it was captured from.
  Output SourceOf(Output o) const {
    for (;;) {
      const Node* const n = o.node;
      if (const auto it = passed_.find(n); it != passed_.end()) {
        o = it->second;
      } else if (IsConstantEnter(*n) ||
                 (n->op().role == OpRole::kSwitch &&
                  graph_.control_flow().ConditionalOf(n) != nullptr)) {
        o = n->input(0);
      } else {
        const BodyCaptures* const body = BodyCaptures::Of(n->graph());
        const Output outside = body == nullptr ? Output() : body->Outside(o);
        if (!outside.valid()) return o;
        o = outside;
      }
    }
  }

  // Replaces an inlined node by the gradients that it stands for.
  Status Replace(Node* n) {
    const OutsidePart part = ReadOutsidePart(*n);
    ControlFlowContext* const context = ContextOf(n);
    const ContextScope there(context);
    const AtLine at(n->loc());
    const NameScope scope(n->name());
    GradientOptions options;
    options.grad_ys.assign(part.dys.begin(), part.dys.end());
    std::vector<GradTarget> xs;
    size_t next = 0;
    const auto meant = [&](const Output& o) {
      return part.is_outer[next++] ? SourceOf(o) : o;
    };
    for (const Output& x : part.xs) xs.emplace_back(meant(x));
    for (const Output& s : part.stops)
      options.stop_gradients.push_back(meant(s));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Gradient> grads,
                            Gradients(part.ys, xs, options, {}));
    std::vector<Output> values;
    for (size_t i = 0; i < grads.size(); ++i) {
      const Output& x = part.xs[i];
      SLUICE_ASSIGN_OR_RETURN(
          const Output dense,
          Built(grads[i] ? Densify(grads[i], x) : ZerosFor(x)));
      SLUICE_ASSIGN_OR_RETURN(values.emplace_back(), Capture(context, dense));
    }
    return graph_.TurnIntoIdentity(n, std::move(values), {});
  }

  Graph& graph_;
  Node* const call_;
  std::unordered_map<const Node*, Output> passed_;  // By argument.
};

Status InlineIfOutside(Node* call) {
  if (!CallsOutsidePart(*call)) return OkStatus();
  if (!CanLowerInPlace(*call) ||
      call->FindAttr(kGradientOpTypeAttr) != nullptr ||
      KindOfCall(*call) == CallKind::kGradient)
    return Unimplemented(
        "function: expected no gradients that go on outside of the body of a "
        "function that calls itself, has a gradient of its own, or is "
        "differentiated by SymbolicGradient, got one; hint: pass what they go "
        "through as arguments; ",
        call->Describe());
  return InlinedCall(call).Run();
}

[[maybe_unused]] const bool inlines_calls = [] {
  SetCallHook(InlineIfOutside);
  return true;
}();

}  // namespace

}  // namespace sluice
