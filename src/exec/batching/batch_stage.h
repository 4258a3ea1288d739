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
#include <unordered_map>

#include "exec/batching/batch_program.h"
#include "exec/core/ready_stage.h"

namespace sluice {

// By node to be held.
using BatchPrograms =
    std::unordered_map<const Node*, std::shared_ptr<const BatchProgram>>;

// For one plan, whose device computes in host memory.
std::unique_ptr<ReadyStageMaker> MakeBatching(BatchPrograms programs);

}  // namespace sluice

#endif  // SLUICE_EXEC_BATCHING_BATCH_STAGE_H_
