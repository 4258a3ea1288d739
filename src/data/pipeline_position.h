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
// everything is made again. Lives on the stack of MakeIterator.
class PipelinePosition {
 public:
  explicit PipelinePosition(SourceLoc loc);

  // A dataset that has the elements of `last` from the position on. To be
  // called once.
  NodePtr From(const NodePtr& last);
  // The first of the counted dataset's epochs that is made again, in a run of
  // the pipeline. (A node outside of loops.)
  Output first_epoch() const { return first_epoch_.Read(loc_); }
  // What the iterator needs. To be called after From.
  SavedPosition Saved() const;

 private:
  class FromTaken;
  class FromEpoch;
  NodePtr From(const NodePtr& node, int64_t elements);

  const SourceLoc loc_;
  // Saved: elements taken, and elements of an epoch (0: not known yet, -1: they
  // differ).
  Var taken_, epoch_elements_;
  // Of a run, set before it begins: where it begins, and how many elements are
  // left out from there.
  Var first_epoch_, left_out_;
  int64_t elements_ = 1;  // Counted ones for each element of the iterator.
  bool has_epochs_ = false;
};

// Records an error if a node of the graph from number `first` on draws random
// numbers from a state of its own.
void RefuseRandomState(const Graph& graph, int first, SourceLoc loc);

}  // namespace sluice::internal

#endif  // SLUICE_DATA_PIPELINE_POSITION_H_
