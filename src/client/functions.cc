#include "client/functions.h"

#include <mutex>

#include "graph/function.h"
#include "graph/graphdef_function.h"

namespace sluice {
namespace {

// Builds a body and turns it into a FunctionDef. Not null: the results' types
// that were declared.
Result<std::string> BuildDef(Graph& owner, const std::string& name,
                             const std::vector<DType>& arg_types,
                             const std::vector<DType>* result_types,
                             const FunctionBuilder& build,
                             const FunctionOptions& options) {
  FunctionBody body;
  body.graph = std::make_unique<Graph>();
  body.graph->ShareLibrary(owner);
  Graph& g = *body.graph;
  const WithGraph use(g);
  std::vector<Output> args;
  for (size_t i = 0; i < arg_types.size(); ++i) {
    Node* arg = BuildNode(
        "_Arg", {}, {{"T", arg_types[i]}, {"index", static_cast<int64_t>(i)}},
        absl::StrCat("arg_", i));
    if (arg == nullptr) return g.status();
    if (i < options.arg_shapes.size())
      SLUICE_RETURN_IF_ERROR(g.SetShape(Output(arg), options.arg_shapes[i]));
    body.args.push_back(arg);
    args.emplace_back(arg);
  }
  body.results = build(args).outputs;
  SLUICE_RETURN_IF_ERROR(g.status());
  for (size_t i = 0; i < body.results.size(); ++i) {
    const Output& o = body.results[i];
    if (!o)
      return InvalidArgument("result ", i, ": expected an output, got none");
    if (o.graph() != &g)
      return InvalidArgument("result ", i,
                             ": expected an output of the body, got ",
                             o.node->Describe(),
                             " of another graph; hint: pass it as an argument");
  }
  if (result_types != nullptr && body.result_types() != *result_types) {
    std::string want, got;
    for (DType t : *result_types)
      absl::StrAppend(&want, want.empty() ? "" : ", ", DTypeName(t));
    for (DType t : body.result_types())
      absl::StrAppend(&got, got.empty() ? "" : ", ", DTypeName(t));
    return InvalidArgument("results: expected (", want, ") as declared, got (",
                           got, ")");
  }
  FindEffects(&body);
  SLUICE_RETURN_IF_ERROR(FindOrder(&body));
  FunctionSpec spec;
  spec.name = name;
  return MakeFunctionDef(spec, body);
}

Function Failed(const Status& s, const std::string& name, SourceLoc loc) {
  if (!s.ok())
    BuildError(Annotate(s, absl::StrCat("function '", name, "'")), loc);
  return Function(name, false);
}

Function Define(const std::string& name, const std::vector<DType>& arg_types,
                const std::vector<DType>* result_types,
                const FunctionBuilder& build, const FunctionOptions& options,
                SourceLoc loc) {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  Result<std::string> def =
      BuildDef(g, name, arg_types, result_types, build, options);
  if (!def.ok()) return Failed(def.status(), name, loc);
  if (Status s = g.function_library().Define(name, *std::move(def)); !s.ok())
    return Failed(s, name, loc);
  const OpDef* op = g.function_library().FindOp(name);
  return Function(name, op != nullptr && op->stateful, options.result_shapes);
}

}  // namespace

std::vector<Output> Function::operator()(const std::vector<Output>& args,
                                         SourceLoc loc) const {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  std::vector<DType> arg_types, result_types;
  if (Status s =
          g.function_library().Signature(ref(), &arg_types, &result_types);
      !s.ok()) {
    BuildError(s, loc);
    return {};
  }
  Node* call =
      BuildNode(stateful_ ? "StatefulPartitionedCall" : "PartitionedCall", args,
                {{"Tin", AttrValue::Types(arg_types)},
                 {"Tout", AttrValue::Types(result_types)},
                 {"f", ref()}},
                name_, loc);
  std::vector<Output> results(result_types.size());
  for (size_t i = 0; call != nullptr && i < results.size(); ++i)
    results[i] = Output(call, static_cast<int>(i));
  for (size_t i = 0; i < results.size() && i < result_shapes_.size(); ++i)
    if (results[i] && result_shapes_[i].rank_known())
      results[i] = Build("EnsureShape", {results[i]},
                         {{"shape", result_shapes_[i]}}, "", loc);
  return results;
}

Function DefineFunction(const std::string& name,
                        const std::vector<DType>& arg_types,
                        const FunctionBuilder& build,
                        const FunctionOptions& options, SourceLoc loc) {
  return Define(name, arg_types, nullptr, build, options, loc);
}

Function DeclareFunction(const std::string& name,
                         const std::vector<DType>& arg_types,
                         const std::vector<DType>& result_types,
                         const FunctionOptions& options, SourceLoc loc) {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  FunctionSpec spec;
  spec.name = name;
  Result<std::string> def =
      MakeFunctionDeclaration(spec, arg_types, result_types, options.stateful);
  Status s = def.status();
  if (s.ok()) s = g.function_library().Define(name, *std::move(def));
  if (!s.ok()) return Failed(s, name, loc);
  return Function(name, options.stateful, options.result_shapes);
}

void DefineBody(const Function& declared, const FunctionBuilder& build,
                const FunctionOptions& options, SourceLoc loc) {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  std::vector<DType> arg_types, result_types;
  if (Status s = g.function_library().Signature(declared.ref(), &arg_types,
                                                &result_types);
      !s.ok()) {
    Failed(s, declared.name(), loc);
    return;
  }
  Define(declared.name(), arg_types, &result_types, build, options, loc);
}

Function DefineFunction(const std::string& name,
                        const std::vector<DType>& arg_types,
                        const std::vector<DType>& result_types,
                        const RecursiveBuilder& build,
                        const FunctionOptions& options, SourceLoc loc) {
  const Function self =
      DeclareFunction(name, arg_types, result_types, options, loc);
  if (!CurrentGraph().status().ok()) return self;
  return Define(
      name, arg_types, &result_types,
      [&](const std::vector<Output>& args) { return build(self, args); },
      options, loc);
}

}  // namespace sluice
