// Which conditional or loop each node of a graph belongs to, and how values are
// captured into them.
//
// The graph itself is flat: Switch and Merge, Enter and Exit. In addition,
// every graph keeps a tree of contexts (branches of conditionals, and loops)
// and the context of each node. Builders extend the tree; for imported graphs
// it is recovered from the structure.
//
//   WhileContext* w = ContextOf(node)->AsWhile();
//   const ContextScope in_the_body(w);
//   Output y = Build("Mul", {x, outer});  // `outer` is captured by an Enter.
#ifndef SLUICE_GRAPH_CONTROL_FLOW_H_
#define SLUICE_GRAPH_CONTROL_FLOW_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/node.h"

namespace sluice {

class CondContext;
class Conditional;
class LoopMember;
struct NodeSpec;  // graph/graph.h
class WhileContext;

// One branch of a conditional, or one loop. Owned by its graph's ControlFlow
// until the graph is destroyed; guarded by the graph's mutex. Constructing one
// adds no node. Null is the outermost context, outside of all constructs.
class ControlFlowContext {
 public:
  virtual ~ControlFlowContext() = default;
  ControlFlowContext(const ControlFlowContext&) = delete;

  virtual CondContext* AsCond() { return nullptr; }
  virtual WhileContext* AsWhile() { return nullptr; }

  Graph* graph() const { return graph_; }
  const std::string& name() const { return name_; }
  // The context that contains the whole construct.
  ControlFlowContext* outer() const { return outer_; }
  // If `outer` is a loop: whether the construct is in the loop's condition
  // (which runs once more than its body does).
  bool in_outer_condition() const { return in_outer_condition_; }

 protected:
  ControlFlowContext(Graph* graph, std::string name, ControlFlowContext* outer,
                     bool in_outer_condition)
      : graph_(graph),
        name_(std::move(name)),
        outer_(outer),
        in_outer_condition_(in_outer_condition) {}

 private:
  Graph* const graph_;
  const std::string name_;
  ControlFlowContext* const outer_;
  const bool in_outer_condition_;
};

// A branch of a conditional. Its nodes are dead when the other branch is taken.
class CondContext : public ControlFlowContext {
 public:
  CondContext* AsCond() override { return this; }
  Conditional* conditional() const { return conditional_; }
  int branch() const { return branch_; }  // 1 where the predicate holds.

  // A value that is alive exactly if the branch is taken; nodes without inputs
  // wait for it. Null until set.
  Output pivot;

 private:
  friend class ControlFlow;
  CondContext(Graph* graph, std::string name, ControlFlowContext* outer,
              bool in_outer_condition, Conditional* conditional, int branch)
      : ControlFlowContext(graph, std::move(name), outer, in_outer_condition),
        conditional_(conditional),
        branch_(branch) {}

  Conditional* const conditional_;
  const int branch_;
};

// A conditional: two branches that share one Switch per captured value.
// Owned by its graph's ControlFlow. Its Switches and Merges are nodes of the
// outer context; a Switch's outputs are values of the branches.
class Conditional {
 public:
  const std::string& name() const { return name_; }
  Output pred() const { return pred_; }  // A value of the outer context.
  CondContext* branch(int i) const { return branches_[i]; }
  ControlFlowContext* outer() const { return branches_[0]->outer(); }
  // Keyed by captured value (of the outer context, or leaked from a nested
  // one).
  const OutputMap<Node*>& switches() const { return switches_; }
  const std::vector<Node*>& merges() const { return merges_; }
  // The device of the Merges that are added, also by gradients, and of the
  // Switches of values that are no handles; "": placement decides.
  std::string device;

  // ---- Registering existing nodes: these add no nodes.
  // A Switch of `pred`. If several switch the same value, the first is used.
  void AdoptSwitch(Node* node);
  void AdoptMerge(Node* node);

  // ---- Adding nodes, at any time. Errors are recorded in the graph, and null
  // is returned.
  // A Switch on the predicate itself, and the pivots.
  void AddPivots(SourceLoc loc = {});
  // The value (of the outer context) in one of the branches.
  Output CaptureValue(Output value, int branch,
                      const std::string& consumer = "", SourceLoc loc = {});
  // Merges a value of each branch; values of other contexts are captured first.
  // Output 0 is
  // the value, output 1 the branch's number.
  Node* AddMerge(Output if_false, Output if_true, SourceLoc loc = {});

