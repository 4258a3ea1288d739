#include "client/autodiff/backprop.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/without_throwing.h"
#include "graph/control_flow_recovery.h"
#include "graph/frames.h"
#include "graph/gradient_scope.h"
#include "graph/hidden_attributes.h"
#include "graph/shape_context.h"
#include "graph/tensor_array_info.h"

namespace sluice {

bool IsDifferentiable(DType t) {
  t = RemoveRef(t);
  return IsFloating(t) || IsComplex(t) || t == DType::kResource ||
         t == DType::kVariant;
}

Output ZerosFor(const Output& x) {
  constexpr int64_t kSmall = 64;
  const bool resource = RemoveRef(x.dtype()) == DType::kResource;
  const DType type = resource ? VariableType(x) : RemoveRef(x.dtype());
  const PartialShape shape = resource ? VariableShapeOf(x) : x.shape();
  if (IsTensorArrayFlow(x)) return x;
  if (type == DType::kVariant) return Build("ZerosLike", {x}, {}, "zeros", {});
  if (!shape.fully_known())
    return resource ? Build("Fill",
                            {Build("VariableShape", {x}, {}, "", {}),
                             ScalarOf(type, 0, {})},
                            {}, "zeros", {})
                    : Build("ZerosLike", {x}, {}, "zeros", {});
  if (shape.num_elements() <= kSmall) {
    const Result<Shape> known = shape.ToShape();
    if (known.ok()) {
      Result<Tensor> zeros = Tensor::Zeros(type, *known);
      if (zeros.ok()) return Constant(*std::move(zeros), "zeros", {});
    }
  }
  const std::span<const int64_t> dims(shape.dims().begin(), shape.dims().end());
  return Build(
      "Fill",
      {Constant(Tensor::Vector<int64_t>(dims), "", {}), ScalarOf(type, 0, {})},
      {}, "zeros", {});
}

namespace {

// A name for these gradients that no gradient array uses yet. (An imported
// graph or a function may contain such arrays.)
std::string NewGradientSource(const Graph& graph, const std::string& name) {
  std::set<std::string> taken;
  for (const auto& n : graph.nodes())
    if (n->kind() == OpKind::kTensorArrayGrad ||
        n->kind() == OpKind::kTensorArrayGradWithShape)
      taken.insert(n->AttrOr<std::string>("source", ""));
  std::string source = name;
  for (int i = 1; taken.count(source) != 0; ++i)
    source = absl::StrCat(name, "_", i);
  return source;
}

}  // namespace

Backprop::Backprop(const std::vector<Output>& ys,
                   const std::vector<GradTarget>& xs,
                   const GradientOptions& options)
    : ys_(ys), options_(options) {
  for (const GradTarget& x : xs) xs_.push_back(x.output);
}

Result<std::vector<Gradient>> Backprop::Run() {
  SLUICE_RETURN_IF_ERROR(Validate());
  Level outermost;
  if (ys_.empty() || xs_.empty()) return Collect();
  SLUICE_RETURN_IF_ERROR(RecoverControlFlow(graph_));
  SLUICE_RETURN_IF_ERROR(LoopFamily::Recover(graph_));
  SLUICE_RETURN_IF_ERROR(FindBase());
  FindBetween();
  FindUnits();
  const NameScope scope(options_.name);
  const GradientScope call(NewGradientSource(*graph_, scope.prefix()));
  SLUICE_RETURN_IF_ERROR(Seed());
  outermost.loop = base_;
  SLUICE_RETURN_IF_ERROR(Walk(outermost));
  return Collect();
}

Status Backprop::Seed() {
  for (size_t i = 0; i < ys_.size(); ++i) {
    const Output& y = ys_[i];
    if (!Between(y.node)) continue;
    Gradient seed =
        i < options_.grad_ys.size() ? options_.grad_ys[i] : Gradient();
    SLUICE_ASSIGN_OR_RETURN(seed, SeedFor(y, seed));
    Add(y, seed);
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

Result<Output> Backprop::Built(Output o) const {
  if (o.valid()) return o;
  const Status* const error =
      graph_->ErrorOf(o.error() >= 0 ? o : graph_->Failure());
  return error == nullptr ? Internal("gradients: a builder failed") : *error;
}

// ---- Sums -------------------------------------------------------------------

void Backprop::Add(const Output& o, const Gradient& g) {
  Sums& sums = grads_[Representative(o.node)];
  sums.resize(static_cast<size_t>(o.node->num_outputs()));
  sums[static_cast<size_t>(o.index)].push_back(g);
}

bool Backprop::HasGradient(const Output& o) const {
  const auto it = grads_.find(Representative(o.node));
  return it != grads_.end() &&
         !it->second[static_cast<size_t>(o.index)].empty();
}

Result<Gradient> Backprop::Total(const Output& o, Level& level) {
  if (!HasGradient(o)) return Gradient();
  std::vector<Gradient>& sum =
      grads_[Representative(o.node)][static_cast<size_t>(o.index)];
  if (sum.size() > 1) {
    const ContextScope there(Mirror(ContextOf(o), level));
    const AtLine at(o.node->loc());
    const Gradient total = SumGradients(sum, o);
    if (!total) return Built(Output()).status();
    sum = {total};
  }
  return sum[0];
}

Result<std::vector<Gradient>> Backprop::Totals(Node* node, Level& level) {
  std::vector<Gradient> totals;
  for (int i = 0; i < node->num_outputs(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const Gradient g, Total(Output(node, i), level));
    totals.push_back(g);
  }
  return totals;
}

ControlFlowContext* Backprop::Mirror(ControlFlowContext* c, Level& level) {
  if (level.member != nullptr) return level.member->Mirror(c);
  if (IsInside(base_, c)) return base_;
  if (IsInside(c, base_) || c->AsCond() == nullptr) return c;
  Conditional* const here = Mirror(c->AsCond()->conditional(), level);
  return here == nullptr ? nullptr : here->branch(c->AsCond()->branch());
}

// Within a loop's body, values around the loop are differentiated too: their
// conditionals take the same branches as in the forward pass.
Conditional* Backprop::Mirror(Conditional* c, Level& level) {
  if (level.member != nullptr) return level.member->Mirror(c);
  if (IsInside(c->outer(), base_)) return c;
  Conditional*& here = mirrors_[c];
  if (here == nullptr) here = ConditionalLike(*c, Mirror(c->outer(), level));
  return here;
}

// ---- The walk ---------------------------------------------------------------

Status Backprop::Walk(Level& level) {
  for (const size_t unit : units_on_[level.loop])
    if (pending_[unit] == 0) level.ready.push_back(unit);
  while (!level.ready.empty()) {
    const size_t unit = level.ready.front();
    level.ready.pop_front();
    SLUICE_RETURN_IF_ERROR(Visit(unit, level));
    for (const size_t source : sources_[unit])
      if (--pending_[source] == 0) level.ready.push_back(source);
  }
  for (const size_t unit : units_on_[level.loop]) {
    if (pending_[unit] <= 0) continue;
    const Node* const n =
        unit < between_.size() ? graph_->nodes()[unit].get() : nullptr;
    return InvalidArgument(
        "gradients: expected cycles through loops only, got one through ",
        n == nullptr ? "a loop" : n->Describe(),
        n == nullptr ? "" : "; path: " + PathThrough(n));
  }
  return OkStatus();
}

Status Backprop::Visit(size_t unit, Level& level) {
  if (unit >= between_.size())
    return VisitLoop(graph_->control_flow().loops()[unit - between_.size()],
                     level);
  return VisitNode(graph_->nodes()[unit].get(), level);
}

Status Backprop::VisitNode(Node* node, Level& level) {
  bool any = false, flows = false;
  for (int i = 0; i < node->num_outputs(); ++i)
    any = any || HasGradient(Output(node, i));
  for (const Output& in : InputsOf(node))
    flows = flows ||
            (in.valid() && Between(in.node) && IsDifferentiable(in.dtype()));
  if (!any || !flows || StopsAt(node) || IsLoopMover(node)) return OkStatus();
  if (node->op().role == OpRole::kSwitch) return VisitSwitch(node, level);
  if (node->op().role == OpRole::kMerge) return VisitMerge(node, level);
  std::vector<Gradient> dy;
  {
    // (Other nodes may read its outputs elsewhere; their gradients are summed
    // here.)
    std::optional<ColocateWith> colocate;
    if (options_.colocate) colocate.emplace(node);
    SLUICE_ASSIGN_OR_RETURN(dy, Totals(node, level));
  }
  if (const Output saved = LoopFamily::SavedValueOf(node); saved.valid()) {
    Add(saved, dy[0]);
    return OkStatus();
  }
  if (!pushed_.empty() && InputsOf(node).size() > node->inputs().size())
    return Unimplemented(
        "gradients: expected values of a loop that were saved by gradients of "
        "this library, got a stack's, whose order only its maker knows; ",
        node->Describe(), "; path: ", PathThrough(node));
  if (node->op().role == OpRole::kEnter) {
    // The gradient of a loop's constant is summed over all iterations; within
    // one iteration it is just the value.
    if (level.member == nullptr) {
      Add(node->input(0), dy[0]);
      return OkStatus();
    }
    return IsConstantEnter(*node) ? OkStatus()  // Later, by VisitLoop.
                                  : Internal(
                                        "gradients: a loop variable's "
                                        "Enter on the way; ",
                                        node->Describe());
  }
  return Differentiate(node, dy, level);
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
                               Level& level) {
  const Result<UserGradient> fn = FindGradient(*node);
  if (!fn.ok()) return NoGradientFor(node, fn.status());
  if (*fn == nullptr) return OkStatus();
  ControlFlowContext* const place = Mirror(ContextOf(node), level);
  SLUICE_RETURN_IF_ERROR(BuildStatus());
  const ContextScope there(place);
  const NameScope scope(node->name() + "_grad");
  const std::optional<ColocateWith> colocate(
      options_.colocate ? std::optional<ColocateWith>(std::in_place, node)
                        : std::nullopt);
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
    Status s = WithoutThrowing("gradient", [&] { return (*fn)(c); });
    if (s.ok()) s = BuildStatus();
    if (!s.ok())
      return Annotate(
          Status(s.code(), absl::StrCat(std::string(s.message()),
                                        "; path: ", PathThrough(node))),
          "gradient of " + node->Describe());
  }
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
    if (!Between(in.node) || !IsDifferentiable(in.dtype())) {
      g = Gradient();
      continue;
    }
    SLUICE_RETURN_IF_ERROR(Check(*node, in, g));
  }
  if (options_.gate_ops) Gate(&grads);
  for (int i = 0; i < node->num_inputs(); ++i)
    if (grads[static_cast<size_t>(i)])
      Add(node->input(i), grads[static_cast<size_t>(i)]);
  return OkStatus();
}

Status Backprop::Check(const Node& node, const Output& in, const Gradient& g) {
  SLUICE_RETURN_IF_ERROR(CheckParts(node, in, g));
  const DType edge = RemoveRef(in.dtype());
  const DType want = edge == DType::kResource ? VariableType(in) : edge;
  const Output value = g.is_sparse() ? g.values : g.dense;
  if (want != DType::kInvalid && want != RemoveRef(value.dtype()) &&
      edge != DType::kVariant)
    return Internal("gradient of ", node.Describe(), ": expected ",
                    DTypeName(want), " for input ", in.name(), ", got ",
                    DTypeName(value.dtype()), "; ", value.node->Describe());
  if (g.is_sparse() || edge == DType::kResource || edge == DType::kVariant ||
      !in.shape().rank_known())
    return OkStatus();
  if (!value.shape().CompatibleWith(in.shape()))
    return Internal("gradient of ", node.Describe(), ": expected shape ",
                    in.shape().ToString(), " for input ", in.name(), ", got ",
                    value.shape().ToString(), "; ", value.node->Describe());
  return Annotate(
      graph_->SetShape(g.dense, in.shape()),
      absl::StrCat("gradient of ", node.Describe(), " for input ", in.name()));
}

// A gradient function may return an output of another graph, or invalid slices.
Status Backprop::CheckParts(const Node& node, const Output& in,
                            const Gradient& g) const {
  const auto fail = [&](const auto&... what) {
    return Internal("gradient of ", node.Describe(), ": expected ", what...);
  };
  for (const Output& part : {g.dense, g.indices, g.values, g.dense_shape}) {
    if (part.node == nullptr) continue;
    if (part.graph() != graph_)
      return fail("an output of the same graph for input ", in.name(), ", got ",
                  part.node->Describe(), " of another");
    if (part.index < 0 || part.index >= part.node->num_outputs())
      return fail("one of ", part.node->num_outputs(), " outputs of ",
                  part.node->Describe(), " for input ", in.name(), ", got ",
                  part.index);
  }
  if (!g.is_sparse()) return OkStatus();
  const DType index = g.indices.dtype();
  if (index != DType::kInt32 && index != DType::kInt64)
    return fail("slices with indices of int32 or int64 for input ", in.name(),
                ", got ",
                g.indices.node == nullptr ? "none" : DTypeName(index));
  if (g.values.shape().rank() == 0)
    return fail("slices of rank 1 or more for input ", in.name(),
                ", got a scalar; ", g.values.node->Describe());
  return OkStatus();
}

Result<std::vector<Gradient>> Backprop::Collect() {
  std::vector<Gradient> result;
  Level outermost;
  outermost.loop = base_;
  // A loop with gradients returns one for each of its variables that the ys
  // depend on: zeros for variables without a gradient. (TensorFlow's loops do,
  // and programs fetch them.)
  const OutputSet stopped = IntoStoppedVariables();
  for (const Output& x : xs_) {
    if (HasGradient(x) && !IsInside(base_, InnermostWhile(ContextOf(x))))
      return InvalidArgument(
          "gradients: expected xs outside of loops that do not contain the ys, "
          "got ",
          x.name(), " of loop '", InnermostWhile(ContextOf(x))->name(), "'");
    SLUICE_ASSIGN_OR_RETURN(Gradient g, Total(x, outermost));
    if (!g &&
        (options_.unconnected == Unconnected::kZero || stopped.count(x) != 0)) {
      const AtLine at(x.node->loc());
      SLUICE_ASSIGN_OR_RETURN(g, Built(ZerosFor(x)));
    }
    result.push_back(g);
  }
  ExplainNone(&result);
  std::vector<Output> ends;
  for (const Gradient& g : result) {
    ends.push_back(g.dense);
    ends.push_back(g.indices);
    ends.push_back(g.values);
    ends.push_back(g.dense_shape);
  }
  LoopFamily::WriteFor(ends);
  SLUICE_RETURN_IF_ERROR(BuildStatus());
  return result;
}

}  // namespace sluice
