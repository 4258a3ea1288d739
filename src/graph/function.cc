#include "graph/function.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_join.h"
#include "graph/control_flow.h"
#include "graph/gradient_parts.h"
#include "graph/graphdef_function.h"
#include "graph/shape_context.h"
#include "graph/tensor_store_info.h"

namespace sluice {
namespace {

GradientBuilder& TheGradientBuilder() {
  static GradientBuilder builder = nullptr;
  return builder;
}

template <typename T>
std::vector<DType> DTypes(const std::vector<T>& outputs) {
  std::vector<DType> types;
  for (const Output o : outputs) types.push_back(RemoveRef(o.dtype()));
  return types;
}

// The attributes of a call that the signature declares, with its defaults.
Result<AttrMap> BoundAttrs(const OpDef& op, const FunctionRef& ref) {
  AttrMap bound;
  for (const AttrDef& def : op.attrs) {
    if (ref.attrs != nullptr)
      if (auto it = ref.attrs->find(def.name); it != ref.attrs->end()) {
        bound.emplace(def.name, it->second);
        continue;
      }
    if (!def.default_value)
      return InvalidArgument("function '", ref.name, "': attribute '", def.name,
                             "': expected a value, got none");
    bound.emplace(def.name, *def.default_value);
  }
  return bound;
}

Status NoSuchFunction(const std::string& name,
                      const std::map<std::string, std::string>& defs) {
  std::vector<std::string> names;
  for (const auto& [n, def] : defs) names.push_back(n);
  const std::vector<std::string> near = NearestNames(name, names);
  return NotFound("function: expected one of the library's ", defs.size(),
                  ", got '", name, "'",
                  near.empty() ? "" : "; nearest: ", absl::StrJoin(near, ", "));
}

// A function called by its own name has the result shapes of its body.
Status FunctionOpShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(CheckCall(c.node()));
  std::vector<PartialShape> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
  std::vector<PartialShape> shapes = CallShapes(c.node(), inputs);
  for (int i = 0; i < c.num_outputs(); ++i)
    c.set_output(i, shapes[static_cast<size_t>(i)]);
  return OkStatus();
}

}  // namespace

Result<std::vector<const Node*>> OrderOf(
    const Graph& graph, const std::vector<Node*>& args,
    const std::vector<Output>& results,
    const std::vector<Node*>& control_results) {
  std::vector<uint8_t> needed(graph.nodes().size(), 0);
  std::vector<const Node*> open;
  const auto need = [&](const Node* n) {
    if (n == nullptr || needed[static_cast<size_t>(n->id())] != 0) return;
    needed[static_cast<size_t>(n->id())] = 1;
    open.push_back(n);
  };
  for (const Node* a : args) need(a);
  for (const Output& o : results) need(o.node);
  for (const Node* c : control_results) need(c);
  while (!open.empty()) {
    const Node* n = open.back();
    open.pop_back();
    for (const Output& in : n->inputs()) need(in.node);
    for (const Node* c : n->control_inputs()) need(c);
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> all,
                          TopologicalOrder(graph));
  std::vector<const Node*> order;
  for (const Node* n : all)
    if (needed[static_cast<size_t>(n->id())] != 0) order.push_back(n);
  return order;
}

Status FindOrder(FunctionBody* body) {
  // (Writes of stores run although nothing may depend on them: a loop of writes
  // may lead to no Exit.)
  std::vector<Node*> run = body->control_results;
  for (const auto& n : body->graph->nodes())
    if (WritesStore(*n) ||
        (KindOfCall(*n) == CallKind::kSavedGradient && UseOfStores(*n).writes))
      run.push_back(n.get());
  SLUICE_ASSIGN_OR_RETURN(
      body->order, OrderOf(*body->graph, body->args, body->results, run));
  return OkStatus();
}

void TellVariable(Graph* graph, Node* arg, DType dtype,
                  const PartialShape& shape) {
  graph->SetAttr(arg, kHandleTypes, AttrValue::Types{dtype});
  graph->SetAttr(arg, kHandleShapes, AttrValue::Shapes{shape});
}

DType ToldVariableType(const Node& arg) {
  const auto types = arg.AttrOr<AttrValue::Types>(kHandleTypes, {});
  return types.size() == 1 ? types[0] : DType::kInvalid;
}

