#include "graph/gradient_parts.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graph/builder.h"
#include "graph/control_flow.h"
#include "graph/control_flow_recovery.h"
#include "graph/deferred_sums.h"
#include "graph/summed_arguments.h"
#include "graph/tensor_store_info.h"

namespace sluice {
namespace {

using NodeSet = std::unordered_set<const Node*>;

// Constants are in both parts.
bool IsConst(const Node* n) { return n->op().role == OpRole::kConst; }

// Whether an argument has a gradient, which is not that of a list.
bool HasArrayGradient(const Node& arg) {
  const DType t = RemoveRef(arg.output_type(0));
  return IsFloating(t) || IsComplex(t) || t == DType::kResource;
}

// The inputs that from_saved needs of a node.
std::vector<Output> InputsAfterwards(const Node& n) {
  if (n.kind() != OpKind::kSavedGradient) return n.inputs();
  const size_t args = n.AttrOr<AttrValue::Types>("Tin", {}).size();
  std::vector<Output> inputs = n.inputs();
  inputs.erase(inputs.begin() + 1,
               inputs.begin() + 1 + static_cast<ptrdiff_t>(args));
  return inputs;
}

// Adds nodes to one of the parts, in a scope that is unused in the gradient.
struct Adder {
  std::string scope;
  Result<Node*> Add(Graph* g, const char* op, const char* name,
                    std::vector<Output> inputs, AttrMap attrs = {},
                    std::vector<Node*> controls = {}) const;
  // An Optional of the values, after `controls`, and a node with its values.
  Result<Output> Pack(Graph* g, std::vector<Output> values,
                      std::vector<Node*> controls = {}) const;
  Result<Node*> Unpack(const Output& saved,
                       const std::vector<Output>& values) const;
  Result<Node*> SavedArgument(Graph* g) const;
};

Result<Node*> Adder::Add(Graph* g, const char* op, const char* name,
                         std::vector<Output> inputs, AttrMap attrs,
                         std::vector<Node*> controls) const {
  NodeSpec spec;
  spec.op = op;
  spec.name = g->UniqueName(scope + name);
  spec.inputs = std::move(inputs);
  spec.attrs = std::move(attrs);
  spec.control_inputs = std::move(controls);
  return g->AddNode(std::move(spec));
}

Result<Output> Adder::Pack(Graph* g, std::vector<Output> values,
                           std::vector<Node*> controls) const {
  const bool none = values.empty();
  SLUICE_ASSIGN_OR_RETURN(
      Node * node, Add(g, none ? "OptionalNone" : "OptionalFromValue", "pack",
                       std::move(values), {}, std::move(controls)));
  return Output(node);
}

Result<Node*> Adder::Unpack(const Output& saved,
                            const std::vector<Output>& values) const {
  AttrValue::Types types;
  AttrValue::Shapes shapes;
  for (const Output& v : values) {
    types.push_back(v.dtype());
    shapes.push_back(v.shape());
  }
  return Add(saved.graph(), "OptionalGetValue", "unpack", {saved},
             {{"output_types", types}, {"output_shapes", shapes}});
}

Result<Node*> Adder::SavedArgument(Graph* g) const {
  return Add(g, "_Arg", "arg", {},
             {{"T", DType::kVariant}, {"index", int64_t{0}}});
}

// Copies nodes of one graph to another, inputs first; then closes the loops.
class Copier {
 public:
  explicit Copier(Graph* to) : to_(to) {}

  Output Of(const Output& o) const {
    const auto it = values_.find(o);
    return it == values_.end() ? Output() : it->second;
  }
  Node* Of(const Node* n) const {
    const auto it = nodes_.find(n);
    return it == nodes_.end() ? nullptr : it->second;
  }
  void Set(const Output& from, const Output& to) { values_[from] = to; }

  // `controls` are nodes of the new graph.
  Node* Copy(const Node& n, std::vector<Node*> controls) {
    std::vector<Output> inputs;
    bool back = false;
    for (const Output& in : n.inputs()) {
      inputs.push_back(Of(in));
      back = back || !inputs.back().valid();
    }
    Node* const copy = to_->CopyNode(n, std::move(inputs), std::move(controls));
    if (back) open_.emplace_back(&n, copy);
    Add(n, copy);
    return copy;
  }
  // `copy` stands for `n`.
  void Add(const Node& n, Node* copy) {
    nodes_[&n] = copy;
    for (int i = 0; i < n.num_outputs(); ++i)
      values_[Output(const_cast<Node*>(&n), i)] = Output(copy, i);
  }
  Status Close() {
    for (const auto& [n, copy] : open_)
      for (int i = 0; i < n->num_inputs(); ++i)
        if (!copy->input(i).valid()) {
          const Output source = Of(n->input(i));
          if (!source.valid())
            return Internal("gradient in parts: expected input ", i,
                            " to be in the same part; ", n->Describe());
          SLUICE_RETURN_IF_ERROR(to_->SetBackEdge(copy, i, source));
        }
    return OkStatus();
  }

