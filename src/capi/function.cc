// Functions: made of a graph's nodes, imported, copied to graphs.
#include "graph/function.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "absl/strings/ascii.h"
#include "capi/function_hash.h"
#include "capi/handles.h"
#include "graph/graphdef.h"
#include "graph/graphdef_function.h"
#include "graph/graphdef_messages.h"
#include "graph/graphdef_op.h"

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

namespace {

// What TF_GraphToFunction is given.
struct FunctionRequest {
  const TF_Graph* graph;
  std::string name;
  bool append_hash;
  int num_opers;
  const TF_Operation* const* opers;
  int ninputs;
  const TF_Output* inputs;
  int noutputs;
  const TF_Output* outputs;
  const char* const* output_names;
  int ncontrols;
  const TF_Operation* const* controls;
  const char* const* control_names;  // Null: the operations' own.
  std::string description;
};

// The names of a function: outputs, arguments and nodes share one namespace, in
// which each is unique, as in TensorFlow (graph_to_functiondef.cc). The first
// to ask gets the name itself, later ones "<name>_0", "<name>_1" and so on.
class FunctionNames {
 public:
  // False if it is taken.
  bool Take(const std::string& name) { return next_.emplace(name, 0).second; }
  std::string Unique(const std::string& name) {
    if (Take(name)) return name;
    for (;;) {
      std::string candidate = absl::StrCat(name, "_", next_[name]++);
      if (Take(candidate)) return candidate;
    }
  }
  // Of an argument or output: [a-z][a-z0-9_]*.
  std::string UniqueArg(const std::string& name) {
    std::string valid;
    for (const char c : name) {
      const auto u = static_cast<unsigned char>(c);
      if (absl::ascii_isalpha(u) || (!valid.empty() && absl::ascii_isdigit(u)))
        valid += absl::ascii_tolower(u);
      else if (!valid.empty())
        valid += '_';
    }
    return Unique(valid.empty() ? "unknown" : valid);
  }

 private:
  std::unordered_map<std::string, int> next_;  // Suffixes, by names in use.
};

// The number of a control edge in TensorFlow's messages: of the edges in the
// order in which they were made, of which the first, 0, is that between its
// source and its sink.
size_t EdgeNumber(const Graph& g, const Node& reader, const Node* source) {
  size_t number = 1;
  for (int id = 0; id < reader.id(); ++id) {
    const Node& n = *g.nodes()[static_cast<size_t>(id)];
    number += n.inputs().size() + n.control_inputs().size();
  }
  const auto& controls = reader.control_inputs();
  return number + reader.inputs().size() +
         static_cast<size_t>(
             std::find(controls.begin(), controls.end(), source) -
             controls.begin());
}

// Copies the nodes of a request to the graph of a body. Messages are
// TensorFlow's where its programs know them.
class BodyCopier {
 public:
  BodyCopier(const FunctionRequest& r, Graph& from, FunctionBody* body)
      : r_(r), from_(from), body_(*body) {}

  Status Run(FunctionSpec* spec) {
    spec->exact_names = true;
    SLUICE_RETURN_IF_ERROR(Choose());
    SLUICE_RETURN_IF_ERROR(NameOutputs(spec));
    SLUICE_RETURN_IF_ERROR(AddArguments(spec));
    // (Names are given in the order in which nodes were added.)
    for (const auto& n : from_.nodes())
      if (chosen_[static_cast<size_t>(n->id())] != 0)
        names_of_[n.get()] = names_.Unique(n->name());
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> all,
                            TopologicalOrder(from_, &chosen_));
    for (const Node* n : all) SLUICE_RETURN_IF_ERROR(Copy(*n));
    for (const auto& [merge, index, source] : back_edges_)
      SLUICE_RETURN_IF_ERROR(body_.graph->SetBackEdge(
          merge, index, Output(copies_.at(source.node), source.index)));
    for (int i = 0; i < r_.noutputs; ++i) {
      SLUICE_ASSIGN_OR_RETURN(body_.results.emplace_back(),
                              CopyOf(capi::FromC(r_.outputs[i]), nullptr, i));
    }
    std::set<std::string> control_names;
    for (int i = 0; i < r_.ncontrols; ++i) {
      const Node* n = capi::FromC(r_.controls[i]);
      const auto it = copies_.find(n);
      if (it == copies_.end())
        return InvalidArgument(
            "control output: expected an operation of the "
            "body, got another; ",
            n->Describe());
      const std::string name =
          r_.control_names == nullptr ? n->name() : View(r_.control_names[i]);
      if (name.empty() || !control_names.insert(name).second)
        return InvalidArgument(
            "control output: expected a name that no other has, got '", name,
            "'; ", n->Describe());
      body_.control_results.push_back(it->second);
      spec->control_names.push_back(name);
    }
    // All operations are part of the body, needed or not.
    for (const Node* a : body_.args) body_.order.push_back(a);
    for (const Node* n : all) body_.order.push_back(copies_.at(n));
    return OkStatus();
  }

