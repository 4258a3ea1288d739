#include "client/optimizers.h"

#include <mutex>
#include <optional>
#include <unordered_set>

#include "client/op_builder.h"

namespace sluice {
namespace {

Output Hyperparameter(const Operand& value, const char* name) {
  if (value.output) return value.output;
  const NameScope scope(name);
  return value.Get(value.weak ? DType::kFloat : DType::kInvalid);
}

// The same slices with each index once: repeated ones are added up.
Gradient WithDistinctIndices(const Gradient& g) {
  Node* unique = BuildNode("Unique", {g.indices}, {}, "Unique");
  if (unique == nullptr) return Gradient();
  const Output distinct(unique, 0);
  const Output count = Build("StridedSlice",
                             {Build("Shape", {distinct}, {}, "", {}),
                              IntVector({0}), IntVector({1}), IntVector({1})},
                             {{"shrink_axis_mask", 1}}, "", {});
  const Output sums = Build("UnsortedSegmentSum",
                            {g.values, Output(unique, 1), count}, {}, "", {});
  return Gradient::Slices(distinct, sums, g.dense_shape);
}

// All of them pass on only when all are ready.
void GateAll(std::vector<GradAndVar>* grads) {
  std::vector<Node*> all;
  for (const GradAndVar& g : *grads)
    if (g.gradient)
      all.push_back(g.gradient.is_sparse() ? g.gradient.values.node
                                           : g.gradient.dense.node);
  const NameScope scope("tuple");
  const ControlDependencies after(all);
  for (GradAndVar& g : *grads) {
    if (!g.gradient) continue;
    Output& value =
        g.gradient.is_sparse() ? g.gradient.values : g.gradient.dense;
    value = Build("Identity", {value}, {}, "", {});
  }
}

Status BuilderError() {
  const Status& s = CurrentGraph().status();
  return s.ok() ? Internal("optimizer: a builder failed") : s;
}

// Moves to the graph that `o` is in, where that is not the current one.
std::optional<WithGraph> InGraphOf(const Output& o) {
  if (!o || o.graph() == &CurrentGraph()) return std::nullopt;
  return std::optional<WithGraph>(std::in_place, *o.graph());
}

}  // namespace

Node* Optimizer::Minimize(Output loss, const MinimizeOptions& options,
                          SourceLoc loc) {
  const std::optional<WithGraph> there = InGraphOf(loss);
  const Result<std::vector<GradAndVar>> grads = ComputeGradients(loss, options);
  if (!grads.ok()) {
    BuildError(grads.status(), loc);
    return nullptr;
  }
  const AtLine at(loc);
  const Result<Node*> train = ApplyGradients(*grads, options);
  if (train.ok()) return *train;
  BuildError(train.status(), loc);
  return nullptr;
}

Result<std::vector<GradAndVar>> Optimizer::ComputeGradients(
    Output loss, const MinimizeOptions& options) {
  if (!loss)
    return CurrentGraph().status().ok()
               ? InvalidArgument("optimizer ", name_,
                                 ": expected a loss, got none")
               : CurrentGraph().status();
  const std::optional<WithGraph> there = InGraphOf(loss);
  if (!IsFloating(RemoveRef(loss.dtype())))
    return InvalidArgument(
        "optimizer ", name_, ": expected a loss of a floating type, got ",
        DTypeName(loss.dtype()), "; ", loss.node->Describe());
  const std::vector<Var> vars =
      options.variables.empty() ? TrainableVariables() : options.variables;
  if (vars.empty())
    return InvalidArgument("optimizer ", name_,
                           ": expected variables to train, got none");
  GradientOptions how;
  if (options.grad_loss) how.grad_ys = {options.grad_loss};
  how.colocate = options.colocate;
  how.gate_ops = options.gate == GradientGate::kOp;
  const std::vector<GradTarget> xs(vars.begin(), vars.end());
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Gradient> grads,
                          Gradients({loss}, xs, how));
  std::vector<GradAndVar> result;
  for (size_t i = 0; i < vars.size(); ++i)
    result.push_back({grads[i], vars[i]});
  if (options.gate == GradientGate::kGraph) GateAll(&result);
  return result;
}

