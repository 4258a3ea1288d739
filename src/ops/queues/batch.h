// Elements of queues as batches: split into elements, and joined.
#ifndef SLUICE_OPS_QUEUES_BATCH_H_
#define SLUICE_OPS_QUEUES_BATCH_H_

#include <vector>

#include "ops/queues/queue.h"

namespace sluice::queues {

// The elements of a batch. REQUIRES: CheckBatch of its queue accepts it.
// They are copies, so that an element keeps nothing else alive; a batch of one
// element is shared. If they `leave_in_order`, and thus about together, large
// ones are views of the batch instead: who hands one out alone copies it
// (DetachRow).
Result<std::vector<Element>> SplitBatch(const Element& batch,
                                        bool leave_in_order);

// Component `c` of the elements along a new first dimension. Elements of
// different shapes are an error, or, with `padded`, are filled at the ends with
// zeros or empty strings up to the largest extents. `type` and `shape`: of the
// component, for a batch without elements. Views of consecutive rows of a batch
// are joined without copying if they are most of it.
Result<Tensor> JoinComponent(const std::vector<Element>& elements, size_t c,
                             DType type, const PartialShape& shape, bool padded,
                             Allocator* allocator);

// Makes a component that is a view of a larger batch a copy of its own.
Status DetachRow(Tensor* component);

}  // namespace sluice::queues

#endif  // SLUICE_OPS_QUEUES_BATCH_H_
