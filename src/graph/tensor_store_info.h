// Static information about the TensorStores of a graph
// (docs/design/045-tensor-store.md).
#ifndef SLUICE_GRAPH_TENSOR_STORE_INFO_H_
#define SLUICE_GRAPH_TENSOR_STORE_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/node.h"

namespace sluice {

class FunctionLibrary;  // graph/function.h

// Ops that read elements and wait for them; the handle is input 0, the key or
// the keys are input 1.
bool ReadsStore(const Node& n);
// Ops that write elements: the handle is input 0, the key or the keys are input
// 1, the value is input 2.
bool WritesStore(const Node& n);

// Of either: whether it takes a vector of keys, and not one.
bool TakesManyKeys(const Node& n);

// Whether the functions that a functional node calls have such ops. A
// SavedGradient adds to stores of gradients where its function reads, and reads
// them where it writes.
struct StoreUse {
  bool reads = false, writes = false;
};
StoreUse UseOfStores(const Node& n);

// By argument: whether the function, or one that it calls, uses it as the
// handle of a TensorStore. Where the function is not known, none is.
std::vector<bool> StoreArguments(FunctionLibrary& library,
                                 const FunctionRef& f);
// The inputs of a node that calls one function that are handles of the stores
// which it reads and writes: of a SavedGradient, stores of gradients.
std::vector<int> StoreInputs(const Node& call);
// How many of the last inputs of a SavingCall or SavedGradient are stores of
// gradients: one for each argument that is a store's handle, in this order.
int NumStoresOfGradients(const Node& call);
// How many ops that write elements users have added to graphs of this process:
// a step that reads a store may lack writes that were added after it was
// compiled. Callable from any thread.
uint64_t StoreWritesBuilt();
// For Graph::AddNode.
void CountStoreWrite();

// The output that made a store's handle (a TensorStore, a TensorStoreGrad, or
// what a graph does not show, such as a function's argument), behind nodes that
// forward it, also from one loop of a family to another. Where a conditional or
// a loop chooses among several, one of them.
Output StoreMaker(Output handle);

// The store behind a handle: the maker of the forward store, and the names of
// the gradients by which one gets from it to a store of gradients.
struct StoreIdentity {
  const Node* root = nullptr;
  std::vector<std::string> sources;
  bool operator<(const StoreIdentity& o) const;
  // Whether the store belongs to one step, as stores of gradients do: if not,
  // other steps may write it.
  bool local() const;
};
StoreIdentity IdentityOfStore(const Output& handle);
// The makers among which a handle chooses.
std::vector<Output> StoreMakers(const Output& handle);
// All stores that the handle may stand for: several, if a conditional or a loop
// chooses.
std::vector<StoreIdentity> IdentitiesOfStore(const Output& handle);

// The part of a pruned step that nothing reads and that still runs: the nodes
// that write local stores which `needed(node)` nodes read. Functional nodes
// that take a store's handle count as what their functions do.
class StoreWriters {
 public:
  // One store, or several among which some handle chooses.
  struct Store {
    std::vector<Node*> readers, writers;
  };
  explicit StoreWriters(const Graph& graph);
  // Those that some node reads and some node writes.
  const std::vector<Store>& stores() const { return stores_; }
  // Until there are no more: calls follow(), which finds all inputs of needed
  // nodes, and then visit(node) for each writer of a store that one of them
  // reads; visit makes it needed, once.
  template <typename Needed, typename Follow, typename Visit>
  void Close(Needed&& needed, Follow&& follow, Visit&& visit) const {
    for (bool more = true; more;) {
      follow();
      more = false;
      ForEach(needed, [&](Node* writer) {
        more = more || !needed(writer);
        visit(writer);
      });
    }
  }
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
  std::vector<Store> stores_;
};

}  // namespace sluice

#endif  // SLUICE_GRAPH_TENSOR_STORE_INFO_H_
