#include "client/control/functions.h"

#include <algorithm>
#include <mutex>

#include "client/body_captures.h"
#include "client/body_in_progress.h"
#include "client/control/own_calls.h"
#include "client/variables.h"
#include "graph/control_flow.h"
#include "graph/function.h"
#include "graph/graphdef_function.h"
#include "graph/hidden_attributes.h"

namespace sluice {

struct Function::State {
  std::string name;
  bool stateful = false;
  std::vector<PartialShape> result_shapes;
  std::vector<Output> captures;
  // The graph in which its body is being built; else null.
  const Graph* body = nullptr;
  // Called from another function's body or from the graph before its captures
  // were known.
  bool called_early = false;
  bool defined = true;
  // For a function that could not be defined: the error, and the number of null
  // outputs that its calls return.
  Status failed;
  size_t num_results = 0;
};

namespace {

thread_local const BodyInProgress* innermost_body = nullptr;

// Adds the arguments of a body that represent captured outer values. Lives
// while the body is built, as a local variable.
class Captures {
 public:
  Captures(Graph* owner, const std::string& name, const ScopeState& around,
           FunctionBody* body)
      : owner_(*owner),
        body_(body),
        captured_(body->graph.get(), owner),
        progress_{body->graph.get(), owner, &name, innermost_body, &around} {
    body->graph->capture = [this](const Output& o) { return CaptureValue(o); };
    innermost_body = &progress_;
  }
  ~Captures() {
    innermost_body = progress_.outer;
    body_->graph->capture = nullptr;
  }
  Captures(const Captures&) = delete;

  // Outputs of the owner's graph, one for each added argument.
  std::vector<Output> outputs() const {
    std::vector<Output> outputs;
    for (const BodyCaptures::Value& v : captured_.values())
      outputs.push_back(v.outside);
    return outputs;
  }

 private:
  Result<Output> CaptureValue(const Output& outside) {
    const Graph* const from = outside.graph();
    if (from != &owner_ && owner_.capture == nullptr)
      return InvalidArgument(
          "function: expected an output of its body or of the graph where it "
          "is defined, got one of another graph; ",
          outside.node->Describe());
    // (For nested bodies, the outer one captures first.)
    Output value = outside;
    if (from != &owner_) {
      SLUICE_ASSIGN_OR_RETURN(value, owner_.capture(outside));
    }
    if (const Output known = captured_.Inside(value); known.valid())
      return known;
    Graph& g = *body_->graph;
    NodeSpec spec;
    spec.op = "_Arg";
    spec.name = g.UniqueName("captured");
    const DType type = RemoveRef(value.dtype());
    spec.attrs = {{"T", type},
                  {"index", static_cast<int64_t>(body_->args.size())}};
    spec.loc = outside.node->loc();
    SLUICE_ASSIGN_OR_RETURN(Node* const arg, g.AddNode(std::move(spec)));
    if (type == DType::kResource)
      if (const DType held = VariableType(value); held != DType::kInvalid)
        TellVariable(&g, arg, held, VariableShapeOf(value));
    SLUICE_RETURN_IF_ERROR(g.SetShape(Output(arg), value.shape()));
    body_->args.push_back(arg);
    captured_.Add(value, Output(arg));
    return Output(arg);
  }