 private:
  friend class ControlFlow;
  Graph* graph_ = nullptr;
  std::string name_;
  Output pred_;
  CondContext* branches_[2] = {};
  OutputMap<Node*> switches_;
  std::vector<Node*> merges_;
};

// The nodes of one loop variable. All belong to the loop's context; the Exit's
// output is a value of the outer context.
struct LoopVariable {
  std::string name;  // For messages.
  Node* enter = nullptr;
  Node* merge = nullptr;        // Output 0: the value in the condition.
  Node* switch_node = nullptr;  // Null until the loop has a condition.
  Node* next = nullptr;         // The NextIteration; null until closed.
  Node* exit = nullptr;         // Null if an imported loop has none.
  Output body_value;  // The value in the body: output 1 of the Switch, or an
                      // Identity of it.
};

// A loop. The nodes of its condition and of its body belong to it.
class WhileContext : public ControlFlowContext {
 public:
  WhileContext* AsWhile() override { return this; }

  // The frame name attribute of the loop's Enters.
  const std::string& frame_name() const { return frame_name_; }
  const std::vector<LoopVariable>& variables() const { return variables_; }
  const LoopVariable& variable(int i) const {
    return variables_[static_cast<size_t>(i)];
  }
  // Which variable an Enter, Merge, Switch, NextIteration or Exit (or the
  // Identity of a body value) belongs to; -1 for none.
  int VariableOf(const Node* node) const;
  // Loop constants: their Enters by captured value (of the outer context).
  const OutputMap<Node*>& constants() const { return constants_; }
  Node* loop_cond() const { return loop_cond_; }
  // True for nodes that were built in the condition: their values arrive once
  // more than the body runs, so body nodes that use no other values must be
  // held back in the last iteration.
  bool RunsOnceMoreThanBody(const Node* node) const;
  // Nodes of the condition and of the body that depend on no loop variable wait
  // for these, so that they run once per iteration.
  Output condition_pivot() const;
  Output body_pivot() const;

  int parallel_iterations = 32;
  bool back_prop = true;
  bool swap_memory = false;
  bool batch = false;         // kBatchAttr.
  Output maximum_iterations;  // Null for no limit.
  // The forward loop of a gradient loop; null for a forward loop.
  WhileContext* forward = nullptr;
  // Called first for each value from outside that a node of the loop uses.
  // Returns the value to use, or null for an ordinary capture. (A gradient loop
  // reads values of its forward loop from arrays.) The hook caches its results.
  std::function<Output(Output)> capture_hook;
  // Called before a node is added anywhere within the loop; may replace it by
  // another that computes the same.
  std::function<void(NodeSpec*)> rewrite_hook;
  // State that gradients keep for the loop (client/autodiff/loop_family.h);
  // null without gradients.
  std::shared_ptr<LoopMember> member;

  // ---- Registering existing nodes: these add no nodes.
  int AdoptVariable(LoopVariable variable);  // Returns its index.
  void AdoptConstant(Node* enter);
  void AdoptLoopCond(Node* loop_cond) { loop_cond_ = loop_cond; }

  // ---- Adding nodes, at any time, also long after the loop was built. Errors
  // are recorded in the graph, and null or -1 is returned.
  // Opens a loop variable with initial value `init`, a value of the outer
  // context or one that is captured into it; returns the index. In a loop that
  // has a condition, the body value and the Exit are added at once. `invariant`
  // is what is known about the shape in every iteration; the shape of `init` if
  // not given. The Enter runs after `after`. Until CloseVariable no session can
  // run the graph.
  int OpenVariable(Output init, const std::string& name = "",
                   const std::optional<PartialShape>& invariant = std::nullopt,
                   const std::vector<Node*>& after = {}, SourceLoc loc = {});
  // Sets the loop's predicate (a boolean scalar of its condition) and adds the
  // body values and Exits of the variables.
  bool SetCondition(Output pred, SourceLoc loc = {});
  // Makes `next`, a value of the body or one that is captured into it, the
  // variable's value in the next iteration. Its type and shape must be those of
  // the variable.
  bool CloseVariable(int index, Output next, SourceLoc loc = {});
  // Adds the Exit of a variable of an imported loop, if it is missing.
  Node* AddExit(int index, SourceLoc loc = {});
  // The value (of the outer context) in the loop, as a loop constant.
  Output CaptureValue(Output value, const std::string& consumer = "",
                      SourceLoc loc = {});
  // A node of the loop that runs, in each iteration, after `node`, which
  // belongs to an outer frame.
  Node* AddNodeAfter(Node* node, SourceLoc loc = {});

