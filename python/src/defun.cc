// Functions of a graph that Python defines (sluice/functions/function.py).
#include <algorithm>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "client/body_captures.h"
#include "client/control/own_calls.h"
#include "client/variables.h"
#include "graph/builder.h"
#include "graph/function.h"
#include "graph/graphdef_function.h"
#include "graph/graphdef_needed.h"
#include "graph/hidden_attributes.h"
#include "ops.h"
#include "scopes.h"
#include "values.h"

namespace sluice::python {
namespace {

// A FunctionDef of what was built in `graph`, whose arguments are `args`; those
// from `captures` on stand for outer tensors, and are passed on by the calls of
// itself that a function of this name has.
py::bytes MakeDef(PyGraph& graph, const std::vector<Node*>& args,
                  size_t captures, const std::vector<Output>& results,
                  const std::string& name,
                  const std::vector<std::string>& arg_names,
                  const std::vector<std::string>& result_names,
                  const std::string& description, bool noinline, bool batch) {
  const GraphLock lock(graph);
  for (const Output& o : results)
    if (o.graph() != &graph)
      Raise(PyExc_ValueError, absl::StrCat("function: expected results of its "
                                           "body, got ",
                                           Describe(o), " of another graph"));
  FunctionBody body;
  body.graph.reset(&graph);
  const absl::Cleanup python_owns_it = [&body] { body.graph.release(); };
  body.args = args;
  body.results = results;
  const bool calls_itself =
      std::any_of(graph.nodes().begin(), graph.nodes().end(),
                  [&](const auto& n) { return n->op_name() == name; });
  if (calls_itself && captures < args.size()) {
    const FunctionSpec whole{name, arg_names, result_names, "", {}};
    Check(graph.function_library().Define(
        name, Checked(MakeFunctionDeclaration(whole, body.arg_types(),
                                              body.result_types(), false))));
    Check(PassCapturesOn(name, captures, body));
  }
  FindEffects(&body);
  Check(FindOrder(&body));
  FunctionSpec spec{name, arg_names, result_names, description, {}};
  if (noinline) spec.attrs.emplace(kNoInlineAttr, AttrValue(true));
  if (batch) spec.attrs.emplace(kBatchAttr, AttrValue(true));
  return Checked(MakeFunctionDef(spec, body));
}

void Order(PyGraph& g) {
  const Building here(g);
  Check(OrderEffects(&g));
}

void DefineIn(PyGraph& g, const std::string& name, const std::string& def) {
  const Building here(g);
  Check(g.function_library().Define(name, def));
}

// A function whose body follows.
void DeclareIn(PyGraph& g, const std::string& name,
               const std::vector<DType>& arg_types,
               const std::vector<std::string>& arg_names,
               const std::vector<DType>& result_types,
               const std::vector<std::string>& result_names) {
  const Building here(g);
  const FunctionSpec spec{name, arg_names, result_names, "", {}};
  Check(g.function_library().Define(
      name,
      Checked(MakeFunctionDeclaration(spec, arg_types, result_types, false))));
}

void SetGradient(PyGraph& g, const std::string& name,
                 const std::string& gradient) {
  const Building here(g);
  g.function_gradients()[name] = gradient;
}

// Makes a new graph the body of a function that `outer` defines.
void BeginBody(PyGraph& body, PyGraph& outer) {
  body.ShareLibrary(outer);
  body.is_function = true;
  body.captured = std::make_unique<BodyCaptures>(&body, &outer);
  body.capture = [&body](const Output& o) -> Result<Output> {
    const Output made = FromLibrary([&] { return InGraphOf(body, o); });
    if (!made.valid())
      return InvalidArgument("function: expected a value that its body can ",
                             "capture, got '", o.name(), "'; ",
                             o.node->Describe());
    return made;
  };
}

// A node of the default graph that calls the function.
Node* AddCall(const std::string& name, const std::vector<Output>& inputs,
              const std::string& node_name) {
  PyGraph& g = TargetGraph();
  const Building here(g);
  std::vector<Output> here_inputs;
  for (const Output& o : inputs) here_inputs.push_back(InGraphOf(g, o));
  Node* const node =
      BuildNode(name, std::move(here_inputs), {}, node_name, UserLine());
  CheckBuilt(g);
  return node;
}

}  // namespace

void AddDefun(py::module_& m) {
  m.def("make_function_def", MakeDef);
  m.def("order_effects", Order);
  m.def("define_function", DefineIn);
  m.def("declare_function", DeclareIn);
  m.def("set_function_gradient", SetGradient);
  m.def("call_function", AddCall);
  // An argument that stands for a tensor from outside: what is known of the
  // variable that it is a handle of.
  m.def("tell_variable", [](PyGraph& g, Node* arg, const Output& outside) {
    const Building here(g);
    const DType dtype = VariableType(outside);
    if (dtype != DType::kInvalid)
      TellVariable(&g, arg, dtype, VariableShapeOf(outside));
  });
  // A copy of an operation of another graph, without what it waits for.
  m.def("copy_operation",
        [](PyGraph& g, Node* from, const std::vector<Output>& inputs) {
          const Building here(g);
          return g.CopyNode(*from, g.UniqueName(from->name()), from->device(),
                            from->loc(), inputs, {});
        });
  m.def("begin_body", BeginBody);
  m.def("note_capture",
        [](PyGraph& body, const Output& outside, const Output& inside) {
          body.captured->Add(outside, inside);
        });
  // The names of the nodes of a GraphDef that some results need.
  m.def("needed_nodes", [](const py::bytes& graph_def,
                           const std::vector<std::string>& results) {
    return Checked(NeededNodes(std::string(graph_def), results));
  });
  m.def("function_names", [](PyGraph& g) {
    const GraphLock lock(g);
    std::vector<std::string> names;
    for (const auto& [name, def] : g.functions()) names.push_back(name);
    return names;
  });
  m.def("function_def", [](PyGraph& g, const std::string& name) {
    const GraphLock lock(g);
    const auto it = g.functions().find(name);
    return it == g.functions().end() ? py::object(py::none())
                                     : py::bytes(it->second);
  });
}

}  // namespace sluice::python
