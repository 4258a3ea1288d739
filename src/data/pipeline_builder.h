// Compiles datasets into loops and queues (docs/design/034-pipelines.md).
#ifndef SLUICE_DATA_PIPELINE_BUILDER_H_
#define SLUICE_DATA_PIPELINE_BUILDER_H_

#include <cstdint>
#include <functional>
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

class PipelineBuilder;

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

 protected:
  const SourceLoc loc_;
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
  // A queue of the stage itself.
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

  std::vector<PipelineStage> stages;

 private:
  Step EnqueueInto(Queue* out, const BoundaryOptions& options, SourceLoc loc);
  void Finish(PipelineStage stage, SourceLoc loc);

  const std::string prefix_;
  std::vector<Queue> inputs_;  // Of the stage that is being built.
};

// `state` after `node` has run: the order of effects in a loop.
Output After(const Output& state, Node* node);
// The element's types and shapes.
std::vector<Component> ComponentsOf(const Element& x);

}  // namespace sluice::internal

#endif  // SLUICE_DATA_PIPELINE_BUILDER_H_
