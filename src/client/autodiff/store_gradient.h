// Gradients of reads and writes of TensorStores
// (docs/design/045-tensor-store.md). Internal.
//
// The gradient of a read adds to the element of its key in a store of
// gradients; that of a write is the sum of the element there, which waits until
// a part has come for each read. No edge leads from a write to the reads of its
// element: which of them that is, is known when they run.
#ifndef SLUICE_CLIENT_AUTODIFF_STORE_GRADIENT_H_
#define SLUICE_CLIENT_AUTODIFF_STORE_GRADIENT_H_

#include <map>
#include <string>
#include <vector>

#include "client/autodiff/backprop_paths.h"
#include "client/autodiff/gradient_sums.h"
#include "client/autodiff/gradient_values.h"
#include "graph/tensor_store_info.h"

namespace sluice {

// Differentiates the reads and writes of stores, one node at a time, in the
// context that is current. Owned by the walk, with which it shares its
// arguments; they must outlive it. Guarded by the graph's mutex.
class StoreGradient {
 public:
  StoreGradient(const GradientPaths* paths, const BuildErrors* errors,
                StoreScope* scope)
      : paths_(*paths), errors_(*errors), scope_(*scope) {}

  // The walk calls Enter before it walks a level, and Leave after.
  void Enter(GradientLevel* level) { levels_.push_back(level); }
  void Leave() { levels_.pop_back(); }

  // `node` reads a store; `dy` is the gradient of its value.
  Status OfRead(Node* node, const Output& dy, GradientLevel& level);
  // `node` writes a store; returns the gradient of its value.
  Result<Output> OfWrite(Node* node, GradientLevel& level);
  // `node` calls a function that reads or writes the store of its input i;
  // returns the store of gradients for the gradient of the call.
  Result<Output> OfCall(Node* node, int i, GradientLevel& level);

  // The nodes that add to stores of gradients: the results wait for them
  // without edges.
  const std::vector<Output>& added() const { return added_; }
  void Added(const Output& o) { added_.push_back(o); }

 private:
  // What the gradients of one store wait for.
  struct Dual {
    // The store of gradients; null if each node makes its own handle of it.
    Output handle;
    Node* trigger = nullptr;
    const WhileContext* home = nullptr;  // The loop that the store is made in.
  };
  using Duals = std::vector<Dual*>;  // Of the stores behind one handle.
  // Those of the node's input i.
  Result<Duals> DualsOf(Node* node, int i);
  // `several`: the handle may stand for other stores, too.
  Result<Dual*> DualOf(const StoreIdentity& id, const Output& handle,
                       bool several);
  // The sums of gradients do not begin before this node has run.
  Status RunBefore(Node* node, const Dual& dual);
  Status RunBefore(Node* node, const Duals& duals);
  // The store of gradients for input i of the node, in the current context.
  Result<Output> HandleOf(const Duals& duals, Node* node, int i);
  // A node that counts a read and runs with it.
  Result<Node*> Announce(Node* read);

  const GradientPaths& paths_;
  const BuildErrors& errors_;
  StoreScope& scope_;
  std::vector<GradientLevel*> levels_;
  std::map<StoreIdentity, Dual> duals_;
  Node* outside_ = nullptr;  // What the function's caller waits for.
  std::vector<Output> added_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_STORE_GRADIENT_H_
