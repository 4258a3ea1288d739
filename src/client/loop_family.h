// Loops that run over the same iterations, and the values that they hand to
// each other.
//
// The gradient of a loop is a loop that runs as often, backwards; the gradient
// of that one runs forwards again. Together they are a family: iteration t of
// each belongs to iteration t of all. So a value of one of them can be used in
// every later one: it is written to an array at t, and read from it at t. This
// is all that gradients of any order need of a loop's history.
#ifndef SLUICE_CLIENT_LOOP_FAMILY_H_
#define SLUICE_CLIENT_LOOP_FAMILY_H_

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
  // The number t of the iteration, a value of the body; int32.
  Output index() const { return index_; }
  bool descending() const { return descending_; }

  // The place in this loop that corresponds to `c`, a context of another loop
  // of the family (or of this one: itself). Makes conditionals as needed.
  ControlFlowContext* Mirror(ControlFlowContext* c);
  // The conditional of this loop that decides as `c` did.
  Conditional* Mirror(Conditional* c);

  // The loop's iterations do not end before `node`, of the same frame, ran (or
  // was passed over, dead).
  void WaitFor(Node* node);

 private:
  friend class LoopFamily;
  LoopMember(std::shared_ptr<LoopFamily> family, WhileContext* loop)
      : family_(std::move(family)), loop_(loop) {}

  // What nodes of this loop use in place of `value`, of another loop of the
  // family; null if it is not of one.
  Output Import(Output value);
  // Reads `value` of another loop; where it is the next value of that loop's
  // variable `next_of`, from where that one is saved, at t + 1.
  Output Read(Output value, LoopMember* from, int next_of);
  // The variable whose next value it is; -1 for none.
  int NextOf(const Output& value) const;
  // Before a node is added: where only the shape of another loop's value is
  // asked for, has it computed there.
  void Rewrite(NodeSpec* spec);
  // A loop that computes gradients takes what it needs from the others.
  void SetHooks(bool descending);
  // An Exit: when it has a token, all that WaitFor named is done.
  Node* Done();
  void RunAfter(LoopMember* other);
  // Where `node` is in the frame around the loop or in one further out.
  void BeginAfter(Node* node);

  const std::shared_ptr<LoopFamily> family_;
  WhileContext* const loop_;
  Output index_;
  Output next_index_;  // t + 1; null until needed.
  bool descending_ = false;
  int index_variable_ = -1;
  int done_variable_ = -1;
  Node* trigger_ = nullptr;
  // By value, and by the context that it is used in if it is built there.
  std::map<std::pair<Node*, int>, Output> reads_;
  std::map<std::pair<Node*, ControlFlowContext*>, Output> constants_;
  std::unordered_map<Conditional*, Conditional*> mirrors_;  // By original.
  std::set<LoopMember*> after_;
};

// A conditional of `outer` that decides as `original`, of another loop or from
// around it, did. Null on errors, which are recorded in the graph.
Conditional* ConditionalLike(const Conditional& original,
                             ControlFlowContext* outer);

// Owned by its members together.
class LoopFamily {
 public:
  // The member that `loop` is, after a family was founded on it if need be: the
  // loop then counts its iterations. Null if the loop is not closed.
  static LoopMember* Of(WhileContext* loop);
  // A new loop that runs through the iterations of `loop` the other way round,
  // within `outer`. It has its condition and its index.
  static LoopMember* NewReverse(LoopMember* of, ControlFlowContext* outer);

  // Finds the families of a graph that was exported and imported again.
  // REQUIRES: its loops are known (graph/control_flow_recovery.h).
  static Status Recover(Graph* graph);

  // How often each of the loops runs: an int32 scalar around the first one.
  Output count() const { return count_; }

  // Has loops write what the results need, of all that they were asked for: a
  // gradient function builds more than one of its inputs' gradients needs.
  static void WriteFor(const std::vector<Output>& results);

  // The value of another loop that a node reads from an array; null if it reads
  // none.
  static Output SavedValueOf(const Node* node);

 private:
  friend class LoopMember;
  struct Array {
    Output handle;
    int reads = 0;
    Node* last = nullptr;  // Writes a variable's last value, at n.
    // Writes the others; null if the loop waits for that already.
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
  std::unordered_map<const Node*, Array*> array_of_;  // By node that reads.
  std::map<std::pair<std::string, std::pair<Node*, int>>, Output> shapes_;
  std::unordered_map<Conditional*, Conditional*> originals_;  // By mirror.
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_LOOP_FAMILY_H_
