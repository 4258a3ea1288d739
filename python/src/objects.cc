#include "objects.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "graph/control_flow.h"
#include "graph/graphdef.h"
#include "scopes.h"
#include "values.h"

namespace sluice::py {
namespace {

template <typename T>
PyObject* AsObject(T* o) {
  return reinterpret_cast<PyObject*>(o);
}

// ---- Graph ------------------------------------------------------------------

GraphObject::State& StateOf(PyObject* self) { return *AsGraph(self)->state; }
Graph& GraphOf(PyObject* self) { return AsGraph(self)->state->graph; }

PyObject* GraphNew(PyTypeObject* type, PyObject*, PyObject*) {
  static uint64_t serials = 0;
  PyObject* const self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  AsGraph(self)->state = new GraphObject::State();
  AsGraph(self)->state->serial = ++serials;
  return self;
}

int GraphTraverse(PyObject* self, visitproc visit, void* arg) {
  for (PyObject* p : StateOf(self).pinned) Py_VISIT(p);
  return 0;
}

int GraphClear(PyObject* self) {
  std::vector<PyObject*> pinned;
  pinned.swap(StateOf(self).pinned);
  for (PyObject* p : pinned) Py_DECREF(p);
  return 0;
}

void GraphDealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  GraphClear(self);
  ForgetScopes(*AsGraph(self));
  delete AsGraph(self)->state;
  Py_TYPE(self)->tp_free(self);
}

PyObject* GraphFindOperation(PyObject* self, PyObject* name) {
  std::string text;
  if (!ToString(name, &text)) return nullptr;
  const GraphLock lock(GraphOf(self));
  Node* const node = GraphOf(self).FindNode(text);
  if (node == nullptr) Py_RETURN_NONE;
  return ToPython(AsGraph(self), node);
}

PyObject* GraphNearest(PyObject* self, PyObject* name) {
  std::string text;
  if (!ToString(name, &text)) return nullptr;
  std::vector<std::string> names;
  for (const auto& n : GraphOf(self).nodes()) names.push_back(n->name());
  return FromString(absl::StrJoin(NearestNames(text, names), ", "));
}

PyObject* GraphOperations(PyObject* self, PyObject* first) {
  const long begin = PyLong_AsLong(first);
  if (begin == -1 && PyErr_Occurred()) return nullptr;
  Ref list(PyList_New(0));
  const auto& nodes = GraphOf(self).nodes();
  for (size_t i = static_cast<size_t>(std::max(0L, begin)); i < nodes.size();
       ++i) {
    const Ref op(ToPython(AsGraph(self), nodes[i].get()));
    if (!op || PyList_Append(list.get(), op.get()) < 0) return nullptr;
  }
  return list.release();
}

PyObject* GraphUniqueName(PyObject* self, PyObject* args) {
  const char* name = nullptr;
  int mark = 1;
  if (!PyArg_ParseTuple(args, "s|p", &name, &mark)) return nullptr;
  const GraphLock lock(GraphOf(self));
  return FromString(mark ? GraphOf(self).UniqueScope(name)
                         : GraphOf(self).UniqueName(name));
}

PyObject* GraphExport(PyObject* self, PyObject* text) {
  const int as_text = PyObject_IsTrue(text);
  if (as_text < 0) return nullptr;
  const GraphLock lock(GraphOf(self));
  const Result<std::string> bytes = ExportGraphDef(GraphOf(self), as_text != 0);
  if (!bytes.ok()) return BuildFailed(bytes.status());
  if (as_text) return FromString(*bytes);
  return PyBytes_FromStringAndSize(bytes->data(),
                                   static_cast<Py_ssize_t>(bytes->size()));
}

// import_graph_def(bytes, prefix, input_map, return_elements).
PyObject* GraphImport(PyObject* self, PyObject* args) {
  const char* bytes = nullptr;
  Py_ssize_t size = 0;
  const char* prefix = nullptr;
  PyObject *map = nullptr, *wanted = nullptr;
  if (!PyArg_ParseTuple(args, "y#sO!O!", &bytes, &size, &prefix, &PyDict_Type,
                        &map, &PyList_Type, &wanted))
    return nullptr;
  ImportOptions options;
  options.prefix = prefix;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(map, &at, &key, &value);) {
    std::string name;
    if (!ToString(key, &name)) return nullptr;
    if (!IsTensor(value))
      return PyErr_Format(PyExc_TypeError,
                          "input_map: expected a Tensor for %R, got %R", key,
                          value);
    options.input_map[name] = OutputOf(value);
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(wanted); ++i) {
    options.return_elements.emplace_back();
    if (!ToString(PyList_GET_ITEM(wanted, i), &options.return_elements.back()))
      return nullptr;
  }
  const GraphLock lock(GraphOf(self));
  ImportResults results;
  const Status s = ImportGraphDef({bytes, static_cast<size_t>(size)},
                                  GraphOf(self), options, &results);
  if (!s.ok()) return BuildFailed(s);
  Ref made(PyList_New(0));
  size_t nodes = 0, outputs = 0;
  for (const std::string& name : options.return_elements) {
    const Ref one(
        name.find(':') == std::string::npos
            ? ToPython(AsGraph(self), results.return_nodes[nodes++])
            : ToPython(AsGraph(self), results.return_outputs[outputs++]));
    if (!one || PyList_Append(made.get(), one.get()) < 0) return nullptr;
  }
  return made.release();
}

