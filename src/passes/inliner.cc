#include "passes/inliner.h"

#include <algorithm>

#include "absl/strings/strip.h"
#include "base/sanitizers.h"
#include "graph/builder.h"
#include "graph/frames.h"
#include "graph/graphdef_function.h"
#include "graph/hidden_attributes.h"
#include "graph/node_names.h"
#include "graph/shape_context.h"
#include "graph/tensor_store_info.h"

namespace sluice {
namespace {

// Maximum number of nodes that bodies may add. (Sanitizers are ten times
// slower.)
constexpr int kMaxNodes = kSanitized ? 1 << 14 : 1 << 18;
constexpr size_t kMaxFrames = 256;

FunctionRef Ref(const Node& n, const char* attr) {
  return n.AttrOr<FunctionRef>(attr, FunctionRef{});
}

// For messages: "f", "f_grad", "f_grad_grad".
std::string NameOf(const FunctionRef& ref, FunctionPart part) {
  const FunctionRef* inner = DifferentiatedBy(ref);
  const char* const suffix = part == FunctionPart::kBody     ? ""
                             : part == FunctionPart::kSaving ? "_saving"
                                                             : "_grad";
  return absl::StrCat(
      inner == nullptr ? ref.name : NameOf(*inner, FunctionPart::kGradient),
      suffix);
}

// The function that a call, or one of its gradients, is of.
FunctionRef CalleeOf(const Node& n) {
  int first = 0;
  return KindOfCall(n) == CallKind::kCall ? CalledFunction(n, &first)
                                          : Ref(n, "f");
}

std::vector<Output> From(const std::vector<Output>& v, size_t first) {
  return {v.begin() + static_cast<ptrdiff_t>(first), v.end()};
}

}  // namespace

Place Place::Below(const std::string& name) const {
  Place p = *this;
  p.prefix = prefix + name + "/";
  return p;
}

Place Place::Under(Node* new_pivot) const {
  Place p = *this;
  p.pivot = new_pivot;
  p.anchored = std::make_shared<std::unordered_set<const Node*>>();
  if (new_pivot != nullptr) p.anchored->insert(new_pivot);
  return p;
}

Inliner::Inliner(Graph* to, const Graph& taken, bool as_frames)
    : to_(to), taken_(taken), as_frames_(as_frames) {
  for (const auto& n : taken.nodes())
    among_primitives_ = among_primitives_ || n->op().role == OpRole::kSwitch ||
                        n->op().role == OpRole::kEnter;
}

// ---- Nodes ------------------------------------------------------------------

std::string Inliner::Unique(const std::string& name) {
  std::string unique = to_->UniqueName(name);
  while (taken_.FindNode(unique) != nullptr)
    unique = to_->UniqueName(unique + "_");
  return unique;
}

bool Inliner::IsAnchored(const Place& at, const Output& o) const {
  return at.pivot == nullptr || at.anchored->count(o.node) != 0;
}

// Adds a control edge from the pivot if neither inputs nor control inputs tie a
// node to the place.
void Inliner::Anchor(const Place& at, const std::vector<Output>& inputs,
                     std::vector<Node*>* controls) const {
  if (at.pivot == nullptr) return;
  for (const Output& in : inputs)
    if (in.node == nullptr || at.anchored->count(in.node) != 0) return;
  for (const Node* c : *controls)
    if (at.anchored->count(c) != 0) return;
  controls->push_back(at.pivot);
}

Result<Node*> Inliner::Add(const Place& at, const std::string& op,
                           const std::string& name, std::vector<Output> inputs,
                           AttrMap attrs, std::vector<Node*> controls) {
  NodeSpec spec;
  spec.op = op;
  spec.name = Unique(at.prefix + name);
  Anchor(at, inputs, &controls);
  spec.inputs = std::move(inputs);
  spec.control_inputs = std::move(controls);
  spec.attrs = std::move(attrs);
  spec.device = at.device;
  spec.loc = at.loc;
  SLUICE_ASSIGN_OR_RETURN(Node * node, to_->AddNode(std::move(spec)));
  if (at.pivot != nullptr) at.anchored->insert(node);
  RecordContext(node, at.context);
  return node;
}

Result<Output> Inliner::Add1(const Place& at, const std::string& op,
                             const std::string& name,
                             std::vector<Output> inputs, AttrMap attrs) {
  SLUICE_ASSIGN_OR_RETURN(
      Node * node, Add(at, op, name, std::move(inputs), std::move(attrs)));
  return Output(node);
}

// Without control inputs: a constant has no specific frame.
Result<Output> Inliner::IntConstant(const Place& at, int64_t v, DType t) {
  SLUICE_ASSIGN_OR_RETURN(Tensor value,
                          ScalarTensor(t, static_cast<double>(v)));
  return Add1(records_contexts() ? at : at.Under(nullptr), "Const", "const", {},
              {{"value", std::move(value)}, {"dtype", t}});
}

// The same value, alive only if the pivot is.
Result<Output> Inliner::Anchored(const Place& at, const Output& o) {
  if (IsAnchored(at, o)) return o;
  return Add1(at, "Identity", "identity", {o});
}

Result<Node*> Inliner::Copy(const Node& n, const Place& at,
                            std::vector<Output> inputs,
                            std::vector<Node*> controls) {
  if (++copied_ > kMaxNodes)
    return ResourceExhausted("functions: expected at most ", kMaxNodes,
                             " nodes of inlined bodies, got more; ",
                             n.Describe());
  // (RecoverControlFlow determines a constant's context from its control
  // inputs.)
  const bool recorded = records_contexts() && at.among_primitives;
  const bool free_const =
      n.op().role == OpRole::kConst && controls.empty() && !recorded;
  if (!free_const) Anchor(at, inputs, &controls);
  SLUICE_ASSIGN_OR_RETURN(std::string device,
                          MergeDevices(n.device(), at.device));
  Node* copy = to_->CopyNode(n, Unique(at.prefix + n.name()), std::move(device),
                             n.loc().known() ? n.loc() : at.loc,
                             std::move(inputs), std::move(controls));
  if (n.op().role == OpRole::kEnter)
    to_->SetAttr(
        copy, "frame_name",
        AttrValue(at.prefix + n.AttrOr<std::string>("frame_name", "")));
  for (const char* attr : kNamingAttrs)
    if (n.FindAttr(attr) != nullptr)
      to_->SetAttr(copy, attr,
                   AttrValue(at.prefix + n.AttrOr<std::string>(attr, "")));
  if (const AttrValue* c = n.FindAttr(kColocationAttr))
    if (const auto* groups = c->get<AttrValue::Strings>()) {
      AttrValue::Strings here;
      for (const std::string& g : *groups)
        if (!g.starts_with("loc:@"))
          here.push_back(g);
        else if (n.graph()->FindNode(g.substr(5)) != nullptr)
          here.push_back("loc:@" + at.prefix + g.substr(5));
      to_->SetAttr(copy, kColocationAttr, AttrValue(std::move(here)));
    }
  to_->RefineShapes(copy);
  // (RecoverControlFlow finds the contexts of primitives within bodies.)
  if (!at.among_primitives)
    RecordContext(copy, free_const ? nullptr : at.context);
  if (!free_const && at.pivot != nullptr) at.anchored->insert(copy);
  return copy;
}

Result<Node*> Inliner::Done(const Values& v, const std::string& name,
                            const Place& at) {
  std::vector<Node*> controls = v.effects;
  for (const Output& o : v.outputs)
    if (std::find(controls.begin(), controls.end(), o.node) == controls.end() &&
        !IsFloatingConstant(*o.node))
      controls.push_back(o.node);
  return Add(at, "NoOp", name, {}, {}, std::move(controls));
}

// ---- Functional nodes -------------------------------------------------------

bool Inliner::IsKeptCall(const Node& n) const {
  const CallKind kind = KindOfCall(n);
  if (kind != CallKind::kCall && kind != CallKind::kGradient &&
      kind != CallKind::kSavingCall && kind != CallKind::kSavedGradient)
    return false;
  const FunctionRef ref = CalleeOf(n);
  // Functions with a custom gradient must exist when gradients are built.
  if (!as_frames_ && (n.FindAttr(kGradientOpTypeAttr) != nullptr ||
                      library().gradients().count(ref.name) != 0))
    return true;
  bool recursive = false;
  ForEachFunction(AttrValue(ref), [&](const FunctionRef& f) {
    recursive = recursive || library().IsRecursive(f.name);
  });
  return recursive;
}

// The place of a functional node's body: its names are prefixed with the node's
// name, and its condition is that of the node.
Result<Place> Inliner::Start(const Node& n, const std::vector<Output>& inputs,
                             const std::vector<Node*>& controls,
                             const Place& at) {
  Place place = at.Below(n.name());
  place.loc = n.loc().known() ? n.loc() : at.loc;
  SLUICE_ASSIGN_OR_RETURN(place.device, MergeDevices(n.device(), at.device));
  if (n.kind() == OpKind::kRemoteCall && !inputs.empty())
    if (const std::optional<Tensor> target = ConstantValue(inputs[0]);
        target && target->num_elements() == 1) {
      const Result<std::string> device =
          MergeDevices(target->raw_flat<std::string>()[0], place.device);
      if (!device.ok())
        return InvalidArgument(device.status().message(), "; ", n.Describe());
      place.device = *device;
    }
  if (!controls.empty()) {
    SLUICE_ASSIGN_OR_RETURN(
        Node * start, Add(at, "NoOp", n.name() + "/start", {}, {}, controls));
    return place.Under(start);
  }
  // The node may be within control-flow primitives of its body, or of the graph
  // at the outermost level: its inputs determine its context. A loop constant
  // does not: it is alive once more than the body runs.
  const bool among =
      at.primitives_here || (at.pivot == nullptr && among_primitives_);
  if (!among) return place;
  std::vector<Output> determine;
  const Output* constant = nullptr;  // Of the loop: better than none.
  for (const Output& in : inputs) {
    if (IsFloatingConstant(*in.node)) continue;
    if (!IsConstantEnter(*ResolveAlias(in).node))
      determine.push_back(in);
    else if (constant == nullptr)
      constant = &in;
  }
  if (determine.empty() && constant != nullptr) determine.push_back(*constant);
  if (determine.empty()) return place;
  SLUICE_ASSIGN_OR_RETURN(Node * start, Add(at, "Identity", n.name() + "/start",
                                            {determine.front()}));
  if (at.among_primitives) RecordContext(start, nullptr);  // (As in Copy.)
  Place under = place.Under(start);
  for (const Output& in : determine) under.anchored->insert(in.node);
  return under;
}

void Inliner::NoteRead(const Output& o) {
  if (o.node != nullptr && o.node->kind() == OpKind::kSavingCall &&
      o.index == o.node->num_outputs() - 1)
    saved_is_read_.insert(o.node);
}

Result<Values> Inliner::Lower(const Node& n, std::vector<Output> inputs,
                              std::vector<Node*> controls, const Place& at) {
  const auto fail = [&n](const Status& s) {
    return s.message().find("node '") == absl::string_view::npos
               ? Status(s.code(), absl::StrCat(s.message(), "; ", n.Describe()))
               : s;
  };
  if (IsKeptCall(n) && !as_frames_) {
    SLUICE_ASSIGN_OR_RETURN(
        Node * copy, Copy(n, at, std::move(inputs), std::move(controls)));
    Values v;
    for (int i = 0; i < copy->num_outputs(); ++i)
      v.outputs.emplace_back(copy, i);
    if (n.op().facts.has_effects) v.effects = {copy};
    return v;
  }
  Result<Place> place = Start(n, inputs, controls, at);
  if (!place.ok()) return fail(place.status());
  for (Output& in : inputs)  // A function takes values.
    if (IsRef(in.dtype())) {
      SLUICE_ASSIGN_OR_RETURN(in, Add1(*place, "Identity", "read", {in}));
    }
  Result<Values> v = Dispatch(n, std::move(inputs), *place);
  if (!v.ok()) return fail(v.status());
  // Later nodes in the outer place depend on the outer pivot through these.
  if (!controls.empty())
    for (Output& o : v->outputs) {
      SLUICE_ASSIGN_OR_RETURN(o, Anchored(*place, o));
    }
  if (at.pivot != nullptr && place->anchored != at.anchored) {
    for (const Output& o : v->outputs)
      if (IsAnchored(*place, o)) at.anchored->insert(o.node);
    for (const Node* e : v->effects) at.anchored->insert(e);
  }
  return v;
}

Result<Values> Inliner::Dispatch(const Node& n, std::vector<Output> inputs,
                                 const Place& at) {
  switch (KindOfCall(n)) {
    case CallKind::kNone:
      return Internal("lowering: expected a functional node, got ",
                      n.Describe());
    case CallKind::kCall: {
      int first = 0;
      const FunctionRef f = CalledFunction(n, &first);
      return Function(f, FunctionPart::kBody, true,
                      From(inputs, static_cast<size_t>(first)), at);
    }
    case CallKind::kGradient: {
      const std::vector<bool> stores = StoreArguments(library(), Ref(n, "f"));
      if (std::find(stores.begin(), stores.end(), true) != stores.end())
        return Unimplemented(
            "SymbolicGradient of '", Ref(n, "f").name,
            "': expected a function that takes no TensorStore, got one, whose "
            "reads and writes cannot run again for the gradient");
      return Function(Ref(n, "f"), FunctionPart::kGradient, true, inputs, at);
    }
    case CallKind::kSavingCall: {
      const bool saves = saved_is_read_.count(&n) != 0;
      // (The function itself takes no stores of gradients.)
      if (!saves)
        inputs.resize(inputs.size() -
                      static_cast<size_t>(NumStoresOfGradients(n)));
      SLUICE_ASSIGN_OR_RETURN(Values v, Function(Ref(n, "f"),
                                                 saves ? FunctionPart::kSaving
                                                       : FunctionPart::kBody,
                                                 true, inputs, at));
      // (Nothing reads what stands for the saved values.)
      if (!saves && !v.outputs.empty()) v.outputs.push_back(v.outputs[0]);
      return v;
    }
    case CallKind::kSavedGradient: {
      // (The arguments, if there are any, are not needed.)
      const size_t given = n.AttrOr<AttrValue::Types>("Tin", {}).size();
      std::vector<Output> args = From(inputs, 1 + given);
      args.insert(args.begin(), inputs[0]);
      SLUICE_ASSIGN_OR_RETURN(
          Values v,
          Function(Ref(n, "f"), FunctionPart::kFromSaved, true, args, at));
      // (It adds to stores of gradients, even if no result is read.)
      if (UseOfStores(n).writes && !v.outputs.empty())
        effects_.push_back(v.outputs[0].node);
      for (size_t i = 0; i < v.outputs.size(); ++i) {
        SLUICE_ASSIGN_OR_RETURN(
            v.outputs[i],
            AsGradient(v.outputs[i], n.output_type(static_cast<int>(i)),
                       given > 0 ? inputs[1 + i] : Output(), at));
      }
      return v;
    }
    case CallKind::kIf: {
      const auto branch = [&](const char* attr, const char* name) -> Emit {
        const FunctionRef ref = Ref(n, attr);
        return [this, ref, name](const Place& p,
                                 const std::vector<Output>& in) {
          return Function(ref, FunctionPart::kBody, false, in, p.Below(name));
        };
      };
      return Cond(inputs[0], From(inputs, 1), at, branch("then_branch", "then"),
                  branch("else_branch", "else"));
    }
    case CallKind::kCase: {
      const auto branches = n.AttrOr<AttrValue::Functions>("branches", {});
      const auto last = static_cast<int64_t>(branches.size()) - 1;
      // An index out of range selects the last branch.
      SLUICE_ASSIGN_OR_RETURN(const Output zero,
                              IntConstant(at, 0, DType::kInt32));
      SLUICE_ASSIGN_OR_RETURN(const Output most,
                              IntConstant(at, last, DType::kInt32));
      SLUICE_ASSIGN_OR_RETURN(const Output below,
                              Add1(at, "Less", "below", {inputs[0], zero}));
      SLUICE_ASSIGN_OR_RETURN(const Output upper, Add1(at, "Minimum", "minimum",
                                                       {inputs[0], most}));
      SLUICE_ASSIGN_OR_RETURN(
          inputs[0], Add1(at, "SelectV2", "index", {below, most, upper}));
      return Case(branches, 0, branches.size(), inputs, at);
    }
    case CallKind::kWhile:
      return While(n, inputs, at);
    case CallKind::kFor:
      return For(n, inputs, at);
  }
  return Internal("unknown kind of call");
}

// A result of a second part as an array or as a deferred sum, if it is not
// what its reader takes: the node was made when less was known about the
// function, or was imported. `arg`: the argument, if there is one.
Result<Output> Inliner::AsGradient(const Output& dx, DType want,
                                   const Output& arg, const Place& at) {
  const DType got = RemoveRef(dx.dtype());
  if (got == want) return dx;
  if (want == DType::kVariant) return Add1(at, "DeferredSum", "sum", {dx});
  if (got != DType::kVariant || !arg.valid())
    return Internal("lowering: expected a gradient of ", DTypeName(want),
                    ", got ", DTypeName(got));
  const bool resource = RemoveRef(arg.dtype()) == DType::kResource;
  SLUICE_ASSIGN_OR_RETURN(const Output shape,
                          Add1(at, resource ? "VariableShape" : "Shape",
                               "shape", {arg}, {{"out_type", DType::kInt64}}));
  return Add1(at, "DeferredValue", "value", {dx, shape}, {{"T", want}});
}

// The results of a function for these arguments: its body is inlined unless it
// is recursive.
Result<Values> Inliner::Function(const FunctionRef& ref, FunctionPart part,
                                 bool is_call, const std::vector<Output>& args,
                                 const Place& at) {
  bool stays = false;
  if (is_call)
    ForEachFunction(AttrValue(ref), [&](const FunctionRef& f) {
      stays = stays || library().IsRecursive(f.name);
    });
  for (const Inlined& outer : stack_)
    stays = stays || (outer.part == part && outer.ref == ref);
  if (stays) return KeepCall(ref, part, args, at);
  if (static_cast<int>(stack_.size()) >= FunctionLibrary::kMaxNesting)
    return InvalidArgument("functions: expected to be nested at most ",
                           FunctionLibrary::kMaxNesting, " deep, got '",
                           ref.name, "' deeper");
  // (Bodies without nodes take time, too.)
  if (++copied_ > kMaxNodes)
    return ResourceExhausted("functions: expected at most ", kMaxNodes,
                             " nodes of inlined bodies, got more in '",
                             ref.name, "'");
  SLUICE_ASSIGN_OR_RETURN(const FunctionBody* body,
                          library().InstantiatePart(ref, part));
  if (args.size() != body->args.size())
    return InvalidArgument("function '", ref.name, "': expected ",
                           body->args.size(), " arguments, got ", args.size());
  stack_.push_back({ref, part});
  Result<Values> v = Body(*body, args, at);
  stack_.pop_back();
  return v;
}

Result<Values> Inliner::Body(const FunctionBody& body,
                             const std::vector<Output>& args,
                             const Place& outside) {
  Place at = outside;
  at.primitives_here =
      std::any_of(body.order.begin(), body.order.end(), [](const Node* n) {
        return n->op().role == OpRole::kSwitch ||
               n->op().role == OpRole::kEnter;
      });
  at.among_primitives = at.among_primitives || at.primitives_here;
  OutputMap<Output> outputs;
  std::unordered_map<const Node*, std::vector<Node*>> done;
  std::unordered_set<const Node*> waited_for(body.control_results.begin(),
                                             body.control_results.end());
  for (const Node* n : body.order)
    waited_for.insert(n->control_inputs().begin(), n->control_inputs().end());
  NoteReads(body.order);
  for (const Output& o : body.results) NoteRead(o);
  std::vector<std::pair<const Node*, Node*>> open;  // Merges with back edges.
  for (const Node* n : body.order) {
    if (n->op().role == OpRole::kArg) {
      const Output arg = args[static_cast<size_t>(n->IntAttr("index"))];
      outputs[Output(const_cast<Node*>(n))] = arg;
      if (!IsFloatingConstant(*arg.node)) done[n] = {arg.node};
      continue;
    }
    std::vector<Output> inputs;
    bool back = false;
    for (const Output& in : n->inputs()) {
      const auto it = outputs.find(in);
      back = back || it == outputs.end();
      inputs.push_back(it == outputs.end() ? Output() : it->second);
    }
    std::vector<Node*> controls;
    for (const Node* c : n->control_inputs())
      for (Node* d : done[c])
        if (std::find(controls.begin(), controls.end(), d) == controls.end())
          controls.push_back(d);
    if (n->op().role == OpRole::kFunctional) {
      SLUICE_ASSIGN_OR_RETURN(const Values v, Lower(*n, std::move(inputs),
                                                    std::move(controls), at));
      for (size_t i = 0; i < v.outputs.size(); ++i)
        outputs[Output(const_cast<Node*>(n), static_cast<int>(i))] =
            v.outputs[i];
      if (waited_for.count(n) != 0) {
        SLUICE_ASSIGN_OR_RETURN(Node * d, Done(v, n->name() + "/done", at));
        done[n] = {d};
      }
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(
        Node * copy, Copy(*n, at, std::move(inputs), std::move(controls)));
    for (int i = 0; i < n->num_outputs(); ++i)
      outputs[Output(const_cast<Node*>(n), i)] = Output(copy, i);
    done[n] = {copy};
    if (WritesStore(*n)) effects_.push_back(copy);
    if (back) open.emplace_back(n, copy);
  }
  for (const auto& [n, copy] : open)
    for (int i = 0; i < n->num_inputs(); ++i)
      if (!copy->input(i).valid())
        SLUICE_RETURN_IF_ERROR(
            to_->SetBackEdge(copy, i, outputs.at(n->input(i))));
  Values v;
  for (const Output& o : body.results) v.outputs.push_back(outputs.at(o));
  for (const Node* c : body.control_results)
    v.effects.insert(v.effects.end(), done[c].begin(), done[c].end());
  effects_.insert(effects_.end(), v.effects.begin(), v.effects.end());
  return v;
}

// A call that is not inlined.
Result<Values> Inliner::KeepCall(const FunctionRef& ref, FunctionPart part,
                                 const std::vector<Output>& args,
                                 const Place& at) {
  std::vector<DType> in, out;
  SLUICE_RETURN_IF_ERROR(library().Signature(ref, &in, &out));
  if (part != FunctionPart::kBody) {
    SLUICE_ASSIGN_OR_RETURN(const FunctionBody* body,
                            library().InstantiatePart(ref, part));
    in = body->arg_types();
    out = body->result_types();
  }
  AttrMap attrs = {{"Tin", in}, {"Tout", out}};
  std::string op = part == FunctionPart::kGradient ? "SymbolicGradient"
                                                   : "StatefulPartitionedCall";
  if (as_frames_) {
    auto it = std::find_if(
        frames_.begin(), frames_.end(),
        [&](const FrameFunction& f) { return f.part == part && f.ref == ref; });
    if (it == frames_.end()) {
      // (A function may call itself with growing attributes.)
      if (frames_.size() >= kMaxFrames)
        return ResourceExhausted("functions: expected at most ", kMaxFrames,
                                 " recursive functions, counting each choice "
                                 "of attributes, got more; '",
                                 ref.name, "'");
      const std::string base = NameOf(ref, part);
      FrameFunction f{base, ref, part};
      const auto taken = [&](const std::string& name) {
        return std::any_of(
            frames_.begin(), frames_.end(),
            [&](const FrameFunction& o) { return o.name == name; });
      };
      for (int k = 1; taken(f.name); ++k) f.name = absl::StrCat(base, "_", k);
      it = frames_.insert(frames_.end(), std::move(f));
    }
    op = "_Call";
    attrs["function"] = it->name;
  } else {
    attrs["f"] = ref;
  }
  SLUICE_ASSIGN_OR_RETURN(Node * call,
                          Add(at, op, "call", args, std::move(attrs)));
  Values v;
  for (int i = 0; i < call->num_outputs(); ++i) v.outputs.emplace_back(call, i);
  const OpDef* op_def = library().FindOp(ref.name);
  const bool runs_body =
      part == FunctionPart::kBody || part == FunctionPart::kSaving;
  if (op_def != nullptr && op_def->facts.has_effects && runs_body)
    v.effects = {call};
  return v;
}

// Whether the function, or the one that it is the gradient of, asks for it.
bool Inliner::IsBatched(const FunctionRef& ref) const {
  bool batched = false;
  ForEachFunction(AttrValue(ref), [&](const FunctionRef& f) {
    const auto def = library().defs().find(f.name);
    batched = batched || (def != library().defs().end() &&
                          HasFunctionFlag(def->second, kBatchAttr));
  });
  return batched;
}

Status Inliner::AddFrame(const FrameFunction& f) {
  Place at;
  at.prefix = f.name + "/";
  SLUICE_ASSIGN_OR_RETURN(
      Node * start, Add(at, "_Function", "start", {}, {{"function", f.name}}));
  at = at.Under(start);
  SLUICE_ASSIGN_OR_RETURN(const FunctionBody* body,
                          library().InstantiatePart(f.ref, f.part));
  std::vector<Output> args;
  for (size_t i = 0; i < body->args.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(
        Node * arg, Add(at.Under(nullptr), "_Arg", body->args[i]->name(), {},
                        {{"T", body->args[i]->output_type(0)},
                         {"index", static_cast<int64_t>(i)},
                         {"function", f.name}}));
    to_->SetShape(Output(arg), body->args[i]->output_shape(0)).IgnoreError();
    at.anchored->insert(arg);
    args.emplace_back(arg);
  }
  stack_.push_back({f.ref, f.part});
  Result<Values> v = Body(*body, args, at);
  stack_.pop_back();
  if (!v.ok())
    return Annotate(v.status(), absl::StrCat("function '", f.name, "'"));
  const bool batched = IsBatched(f.ref);
  for (size_t i = 0; i < v->outputs.size(); ++i) {
    AttrMap attrs = {{"T", RemoveRef(v->outputs[i].dtype())},
                     {"index", static_cast<int64_t>(i)},
                     {"function", f.name}};
    if (batched) attrs[kBatchAttr] = true;
    SLUICE_RETURN_IF_ERROR(Add(at, "_Retval", absl::StrCat("result_", i),
                               {v->outputs[i]}, std::move(attrs))
                               .status());
  }
  return OkStatus();
}

}  // namespace sluice
