#include "ops/tensor_array/tensor_list_items.h"

#include "graph/builder.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"

namespace sluice::tensor_list {

Result<int32_t> IntInput(const KernelContext& ctx, int i, const char* what) {
  const Tensor& t = ctx.input(i);
  if (t.rank() != 0 || t.dtype() != DType::kInt32) [[unlikely]]
    return InvalidArgument(what, ": expected an int32 scalar, got ",
                           t.ToString());
  return t.raw_scalar<int32_t>();
}

Result<PartialShape> ItemShape(const TensorList& list, PartialShape shape) {
  for (const Tensor& item : list.items) {
    if (!item.valid()) continue;
    Result<PartialShape> merged = shape.MergeWith(item.shape());
    if (!merged.ok())
      return InvalidArgument("list: expected items of one shape, got ",
                             shape.ToString(), " and ",
                             item.shape().ToString());
    shape = *std::move(merged);
  }
  return shape;
}

Result<Tensor> ZerosForItem(const TensorList& list, const PartialShape& shape) {
  if (!shape.fully_known())
    return InvalidArgument(
        "item: expected one that was set, or a fully known element_shape, got "
        "an item that was not set and ",
        shape.ToString());
  SLUICE_ASSIGN_OR_RETURN(const Shape known, shape.ToShape());
  return Tensor::Zeros(list.dtype, known);
}

PartialShape DeclaredItemShape(Output handle) {
  constexpr int kMaxDepth = 200;
  const auto from = [](const Output& shape) {
    const Result<PartialShape> known = ConstantAsShape(shape);
    return known.ok() ? *known : PartialShape();
  };
  for (int depth = 0; depth < kMaxDepth && handle.valid(); ++depth) {
    const Node& n = *handle.node;
    switch (n.op().role) {
      case OpRole::kMerge:  // A loop's; a conditional's may be either list.
        if (n.input(0).node->op().role != OpRole::kEnter) return PartialShape();
        handle = n.input(0);
        continue;
      case OpRole::kIdentity:
      case OpRole::kSwitch:
      case OpRole::kEnter:
      case OpRole::kExit:
      case OpRole::kNextIteration:
        handle = n.input(0);
        continue;
      case OpRole::kCompute:
        break;
      default:
        return PartialShape();
    }
    const std::string& op = n.op_name();
    if (op == "EmptyTensorList" || op == "TensorListReserve")
      return from(n.input(0));
    if (op == "TensorListFromTensor") {
      const PartialShape& rows = n.input(0).shape();
      const PartialShape given = from(n.input(1));
      if (rows.rank() < 1) return given;
      const Result<PartialShape> both =
          given.MergeWith(array::SubShape(rows, 1, rows.rank()));
      return both.ok() ? *both : given;
    }
    if (op == "TensorListScatter" || op == "TensorListScatterV2")
      return from(n.input(2));
    if (op == "TensorListSplit") return from(n.input(1));
    if (op != "TensorListPushBack" && op != "TensorListPopBack" &&
        op != "TensorListSetItem" && op != "TensorListResize" &&
        op != "TensorListScatterIntoExistingList")
      return PartialShape();
    if (handle.index != 0) return PartialShape();  // A popped item.
    handle = n.input(0);
  }
  return PartialShape();
}

Result<PartialShape> ShapeOfItems(ShapeContext& c, int i) {
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(i, 1).status());
  SLUICE_ASSIGN_OR_RETURN(PartialShape given, c.InputAsShape(i));
  return given.MergeWith(DeclaredItemShape(c.node().input(0)));
}

Output UnsetLike(Output list, DType dtype) {
  return Build(
      "TensorListReserve",
      {Build("TensorListElementShape", {list}, {{"shape_type", DType::kInt32}}),
       Build("TensorListLength", {list})},
      {{"element_dtype", dtype}});
}

Output RowShapeOf(Output x) {
  const PartialShape& known = x.valid() ? x.shape() : PartialShape();
  if (known.rank() >= 1) {
    const PartialShape row = array::SubShape(known, 1, known.rank());
    if (row.fully_known()) {
      std::vector<int32_t> dims;
      bool fit = true;
      for (const int64_t d : row.dims()) {
        fit = fit && d <= INT32_MAX;
        dims.push_back(static_cast<int32_t>(d));
      }
      if (fit) return IntVector(dims);
    }
  }
  return Build("Slice", {grad::ShapeOf(x), IntVector({1}), IntVector({-1})});
}

}  // namespace sluice::tensor_list
