// What is done to a region's program once its order is fixed.
#ifndef SLUICE_EXEC_REGION_OPTIMIZER_H_
#define SLUICE_EXEC_REGION_OPTIMIZER_H_

#include "exec/region_program.h"

namespace sluice {

// In the loop that is being written, from its branch on: where the next value
// of a loop variable is computed after the variable was last read, it is
// computed in its place, and its move (one of those from `moves` to the end) is
// dropped.
void CoalesceMoves(RegionProgram* program, uint32_t branch, uint32_t moves);

// Finds for each slot the read after which nobody wants it, so that a kernel
// may have its buffer and memory is free early.
void MarkLastReads(RegionProgram* program);

}  // namespace sluice

#endif  // SLUICE_EXEC_REGION_OPTIMIZER_H_