// The handles of what C++ libraries put under a key, from number `first` on.
PyObject* GraphCollected(PyObject* self, PyObject* args) {
  const char* key = nullptr;
  Py_ssize_t first = 0;
  if (!PyArg_ParseTuple(args, "sn", &key, &first)) return nullptr;
  const auto it = GraphOf(self).collections().find(key);
  if (it == GraphOf(self).collections().end()) return PyList_New(0);
  std::vector<Output> some;
  for (size_t i = static_cast<size_t>(first); i < it->second.size(); ++i)
    some.push_back(it->second[i]);
  return ToPython(AsGraph(self), some);
}

PyObject* GraphGetSeed(PyObject* self, void*) {
  if (!GraphOf(self).seed) Py_RETURN_NONE;
  return PyLong_FromLongLong(*GraphOf(self).seed);
}

int GraphSetSeed(PyObject* self, PyObject* value, void*) {
  if (value == nullptr || value == Py_None) {
    GraphOf(self).seed.reset();
    return 0;
  }
  const int64_t seed = PyLong_AsLongLong(value);
  if (seed == -1 && PyErr_Occurred()) return -1;
  GraphOf(self).seed = seed;
  return 0;
}

PyObject* GraphVersion(PyObject* self, void*) {
  return PyLong_FromLong(GraphOf(self).num_nodes());
}

