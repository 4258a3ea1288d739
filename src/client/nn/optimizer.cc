#include "client/nn/optimizer.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "client/nn/constraints.h"
#include "client/nn/in_graph_of.h"
#include "client/op_builder.h"
#include "client/operators.h"
#include "client/partitioned_variables.h"
#include "client/types_and_shapes.h"
#include "graph/control_flow.h"
#include "graph/device_name.h"
#include "graph/exact_line.h"
#include "graph/graph.h"
#include "graph/none_output.h"

namespace sluice {
namespace {

// The same slices with distinct indices: repeated ones are added up.
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

// All gradients become available only when all of them are ready.
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

bool IsControlFlow(const Node& n) {
  switch (n.op().role) {
    case OpRole::kSwitch:
    case OpRole::kMerge:
    case OpRole::kEnter:
    case OpRole::kExit:
    case OpRole::kNextIteration:
    case OpRole::kLoopCond:
      return true;
    default:
      return false;
  }
}

// Whether the nodes are placed on different tasks.
bool OnOtherTasks(const Node& a, const Node& b) {
  const Result<DeviceName> x = DeviceName::Parse(a.device());
  const Result<DeviceName> y = DeviceName::Parse(b.device());
  return x.ok() && y.ok() && !x->Task().CompatibleWith(y->Task());
}

// The nodes that use the values of variables on the paths to some outputs, so
// that updates can wait for them. Linear in the size of that part of the graph.
class ValueUsers {
 public:
  explicit ValueUsers(const std::vector<Output>& ends) {
    for (const Output& o : ends)
      if (o.valid()) Visit(o.node);
  }

  static bool IsRead(const Node& n) {
    return n.op().role == OpRole::kIdentity ||
           n.kind() == OpKind::kReadVariable;
  }
  // The reads of a variable that are not in `others`.
  std::vector<Node*> ReadsBeside(const ValueUsers& others,
                                 const Var& var) const {
    std::vector<Node*> reads;
    for (Node* n : Find(users_of_, var.handle()))
      if (IsRead(*n) && others.seen_.count(n) == 0) reads.push_back(n);
    return reads;
  }

  // The readers of one variable, except nodes after control flow: they may be
  // dead in some steps, or in a loop, where no node outside can wait for them.
  std::vector<Node*> Of(const Var& var) const {
    std::vector<Node*> users;
    for (Node* n : Find(users_of_, var.handle())) {
      const std::vector<Node*>& of_read = Find(users_of_, Output(n));
      if (!IsRead(*n) || of_read.empty()) users.push_back(n);
      // (A user in another task has the value that was read: what it uses does
      // not change, and a message that it is done would be for nothing. With
      // control edges of its own it may read when it runs.)
      for (Node* user : IsRead(*n) ? of_read : std::vector<Node*>())
        users.push_back(user->control_inputs().empty() &&
                                OnOtherTasks(*user, *var.handle().node)
                            ? n
                            : user);
    }
    std::sort(users.begin(), users.end(),
              [](const Node* a, const Node* b) { return a->id() < b->id(); });
    users.erase(std::unique(users.begin(), users.end()), users.end());
    return users;
  }

 private:
  using Map = OutputMap<std::vector<Node*>>;

  static const std::vector<Node*>& Find(const Map& map, const Output& o) {
    static const auto* const kNone = new std::vector<Node*>();
    const auto it = map.find(o);
    return it == map.end() ? *kNone : it->second;
  }

  // Visits depth first, inputs before their consumers.
  void Visit(Node* end) {
    struct Step {
      Node* node;
      bool inputs_done;
    };
    std::vector<Step> open = {{end, false}};
    while (!open.empty()) {
      const auto [n, inputs_done] = open.back();
      open.pop_back();
      if (inputs_done) {
        Record(n);
        continue;
      }
      if (!seen_.insert(n).second) continue;
      open.push_back({n, true});
      // (The Merges of a loop under construction around this have no second
      // input yet.)
      for (const Output& in : n->inputs())
        if (in.valid()) open.push_back({in.node, false});
      for (Node* c : n->control_inputs()) open.push_back({c, false});
    }
  }