 private:
  // Marks the nodes of the body.
  Status Choose() {
    SLUICE_RETURN_IF_ERROR(GivenArray(r_.inputs, r_.ninputs, "inputs"));
    SLUICE_RETURN_IF_ERROR(GivenArray(r_.outputs, r_.noutputs, "outputs"));
    SLUICE_RETURN_IF_ERROR(
        GivenArray(r_.controls, r_.ncontrols, "control outputs"));
    for (int i = 0; i < r_.ncontrols; ++i)
      SLUICE_RETURN_IF_ERROR(Given(r_.controls[i], "control output"));
    for (int i = 0; i < r_.ninputs; ++i)
      SLUICE_RETURN_IF_ERROR(
          Check(r_.inputs[i], absl::StrCat("input ", i, " into function '")));
    for (int i = 0; i < r_.noutputs; ++i)
      SLUICE_RETURN_IF_ERROR(
          Check(r_.outputs[i], absl::StrCat("output ", i, " from function '")));
    chosen_.assign(from_.nodes().size(), r_.num_opers < 0 ? 1 : 0);
    for (int i = 0; i < r_.ninputs && r_.num_opers < 0; ++i) {
      const Node* n = capi::FromC(r_.inputs[i].oper);
      if (n->num_outputs() != 1)
        return InvalidArgument(
            "When `num_opers` is set to -1, nodes referenced in `inputs` must "
            "have a single output. Node ",
            n->name(), " has ", n->num_outputs(),
            " outputs. Encountered while creating function '", r_.name, "'");
      chosen_[static_cast<size_t>(n->id())] = 0;
    }
    if (r_.num_opers > 0) SLUICE_RETURN_IF_ERROR(Given(r_.opers, "operations"));
    for (int i = 0; i < r_.num_opers; ++i) {
      SLUICE_RETURN_IF_ERROR(Given(r_.opers[i], "operation"));
      const Node* n = capi::FromC(r_.opers[i]);
      if (n->graph() != &from_)
        return InvalidArgument(
            "operation: expected one of the graph, got one "
            "of another; ",
            n->Describe());
      chosen_[static_cast<size_t>(n->id())] = 1;
    }
    return OkStatus();
  }

  // `where`: "input 1 into function '".
  Status Check(TF_Output o, const std::string& where) const {
    const std::string context =
        absl::StrCat("\n\tEncountered while processing ", where, r_.name, "'");
    if (o.oper == nullptr) return InvalidArgument("Node is null", context);
    const Node* n = capi::FromC(o.oper);
    if (n->graph() == &from_ && (o.index < 0 || o.index >= n->num_outputs()))
      return OutOfRange("Node '", n->name(), "' (type: '", n->op_name(),
                        "', num of outputs: ", n->num_outputs(),
                        ") does not have output ", o.index, context);
    return CheckOutput(from_, o, where.substr(0, where.find(' ')).c_str());
  }

  // Before all others, since these names are part of the request.
  Status NameOutputs(FunctionSpec* spec) {
    for (int i = 0; i < r_.noutputs; ++i) {
      const Node* n = capi::FromC(r_.outputs[i].oper);
      if (r_.output_names == nullptr) {
        spec->result_names.push_back(names_.UniqueArg(n->name()));
        continue;
      }
      const std::string name = View(r_.output_names[i]);
      if (name.empty())
        return InvalidArgument("output_names[", i,
                               "]: expected a name, got ''");
      if (!names_.Take(name))
        return InvalidArgument("Cannot have duplicate output names. Name '",
                               name,
                               "' appears more than once in 'output_names' "
                               "array.");
      spec->result_names.push_back(name);
    }
    return OkStatus();
  }

