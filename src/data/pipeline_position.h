// Positions of pipelines, which checkpoints hold: a pipeline that starts goes
// on where the checkpoint's was (docs/design/034-pipelines.md).
#ifndef SLUICE_DATA_PIPELINE_POSITION_H_
#define SLUICE_DATA_PIPELINE_POSITION_H_

#include <cstdint>
#include <string>

#include "client/variables.h"
#include "data/dataset_iterator.h"
#include "data/pipeline_builder.h"

namespace sluice::internal {

// The variables of one pipeline's position, while the pipeline is built. The
// position is a number of elements of one dataset of the chain, the counted
// one, from which the rest is made by grouping. If that dataset repeats
// another, whole epochs are not made again; for this the number of elements of
// an epoch is saved too, once it is known: the epochs have the same, or else
// everything is made again. Where all of an epoch's elements were taken, it is
// made again too unless its end was seen: it may have more than those before.
// Lives on the stack of MakeIterator.
class PipelinePosition {
 public:
  explicit PipelinePosition(SourceLoc loc);

  // A dataset that has the elements of `last` from the position on. To be
  // called once.
  NodePtr From(const NodePtr& last);
  // For a stage that runs so often in each of the counted dataset's epochs: how
  // many of its runs come before the first epoch that is made again, in a run
  // of the pipeline. (A node outside of loops.) The stage goes through them one
  // by one, which takes microseconds each; so a start at a position with more
  // than 10^8 of them is an error. REQUIRES: runs_per_epoch > 0.
  Output FirstRun(int64_t runs_per_epoch);
  // What the iterator needs. To be called once all stages have been built.
  SavedPosition Saved() const;

 private:
  class FromTaken;
  class FromEpoch;
  NodePtr From(const NodePtr& node, int64_t elements);
  Node* AtMost(const Output& value, int64_t most, const char* of_what) const;

  const SourceLoc loc_;
  // Saved: elements taken; and a vector of the elements of an epoch (0: not
  // known yet, -1: they differ) and how many epochs have ended. These two are
  // one variable, so that a snapshot has them of one moment.
  Var taken_, epochs_;
  // Of a run, set before it begins: where it begins, and how many elements are
  // left out from there.
  Var first_epoch_, left_out_;
  int64_t elements_ = 1;  // Counted ones for each element of the iterator.
  bool has_epochs_ = false;
  // Of all stages that go through epochs; 0: there is none.
  int64_t most_runs_per_epoch_ = 0;
};

// Records an error if a node of the graph from number `first` on draws random
// numbers from a state of its own.
void RefuseRandomState(const Graph& graph, int first, SourceLoc loc);

}  // namespace sluice::internal

#endif  // SLUICE_DATA_PIPELINE_POSITION_H_
