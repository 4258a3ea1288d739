#include "objects.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_join.h"
#include "client/initializers.h"
#include "graph/control_flow.h"
#include "graph/device_scope.h"
#include "graph/function.h"
#include "graph/graphdef.h"
#include "graph/graphdef_op.h"
#include "graph/hidden_attributes.h"
#include "scopes.h"
#include "values.h"

namespace sluice::python {

PyTypeObject *tensor_type = nullptr, *operation_type = nullptr;

namespace {

uint64_t NextSerial() {
  static uint64_t serials = 0;
  return ++serials;
}

// ---- Graph ------------------------------------------------------------------

// (graph seed, op seed) for a random op; Nones: it draws anew.
py::object SeedsOf(PyGraph& g, std::optional<int64_t> op_seed) {
  if (!g.seed && !op_seed) return py::make_tuple(py::none(), py::none());
  const Building here(g);
  return py::cast(SeedsFor(op_seed));
}

Node* FindOperation(PyGraph& g, const std::string& name) {
  const GraphLock lock(g);
  return g.FindNode(name);
}

std::string Nearest(PyGraph& g, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& n : g.nodes()) names.push_back(n->name());
  return absl::StrJoin(NearestNames(name, names), ", ");
}

// Those from number `first` on.
std::vector<Node*> Operations(PyGraph& g, size_t first) {
  std::vector<Node*> some;
  for (size_t i = first; i < g.nodes().size(); ++i)
    some.push_back(g.nodes()[i].get());
  return some;
}

std::string UniqueName(PyGraph& g, const std::string& name, bool mark) {
  const GraphLock lock(g);
  return mark ? g.UniqueScope(name) : g.UniqueName(name);
}

py::object Export(PyGraph& g, bool text) {
  const GraphLock lock(g);
  const std::string made = Checked(ExportGraphDef(g, text));
  if (text) return py::str(made);
  return py::bytes(made);
}

py::bytes ExportNode(Node* n) {
  const GraphLock lock(GraphOf(n));
  return Checked(ExportNodeDef(*n));
}

// The first node that `n` is to share a device with; null if there is none.
Node* Companion(Graph& g, const Node* n, bool placed) {
  for (const std::string& s :
       n->AttrOr<AttrValue::Strings>(kColocationAttr, {})) {
    Node* const other =
        s.starts_with("loc:@") ? g.FindNode(s.substr(5)) : nullptr;
    if (other != nullptr && other != n && !(placed && other->device().empty()))
      return other;
  }
  return nullptr;
}

// As in TensorFlow: scopes count for imported nodes, too, but for those that
// have the device of another one.
void PlaceImported(Graph& g, const std::vector<Node*>& nodes) {
  std::vector<Node*> others;
  for (Node* n : nodes) {
    if (Companion(g, n, false) != nullptr) {
      others.push_back(n);
      continue;
    }
    const Status placed = ApplyDeviceScopes(n);
    if (PyErr_Occurred()) throw py::error_already_set();  // (Of a function.)
    Check(placed);
  }
  for (Node* n : others) g.SetDevice(n, "");
  for (Node* n : others)
    if (const Node* const with = Companion(g, n, true))
      g.SetDevice(n, with->device());
}

py::list Import(PyGraph& g, const std::string& bytes, const std::string& prefix,
                const std::map<std::string, Output>& inputs,
                const std::vector<std::string>& wanted) {
  ImportOptions options;
  options.prefix = prefix;
  options.unique_names = true;
  for (const auto& [name, output] : inputs)
    if (name.starts_with('^'))
      options.control_input_map.emplace(name.substr(1), output.node);
    else
      options.input_map.emplace(name, output);
  options.return_elements = wanted;
  const Building here(g);
  options.control_dependencies = CurrentControlDependencies();
  options.context = CurrentContext();
  options.in_condition = InLoopCondition();
  ImportResults results;
  Check(ImportGraphDef(bytes, g, options, &results));
  PlaceImported(g, results.nodes);
  if (options.context == nullptr)
    g.imported.insert(results.nodes.begin(), results.nodes.end());
  py::list made;
  size_t nodes = 0, outputs = 0;
  for (const std::string& name : wanted) {
    if (name.find(':') == std::string::npos)
      made.append(results.return_nodes[nodes++]);
    else
      made.append(results.return_outputs[outputs++]);
  }
  return made;
}

// What C++ libraries put under a key, from number `first` on.
std::vector<Output> Collected(PyGraph& g, const std::string& key,
                              size_t first) {
  const auto it = g.collections().find(key);
  if (it == g.collections().end()) return {};
  const std::vector<Output>& all = it->second;
  return {all.begin() + static_cast<ptrdiff_t>(std::min(first, all.size())),
          all.end()};
}

// ---- Operation --------------------------------------------------------------

py::object Line(Node* n) {
  if (!n->loc().known()) return py::none();
  return py::make_tuple(n->loc().file, n->loc().line);
}

const AttrValue& FindAttribute(Node* n, const std::string& name) {
  const AttrValue* const value = n->FindAttr(name);
  if (value == nullptr)
    Raise(PyExc_ValueError, absl::StrCat("Operation '", n->name(),
                                         "' has no attr named '", name, "'."));
  return *value;
}

py::object Attribute(Node* n, const std::string& name) {
  return FromAttr(FindAttribute(n, name));
}

std::vector<std::string> AttributeNames(Node* n) {
  std::vector<std::string> names;
  for (const auto& [name, value] : n->attrs()) names.push_back(name);
  return names;
}

py::bytes AttributeMessage(Node* n, const std::string& name) {
  return Checked(SerializeAttrValue(FindAttribute(n, name)));
}

// Attributes of the op's own keep their kind, and those keep their values by
// which a node's inputs and outputs were made; others are the caller's.
void SetAttribute(Node* n, const std::string& name, const py::bytes& message) {
  AttrValue value = Checked(ParseAttrValue(std::string(message)));
  const GraphLock lock(*n->graph());
  const auto sizes = [&name](const ArgDef& a) {
    return a.type_attr == name || a.type_list_attr == name ||
           a.number_attr == name;
  };
  const OpDef& op = n->op();
  for (const AttrDef& def : op.attrs)
    if (def.name == name &&
        (value.kind() != def.kind || value.is_list() != def.is_list ||
         std::any_of(op.inputs.begin(), op.inputs.end(), sizes) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), sizes)))
      Raise(PyExc_ValueError,
            absl::StrCat("attribute '", name,
                         "': expected one of the kind that ", n->op_name(),
                         " declares and that its inputs and outputs do not "
                         "depend on, got ",
                         value.ToString(), "; ", n->Describe()));
  n->graph()->SetAttr(n, name, std::move(value));
}

