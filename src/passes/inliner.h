// What lowering puts in place of functional nodes (passes/lower_functional.h).
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

// Where nodes are put: below which name, and under which condition.
struct Place {
  std::string prefix;  // "caller/", or "".
  std::string device;  // For nodes that name none.
  SourceLoc loc;       // For nodes of which none is known.
  // Runs exactly when what is put here may; null: whenever it likes.
  Node* pivot = nullptr;
  // In a graph that stays: the context that nodes here belong to.
  ControlFlowContext* context = nullptr;
  bool in_condition = false;      // Of the innermost loop.
  bool among_primitives = false;  // Within a body that has some of its own,
  bool primitives_here = false;   // which is the innermost.
  // Nodes that run only if the pivot does; shared by the places within.
  std::shared_ptr<std::unordered_set<const Node*>> anchored =
      std::make_shared<std::unordered_set<const Node*>>();

  Place Below(const std::string& name) const;
  // The same place as far as names go, under another condition.
  Place Under(Node* new_pivot) const;
};

// What a function gave.
struct Values {
  std::vector<Output> outputs;
  std::vector<Node*> effects;  // Done when all that the body does is done.
};

// A function that runs as a frame: body or gradient of `ref`.
struct FrameFunction {
  std::string name;
  FunctionRef ref;
  bool gradient = false;
};

// Puts the meaning of functional nodes into a graph. Lives for one pass, on one
// thread, under the graph's mutex.
class Inliner {
 public:
  // `taken`: a graph whose names are not to be used, beside those of `to`.
  // `as_frames`: calls of recursive functions become _Call nodes, and frames()
  // grows; else they stay what they are.
  Inliner(Graph* to, const Graph& taken, bool as_frames);

  // Lowers `n`, a functional node of any graph that has the same library, whose
  // inputs are `inputs` here.
  Result<Values> Lower(const Node& n, std::vector<Output> inputs,
                       std::vector<Node*> controls, const Place& at);
  // Puts the function `f` here as a frame of its own.
  Status AddFrame(const FrameFunction& f);
  // A node that is done when the values and effects are there.
  Result<Node*> Done(const Values& v, const std::string& name, const Place& at);

  // Frames that have been called so far; more may come with each AddFrame.
  const std::vector<FrameFunction>& frames() const { return frames_; }
  // Nodes that must run if they can, whoever reads them.
  const std::vector<Node*>& effects() const { return effects_; }
  // True if nodes of this kind stay calls.
  bool StaysCall(const Node& n) const;

 private:
  using Emit =
      std::function<Result<Values>(const Place&, const std::vector<Output>&)>;

  FunctionLibrary& library() const { return to_->function_library(); }
  std::string Unique(const std::string& name);
  // A graph that stays is told which constructs its new nodes belong to.
  bool tells_contexts() const { return !as_frames_; }
  void Tell(const Node* n, ControlFlowContext* context) const {
    if (tells_contexts()) to_->control_flow().SetContext(n, context);
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
  Result<Node*> Copy(const Node& n, const Place& at, std::vector<Output> inputs,
                     std::vector<Node*> controls);
  Result<Place> Start(const Node& n, const std::vector<Output>& inputs,
                      const std::vector<Node*>& controls, const Place& at);

  Result<Values> Dispatch(const Node& n, std::vector<Output> inputs,
                          const Place& at);
  Result<Values> Function(const FunctionRef& ref, bool gradient, bool is_call,
                          const std::vector<Output>& args, const Place& at);
  Result<Values> Body(const FunctionBody& body, const std::vector<Output>& args,
                      const Place& outside);
  Result<Values> StayCall(const FunctionRef& ref, bool gradient,
                          const std::vector<Output>& args, const Place& at);
  Result<Values> Cond(Output pred, const std::vector<Output>& args,
                      const Place& at, const Emit& on_true,
                      const Emit& on_false);
  Result<Values> Case(const std::vector<FunctionRef>& branches, size_t begin,
                      size_t end, const std::vector<Output>& index_and_args,
                      const Place& at);
  // `pass_through[i]`: the body gives back variable i as it was.
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
  bool among_primitives_ =
      false;        // Functional nodes may stand in their frames.
  int copied_ = 0;  // Nodes of bodies.
  std::vector<FrameFunction> frames_;
  std::vector<Node*> effects_;
  struct Inlined {
    FunctionRef ref;
    bool gradient;
  };
  std::vector<Inlined>
      stack_;  // Functions being put in place, outermost first.
};

}  // namespace sluice

#endif  // SLUICE_PASSES_INLINER_H_