 private:
  Graph* const to_;
  OutputMap<Output> values_;
  std::unordered_map<const Node*, Node*> nodes_;
  std::vector<std::pair<const Node*, Node*>> open_;
};

// One division. The node sets are of the gradient's graph.
class Splitter {
 public:
  Splitter(const FunctionBody& gradient, FunctionBody* saving,
           FunctionBody* from_saved)
      : all_(gradient),
        num_args_(gradient.args.size() - gradient.forward_results.size()),
        stores_(
            StoreArguments(gradient.graph->function_library(), gradient.ref)),
        saving_(saving),
        from_saved_(from_saved),
        adder_{gradient.graph->UniqueScope("saved")},
        first_(saving->graph.get()),
        second_(from_saved->graph.get()) {}

  Status Run() {
    SLUICE_RETURN_IF_ERROR(RecoverControlFlow(all_.graph.get()));
    SLUICE_RETURN_IF_ERROR(DeferSums());
    SLUICE_RETURN_IF_ERROR(Divide());
    SLUICE_RETURN_IF_ERROR(FindCrossings());
    SLUICE_RETURN_IF_ERROR(BuildSaving());
    return BuildFromSaved();
  }

 private:
  // What crosses from one part to the other in one context: values,
  // conditionals of which a branch has such values, and nodes after which the
  // second part runs.
  struct Crossing {
    std::vector<Output> values;
    std::vector<Conditional*> conditionals;
    std::vector<const Node*> awaited;
  };

  // A loop is in one part as a whole.
  std::vector<const Node*> UnitOf(const Node* n) const {
    const auto it = loop_nodes_.find(OutermostWhile(ContextOf(n)));
    return it == loop_nodes_.end() ? std::vector<const Node*>{n} : it->second;
  }
  bool InLoop(const Node* n) const {
    return OutermostWhile(ContextOf(n)) != nullptr;
  }

  // The results of the second part: gradients that are sums over all calls as
  // deferred sums. New nodes beside those of the gradient, which stay.
  Status DeferSums() {
    Graph& g = *all_.graph;
    const WithGraph use(g);
    const std::vector<bool> summed =
        SummedArguments(g.function_library(), all_.ref);
    DeferredSums sums;
    Output none;
    results_ = all_.results;
    for (size_t i = 0; i < summed.size() && i < results_.size(); ++i) {
      if (!summed[i]) continue;
      const bool has_gradient = HasArrayGradient(*all_.args[i]) &&
                                !(i < stores_.size() && stores_[i]);
      if (!has_gradient && !none.valid())
        none = Build("DeferredNone", {}, {}, "", {});
      results_[i] = has_gradient ? sums.Of(results_[i]) : none;
      if (!results_[i].valid()) return g.status();
    }
    return OkStatus();
  }

  // Finds the nodes of the gradient that read stores of gradients or add to
  // them, which must run when f has run. (f itself may have such nodes.)
  Status FindStoreGradients() {
    SLUICE_ASSIGN_OR_RETURN(
        const std::vector<const Node*> forward,
        OrderOf(*all_.graph, {}, all_.forward_results, all_.forward_effects));
    const NodeSet of_f(forward.begin(), forward.end());
    for (const auto& n : all_.graph->nodes()) {
      if (of_f.count(n.get()) != 0) continue;
      const bool saved =
          n->kind() == OpKind::kSavedGradient && NumStoresOfGradients(*n) > 0;
      const bool adds =
          saved ? UseOfStores(*n).writes
                : n->kind() == OpKind::kTensorStoreAdd && n->num_inputs() > 2;
      if (saved || adds || n->kind() == OpKind::kTensorStoreSum)
        of_stores_.push_back(n.get());
      if (adds) adds_.push_back(n.get());
    }
    return OkStatus();
  }