// Nodes from number `first` on whose names begin with `prefix` are to be on the
// device of a node that may not be there yet, unless they say where.
void ColocateSince(PyGraph& g, int first, const std::string& prefix,
                   const std::string& with) {
  const GraphLock lock(g);
  for (int i = first; i < g.num_nodes(); ++i) {
    Node* const n = g.nodes()[static_cast<size_t>(i)].get();
    if (n->name().starts_with(prefix) &&
        n->FindAttr(kColocationAttr) == nullptr)
      g.SetAttr(n, kColocationAttr,
                AttrValue(AttrValue::Strings{"loc:@" + with}));
  }
}

py::bytes OpDefMessage(const PyGraph& g, const std::string& op) {
  return Checked(ExportOpDef(*Checked(g.function_library().LookupOp(op))));
}

// A node of its inputs and its attributes' messages.
Node* Create(PyGraph& g, const std::string& op, std::vector<Output> inputs,
             const std::string& name,
             const std::map<std::string, py::bytes>& messages) {
  const Building here(g);
  AttrMap attrs;
  for (const auto& [attr, message] : messages)
    attrs.emplace(attr, Checked(ParseAttrValue(std::string(message))));
  Node* const node =
      BuildNode(op, std::move(inputs), std::move(attrs), name, UserLine());
  CheckBuilt(g);
  return node;
}

void SetDevice(Node* n, const std::string& device) {
  const GraphLock lock(*n->graph());
  n->graph()->SetDevice(n, Checked(MergeDevices(device, "")));
}

void AddControlInput(Node* n, Node* other) {
  const GraphLock lock(*n->graph());
  Check(n->graph()->AddControlEdge(other, n));
}

// Another source for an input. What reads the node knows the shapes that it
// has, so the new one's must fit the old one's.
void UpdateInput(Node* n, int index, const Output& next) {
  const GraphLock lock(*n->graph());
  if (next.graph() != n->graph())
    Raise(PyExc_ValueError,
          absl::StrCat("_update_input: ", Describe(next),
                       " must be from the same graph as ", n->Describe()));
  if (index < 0 || index >= n->num_inputs())
    CheckRun(OutOfRange("_update_input: expected an index below ",
                        n->num_inputs(), ", got ", index, "; ", n->Describe()),
             py::none());
  const Output before = n->input(index);
  if (RemoveRef(before.dtype()) != RemoveRef(next.dtype()) ||
      (IsRef(before.dtype()) && !IsRef(next.dtype())))
    Raise(PyExc_TypeError, absl::StrCat("_update_input: expected ",
                                        PythonTypeName(before.dtype()),
                                        ", got ", Describe(next)));
  if (!(before.shape().Union(next.shape()) == before.shape()))
    CheckRun(InvalidArgument("_update_input: expected the shape ",
                             before.shape().ToString(), ", got ",
                             next.shape().ToString(), "; ", n->Describe()),
             py::none());
  Check(n->graph()->ReplaceInput(n, index, next));
}

