// The order in which the walk visits what is on the paths. Internal.
//
// Each loop body is a level; the outermost level is the context that the ys are
// in. A unit is a node or a whole nested loop, whose body is the next level.
// Conditionals are not units: their Switches and Merges are ordinary nodes of
// the level that they belong to.
#ifndef SLUICE_CLIENT_AUTODIFF_BACKPROP_UNITS_H_
#define SLUICE_CLIENT_AUTODIFF_BACKPROP_UNITS_H_

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "client/autodiff/backprop_paths.h"

namespace sluice {

// Several Switches of the same value and predicate count as one: this one.
Node* Representative(Node* n);

// The units of one call of Gradients and their order. Owned by the walk;
// guarded by the graph's mutex.
//
// Invariant: the edges between units, from consumers to producers, connect
// units of one level: an edge into or out of a loop is one of the loop.
class GradientUnits {
 public:
  // `paths`, which must outlive it, may be found later.
  explicit GradientUnits(const GradientPaths* paths) : paths_(*paths) {}

  // Finds the units, in time linear in the size of the graph times the depth of
  // its loops. REQUIRES: the paths are found.
  void Find();

  // The units on the level of a loop's body, or on the outermost level
  // (paths.base()): newer nodes come before older ones.
  const std::vector<size_t>& On(const WhileContext* level) const;
  // The node that a unit is, or null; and the loop that it is, or null.
  Node* NodeOf(size_t unit) const;
  WhileContext* LoopOf(size_t unit) const;

  // ---- The order: a unit is ready when all its consumers are done.
  int NumPending(size_t unit) const { return pending_[unit]; }
  // Marks a unit as done, and appends the units that thereby become ready to
  // `ready`. Each unit is done once.
  template <typename Queue>
  void Done(size_t unit, Queue* ready) {
    for (const size_t source : sources_[unit])
      if (--pending_[source] == 0) ready->push_back(source);
  }

 private:
  WhileContext* LevelOf(const Node* n) const;
  WhileContext* LevelAround(const WhileContext* loop) const;
  size_t UnitOf(Node* n, WhileContext* level) const;

  const GradientPaths& paths_;
  // Units: nodes by id, then loops in the order of ControlFlow::loops().
  std::vector<int> pending_;                  // Edges to later units.
  std::vector<std::vector<size_t>> sources_;  // Earlier units on its level.
  std::unordered_map<const WhileContext*, std::vector<size_t>> units_on_;
  std::unordered_map<const WhileContext*, size_t> unit_of_loop_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_BACKPROP_UNITS_H_
