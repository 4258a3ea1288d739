// The gradients that a walk has found so far, and where it builds them.
// Internal.
#ifndef SLUICE_CLIENT_AUTODIFF_GRADIENT_SUMS_H_
#define SLUICE_CLIENT_AUTODIFF_GRADIENT_SUMS_H_

#include <unordered_map>
#include <vector>

#include "client/autodiff/gradients.h"
#include "client/autodiff/loop_family.h"
#include "graph/control_flow.h"

namespace sluice {

// One level of the walk (client/autodiff/backprop_units.h) and the contexts in
// which the gradients of its nodes are built. Lives while the level is walked;
// guarded by the graph's mutex.
class GradientLevel {
 public:
  // The outermost level, within `base` (null: within no loop). Gradients are
  // built in the contexts of the values that they belong to.
  explicit GradientLevel(WhileContext* base) : loop_(base) {}
  // The body of `loop`. Gradients are built in the loop of `member`.
  GradientLevel(WhileContext* loop, LoopMember* member)
      : loop_(loop), member_(member) {}

  WhileContext* loop() const { return loop_; }
  LoopMember* member() const { return member_; }  // Null for the outermost.

  // The context, or conditional, in which the gradients of nodes in `c` are
  // built. May build a conditional; after an error, which the graph has, null.
  ControlFlowContext* Mirror(ControlFlowContext* c);
  Conditional* Mirror(Conditional* c);

 private:
  WhileContext* loop_;
  LoopMember* member_ = nullptr;
  // Conditionals in base, by the conditionals around it that they mirror.
  std::unordered_map<const Conditional*, Conditional*> mirrors_;
};

// By output, the summands of its gradient that its consumers have contributed.
// Owned by the walk; guarded by the graph's mutex.
class GradientSums {
 public:
  void Add(const Output& o, const Gradient& g);
  bool Has(const Output& o) const;
  // True if some output of the node has a gradient.
  bool HasAny(const Node* n) const { return sums_.count(n) != 0; }
  // The sum of the summands, built (once) on `level`; none without summands.
  Result<Gradient> Total(const Output& o, GradientLevel& level);
  // The total of each output of a node.
  Result<std::vector<Gradient>> Totals(Node* node, GradientLevel& level);

 private:
  // By Representative(node) and output.
  std::unordered_map<const Node*, std::vector<std::vector<Gradient>>> sums_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_GRADIENT_SUMS_H_