void RemoveControlInputs(Node* n) {
  const GraphLock lock(*n->graph());
  n->graph()->SetControlInputs(n, {});
}

std::vector<Output> Outputs(Node* n) {
  std::vector<Output> outputs;
  for (int i = 0; i < n->num_outputs(); ++i) outputs.emplace_back(n, i);
  return outputs;
}

// ---- Tensor -----------------------------------------------------------------

void SetShape(const Output& o, const PartialShape& shape) {
  const GraphLock lock(*o.graph());
  Check(o.graph()->SetShape(o, shape));
}

std::vector<Node*> Consumers(const Output& o) {
  std::vector<Node*> nodes;
  for (const auto& n : o.graph()->nodes())
    for (const Output& in : n->inputs())
      if (in.SameAs(o)) nodes.push_back(n.get());
  return nodes;
}

// An object of `type`, a class that the package derives from T's. (pybind11
// makes one by itself only of T's own class, or through the call of a
// constructor, which handles are not to have.)
template <typename T>
py::object Make(const py::object& type, const Output& key) {
  static const py::detail::type_info* const info =
      py::detail::get_type_info(typeid(T));
  auto made = py::reinterpret_steal<py::object>(py::detail::make_new_instance(
      reinterpret_cast<PyTypeObject*>(type.ptr())));
  auto* const instance = reinterpret_cast<py::detail::instance*>(made.ptr());
  instance->get_value_and_holder().value_ptr() = new T(key, made.ptr());
  info->init_instance(instance, nullptr);
  return made;
}

// The loops and branches around an operation (None: what is built now), from
// the innermost outwards: (name, number of the branch or -1 for a loop).
std::vector<std::pair<std::string, int>> Constructs(PyGraph& g, py::handle op) {
  const Building here(g);
  std::vector<std::pair<std::string, int>> found;
  ControlFlowContext* c =
      op.is_none() ? CurrentContext() : ContextOf(AsOperation(op)->output.node);
  for (; c != nullptr; c = c->outer())
    found.emplace_back(c->name(), c->AsWhile() ? -1 : c->AsCond()->branch());
  return found;
}

}  // namespace

PyGraph::PyGraph() : serial(NextSerial()) {}
PyGraph::~PyGraph() { ForgetScopes(*this); }

bool PyGraph::Fetchable(Node* node) const {
  return unfetchable.count(node) == 0 &&
         (imported.count(node) != 0 || ContextOf(Output{node, 0}) == nullptr);
}

bool PyGraph::Feedable(const Output& output) const {
  ControlFlowContext* const context = ContextOf(output);
  return unfeedable.count(output) == 0 &&
         (imported.count(output.node) != 0 || context == nullptr ||
          context->AsWhile() == nullptr);
}

Handle::Handle(const Output& key, PyObject* made)
    : output(key), graph(ObjectOf(GraphOf(key.node))), self(made) {
  GraphOf(output.node).handles[output] = this;
}

Handle::~Handle() {
  auto& handles = GraphOf(output.node).handles;
  const auto it = handles.find(output);
  if (it != handles.end() && it->second == this) handles.erase(it);
}

py::object HandleOf(const Output& key) {
  const auto& handles = GraphOf(key.node).handles;
  const auto it = handles.find(key);
  // (No references: the last of them is just going, and with it the handle.)
  if (it != handles.end() && Py_REFCNT(it->second->self) > 0)
    return py::reinterpret_borrow<py::object>(it->second->self);
  if (key.index == kOperation)
    return Make<OperationHandle>(GetHooks().operation_class, key);
  const py::object& own = GraphOf(key.node).tensor_class;
  return Make<TensorHandle>(own ? own : GetHooks().tensor_class, key);
}

std::string Describe(const Output& o) {
  std::string shape;
  if (o.shape().rank_known()) {
    std::vector<std::string> dims;
    for (int i = 0; i < o.shape().rank(); ++i)
      dims.push_back(o.shape().dim(i) < 0 ? "?"
                                          : absl::StrCat(o.shape().dim(i)));
    shape = absl::StrCat(", shape=(", absl::StrJoin(dims, ", "),
                         dims.size() == 1 ? ",)" : ")");
  }
  return absl::StrCat("Tensor(\"", o.name(), "\"", shape,
                      ", dtype=", PythonTypeName(o.dtype()), ")");
}