Result<Node*> Optimizer::ApplyGradients(const std::vector<GradAndVar>& grads,
                                        const MinimizeOptions& options) {
  std::vector<GradAndVar> some;
  std::string names;
  for (const GradAndVar& g : grads) {
    if (!g.var)
      return InvalidArgument("optimizer ", name_,
                             ": expected a variable, got none");
    absl::StrAppend(&names, names.empty() ? "" : ", ", g.var.name());
    if (g.gradient) some.push_back(g);
  }
  if (some.empty())
    return InvalidArgument("optimizer ", name_,
                           ": expected a gradient for some variable, got none "
                           "for ",
                           names.empty() ? "no variable" : names);
  const std::optional<WithGraph> there = InGraphOf(some[0].var.handle());
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  {
    // Slots are named after their variables, wherever this is called.
    const WithGraph no_scopes(g);
    for (const GradAndVar& gv : some) {
      const ColocateWith same_device(gv.var.handle().node);
      CreateSlots(gv.var);
    }
  }
  const std::string name = options.name.empty() ? name_ : options.name;
  std::vector<Node*> updates;
  {
    const NameScope scope(name);
    Prepare();
    for (const GradAndVar& gv : some) {
      const NameScope update("update_" + gv.var.name());
      const ColocateWith same_device(gv.var.handle().node);
      updates.push_back(Apply(gv.gradient, gv.var));
      if (updates.back() == nullptr) return BuilderError();
    }
  }
  Node* train = nullptr;
  if (options.global_step) {
    const ControlDependencies after(updates);
    train = options.global_step.AssignAdd(1);
  } else {
    train = Group(updates, name, {});
  }
  if (train == nullptr) return BuilderError();
  return train;
}

Node* Optimizer::Apply(const Gradient& grad, const Var& var) {
  if (!grad.is_sparse()) return ApplyDense(grad.dense, var);
  const Gradient g =
      AcceptsRepeatedIndices() ? grad : WithDistinctIndices(grad);
  return g ? ApplySparse(g, var) : nullptr;
}

Var Optimizer::GetSlot(const Var& var, const std::string& slot) const {
  const auto it = slots_.find({var.name(), slot});
  return it == slots_.end() ? Var() : it->second;
}

void Optimizer::MakeSlot(const Var& var, const std::string& slot,
                         double initial) {
  Var& v = slots_[{var.name(), slot}];
  if (v) return;
  VarOptions options;
  options.trainable = false;
  options.reference = var.is_reference();
  const std::string name = var.name() + "/" + name_;
  const PartialShape shape = var.shape();
  const Result<Shape> known =
      shape.fully_known() ? shape.ToShape()
                          : Result<Shape>(InvalidArgument("unknown shape"));
  const Output value = ScalarOf(var.dtype(), initial, {});
  if (known.ok()) {
    v = Var(Filled(*known, value, {}), name, options, {});
    return;
  }
  // As large as what the variable starts with.
  const Output dims = Build("Shape", {var.initial_value()}, {}, "", {});
  v = Var(Build("Fill", {dims, value}, {}, "", {}), name, options, {});
}

Output Optimizer::As(const Output& value, DType dtype) {
  if (!value || RemoveRef(value.dtype()) == dtype) return value;
  return Build("Cast", {value}, {{"DstT", dtype}}, "", {});
}

void GradientDescentOptimizer::Prepare() {
  rate_ = Hyperparameter(learning_rate_, "learning_rate");
}

Node* GradientDescentOptimizer::ApplyDense(Output grad, const Var& var) {
  return BuildNode(var.is_reference() ? "ApplyGradientDescent"
                                      : "ResourceApplyGradientDescent",
                   {var.handle(), As(rate_, var.dtype()), grad});
}

Node* GradientDescentOptimizer::ApplySparse(const Gradient& grad,
                                            const Var& var) {
  const Output delta =
      Build("Mul", {grad.values, As(rate_, var.dtype())}, {}, "", {});
  return BuildNode(var.is_reference() ? "ScatterSub" : "ResourceScatterSub",
                   {var.handle(), grad.indices, delta});
}

void AdagradOptimizer::CreateSlots(const Var& var) {
  MakeSlot(var, "accumulator", initial_accumulator_);
}

void AdagradOptimizer::Prepare() {
  rate_ = Hyperparameter(learning_rate_, "learning_rate");
}

Node* AdagradOptimizer::ApplyDense(Output grad, const Var& var) {
  return BuildNode(var.is_reference() ? "ApplyAdagrad" : "ResourceApplyAdagrad",
                   {var.handle(), GetSlot(var, "accumulator").handle(),
                    As(rate_, var.dtype()), grad});
}

Node* AdagradOptimizer::ApplySparse(const Gradient& grad, const Var& var) {
  return BuildNode(
      var.is_reference() ? "SparseApplyAdagrad" : "ResourceSparseApplyAdagrad",
      {var.handle(), GetSlot(var, "accumulator").handle(),
       As(rate_, var.dtype()), grad.values, grad.indices});
}

}  // namespace sluice
