// The stage of the ready list that decides Schedule nodes together.
#ifndef SLUICE_EXEC_SCHEDULING_SCHEDULE_STAGE_H_
#define SLUICE_EXEC_SCHEDULING_SCHEDULE_STAGE_H_

#include <memory>

#include "exec/core/ready_stage.h"

namespace sluice {

// For one plan. Schedule nodes that are ready wait until nothing else is, and
// all of them, in whatever frames, are decided at once: the largest work first.
// Of those for which no device had room, the largest few are decided again when
// a body is done.
std::unique_ptr<ReadyStageMaker> MakeScheduling();

}  // namespace sluice

#endif  // SLUICE_EXEC_SCHEDULING_SCHEDULE_STAGE_H_