PyMethodDef graph_methods[] = {
    {"_find_operation", GraphFindOperation, METH_O, nullptr},
    {"_nearest", GraphNearest, METH_O, nullptr},
    {"_operations", GraphOperations, METH_O, nullptr},
    {"_unique_name", GraphUniqueName, METH_VARARGS, nullptr},
    {"_export", GraphExport, METH_O, nullptr},
    {"_import", GraphImport, METH_VARARGS, nullptr},
    {"_collected", GraphCollected, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef graph_getset[] = {
    {"seed", GraphGetSeed, GraphSetSeed,
     "The graph-level seed of random ops, or None.", nullptr},
    {"version", GraphVersion, nullptr, "How many operations there are.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

// ---- Handles ----------------------------------------------------------------

PyObject*& Place(std::vector<PyObject*>& by_id, const Node* node) {
  const auto id = static_cast<size_t>(node->id());
  if (by_id.size() <= id) by_id.resize(std::max(id + 1, 2 * by_id.size()));
  return by_id[id];
}

PyObject* NoNew(PyTypeObject* type, PyObject*, PyObject*) {
  return PyErr_Format(PyExc_TypeError,
                      "%s: expected to be made by an op, got a call",
                      type->tp_name);
}

template <typename Handle>
int HandleTraverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<Handle*>(self)->graph);
  return 0;
}

// An attribute must outlive whoever holds the handle just now.
template <typename Handle>
int HandleSetAttr(PyObject* self, PyObject* name, PyObject* value) {
  if (PyObject_GenericSetAttr(self, name, value) < 0) return -1;
  auto* const handle = reinterpret_cast<Handle*>(self);
  if (!handle->pinned && value != nullptr) {
    handle->pinned = true;
    Py_INCREF(self);
    handle->graph->state->pinned.push_back(self);
  }
  return 0;
}

void OperationDealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  OperationObject* const op = AsOperation(self);
  PyObject*& place = Place(op->graph->state->operations, op->node);
  if (place == self) place = nullptr;
  Py_DECREF(op->graph);
  Py_TYPE(self)->tp_free(self);
}

void TensorDealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  TensorObject* const t = AsTensor(self);
  PyObject*& place = t->index == 0
                         ? Place(t->graph->state->tensors, t->node)
                         : t->graph->state->others[Output(t->node, t->index)];
  if (place == self) place = nullptr;
  Py_DECREF(t->graph);
  Py_TYPE(self)->tp_free(self);
}

// ---- Operation --------------------------------------------------------------

Node& NodeOf(PyObject* self) { return *AsOperation(self)->node; }

PyObject* OperationName(PyObject* self, void*) {
  return FromString(NodeOf(self).name());
}
PyObject* OperationKind(PyObject* self, void*) {
  return FromString(NodeOf(self).op_name());
}
PyObject* OperationGraph(PyObject* self, void*) {
  return Ref::Borrow(AsObject(AsOperation(self)->graph)).release();
}
PyObject* OperationDevice(PyObject* self, void*) {
  return FromString(NodeOf(self).device());
}
PyObject* OperationId(PyObject* self, void*) {
  return PyLong_FromLong(NodeOf(self).id());
}
PyObject* OperationInputs(PyObject* self, void*) {
  const Node& n = NodeOf(self);
  Ref tuple(PyTuple_New(n.num_inputs()));
  for (int i = 0; i < n.num_inputs(); ++i) {
    // (Null: the back edge of a loop that is being built.)
    PyObject* const t = n.input(i)
                            ? ToPython(AsOperation(self)->graph, n.input(i))
                            : Ref::Borrow(Py_None).release();
    if (t == nullptr) return nullptr;
    PyTuple_SET_ITEM(tuple.get(), i, t);
  }
  return tuple.release();
}
PyObject* OperationOutputs(PyObject* self, void*) {
  Node& n = NodeOf(self);
  Ref list(PyList_New(n.num_outputs()));
  for (int i = 0; i < n.num_outputs(); ++i) {
    PyObject* const t = ToPython(AsOperation(self)->graph, Output(&n, i));
    if (t == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), i, t);
  }
  return list.release();
}
PyObject* OperationControlInputs(PyObject* self, void*) {
  Ref list(PyList_New(0));
  for (Node* c : NodeOf(self).control_inputs()) {
    const Ref op(ToPython(AsOperation(self)->graph, c));
    if (!op || PyList_Append(list.get(), op.get()) < 0) return nullptr;
  }
  return list.release();
}
PyObject* OperationLine(PyObject* self, void*) {
  const SourceLoc& loc = NodeOf(self).loc();
  if (!loc.known()) Py_RETURN_NONE;
  return Py_BuildValue("(Ni)", FromString(loc.file), loc.line);
}
PyObject* OperationContext(PyObject* self, void*) {
  const ControlFlowContext* const c = ContextOf(&NodeOf(self));
  if (c == nullptr) Py_RETURN_NONE;
  return FromString(c->name());
}
PyObject* OperationDoc(PyObject* self, void*) {
  return FromString(NodeOf(self).op().doc);
}