  // Finds the nodes of the first part: those that f needs, and of the others
  // that do not depend on dy the ones that cannot or should not be computed
  // afterwards.
  Status Divide() {
    std::vector<Output> ends = results_;
    ends.insert(ends.end(), all_.forward_results.begin(),
                all_.forward_results.end());
    SLUICE_RETURN_IF_ERROR(FindStoreGradients());
    std::vector<Node*> run = all_.forward_effects;
    for (const Node* n : adds_) run.push_back(const_cast<Node*>(n));
    SLUICE_ASSIGN_OR_RETURN(order_, OrderOf(*all_.graph, all_.args, ends, run));
    std::unordered_map<const Node*, std::vector<const Node*>> consumers;
    for (const Node* n : order_) {
      for (const Output& in : n->inputs()) consumers[in.node].push_back(n);
      for (const Node* c : n->control_inputs()) consumers[c].push_back(n);
      if (InLoop(n)) loop_nodes_[OutermostWhile(ContextOf(n))].push_back(n);
    }
    NodeSet late;  // Depends on dy, or on stores of gradients.
    std::vector<const Node*> open(
        all_.args.begin() + static_cast<ptrdiff_t>(num_args_), all_.args.end());
    open.insert(open.end(), of_stores_.begin(), of_stores_.end());
    while (!open.empty()) {
      const Node* const n = open.back();
      open.pop_back();
      if (late.count(n) != 0) continue;
      for (const Node* member : UnitOf(n)) {
        late.insert(member);
        for (const Node* c : consumers[member]) open.push_back(c);
      }
    }
    const auto put_first = [&](const Node* start) -> Status {
      open.push_back(start);
      while (!open.empty()) {
        const Node* const n = open.back();
        open.pop_back();
        if (is_first_.count(n) != 0) continue;
        if (late.count(n) != 0)
          return Unimplemented("depends on a gradient; ", n->Describe());
        for (const Node* member : UnitOf(n)) {
          is_first_.insert(member);
          for (const Output& in : member->inputs()) open.push_back(in.node);
          for (const Node* c : member->control_inputs()) open.push_back(c);
        }
      }
      return OkStatus();
    };
    for (size_t i = 0; i < num_args_; ++i) is_first_.insert(all_.args[i]);
    for (const Output& o : all_.forward_results)
      SLUICE_RETURN_IF_ERROR(put_first(o.node));
    for (const Node* n : all_.forward_effects)
      SLUICE_RETURN_IF_ERROR(put_first(n));
    for (const Node* n : order_) {
      if (late.count(n) != 0 || is_first_.count(n) != 0) continue;
      // (A shape is smaller than the value.)
      const bool shape_of_first =
          ReadsOnlyShapes(n->kind()) &&
          std::all_of(
              n->inputs().begin(), n->inputs().end(),
              [&](const Output& in) { return is_first_.count(in.node) != 0; });
      if (InLoop(n) || !n->op().facts.pure() || shape_of_first)
        SLUICE_RETURN_IF_ERROR(put_first(n));
    }
    return OkStatus();
  }

  // The nodes of the second part, and what they use of the first.
  Status FindCrossings() {
    NodeSet needed;
    std::vector<const Node*> open;
    const auto need = [&](const Node* n) {
      if (IsSecond(n) && needed.insert(n).second) open.push_back(n);
    };
    for (const Output& o : results_) {
      SLUICE_RETURN_IF_ERROR(Use(o));
      need(o.node);
    }
    for (const Node* n : adds_) need(n);
    // (Uses of values may come to use predicates, which may be constants.)
    while (!open.empty() || !used_consts_.empty()) {
      if (open.empty()) {
        need(used_consts_.back());
        used_consts_.pop_back();
        continue;
      }
      const Node* const n = open.back();
      open.pop_back();
      for (const Output& in : InputsAfterwards(*n)) {
        SLUICE_RETURN_IF_ERROR(Use(in));
        need(in.node);
      }
      for (const Node* c : n->control_inputs()) {
        if (!IsSecond(c)) SLUICE_RETURN_IF_ERROR(Await(c));
        need(c);
      }
    }
    for (const Node* n : order_)
      if (needed.count(n) != 0) second_order_.push_back(n);
    return OkStatus();
  }
  bool IsSecond(const Node* n) const {
    return IsConst(n) || is_first_.count(n) == 0 || ForwardsStore(n);
  }
  // Takes a store of gradients into a branch: in both parts, like the argument,
  // so that no handle is saved.
  bool ForwardsStore(const Node* n) const {
    const Node* from = n;
    while (from->op().role == OpRole::kSwitch) from = from->input(0).node;
    return from != n && IsStoreOfGradients(from) && !InLoop(n);
  }

