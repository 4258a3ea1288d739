// The shapes and values of the items of a list, shared by the TensorList ops.
#ifndef SLUICE_OPS_TENSOR_ARRAY_TENSOR_LIST_ITEMS_H_
#define SLUICE_OPS_TENSOR_ARRAY_TENSOR_LIST_ITEMS_H_

#include "graph/shape_context.h"
#include "ops/tensor_array/tensor_list.h"

namespace sluice::tensor_list {

// What the kernels of lists keep of their node: the type of the items.
class ListKernel {
 public:
  explicit ListKernel(const Node& n) : dtype_(n.TypeAttr("element_dtype")) {}

 protected:
  const DType dtype_;
};

// An int32 scalar.
Result<int32_t> IntInput(const KernelContext& ctx, int i, const char* what);

// The merged shape of `shape` and all set items. InvalidArgument if they
// differ.
Result<PartialShape> ItemShape(const TensorList& list, PartialShape shape);

// The value of an unset item when read. InvalidArgument unless the shape is
// fully known.
Result<Tensor> ZerosForItem(const TensorList& list, const PartialShape& shape);

// ---- Graphs -----------------------------------------------------------------

// The declared shape of the items of the list `handle`, traced back through the
// ops that change the list; unknown if it cannot be determined.
PartialShape DeclaredItemShape(Output handle);
// The same for input 0, merged with the shape given by input `i`.
Result<PartialShape> ShapeOfItems(ShapeContext& c, int i);

// A list as long as `list` with unset items.
Output UnsetLike(Output list, DType dtype);
// The shape of x without its first dimension, as an int32 vector.
Output RowShapeOf(Output x);

}  // namespace sluice::tensor_list

#endif  // SLUICE_OPS_TENSOR_ARRAY_TENSOR_LIST_ITEMS_H_
