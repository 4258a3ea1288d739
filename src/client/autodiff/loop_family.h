// Loops that run over the same iterations, and the values that they pass to
// each other.
//
// The gradient of a loop is a loop with the same number of iterations in
// reverse order; the gradient of that loop runs forwards again. Together they
// form a family: iteration t of each corresponds to iteration t of all others.
// A value of one of them can therefore be used in every later one: it is
// written to an array at index t and read from it at index t. Gradients of any
// order need nothing else of a loop's history.
#ifndef SLUICE_CLIENT_AUTODIFF_LOOP_FAMILY_H_
#define SLUICE_CLIENT_AUTODIFF_LOOP_FAMILY_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/control_flow.h"

namespace sluice {

class LoopFamily;

// One loop of a family. Owned by its WhileContext, guarded by the graph's
// mutex.
class LoopMember {
 public:
  WhileContext* loop() const { return loop_; }
  LoopFamily* family() const { return family_.get(); }
  // The iteration number t, an int32 value of the body.
  Output index() const { return index_; }
  bool descending() const { return descending_; }

  // The context in this loop that corresponds to `c`, a context of another loop
  // of the family (or of this one: `c` itself). Creates conditionals as needed.
  ControlFlowContext* Mirror(ControlFlowContext* c);
  // The conditional of this loop that takes the same branch as `c` did.
  Conditional* Mirror(Conditional* c);

  // No iteration of the loop ends before `node`, of the same frame, has run (or
  // was skipped because it was dead).
  void WaitFor(Node* node);
  // An Exit that has a token once everything passed to WaitFor is done. Null on
  // errors, which are recorded in the graph.
  Node* Done();

 private:
  friend class LoopFamily;
  LoopMember(std::shared_ptr<LoopFamily> family, WhileContext* loop)
      : family_(std::move(family)), loop_(loop) {}

  // The value that nodes of this loop use in place of `value`, of another loop
  // of the family; null if `value` does not belong to the family.
  Output Import(Output value);
  // Reads `value` of another loop. If it is the next value of that loop's
  // variable `next_of`, it is read from the array of that variable, at t + 1.
  Output Read(Output value, LoopMember* from, int next_of);
  // The variable whose next value `value` is; -1 if it is none.
  int NextOf(const Output& value) const;
  // Called before a node is added: if the node needs only the shape of another
  // loop's value, has the shape computed in that loop.
  void Rewrite(NodeSpec* spec);
  // A loop that computes gradients imports the values it needs from the others.
  void SetHooks(bool descending);
  void RunAfter(LoopMember* other);
  // `node` is in the frame around the loop or further out.
  void BeginAfter(Node* node);

  const std::shared_ptr<LoopFamily> family_;
  WhileContext* const loop_;
  Output index_;
  Output next_index_;  // t + 1; null until needed.
  bool descending_ = false;
  int index_variable_ = -1;
  int done_variable_ = -1;
  Node* trigger_ = nullptr;
  // By value; for values that are built where they are used, by context as
  // well.
  std::map<std::pair<Node*, int>, Output> reads_;
  std::map<std::pair<Node*, ControlFlowContext*>, Output> constants_;
  std::unordered_map<Conditional*, Conditional*> mirrors_;  // By original.
  std::set<LoopMember*> after_;
};

// A conditional of `outer` that takes the same branch as `original`, which is
// in another loop or around it, did. Null on errors, which are recorded in the
// graph.
Conditional* ConditionalLike(const Conditional& original,
                             ControlFlowContext* outer);

// Owned jointly by its members.
class LoopFamily {
 public:
  // The member for `loop`; founds a family on the loop if needed, which then
  // counts its iterations. Null if the loop is not closed.
  static LoopMember* Of(WhileContext* loop);
  // A new loop within `outer` that runs through the iterations of `loop` in
  // reverse order, with its condition and its index.
  static LoopMember* NewReverse(LoopMember* of, ControlFlowContext* outer);

  // Restores the families of a graph that was exported and imported again.
  // REQUIRES: its loops are known (graph/control_flow_recovery.h).
  static Status Recover(Graph* graph);

  // The number of iterations: an int32 scalar in the context around the first
  // loop.
  Output count() const { return count_; }

  // Makes loops save those of the requested values that the results need: a
  // gradient function builds more than the gradient of one input needs.
  static void WriteFor(const std::vector<Output>& results);

  // The value of another loop that a node reads from an array; null if it reads
  // no such value.
  static Output SavedValueOf(const Node* node);

 private:
  friend class LoopMember;
  struct Array {
    Output handle;
    int reads = 0;
    Node* last = nullptr;  // Writes a variable's last value, at index n.
    // Writes the other values; null if the loop waits for that already.
    Node* write = nullptr;
    LoopMember* home = nullptr;
  };
  Array* ArrayOf(Output value, LoopMember* home);
  bool SaveLast(Array* array, LoopMember* home, const LoopVariable& v);
  Conditional* OriginalOf(Conditional* c) const;
  static LoopMember* NewMember(const std::shared_ptr<LoopFamily>& family,
                               WhileContext* loop, int index_variable);

  LoopMember* first_ = nullptr;
  Output count_;
  std::map<std::pair<Node*, int>, Array> arrays_;     // By value.
  std::unordered_map<const Node*, Array*> array_of_;  // By reading node.
  std::map<std::pair<std::string, std::pair<Node*, int>>, Output> shapes_;
  std::unordered_map<Conditional*, Conditional*> originals_;  // By mirror.
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_LOOP_FAMILY_H_