PyObject* OperationGetAttr(PyObject* self, PyObject* name) {
  std::string text;
  if (!ToString(name, &text)) return nullptr;
  const AttrValue* const value = NodeOf(self).FindAttr(text);
  if (value == nullptr)
    return PyErr_Format(PyExc_ValueError,
                        "Operation '%s' has no attr named '%s'.",
                        NodeOf(self).name().c_str(), text.c_str());
  return FromAttr(*value);
}
PyObject* OperationAttrNames(PyObject* self, PyObject*) {
  Ref list(PyList_New(0));
  for (const auto& [name, value] : NodeOf(self).attrs()) {
    const Ref text(FromString(name));
    if (!text || PyList_Append(list.get(), text.get()) < 0) return nullptr;
  }
  return list.release();
}
PyObject* OperationSetDevice(PyObject* self, PyObject* device) {
  std::string text;
  if (!ToString(device, &text)) return nullptr;
  const GraphLock lock(GraphOf(AsObject(AsOperation(self)->graph)));
  const Result<std::string> known = MergeDevices(text, "");
  if (!known.ok()) return BuildFailed(known.status());
  NodeOf(self).graph()->SetDevice(&NodeOf(self), *known);
  Py_RETURN_NONE;
}
PyObject* OperationAddControl(PyObject* self, PyObject* other) {
  if (!IsOperation(other))
    return PyErr_Format(PyExc_TypeError, "expected an Operation, got %R",
                        other);
  const GraphLock lock(GraphOf(AsObject(AsOperation(self)->graph)));
  const Status s =
      NodeOf(self).graph()->AddControlEdge(&NodeOf(other), &NodeOf(self));
  if (!s.ok()) return BuildFailed(s);
  Py_RETURN_NONE;
}
// The names of the declared outputs, for results with names.
PyObject* OperationDescribe(PyObject* self, PyObject*) {
  return FromString(NodeOf(self).Describe());
}

