// TensorLists, item by item: creating lists, pushing, popping, reading and
// writing. (Conversion of whole lists: tensor_list_join.cc.)
#include <utility>

#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/tensor_array/tensor_list.h"
#include "ops/tensor_array/tensor_list_items.h"

namespace sluice {
namespace {

using tensor_list::IntInput;
using tensor_list::ItemShape;
using tensor_list::ListKernel;
using tensor_list::ShapeOfItems;
using tensor_list::ZerosForItem;

// ---- Kernels ----------------------------------------------------------------

class EmptyListKernel : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(PartialShape shape,
                            PartialShapeFrom(ctx.input(0), "element_shape"));
    SLUICE_ASSIGN_OR_RETURN(const int32_t most,
                            IntInput(ctx, 1, "max_num_elements"));
    SLUICE_ASSIGN_OR_RETURN(auto list, NewList(dtype_, std::move(shape), 0));
    list->max_size = most;
    ctx.set_output(0, ListTensor(std::move(list)));
    return OkStatus();
  }
};

class ReserveKernel : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(PartialShape shape,
                            PartialShapeFrom(ctx.input(0), "element_shape"));
    SLUICE_ASSIGN_OR_RETURN(const int32_t size,
                            IntInput(ctx, 1, "num_elements"));
    if (size < 0)
      return InvalidArgument("num_elements: expected at least 0, got ", size);
    SLUICE_ASSIGN_OR_RETURN(auto list, NewList(dtype_, std::move(shape), size));
    ctx.set_output(0, ListTensor(std::move(list)));
    return OkStatus();
  }
};

class PushBackKernel : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const TensorList* list, ListInput(ctx, 0, dtype_));
    SLUICE_RETURN_IF_ERROR(CheckItem(*list, ctx.input(1).shape()));
    if (list->max_size >= 0 && list->size() >= list->max_size)
      return InvalidArgument("list: expected at most ", list->max_size,
                             " items (max_num_elements), got one more");
    SLUICE_ASSIGN_OR_RETURN(Tensor item, ctx.TakeToKeep(1));
    SLUICE_ASSIGN_OR_RETURN(TensorList * own, MutableList(ctx, dtype_));
    own->items.push_back(std::move(item));
    return OkStatus();
  }
};

class PopBackKernel : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const TensorList* list, ListInput(ctx, 0, dtype_));
    if (list->items.empty())
      return InvalidArgument(
          "list: expected an item to pop, got an empty list");
    const Tensor& last = list->items.back();
    Tensor zeros;
    if (!last.valid()) {
      SLUICE_ASSIGN_OR_RETURN(const PartialShape shape,
                              ElementShape(*list, ctx.input(1)));
      SLUICE_ASSIGN_OR_RETURN(zeros, ZerosForItem(*list, shape));
    }
    SLUICE_ASSIGN_OR_RETURN(TensorList * own, MutableList(ctx, dtype_));
    ctx.set_output(
        1, zeros.valid() ? std::move(zeros) : std::move(own->items.back()));
    own->items.pop_back();
    return OkStatus();
  }
};

Status NoSuchItem(const TensorList& list, int64_t index) {
  return InvalidArgument("index: expected one in [0, ", list.size(), "), got ",
                         index);
}

class GetItemKernel : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const TensorList* list, ListInput(ctx, 0, dtype_));
    SLUICE_ASSIGN_OR_RETURN(const int32_t index, IntInput(ctx, 1, "index"));
    if (index < 0 || index >= list->size()) return NoSuchItem(*list, index);
    const Tensor& item = list->items[static_cast<size_t>(index)];
    if (item.valid()) {
      ctx.set_output(0, item);
      return OkStatus();
    }
    SLUICE_ASSIGN_OR_RETURN(PartialShape shape,
                            ElementShape(*list, ctx.input(2)));
    if (!shape.fully_known()) {
      // The other items provide the shape if they all have the same one.
      SLUICE_ASSIGN_OR_RETURN(shape, ItemShape(*list, shape));
    }
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0), ZerosForItem(*list, shape));
    return OkStatus();
  }
};