PartialShape ToldVariableShape(const Node& arg) {
  const auto shapes = arg.AttrOr<AttrValue::Shapes>(kHandleShapes, {});
  return shapes.size() == 1 ? shapes[0] : PartialShape();
}

std::vector<DType> FunctionBody::arg_types() const { return DTypes(args); }
std::vector<DType> FunctionBody::result_types() const {
  return DTypes(results);
}

std::shared_ptr<FunctionLibrary> Unowned(FunctionLibrary* library) {
  return std::shared_ptr<FunctionLibrary>(std::shared_ptr<void>(), library);
}

const FunctionRef* DifferentiatedBy(const FunctionRef& ref) {
  if (ref.name != "SymbolicGradient" || ref.attrs == nullptr) return nullptr;
  const auto f = ref.attrs->find("f");
  return f == ref.attrs->end() ? nullptr : f->second.get<FunctionRef>();
}

void SetGradientBuilder(GradientBuilder builder) {
  TheGradientBuilder() = builder;
}

void ForEachFunction(const AttrValue& v,
                     const std::function<void(const FunctionRef&)>& fn) {
  const auto one = [&fn](const FunctionRef& f) {
    fn(f);
    if (f.attrs == nullptr) return;
    for (const auto& [name, value] : *f.attrs) ForEachFunction(value, fn);
  };
  if (const auto* f = v.get<FunctionRef>()) one(*f);
  if (const auto* fs = v.get<AttrValue::Functions>())
    for (const FunctionRef& f : *fs) one(f);
}

// ---- The library ------------------------------------------------------------

// Everything that was made, or is being made, from the functions.
struct FunctionLibrary::Cache {
  using Bodies = std::vector<std::unique_ptr<FunctionBody>>;
  std::map<std::string, Bodies> bodies, gradients, saving, from_saved;
  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> ops;
  std::vector<std::unique_ptr<OpDef>> old_ops;  // Nodes may still have them.
  std::map<std::string, std::set<std::string>> callees;
  std::map<std::string, bool> recursive;
  std::set<std::string> in_progress;
  int nesting = 0;
  // Inferred shapes, by function and arguments, and how many nodes the current
  // call may still visit.
  std::map<std::string, std::vector<PartialShape>> shapes;
  static constexpr int64_t kShapeBudget = 1 << 20;
  int64_t shape_budget = 0;

  // The body of this function in `in`.
  static const FunctionBody* Find(const std::map<std::string, Bodies>& in,
                                  const FunctionRef& ref) {
    const auto it = in.find(ref.name);
    if (it == in.end()) return nullptr;
    for (const auto& body : it->second)
      if (body->ref == ref) return body.get();
    return nullptr;
  }

  // Counts one more level of nesting during its lifetime.
  struct Nested {
    explicit Nested(Cache* c) : cache(c) { ++cache->nesting; }
    ~Nested() { --cache->nesting; }
    Cache* cache;
  };
  Status CheckNesting(const std::string& name) const {
    if (nesting < kMaxNesting) return OkStatus();
    return InvalidArgument("functions: expected to be nested at most ",
                           kMaxNesting, " deep, got '", name, "' deeper");
  }
};

FunctionLibrary::FunctionLibrary() : cache_(std::make_unique<Cache>()) {}
FunctionLibrary::~FunctionLibrary() = default;

Status FunctionLibrary::Define(const std::string& name, std::string bytes) {
  if (name.empty())
    return InvalidArgument("function library: expected a name, got none");
  if (OpRegistry::Global()->Find(name) != nullptr)
    return InvalidArgument(
        "function library: expected a name that no op has, "
        "got '",
        name, "'");
  auto [it, added] = defs_.try_emplace(name, bytes);
  if (added || it->second == bytes) return OkStatus();
  if (!IsDeclarationOnly(it->second))
    return InvalidArgument("function library: expected one definition of '",
                           name, "', got two that differ");
  it->second = std::move(bytes);
  // The cached bodies of other functions may depend on this one being unknown.
  cache_->bodies.clear();
  cache_->gradients.clear();
  cache_->saving.clear();
  cache_->from_saved.clear();
  cache_->shapes.clear();
  cache_->callees.clear();
  cache_->recursive.clear();
  if (auto op = cache_->ops.find(name); op != cache_->ops.end()) {
    cache_->old_ops.push_back(std::move(op->second));
    cache_->ops.erase(op);
  }
  return OkStatus();
}

