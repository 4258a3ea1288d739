// Several stages of one ready list.
#ifndef SLUICE_EXEC_CORE_READY_STAGES_H_
#define SLUICE_EXEC_CORE_READY_STAGES_H_

#include <memory>
#include <vector>

#include "exec/core/ready_stage.h"

namespace sluice {

// Each node is held by the first of them that would hold it. When nothing else
// is ready, the first stage that holds nodes runs its next group. At least one
// maker.
std::unique_ptr<ReadyStageMaker> InOrder(
    std::vector<std::unique_ptr<ReadyStageMaker>> makers);

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_READY_STAGES_H_