  void Record(Node* n) {
    bool after_control_flow = IsControlFlow(*n);
    for (const Output& in : n->inputs())
      after_control_flow |= after_control_flow_.count(in.node) != 0;
    for (const Node* c : n->control_inputs())
      after_control_flow |= after_control_flow_.count(c) != 0;
    if (after_control_flow) {
      after_control_flow_.insert(n);
      return;
    }
    for (const Output& in : n->inputs()) users_of_[in].push_back(n);
  }

  std::unordered_set<const Node*> seen_, after_control_flow_;
  Map users_of_;
};

// The variable behind an input of an update, within a loop or branch.
Output WrittenBy(Output input) {
  while (input.valid() &&
         (input.node->op().role == OpRole::kEnter ||
          input.node->op().role == OpRole::kSwitch) &&
         input.node->num_inputs() > 0)
    input = input.node->input(0);
  return input;
}

// Those of the nodes from number `first` on that write the variable: an update
// may have several, and the one that stands for it may be their group.
std::vector<Node*> WritersOf(const Var& var, int first, Node* whole) {
  std::vector<Node*> writers = {whole};
  const auto& nodes = CurrentGraph().nodes();
  for (size_t i = static_cast<size_t>(first); i < nodes.size(); ++i) {
    Node* n = nodes[i].get();
    if (n == whole || n->num_inputs() == 0 || ValueUsers::IsRead(*n) ||
        IsControlFlow(*n) || n->kind() == OpKind::kReadVariable)
      continue;
    const DType t = n->input(0).valid() ? n->input(0).dtype() : DType::kInvalid;
    const ArgDef& written = n->op().inputs[0];
    if ((written.is_ref ||
         (t == DType::kResource && written.type_attr.empty())) &&
        WrittenBy(n->input(0)).SameAs(var.handle()))
      writers.push_back(n);
  }
  return writers;
}

// Makes `update` run after `user`. An update within a loop that does not
// contain the user runs after the loop's captures.
Status WaitFor(Node* user, Node* update) {
  SLUICE_ASSIGN_OR_RETURN(Node* const there,
                          CaptureControl(ContextOf(update), user));
  return update->graph()->AddControlEdge(there, update);
}

Status BuilderError() {
  const Graph& g = CurrentGraph();
  const Status* const s = g.ErrorOf(g.Failure());
  return s == nullptr ? Internal("optimizer: a builder failed") : *s;
}

}  // namespace

Node* Optimizer::Minimize(Output loss, const MinimizeOptions& options,
                          SourceLoc loc) {
  const std::optional<WithGraph> there = InGraphOf(loss);
  const Result<std::vector<GradAndVar>> grads = Compute(loss, options, loc);
  if (!grads.ok()) {
    BuildError(grads.status(), loc);
    return nullptr;
  }
  const Result<Node*> train = Apply(*grads, options, loc);
  if (train.ok()) return *train;
  BuildError(train.status(), loc);
  return nullptr;
}

Result<std::vector<GradAndVar>> Optimizer::ComputeGradients(
    Output loss, const MinimizeOptions& options, SourceLoc loc) {
  Result<std::vector<GradAndVar>> grads = Compute(loss, options, loc);
  if (!grads.ok()) return WithLine(grads.status(), loc);
  return grads;
}

Result<std::vector<GradAndVar>> Optimizer::Compute(
    Output loss, const MinimizeOptions& options, SourceLoc loc) {
  if (!loss.valid()) {
    CurrentGraph().PropagateFailure(
        loss,
        InvalidArgument("optimizer ", name_, ": expected a loss, got none"));
    return BuilderError();
  }
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
  if (options.grad_loss.valid()) how.grad_ys = {options.grad_loss};
  how.colocate = options.colocate;
  how.gate_ops = options.gate == GradientGate::kOp;
  const std::vector<GradTarget> xs(vars.begin(), vars.end());
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Gradient> grads,
                          Gradients({loss}, xs, how, {}));
  if (losses_applied_) losses_.clear();
  losses_applied_ = false;
  losses_.push_back(loss);
  std::vector<GradAndVar> result;
  for (size_t i = 0; i < vars.size(); ++i)
    result.push_back({grads[i], vars[i]});
  if (options.gate == GradientGate::kGraph) {
    const AtLine at(loc);
    GateAll(&result);
  }
  return result;
}