  const Graph& owner_;
  FunctionBody* const body_;
  BodyCaptures captured_;
  const BodyInProgress progress_;
};

std::string TypeList(const std::vector<DType>& types) {
  std::string list;
  for (DType t : types)
    absl::StrAppend(&list, list.empty() ? "" : ", ", DTypeName(t));
  return list;
}

}  // namespace

Status PassCapturesOn(const std::string& name, size_t first,
                      const FunctionBody& body) {
  Graph& g = *body.graph;
  std::vector<Node*> calls;
  for (const auto& n : g.nodes()) {
    bool uses = n->op_name() == name;
    for (const auto& [attr, value] : n->attrs())
      ForEachFunction(value,
                      [&](const FunctionRef& f) { uses |= f.name == name; });
    if (uses) calls.push_back(n.get());
  }
  for (Node* const call : calls) {
    int first_arg = 0;
    if (KindOfCall(*call) != CallKind::kCall ||
        CalledFunction(*call, &first_arg).name != name)
      return InvalidArgument(
          "expected no captures, since its body passes it to an op, got ",
          body.args.size() - first, "; hint: pass them as arguments; ",
          call->Describe());
    ControlFlowContext* const context = ControlContextOf(call);
    std::vector<Output> inputs = call->inputs();
    AttrMap attrs = call->attrs();
    std::vector<DType> types = call->AttrOr<AttrValue::Types>("Tin", {});
    for (size_t i = first; i < body.args.size(); ++i) {
      SLUICE_ASSIGN_OR_RETURN(const Output here,
                              Capture(context, Output(body.args[i])));
      inputs.push_back(here);
      types.push_back(here.dtype());
    }
    if (call->op_name() != name) attrs["Tin"] = AttrValue(types);
    NodeSpec spec;
    spec.op = call->op_name();
    spec.name = g.UniqueName(call->name());
    spec.inputs = std::move(inputs);
    spec.control_inputs = call->control_inputs();
    spec.attrs = std::move(attrs);
    spec.device = call->device();
    spec.loc = call->loc();
    SLUICE_ASSIGN_OR_RETURN(Node* const whole, g.AddNode(std::move(spec)));
    g.control_flow().SetContext(whole, context);
    std::vector<Output> results;
    for (int i = 0; i < whole->num_outputs(); ++i)
      results.emplace_back(whole, i);
    SLUICE_RETURN_IF_ERROR(
        g.TurnIntoIdentity(call, std::move(results), {whole}));
  }
  return OkStatus();
}

const BodyInProgress* CurrentBody() {
  const BodyInProgress* b = innermost_body;
  while (b != nullptr && b->body != &CurrentGraph()) b = b->outer;
  return b;
}

// One definition. Lives on one thread, which holds the graph's mutex.
class FunctionDefiner {
 public:
  FunctionDefiner(const std::string& name, const std::vector<DType>& arg_types,
                  const std::vector<DType>* result_types,
                  const FunctionOptions& options, SourceLoc loc)
      : owner_(CurrentGraph()),
        name_(name),
        arg_types_(arg_types),
        result_types_(result_types),
        options_(options),
        loc_(loc) {}

  // Fills in `function`, which has a state if it was declared.
  Function Define(Function function, const FunctionBuilder& build) {
    if (function.state_ == nullptr)
      function = Function(name_, false, options_.result_shapes);
    Function::State& state = *function.state_;
    if (result_types_ != nullptr) state.num_results = result_types_->size();
    if (build == nullptr) {
      Fail(&state, InvalidArgument("expected a callable that builds its body, "
                                   "got none"));
      return function;
    }
    FunctionBody body;
    body.graph = std::make_unique<Graph>();
    body.graph->ShareLibrary(owner_);
    state.body = body.graph.get();
    const Status defined = Build(&state, &body, build);
    state.body = nullptr;
    state.defined = true;
    Fail(&state, defined);
    return function;
  }

  Function Declare() const {
    Function function(name_, options_.stateful, options_.result_shapes);
    function.state_->num_results = result_types_->size();
    function.state_->defined = false;
    FunctionSpec spec;
    spec.name = name_;
    Result<std::string> def = MakeFunctionDeclaration(
        spec, arg_types_, *result_types_, options_.stateful);
    Status s = def.status();
    if (s.ok()) s = owner_.function_library().Define(name_, *std::move(def));
    Fail(function.state_.get(), s);
    return function;
  }

  static bool Failed(const Function& f) {
    return f.state_ != nullptr && !f.state_->failed.ok();
  }

 private:
  void Fail(Function::State* state, const Status& s) const {
    if (s.ok()) return;
    BuildError(Annotate(s, absl::StrCat("function '", name_, "'")), loc_);
    state->failed = *owner_.ErrorOf(owner_.Failure());
  }

  Status DeclareAs(const FunctionBody* body) {
    FunctionSpec spec;
    spec.name = name_;
    SLUICE_ASSIGN_OR_RETURN(
        std::string def,
        MakeFunctionDeclaration(spec, body->arg_types(), *result_types_,
                                options_.stateful));
    return owner_.function_library().Define(name_, std::move(def));
  }

