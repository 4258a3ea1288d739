// Compiles datasets into loops and queues (docs/design/034-pipelines.md).
#ifndef SLUICE_DATA_PIPELINE_BUILDER_H_
#define SLUICE_DATA_PIPELINE_BUILDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "data/dataset_iterator.h"
#include "data/queue.h"

namespace sluice::internal {

using Element = Dataset::Element;

// What goes from element to element through a loop over a dataset.
struct Flow {
  // Whether more elements are wanted: a boolean scalar. Null: always.
  Output more;
  // The state of what processes the elements, innermost last: each adds its own
  // at the end, and takes it off before it passes the flow on.
  std::vector<Output> slots;
};

// Processes an element, inside a loop.
using Step = std::function<Flow(Flow, const Element&)>;

// Takes the state of a node, of `n` slots, off the flow.
Element PopState(Flow* flow, size_t n);
inline Output Pop(Flow* flow) { return PopState(flow, 1)[0]; }
void Push(Flow* flow, const Element& state);
// The flow as one list, for the branches of a conditional.
std::vector<Output> Flatten(const Flow& flow);
Flow Unflatten(std::vector<Output> all, bool has_more);
// `step` for the element if the condition holds.
Flow StepIf(const Output& condition, const Flow& flow, const Element& x,
            const Step& step, SourceLoc loc);

class DatasetNode;
class PipelineBuilder;
class PipelinePosition;
using NodePtr = std::shared_ptr<const DatasetNode>;

// A dataset, as a fold over its elements.
class DatasetNode {
 public:
  explicit DatasetNode(SourceLoc loc) : loc_(loc) {}
  virtual ~DatasetNode() = default;
  // Builds a loop that calls `step` for each element in turn, and returns the
  // flow after the last. `step` is called while the loop is built: once, or
  // once for each of several loops.
  virtual Flow Fold(PipelineBuilder& p, Flow flow, const Step& step) const = 0;
  // The last stage of a pipeline that ends with this dataset.
  virtual Queue BuildLast(PipelineBuilder& p) const;
  // For a dataset whose elements are each made of one of another dataset
  // (`upstream`), without state: null for others.
  virtual const DatasetNode* upstream_by_element() const { return nullptr; }
  // For such a dataset: passes what it makes of `x` to `step`.
  virtual Flow Process(Flow flow, const Element& x, const Step& step) const;

  // The rest is for pipelines whose position is saved.
  // For a dataset that makes each element of the next `elements` ones of
  // another (at its end, of fewer) and keeps nothing else: those, and how to
  // make the same dataset of other ones.
  struct Grouping {
    int64_t elements;
    NodePtr upstream;
    std::function<NodePtr(NodePtr upstream)> make;
  };
  virtual std::optional<Grouping> grouping() const { return std::nullopt; }
  // For a dataset that is another one several times (< 0: for ever).
  struct Epochs {
    int64_t count;
    NodePtr upstream;
  };
  virtual std::optional<Epochs> repeats() const { return std::nullopt; }

 protected:
  const SourceLoc loc_;
};

// Whose elements are made of those of another dataset.
class Derived : public DatasetNode {
 public:
  Derived(NodePtr upstream, SourceLoc loc)
      : DatasetNode(loc), upstream_(std::move(upstream)) {}

 protected:
  // The flow, and the state of one node, which is not among its slots.
  using WithState = std::pair<Flow, Element>;
  // Folds over `upstream` with a state: `step` gets the one before the element
  // and returns the one after it.
  WithState FoldState(
      PipelineBuilder& p, Flow flow, const Element& initial,
      const std::function<WithState(Flow, const Element& state,
                                    const Element&)>& step) const;

  const NodePtr upstream_;
};

// What a queue between two stages is.
struct BoundaryOptions {
  int64_t capacity = 1;
  bool shuffle = false;
  int64_t min_after_dequeue = 0, seed = 0;
};

// Builds one pipeline. Lives on the stack of MakeIterator.
class PipelineBuilder {
 public:
  // `prefix`: of the names of the pipeline's nodes (NameScope::prefix).
  explicit PipelineBuilder(std::string prefix) : prefix_(std::move(prefix)) {}

  struct LoopState {
    std::vector<Output> vars;
    Flow flow;
  };
  // A While over `init` that goes on while `holds(vars)` and more elements are
  // wanted.
  LoopState Loop(const LoopState& init, int parallel,
                 const std::function<Output(const std::vector<Output>&)>& holds,
                 const std::function<LoopState(LoopState)>& body,
                 SourceLoc loc);
  // Calls `step` for each element of a queue. `own`: of the pipeline, which
  // closes it and drops the rest of an epoch.
  Flow FoldQueue(const Queue& queue, bool own, Flow flow, const Step& step,
                 SourceLoc loc);

  // The same for a queue that could not be made: builds what follows from
  // elements that are its error, so that errors further on and the number of
  // tensors are what they would be.
  static Flow StepFailed(const Queue& queue, Flow flow, const Step& step);

  // Builds a stage: `fold` calls its argument for each element, which is
  // enqueued. Returns the queue.
  using FoldFn = std::function<Flow(Flow, const Step&)>;
  Queue Boundary(const std::string& name, const BoundaryOptions& options,
                 const FoldFn& fold, SourceLoc loc);
  // A stage that processes an element of `in` per step, and drops those for
  // which that fails.
  Queue PerElementBoundary(
      const std::string& name, const Queue& in,
      const std::function<Flow(Flow, const Element&, const Step&)>& process,
      SourceLoc loc);
  // `flow` after the rest of the queue's epoch was dropped, if `unfinished`
  // (its end was not seen) and there is a further epoch.
  Flow SkipRest(const Queue& queue, const Output& unfinished, Flow flow,
                SourceLoc loc);
  // For stages that read `queue` other than by FoldQueue.
  void Reads(const Queue& queue) { inputs_.push_back(queue); }
  // A queue of the stage itself, which is as new at each start. If a tensor of
  // `like` is null, a failed queue with as many components.
  Queue OwnQueue(const Element& like, const BoundaryOptions& options,
                 SourceLoc loc);

  // How many elements loops process at once.
  int parallel = 1;
  // How often the stages before this one run; < 0: for ever.
  int64_t epochs = 1;
  // Whether what comes later may end before this does, and start again.
  bool restarts_early = false;
  // Whether this is inside the function of a FlatMap.
  bool in_function = false;
  // Of a pipeline whose position is saved, so that elements and their order
  // must be the same each time; else null.
  PipelinePosition* position = nullptr;
  // For stages within the epochs of the position (PipelinePosition): how often
  // they run in each. 0: for others.
  int64_t runs_per_epoch = 0;

  std::vector<PipelineStage> stages;

 private:
  Step EnqueueInto(Queue* out, const BoundaryOptions& options, SourceLoc loc);
  void Finish(PipelineStage stage, SourceLoc loc);

  const std::string prefix_;
  // Of the stage that is being built.
  std::vector<Queue> inputs_, own_queues_;
};

// `state` after `node` has run: the order of effects in a loop.
Output After(const Output& state, Node* node);
// The element's types and shapes.
std::vector<Component> ComponentsOf(const Element& x);

}  // namespace sluice::internal

#endif  // SLUICE_DATA_PIPELINE_BUILDER_H_