const OpDef* FunctionLibrary::FindOp(std::string_view name) {
  if (auto it = cache_->ops.find(name); it != cache_->ops.end())
    return it->second.get();
  const auto def = defs_.find(std::string(name));
  if (def == defs_.end()) return nullptr;
  Result<OpDef> op = FunctionSignature(def->second);
  if (!op.ok()) return nullptr;
  op->role = OpRole::kFunctional;
  op->shape = FunctionOpShape;
  op->family = "function";
  op->no_grad_reason = "differentiated by its body";
  return cache_->ops.emplace(name, std::make_unique<OpDef>(*std::move(op)))
      .first->second.get();
}

Result<const OpDef*> FunctionLibrary::LookupOp(std::string_view name) {
  if (!defs_.empty())
    if (const OpDef* op = FindOp(name)) return op;
  return OpRegistry::Global()->Lookup(name);
}

Result<const FunctionBody*> FunctionLibrary::Instantiate(
    const FunctionRef& ref) {
  if (const FunctionBody* made = Cache::Find(cache_->bodies, ref)) return made;
  SLUICE_RETURN_IF_ERROR(cache_->CheckNesting(ref.name));
  const Cache::Nested nested(cache_.get());
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<FunctionBody> body, Make(ref));
  cache_->bodies[ref.name].push_back(std::move(body));
  return cache_->bodies[ref.name].back().get();
}

Result<std::unique_ptr<FunctionBody>> FunctionLibrary::Make(
    const FunctionRef& ref) {
  const auto def = defs_.find(ref.name);
  if (def == defs_.end()) {
    const OpDef* op = OpRegistry::Global()->Find(ref.name);
    if (op == nullptr) return NoSuchFunction(ref.name, defs_);
    return MakeOfOp(*op, ref);
  }
  if (IsDeclarationOnly(def->second))
    return FailedPrecondition("function '", ref.name,
                              "': expected to be defined, got a declaration");
  auto body = std::make_unique<FunctionBody>();
  body->ref = ref;
  body->graph = std::make_unique<Graph>();
  body->graph->UseLibrary(Unowned(this));
  const bool outermost = cache_->in_progress.insert(ref.name).second;
  Status s = BuildFunctionBody(def->second, body.get());
  if (outermost) cache_->in_progress.erase(ref.name);
  if (!s.ok()) return Annotate(s, absl::StrCat("function '", ref.name, "'"));
  if (body->control_results.empty()) FindEffects(body.get());
  SLUICE_RETURN_IF_ERROR(FindOrder(body.get()));
  return body;
}

// An op is a function of one node.
Result<std::unique_ptr<FunctionBody>> FunctionLibrary::MakeOfOp(
    const OpDef& op, const FunctionRef& ref) {
  auto body = std::make_unique<FunctionBody>();
  body->ref = ref;
  body->graph = std::make_unique<Graph>();
  body->graph->UseLibrary(Unowned(this));
  NodeSpec spec;
  spec.op = op.name;
  spec.name = op.name;
  SLUICE_ASSIGN_OR_RETURN(spec.attrs, BoundAttrs(op, ref));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<DType> types,
                          TypesOf(op.inputs, spec.attrs));
  for (size_t i = 0; i < types.size(); ++i) {
    if (IsRef(types[i]))
      return InvalidArgument(
          "function: expected an op without references, got '", op.name, "'");
    NodeSpec arg;
    arg.op = "_Arg";
    arg.name = absl::StrCat("arg_", i);
    arg.attrs = {{"T", types[i]}, {"index", static_cast<int64_t>(i)}};
    SLUICE_ASSIGN_OR_RETURN(Node * node, body->graph->AddNode(std::move(arg)));
    body->args.push_back(node);
    spec.inputs.emplace_back(node);
  }
  SLUICE_ASSIGN_OR_RETURN(Node * node, body->graph->AddNode(std::move(spec)));
  for (int i = 0; i < node->num_outputs(); ++i)
    body->results.emplace_back(node, i);
  FindEffects(body.get());
  SLUICE_RETURN_IF_ERROR(FindOrder(body.get()));
  return body;
}

