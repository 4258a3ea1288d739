#include "client/variables.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/body_in_progress.h"
#include "client/initial_part.h"
#include "client/op_builder.h"
#include "client/types_and_shapes.h"
#include "client/variable_scope.h"
#include "graph/control_flow.h"
#include "graph/device_scope.h"
#include "graph/exact_line.h"
#include "graph/function.h"
#include "graph/repeated_names.h"
#include "graph/scope_state.h"

namespace sluice {
namespace {

bool MakesVariable(const Node& n) {
  return n.kind() == OpKind::kVarHandle || n.kind() == OpKind::kRefVariable;
}

// The name that GetVariable was asked for, on a node that has another one
// because something else in the graph had it.
constexpr const char* kVariableName = "_variable_name";

// The node of the variable that GetVariable calls `name`; null: none.
Node* FindVariable(Graph& g, const std::string& name) {
  const auto is_called = [&](const Node& n) {
    return MakesVariable(n) &&
           n.AttrOr<std::string>(kVariableName, n.name()) == name;
  };
  Node* const exact = g.FindNode(name);
  if (exact != nullptr && is_called(*exact)) return exact;
  // Only if the name is in use can the variable have got another one.
  if (exact == nullptr && g.UniqueName(name) == name) return nullptr;
  for (const std::unique_ptr<Node>& n : g.nodes())
    if (is_called(*n)) return n.get();
  return nullptr;
}

// The node that made a handle or reference, traced through nodes that forward
// it.
const Node* Origin(Output handle) {
  const Node* n = handle.node;
  while (n != nullptr && !MakesVariable(*n)) {
    switch (n->op().role) {
      case OpRole::kIdentity:
      case OpRole::kEnter:
      case OpRole::kSwitch:
        n = n->num_inputs() > 0 ? n->input(0).node : nullptr;
        break;
      case OpRole::kArg:  // Of a function; it may have a type and shape.
        return n;
      default:
        return nullptr;
    }
  }
  return n;
}

// Leaves the loops and conditionals under construction, if any.
std::optional<ContextScope> Outermost() {
  if (CurrentContext() == nullptr) return std::nullopt;
  return std::optional<ContextScope>(std::in_place, nullptr);
}

// A node's name without the current prefix, for naming other nodes after it.
std::string LocalName(const Node& n) {
  const std::string& prefix = CurrentNamePrefix();
  return n.name().rfind(prefix, 0) == 0 ? n.name().substr(prefix.size())
                                        : n.name();
}

Output BuildRead(Output handle, const std::string& name, SourceLoc loc) {
  if (!handle.valid()) return handle;
  if (IsRef(handle.dtype())) return Build("Identity", {handle}, {}, name, loc);
  return Build("ReadVariableOp", {handle}, {{"dtype", VariableType(handle)}},
               name, loc);
}

// What a variable of a function's body is called in the graph around it.
std::string NameOutside(const BodyInProgress& body, const std::string& name) {
  return absl::StrCat(*body.function, "/", CurrentNamePrefix(), name);
}

// A variable of a function's body is one of the graph around it, which every
// call reads. It gets the device of the scopes in the body, within those around
// the definition.
Var MadeOutside(const BodyInProgress& body, const std::function<Var()>& make) {
  const ScopeState inside;
  Status failed;
  {
    const WithGraph use(*body.owner);
    const NestedDeviceScopes devices(*body.around, inside);
    Var var = make();
    if (var.valid()) return var;
    failed = *body.owner->ErrorOf(body.owner->Failure());
  }
  return Var::FromHandle(BuildError(failed));
}

}  // namespace

DType VariableType(Output handle) {
  if (!handle.valid()) return DType::kInvalid;
  if (IsRef(handle.dtype())) return RemoveRef(handle.dtype());
  const Node* n = Origin(handle);
  if (n == nullptr) return DType::kInvalid;
  return MakesVariable(*n) ? n->TypeAttr("dtype") : ToldVariableType(*n);
}

PartialShape VariableShapeOf(Output handle) {
  if (handle.valid() && IsRef(handle.dtype())) return handle.shape();
  const Node* n = Origin(handle);
  if (n == nullptr) return PartialShape();
  return MakesVariable(*n) ? n->AttrOr<PartialShape>("shape", PartialShape())
                           : ToldVariableShape(*n);
}

Var::Var(const Operand& initial, const std::string& name,
         const VarOptions& options, SourceLoc loc) {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  // A variable and its initializer belong to no function, loop or branch.
  if (const BodyInProgress* const body = CurrentBody(); body != nullptr) {
    if (initial.output.valid() && initial.output.graph() == &g) {
      BuildError(InvalidArgument(
                     "variable '", name,
                     "': expected an initial value from outside of function '",
                     *body->function, "', got '", initial.output.name(),
                     "' of its body (GetVariable makes it outside)"),
                 loc);
      handle_ = value_ = g.Failure();
      return;
    }
    const std::string outside =
        NameOutside(*body, name.empty() ? "Variable" : name);
    *this =
        MadeOutside(*body, [&] { return Var(initial, outside, options, loc); });
    return;
  }
  if (initial.output.valid() && ContextOf(initial.output) != nullptr) {
    BuildError(
        InvalidArgument("variable '", name,
                        "': expected an initial value from outside of loops "
                        "and conditionals, got '",
                        initial.output.name(), "' of '",
                        ContextOf(initial.output)->name(),
                        "' (GetVariable makes it outside)"),
        loc);
    handle_ = value_ = g.Failure();
    return;
  }
  const std::optional<ContextScope> outermost = Outermost();
  // (What the user's code waits for is not to run with the initializers.)
  const NoControlDependencies initializers_run_alone;
  initial_ = initial.Get(initial.weak ? NaturalType(initial) : DType::kInvalid);
  if (!initial_.valid()) {
    g.PropagateFailure(initial_,
                       WithLine(InvalidArgument("variable '", name,
                                                "': expected an initial value, "
                                                "got none"),
                                loc));
    handle_ = value_ = g.Failure();
    return;
  }
  const DType dtype = RemoveRef(initial_.dtype());
  const PartialShape shape = initial_.shape();
  const std::string base = name.empty() ? "Variable" : name;
  Node* made = nullptr;
  if (options.reference) {
    made = BuildNode("VariableV2", {}, {{"dtype", dtype}, {"shape", shape}},
                     base, loc);
  } else {
    made = BuildNode("VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}},
                     base, loc);
    // Two nodes with the same shared name would be the same variable.
    if (made != nullptr) g.SetAttr(made, "shared_name", made->name());
  }
  handle_ = value_ = OrFailure(made);
  if (made == nullptr) return;
  const std::string local = LocalName(*made);
  const Output handle(made);
  {
    const ColocateWith same_device(made);
    initializer_ = options.reference
                       ? BuildNode("Assign", {handle, initial_},
                                   {{"validate_shape", shape.fully_known()}},
                                   local + "/Assign", loc)
                       : BuildNode("AssignVariableOp", {handle, initial_},
                                   {{"dtype", dtype}}, local + "/Assign", loc);
    value_ = BuildRead(
        handle, local + (options.reference ? "/read" : "/Read/ReadVariableOp"),
        loc);
  }
  if (initializer_ == nullptr || !value_.valid()) {
    handle_ = value_ = g.Failure();
    return;
  }
  std::vector<std::string> keys = options.collections;
  if (keys.empty()) keys.push_back(kGlobalVariables);
  if (options.trainable) keys.push_back(kTrainableVariables);
  for (const std::string& key : keys) g.collections()[key].push_back(handle);
  if (options.regularizer != nullptr) {
    const NameScope scope(local + "/Regularizer");
    const AtLine at(loc);
    const Output loss = options.regularizer(value_);
    if (loss.valid()) g.collections()[kRegularizationLosses].push_back(loss);
  }
}

Var Var::FromHandle(Output handle) {
  Var v;
  if (!handle.valid()) {  // Null because of an earlier error.
    v.handle_ = v.value_ = handle;
    return v;
  }
  if (!MakesVariable(*handle.node)) {
    // An argument of a function that is known to be a variable.
    if (handle.node->op().role != OpRole::kArg ||
        VariableType(handle) == DType::kInvalid)
      return v;
    v.handle_ = handle;
    v.value_ = BuildRead(handle, "", {});
    return v;
  }
  const Graph& g = *handle.graph();
  const std::string& name = handle.node->name();
  v.handle_ = handle;
  v.initializer_ = g.FindNode(name + "/Assign");
  if (v.initializer_ != nullptr && v.initializer_->num_inputs() == 2)
    v.initial_ = v.initializer_->input(1);
  const bool reference = IsRef(handle.dtype());
  Node* read =
      g.FindNode(name + (reference ? "/read" : "/Read/ReadVariableOp"));
  v.value_ = read != nullptr ? Output(read) : BuildRead(handle, "", {});
  return v;
}

const std::string& Var::name() const {
  static const std::string* const kNone = new std::string();
  return handle_.valid() ? handle_.node->name() : *kNone;
}
DType Var::dtype() const { return VariableType(handle_); }
PartialShape Var::shape() const { return VariableShapeOf(handle_); }
bool Var::is_reference() const {
  return handle_.valid() && IsRef(handle_.dtype());
}

Output Var::Read(SourceLoc loc) const {
  if (!handle_.valid()) return handle_;
  if (is_reference()) return BuildRead(handle_, "", loc);
  // It is read on its own device, regardless of its readers' scopes.
  const NoDeviceScope none;
  const DeviceScope same_device(handle_.node->device());
  return BuildRead(handle_, "", loc);
}

Node* Var::Update(const char* resource_op, const char* reference_op,
                  const Operand& value, const std::string& name,
                  SourceLoc loc) const {
  if (!handle_.valid()) {
    CurrentGraph().PropagateFailure(
        handle_, WithLine(InvalidArgument(name,
                                          ": expected a variable, got "
                                          "none"),
                          loc));
    return nullptr;
  }
  // (In the body of a function the variable is an argument.)
  std::optional<ColocateWith> same_device;
  if (handle_.graph() == &CurrentGraph()) same_device.emplace(handle_.node);
  const Output v = value.Get(dtype());
  if (is_reference())
    return BuildNode(reference_op, {handle_, v}, {}, name, loc);
  return BuildNode(resource_op, {handle_, v}, {{"dtype", dtype()}}, name, loc);
}

Node* Var::Assign(const Operand& value, SourceLoc loc) const {
  return Update("AssignVariableOp", "Assign", value, "Assign", loc);
}
Node* Var::AssignAdd(const Operand& delta, SourceLoc loc) const {
  return Update("AssignAddVariableOp", "AssignAdd", delta, "AssignAdd", loc);
}
Node* Var::AssignSub(const Operand& delta, SourceLoc loc) const {
  return Update("AssignSubVariableOp", "AssignSub", delta, "AssignSub", loc);
}

Output Var::IsInitialized(SourceLoc loc) const {
  return Build(is_reference() ? "IsVariableInitialized" : "VarIsInitializedOp",
               {handle_}, {}, "", loc);
}

InitializerFn DefaultInitializer(DType dtype) {
  return IsFloating(dtype) ? init::GlorotUniform() : init::Zeros();
}

namespace {

// The defaults of what was left open.
void Complete(VariableRequest* r) {
  if (r->dtype == DType::kInvalid) r->dtype = DType::kFloat;
  if (r->initializer == nullptr) r->initializer = DefaultInitializer(r->dtype);
}

// The variable of a name under the current prefix, made if it does not exist.
// In the body of a function, `name` is complete if `complete` is set.
Var FindOrMake(const VariableRequest& r, Reuse reuse, bool complete,
               SourceLoc loc) {
  Graph& g = CurrentGraph();
  if (!r.shape.valid()) {
    BuildError(
        Annotate(r.shape.status(), absl::StrCat("variable '", r.name, "'")),
        loc);
    return Var::FromHandle(g.Failure());
  }
  if (const BodyInProgress* const body = CurrentBody(); body != nullptr) {
    VariableRequest outside = r;
    if (!complete) outside.name = NameOutside(*body, r.name);
    return MadeOutside(
        *body, [&] { return FindOrMake(outside, reuse, complete, loc); });
  }
  const auto fail = [&](const Status& s) {
    BuildError(s, loc);
    return Var::FromHandle(g.Failure());
  };
  const std::string full_name =
      RepeatedNames::First(CurrentNamePrefix()) + r.name;
  if (Node* const existing = FindVariable(g, full_name); existing != nullptr) {
    Var v = Var::FromHandle(Output(existing));
    if (reuse == Reuse::kNever && !RepeatedNames::Repeating())
      return fail(InvalidArgument(
          "variable '", v.name(), "': expected a new one in its scope, got ",
          "that of ", existing->loc().ToString(),
          "; hint: a VariableScope with Reuse::kAuto shares variables"));
    if (v.dtype() == r.dtype && v.shape() == PartialShape(r.shape)) return v;
    return fail(InvalidArgument("variable '", v.name(), "': expected ",
                                DTypeName(v.dtype()), v.shape().ToString(),
                                " as it was made, got ", DTypeName(r.dtype),
                                r.shape.ToString()));
  }
  if (reuse == Reuse::kAlways)
    return fail(InvalidArgument(
        "variable '", full_name,
        "': expected one that exists, got none; hint: a VariableScope with "
        "Reuse::kAuto makes what is missing"));
  Output initial;
  {
    const std::optional<ContextScope> outermost = Outermost();
    const NoControlDependencies initializers_run_alone;
    const AtLine at(loc);
    initial = r.initializer(r.shape, r.dtype);
  }
  Var made(Operand(initial), r.name, r.options, loc);
  if (made.valid() && made.name() != full_name)
    g.SetAttr(made.handle().node, kVariableName, full_name);
  return made;
}

// Names of this thread's new nodes begin with the prefix, whatever scope it is
// in.
class ExactPrefix {
 public:
  explicit ExactPrefix(const std::string& prefix)
      : saved_(CurrentNamePrefix()) {
    SetNamePrefix(prefix);
  }
  ~ExactPrefix() { SetNamePrefix(saved_); }
  ExactPrefix(const ExactPrefix&) = delete;

