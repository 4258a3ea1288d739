// Builds the sums over the iterations of a gradient loop. Internal.
//
// The walk through a loop's body only records what is to be summed; the sums
// are built when the body is finished, and before anything around the loop
// reads them. A dense sum is a variable of the loop, or a product after it
// (client/autodiff/loop_products.h); slices are collected and joined.
#ifndef SLUICE_CLIENT_AUTODIFF_LOOP_SUMS_H_
#define SLUICE_CLIENT_AUTODIFF_LOOP_SUMS_H_

#include <vector>

#include "client/autodiff/loop_products.h"

namespace sluice {

// Returns the totals of `sums`, in that order: values in the context around
// `loop`. Adds variables to the loop and nodes around it; the caller holds the
// graph's mutex. Fails where a builder does.
Result<std::vector<Gradient>> BuildLoopSums(LoopMember* loop,
                                            const std::vector<LoopSum>& sums,
                                            ArrayUses* uses);

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_LOOP_SUMS_H_
