// All scopes of a thread at once, to be put aside and taken up again: for
// clients whose scopes need not nest like a C++ block's (Python's with).
#ifndef SLUICE_GRAPH_SCOPE_STATE_H_
#define SLUICE_GRAPH_SCOPE_STATE_H_

#include <memory>
#include <string>

#include "graph/builder.h"

namespace sluice {

// A copy of what new nodes of a thread get: the graph, the name prefix,
// devices, control dependencies, colocation, the loop or branch. A value; it
// owns nothing of the graph, and must not be restored when the graph is gone.
//
//   const ScopeState outside;   // As it is now.
//   ScopeState inside = [] { DeviceScope d("/cpu:0"); return ScopeState(); }();
//   inside.Restore();           // On the device, until ...
//   outside.Restore();
class ScopeState {
 public:
  ScopeState();                   // Those of this thread now.
  explicit ScopeState(Graph& g);  // Of a thread that just began to build g.
  // Makes them this thread's, whatever it had.
  void Restore() const;

 private:
  std::shared_ptr<const void> state_;
};

// What the names of this thread's new nodes begin with from now on: "outer/"
// or "". Reserves nothing. (A name given to BuildNode that ends with a slash, as
// a prefix does, is all of the node's name: no prefix, not made unique.)
void SetNamePrefix(const std::string& prefix);

}  // namespace sluice

#endif  // SLUICE_GRAPH_SCOPE_STATE_H_
