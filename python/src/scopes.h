// Which graph a thread builds into, and the scopes of each of its graphs.
#ifndef SLUICE_PYTHON_SCOPES_H_
#define SLUICE_PYTHON_SCOPES_H_

#include "graph/scope_state.h"
#include "objects.h"

namespace sluice::python {

// The graph of the innermost as_default of this thread, or the process's
// default graph. Makes it the library's ambient graph too.
PyGraph& TargetGraph();

// While it lives, `graph` is this thread's default graph and the library's
// ambient one, under the scopes that this thread entered there: what is called
// meanwhile (a branch, a gradient) builds into it, too. A local variable.
class InGraph {
 public:
  explicit InGraph(PyGraph& graph);
  ~InGraph();
  InGraph(const InGraph&) = delete;

 private:
  py::object back_;   // Null: nothing to go back to.
  size_t depth_ = 0;  // Of the default graphs before.
};

// What entering a scope takes: the graph is the ambient one, and locked.
struct Entering {
  explicit Entering(PyGraph& g) : in_graph(g), lock(g) {}
  const InGraph in_graph;
  const GraphLock lock;
};

// What building takes: the graph may also grow. RuntimeError else. The graph
// knows afterwards which calls made the new nodes.
class Building : Entering {
 public:
  explicit Building(PyGraph& g);
  ~Building();

 private:
  PyGraph& graph_;
  const int first_;  // The next node's number.
};

// No thread enters the graph again: it is about to go.
void ForgetScopes(const PyGraph& graph);

void AddScopes(py::module_& m);

}  // namespace sluice::python

#endif  // SLUICE_PYTHON_SCOPES_H_