  Status AddArguments(FunctionSpec* spec) {
    for (int i = 0; i < r_.ninputs; ++i) {
      const Output in = capi::FromC(r_.inputs[i]);
      if (args_.contains(in))
        return InvalidArgument("TF_Output ", in.node->name(), ":", in.index,
                               " appears more than once in the input list");
      NodeSpec arg;
      arg.op = "_Arg";
      arg.name = names_.UniqueArg(in.node->name());
      const DType type = RemoveRef(in.dtype());
      if (IsRef(in.dtype()))
        return InvalidArgument("input: expected a value, got a reference; ",
                               in.node->Describe());
      arg.attrs = {{"T", type}, {"index", static_cast<int64_t>(i)}};
      SLUICE_ASSIGN_OR_RETURN(Node* const n,
                              body_.graph->AddNode(std::move(arg)));
      SLUICE_RETURN_IF_ERROR(body_.graph->SetShape(Output(n), in.shape()));
      body_.args.push_back(n);
      args_[in] = Output(n);
      AttrMap& told = spec->arg_attrs.emplace_back();
      for (const auto& [name, value] : in.node->attrs())
        if (name.starts_with('_')) told.emplace(name, value);
      spec->arg_names.push_back(n->name());
    }
    return OkStatus();
  }

  // `reader`: null for a result; `index` is its input's, or the result's.
  Result<Output> CopyOf(const Output& o, const Node* reader, int index) const {
    if (const auto it = args_.find(o); it != args_.end()) return it->second;
    if (const auto it = copies_.find(o.node); it != copies_.end())
      return Output(it->second, o.index);
    const std::string name = absl::StrCat(o.node->name(), ":", o.index);
    if (reader == nullptr)
      return InvalidArgument("TF_Output ", name,
                             " is neither in the function body nor among "
                             "function inputs. Encountered while creating "
                             "function '",
                             r_.name, "'");
    return InvalidArgument("Input ", index, ", '", name, "', of node '",
                           reader->name(), "' in function '", r_.name,
                           "' is not available. You might need to include it "
                           "in inputs or include its source node in the body");
  }

  Status Copy(const Node& n) {
    NodeSpec copy;
    std::vector<std::pair<int, Output>> open;
    for (int i = 0; i < static_cast<int>(n.inputs().size()); ++i) {
      const Output& in = n.inputs()[static_cast<size_t>(i)];
      if (!in.valid())
        return FailedPrecondition(
            "function: expected all back edges to be closed, got one open; ",
            n.Describe());
      copy.pending_input_types.push_back(in.dtype());
      if (chosen_[static_cast<size_t>(in.node->id())] != 0 &&
          !copies_.contains(in.node) && !args_.contains(in)) {
        // (Only back edges come later.)
        open.emplace_back(i, in);
        copy.inputs.emplace_back();
        continue;
      }
      SLUICE_ASSIGN_OR_RETURN(copy.inputs.emplace_back(), CopyOf(in, &n, i));
    }
    for (Node* c : n.control_inputs()) {
      const auto it = copies_.find(c);
      if (it != copies_.end()) {
        copy.control_inputs.push_back(it->second);
        continue;
      }
      const auto arg = std::find_if(
          args_.begin(), args_.end(),
          [c](const auto& entry) { return entry.first.node == c; });
      if (arg == args_.end())
        return InvalidArgument(
            "The source of control edge [id=", EdgeNumber(from_, n, c), " ",
            c->name(), ":-1 -> ", n.name(),
            ":-1] is not in the body. Encountered while creating function '",
            r_.name, "'");
      copy.control_inputs.push_back(arg->second.node);
    }
    copy.op = n.op_name();
    copy.name = names_of_.at(&n);
    copy.attrs = n.attrs();
    copy.device = n.device();
    copy.loc = n.loc();
    SLUICE_ASSIGN_OR_RETURN(Node* const made,
                            body_.graph->AddNode(std::move(copy)));
    copies_[&n] = made;
    for (const auto& [index, source] : open)
      back_edges_.push_back({made, index, source});
    return OkStatus();
  }

