// Optimisations of a region's program after its order is fixed.
#ifndef SLUICE_EXEC_FUSION_REGION_OPTIMIZER_H_
#define SLUICE_EXEC_FUSION_REGION_OPTIMIZER_H_

#include "exec/fusion/region_program.h"

namespace sluice {

// In the loop that is being emitted, from its branch on: if the next value of a
// loop variable is computed after the last read of the variable, it is computed
// directly into the variable's location, and its move (one of those from
// `moves` to the end) is dropped.
void CoalesceMoves(RegionProgram* program, uint32_t branch, uint32_t moves);

// Finds the last read of each slot, so that a kernel may reuse its buffer and
// memory is freed early.
void MarkLastReads(RegionProgram* program);

}  // namespace sluice

#endif  // SLUICE_EXEC_FUSION_REGION_OPTIMIZER_H_
