// Graph, Operation and Tensor as Python sees them: the base classes of those in
// sluice/framework/graph.py.
//
// A graph owns its nodes; operations and tensors are handles that keep the
// graph alive. The graph remembers the handles there are, without owning them,
// so that the same node is the same object as long as anybody holds it. A
// handle that was given an attribute is held by the graph from then on.
#ifndef SLUICE_PYTHON_OBJECTS_H_
#define SLUICE_PYTHON_OBJECTS_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "py.h"

namespace sluice::py {

struct GraphObject {
  PyObject_HEAD struct State {
    Graph graph;
    uint64_t serial;  // Never that of another graph, dead or alive.
    // Borrowed: handles clear their entries when they go. By node id; output 0
    // has a place of its own.
    std::vector<PyObject*> operations, tensors;
    std::unordered_map<Output, PyObject*, OutputHash> others;
    std::vector<PyObject*> pinned;  // Owned.
  };
  State* state;
};

struct OperationObject {
  PyObject_HEAD GraphObject* graph;  // Owned.
  Node* node;
  bool pinned;
};

struct TensorObject {
  PyObject_HEAD GraphObject* graph;  // Owned.
  Node* node;
  int index;
  bool pinned;
};

extern PyTypeObject GraphType, OperationType, TensorType;

inline bool IsGraph(PyObject* o) { return PyObject_TypeCheck(o, &GraphType); }
inline bool IsOperation(PyObject* o) {
  return PyObject_TypeCheck(o, &OperationType);
}
inline bool IsTensor(PyObject* o) { return PyObject_TypeCheck(o, &TensorType); }
inline GraphObject* AsGraph(PyObject* o) {
  return reinterpret_cast<GraphObject*>(o);
}
inline OperationObject* AsOperation(PyObject* o) {
  return reinterpret_cast<OperationObject*>(o);
}
inline TensorObject* AsTensor(PyObject* o) {
  return reinterpret_cast<TensorObject*>(o);
}
inline Output OutputOf(PyObject* tensor) {
  return Output(AsTensor(tensor)->node, AsTensor(tensor)->index);
}

// The handles of a node and of its output.
PyObject* ToPython(GraphObject* graph, Node* node);
PyObject* ToPython(GraphObject* graph, const Output& output);
PyObject* ToPython(GraphObject* graph, const std::vector<Output>& outputs);

// From a list, tuple or other sequence. TypeError says what was expected.
bool ToOutputs(PyObject* sequence, std::vector<Output>* out);
bool ToNodes(PyObject* sequence, std::vector<Node*>* out);

// "Tensor("x:0", shape=(2,), dtype=float32)", for messages.
std::string Describe(const Output& output);

bool AddTypes(PyObject* module);

}  // namespace sluice::py

#endif  // SLUICE_PYTHON_OBJECTS_H_