  // Input `index` of a Merge's copy; `source` is of the original graph.
  struct BackEdge {
    Node* merge;
    int index;
    Output source;
  };

  const FunctionRequest& r_;
  Graph& from_;
  FunctionBody& body_;
  FunctionNames names_;
  std::vector<uint8_t> chosen_;
  OutputMap<Output> args_;
  std::unordered_map<const Node*, std::string> names_of_;
  std::unordered_map<const Node*, Node*> copies_;
  std::vector<BackEdge> back_edges_;
};

Result<TF_Function*> MakeFunction(const FunctionRequest& r) {
  SLUICE_RETURN_IF_ERROR(Given(r.graph, "graph"));
  if (r.name.empty())
    return InvalidArgument("function: expected a name, got ''");
  auto& from = const_cast<TF_Graph&>(*r.graph);
  std::lock_guard<std::recursive_mutex> lock(from.mutex());
  FunctionBody body;
  body.graph = std::make_unique<Graph>();
  body.graph->ShareLibrary(from);
  FunctionSpec spec;
  spec.name = r.name;
  spec.description = r.description;
  SLUICE_RETURN_IF_ERROR(BodyCopier(r, from, &body).Run(&spec));
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, MakeFunctionDef(spec, body));
  if (r.append_hash) {
    SLUICE_ASSIGN_OR_RETURN(const std::string hash, FunctionHash(bytes));
    spec.name = absl::StrCat(r.name, "_", hash);
    SLUICE_ASSIGN_OR_RETURN(bytes, MakeFunctionDef(spec, body));
  }
  return new TF_Function{spec.name, std::move(bytes)};
}

}  // namespace

extern "C" {

TF_Function* TF_GraphToFunctionWithControlOutputs(
    const TF_Graph* fn_body, const char* fn_name,
    unsigned char append_hash_to_fn_name, int num_opers,
    const TF_Operation* const* opers, int ninputs, const TF_Output* inputs,
    int noutputs, const TF_Output* outputs, const char* const* output_names,
    int ncontrol_outputs, const TF_Operation* const* control_outputs,
    const char* const* control_output_names, const TF_FunctionOptions* /*opts*/,
    const char* description, TF_Status* status) {
  TF_Function* made = nullptr;
  Report(status, "function", [&]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(
        made,
        MakeFunction({fn_body, std::string(View(fn_name)),
                      append_hash_to_fn_name != 0, num_opers, opers, ninputs,
                      inputs, noutputs, outputs, output_names, ncontrol_outputs,
                      control_outputs, control_output_names,
                      std::string(View(description))}));
    return OkStatus();
  });
  return made;
}

TF_Function* TF_GraphToFunction(const TF_Graph* fn_body, const char* fn_name,
                                unsigned char append_hash_to_fn_name,
                                int num_opers, const TF_Operation* const* opers,
                                int ninputs, const TF_Output* inputs,
                                int noutputs, const TF_Output* outputs,
                                const char* const* output_names,
                                const TF_FunctionOptions* opts,
                                const char* description, TF_Status* status) {
  return TF_GraphToFunctionWithControlOutputs(
      fn_body, fn_name, append_hash_to_fn_name, num_opers, opers, ninputs,
      inputs, noutputs, outputs, output_names, 0, nullptr, nullptr, opts,
      description, status);
}

const char* TF_FunctionName(TF_Function* func) { return func->name.c_str(); }
void TF_DeleteFunction(TF_Function* func) { delete func; }

void TF_FunctionToFunctionDef(TF_Function* func, TF_Buffer* output_func_def,
                              TF_Status* status) {
  Report(status, "function", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(func, "function"));
    return Fill(output_func_def, func->bytes);
  });
}

