// What the inputs of ops on checkpoints share.
#ifndef SLUICE_OPS_CHECKPOINT_INPUTS_H_
#define SLUICE_OPS_CHECKPOINT_INPUTS_H_

#include <string>

#include "exec/core/kernel.h"
#include "graph/shape_context.h"

namespace sluice::checkpoint_ops {

// The only element of a string input.
inline Result<std::string> OneString(const KernelContext& ctx, int i,
                                     const char* name) {
  const Tensor& t = ctx.input(i);
  if (t.num_elements() != 1)
    return InvalidArgument("Input ", name,
                           " should have a single element, got ",
                           t.num_elements(), " instead.");
  return t.raw_scalar<std::string>();
}

// Input i is a vector with an element for each tensor.
inline Status VectorOf(ShapeContext& c, int i, int64_t tensors) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape shape, c.WithRank(i, 1));
  return MergeDim(shape.dim(0), tensors).status();
}

}  // namespace sluice::checkpoint_ops

#endif  // SLUICE_OPS_CHECKPOINT_INPUTS_H_
