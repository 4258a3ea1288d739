// Conditionals whose results may be slices of a tensor.
#ifndef SLUICE_CLIENT_CONTROL_COND_OF_SLICES_H_
#define SLUICE_CLIENT_CONTROL_COND_OF_SLICES_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "client/control/control_flow.h"

namespace sluice::internal {

// BuildCond where `is_index` says, once both branches are built, which results
// are indices of slices: of these, int32 becomes int64 if the other branch's
// are int64.
std::vector<Output> BuildCondOfSlices(
    const Operand& pred, const BranchFn& then_fn, const BranchFn& else_fn,
    const std::function<bool(size_t)>& is_index, const std::string& name,
    SourceLoc loc);

}  // namespace sluice::internal

#endif  // SLUICE_CLIENT_CONTROL_COND_OF_SLICES_H_