Result<Node*> Optimizer::ApplyGradients(const std::vector<GradAndVar>& grads,
                                        const MinimizeOptions& options,
                                        SourceLoc loc) {
  const Result<Node*> train = Apply(grads, options, loc);
  if (!train.ok()) return WithLine(train.status(), loc);
  return train;
}

Result<Node*> Optimizer::Apply(const std::vector<GradAndVar>& grads,
                               const MinimizeOptions& options, SourceLoc loc) {
  SLUICE_RETURN_IF_ERROR(refused_);
  std::vector<GradAndVar> some;
  std::string names;
  for (const GradAndVar& g : grads) {
    if (!g.var.valid())
      return InvalidArgument("optimizer ", name_,
                             ": expected a variable, got none");
    const Gradient& d = g.gradient;
    for (const Output& part : {d.dense, d.indices, d.values, d.dense_shape})
      if (part.valid() && (part.graph() != g.var.handle().graph() ||
                           part.dtype() == DType::kInvalid))
        return InvalidArgument("optimizer ", name_,
                               ": expected a gradient in the graph of '",
                               g.var.name(), "', got '", part.name(), "'");
    if (d.is_sparse() && !d.indices.valid())
      return InvalidArgument("optimizer ", name_,
                             ": expected indices of the slices, got none");
    absl::StrAppend(&names, names.empty() ? "" : ", ", g.var.name());
    if (g.gradient) some.push_back(g);
  }
  if (some.empty())
    return InvalidArgument(
        "optimizer ", name_,
        ": expected a gradient for some variable, got none "
        "for ",
        names.empty() ? "no variable" : names,
        grads.empty() ? "" : WhyNone(grads[0].gradient.dense));
  for (const GradAndVar& gv : some)
    if (gv.gradient.is_sparse() && HasConstraint(gv.var))
      return InvalidArgument(
          "optimizer ", name_, ": expected a dense gradient of variable '",
          gv.var.name(), "', which has a constraint, got a sparse one");
  const std::optional<WithGraph> there = InGraphOf(some[0].var.handle());
  const AtLine at(loc);
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  {
    std::vector<Var> vars;
    for (const GradAndVar& gv : some) vars.push_back(gv.var);
    CreateVariables(vars);
  }
  const std::string name = options.name.empty() ? name_ : options.name;
  std::string whole_name;  // The training node's: the name of its scope.
  std::vector<Node*> updates;
  {
    std::vector<Output> ends;
    if (options.gate == GradientGate::kReads) {
      for (const GradAndVar& gv : some) {
        if (!gv.gradient.is_sparse()) {
          ends.push_back(gv.gradient.dense);
        } else {
          ends.push_back(gv.gradient.values);
          ends.push_back(gv.gradient.indices);
        }
      }
    }
    const ValueUsers users(ends);
    // Nodes that only the loss needs do not have to run for the update, but if
    // they do, their reads must not see a new value.
    std::vector<Output> losses;
    if (options.gate == GradientGate::kReads)
      for (const Output& loss : losses_)
        if (loss.graph() == &g) losses.push_back(loss);
    losses_applied_ = true;
    const ValueUsers of_loss(losses);
    const NameScope scope(name);
    whole_name = scope.prefix() + "/";
    Prepare();
    for (const GradAndVar& gv : some) {
      const NameScope update("update_" + gv.var.name());
      const ColocateWith same_device(gv.var.handle().node);
      const int first = g.num_nodes();
      updates.push_back(Update(gv.gradient, gv.var));
      if (updates.back() == nullptr) return BuilderError();
      const std::vector<Node*> writers =
          WritersOf(gv.var, first, updates.back());
      for (Node* user : users.Of(gv.var))
        for (Node* w : writers) SLUICE_RETURN_IF_ERROR(WaitFor(user, w));
      for (Node* read : of_loss.ReadsBeside(users, gv.var))
        for (Node* w : writers) SLUICE_RETURN_IF_ERROR(WaitFor(read, w));
      if (HasConstraint(gv.var)) {
        const ControlDependencies updated({updates.back()});
        updates.back() = ApplyConstraint(gv.var);
        if (updates.back() == nullptr) return BuilderError();
      }
    }
  }
  const Var& step = options.global_step;
  const NameScope scope(whole_name, "");
  Node* train = Finished(updates, step.valid() ? "update" : whole_name);
  if (train != nullptr && step.valid()) {
    const ControlDependencies after({train});
    const ColocateWith same_device(step.handle().node);
    SLUICE_ASSIGN_OR_RETURN(Tensor number, ScalarTensor(step.dtype(), 1));
    const Output one = Constant(std::move(number), "value", {});
    train = step.is_reference()
                ? BuildNode("AssignAdd", {step.handle(), one}, {}, whole_name)
                : BuildNode("AssignAddVariableOp", {step.handle(), one},
                            {{"dtype", step.dtype()}}, whole_name);
  }
  if (train == nullptr) return BuilderError();
  return train;
}