  // Builds the body as a FunctionDef in the library.
  Status Build(Function::State* state, FunctionBody* body,
               const FunctionBuilder& build) {
    Graph& g = *body->graph;
    std::vector<Output> args;
    std::vector<Output> captured;
    const ScopeState around;
    {
      const WithGraph use(g);
      for (size_t i = 0; i < arg_types_.size(); ++i) {
        Node* arg = BuildNode(
            "_Arg", {},
            {{"T", arg_types_[i]}, {"index", static_cast<int64_t>(i)}},
            absl::StrCat("arg_", i));
        if (arg != nullptr && i < options_.arg_shapes.size())
          if (Status s = g.SetShape(Output(arg), options_.arg_shapes[i]);
              !s.ok())
            g.RecordError(s);
        body->args.push_back(arg);
        args.push_back(OrFailure(arg));
      }
      Captures captures(&owner_, name_, around, body);
      // (Also after a failed argument, since only the call reveals the number
      // of results.)
      const std::vector<Output> results = build(args).outputs;
      if (result_types_ == nullptr) state->num_results = results.size();
      for (const Output& o : results) body->results.push_back(Operand(o).Get());
      captured = captures.outputs();
    }
    SLUICE_RETURN_IF_ERROR(g.status());
    for (size_t i = 0; i < body->results.size(); ++i)
      if (!body->results[i].valid())
        return InvalidArgument("result ", i, ": expected an output, got none");
    if (result_types_ != nullptr && body->result_types() != *result_types_)
      return InvalidArgument("results: expected (", TypeList(*result_types_),
                             ") as declared, got (",
                             TypeList(body->result_types()), ")");
    if (!captured.empty()) {
      if (state->called_early)
        return InvalidArgument(
            "expected no captures, since it was called before its body was "
            "given, got '",
            captured[0].name(), "'; hint: pass it as an argument; ",
            captured[0].node->Describe());
      // Its own calls are checked against its declared argument types.
      if (result_types_ != nullptr) SLUICE_RETURN_IF_ERROR(DeclareAs(body));
      SLUICE_RETURN_IF_ERROR(PassCapturesOn(name_, arg_types_.size(), *body));
    }
    FindEffects(body);
    SLUICE_RETURN_IF_ERROR(FindOrder(body));
    FunctionSpec spec;
    spec.name = name_;
    if (options_.recompute_in_gradient) spec.attrs[kRecomputeAttr] = true;
    if (options_.batch) spec.attrs[kBatchAttr] = true;
    SLUICE_ASSIGN_OR_RETURN(std::string def, MakeFunctionDef(spec, *body));
    FunctionLibrary& library = owner_.function_library();
    SLUICE_RETURN_IF_ERROR(library.Define(name_, std::move(def)));
    const OpDef* op = library.FindOp(name_);
    state->stateful = op != nullptr && op->stateful;
    state->captures = std::move(captured);
    return OkStatus();
  }

