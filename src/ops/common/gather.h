// Looking up rows and slices by index: shared by the Gather ops on tensors and
// on variables.
#ifndef SLUICE_OPS_COMMON_GATHER_H_
#define SLUICE_OPS_COMMON_GATHER_H_

#include <functional>

#include "exec/core/kernel.h"
#include "graph/grad.h"
#include "graph/shape_context.h"
#include "tensor/tensor.h"

namespace sluice::array {

// Gathers slices of params at `indices` along `axis`. The result has shape
// params[:axis] + indices[batch_dims:] + params[axis+1:]; the first batch_dims
// dimensions of both inputs are matched. Negative axis and batch_dims count
// from the end (of params and of indices). InvalidArgument for an index out of
// range.
Result<Tensor> GatherRows(const Tensor& params, const Tensor& indices,
                          int64_t axis, int64_t batch_dims,
                          Allocator* allocator);

// For a gather that looks up ids in a table or a part of one, which the client
// says in attributes (client/nn/embedding.cc): the error of the first index
// that is not in [0, rows), naming the id and the table. `otherwise` if the
// node has no such attributes.
Status NamingId(const Node& node, const Tensor& indices, int64_t rows,
                Status otherwise);

// The shape of the result, as far as it is known. `axis` is nullopt if unknown.
Result<PartialShape> GatherShape(const PartialShape& params,
                                 const PartialShape& indices,
                                 std::optional<int64_t> axis,
                                 int64_t batch_dims);

// Sets output 0 to the slices of params that the rows of `indices` select
// (NdIndex). An index out of range gives zeros with `ignore_bad`, else
// InvalidArgument.
Status GatherNd(KernelContext& ctx, const Tensor& params, const Tensor& indices,
                bool ignore_bad);

// Sets the shape of output 0 of a GatherNd from `params` and input 1.
Status SetGatherNdShape(ShapeContext& c, const PartialShape& params);

// The gradient of the params of a GatherNd; shape_of_params(type) builds their
// shape as a vector.
Gradient GatherNdGradient(Output dy, Output indices,
                          const std::function<Output(DType)>& shape_of_params);

// The gradient of rows taken along the first dimension: slices of a tensor of
// shape `params_shape` (int32).
Gradient GatherSlices(Output dy, Output indices, Output params_shape);

}  // namespace sluice::array

#endif  // SLUICE_OPS_COMMON_GATHER_H_