namespace {

// Whether a gradient function has a result for each argument of its function.
Status CheckGradientOf(const FunctionBody& f, const FunctionBody& gradient) {
  const auto wrong = [&](const auto&... parts) {
    return InvalidArgument("gradient of function '", f.ref.name,
                           "': expected '", gradient.ref.name, "' to return ",
                           parts...);
  };
  const std::vector<DType> args = f.arg_types(),
                           results = gradient.result_types();
  if (args.size() != results.size())
    return wrong(args.size(), " results, one for each argument, got ",
                 results.size());
  // (The gradient of a variable's handle has the type of its values.)
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i] != results[i] && args[i] != DType::kResource)
      return wrong(DTypeName(args[i]), " for argument ", i, ", got ",
                   DTypeName(results[i]));
  return OkStatus();
}

}  // namespace

Result<const FunctionBody*> FunctionLibrary::InstantiateGradient(
    const FunctionRef& ref) {
  if (const auto it = gradients_.find(ref.name); it != gradients_.end()) {
    SLUICE_ASSIGN_OR_RETURN(const FunctionBody* const gradient,
                            Instantiate(FunctionRef{it->second, ref.attrs}));
    SLUICE_ASSIGN_OR_RETURN(const FunctionBody* const of, Instantiate(ref));
    SLUICE_RETURN_IF_ERROR(CheckGradientOf(*of, *gradient));
    return gradient;
  }
  if (const FunctionBody* made = Cache::Find(cache_->gradients, ref))
    return made;
  // The gradient of a gradient is built from its body: as a single node, it
  // would be its own gradient.
  const FunctionBody* body = nullptr;
  if (const FunctionRef* inner = DifferentiatedBy(ref)) {
    SLUICE_ASSIGN_OR_RETURN(body, InstantiateGradient(*inner));
  } else {
    SLUICE_ASSIGN_OR_RETURN(body, Instantiate(ref));
  }
  if (TheGradientBuilder() == nullptr)
    return Unimplemented("gradient of function '", ref.name,
                         "': expected the client library, got a program "
                         "without it");
  SLUICE_RETURN_IF_ERROR(cache_->CheckNesting(ref.name));
  const Cache::Nested nested(cache_.get());
  auto gradient = std::make_unique<FunctionBody>();
  gradient->ref = ref;
  gradient->graph = std::make_unique<Graph>();
  gradient->graph->UseLibrary(Unowned(this));
  if (Status s = TheGradientBuilder()(*body, gradient.get()); !s.ok())
    return Annotate(s, absl::StrCat("gradient of function '", ref.name, "'"));
  SLUICE_RETURN_IF_ERROR(FindOrder(gradient.get()));
  cache_->gradients[ref.name].push_back(std::move(gradient));
  return cache_->gradients[ref.name].back().get();
}

Result<const FunctionBody*> FunctionLibrary::InstantiatePart(
    const FunctionRef& ref, FunctionPart part) {
  if (part == FunctionPart::kBody) return Instantiate(ref);
  if (part == FunctionPart::kGradient) return InstantiateGradient(ref);
  const auto& made =
      part == FunctionPart::kSaving ? cache_->saving : cache_->from_saved;
  if (Cache::Find(made, ref) == nullptr)
    SLUICE_RETURN_IF_ERROR(MakeGradientParts(ref));
  return Cache::Find(made, ref);
}

Status FunctionLibrary::MakeGradientParts(const FunctionRef& ref) {
  SLUICE_ASSIGN_OR_RETURN(const FunctionBody* const body, Instantiate(ref));
  SLUICE_ASSIGN_OR_RETURN(const FunctionBody* const gradient,
                          InstantiateGradient(ref));
  FunctionBody parts[2];
  const auto reset = [&] {
    for (FunctionBody& part : parts) {
      part = FunctionBody();
      part.ref = ref;
      part.graph = std::make_unique<Graph>();
      part.graph->UseLibrary(Unowned(this));
    }
  };
  reset();
  Status s = RecomputesInGradient(ref.name)
                 ? Unimplemented("by request")
                 : SplitGradient(*gradient, &parts[0], &parts[1]);
  if (absl::IsUnimplemented(s)) {
    reset();
    s = SaveArguments(*body, *gradient, &parts[0], &parts[1]);
  }
  if (!s.ok())
    return Annotate(s, absl::StrCat("gradient of function '", ref.name, "'"));
  for (FunctionBody& part : parts) SLUICE_RETURN_IF_ERROR(FindOrder(&part));
  cache_->saving[ref.name].push_back(
      std::make_unique<FunctionBody>(std::move(parts[0])));
  cache_->from_saved[ref.name].push_back(
      std::make_unique<FunctionBody>(std::move(parts[1])));
  return OkStatus();
}