  Graph& owner_;
  const std::string& name_;
  const std::vector<DType>& arg_types_;
  const std::vector<DType>* const result_types_;  // Null: taken from the body.
  const FunctionOptions& options_;
  const SourceLoc loc_;
};

Output CallResults::operator[](size_t i) const {
  if (i < size()) return *(begin() + static_cast<std::ptrdiff_t>(i));
  if (empty() && CurrentGraph().ErrorOf(failure_) != nullptr) return failure_;
  return BuildError(
      InvalidArgument("function '", function_, "': expected a result below ",
                      size(), ", got ", i),
      loc_);
}

Function::Function(std::string name, bool stateful,
                   std::vector<PartialShape> result_shapes)
    : state_(std::make_shared<State>()) {
  state_->name = std::move(name);
  state_->stateful = stateful;
  state_->result_shapes = std::move(result_shapes);
}

const std::string& Function::name() const {
  static const std::string* const kNone = new std::string();
  return state_ == nullptr ? *kNone : state_->name;
}

const std::vector<Output>& Function::captures() const {
  static const std::vector<Output>* const kNone = new std::vector<Output>();
  return state_ == nullptr ? *kNone : state_->captures;
}

CallResults Function::operator()(const std::vector<Output>& args,
                                 SourceLoc loc) const {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  const auto failed = [&](size_t num_results) {
    return CallResults(std::vector<Output>(num_results, g.Failure()), name(),
                       loc, g.Failure());
  };
  if (state_ == nullptr) {
    BuildError(FailedPrecondition("function: expected one that was defined, "
                                  "got an empty one"),
               loc);
    return failed(0);
  }
  if (!state_->failed.ok()) {
    BuildError(state_->failed);
    return failed(state_->num_results);
  }
  if (!state_->defined && state_->body != &g) state_->called_early = true;
  std::vector<DType> arg_types, result_types;
  if (Status s =
          g.function_library().Signature(ref(), &arg_types, &result_types);
      !s.ok()) {
    BuildError(s, loc);
    return failed(state_->num_results);
  }
  std::vector<Output> inputs = args;
  inputs.insert(inputs.end(), state_->captures.begin(), state_->captures.end());
  // (A null argument has recorded its own error.)
  if (std::all_of(inputs.begin(), inputs.end(),
                  [](const Output& o) { return o.valid(); }))
    if (Status s = g.function_library().CheckArguments(ref(), inputs,
                                                       state_->captures.size());
        !s.ok()) {
      BuildError(s, loc);
      return failed(result_types.size());
    }
  Node* call = BuildNode(
      state_->stateful ? "StatefulPartitionedCall" : "PartitionedCall", inputs,
      {{"Tin", AttrValue::Types(arg_types)},
       {"Tout", AttrValue::Types(result_types)},
       {"f", ref()}},
      name(), loc);
  if (call == nullptr) return failed(result_types.size());
  std::vector<Output> results(result_types.size());
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = Output(call, static_cast<int>(i));
  for (size_t i = 0; i < results.size() && i < state_->result_shapes.size();
       ++i)
    if (state_->result_shapes[i].rank_known())
      results[i] = Build("EnsureShape", {results[i]},
                         {{"shape", state_->result_shapes[i]}}, "", loc);
  return CallResults(std::move(results), name(), loc);
}

Function DefineFunction(const std::string& name,
                        const std::vector<DType>& arg_types,
                        const FunctionBuilder& build,
                        const FunctionOptions& options, SourceLoc loc) {
  std::lock_guard<std::recursive_mutex> lock(CurrentGraph().mutex());
  return FunctionDefiner(name, arg_types, nullptr, options, loc)
      .Define(Function(), build);
}

Function DeclareFunction(const std::string& name,
                         const std::vector<DType>& arg_types,
                         const std::vector<DType>& result_types,
                         const FunctionOptions& options, SourceLoc loc) {
  std::lock_guard<std::recursive_mutex> lock(CurrentGraph().mutex());
  return FunctionDefiner(name, arg_types, &result_types, options, loc)
      .Declare();
}

void DefineBody(const Function& declared, const FunctionBuilder& build,
                const FunctionOptions& options, SourceLoc loc) {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  if (FunctionDefiner::Failed(declared)) return;
  std::vector<DType> arg_types, result_types;
  if (Status s = g.function_library().Signature(declared.ref(), &arg_types,
                                                &result_types);
      !s.ok()) {
    BuildError(Annotate(s, absl::StrCat("function '", declared.name(), "'")),
               loc);
    return;
  }
  FunctionDefiner(declared.name(), arg_types, &result_types, options, loc)
      .Define(declared, build);
}

Function DefineFunction(const std::string& name,
                        const std::vector<DType>& arg_types,
                        const std::vector<DType>& result_types,
                        const RecursiveBuilder& build,
                        const FunctionOptions& options, SourceLoc loc) {
  std::lock_guard<std::recursive_mutex> lock(CurrentGraph().mutex());
  const FunctionDefiner definer(name, arg_types, &result_types, options, loc);
  const Function self = definer.Declare();
  if (FunctionDefiner::Failed(self)) return self;
  FunctionBuilder body;
  if (build != nullptr)
    body = [&](const std::vector<Output>& args) { return build(self, args); };
  return FunctionDefiner(name, arg_types, &result_types, options, loc)
      .Define(self, body);
}

}  // namespace sluice
