// Automatic batching: instances of one node, in different iterations and calls,
// that are ready together run as one kernel.
//
// A node with a BatchForm is held when it is ready. When nothing else is ready,
// the group that comes first in the plan's topological order runs (the fullest
// of several of one node), and what it makes ready follows. So a node whose
// inputs are still to be computed elsewhere gets all the company that can come:
// this is the agenda of Neubig, Goldberg and Dyer, "On-the-fly operation
// batching in dynamic computation graphs" (NIPS 2017), section 3, with the
// topological order for the depth.
//
// The outputs of the instances are views of one buffer, in the order of the
// batch. The next batch that reads them in this order takes that buffer as it
// is; otherwise the rows are copied together.
#ifndef SLUICE_EXEC_BATCHING_BATCH_STAGE_H_
#define SLUICE_EXEC_BATCHING_BATCH_STAGE_H_

#include <memory>

#include "exec/batching/batch_requests.h"
#include "exec/core/ready_stage.h"

namespace sluice {

// For one plan, whose device computes in host memory. `forms`: those of the
// nodes to be held.
std::unique_ptr<ReadyStageMaker> MakeBatching(BatchForms forms);

}  // namespace sluice

#endif  // SLUICE_EXEC_BATCHING_BATCH_STAGE_H_