void Optimizer::CreateVariables(const std::vector<Var>& vars) {
  if (vars.empty()) return;
  {
    // (The same order of gradients in every process: the same first one.)
    const auto first = std::min_element(
        vars.begin(), vars.end(),
        [](const Var& a, const Var& b) { return a.name() < b.name(); });
    const NoControlDependencies made_alone;
    CreateNonSlots(*first);
  }
  // Slots are named after their variables, independent of the caller's scopes.
  const WithGraph no_scopes(CurrentGraph());
  for (const Var& v : vars) {
    const ColocateWith same_device(v.handle().node);
    CreateSlots(v);
  }
}

void Optimizer::Prepare() {
  for (size_t i = 0; i < numbers_.size(); ++i)
    values_[i] = Hyperparameter(numbers_[i].second, numbers_[i].first);
}

Node* Optimizer::Finished(std::vector<Node*> updates, const std::string& name) {
  {
    const ControlDependencies after(updates);
    for (Node* n : Finish()) updates.push_back(n);
  }
  return Group(updates, name, {});
}

Output Optimizer::Number(size_t i, DType dtype) const {
  return i < values_.size() ? As(values_[i], dtype) : Output();
}

void Optimizer::SetNumbers(const std::vector<Operand>& values) {
  for (size_t i = 0; i < values.size() && i < numbers_.size(); ++i) {
    numbers_[i].second = values[i];
    values_[i] = values[i].output;
  }
}

Node* Optimizer::Update(const Gradient& grad, const Var& var) {
  if (!grad.is_sparse()) return ApplyDense(grad.dense, var);
  const Gradient g =
      AcceptsRepeatedIndices() ? grad : WithDistinctIndices(grad);
  return g ? ApplySparse(g, var) : nullptr;
}

Var Optimizer::GetSlot(const Var& var, const std::string& slot) const {
  const auto it = slots_.find({var.name(), slot});
  return it == slots_.end() ? Var() : it->second;
}

Var Optimizer::GetNonSlot(const std::string& name) const {
  const auto it = non_slots_.find(name);
  return it == non_slots_.end() ? Var() : it->second;
}

std::vector<Var> Optimizer::Variables() const {
  std::vector<Var> vars;
  for (const auto& [key, v] : slots_) vars.push_back(v);
  for (const auto& [key, v] : non_slots_) vars.push_back(v);
  std::sort(vars.begin(), vars.end(),
            [](const Var& a, const Var& b) { return a.name() < b.name(); });
  return vars;
}

void Optimizer::Require(bool holds, const char* rule, double got) {
  if (holds || !refused_.ok()) return;
  refused_ =
      InvalidArgument("optimizer ", name_, ": expected ", rule, ", got ", got);
}