 private:
  friend class ControlFlow;
  WhileContext(Graph* graph, std::string name, ControlFlowContext* outer,
               bool in_outer_condition, std::string frame_name)
      : ControlFlowContext(graph, std::move(name), outer, in_outer_condition),
        frame_name_(std::move(frame_name)) {}
  void Index(int variable);
  bool AddSwitch(int variable, SourceLoc loc);
  Node* AddEnter(Output value, bool constant, const std::string& name,
                 const std::vector<Node*>& after, SourceLoc loc);

  const std::string frame_name_;
  std::vector<LoopVariable> variables_;
  std::unordered_map<const Node*, int> variable_of_;
  OutputMap<Node*> constants_;
  std::unordered_map<const Node*, Node*> controls_;  // By outer node.
  Node* loop_cond_ = nullptr;
  int condition_end_ = 0;  // Nodes with lower ids are the condition's.
};

// A graph's contexts. Owned by the graph (Graph::control_flow()) and guarded by
// its mutex.
class ControlFlow {
 public:
  explicit ControlFlow(Graph* graph) : graph_(graph) {}

  Conditional* NewConditional(const std::string& name, Output pred,
                              ControlFlowContext* outer,
                              bool in_outer_condition = false);
  WhileContext* NewWhile(const std::string& name, const std::string& frame_name,
                         ControlFlowContext* outer,
                         bool in_outer_condition = false);

  ControlFlowContext* ContextOf(const Node* node) const {
    const auto id = static_cast<size_t>(node->id());
    return id < context_of_.size() ? context_of_[id] : nullptr;
  }
  void SetContext(const Node* node, ControlFlowContext* context);
  // The conditional that a Switch or a Merge belongs to; null if none, as for
  // those of loops.
  Conditional* ConditionalOf(const Node* node) const;

  const std::vector<std::unique_ptr<Conditional>>& conditionals() const {
    return conditionals_;
  }
  const std::vector<WhileContext*>& loops() const { return loops_; }

 private:
  friend class Conditional;
  Graph* const graph_;
  std::vector<std::unique_ptr<ControlFlowContext>> contexts_;
  std::vector<std::unique_ptr<Conditional>> conditionals_;
  std::vector<WhileContext*> loops_;
  std::vector<ControlFlowContext*> context_of_;  // By node id.
  std::unordered_map<const Node*, Conditional*> conditional_of_;
};

// ---- Questions --------------------------------------------------------------

// The context in which a node runs. Enters and Exits belong to their loop, a
// conditional's Switches and Merges to the context around it.
ControlFlowContext* ContextOf(const Node* node);
// The context of a value: an Exit's output belongs to the context around the
// loop, the output of a conditional's Switch to the branch.
ControlFlowContext* ContextOf(const Output& value);
// The context in which a control edge from the node begins: for an Exit, the
// one around the loop.
ControlFlowContext* ControlContextOf(const Node* node);
// True if a is b or within it. Everything is within null.
bool IsInside(const ControlFlowContext* a, const ControlFlowContext* b);
// The innermost loop around (or at) a context, and the outermost; null if none.
WhileContext* InnermostWhile(ControlFlowContext* c);
WhileContext* OutermostWhile(ControlFlowContext* c);
// The innermost context that holds both.
ControlFlowContext* CommonContext(ControlFlowContext* a, ControlFlowContext* b);

// ---- Captures ---------------------------------------------------------------

// The value as nodes of `context` see it: the value itself if it belongs to
// `context`, else captured through every context in between. InvalidArgument if
// it belongs to a loop that does not enclose `context`. New nodes are named
// after `consumer`.
Result<Output> Capture(ControlFlowContext* context, Output value,
                       const std::string& consumer = "", SourceLoc loc = {});
// The same for a control edge from `node`.
Result<Node*> CaptureControl(ControlFlowContext* context, Node* node,
                             SourceLoc loc = {});
// Prepares a node that is about to be added to `context`: captures its inputs
// and control inputs, and adds a control edge from the pivot if no other input
// ties it to the context. (BuildNode does this.)
Status PrepareForContext(ControlFlowContext* context, bool in_condition,
                         NodeSpec* spec);

}  // namespace sluice

#endif  // SLUICE_GRAPH_CONTROL_FLOW_H_
