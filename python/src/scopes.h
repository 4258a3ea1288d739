// Which graph a thread builds into, and the scopes of each of its graphs.
#ifndef SLUICE_PYTHON_SCOPES_H_
#define SLUICE_PYTHON_SCOPES_H_

#include "graph/scope_state.h"
#include "objects.h"

namespace sluice::py {

// The graph of the innermost as_default of this thread, or the process's
// default graph. Makes it the library's ambient graph too. Borrowed.
GraphObject* TargetGraph();

// While it lives, the library's ambient graph is `graph`, under the scopes that
// this thread entered there. A local variable.
class InGraph {
 public:
  explicit InGraph(GraphObject* graph);
  ~InGraph();
  InGraph(const InGraph&) = delete;

 private:
  Ref back_;  // Null: nothing to go back to.
};

// No thread enters the graph again: it is about to go.
void ForgetScopes(const GraphObject& graph);

extern PyMethodDef scope_functions[];

}  // namespace sluice::py

#endif  // SLUICE_PYTHON_SCOPES_H_