PyMethodDef operation_methods[] = {
    {"_attr", OperationGetAttr, METH_O, nullptr},
    {"_attr_names", OperationAttrNames, METH_NOARGS, nullptr},
    {"_set_device", OperationSetDevice, METH_O, nullptr},
    {"_add_control_input", OperationAddControl, METH_O, nullptr},
    {"_describe", OperationDescribe, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef operation_getset[] = {
    {"name", OperationName, nullptr, "The full name in the graph.", nullptr},
    {"type", OperationKind, nullptr, "The op's name, such as \"MatMul\".",
     nullptr},
    {"graph", OperationGraph, nullptr, "The graph that owns it.", nullptr},
    {"device", OperationDevice, nullptr,
     "The device that it asks for, or \"\".", nullptr},
    {"_id", OperationId, nullptr, nullptr, nullptr},
    {"inputs", OperationInputs, nullptr, "The tensors that it reads.", nullptr},
    {"outputs", OperationOutputs, nullptr, "The tensors that it makes.",
     nullptr},
    {"control_inputs", OperationControlInputs, nullptr,
     "The operations that it waits for.", nullptr},
    {"_line", OperationLine, nullptr, nullptr, nullptr},
    {"_context_name", OperationContext, nullptr, nullptr, nullptr},
    {"_op_doc", OperationDoc, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

// ---- Tensor -----------------------------------------------------------------

PyObject* TensorName(PyObject* self, void*) {
  return FromString(OutputOf(self).name());
}
PyObject* TensorOp(PyObject* self, void*) {
  return ToPython(AsTensor(self)->graph, AsTensor(self)->node);
}
PyObject* TensorGraph(PyObject* self, void*) {
  return Ref::Borrow(AsObject(AsTensor(self)->graph)).release();
}
PyObject* TensorDType(PyObject* self, void*) {
  return FromDType(OutputOf(self).dtype());
}
PyObject* TensorDevice(PyObject* self, void*) {
  return FromString(AsTensor(self)->node->device());
}
PyObject* TensorIndex(PyObject* self, void*) {
  return PyLong_FromLong(AsTensor(self)->index);
}
PyObject* TensorDims(PyObject* self, void*) {
  return FromShape(OutputOf(self).shape());
}
PyObject* TensorSetShape(PyObject* self, PyObject* shape) {
  PartialShape known;
  if (!ToShape(shape, &known)) return nullptr;
  Graph& g = AsTensor(self)->graph->state->graph;
  const GraphLock lock(g);
  const Status s = g.SetShape(OutputOf(self), known);
  if (!s.ok()) return BuildFailed(s);
  Py_RETURN_NONE;
}
PyObject* TensorConsumers(PyObject* self, PyObject*) {
  const Output o = OutputOf(self);
  Ref list(PyList_New(0));
  for (const auto& n : o.graph()->nodes()) {
    if (std::find(n->inputs().begin(), n->inputs().end(), o) ==
        n->inputs().end())
      continue;
    const Ref op(ToPython(AsTensor(self)->graph, n.get()));
    if (!op || PyList_Append(list.get(), op.get()) < 0) return nullptr;
  }
  return list.release();
}

PyMethodDef tensor_methods[] = {
    {"_set_shape", TensorSetShape, METH_O, nullptr},
    {"consumers", TensorConsumers, METH_NOARGS,
     "The operations that read this tensor, in the order they were made."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef tensor_getset[] = {
    {"name", TensorName, nullptr,
     "The operation's name and the output's "
     "number: \"MatMul:0\".",
     nullptr},
    {"op", TensorOp, nullptr, "The operation that makes it.", nullptr},
    {"graph", TensorGraph, nullptr, "The graph that it belongs to.", nullptr},
    {"dtype", TensorDType, nullptr, "The type of its elements.", nullptr},
    {"device", TensorDevice, nullptr, "Its operation's device.", nullptr},
    {"value_index", TensorIndex, nullptr, "Its number among the outputs.",
     nullptr},
    {"_dims", TensorDims, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

constexpr unsigned long kFlags =
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;

PyTypeObject MakeGraphType() {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "sluice._core.Graph";
  t.tp_basicsize = sizeof(GraphObject);
  t.tp_flags = kFlags;
  t.tp_new = GraphNew;
  t.tp_dealloc = GraphDealloc;
  t.tp_traverse = GraphTraverse;
  t.tp_clear = GraphClear;
  t.tp_methods = graph_methods;
  t.tp_getset = graph_getset;
  return t;
}
PyTypeObject MakeOperationType() {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "sluice._core.Operation";
  t.tp_basicsize = sizeof(OperationObject);
  t.tp_flags = kFlags;
  t.tp_new = NoNew;
  t.tp_dealloc = OperationDealloc;
  t.tp_traverse = HandleTraverse<OperationObject>;
  t.tp_setattro = HandleSetAttr<OperationObject>;
  t.tp_methods = operation_methods;
  t.tp_getset = operation_getset;
  return t;
}
PyTypeObject MakeTensorType() {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "sluice._core.Tensor";
  t.tp_basicsize = sizeof(TensorObject);
  t.tp_flags = kFlags;
  t.tp_new = NoNew;
  t.tp_dealloc = TensorDealloc;
  t.tp_traverse = HandleTraverse<TensorObject>;
  t.tp_setattro = HandleSetAttr<TensorObject>;
  t.tp_methods = tensor_methods;
  t.tp_getset = tensor_getset;
  return t;
}

// False also for a handle whose last reference is just going.
bool IsAlive(PyObject* handle) {
  return handle != nullptr && Py_REFCNT(handle) > 0;
}

PyObject* Allocate(PyObject* hook, PyTypeObject* base) {
  auto* const type =
      hook != nullptr ? reinterpret_cast<PyTypeObject*>(hook) : base;
  return type->tp_alloc(type, 0);
}

}  // namespace

PyTypeObject GraphType = MakeGraphType();
PyTypeObject OperationType = MakeOperationType();
PyTypeObject TensorType = MakeTensorType();

PyObject* ToPython(GraphObject* graph, Node* node) {
  PyObject* const known = Place(graph->state->operations, node);
  if (IsAlive(known)) return Ref::Borrow(known).release();
  PyObject* const made = Allocate(GetHooks().operation_class, &OperationType);
  if (made == nullptr) return nullptr;
  OperationObject* const op = AsOperation(made);
  Py_INCREF(graph);
  op->graph = graph;
  op->node = node;
  // (Allocating may have collected garbage, which moves places.)
  return Place(graph->state->operations, node) = made;
}

PyObject* ToPython(GraphObject* graph, const Output& o) {
  PyObject* known = nullptr;
  if (o.index == 0) {
    known = Place(graph->state->tensors, o.node);
  } else {
    const auto it = graph->state->others.find(o);
    if (it != graph->state->others.end()) known = it->second;
  }
  if (IsAlive(known)) return Ref::Borrow(known).release();
  PyObject* const made = Allocate(GetHooks().tensor_class, &TensorType);
  if (made == nullptr) return nullptr;
  TensorObject* const t = AsTensor(made);
  Py_INCREF(graph);
  t->graph = graph;
  t->node = o.node;
  t->index = o.index;
  if (o.index == 0)
    Place(graph->state->tensors, o.node) = made;
  else
    graph->state->others[o] = made;
  return made;
}

PyObject* ToPython(GraphObject* graph, const std::vector<Output>& outputs) {
  Ref list(PyList_New(static_cast<Py_ssize_t>(outputs.size())));
  if (!list) return nullptr;
  for (size_t i = 0; i < outputs.size(); ++i) {
    PyObject* const t = outputs[i] ? ToPython(graph, outputs[i])
                                   : Ref::Borrow(Py_None).release();
    if (t == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), t);
  }
  return list.release();
}

bool ToOutputs(PyObject* sequence, std::vector<Output>* out) {
  const Ref items(PySequence_Fast(sequence, "expected a list of Tensors"));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyObject* const item = PySequence_Fast_GET_ITEM(items.get(), i);
    if (item == Py_None) {
      out->emplace_back();
    } else if (IsTensor(item)) {
      out->push_back(OutputOf(item));
    } else {
      PyErr_Format(PyExc_TypeError, "expected a Tensor, got %R of type %s",
                   item, Py_TYPE(item)->tp_name);
      return false;
    }
  }
  return true;
}

bool ToNodes(PyObject* sequence, std::vector<Node*>* out) {
  const Ref items(PySequence_Fast(sequence, "expected a list of Operations"));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyObject* const item = PySequence_Fast_GET_ITEM(items.get(), i);
    if (IsTensor(item)) {
      out->push_back(AsTensor(item)->node);
    } else if (IsOperation(item)) {
      out->push_back(AsOperation(item)->node);
    } else {
      PyErr_Format(PyExc_TypeError,
                   "expected an Operation or a Tensor, got %R of type %s", item,
                   Py_TYPE(item)->tp_name);
      return false;
    }
  }
  return true;
}

std::string Describe(const Output& o) {
  std::string shape = "<unknown>";
  if (o.shape().rank_known()) {
    shape = "(";
    for (int i = 0; i < o.shape().rank(); ++i)
      absl::StrAppend(
          &shape, i == 0 ? "" : ", ",
          o.shape().dim(i) < 0 ? "?" : absl::StrCat(o.shape().dim(i)));
    absl::StrAppend(&shape, o.shape().rank() == 1 ? ",)" : ")");
  }
  std::string dtype;
  if (const Ref type(FromDType(o.dtype())); type)
    if (const Ref name(PyObject_GetAttrString(type.get(), "name")); name)
      ToString(name.get(), &dtype);
  return absl::StrCat("Tensor(\"", o.name(), "\"",
                      o.shape().rank_known() ? ", shape=" + shape : "",
                      ", dtype=", dtype, ")");
}

bool AddTypes(PyObject* module) {
  for (PyTypeObject* type : {&GraphType, &OperationType, &TensorType})
    if (PyModule_AddType(module, type) < 0) return false;
  return true;
}

}  // namespace sluice::py