void Optimizer::MakeSlot(const Var& var, const std::string& slot,
                         double initial, const std::string& suffix) {
  if (GetSlot(var, slot).valid()) return;
  const auto value = [&] {
    const PartialShape shape = var.shape();
    const Output element = ScalarOf(var.dtype(), initial, {});
    if (shape.fully_known())
      if (const Result<Shape> known = shape.ToShape(); known.ok())
        return Filled(*known, element, {});
    // The size of the variable's initial value.
    return Build("Fill",
                 {Build("Shape", {var.initial_value()}, {}, "", {}), element},
                 {}, "", {});
  };
  const Var made = NewSlot(var, suffix.empty() ? name_ : suffix, value);
  if (made.valid()) AddSlot(var, slot, made);
}

Var Optimizer::NewSlot(const Var& var, const std::string& suffix,
                       const std::function<Output()>& initial) {
  VarOptions options;
  options.trainable = false;
  options.reference = var.is_reference();
  const Var made(initial(), absl::StrCat(var.name(), "/", suffix), options, {});
  if (made.valid() && made.shape().fully_known())
    if (const Status s = SetPartLike(made, var); !s.ok()) BuildError(s);
  return made;
}

void Optimizer::MakeNonSlot(const std::string& name, const Operand& initial,
                            const Var& near) {
  if (GetNonSlot(name).valid()) return;
  const ColocateWith same_device(near.handle().node);
  const Var made = NewNonSlot(name, initial, near);
  if (made.valid()) AddNonSlot(name, made);
}

Var Optimizer::NewNonSlot(const std::string& name, const Operand& initial,
                          const Var& near) {
  VarOptions options;
  options.trainable = false;
  options.reference = near.is_reference();
  return Var(initial, name, options, {});
}

Output Optimizer::Hyperparameter(const Operand& value, const char* name) {
  // A number gets the name that TensorFlow gives it.
  const Tensor& t = value.literal;
  if (!value.output.valid() && value.weak && t.valid() && t.rank() == 0) {
    if (t.dtype() == DType::kFloat) return Constant(t, name, {});
    if (t.dtype() == DType::kDouble)
      return Constant(Tensor::Scalar(static_cast<float>(t.scalar<double>())),
                      name, {});
  }
  const NameScope scope(name);
  return value.Get(value.weak ? DType::kFloat : DType::kInvalid);
}

Output Optimizer::As(const Output& value, DType dtype) {
  return value.valid() ? InType(value, dtype) : value;
}

Node* Optimizer::UpdateOp(const char* op, const Var& var,
                          const std::vector<Output>& inputs,
                          const AttrMap& attrs) const {
  const std::string name =
      var.is_reference() ? op : absl::StrCat("Resource", op);
  AttrMap all = attrs;
  const OpDef* const def = OpRegistry::Global()->Find(name);
  if (use_locking_ && def != nullptr && def->FindAttr("use_locking") != nullptr)
    all["use_locking"] = true;
  return BuildNode(name, inputs, all);
}

Node* Optimizer::ScatterAdd(const Var& var, const Output& indices,
                            const Operand& rows) const {
  return UpdateOp("ScatterAdd", var,
                  {var.handle(), indices, rows.Get(var.dtype())});
}

Node* Optimizer::ScatterSub(const Var& var, const Output& indices,
                            const Operand& rows) const {
  return UpdateOp("ScatterSub", var,
                  {var.handle(), indices, rows.Get(var.dtype())});
}

Node* Optimizer::ScatterUpdate(const Var& var, const Output& indices,
                               const Operand& rows) const {
  return UpdateOp("ScatterUpdate", var,
                  {var.handle(), indices, rows.Get(var.dtype())});
}

Node* Optimizer::Decay(const Var& var, const Output& part,
                       const Output& indices) const {
  const Output rate = As(part, var.dtype());
  return indices.valid()
             ? ScatterSub(var, indices, rate * GatherRows(var, indices))
             : var.AssignSub(rate * var, {});
}

Output Optimizer::GatherRows(const Var& var, const Output& indices) {
  if (!var.is_reference())
    return Build("ResourceGather", {var.handle(), indices},
                 {{"dtype", var.dtype()}}, "", {});
  return Build("GatherV2", {var.handle(), indices, Constant(int32_t{0}, {})},
               {}, "", {});
}

}  // namespace sluice