  // An argument of both parts.
  bool IsStoreOfGradients(const Node* n) const {
    const auto args = all_.args.begin();
    return std::find(args + static_cast<ptrdiff_t>(all_.results.size()),
                     args + static_cast<ptrdiff_t>(num_args_),
                     n) != args + static_cast<ptrdiff_t>(num_args_);
  }

  Status Use(const Output& o) {
    if (IsSecond(o.node)) {
      if (IsConst(o.node)) used_consts_.push_back(o.node);
      return OkStatus();
    }
    if (IsStoreOfGradients(o.node)) return OkStatus();
    if (!crossing_.insert(o).second) return OkStatus();
    if (IsRef(o.dtype()))
      return Unimplemented("expected a value to save, got a reference; ",
                           o.node->Describe());
    ControlFlowContext* const context = ContextOf(o);
    SLUICE_RETURN_IF_ERROR(UseContext(context));
    crossings_[context].values.push_back(o);
    return OkStatus();
  }

  // The second part runs after this node of the first, which may write what it
  // reads (the last element of an array that a loop fills), and which no result
  // of the first part may depend on.
  Status Await(const Node* n) {
    ControlFlowContext* const context = ControlContextOf(n);
    SLUICE_RETURN_IF_ERROR(UseContext(context));
    // (These only tell that a branch was taken.)
    const OpRole role = n->op().role;
    const bool moves = role == OpRole::kSwitch || role == OpRole::kIdentity ||
                       role == OpRole::kArg;
    if (!moves && awaited_.insert(n).second)
      crossings_[context].awaited.push_back(n);
    return OkStatus();
  }

  Status UseContext(ControlFlowContext* context) {
    if (context == nullptr || !used_contexts_.insert(context).second)
      return OkStatus();
    if (context->AsCond() == nullptr)
      return Unimplemented(
          "expected a value outside of loops to save, got one "
          "of loop '",
          context->name(), "'");
    SLUICE_RETURN_IF_ERROR(UseContext(context->outer()));
    Conditional* const c = context->AsCond()->conditional();
    std::vector<Conditional*>& inner =
        crossings_[context->outer()].conditionals;
    if (std::find(inner.begin(), inner.end(), c) == inner.end())
      inner.push_back(c);
    return Use(c->pred());
  }

  // ---- The first part.

  Status BuildSaving() {
    Graph* const g = saving_->graph.get();
    for (const Node* n : order_) {
      if (is_first_.count(n) == 0) continue;
      std::vector<Node*> controls;
      for (const Node* c : n->control_inputs())
        controls.push_back(first_.Of(c));
      first_.Copy(*n, std::move(controls));
    }
    SLUICE_RETURN_IF_ERROR(first_.Close());
    for (size_t i = 0; i < num_args_; ++i)
      saving_->args.push_back(first_.Of(all_.args[i]));
    for (const Output& o : all_.forward_results)
      saving_->results.push_back(first_.Of(o));
    for (const Node* n : all_.forward_effects)
      saving_->control_results.push_back(first_.Of(n));
    SLUICE_ASSIGN_OR_RETURN(const Output saved, PackContext(g, nullptr));
    saving_->results.push_back(saved);
    return OkStatus();
  }

  bool IsEmpty(ControlFlowContext* context) {
    const Crossing& c = crossings_[context];
    return c.values.empty() && c.conditionals.empty();
  }
  std::vector<Node*> AwaitedIn(ControlFlowContext* context) {
    std::vector<Node*> here;
    for (const Node* n : crossings_[context].awaited)
      here.push_back(first_.Of(n));
    return here;
  }

  Result<Output> PackContext(Graph* g, ControlFlowContext* context) {
    std::vector<Output> values;
    for (const Output& o : crossings_[context].values)
      values.push_back(first_.Of(o));
    for (Conditional* c : crossings_[context].conditionals) {
      Output side[2];
      for (int i = 0; i < 2; ++i) {
        SLUICE_ASSIGN_OR_RETURN(side[i], PackContext(g, c->branch(i)));
        if (!IsEmpty(c->branch(i))) continue;
        SLUICE_ASSIGN_OR_RETURN(
            Node * in_branch,
            adder_.Add(g, "Switch", "none", {side[i], Value(first_, c->pred())},
                       {}, AwaitedIn(c->branch(i))));
        side[i] = Output(in_branch, i);
      }
      SLUICE_ASSIGN_OR_RETURN(
          Node * merge, adder_.Add(g, "Merge", "branch", {side[0], side[1]}));
      values.emplace_back(merge);
    }
    // (What an empty branch awaits, its Switch does.)
    return adder_.Pack(g, std::move(values),
                       IsEmpty(context) && context != nullptr
                           ? std::vector<Node*>()
                           : AwaitedIn(context));
  }

