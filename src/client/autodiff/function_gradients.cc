#include "client/autodiff/function_gradients.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "client/autodiff/backprop.h"
#include "graph/builder.h"
#include "graph/control_flow.h"
#include "graph/control_flow_recovery.h"
#include "graph/deferred_sums.h"
#include "graph/function.h"
#include "graph/gradient_scope.h"
#include "graph/hidden_attributes.h"
#include "graph/node_names.h"
#include "graph/summed_arguments.h"
#include "graph/tensor_store_info.h"
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

// Whether the value is a handle of a store that the function takes or makes.
bool IsStoreHandle(const Output& o, const std::vector<bool>& stores) {
  if (RemoveRef(o.dtype()) != DType::kResource) return false;
  for (const StoreIdentity& id : IdentitiesOfStore(o)) {
    if (id.root->kind() == OpKind::kTensorStore) return true;
    if (id.root->op().role != OpRole::kArg) continue;
    const auto i = static_cast<size_t>(id.root->IntAttr("index"));
    if (i < stores.size() && stores[i]) return true;
  }
  return false;
}

// g(x..., ds..., dy...) -> dx..., for f(x...) -> y...: contains the nodes of f
// and of its gradients. ds: for each argument that is a store's handle, the
// store of gradients; its dx is a zero without meaning.
Status BuildGradient(const FunctionBody& f, FunctionBody* out) {
  Graph& g = *out->graph;
  const IntegerGradients off(false);  // (One body serves all calls.)
  std::vector<bool> stores = StoreArguments(g.function_library(), f.ref);
  stores.resize(f.args.size());
  for (const Output& result : f.results)
    if (IsStoreHandle(result, stores))
      return Unimplemented(
          "gradients: expected a recursive function that takes the handles of "
          "TensorStores, got one that returns a handle; ",
          result.node->Describe());
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
  for (const Output& result : f.results)
    out->forward_results.emplace_back(copies.at(result.node), result.index);
  for (const Node* n : f.control_results)
    out->forward_effects.push_back(copies.at(n));
  std::vector<Output> ys, dys;
  std::vector<GradTarget> xs;
  for (size_t i = 0; i < f.args.size(); ++i) {
    Node* arg = copies.at(f.args[i]);
    out->args.push_back(arg);
    xs.push_back(Output(arg));
    if (arg->output_type(0) == DType::kResource && !stores[i])
      TellVariable(&g, arg, VariableTypeOfArg(f, i), ToldVariableShape(*arg));
  }
  StoreScope scope;
  for (size_t i = 0; i < f.args.size(); ++i) {
    if (!stores[i]) continue;
    Node* const dual =
        BuildNode("_Arg", {},
                  {{"T", DType::kResource},
                   {"index", static_cast<int64_t>(out->args.size())}},
                  "ds");
    if (dual == nullptr) return g.status();
    SLUICE_RETURN_IF_ERROR(g.SetShape(Output(dual), PartialShape::Scalar()));
    out->args.push_back(dual);
    scope.duals[copies.at(f.args[i])] = Output(dual);
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
  if (!ys.empty() || !scope.duals.empty()) {
    GradientOptions options;
    options.grad_ys.assign(dys.begin(), dys.end());
    SLUICE_ASSIGN_OR_RETURN(grads,
                            GradientsWithStores(ys, xs, options, &scope));
    out->forward_effects.insert(out->forward_effects.end(),
                                scope.effects.begin(), scope.effects.end());
  }
  for (size_t i = 0; i < xs.size(); ++i) {
    const Output x = xs[i].output;
    const DType t = RemoveRef(x.dtype());
    Output dx = IsDifferentiable(t) ? Densify(grads[i], x) : Output();
    if (stores[i]) {
      dx = ScalarOf(DType::kFloat, 0, {});
    } else if (!dx.valid() && t == DType::kResource) {
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

AttrMap FunctionAttrs(const FunctionRef& f, const AttrValue::Types& args,
                      const AttrValue::Types& results) {
  return {{"f", f}, {"Tin", args}, {"Tout", results}};
}

AttrValue::Types TypesOf(const std::vector<Output>& outputs) {
  AttrValue::Types types;
  for (const Output& o : outputs) types.push_back(RemoveRef(o.dtype()));
  return types;
}

// The type of the gradient of an argument with this value.
DType GradientType(const Output& x) {
  const DType t = RemoveRef(x.dtype());
  if (t != DType::kResource) return t;
  const DType of_variable = VariableType(x);
  return of_variable != DType::kInvalid ? of_variable : DType::kFloat;
}

AttrValue::Types GradientTypes(const std::vector<Output>& args) {
  AttrValue::Types types;
  for (const Output& x : args) types.push_back(GradientType(x));
  return types;
}

// True for a SavedGradient's output that is a deferred sum.
bool IsDeferred(const Output& dx, const Output& arg) {
  return dx.dtype() == DType::kVariant &&
         RemoveRef(arg.dtype()) != DType::kVariant;
}

// A functional node as a call of one function with arguments. For nodes that
// compute gradients, the function is a gradient, SymbolicGradient of another.
struct CallParts {
  FunctionRef f;
  int first_arg = 0;
  std::vector<Output> args;
  int num_results = 0;  // The first outputs.
};

CallParts PartsOf(const Node& n) {
  CallParts p;
  p.num_results = n.num_outputs();
  const auto gradient_of = [&n](const AttrValue::Types& args,
                                const AttrValue::Types& results) {
    return FunctionRef{
        "SymbolicGradient",
        std::make_shared<AttrMap>(FunctionAttrs(
            *n.FindAttr("f")->get<FunctionRef>(), args, results))};
  };
  switch (KindOfCall(n)) {
    case CallKind::kGradient:
      p.f = gradient_of(n.AttrOr<AttrValue::Types>("Tin", {}),
                        n.AttrOr<AttrValue::Types>("Tout", {}));
      break;
    case CallKind::kSavedGradient:
      p.first_arg = 1;
      // (The first inputs are the arguments, of which there is one per output.)
      p.f = gradient_of(
          TypesOf({n.inputs().begin() + 1,
                   n.inputs().end() - NumStoresOfGradients(n)}),
          GradientTypes({n.inputs().begin() + 1,
                         n.inputs().begin() + 1 + n.num_outputs()}));
      break;
    case CallKind::kSavingCall:
      p.f = *n.FindAttr("f")->get<FunctionRef>();
      --p.num_results;
      break;
    default:
      p.f = CalledFunction(n, &p.first_arg);
  }
  p.args.assign(n.inputs().begin() + p.first_arg,
                n.inputs().end() - NumStoresOfGradients(n));
  return p;
}

// Whether the reads of a SavingCall's stores add to these gradients (and not to
// those of an earlier call of Gradients, for which it was made).
bool CountsForThis(const Node& call) {
  for (int i = call.num_inputs() - NumStoresOfGradients(call);
       i < call.num_inputs(); ++i)
    for (const StoreIdentity& id : IdentitiesOfStore(call.input(i)))
      if (!id.sources.empty() && !id.sources.back().empty() &&
          id.sources.back() != CurrentGradientScope())
        return false;
  return true;
}

// Marks a SavingCall whose saved values a gradient uses. A second gradient
// cannot use them: the arrays of a loop are cleared as they are read, and each
// has one array of gradients.
constexpr char kUsedAttr[] = "_saved_is_used";

// True for a call whose values may be saved for its gradient: of a recursive
// function, which has no gradient function of its own.
bool CanSave(const Node& n) {
  if (KindOfCall(n) != CallKind::kCall || n.kind() == OpKind::kRemoteCall ||
      n.FindAttr(kGradientOpTypeAttr) != nullptr)
    return false;
  int first = 0;
  const FunctionRef f = CalledFunction(n, &first);
  FunctionLibrary& library = n.graph()->function_library();
  return DifferentiatedBy(f) == nullptr && library.IsRecursive(f.name) &&
         library.gradients().count(f.name) == 0;
}

// Makes the call one that saves its values: the node becomes an identity of the
// results.
Status SaveInPlace(Graph& g, Node* call, const StoreScope& stores) {
  const CallParts parts = PartsOf(*call);
  std::vector<Output> results;
  for (int i = 0; i < call->num_outputs(); ++i) results.emplace_back(call, i);
  NodeSpec spec;
  spec.inputs = call->inputs();
  const std::vector<int> handles = StoreInputs(*call);
  if (!handles.empty()) {
    const ContextScope there(ContextOf(call));
    const AtLine at(call->loc());
    const NameScope scope(call->name() + "/stores");
    const NoControlDependencies free;
    for (const int i : handles) {
      const Output dual = StoreOfGradients(stores, call->input(i));
      if (!dual.valid()) return g.errors().back();
      spec.inputs.push_back(dual);
    }
  }
  // (A call that takes a store of gradients announces its reads there.)
  const bool has_effects = call->op().facts.has_effects || !handles.empty();
  spec.op = has_effects ? "StatefulSavingCall" : "SavingCall";
  spec.name = g.UniqueName(call->name() + "/saving");
  spec.control_inputs = call->control_inputs();
  spec.attrs = FunctionAttrs(parts.f, TypesOf(spec.inputs), TypesOf(results));
  if (const AttrValue* c = call->FindAttr(kColocationAttr))
    spec.attrs[kColocationAttr] = *c;
  spec.device = call->device();
  spec.loc = call->loc();
  SLUICE_ASSIGN_OR_RETURN(Node * saving, g.AddNode(std::move(spec)));
  g.control_flow().SetContext(saving, ContextOf(call));
  for (size_t i = 0; i < results.size(); ++i) {
    const Output result(saving, static_cast<int>(i));
    SLUICE_RETURN_IF_ERROR(g.SetShape(result, results[i].shape()));
    results[i] = result;
  }
  std::vector<Node*> controls;
  if (has_effects || results.empty()) controls = {saving};
  return g.TurnIntoIdentity(call, std::move(results), std::move(controls));
}

// A functional node between the xs and the ys, or one that writes a TensorStore
// which the ys depend on. (Such a write is an input of the store's reads.)
struct CallBetween {
  Node* node;
  bool between;
  bool takes_store;  // And reads or writes it.
};
std::vector<CallBetween> FunctionalBetween(const Graph& g,
                                           const std::vector<Output>& ys,
                                           const std::vector<Output>& xs,
                                           const StoreScope& stores) {
  std::vector<uint8_t> needed(static_cast<size_t>(g.num_nodes())),
      reached(needed.size());
  std::vector<std::vector<Node*>> consumers(needed.size());
  std::vector<Node*> open, functional;
  const auto mark = [&open](std::vector<uint8_t>& set, Node* n) {
    uint8_t& m = set[static_cast<size_t>(n->id())];
    if (m == 0) open.push_back(n);
    m = 1;
  };
  std::unordered_map<const Node*, std::vector<Node*>> writers;  // By reader.
  std::unordered_set<const Node*> read, write;
  const StoreWriters in_graph(g);
  for (const StoreWriters::Store& s : in_graph.stores()) {
    read.insert(s.readers.begin(), s.readers.end());
    write.insert(s.writers.begin(), s.writers.end());
    for (const Node* reader : s.readers) {
      std::vector<Node*>& of_reader = writers[reader];
      of_reader.insert(of_reader.end(), s.writers.begin(), s.writers.end());
    }
  }
  for (const Output& y : ys) mark(needed, y.node);
  if (!stores.duals.empty())
    for (const auto& n : g.nodes()) {
      std::vector<Output> written;
      if (WritesStore(*n)) {
        written = {n->input(0)};
      } else if (n->op().role == OpRole::kFunctional) {
        // (Of a conditional or a loop, each handle counts as written.)
        const bool one = KindOfCall(*n) == CallKind::kCall;
        const std::vector<int> handles = StoreInputs(*n);
        for (int i = 0; i < n->num_inputs(); ++i)
          if (n->input(i).valid() && n->input(i).dtype() == DType::kResource &&
              (!one ||
               std::find(handles.begin(), handles.end(), i) != handles.end()))
            written.push_back(n->input(i));
      }
      for (const Output& handle : written)
        for (const StoreIdentity& id : IdentitiesOfStore(handle))
          if (stores.duals.count(id.root) != 0) {
            write.insert(n.get());
            mark(needed, n.get());
          }
    }
  while (!open.empty()) {
    Node* n = open.back();
    open.pop_back();
    if (n->op().role == OpRole::kFunctional) functional.push_back(n);
    if (const auto it = writers.find(n); it != writers.end())
      for (Node* w : it->second) {
        consumers[static_cast<size_t>(w->id())].push_back(n);
        mark(needed, w);
      }
    for (const Output& in : n->inputs())
      if (in.node != nullptr) {
        consumers[static_cast<size_t>(in.node->id())].push_back(n);
        mark(needed, in.node);
      }
  }
  if (functional.empty()) return {};
  for (const Output& x : xs) mark(reached, x.node);
  while (!open.empty()) {
    Node* n = open.back();
    open.pop_back();
    for (Node* c : consumers[static_cast<size_t>(n->id())]) mark(reached, c);
  }
  std::vector<CallBetween> calls;
  for (Node* n : functional) {
    const bool between = reached[static_cast<size_t>(n->id())] != 0;
    if (between || write.contains(n))
      calls.push_back({n, between, read.contains(n) || write.contains(n)});
  }
  return calls;
}

// A write of a store that the function makes for itself: each run has its own.
bool WritesOwnStore(const Node& n) {
  if (!WritesStore(n)) return false;
  const std::vector<StoreIdentity> ids = IdentitiesOfStore(n.input(0));
  return std::all_of(ids.begin(), ids.end(), [](const StoreIdentity& id) {
    return id.root->kind() == OpKind::kTensorStore && id.local();
  });
}

// A node of the function, or of those that it calls, that does something else
// if it runs again: it has an effect, or draws random numbers. Null if none.
const Node* FindUnrepeatable(FunctionLibrary& library, const FunctionRef& f,
                             std::unordered_set<std::string>* seen) {
  if (!seen->insert(f.name).second) return nullptr;
  const Result<const FunctionBody*> body = library.Instantiate(f);
  if (!body.ok()) return nullptr;  // (Reported where it is needed.)
  for (const Node* n : (*body)->order) {
    const bool draws =
        n->op().facts.has_identity && n->FindAttr("seed2") != nullptr;
    if (n->op().role == OpRole::kFunctional) {
      const Node* found = nullptr;
      for (const auto& [name, value] : n->attrs())
        ForEachFunction(value, [&](const FunctionRef& called) {
          if (found == nullptr) found = FindUnrepeatable(library, called, seen);
        });
      if (found != nullptr) return found;
    } else if ((n->op().facts.has_effects && !WritesOwnStore(*n)) || draws) {
      return n;
    }
  }
  return nullptr;
}

}  // namespace

namespace {

// `duals`: for each argument that is a store's handle, the store of gradients.
Status GradientOfCall(GradContext& c, const std::vector<Output>& duals) {
  const CallParts call = PartsOf(*c.op);
  const std::vector<bool> stores =
      StoreArguments(c.op->graph()->function_library(), call.f);
  const auto is_store = [&stores](size_t i) {
    return i < stores.size() && stores[i];
  };
  if (KindOfCall(*c.op) == CallKind::kSavedGradient &&
      c.op->AttrOr<AttrValue::Types>("Tin", {}).empty())
    return Unimplemented(
        "SavedGradient: expected the arguments of the call, got none; "
        "differentiate the function that contains it");
  AttrValue::Types dx_types = GradientTypes(call.args);
  std::vector<Output> dys;
  for (int i = 0; i < call.num_results; ++i) {
    Output like = c.output(i), dy = c.dy[static_cast<size_t>(i)];
    // (The function whose gradient this node is returns arrays.)
    if (KindOfCall(*c.op) == CallKind::kSavedGradient &&
        IsDeferred(like, call.args[static_cast<size_t>(i)])) {
      like = call.args[static_cast<size_t>(i)];
      if (dy.valid()) dy = DeferredValueOf(dy, like);
    }
    dys.push_back(dy.valid() ? dy : NoGradientLike(like));
  }
  std::vector<Output> inputs = call.args;
  inputs.insert(inputs.end(), dys.begin(), dys.end());
  for (size_t i = 0; i < dx_types.size(); ++i)
    if (is_store(i)) dx_types[i] = DType::kFloat;
  AttrMap attrs = {{"f", call.f}, {"Tout", dx_types}};
  const bool saved = KindOfCall(*c.op) == CallKind::kSavingCall &&
                     c.op->FindAttr(kUsedAttr) == nullptr &&
                     CountsForThis(*c.op);
  if (!duals.empty() && !saved)
    return Unimplemented(
        "gradients: expected one gradient, of first order, through a call of a "
        "recursive function that uses a TensorStore from outside, got a "
        "second one or one of a gradient, which would have to run its reads "
        "and writes again; ",
        c.op->Describe());
  if (saved) {
    c.op->graph()->SetAttr(c.op, kUsedAttr, AttrValue(true));
    inputs.insert(inputs.begin(), c.output(call.num_results));
    inputs.insert(inputs.end(), duals.begin(), duals.end());
    dys.insert(dys.end(), duals.begin(), duals.end());
    attrs["Tin"] = AttrValue(TypesOf(call.args));
    attrs["Tdy"] = AttrValue(TypesOf(dys));
    const std::vector<bool> summed =
        SummedArguments(c.op->graph()->function_library(), call.f);
    for (size_t i = 0; i < summed.size() && i < dx_types.size(); ++i)
      if (summed[i]) dx_types[i] = DType::kVariant;
    attrs["Tout"] = AttrValue(dx_types);
  }
  if (std::unordered_set<std::string> seen; !saved) {
    const Node* again =
        FindUnrepeatable(c.op->graph()->function_library(), call.f, &seen);
    if (again != nullptr)
      return Unimplemented(
          "gradients: expected a function without effects and random numbers "
          "where its call is computed again (for a second gradient through one "
          "call, a gradient of a gradient, or recompute_in_gradient), got one "
          "with ",
          again->Describe(), "; ", c.op->Describe());
  }
  // (Saved values and deferred sums stay in the process, whatever scopes
  // Gradients is called in.)
  std::optional<ColocateWith> where_it_saved;
  if (saved) where_it_saved.emplace(c.op);
  Node* g = BuildNode(saved ? "SavedGradient" : "SymbolicGradient",
                      std::move(inputs), std::move(attrs));
  if (g == nullptr) return OkStatus();  // The graph has the error.
  for (int i = 0; i < g->num_outputs(); ++i) {
    const Output x = c.input(call.first_arg + i), dx(g, i);
    if (!IsDifferentiable(x.dtype()) || is_store(static_cast<size_t>(i)))
      continue;
    c.grads[static_cast<size_t>(call.first_arg + i)] =
        saved && IsDeferred(dx, x) ? DeferredValueOf(dx, x) : dx;
  }
  return OkStatus();
}

}  // namespace

Status CallGradient(GradContext& c) { return GradientOfCall(c, {}); }

Status CallGradientWithStores(GradContext& c,
                              const std::vector<Output>& duals) {
  return GradientOfCall(c, duals);
}

Output StoreOfGradients(const StoreScope& scope, const Output& handle) {
  if (scope.duals.empty())
    return Build("TensorStoreGrad", {handle}, {{"source", scope.source}}, "",
                 {});
  return Build("TensorStoreGradLike", {handle, scope.duals.begin()->second}, {},
               "", {});
}

Result<std::vector<Gradient>> GradientsWithStores(
    const std::vector<Output>& ys, const std::vector<GradTarget>& xs,
    const GradientOptions& options, StoreScope* stores) {
  std::vector<Output> x_outputs;
  for (const GradTarget& x : xs) x_outputs.push_back(x.output);
  SLUICE_RETURN_IF_ERROR(LowerForGradients(ys, x_outputs, options, stores));
  return Backprop(ys, xs, options, stores).Run();
}

Status LowerForGradients(const std::vector<Output>& ys,
                         const std::vector<Output>& xs,
                         const GradientOptions& options, StoreScope* stores) {
  Graph& g = CurrentGraph();
  for (const auto* list : {&ys, &xs})
    for (const Output& o : *list)  // Invalid outputs are reported elsewhere.
      if (!o.valid() || o.graph() != &g || o.dtype() == DType::kInvalid)
        return OkStatus();
  const std::vector<CallBetween> calls = FunctionalBetween(g, ys, xs, *stores);
  if (calls.empty()) return OkStatus();
  // Inlined nodes belong to the context of the node that they replace.
  SLUICE_RETURN_IF_ERROR(RecoverControlFlow(&g));
  for (const CallBetween& c : calls)
    if (CanLowerInPlace(*c.node))
      SLUICE_RETURN_IF_ERROR(LowerInPlace(g, c.node));
  // (In inlined bodies, too.)
  for (const CallBetween& c : FunctionalBetween(g, ys, xs, *stores)) {
    if (!c.between) continue;
    if (!CanSave(*c.node)) {
      const CallKind kind = KindOfCall(*c.node);
      if (c.takes_store && kind != CallKind::kSavingCall &&
          kind != CallKind::kSavedGradient)
        return Unimplemented(
            "gradients: expected a TensorStore in calls whose gradient is that "
            "of the function's body, got a call with a gradient function of "
            "its own, or a RemoteCall; ",
            c.node->Describe());
      continue;
    }
    if (stores->source.empty() && !StoreInputs(*c.node).empty())
      stores->source = NewGradientSource(
          g, absl::StrCat(CurrentNamePrefix(), options.name, "/"));
    SLUICE_RETURN_IF_ERROR(SaveInPlace(g, c.node, *stores));
  }
  return OkStatus();
}

}  // namespace sluice
