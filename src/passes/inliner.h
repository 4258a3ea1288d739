// Replaces functional nodes by their lowered form (passes/lower_functional.h).
#ifndef SLUICE_PASSES_INLINER_H_
#define SLUICE_PASSES_INLINER_H_

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/control_flow.h"
#include "graph/function.h"
#include "graph/graph.h"

namespace sluice {

// The place of new nodes: their name prefix and the condition that guards them.
struct Place {
  std::string prefix;  // "caller/", or "".
  std::string device;  // For nodes without one.
  SourceLoc loc;       // For nodes without a known one.
  // Runs exactly if nodes placed here may run; null: unconditionally.
  Node* pivot = nullptr;
  // When lowering in place: the context that nodes here belong to.
  ControlFlowContext* context = nullptr;
  bool in_condition = false;      // In the innermost loop's condition.
  bool among_primitives = false;  // Within a body with control-flow primitives,
  bool primitives_here = false;   // which is the innermost body.
  // Nodes that run only if the pivot does; shared by nested places.
  std::shared_ptr<std::unordered_set<const Node*>> anchored =
      std::make_shared<std::unordered_set<const Node*>>();

  Place Below(const std::string& name) const;
  // The same names, under another condition.
  Place Under(Node* new_pivot) const;
};

// The results of a function.
struct Values {
  std::vector<Output> outputs;
  std::vector<Node*> effects;  // Done when all effects of the body are.
};

// A function that runs as its own frame.
struct FrameFunction {
  std::string name;
  FunctionRef ref;
  FunctionPart part = FunctionPart::kBody;
};

// Inlines functional nodes into a graph. Lives for one pass, on one thread,
// under the graph's mutex.
class Inliner {
 public:
  // `taken`: a graph whose names must not be used, in addition to those of
  // `to`. `as_frames`: calls of recursive functions become _Call nodes, and
  // frames() grows; else they stay unchanged.
  Inliner(Graph* to, const Graph& taken, bool as_frames);

  // Lowers `n`, a functional node of any graph with the same library; `inputs`
  // are its inputs in this graph.
  Result<Values> Lower(const Node& n, std::vector<Output> inputs,
                       std::vector<Node*> controls, const Place& at);
  // Adds the function `f` as its own frame.
  Status AddFrame(const FrameFunction& f);
  // A node that is done when the values and effects are.
  Result<Node*> Done(const Values& v, const std::string& name, const Place& at);

  // Frames that have been called so far; more may come with each AddFrame.
  const std::vector<FrameFunction>& frames() const { return frames_; }
  // Nodes that must run if they can, even without readers.
  const std::vector<Node*>& effects() const { return effects_; }
  // Tells it of nodes whose inputs are read: a SavingCall whose saved values
  // nothing reads is a plain call. `nodes` are all of a graph or body.
  template <typename Nodes>
  void NoteReads(const Nodes& nodes) {
    for (const auto& n : nodes)
      for (const Output& in : n->inputs()) NoteRead(in);
  }
  void NoteRead(const Output& o);
  // True if the node stays a call.
  bool IsKeptCall(const Node& n) const;

 private:
  bool IsBatched(const FunctionRef& ref) const;
  using Emit =
      std::function<Result<Values>(const Place&, const std::vector<Output>&)>;

  FunctionLibrary& library() const { return to_->function_library(); }
  std::string Unique(const std::string& name);
  // Lowering in place sets the contexts of new nodes.
  bool records_contexts() const { return !as_frames_; }
  void RecordContext(const Node* n, ControlFlowContext* context) const {
    if (records_contexts()) to_->control_flow().SetContext(n, context);
  }
  void Anchor(const Place& at, const std::vector<Output>& inputs,
              std::vector<Node*>* controls) const;
  bool IsAnchored(const Place& at, const Output& o) const;
  Result<Node*> Add(const Place& at, const std::string& op,
                    const std::string& name, std::vector<Output> inputs,
                    AttrMap attrs = {}, std::vector<Node*> controls = {});
  Result<Output> Add1(const Place& at, const std::string& op,
                      const std::string& name, std::vector<Output> inputs,
                      AttrMap attrs = {});
  Result<Output> IntConstant(const Place& at, int64_t v, DType t);
  Result<Output> Anchored(const Place& at, const Output& o);
  Result<Output> AsGradient(const Output& dx, DType want, const Output& arg,
                            const Place& at);
  Result<Node*> Copy(const Node& n, const Place& at, std::vector<Output> inputs,
                     std::vector<Node*> controls);
  Result<Place> Start(const Node& n, const std::vector<Output>& inputs,
                      const std::vector<Node*>& controls, const Place& at);

  Result<Values> Dispatch(const Node& n, std::vector<Output> inputs,
                          const Place& at);
  Result<Values> Function(const FunctionRef& ref, FunctionPart part,
                          bool is_call, const std::vector<Output>& args,
                          const Place& at);
  Result<Values> Body(const FunctionBody& body, const std::vector<Output>& args,
                      const Place& outside);
  Result<Values> KeepCall(const FunctionRef& ref, FunctionPart part,
                          const std::vector<Output>& args, const Place& at);
  Result<Values> Cond(Output pred, const std::vector<Output>& args,
                      const Place& at, const Emit& on_true,
                      const Emit& on_false);
  Result<Values> Case(const std::vector<FunctionRef>& branches, size_t begin,
                      size_t end, const std::vector<Output>& index_and_args,
                      const Place& at);
  // `pass_through[i]`: the body returns variable i unchanged.
  Result<Values> Loop(const std::vector<Output>& vars,
                      std::vector<PartialShape> shapes,
                      const std::vector<bool>& pass_through, int64_t parallel,
                      const Place& at, const Emit& cond, const Emit& body);
  Result<Values> While(const Node& n, const std::vector<Output>& inputs,
                       const Place& at);
  Result<Values> For(const Node& n, const std::vector<Output>& inputs,
                     const Place& at);
  Result<std::vector<bool>> PassThrough(const FunctionRef& body, size_t skip,
                                        size_t vars);

  Graph* to_;
  const Graph& taken_;
  const bool as_frames_;
  bool among_primitives_ = false;  // Functional nodes may be in their frames.
  int copied_ = 0;                 // Nodes of bodies.
  std::vector<FrameFunction> frames_;
  std::vector<Node*> effects_;
  struct Inlined {
    FunctionRef ref;
    FunctionPart part;
  };
  std::unordered_set<const Node*> saved_is_read_;  // SavingCalls.
  std::vector<Inlined> stack_;  // Functions being inlined, outermost first.
};

}  // namespace sluice

#endif  // SLUICE_PASSES_INLINER_H_
