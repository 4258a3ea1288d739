// Looking up rows by index: what Gather, GatherV2 and ResourceGather share.
#ifndef SLUICE_OPS_GATHER_H_
#define SLUICE_OPS_GATHER_H_

#include "exec/kernel.h"
#include "graph/grad.h"
#include "graph/shape_context.h"
#include "tensor/tensor.h"

namespace sluice::array {

// params taken at `indices` along `axis`: shape params[:axis] +
// indices[batch_dims:] + params[axis+1:], the first batch_dims dimensions of
// both going together. Negative axis and batch_dims count from the end (of
// params and of indices). InvalidArgument for an index out of range.
Result<Tensor> GatherRows(const Tensor& params, const Tensor& indices,
                          int64_t axis, int64_t batch_dims,
                          Allocator* allocator);

// Its shape, as far as known. `axis` is nothing where it is not known.
Result<PartialShape> GatherShape(const PartialShape& params,
                                 const PartialShape& indices,
                                 std::optional<int64_t> axis,
                                 int64_t batch_dims);

// The gradient of rows taken along the first dimension: slices of a tensor of
// shape `params_shape` (int32).
Gradient GatherSlices(Output dy, Output indices, Output params_shape);

}  // namespace sluice::array

#endif  // SLUICE_OPS_GATHER_H_
