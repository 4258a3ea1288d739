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
  StoreGradient(const GradientPaths* paths, const BuildErrors* errors)
      : paths_(*paths), errors_(*errors) {}

  // The walk calls Enter before it walks a level, and Leave after.
  void Enter(GradientLevel* level) { levels_.push_back(level); }
  void Leave() { levels_.pop_back(); }

  // `node` reads a store; `dy` is the gradient of its value.
  Status OfRead(Node* node, const Output& dy, GradientLevel& level);
  // `node` writes a store; returns the gradient of its value.
  Result<Output> OfWrite(Node* node, GradientLevel& level);

  // The nodes that add to stores of gradients: the results wait for them
  // without edges.
  const std::vector<Output>& added() const { return added_; }

 private:
  // The store of gradients for one store, and the node that it waits for.
  struct Dual {
    Output handle;
    Node* trigger = nullptr;
    const WhileContext* home = nullptr;  // The loop that the store is made in.
  };
  Result<Dual*> DualOf(Node* node);
  // The sums of gradients do not begin before this node has run.
  Status RunBefore(Node* node, const Dual& dual);

  const GradientPaths& paths_;
  const BuildErrors& errors_;
  std::vector<GradientLevel*> levels_;
  std::map<StoreIdentity, Dual> duals_;
  std::vector<Output> added_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_STORE_GRADIENT_H_
