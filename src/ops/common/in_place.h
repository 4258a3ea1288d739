// For kernels that return an input with some elements changed.
#ifndef SLUICE_OPS_COMMON_IN_PLACE_H_
#define SLUICE_OPS_COMMON_IN_PLACE_H_

#include "exec/core/kernel.h"

namespace sluice::array {

// Input i as a tensor that the kernel may write to: the input itself if this
// kernel is its last reader, else a copy.
inline Result<Tensor> TakeToChange(KernelContext& ctx, int i) {
  if (ctx.CanForward(i)) return ctx.TakeInput(i);
  return ctx.input(i).Clone();
}

}  // namespace sluice::array

#endif  // SLUICE_OPS_COMMON_IN_PLACE_H_