  // The value in a part; a constant that no node there has used yet is copied.
  Output Value(Copier& part, const Output& o) {
    if (IsConst(o.node) && part.Of(o.node) == nullptr) part.Copy(*o.node, {});
    return part.Of(o);
  }

  // ---- The second part.

  Status BuildFromSaved() {
    Graph* const g = from_saved_->graph.get();
    SLUICE_ASSIGN_OR_RETURN(Node * saved, adder_.SavedArgument(g));
    from_saved_->args.push_back(saved);
    std::vector<const Node*> args(
        all_.args.begin() + static_cast<ptrdiff_t>(num_args_), all_.args.end());
    args.insert(args.end(),
                all_.args.begin() + static_cast<ptrdiff_t>(all_.results.size()),
                all_.args.begin() + static_cast<ptrdiff_t>(num_args_));
    for (const Node* n : args) {
      Node* const arg = second_.Copy(*n, {});
      g->SetAttr(arg, "index", static_cast<int64_t>(from_saved_->args.size()));
      from_saved_->args.push_back(arg);
    }
    SLUICE_RETURN_IF_ERROR(UnpackContext(Output(saved), nullptr));
    for (const Node* n : second_order_) {
      if (second_.Of(n) != nullptr) continue;
      std::vector<Node*> controls;
      for (const Node* c : n->control_inputs()) {
        Node* const here =
            IsSecond(c) ? second_.Of(c) : anchor_[ControlContextOf(c)];
        if (here != nullptr) controls.push_back(here);
      }
      if (n->kind() == OpKind::kSavedGradient) {
        SLUICE_RETURN_IF_ERROR(CopySavedGradient(*n, std::move(controls)));
      } else {
        second_.Copy(*n, std::move(controls));
      }
    }
    SLUICE_RETURN_IF_ERROR(second_.Close());
    for (const Output& o : results_)
      from_saved_->results.push_back(second_.Of(o));
    return OkStatus();
  }

  Status UnpackContext(const Output& saved, ControlFlowContext* context) {
    const Crossing& crossing = crossings_[context];
    if (IsEmpty(context)) {
      if (context == nullptr) return OkStatus();
      SLUICE_ASSIGN_OR_RETURN(
          anchor_[context],
          adder_.Add(saved.graph(), "Identity", "in_branch", {saved}));
      return OkStatus();
    }
    std::vector<Output> values = crossing.values;
    // (Only the types and shapes are used; a pack is a variant scalar.)
    values.resize(values.size() + crossing.conditionals.size(), saved);
    SLUICE_ASSIGN_OR_RETURN(Node * unpacked, adder_.Unpack(saved, values));
    anchor_[context] = context == nullptr ? nullptr : unpacked;
    int next = 0;
    for (const Output& v : crossing.values)
      second_.Set(v, Output(unpacked, next++));
    for (Conditional* c : crossing.conditionals) {
      SLUICE_ASSIGN_OR_RETURN(
          Node * branches,
          adder_.Add(saved.graph(), "Switch", "branch",
                     {Output(unpacked, next++), Value(second_, c->pred())}));
      for (int i = 0; i < 2; ++i)
        if (used_contexts_.count(c->branch(i)) != 0)
          SLUICE_RETURN_IF_ERROR(
              UnpackContext(Output(branches, i), c->branch(i)));
    }
    return OkStatus();
  }

  // Without the arguments, which therefore need not be saved.
  Status CopySavedGradient(const Node& n, std::vector<Node*> controls) {
    NodeSpec spec;
    spec.op = n.op_name();
    spec.name = n.name();
    for (const Output& in : InputsAfterwards(n))
      spec.inputs.push_back(second_.Of(in));
    spec.control_inputs = std::move(controls);
    spec.attrs = n.attrs();
    spec.attrs["Tin"] = AttrValue(AttrValue::Types());
    spec.device = n.device();
    spec.loc = n.loc();
    Graph* const g = from_saved_->graph.get();
    SLUICE_ASSIGN_OR_RETURN(Node * copy, g->AddNode(std::move(spec)));
    for (int i = 0; i < n.num_outputs(); ++i)
      SLUICE_RETURN_IF_ERROR(g->SetShape(Output(copy, i), n.output_shape(i)));
    second_.Add(n, copy);
    return OkStatus();
  }