bool FunctionLibrary::RecomputesInGradient(const std::string& name) const {
  const auto def = defs_.find(name);
  return def != defs_.end() && HasFunctionFlag(def->second, kRecomputeAttr);
}

Status FunctionLibrary::Signature(const FunctionRef& ref,
                                  std::vector<DType>* args,
                                  std::vector<DType>* results) {
  const OpDef* op = FindOp(ref.name);
  if (op == nullptr) op = OpRegistry::Global()->Find(ref.name);
  if (op == nullptr) return NoSuchFunction(ref.name, defs_);
  SLUICE_ASSIGN_OR_RETURN(const AttrMap attrs, BoundAttrs(*op, ref));
  SLUICE_ASSIGN_OR_RETURN(*args, TypesOf(op->inputs, attrs));
  SLUICE_ASSIGN_OR_RETURN(*results, TypesOf(op->outputs, attrs));
  return OkStatus();
}

// The shapes that the body declares; an unattributed error for a function that
// has no body yet, or is being made.
Result<std::vector<PartialShape>> FunctionLibrary::ArgShapes(
    const FunctionRef& ref) {
  const auto def = defs_.find(ref.name);
  if (def == defs_.end() || IsDeclarationOnly(def->second) ||
      cache_->in_progress.count(ref.name) != 0)
    return FailedPrecondition("no body");
  SLUICE_ASSIGN_OR_RETURN(const FunctionBody* const body, Instantiate(ref));
  std::vector<PartialShape> shapes;
  for (const Node* a : body->args) shapes.push_back(a->output_shape(0));
  return shapes;
}

std::string FunctionLibrary::Describe(const FunctionRef& ref, size_t captured) {
  const OpDef* op = FindOp(ref.name);
  if (op == nullptr) op = OpRegistry::Global()->Find(ref.name);
  if (op == nullptr) return ref.name;
  const Result<AttrMap> attrs = BoundAttrs(*op, ref);
  if (!attrs.ok()) return op->Signature();
  const auto shapes = ArgShapes(ref);
  size_t next = 0;
  const auto text = [&](const ArgDef& arg, bool named, bool shaped) {
    const Result<std::vector<DType>> types = TypesOf({arg}, *attrs);
    std::vector<std::string> each;
    for (const DType t : types.ok() ? *types : std::vector<DType>()) {
      each.emplace_back(DTypeName(t));
      if (shaped && shapes.ok() && next < shapes->size() &&
          (*shapes)[next].rank_known())
        absl::StrAppend(&each.back(), (*shapes)[next].ToString());
      ++next;
    }
    std::string list = absl::StrJoin(each, ", ");
    if (named && each.size() != 1) list = absl::StrCat("(", list, ")");
    return named ? absl::StrCat(arg.name, ": ", list) : list;
  };
  std::vector<std::string> args, results;
  for (const ArgDef& a : op->inputs) args.push_back(text(a, true, true));
  args.resize(args.size() - std::min(captured, args.size()));
  for (const ArgDef& r : op->outputs) results.push_back(text(r, false, false));
  return absl::StrCat(ref.name, "(", absl::StrJoin(args, ", "), ") -> (",
                      absl::StrJoin(results, ", "), ")");
}