class SetItemKernel : public ListKernel {
 public:
  explicit SetItemKernel(const Node& n)
      : ListKernel(n), resize_(n.BoolAttr("resize_if_index_out_of_bounds")) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const TensorList* list, ListInput(ctx, 0, dtype_));
    SLUICE_ASSIGN_OR_RETURN(const int32_t index, IntInput(ctx, 1, "index"));
    if (index < 0 || (index >= list->size() && !resize_))
      return NoSuchItem(*list, index);
    SLUICE_RETURN_IF_ERROR(CheckItem(*list, ctx.input(2).shape()));
    SLUICE_ASSIGN_OR_RETURN(Tensor item, ctx.TakeToKeep(2));
    SLUICE_ASSIGN_OR_RETURN(TensorList * own, MutableList(ctx, dtype_));
    if (index >= own->size())
      SLUICE_RETURN_IF_ERROR(ResizeList(own, int64_t{index} + 1));
    own->items[static_cast<size_t>(index)] = std::move(item);
    return OkStatus();
  }

 private:
  const bool resize_;
};

Status RunLength(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const TensorList* list, ListInput(ctx, 0));
  ctx.output(0).SetScalar(static_cast<int32_t>(list->size()));
  return OkStatus();
}

class ElementShapeKernel {
 public:
  explicit ElementShapeKernel(const Node& n)
      : dtype_(n.TypeAttr("shape_type")) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const TensorList* list, ListInput(ctx, 0));
    const PartialShape& shape = list->element_shape;
    if (!shape.rank_known()) {
      SLUICE_ASSIGN_OR_RETURN(ctx.output(0), ScalarTensor(dtype_, -1));
      return OkStatus();
    }
    SLUICE_ASSIGN_OR_RETURN(
        ctx.output(0), array::IntTensor(dtype_, array::SpanOf(shape.dims())));
    return OkStatus();
  }

 private:
  const DType dtype_;
};

Status RunResize(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const int32_t size, IntInput(ctx, 1, "size"));
  if (size < 0) return InvalidArgument("size: expected at least 0, got ", size);
  SLUICE_ASSIGN_OR_RETURN(TensorList * own, MutableList(ctx));
  return ResizeList(own, size);
}

// Concatenates lists a[i] and b[i], for each i.
class ConcatListsKernel : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status Run(KernelContext& ctx) {
    const Tensor &a = ctx.input(0), &b = ctx.input(1);
    if (!(a.shape() == b.shape()))
      return InvalidArgument("input_b: expected the shape of input_a, ",
                             a.shape().ToString(), ", got ",
                             b.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Make(DType::kVariant, a.shape()));
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      const TensorList* first = AsList(a.raw<Variant>()[i]);
      const TensorList* second = AsList(b.raw<Variant>()[i]);
      if (first == nullptr || second == nullptr)
        return InvalidArgument("inputs: expected TensorLists, got ",
                               a.ToString(), " and ", b.ToString());
      for (const TensorList* l : {first, second})
        if (l->dtype != dtype_)
          return InvalidArgument("inputs: expected lists of ",
                                 DTypeName(dtype_), ", got one of ",
                                 DTypeName(l->dtype));
      Result<PartialShape> shape =
          first->element_shape.MergeWith(second->element_shape);
      if (!shape.ok())
        return InvalidArgument("input_b: expected items of shape ",
                               first->element_shape.ToString(), ", got ",
                               second->element_shape.ToString());
      auto joined = std::make_shared<TensorList>(*first);
      joined->element_shape = *std::move(shape);
      joined->items.insert(joined->items.end(), second->items.begin(),
                           second->items.end());
      out.raw<Variant>()[i] = Variant(std::move(joined));
    }
    ctx.set_output(0, std::move(out));
    return OkStatus();
  }
};