  const FunctionBody& all_;
  const size_t num_args_;           // With the stores of gradients.
  const std::vector<bool> stores_;  // By argument of the function.
  std::vector<const Node*> adds_;   // Runs in the second part in any case.
  FunctionBody* const saving_;
  FunctionBody* const from_saved_;
  const Adder adder_;
  Copier first_, second_;
  std::vector<Output> results_;  // Of the second part, in the gradient's graph.
  std::vector<const Node*> order_, second_order_;
  std::unordered_map<const WhileContext*, std::vector<const Node*>> loop_nodes_;
  std::vector<const Node*> of_stores_;  // Use stores of gradients.
  NodeSet is_first_;
  OutputSet crossing_;
  NodeSet awaited_;
  std::vector<const Node*> used_consts_;
  std::unordered_set<const ControlFlowContext*> used_contexts_;
  std::unordered_map<const ControlFlowContext*, Crossing> crossings_;
  // In the second part: a node that is alive exactly if the branch was taken.
  std::unordered_map<const ControlFlowContext*, Node*> anchor_;
};

}  // namespace

Status SplitGradient(const FunctionBody& gradient, FunctionBody* saving,
                     FunctionBody* from_saved) {
  return Splitter(gradient, saving, from_saved).Run();
}

Status SaveArguments(const FunctionBody& body, const FunctionBody& gradient,
                     FunctionBody* saving, FunctionBody* from_saved) {
  const std::vector<bool> stores =
      StoreArguments(body.graph->function_library(), body.ref);
  if (std::find(stores.begin(), stores.end(), true) != stores.end())
    return Unimplemented(
        "gradients: expected a function whose values can be saved for its "
        "gradient (no references, no values within loops that its gradient "
        "needs, not recompute_in_gradient), since it uses a TensorStore from "
        "outside, whose reads and writes cannot run again; function '",
        body.ref.name, "'");
  Graph* const g = saving->graph.get();
  const Adder adder{body.graph->UniqueScope("saved")};
  Copier copier(g);
  for (const Node* n : body.order) {
    std::vector<Node*> controls;
    for (const Node* c : n->control_inputs()) controls.push_back(copier.Of(c));
    copier.Copy(*n, std::move(controls));
  }
  SLUICE_RETURN_IF_ERROR(copier.Close());
  std::vector<Output> args;
  for (const Node* a : body.args) {
    saving->args.push_back(copier.Of(a));
    args.emplace_back(copier.Of(a));
  }
  for (const Output& o : body.results) saving->results.push_back(copier.Of(o));
  for (const Node* n : body.control_results)
    saving->control_results.push_back(copier.Of(n));
  SLUICE_ASSIGN_OR_RETURN(const Output saved, adder.Pack(g, args));
  saving->results.push_back(saved);

  Graph* const second = from_saved->graph.get();
  SLUICE_ASSIGN_OR_RETURN(Node * saved_arg, adder.SavedArgument(second));
  from_saved->args.push_back(saved_arg);
  std::vector<Output> inputs;
  if (!args.empty()) {
    SLUICE_ASSIGN_OR_RETURN(Node * unpacked,
                            adder.Unpack(Output(saved_arg), args));
    for (int i = 0; i < unpacked->num_outputs(); ++i)
      inputs.emplace_back(unpacked, i);
  }
  Copier dys(second);
  for (size_t i = body.args.size(); i < gradient.args.size(); ++i) {
    Node* const dy = dys.Copy(*gradient.args[i], {});
    second->SetAttr(dy, "index", static_cast<int64_t>(from_saved->args.size()));
    from_saved->args.push_back(dy);
    inputs.emplace_back(dy);
  }
  SLUICE_ASSIGN_OR_RETURN(
      Node * dx,
      adder.Add(second, "SymbolicGradient", "gradient", std::move(inputs),
                {{"f", body.ref}, {"Tout", gradient.result_types()}}));
  for (int i = 0; i < dx->num_outputs(); ++i)
    from_saved->results.emplace_back(dx, i);
  return OkStatus();
}

}  // namespace sluice