Status FunctionLibrary::CheckArguments(const FunctionRef& ref,
                                       const std::vector<Output>& args,
                                       size_t captured) {
  std::vector<DType> types, results;
  SLUICE_RETURN_IF_ERROR(Signature(ref, &types, &results));
  const auto fail = [&](const auto&... what) {
    return InvalidArgument("call of '", ref.name, "': expected ", what...);
  };
  if (args.size() != types.size()) {
    const size_t own = types.size() - std::min(captured, types.size());
    return fail(own, own == 1 ? " argument" : " arguments", " for ",
                Describe(ref, captured), ", got ",
                args.size() - std::min(captured, args.size()));
  }
  for (size_t i = 0; i < args.size(); ++i)
    if (RemoveRef(args[i].dtype()) != types[i])
      return fail(DTypeName(types[i]), " as argument ", i, " of ",
                  Describe(ref, captured), ", got ", DTypeName(args[i].dtype()),
                  " from '", args[i].name(), "'");
  const auto shapes = ArgShapes(ref);
  if (!shapes.ok()) return OkStatus();
  for (size_t i = 0; i < args.size() && i < shapes->size(); ++i)
    if (!args[i].shape().CompatibleWith((*shapes)[i]))
      return fail("shape ", (*shapes)[i].ToString(), " as argument ", i, " of ",
                  Describe(ref, captured), ", got ", args[i].shape().ToString(),
                  " from '", args[i].name(), "'");
  return OkStatus();
}

std::vector<PartialShape> FunctionLibrary::ResultShapes(
    const FunctionRef& ref, const std::vector<PartialShape>& args,
    size_t num_results) {
  std::vector<PartialShape> unknown(num_results);
  if (cache_->in_progress.count(ref.name) != 0 ||
      cache_->nesting >= kMaxNesting)
    return unknown;
  if (cache_->in_progress.empty()) cache_->shape_budget = Cache::kShapeBudget;
  std::string key = ref.name;
  for (const PartialShape& s : args) absl::StrAppend(&key, " ", s.ToString());
  const bool plain = ref.attrs == nullptr || ref.attrs->empty();
  if (const auto it = cache_->shapes.find(key);
      plain && it != cache_->shapes.end() && it->second.size() == num_results)
    return it->second;
  Result<const FunctionBody*> made = Instantiate(ref);
  if (!made.ok()) return unknown;
  const FunctionBody& body = **made;
  if (body.args.size() != args.size() || body.results.size() != num_results)
    return unknown;
  cache_->shape_budget -= static_cast<int64_t>(body.order.size());
  if (cache_->shape_budget < 0) return unknown;
  // Copies the body with the arguments' shapes and infers again.
  const Cache::Nested nested(cache_.get());
  const bool outermost = cache_->in_progress.insert(ref.name).second;
  Graph copy;
  copy.UseLibrary(Unowned(this));
  std::unordered_map<const Node*, Node*> copies;
  for (const Node* n : body.order) {
    std::vector<Output> inputs;
    for (const Output& in : n->inputs()) {
      const auto it = copies.find(in.node);  // Missing: a back edge.
      inputs.push_back(it == copies.end() ? Output()
                                          : Output(it->second, in.index));
    }
    Node* c = copy.CopyNode(*n, std::move(inputs), {});
    copies.emplace(n, c);
    if (n->op().role == OpRole::kArg) {
      const auto i = static_cast<size_t>(n->IntAttr("index"));
      (void)copy.SetShape(Output(c), args[i]);
    } else {
      copy.RefineShapes(c);
    }
  }
  for (size_t i = 0; i < num_results; ++i)
    unknown[i] =
        Output(copies.at(body.results[i].node), body.results[i].index).shape();
  if (outermost) cache_->in_progress.erase(ref.name);
  if (plain) cache_->shapes[key] = unknown;
  return unknown;
}

const char* FunctionLibrary::Intern(const std::string& s) {
  return interned_.insert(s).first->c_str();
}

const std::set<std::string>& FunctionLibrary::Callees(const std::string& name) {
  auto [it, fresh] = cache_->callees.try_emplace(name);
  const auto def = defs_.find(name);
  if (fresh && def != defs_.end())
    for (const std::string& mention : FunctionMentions(def->second))
      if (defs_.count(mention) != 0) it->second.insert(mention);
  return it->second;
}

bool FunctionLibrary::IsRecursive(const std::string& name) {
  auto [it, fresh] = cache_->recursive.try_emplace(name, false);
  if (!fresh) return it->second;
  std::set<std::string> seen;
  std::vector<std::string> open = {name};
  while (!open.empty() && !it->second) {
    const std::string at = std::move(open.back());
    open.pop_back();
    for (const std::string& callee : Callees(at)) {
      if (callee == name) it->second = true;
      if (seen.insert(callee).second) open.push_back(callee);
    }
  }
  return it->second;
}

}  // namespace sluice
