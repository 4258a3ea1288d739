// Saves and restores all scopes of a thread at once, for clients whose scopes
// do not nest like C++ blocks (Python's with).
#ifndef SLUICE_GRAPH_SCOPE_STATE_H_
#define SLUICE_GRAPH_SCOPE_STATE_H_

#include <memory>
#include <string>

#include "graph/builder.h"

namespace sluice {

// A copy of the state of a thread's scopes: the graph, the name prefix,
// devices, control dependencies, colocation, the loop or branch. A value type;
// it does not own the graph and must not be restored after the graph is
// destroyed.
//
//   const ScopeState outside;   // As it is now.
//   ScopeState inside = [] { DeviceScope d("/cpu:0"); return ScopeState(); }();
//   inside.Restore();           // On the device, until ...
//   outside.Restore();
class ScopeState {
 public:
  ScopeState();                   // This thread's current state.
  explicit ScopeState(Graph& g);  // The initial state for g.
  // Replaces this thread's state.
  void Restore() const;

 private:
  friend class NestedDeviceScopes;
  std::shared_ptr<const void> state_;
};

// RAII scope whose device scopes are those of `inner` within those of `outer`,
// as if the scopes of `inner` had been entered in `outer`; the device scopes
// around it do not apply. Of colocation scopes, those of `outer` apply: `inner`
// may belong to another graph (the body of a function).
class NestedDeviceScopes {
 public:
  NestedDeviceScopes(const ScopeState& outer, const ScopeState& inner);
  ~NestedDeviceScopes();
  NestedDeviceScopes(const NestedDeviceScopes&) = delete;

 private:
  void* saved_;
  Output saved_failure_;
};

// Sets the prefix of the names of this thread's new nodes: "outer/" or "".
// Reserves nothing. (A name given to BuildNode that ends with a slash, as a
// prefix does, is the complete name: no prefix is added, and it is not made
// unique.)
void SetNamePrefix(const std::string& prefix);

}  // namespace sluice

#endif  // SLUICE_GRAPH_SCOPE_STATE_H_
