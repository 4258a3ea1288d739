// Static information about the TensorStores of a graph
// (docs/design/045-tensor-store.md).
#ifndef SLUICE_GRAPH_TENSOR_STORE_INFO_H_
#define SLUICE_GRAPH_TENSOR_STORE_INFO_H_

#include <string>
#include <vector>

#include "graph/graph.h"

namespace sluice {

// Ops that read elements and wait for them; the handle is input 0, the key or
// the keys are input 1.
bool ReadsStore(const Node& n);
// Ops that write elements: the handle is input 0, the key or the keys are input
// 1, the value is input 2.
bool WritesStore(const Node& n);

// The output that made a store's handle (a TensorStore, a TensorStoreGrad, or
// what a graph does not show, such as a function's argument), behind nodes that
// forward it, also from one loop of a family to another.
Output StoreMaker(Output handle);

// The store behind a handle: the maker of the forward store, and the names of
// the gradients by which one gets from it to a store of gradients.
struct StoreIdentity {
  const Node* root = nullptr;
  std::vector<std::string> sources;
  bool operator<(const StoreIdentity& o) const;
  // Whether the store belongs to one step: if not, other steps may write it.
  bool local() const;
};
StoreIdentity IdentityOfStore(const Output& handle);

// The part of a pruned step that nothing reads and that still runs: the nodes
// that write local stores which `needed(node)` nodes read.
class StoreWriters {
 public:
  explicit StoreWriters(const Graph& graph);
  // Calls add(node) for each writer of a local store that some needed node
  // reads.
  template <typename Needed, typename Add>
  void ForEach(Needed&& needed, Add&& add) const {
    for (const Store& s : stores_)
      for (const Node* reader : s.readers)
        if (needed(reader)) {
          for (Node* w : s.writers) add(w);
          break;
        }
  }

 private:
  struct Store {
    std::vector<const Node*> readers;
    std::vector<Node*> writers;
  };
  std::vector<Store> stores_;
};

}  // namespace sluice

#endif  // SLUICE_GRAPH_TENSOR_STORE_INFO_H_
