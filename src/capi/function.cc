// Functions: made of a graph's nodes, imported, copied to graphs.
#include "graph/function.h"

#include <functional>

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
  std::string description;
};

// Copies the nodes of a request to the graph of a body.
class BodyCopier {
 public:
  BodyCopier(const FunctionRequest& r, Graph& from, FunctionBody* body)
      : r_(r), from_(from), body_(*body) {}

  Status Run(FunctionSpec* spec) {
    SLUICE_RETURN_IF_ERROR(Choose());
    SLUICE_RETURN_IF_ERROR(AddArguments(spec));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> all,
                            TopologicalOrder(from_, &chosen_));
    for (const Node* n : all) SLUICE_RETURN_IF_ERROR(Copy(*n));
    for (int i = 0; i < r_.noutputs; ++i) {
      SLUICE_RETURN_IF_ERROR(CheckOutput(from_, r_.outputs[i], "output"));
      SLUICE_ASSIGN_OR_RETURN(const Output o,
                              CopyOf(capi::FromC(r_.outputs[i]), nullptr));
      body_.results.push_back(o);
      spec->result_names.emplace_back(
          r_.output_names != nullptr ? std::string(View(r_.output_names[i]))
                                     : o.node->name());
    }
    for (int i = 0; i < r_.ncontrols; ++i) {
      SLUICE_RETURN_IF_ERROR(Given(r_.controls[i], "control output"));
      const auto it = copies_.find(capi::FromC(r_.controls[i]));
      if (it == copies_.end())
        return InvalidArgument(
            "control output: expected an operation of the "
            "body, got another; ",
            capi::FromC(r_.controls[i])->Describe());
      body_.control_results.push_back(it->second);
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
    chosen_.assign(from_.nodes().size(), r_.num_opers < 0 ? 1 : 0);
    for (int i = 0; i < r_.ninputs; ++i) {
      SLUICE_RETURN_IF_ERROR(CheckOutput(from_, r_.inputs[i], "input"));
      if (r_.num_opers < 0) {
        const Node* n = capi::FromC(r_.inputs[i].oper);
        // (All of its outputs become arguments.)
        chosen_[static_cast<size_t>(n->id())] = 0;
      }
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

  Status AddArguments(FunctionSpec* spec) {
    for (int i = 0; i < r_.ninputs; ++i) {
      const Output in = capi::FromC(r_.inputs[i]);
      if (args_.contains(in))
        return InvalidArgument("input: expected each output once, got '",
                               in.name(), "' again");
      NodeSpec arg;
      arg.op = "_Arg";
      arg.name = body_.graph->UniqueName(
          in.index == 0 ? in.node->name()
                        : absl::StrCat(in.node->name(), "_", in.index));
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
      spec->arg_names.push_back(n->name());
    }
    return OkStatus();
  }

  // `reader`: null for a result.
  Result<Output> CopyOf(const Output& o, const Node* reader) const {
    if (const auto it = args_.find(o); it != args_.end()) return it->second;
    if (const auto it = copies_.find(o.node); it != copies_.end())
      return Output(it->second, o.index);
    return InvalidArgument(
        reader == nullptr ? "output" : "input",
        ": expected one of the function's operations or inputs, got '",
        o.name(), "'", reader == nullptr ? "" : "; ",
        reader == nullptr ? "" : reader->Describe());
  }

  Status Copy(const Node& n) {
    std::vector<Output> inputs;
    for (const Output& in : n.inputs()) {
      if (!in.valid())
        return FailedPrecondition(
            "function: expected nodes with all their inputs, got one of an "
            "unfinished loop; ",
            n.Describe());
      if (chosen_[static_cast<size_t>(in.node->id())] != 0 &&
          !copies_.contains(in.node) && !args_.contains(in)) {
        return Unimplemented(
            "function: expected no loop of Switch and Merge, "
            "got one; ",
            n.Describe());
      }
      SLUICE_ASSIGN_OR_RETURN(inputs.emplace_back(), CopyOf(in, &n));
    }
    std::vector<Node*> controls;
    for (Node* c : n.control_inputs()) {
      const auto it = copies_.find(c);
      if (it != copies_.end()) {
        controls.push_back(it->second);
        continue;
      }
      const auto arg = std::find_if(
          args_.begin(), args_.end(),
          [c](const auto& entry) { return entry.first.node == c; });
      if (arg == args_.end())
        return InvalidArgument(
            "control input: expected one of the function's operations or "
            "inputs, got '",
            c->name(), "'; ", n.Describe());
      controls.push_back(arg->second.node);
    }
    NodeSpec copy;
    copy.op = n.op_name();
    copy.name = body_.graph->UniqueName(n.name());
    copy.inputs = std::move(inputs);
    copy.control_inputs = std::move(controls);
    copy.attrs = n.attrs();
    copy.device = n.device();
    copy.loc = n.loc();
    SLUICE_ASSIGN_OR_RETURN(copies_[&n], body_.graph->AddNode(std::move(copy)));
    return OkStatus();
  }

  const FunctionRequest& r_;
  Graph& from_;
  FunctionBody& body_;
  std::vector<uint8_t> chosen_;
  OutputMap<Output> args_;
  std::unordered_map<const Node*, Node*> copies_;
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
    spec.name = absl::StrCat(
        r.name, "_",
        absl::Hex(std::hash<std::string>()(bytes), absl::kZeroPad16));
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
    const char* const* /*control_output_names*/,
    const TF_FunctionOptions* /*opts*/, const char* description,
    TF_Status* status) {
  TF_Function* made = nullptr;
  Report(status, "function", [&]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(
        made,
        MakeFunction({fn_body, std::string(View(fn_name)),
                      append_hash_to_fn_name != 0, num_opers, opers, ninputs,
                      inputs, noutputs, outputs, output_names, ncontrol_outputs,
                      control_outputs, std::string(View(description))}));
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
    SLUICE_RETURN_IF_ERROR(ParseMessage(bytes, "FunctionDef", &def));
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
      return InvalidArgument("attribute '", attr_name,
                             "': expected one of "
                             "function '",
                             func->name, "', got none");
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes,
                            SerializeProto(it->second));
    return Fill(output_attr_value, bytes);
  });
}

void TF_GraphCopyFunction(TF_Graph* g, const TF_Function* func,
                          const TF_Function* grad, TF_Status* status) {
  Report(status, "function", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(g, "graph"));
    SLUICE_RETURN_IF_ERROR(Given(func, "function"));
    std::lock_guard<std::recursive_mutex> lock(g->mutex());
    FunctionLibrary& library = g->function_library();
    if (grad != nullptr) {
      const auto known = library.gradients().find(func->name);
      if (known != library.gradients().end() && known->second != grad->name)
        return InvalidArgument(
            "gradient of function '", func->name, "': expected '",
            known->second, "', which the graph has, got '", grad->name, "'");
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