// Pushes row i of the tensor to list i.
class PushBackBatchKernel : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status Run(KernelContext& ctx) {
    const Tensor &lists = ctx.input(0), &rows = ctx.input(1);
    const auto batch = lists.shape().dims();
    const auto dims = rows.shape().dims();
    if (dims.size() < batch.size() ||
        !std::equal(batch.begin(), batch.end(), dims.begin()))
      return InvalidArgument(
          "tensor: expected a shape that begins with that "
          "of the lists, ",
          lists.shape().ToString(), ", got ", rows.shape().ToString());
    const Shape item(dims.subspan(batch.size()));
    SLUICE_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Make(DType::kVariant, lists.shape()));
    const int64_t n = lists.num_elements();
    for (int64_t i = 0; i < n; ++i) {
      const TensorList* list = AsList(lists.raw<Variant>()[i]);
      if (list == nullptr || list->dtype != dtype_)
        return InvalidArgument("input_handles: expected lists of ",
                               DTypeName(dtype_), ", got ", lists.ToString());
      SLUICE_RETURN_IF_ERROR(CheckItem(*list, item));
      if (list->max_size >= 0 && list->size() >= list->max_size)
        return InvalidArgument("list: expected at most ", list->max_size,
                               " items (max_num_elements), got one more");
      auto longer = std::make_shared<TensorList>(*list);
      // A copy, since a shared row would keep the whole tensor alive.
      SLUICE_ASSIGN_OR_RETURN(Tensor row, Tensor::Make(dtype_, item));
      array::CopyRun(dtype_,
                     array::At(dtype_, rows.raw(), i * item.num_elements()),
                     row.raw(), item.num_elements());
      longer->items.push_back(std::move(row));
      out.raw<Variant>()[i] = Variant(std::move(longer));
    }
    ctx.set_output(0, std::move(out));
    return OkStatus();
  }
};

// ---- Shapes -----------------------------------------------------------------

Status MakeListShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(0, 1).status());
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  return ScalarShape(c);
}

Status ListOnlyShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  return ScalarShape(c);
}

Status PopBackShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  c.set_output(0, PartialShape::Scalar());
  SLUICE_ASSIGN_OR_RETURN(PartialShape item, ShapeOfItems(c, 1));
  c.set_output(1, std::move(item));
  return OkStatus();
}

Status GetItemShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  SLUICE_ASSIGN_OR_RETURN(PartialShape item, ShapeOfItems(c, 2));
  c.set_output(0, std::move(item));
  return OkStatus();
}

Status SetItemShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  return ScalarShape(c);
}

Status ElementShapeShape(ShapeContext& c) {
  return c.RequireScalar(0);  // A vector, or the scalar -1.
}

Status ConcatListsShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape both, c.input(0).MergeWith(c.input(1)));
  c.set_output(0, std::move(both));
  return OkStatus();
}

// ---- Gradients --------------------------------------------------------------

Status PushBackGrad(GradContext& c) {
  Node* n = BuildNode("TensorListPopBack", {c.dy[0], grad::ShapeOf(c.input(1))},
                      {{"element_dtype", c.op->TypeAttr("element_dtype")}});
  if (n == nullptr) return OkStatus();
  c.grads[0] = Output(n, 0);
  c.grads[1] = Output(n, 1);
  return OkStatus();
}

Status PopBackGrad(GradContext& c) {
  c.grads[0] = Build("TensorListPushBack", {c.DyOrZeros(0), c.DyOrZeros(1)},
                     {{"element_dtype", c.op->TypeAttr("element_dtype")}});
  return OkStatus();
}

Status GetItemGrad(GradContext& c) {
  c.grads[0] = Build(
      "TensorListSetItem",
      {tensor_list::UnsetLike(c.input(0), c.op->TypeAttr("element_dtype")),
       c.input(1), c.dy[0]});
  return OkStatus();
}

Status SetItemGrad(GradContext& c) {
  const DType t = c.op->TypeAttr("element_dtype");
  Output list = Build("TensorListSetItem",
                      {c.dy[0], c.input(1), grad::ZerosLike(c.input(2))});
  if (c.op->BoolAttr("resize_if_index_out_of_bounds"))
    list = Build("TensorListResize",
                 {list, Build("TensorListLength", {c.input(0)})});
  c.grads[0] = list;
  if (IsFloating(t) || IsComplex(t) || t == DType::kVariant)
    c.grads[2] = Build("TensorListGetItem",
                       {c.dy[0], c.input(1), grad::ShapeOf(c.input(2))},
                       {{"element_dtype", t}});
  return OkStatus();
}