 private:
  const std::string saved_;
};

}  // namespace

Var GetVariable(const std::string& name, const Shape& shape,
                const InitializerFn& initializer, DType dtype,
                const VarOptions& options, SourceLoc loc) {
  Graph& g = CurrentGraph();
  const VariableScope* const scope = CurrentVariableScope();
  VariableRequest r = {name, shape, initializer, dtype, options};
  if (scope != nullptr) scope->FillIn(&r);
  Complete(&r);
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  if (scope == nullptr) return FindOrMake(r, Reuse::kAuto, false, loc);
  return scope->Get(
      r,
      [&](VariableRequest asked) {
        Complete(&asked);
        const ExactPrefix complete_name("");
        return FindOrMake(asked, scope->reuse(), true, loc);
      },
      loc);
}

std::vector<Var> VariablesIn(const std::string& collection,
                             const std::string& scope) {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  std::vector<Var> vars;
  const auto it = g.collections().find(collection);
  if (it == g.collections().end()) return vars;
  for (const Output& handle : it->second)
    if (scope.empty() || handle.node->name().starts_with(scope + "/"))
      vars.push_back(Var::FromHandle(handle));
  return vars;
}
std::vector<Var> GlobalVariables(const std::string& scope) {
  return VariablesIn(kGlobalVariables, scope);
}
std::vector<Var> TrainableVariables(const std::string& scope) {
  return VariablesIn(kTrainableVariables, scope);
}

Node* Group(const std::vector<Node*>& nodes, const std::string& name,
            SourceLoc loc) {
  std::map<std::string, std::vector<Node*>> on_device;
  for (Node* n : nodes) on_device[n == nullptr ? "" : n->device()].push_back(n);
  const auto group_on = [&](const std::string& device,
                            const std::vector<Node*>& some,
                            const std::string& called) {
    // (Exactly there, whatever the scopes around say.)
    std::optional<NoDeviceScope> alone;
    if (!device.empty()) alone.emplace();
    const DeviceScope there(device);
    const ControlDependencies after(some);
    return BuildNode("NoOp", {}, {}, called, loc);
  };
  // (So a node on another task than these learns of their end by one token.)
  if (on_device.size() == 1)
    return group_on(on_device.begin()->first, nodes, name);
  std::vector<Node*> groups;
  for (const auto& [device, some] : on_device)
    if (device.empty() || some.size() == 1)
      groups.insert(groups.end(), some.begin(), some.end());
    else
      groups.push_back(group_on(device, some, "group"));
  return group_on("", groups, name);
}

Node* VariablesInitializer(const std::vector<Var>& vars,
                           const std::string& name, SourceLoc loc) {
  // (A variable of an imported graph may have none.)
  std::vector<Node*> nodes;
  for (const Var& v : vars)
    if (v.initializer() != nullptr || !v.valid())
      nodes.push_back(v.initializer());
  return Group(nodes, name, loc);
}
Node* GlobalVariablesInitializer(SourceLoc loc) {
  return VariablesInitializer(GlobalVariables(), "init", loc);
}

Output Placeholder(DType dtype, const PartialShape& shape,
                   const std::string& name, SourceLoc loc) {
  return Build("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}}, name,
               loc);
}

}  // namespace sluice
