// What the TensorList ops share beside the list itself.
#ifndef SLUICE_OPS_TENSOR_LIST_UTIL_H_
#define SLUICE_OPS_TENSOR_LIST_UTIL_H_

#include "graph/shape_context.h"
#include "ops/tensor_list.h"

namespace sluice::tensor_list {

// An int32 scalar.
Result<int32_t> IntInput(const KernelContext& ctx, int i, const char* what);

// What `shape` and the items that are set tell together. InvalidArgument if
// they are not all alike.
Result<PartialShape> ItemShape(const TensorList& list, PartialShape shape);

// What an item that is not set reads as. InvalidArgument unless the shape is
// fully known.
Result<Tensor> ZerosForItem(const TensorList& list, const PartialShape& shape);

// ---- Graphs -----------------------------------------------------------------

// The declared shape of the items of the list `handle`, followed back through
// the ops that change it; unknown if that does not tell.
PartialShape DeclaredItemShape(Output handle);
// The same of input 0, merged with the shape that input `i` gives.
Result<PartialShape> ShapeOfItems(ShapeContext& c, int i);

// A list as long as `list` whose items are not set.
Output UnsetLike(Output list, DType dtype);
// The shape of x without its first dimension, as an int32 vector.
Output RowShapeOf(Output x);

}  // namespace sluice::tensor_list

#endif  // SLUICE_OPS_TENSOR_LIST_UTIL_H_
