// Which nodes gradients pass through: those on the paths from the xs to the ys.
// Internal.
#ifndef SLUICE_CLIENT_AUTODIFF_BACKPROP_PATHS_H_
#define SLUICE_CLIENT_AUTODIFF_BACKPROP_PATHS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/control_flow.h"

namespace sluice {

// What one call of Gradients knows of the TensorStores that functions use.
// Lives while gradients are built.
struct StoreScope {
  // The name of the gradients, which stores of gradients have as their source.
  // Chosen by the first call that needs one; "" if none has.
  std::string source;
  // In the body of a function, by argument that is a store's handle: the store
  // of gradients, an argument as well.
  std::map<const Node*, Output> duals;
  // In the body of a function: nodes that run with the function's own effects.
  std::vector<Node*> effects;
};

// The paths between the xs and the ys of one call of Gradients, in the graph as
// it is when they are found: nodes that are added later are on no path. Owned
// by the walk (client/autodiff/backprop.h), whose parts share it. Read-only
// once found; guarded by the graph's mutex.
//
// Invariant: Between(n) means that some y depends on n and n on some x, through
// edges whose type is differentiable and nodes that pass gradients on.
class GradientPaths {
 public:
  // All arguments must outlive it.
  GradientPaths(Graph* graph, const std::vector<Output>& ys,
                const std::vector<Output>& xs,
                const std::vector<Output>& stop_gradients,
                const StoreScope* stores = nullptr)
      : graph_(graph),
        ys_(ys),
        xs_(xs),
        stop_gradients_(stop_gradients),
        stores_(stores) {}

  // Finds the paths, in time linear in the size of the graph. Until then no
  // node is between. InvalidArgument if the ys are in different loops.
  // REQUIRES: the graph's control flow and loop families are known.
  Status Find();

  Graph* graph() const { return graph_; }
  const std::vector<Output>& ys() const { return ys_; }
  const std::vector<Output>& xs() const { return xs_; }
  // The number of nodes at the time of Find: their ids are below.
  size_t num_nodes() const { return between_.size(); }
  // The innermost loop around all the ys; null if there is none.
  WhileContext* base() const { return base_; }

  static size_t Id(const Node* n) { return static_cast<size_t>(n->id()); }
  bool Between(const Node* n) const {
    return Id(n) < between_.size() && between_[Id(n)];
  }
  // ---- Questions about nodes that existed at the time of Find.
  // True if the node is one of the call's stop_gradients.
  bool IsStop(const Node* n) const { return stop_[Id(n)] != 0; }
  // True for Merges of loops around the whole call: paths end there, as at the
  // graph's end.
  bool IsBaseMerge(const Node* n) const;
  // True if no gradient flows from the node to its inputs in any case.
  bool StopsAt(const Node* n) const;
  // True if `n` only carries a loop variable from iteration to iteration.
  bool IsLoopMover(const Node* n) const;

  // A node's inputs. For a read from an array these include the value of the
  // other loop that was saved there; for a pop from a stack, the values that
  // are pushed on it; for a read of a TensorStore, or a call that reads one,
  // outputs of its writes and of the calls that write it.
  std::vector<Output> InputsOf(const Node* n) const;
  // True if the node, an op or a call, reads what some node writes to a store:
  // these inputs say nothing about the order of gradients.
  bool ReadsWritten(const Node* n) const { return written_.count(n) != 0; }
  // True if the node, an op or a call, writes a store.
  bool Writes(const Node* n) const { return writers_.count(n) != 0; }
  bool HasStacks() const { return !pushed_.empty(); }

  // The inputs of the variables of loops that gradients of the ys reach, of
  // those variables whose values some y depends on, including dependences
  // through nodes without a gradient.
  OutputSet IntoStoppedVariables() const;

  // How often the inputs of a node were looked at so far: what the cost of the
  // whole call grows with.
  int64_t num_visits() const { return num_visits_; }

 private:
  Status FindBase();
  void FindStacks();
  void FindStores();
  void FindBetween();

  Graph* const graph_;
  const std::vector<Output>& ys_;
  const std::vector<Output>& xs_;
  const std::vector<Output>& stop_gradients_;
  const StoreScope* const stores_;
  WhileContext* base_ = nullptr;
  std::vector<char> between_, stop_;        // By node id.
  std::vector<const WhileContext*> loops_;  // Those that gradients reach.
  // The values pushed on a stack, by the node that made the stack.
  std::unordered_map<const Node*, std::vector<Output>> pushed_;
  // The outputs of the writes of a TensorStore, by node that reads it.
  std::unordered_map<const Node*, std::vector<Output>> written_;
  std::unordered_set<const Node*> writers_;
  // Those that write a store of the caller's, whose elements may be read
  // anywhere.
  std::vector<Node*> write_outside_;
  mutable int64_t num_visits_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_BACKPROP_PATHS_H_
