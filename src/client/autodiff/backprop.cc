#include "client/autodiff/backprop.h"

#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "base/without_throwing.h"
#include "client/autodiff/function_gradients.h"
#include "client/autodiff/gradient_errors.h"
#include "client/autodiff/loop_family.h"
#include "graph/builder.h"
#include "graph/control_flow_recovery.h"
#include "graph/frames.h"
#include "graph/function.h"
#include "graph/gradient_scope.h"
#include "graph/graph.h"
#include "graph/hidden_attributes.h"
#include "graph/none_output.h"
#include "graph/tensor_store_info.h"

namespace sluice {
namespace {

// A node of a scheduled body: its gradient is computed where it ran.
bool IsScheduled(const Node& n) {
  return n.FindAttr(kScheduledAttr) != nullptr;
}

Status ValidateArguments(Graph* graph, const std::vector<Output>& ys,
                         const std::vector<Output>& xs,
                         const GradientOptions& options) {
  const auto check_one = [graph](const Output& o, const char* what,
                                 size_t i) -> Status {
    if (!o.valid()) {
      const Status* const error = graph->ErrorOf(o);
      return error != nullptr
                 ? *error
                 : InvalidArgument("gradients: ", what, "[", i,
                                   "]: expected an output, got none",
                                   WhyNone(o));
    }
    if (o.graph() != graph)
      return InvalidArgument("gradients: ", what, "[", i,
                             "]: expected an output of the current graph, "
                             "got ",
                             o.name(), " of another");
    if (o.index < 0 || o.index >= o.node->num_outputs())
      return InvalidArgument("gradients: ", what, "[", i, "]: expected one of ",
                             o.node->num_outputs(), " outputs, got '", o.name(),
                             "'; ", o.node->Describe());
    return OkStatus();
  };
  const auto check = [&](const std::vector<Output>& list, const char* what) {
    Status status = OkStatus();
    for (size_t i = 0; i < list.size() && status.ok(); ++i)
      status = check_one(list[i], what, i);
    return status;
  };
  SLUICE_RETURN_IF_ERROR(check(ys, "ys"));
  SLUICE_RETURN_IF_ERROR(check(xs, "xs"));
  for (size_t i = 0; i < options.grad_ys.size(); ++i) {
    const Gradient& g = options.grad_ys[i];
    for (const Output& part : {g.dense, g.indices, g.values, g.dense_shape})
      if (part.valid()) SLUICE_RETURN_IF_ERROR(check_one(part, "grad_ys", i));
    if (g.is_sparse() && !g.indices.valid())
      return InvalidArgument("gradients: grad_ys[", i,
                             "]: expected indices of the slices, got none");
  }
  SLUICE_RETURN_IF_ERROR(check(options.stop_gradients, "stop_gradients"));
  if (options.grad_ys.size() > ys.size())
    return InvalidArgument("gradients: grad_ys: expected at most ", ys.size(),
                           " as there are ys, got ", options.grad_ys.size());
  return OkStatus();
}

std::vector<Output> OutputsOf(const std::vector<GradTarget>& xs) {
  std::vector<Output> outputs;
  for (const GradTarget& x : xs) outputs.push_back(x.output);
  return outputs;
}

}  // namespace

// A name for these gradients that no gradient array uses yet. (An imported
// graph or a function may contain such arrays.)
std::string NewGradientSource(const Graph& graph, const std::string& name) {
  std::set<std::string> taken;
  for (const auto& n : graph.nodes())
    if (n->kind() == OpKind::kTensorArrayGrad ||
        n->kind() == OpKind::kTensorArrayGradWithShape ||
        n->kind() == OpKind::kTensorStoreGrad)
      taken.insert(n->AttrOr<std::string>("source", ""));
  std::string source = name;
  for (int i = 1; taken.count(source) != 0; ++i)
    source = absl::StrCat(name, "_", i);
  return source;
}

Backprop::Backprop(const std::vector<Output>& ys,
                   const std::vector<GradTarget>& xs,
                   const GradientOptions& options, StoreScope* stores)
    : ys_(ys),
      xs_(OutputsOf(xs)),
      options_(options),
      scope_(*stores),
      graph_(&CurrentGraph()),
      errors_(graph_),
      paths_(graph_, ys_, xs_, options.stop_gradients, stores) {}

Result<std::vector<Gradient>> Backprop::Run() {
  SLUICE_RETURN_IF_ERROR(ValidateArguments(graph_, ys_, xs_, options_));
  if ((ys_.empty() && scope_.duals.empty()) || xs_.empty()) return Collect();
  SLUICE_RETURN_IF_ERROR(RecoverControlFlow(graph_));
  SLUICE_RETURN_IF_ERROR(LoopFamily::Recover(graph_));
  SLUICE_RETURN_IF_ERROR(paths_.Find());
  units_.Find();
  outermost_ = GradientLevel(paths_.base());
  const NameScope scope(options_.name);
  if (scope_.source.empty())
    scope_.source = NewGradientSource(*graph_, scope.prefix());
  const GradientScope call(scope_.source);
  SLUICE_RETURN_IF_ERROR(Seed());
  SLUICE_RETURN_IF_ERROR(Walk(outermost_));
  return Collect();
}

Status Backprop::Seed() {
  for (size_t i = 0; i < ys_.size(); ++i) {
    const Output& y = ys_[i];
    if (!paths_.Between(y.node)) continue;
    Gradient seed =
        i < options_.grad_ys.size() ? options_.grad_ys[i] : Gradient();
    SLUICE_ASSIGN_OR_RETURN(seed, SeedFor(y, seed));
    sums_.Add(y, seed);
  }
  return OkStatus();
}

Result<Gradient> Backprop::SeedFor(const Output& y, const Gradient& given) {
  const DType t = RemoveRef(y.dtype());
  if (given) {
    const Output values = given.is_sparse() ? given.values : given.dense;
    if (t != DType::kResource && RemoveRef(values.dtype()) != t)
      return InvalidArgument("gradients: grad_ys: expected ", DTypeName(t),
                             " as ", y.name(), ", got ",
                             DTypeName(values.dtype()));
    if (t != DType::kResource && !given.is_sparse() &&
        !values.shape().CompatibleWith(y.shape()))
      return InvalidArgument("gradients: grad_ys: expected shape ",
                             y.shape().ToString(), " as ", y.name(), ", got ",
                             values.shape().ToString());
    return given;
  }
  if (!IsFloating(t) && !IsInteger(t))
    return InvalidArgument(
        "gradients: expected ys of a real type where grad_ys is not given, "
        "got ",
        DTypeName(t), "; ", y.node->Describe());
  const ContextScope there(ContextOf(y));
  const AtLine at(y.node->loc());
  const Output ones = y.shape().rank() == 0
                          ? ScalarOf(t, 1)
                          : Build("OnesLike", {y}, {}, "", {});
  SLUICE_ASSIGN_OR_RETURN(const Output built, Built(ones));
  return Gradient(built);
}

// ---- The walk ---------------------------------------------------------------

Status Backprop::Walk(GradientLevel& level) {
  const std::vector<size_t>& units = units_.On(level.loop());
  stores_.Enter(&level);
  std::deque<size_t> ready;
  for (const size_t unit : units)
    if (units_.NumPending(unit) == 0) ready.push_back(unit);
  while (!ready.empty()) {
    const size_t unit = ready.front();
    ready.pop_front();
    Node* const node = units_.NodeOf(unit);
    SLUICE_RETURN_IF_ERROR(node != nullptr
                               ? VisitNode(node, level)
                               : loops_.Of(units_.LoopOf(unit), level));
    units_.Done(unit, &ready);
  }
  stores_.Leave();
  for (const size_t unit : units) {
    if (units_.NumPending(unit) <= 0) continue;
    const Node* const n = units_.NodeOf(unit);
    return InvalidArgument(
        "gradients: expected cycles through loops only, got one through ",
        n == nullptr ? "a loop" : n->Describe(),
        n == nullptr ? "" : "; path: " + PathThrough(paths_, n));
  }
  return OkStatus();
}

Status Backprop::VisitNode(Node* node, GradientLevel& level) {
  // (What reads an element is known when a step runs.)
  bool any = paths_.Writes(node), flows = false;
  for (int i = 0; i < node->num_outputs(); ++i)
    any = any || sums_.Has(Output(node, i));
  for (const Output& in : paths_.InputsOf(node))
    flows = flows || (in.valid() && paths_.Between(in.node) &&
                      IsDifferentiable(in.dtype()));
  if (!any || !flows || paths_.StopsAt(node) || paths_.IsLoopMover(node))
    return OkStatus();
  if (node->op().role == OpRole::kSwitch)
    return conditionals_.OfSwitch(node, level);
  if (node->op().role == OpRole::kMerge)
    return conditionals_.OfMerge(node, level);
  std::vector<Gradient> dy;
  {
    // (Other nodes may read its outputs elsewhere; their gradients are summed
    // here.)
    std::optional<ColocateWith> colocate;
    if (options_.colocate || IsScheduled(*node)) colocate.emplace(node);
    SLUICE_ASSIGN_OR_RETURN(dy, sums_.Totals(node, level));
  }
  if (const Output saved = LoopFamily::SavedValueOf(node); saved.valid()) {
    sums_.Add(saved, dy[0]);
    return OkStatus();
  }
  if (ReadsStore(*node) || WritesStore(*node))
    return DifferentiateStore(node, dy, level);
  if (node->op().role == OpRole::kFunctional) {
    const AtLine at(node->loc());
    std::vector<Output> duals;
    for (const int i : StoreInputs(*node)) {
      SLUICE_ASSIGN_OR_RETURN(duals.emplace_back(),
                              stores_.OfCall(node, i, level));
    }
    if (!duals.empty()) return Differentiate(node, dy, level, duals);
  }
  if (paths_.HasStacks() &&
      paths_.InputsOf(node).size() > node->inputs().size())
    return Unimplemented(
        "gradients: expected values of a loop that were saved by gradients of "
        "this library, got a stack's, whose order only its maker knows; ",
        node->Describe(), "; path: ", PathThrough(paths_, node));
  if (node->op().role == OpRole::kEnter) {
    // The gradient of a loop's constant is summed over all iterations; within
    // one iteration it is just the value.
    if (level.member() == nullptr) {
      sums_.Add(node->input(0), dy[0]);
      return OkStatus();
    }
    return IsConstantEnter(*node) ? OkStatus()  // Later, by WhileGradient.
                                  : Internal(
                                        "gradients: a loop variable's "
                                        "Enter on the way; ",
                                        node->Describe());
  }
  return Differentiate(node, dy, level);
}

Status Backprop::DifferentiateStore(Node* node, const std::vector<Gradient>& dy,
                                    GradientLevel& level) {
  const NameScope scope(node->name() + "_grad");
  const AtLine at(node->loc());
  if (WritesStore(*node)) {
    SLUICE_ASSIGN_OR_RETURN(const Output sum, stores_.OfWrite(node, level));
    std::vector<Gradient> grads(static_cast<size_t>(node->num_inputs()));
    grads[2] = Gradient(sum);
    return Distribute(node, std::move(grads));
  }
  Output dense;
  {
    ControlFlowContext* const place = level.Mirror(ContextOf(node));
    SLUICE_RETURN_IF_ERROR(errors_.First());
    const ContextScope there(place);
    dense = Densify(dy[0], Output(node));
  }
  SLUICE_RETURN_IF_ERROR(Built(dense).status());
  return stores_.OfRead(node, dense, level);
}

namespace {

// Ops that pass sparse gradients on unchanged.
bool ForwardsValue(const Node& n) {
  return (n.kind() == OpKind::kIdentity || n.kind() == OpKind::kReadVariable) &&
         n.FindAttr(kGradientOpTypeAttr) == nullptr;
}

void Gate(std::vector<Gradient>* grads) {
  std::vector<Node*> all;
  for (const Gradient& g : *grads)
    if (g) all.push_back(g.is_sparse() ? g.values.node : g.dense.node);
  if (all.size() < 2) return;
  const ControlDependencies after(all);
  for (Gradient& g : *grads) {
    if (g.is_sparse()) {
      g.values = Build("Identity", {g.values}, {}, "", {});
    } else if (g) {
      g.dense = Build("Identity", {g.dense}, {}, "", {});
    }
  }
}

}  // namespace

Status Backprop::Differentiate(Node* node, const std::vector<Gradient>& dy,
                               GradientLevel& level,
                               const std::vector<Output>& duals) {
  const Result<UserGradient> fn = FindGradient(*node);
  if (!fn.ok()) return NoGradientFor(paths_, node, fn.status());
  if (*fn == nullptr) return OkStatus();
  SLUICE_RETURN_IF_ERROR(node->CheckNoPlaceholders());
  if (IntegerGradients::On() && KindOfCall(*node) != CallKind::kNone)
    for (const Output& in : node->inputs())
      if (paths_.Between(in.node) && IsInteger(RemoveRef(in.dtype())))
        return Unimplemented(
            "gradients: expected no integers that are arguments of a function "
            "on the way, got '",
            in.name(), "'; ", node->Describe());
  ControlFlowContext* const place = level.Mirror(ContextOf(node));
  SLUICE_RETURN_IF_ERROR(errors_.First());
  const ContextScope there(place);
  std::optional<NameScope> scope;
  if (options_.op_scopes) scope.emplace(node->name() + "_grad");
  const std::optional<ColocateWith> colocate(
      options_.colocate || IsScheduled(*node)
          ? std::optional<ColocateWith>(std::in_place, node)
          : std::nullopt);
  const int first = paths_.graph()->num_nodes();
  const AtLine at(node->loc());
  GradContext c;
  c.op = node;
  c.grads.resize(static_cast<size_t>(node->num_inputs()));
  if (dy[0].is_sparse() && ForwardsValue(*node)) {
    c.grads[0] = dy[0];
  } else {
    for (size_t i = 0; i < dy.size(); ++i) {
      c.dy.push_back(Densify(dy[i], Output(node, static_cast<int>(i))));
      if (dy[i] && !c.dy.back().valid()) return Built(Output()).status();
    }
    Status s = WithoutThrowing("gradient", [&] {
      return duals.empty() ? (*fn)(c) : CallGradientWithStores(c, duals);
    });
    if (s.ok()) s = errors_.First();
    if (!s.ok())
      return Annotate(
          Status(s.code(), absl::StrCat(std::string(s.message()),
                                        "; path: ", PathThrough(paths_, node))),
          "gradient of " + node->Describe());
  }
  // (It may add to stores of gradients, whatever reads its outputs.)
  for (int id = first; !duals.empty() && id < paths_.graph()->num_nodes(); ++id)
    if (Node* const n = paths_.graph()->nodes()[static_cast<size_t>(id)].get();
        n->kind() == OpKind::kSavedGradient)
      stores_.Added(Output(n));
  // (So that the gradients of these are there, too.)
  if (const AttrValue* body = node->FindAttr(kScheduledAttr); body != nullptr)
    for (int id = first; id < paths_.graph()->num_nodes(); ++id)
      paths_.graph()->SetAttr(
          paths_.graph()->nodes()[static_cast<size_t>(id)].get(),
          kScheduledAttr, *body);
  return Distribute(node, std::move(c.grads));
}

// Checks the result of a gradient function and adds it to the inputs' sums.
Status Backprop::Distribute(Node* node, std::vector<Gradient> grads) {
  if (grads.size() != static_cast<size_t>(node->num_inputs()))
    return Internal("gradient of ", node->Describe(), ": expected ",
                    node->num_inputs(), " gradients, got ", grads.size());
  for (int i = 0; i < node->num_inputs(); ++i) {
    Gradient& g = grads[static_cast<size_t>(i)];
    if (!g) continue;
    const Output& in = node->input(i);
    if (!paths_.Between(in.node) || !IsDifferentiable(in.dtype())) {
      g = Gradient();
      continue;
    }
    SLUICE_RETURN_IF_ERROR(CheckGradient(*node, in, g));
  }
  if (options_.gate_ops) Gate(&grads);
  for (int i = 0; i < node->num_inputs(); ++i)
    if (grads[static_cast<size_t>(i)])
      sums_.Add(node->input(i), grads[static_cast<size_t>(i)]);
  return OkStatus();
}

Result<std::vector<Gradient>> Backprop::Collect() {
  std::vector<Gradient> result;
  // A loop that gradients reach returns one for each of its variables that the
  // ys depend on: zeros for variables without a gradient. (TensorFlow's loops
  // do, and programs fetch them.)
  const OutputSet stopped = paths_.IntoStoppedVariables();
  for (const Output& x : xs_) {
    if (sums_.Has(x) && !IsInside(paths_.base(), InnermostWhile(ContextOf(x))))
      return InvalidArgument(
          "gradients: expected xs outside of loops that do not contain the ys, "
          "got ",
          x.name(), " of loop '", InnermostWhile(ContextOf(x))->name(), "'");
    SLUICE_ASSIGN_OR_RETURN(Gradient g, sums_.Total(x, outermost_));
    // (The gradient of a store's handle is in the store of gradients.)
    if (!g && scope_.duals.count(x.node) == 0 &&
        (options_.unconnected == Unconnected::kZero || stopped.count(x) != 0)) {
      const AtLine at(x.node->loc());
      SLUICE_ASSIGN_OR_RETURN(g, Built(ZerosFor(x)));
    }
    result.push_back(g);
  }
  ExplainNone(paths_, sums_, &result);
  std::vector<Output> ends;
  for (const Gradient& g : result) {
    ends.push_back(g.dense);
    ends.push_back(g.indices);
    ends.push_back(g.values);
    ends.push_back(g.dense_shape);
  }
  ends.insert(ends.end(), stores_.added().begin(), stores_.added().end());
  LoopFamily::WriteFor(ends);
  SLUICE_RETURN_IF_ERROR(errors_.First());
  return result;
}

}  // namespace sluice
