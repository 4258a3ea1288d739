// Graph, Operation and Tensor as Python sees them: the base classes of those in
// sluice/framework (graph.py, elements.py). A function of the module takes and
// gives Node* and Output for the last two, and vectors of these for lists.
//
// A graph owns its nodes; operations and tensors are handles that keep the
// graph alive. The graph remembers the handles there are, without owning them,
// so that the same node is the same object as long as anybody holds it. (A
// handle that was given an attribute is held by the graph from then on:
// sluice/framework/elements.py.)
#ifndef SLUICE_PYTHON_OBJECTS_H_
#define SLUICE_PYTHON_OBJECTS_H_

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "client/body_captures.h"
#include "graph/scope_state.h"
#include "py.h"
#include "stacks.h"

namespace sluice::python {

struct Handle;

// Every graph that a node comes from which Python sees.
struct PyGraph : Graph {
  PyGraph();
  ~PyGraph();
  const uint64_t serial;  // Never that of another graph, dead or alive.
  bool finalized = false;
  // The body of a function, which takes tensors of other graphs as further
  // arguments: its object's capture(tensor) gives one.
  bool is_function = false;
  std::unique_ptr<BodyCaptures> captured;  // Of such a body.
  // Borrowed: handles take themselves out. An operation's index is kOperation.
  OutputMap<Handle*> handles;
  py::object tensor_class;  // Of its tensors; null: the package's.
  Stacks stacks;            // Of the calls that made its nodes.
  // What no step may be given, and asked for.
  OutputSet unfeedable;
  std::unordered_set<const Node*> unfetchable;
  // Imported outside of branches and loops. Those that gradients find to be
  // within some of the import's own stay what they were.
  std::unordered_set<const Node*> imported;
  // What is within a conditional or a loop may not be asked for either: what
  // these give may.
  bool Fetchable(Node* node) const;
  // What is within a loop has a value for each iteration.
  bool Feedable(const Output& output) const;
  // What threads find that enter it for the first time; null: nothing.
  std::unique_ptr<const ScopeState> first_scopes;
};
constexpr int kOperation = -1;
inline PyGraph& GraphOf(const Node* node) {
  return static_cast<PyGraph&>(*node->graph());
}
// Graphs are made in Python, so there is an object.
inline py::object ObjectOf(PyGraph& g) {
  return py::cast(&g, py::return_value_policy::reference);
}

struct Handle {
  explicit Handle(const Output& key, PyObject* made);
  ~Handle();
  const Output output;
  const py::object graph;
  PyObject* const self;  // Borrowed.
};
struct TensorHandle : Handle {
  using Handle::Handle;
};
struct OperationHandle : Handle {
  using Handle::Handle;
};
extern PyTypeObject *tensor_type, *operation_type;

// The C++ part of an object of a class of ours; null if it is not made yet.
// (py::cast would look its type up in two tables, for each of an op's inputs,
// and make the C++ part of an object that has none.)
template <typename T>
T* PartOf(py::handle o) {
  auto* const made = reinterpret_cast<py::detail::instance*>(o.ptr());
  // (The collector may see the first object of a class before pybind11 has laid
  // it out.)
  if (!made->simple_layout && made->nonsimple.values_and_holders == nullptr)
    return nullptr;
  auto part = made->get_value_and_holder();
  return part.holder_constructed() ? part.template value_ptr<T>() : nullptr;
}

// Null if it is something else.
inline const TensorHandle* AsTensor(py::handle o) {
  return PyObject_TypeCheck(o.ptr(), tensor_type) ? PartOf<TensorHandle>(o)
                                                  : nullptr;
}
inline const OperationHandle* AsOperation(py::handle o) {
  return PyObject_TypeCheck(o.ptr(), operation_type)
             ? PartOf<OperationHandle>(o)
             : nullptr;
}

// What a class has that holds a Python object in its C++ part: the collector is
// told of it, and of others if it has Traverse(visit, arg).
template <typename T, auto kMember>
py::custom_type_setup Holds() {
  return py::custom_type_setup([](PyHeapTypeObject* heap) {
    heap->ht_type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    heap->ht_type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
      Py_VISIT(Py_TYPE(self));
      const T* const part = PartOf<T>(self);
      if (part == nullptr) return 0;
      Py_VISIT((part->*kMember).ptr());
      if constexpr (requires { part->Traverse(visit, arg); })
        return part->Traverse(visit, arg);
      return 0;
    };
    // (Its end may let other threads run, whose collector must not find it.
    // Later versions of pybind11 do so themselves.)
    heap->ht_type.tp_dealloc = [](PyObject* self) {
      PyObject_GC_UnTrack(self);
      py::detail::pybind11_object_dealloc(self);
    };
  });
}

// The handle of an output, or (index kOperation) of a node.
py::object HandleOf(const Output& key);

// "Tensor("x:0", shape=(2,), dtype=float32)", for messages.
std::string Describe(const Output& output);

void AddObjects(py::module_& m);

}  // namespace sluice::python

namespace pybind11::detail {

// A Tensor; None is the null output.
template <>
struct type_caster<sluice::Output> {
  PYBIND11_TYPE_CASTER(sluice::Output, const_name("Tensor"));
  bool load(handle o, bool) {
    if (o.is_none()) return true;
    const auto* const tensor = sluice::python::AsTensor(o);
    if (tensor != nullptr) value = tensor->output;
    return tensor != nullptr;
  }
  static handle cast(const sluice::Output& o, return_value_policy, handle) {
    return (o.valid() ? sluice::python::HandleOf(o) : none()).release();
  }
};

// An Operation, or what makes a Tensor. (None is given for null, not taken.)
template <>
struct type_caster<sluice::Node> {
  static constexpr auto name = const_name("Operation");
  template <typename>
  using cast_op_type = sluice::Node*;
  operator sluice::Node*() const { return node; }
  bool load(handle o, bool) {
    if (const auto* const op = sluice::python::AsOperation(o))
      node = op->output.node;
    else if (const auto* const tensor = sluice::python::AsTensor(o))
      node = tensor->output.node;
    return node != nullptr;
  }
  static handle cast(sluice::Node* n, return_value_policy, handle) {
    if (n == nullptr) return none().release();
    return sluice::python::HandleOf({n, sluice::python::kOperation}).release();
  }
  sluice::Node* node = nullptr;
};

}  // namespace pybind11::detail

#endif  // SLUICE_PYTHON_OBJECTS_H_