void AddObjects(py::module_& m) {
  py::class_<PyGraph>(m, "Graph")
      .def(py::init<>())
      .def("_find_operation", FindOperation)
      .def("_nearest", Nearest)
      .def("_operations", Operations)
      .def("_colocate_since", ColocateSince)
      .def("_unique_name", UniqueName, py::arg(), py::arg() = true)
      .def("_export", Export)
      .def("_import", Import)
      .def("_collected", Collected)
      .def_readwrite("_finalized", &PyGraph::finalized)
      .def_readwrite("_tensor_class", &PyGraph::tensor_class)
      .def_readonly("building_function", &PyGraph::is_function,
                    "Whether it is the body of a function.")
      .def_readwrite("seed", &PyGraph::seed,
                     "The graph-level seed of random ops, or None.")
      .def("_seeds_for", SeedsOf)
      .def("_constructs", Constructs)
      .def("_create", Create)
      .def("_op_def", OpDefMessage)
      .def(
          "prevent_feeding",
          [](PyGraph& g, const Output& tensor) { g.unfeedable.insert(tensor); },
          "No step may be given this tensor's value.", py::arg("tensor"))
      .def(
          "is_feedable",
          [](PyGraph& g, const Output& tensor) { return g.Feedable(tensor); },
          "Whether a step may be given this tensor's value.", py::arg("tensor"))
      .def(
          "prevent_fetching",
          [](PyGraph& g, Node* op) { g.unfetchable.insert(op); },
          "No step may be asked for this operation, nor its tensors.",
          py::arg("op"))
      .def(
          "is_fetchable", [](PyGraph& g, Node* op) { return g.Fetchable(op); },
          "Whether a step may be asked for this tensor or operation.",
          py::arg("tensor_or_op"))
      .def_property_readonly(
          "version", [](const PyGraph& g) { return g.num_nodes(); },
          "How many operations there are.");

  const auto operation =
      py::class_<OperationHandle>(m, "Operation",
                                  Holds<OperationHandle, &Handle::graph>())
          .def_property_readonly(
              "name", [](Node* n) { return n->name(); },
              "The full name in the graph.")
          .def_property_readonly(
              "type", [](Node* n) { return n->op_name(); },
              "The op's name, such as \"MatMul\".")
          .def_readonly("graph", &OperationHandle::graph,
                        "The graph that owns it.")
          .def_property_readonly(
              "device", [](Node* n) { return n->device(); },
              "The device that it asks for, or \"\".")
          .def_property_readonly(
              "inputs",
              [](Node* n) { return py::tuple(py::cast(n->inputs())); },
              "The tensors that it reads.")
          .def_property_readonly("outputs", Outputs,
                                 "The tensors that it makes.")
          .def_property_readonly(
              "control_inputs", [](Node* n) { return n->control_inputs(); },
              "The operations that it waits for.")
          .def_property_readonly("_id", [](Node* n) { return n->id(); })
          .def_property_readonly("_line", Line)
          .def_property_readonly(
              "_stack", [](Node* n) { return GraphOf(n).stacks.Of(n->id()); })
          .def("_attr_message", AttributeMessage)
          .def("_set_attr_message", SetAttribute)
          .def("_export", ExportNode)
          .def("_attr", Attribute)
          .def("_attr_names", AttributeNames)
          .def("_set_device", SetDevice)
          .def("_add_control_input", AddControlInput)
          .def("_update_input", UpdateInput)
          .def("_remove_all_control_inputs", RemoveControlInputs)
          .def("_describe", [](Node* n) { return n->Describe(); });
  operation_type = reinterpret_cast<PyTypeObject*>(operation.ptr());

  const auto tensor =
      py::class_<TensorHandle>(m, "Tensor",
                               Holds<TensorHandle, &Handle::graph>())
          .def_property_readonly(
              "name", [](const Output& o) { return o.name(); },
              "The operation's name and the output's number: \"MatMul:0\".")
          .def_property_readonly(
              "op", [](const Output& o) { return o.node; },
              "The operation that makes it.")
          .def_readonly("graph", &TensorHandle::graph,
                        "The graph that it belongs to.")
          .def_property_readonly(
              "dtype", [](const Output& o) { return o.dtype(); },
              "The type of its elements.")
          .def_property_readonly(
              "device", [](const Output& o) { return o.node->device(); },
              "Its operation's device.")
          .def_property_readonly(
              "value_index", [](const Output& o) { return o.index; },
              "Its number among the outputs.")
          .def_property_readonly("_dims",
                                 [](const Output& o) { return o.shape(); })
          .def("_set_shape", SetShape)
          .def("consumers", Consumers,
               "The operations that read this tensor, in the order they were "
               "made.");
  tensor_type = reinterpret_cast<PyTypeObject*>(tensor.ptr());
}

}  // namespace sluice::python