TF_Function* TF_FunctionImportFunctionDef(const void* proto, size_t proto_len,
                                          TF_Status* status) {
  TF_Function* made = nullptr;
  Report(status, "function", [&]() -> Status {
    if (proto_len > 0) SLUICE_RETURN_IF_ERROR(Given(proto, "FunctionDef"));
    std::string bytes(static_cast<const char*>(proto), proto_len);
    proto::FunctionDef def;
    if (!ParseMessage(bytes, "FunctionDef", &def).ok())
      return InvalidArgument(
          "Invalid FunctionDef given to TF_FunctionImportFunctionDef");
    made = new TF_Function{def.signature().name(), std::move(bytes)};
    return OkStatus();
  });
  return made;
}

void TF_FunctionSetAttrValueProto(TF_Function* func, const char* attr_name,
                                  const void* proto, size_t proto_len,
                                  TF_Status* status) {
  Report(status, "attribute", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(func, "function"));
    SLUICE_RETURN_IF_ERROR(Given(attr_name, "name of an attribute"));
    if (proto_len > 0) SLUICE_RETURN_IF_ERROR(Given(proto, "AttrValue"));
    proto::AttrValue value;
    SLUICE_RETURN_IF_ERROR(ParseMessage(
        {static_cast<const char*>(proto), proto_len}, "AttrValue", &value));
    proto::FunctionDef def;
    SLUICE_RETURN_IF_ERROR(ParseMessage(func->bytes, "FunctionDef", &def));
    (*def.mutable_attr())[attr_name] = value;
    SLUICE_ASSIGN_OR_RETURN(func->bytes, SerializeProto(def));
    return OkStatus();
  });
}

void TF_FunctionGetAttrValueProto(TF_Function* func, const char* attr_name,
                                  TF_Buffer* output_attr_value,
                                  TF_Status* status) {
  Report(status, "attribute", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(func, "function"));
    SLUICE_RETURN_IF_ERROR(Given(attr_name, "name of an attribute"));
    proto::FunctionDef def;
    SLUICE_RETURN_IF_ERROR(ParseMessage(func->bytes, "FunctionDef", &def));
    const auto it = def.attr().find(attr_name);
    if (it == def.attr().end())
      return InvalidArgument("Function '", func->name, "' has no attr named '",
                             attr_name, "'.");
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes,
                            SerializeProto(it->second));
    return Fill(output_attr_value, bytes);
  });
}

void TF_GraphCopyFunction(TF_Graph* g, const TF_Function* func,
                          const TF_Function* grad, TF_Status* status) {
  Report(status, "function", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(g, "graph"));
    if (func == nullptr)
      return InvalidArgument(
          "'func' argument to TF_GraphCopyFunction cannot be null");
    std::lock_guard<std::recursive_mutex> lock(g->mutex());
    FunctionLibrary& library = g->function_library();
    if (grad != nullptr) {
      const auto known = library.gradients().find(func->name);
      if (known != library.gradients().end() && known->second != grad->name)
        return InvalidArgument("Cannot assign gradient function '", grad->name,
                               "' to '", func->name,
                               "' because it already has gradient function '",
                               known->second, "'");
    }
    SLUICE_RETURN_IF_ERROR(library.Define(func->name, func->bytes));
    if (grad == nullptr) return OkStatus();
    SLUICE_RETURN_IF_ERROR(library.Define(grad->name, grad->bytes));
    library.gradients()[func->name] = grad->name;
    return OkStatus();
  });
}

int TF_GraphNumFunctions(TF_Graph* g) {
  if (g == nullptr) return 0;
  std::lock_guard<std::recursive_mutex> lock(g->mutex());
  return static_cast<int>(g->functions().size());
}

int TF_GraphGetFunctions(TF_Graph* g, TF_Function** funcs, int max_func,
                         TF_Status* status) {
  int found = 0;
  Report(status, "functions", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(g, "graph"));
    SLUICE_RETURN_IF_ERROR(GivenArray(funcs, max_func, "functions"));
    std::lock_guard<std::recursive_mutex> lock(g->mutex());
    for (const auto& [name, bytes] : g->functions()) {
      if (found == max_func) break;
      funcs[found++] = new TF_Function{name, bytes};
    }
    return OkStatus();
  });
  return found;
}

}  // extern "C"
