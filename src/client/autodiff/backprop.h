// Implements Gradients (client/autodiff/gradients.h) as a walk over the graph.
// Internal.
//
// Each loop body is a level; the outermost level is the context that the ys are
// in. Within a level the walk visits units from consumers to producers, each
// one after all its consumers on that level. A unit is a node or a whole nested
// loop, whose body is the next level. Conditionals are not units: their
// Switches and Merges are ordinary nodes of the level that they belong to.
#ifndef SLUICE_CLIENT_AUTODIFF_BACKPROP_H_
#define SLUICE_CLIENT_AUTODIFF_BACKPROP_H_

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "client/autodiff/gradients.h"
#include "client/autodiff/gradient_values.h"
#include "client/autodiff/loop_family.h"
#include "client/autodiff/loop_sums.h"
#include "graph/control_flow.h"

namespace sluice {

// One call of Gradients. Takes time linear in the size of the graph (times the
// depth of its loops). Runs on one thread, which holds the graph's mutex.
class Backprop {
 public:
  Backprop(const std::vector<Output>& ys, const std::vector<GradTarget>& xs,
           const GradientOptions& options);
  Result<std::vector<Gradient>> Run();

 private:
  using Sums = std::vector<std::vector<Gradient>>;  // Summands per output.

  // One level of the walk. The outermost level has no member: its gradients are
  // built in the context of the values that they belong to. Gradients of a
  // loop's body are built in the loop of `member`.
  struct Level {
    WhileContext* loop = nullptr;
    LoopMember* member = nullptr;
    std::deque<size_t> ready;  // Units whose consumers are all done.
  };

  // ---- Nodes between the xs and the ys (backprop_paths.cc).
  Status Validate();
  Status FindBase();
  void FindBetween();
  void FindStacks();
  std::vector<Output> InputsOf(const Node* n) const;
  bool StopsAt(const Node* n) const;
  // Inputs of the variables of already differentiated loops whose last value
  // some y depends on, including dependences through edges without a gradient.
  OutputSet IntoStoppedVariables() const;
  WhileContext* LevelOf(const Node* n) const;
  WhileContext* LevelAround(const WhileContext* loop) const;
  void FindUnits();
  size_t UnitOf(Node* n, WhileContext* level) const;
  Node* Representative(Node* n) const;
  std::string PathThrough(const Node* node) const;
  void Expand(std::deque<const Node*>* queue,
              std::unordered_map<const Node*, const Node*>* from) const;
  Status NoGradientFor(const Node* node, const Status& why) const;
  // Stores in each missing gradient the reason why it is missing.
  void ExplainNone(std::vector<Gradient>* grads) const;
  std::string WhyBlocked(const Node* n, const Output& in) const;

  static size_t Id(const Node* n) { return static_cast<size_t>(n->id()); }
  bool Between(const Node* n) const {
    return Id(n) < between_.size() && between_[Id(n)];
  }
  // Reports whether `n` only carries a loop variable from iteration to
  // iteration.
  bool IsLoopMover(const Node* n) const;
  // Merges of loops around the whole call: paths end there, as at the graph's
  // end.
  bool IsBaseMerge(const Node* n) const;

  // ---- The walk (backprop.cc).
  Status Seed();
  Result<Gradient> SeedFor(const Output& y, const Gradient& given);
  Status Walk(Level& level);
  Status Visit(size_t unit, Level& level);
  Status VisitNode(Node* node, Level& level);
  Status Differentiate(Node* node, const std::vector<Gradient>& dy,
                       Level& level);
  Status Distribute(Node* node, std::vector<Gradient> grads);
  void Add(const Output& o, const Gradient& g);
  bool HasGradient(const Output& o) const;
  Result<Gradient> Total(const Output& o, Level& level);
  Result<std::vector<Gradient>> Totals(Node* node, Level& level);
  Result<std::vector<Gradient>> Collect();
  // The first error that was recorded since the gradients began.
  Status BuildStatus() const {
    return graph_->errors().size() > errors_before_
               ? graph_->errors()[errors_before_]
               : OkStatus();
  }
  // The context in which the gradients of nodes in `c` are built.
  ControlFlowContext* Mirror(ControlFlowContext* c, Level& level);
  Conditional* Mirror(Conditional* c, Level& level);

  // ---- Conditionals (cond_gradient.cc).
  Status VisitSwitch(Node* node, Level& level);
  Status VisitMerge(Node* node, Level& level);
  Result<Gradient> MergeBranches(Node* node, Conditional* cond,
                                 const std::vector<Gradient>& dy);
  Result<Output> MergeDense(Node* node, Conditional* cond,
                            const std::vector<Gradient>& dy);
  Result<Gradient> MergeSparse(Node* node, Conditional* cond,
                               const std::vector<Gradient>& dy);

  // ---- Loops (while_gradient.cc).
  Status VisitLoop(WhileContext* loop, Level& level);
  // Whether a node in the loop, or in a loop in it, has a gradient by now.
  bool HasGradientWithin(const WhileContext* loop) const;
  // The Enters of the loop's constants between the xs and the ys, by id.
  std::vector<Node*> ConstantsOf(const WhileContext* loop) const;
  Status OpenVariables(WhileContext* loop, Level& outer, Level& inner,
                       std::map<int, int>* opened);
  Status CloseVariables(WhileContext* loop, Level& inner,
                        const std::map<int, int>& opened,
                        std::vector<LoopSum>* sums);

  const std::vector<Output>& ys_;
  std::vector<Output> xs_;
  const GradientOptions& options_;
  Graph* graph_ = nullptr;
  size_t errors_before_ = 0;      // Number of graph errors at the start.
  WhileContext* base_ = nullptr;  // The innermost loop around all the ys.
  // Conditionals in base_, by the conditionals around it that they mirror.
  std::unordered_map<const Conditional*, Conditional*> mirrors_;
  // By node id, for the nodes that existed at the start. between_: some y
  // depends on the node and the node depends on some x, through edges that
  // gradients can flow through.
  std::vector<char> between_, stop_;
  // Units: nodes by id, then loops in the order of ControlFlow::loops().
  std::vector<int> pending_;                  // Edges to later units.
  std::vector<std::vector<size_t>> sources_;  // Earlier units on its level.
  std::unordered_map<const WhileContext*, std::vector<size_t>> units_on_;
  std::unordered_map<const WhileContext*, size_t> unit_of_loop_;
  std::unordered_map<const Node*, Sums> grads_;
  std::vector<const WhileContext*> crossed_;  // Loops already differentiated.
  std::optional<ArrayUses> array_uses_;
  // The values pushed on a stack, by the node that made the stack.
  std::unordered_map<const Node*, std::vector<Output>> pushed_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_BACKPROP_H_