Status ResizeGrad(GradContext& c) {
  c.grads[0] = Build("TensorListResize",
                     {c.dy[0], Build("TensorListLength", {c.input(0)})});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(EmptyTensorList)
    .Input("element_shape: shape_type")
    .Input("max_num_elements: int32")
    .Output("handle: variant")
    .Attr("element_dtype: type")
    .Attr("shape_type: {int32, int64}")
    .Family("tensor_array")
    .Shape(MakeListShape)
    .Kernel(CpuState<EmptyListKernel>())
    .NoGradient("it creates a list without values")
    .Doc("Returns an empty list of tensors.");

SLUICE_OP(TensorListReserve)
    .Input("element_shape: shape_type")
    .Input("num_elements: int32")
    .Output("handle: variant")
    .Attr("element_dtype: type")
    .Attr("shape_type: {int32, int64}")
    .Family("tensor_array")
    .Shape(MakeListShape)
    .Kernel(CpuState<ReserveKernel>())
    .NoGradient("it creates a list without values")
    .Doc("Returns a list of unset items, which read as zeros.");

SLUICE_OP(TensorListPushBack)
    .Input("input_handle: variant")
    .Input("tensor: element_dtype")
    .Output("output_handle: variant")
    .Attr("element_dtype: type")
    .Family("tensor_array")
    .Shape(ListOnlyShape)
    .Kernel(CpuState<PushBackKernel>())
    .Grad(PushBackGrad)
    .Doc("Appends an item to a list.");

SLUICE_OP(TensorListPopBack)
    .Input("input_handle: variant")
    .Input("element_shape: int32")
    .Output("output_handle: variant")
    .Output("tensor: element_dtype")
    .Attr("element_dtype: type")
    .Family("tensor_array")
    .Shape(PopBackShape)
    .Kernel(CpuState<PopBackKernel>())
    .Grad(PopBackGrad)
    .Doc("Removes the last item of a list and returns it.");

SLUICE_OP(TensorListGetItem)
    .Input("input_handle: variant")
    .Input("index: int32")
    .Input("element_shape: Tshape")
    .Output("item: element_dtype")
    .Attr("element_dtype: type")
    .Attr("Tshape: {int32, int64} = DT_INT32")
    .Family("tensor_array")
    .Shape(GetItemShape)
    .Kernel(CpuState<GetItemKernel>())
    .Grad(GetItemGrad)
    .Doc("Returns one item of a list.");

SLUICE_OP(TensorListSetItem)
    .Input("input_handle: variant")
    .Input("index: int32")
    .Input("item: element_dtype")
    .Output("output_handle: variant")
    .Attr("element_dtype: type")
    .Attr("resize_if_index_out_of_bounds: bool = false")
    .Family("tensor_array")
    .Shape(SetItemShape)
    .Kernel(CpuState<SetItemKernel>())
    .Grad(SetItemGrad)
    .Doc("Replaces one item of a list.");

SLUICE_OP(TensorListLength)
    .Input("input_handle: variant")
    .Output("length: int32")
    .Family("tensor_array")
    .Shape(ListOnlyShape)
    .Kernel(Cpu(RunLength))
    .NoGradient("its output is an integer")
    .Doc("Returns the number of items of a list.");

SLUICE_OP(TensorListElementShape)
    .Input("input_handle: variant")
    .Output("element_shape: shape_type")
    .Attr("shape_type: {int32, int64}")
    .Family("tensor_array")
    .Shape(ElementShapeShape)
    .Kernel(CpuState<ElementShapeKernel>())
    .NoGradient("its outputs are integers")
    .Doc(
        "Returns the common shape of a list's items, with -1 for unknown "
        "dimensions, or the scalar -1 for an unknown rank.");

SLUICE_OP(TensorListResize)
    .Input("input_handle: variant")
    .Input("size: int32")
    .Output("output_handle: variant")
    .Family("tensor_array")
    .Shape(ListOnlyShape)
    .Kernel(Cpu(RunResize))
    .Grad(ResizeGrad)
    .Doc("Truncates a list, or extends it with unset items.");

SLUICE_OP(TensorListConcatLists)
    .Input("input_a: variant")
    .Input("input_b: variant")
    .Output("output: variant")
    .Attr("element_dtype: type")
    .Family("tensor_array")
    .Shape(ConcatListsShape)
    .Kernel(CpuState<ConcatListsKernel>())
    .Grad(grad::Undefined)
    .Doc("Concatenates lists in pairs.");

SLUICE_OP(TensorListPushBackBatch)
    .Input("input_handles: variant")
    .Input("tensor: element_dtype")
    .Output("output_handles: variant")
    .Attr("element_dtype: type")
    .Family("tensor_array")
    .Shape(UnchangedShape)
    .Kernel(CpuState<PushBackBatchKernel>())
    .Grad(grad::Undefined)
    .Doc("Appends row i of a tensor to list i.");

}  // namespace
}  // namespace sluice
