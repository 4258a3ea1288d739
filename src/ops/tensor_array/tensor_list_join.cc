// Conversion between TensorLists and tensors: stacking, concatenating and
// gathering lists into a tensor, and splitting tensors into lists.
#include <algorithm>
#include <utility>

#include "base/parallel.h"
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

using array::At;
using tensor_list::IntInput;
using tensor_list::ItemShape;
using tensor_list::ListKernel;
using tensor_list::RowShapeOf;
using tensor_list::ShapeOfItems;

// ---- Items to a tensor ------------------------------------------------------

// One item to be copied into a tensor; null if it is unset.
struct Part {
  const Tensor* item;
  int64_t start, elements;
};

// Writes the parts to `out`, with zeros for unset items.
void WriteParts(DType type, std::span<const Part> parts, Tensor* out) {
  const auto n = static_cast<int64_t>(parts.size());
  const int64_t mean = out->num_elements() / std::max<int64_t>(1, n);
  void* to = out->raw();
  ParallelFor(n, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, mean)),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  const Part& p = parts[static_cast<size_t>(i)];
                  if (p.elements == 0) continue;
                  void* at = At(type, to, p.start);
                  if (p.item == nullptr)
                    array::ZeroRun(type, at, p.elements);
                  else
                    array::CopyRun(type, p.item->raw(), at, p.elements);
                }
              });
}

// Stacks the items at `indices` (null: all) along a new first dimension, as
// output 0.
Status StackItems(KernelContext& ctx, const TensorList& list,
                  const Tensor* indices, PartialShape shape) {
  const int64_t n = indices == nullptr ? list.size() : indices->num_elements();
  std::vector<Part> parts(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = indices == nullptr ? i : indices->raw<int32_t>()[i];
    if (at < 0 || at >= list.size())
      return InvalidArgument("indices[", i, "]: expected one in [0, ",
                             list.size(), "), got ", at);
    const Tensor& item = list.items[static_cast<size_t>(at)];
    parts[static_cast<size_t>(i)].item = item.valid() ? &item : nullptr;
    if (!item.valid()) continue;
    Result<PartialShape> merged = shape.MergeWith(item.shape());
    if (!merged.ok())
      return InvalidArgument("list: expected items of shape ", shape.ToString(),
                             ", got ", item.shape().ToString(), " at index ",
                             at);
    shape = *std::move(merged);
  }
  if (!shape.fully_known()) {
    // Items that are not gathered may provide the shape too.
    SLUICE_ASSIGN_OR_RETURN(shape, ItemShape(list, shape));
  }
  if (!shape.fully_known())
    return InvalidArgument(
        "list: expected an item that was set, or a fully known element_shape, "
        "got none and ",
        shape.ToString());
  SLUICE_ASSIGN_OR_RETURN(const Shape item, shape.ToShape());
  Dims dims = {n};
  dims.insert(dims.end(), item.dims().begin(), item.dims().end());
  SLUICE_ASSIGN_OR_RETURN(const Shape whole, array::MakeShape(dims));
  if (n == 1 && parts[0].item != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0), parts[0].item->Reshaped(whole));
    return OkStatus();
  }
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, list.dtype, whole));
  for (int64_t i = 0; i < n; ++i) {
    Part& p = parts[static_cast<size_t>(i)];
    p.elements = item.num_elements();
    p.start = i * p.elements;
  }
  WriteParts(list.dtype, parts, &ctx.output(0));
  return OkStatus();
}

class StackKernel : public ListKernel {
 public:
  explicit StackKernel(const Node& n)
      : ListKernel(n), expected_(n.IntAttr("num_elements")) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const TensorList* list, ListInput(ctx, 0, dtype_));
    if (expected_ >= 0 && list->size() != expected_)
      return InvalidArgument("list: expected ", expected_,
                             " items (num_elements), got ", list->size());
    SLUICE_ASSIGN_OR_RETURN(PartialShape shape,
                            ElementShape(*list, ctx.input(1)));
    return StackItems(ctx, *list, nullptr, std::move(shape));
  }

 private:
  const int64_t expected_;
};

class ListGatherKernel : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const TensorList* list, ListInput(ctx, 0, dtype_));
    if (ctx.input(1).rank() != 1)
      return InvalidArgument("indices: expected a vector, got shape ",
                             ctx.input(1).shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(PartialShape shape,
                            ElementShape(*list, ctx.input(2)));
    return StackItems(ctx, *list, &ctx.input(1), std::move(shape));
  }
};

// Concatenates along the first dimension. TensorListConcatV2 receives the shape
// of the items and the length of unset ones as inputs; TensorListConcat has the
// shape as an attribute.
class ListConcatKernel : public ListKernel {
 public:
  explicit ListConcatKernel(const Node& n)
      : ListKernel(n),
        shape_(n.AttrOr<PartialShape>("element_shape", PartialShape())) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const TensorList* list, ListInput(ctx, 0, dtype_));
    PartialShape given = shape_;
    std::span<const int64_t> leading;
    if (ctx.num_inputs() > 1) {
      SLUICE_ASSIGN_OR_RETURN(given,
                              PartialShapeFrom(ctx.input(1), "element_shape"));
      if (ctx.input(2).rank() != 1)
        return InvalidArgument("leading_dims: expected a vector, got shape ",
                               ctx.input(2).shape().ToString());
      leading = ctx.input(2).raw_flat<int64_t>();
    }
    // The common shape of all items: all dimensions but the first.
    int64_t first = -1;
    PartialShape rest;
    SLUICE_RETURN_IF_ERROR(Narrow(given, &first, &rest));
    SLUICE_RETURN_IF_ERROR(Narrow(list->element_shape, &first, &rest));
    for (const Tensor& item : list->items) {
      int64_t own = -1;
      if (item.valid())
        SLUICE_RETURN_IF_ERROR(Narrow(item.shape(), &own, &rest));
    }
    if (!rest.fully_known())
      return InvalidArgument(
          "list: expected an item that was set, or an element_shape known "
          "except "
          "in the first dimension, got none and ",
          rest.ToString());
    std::vector<Part> parts;
    parts.reserve(list->items.size());
    SLUICE_RETURN_IF_ERROR(
        ctx.Allocate(1, DType::kInt64, Shape({list->size()})));
    int64_t rows = 0;
    for (size_t i = 0; i < list->items.size(); ++i) {
      const Tensor& item = list->items[i];
      int64_t length = first;
      if (i < leading.size()) length = leading[i];
      if (item.valid()) length = item.dim(0);
      if (length < 0)
        return InvalidArgument("item ", i,
                               ": expected one that was set, or its length in "
                               "leading_dims, got neither");
      ctx.output(1).raw<int64_t>()[i] = length;
      parts.push_back({item.valid() ? &item : nullptr, rows, length});
      if (__builtin_add_overflow(rows, length, &rows))
        return InvalidArgument(
            "leading_dims: expected a sum that fits in 63 "
            "bits");
    }
    PartialShape whole = {rows};
    for (const int64_t d : rest.dims()) whole.add_dim(d);
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, whole.ToShape());
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, dtype_, shape));
    if (shape.num_elements() == 0) return OkStatus();
    const int64_t row = shape.num_elements() / rows;
    for (Part& p : parts) {
      p.start *= row;
      p.elements *= row;
    }
    WriteParts(dtype_, parts, &ctx.output(0));
    return OkStatus();
  }

 private:
  static Status Narrow(const PartialShape& s, int64_t* first,
                       PartialShape* rest) {
    if (!s.rank_known()) return OkStatus();
    if (s.rank() < 1)
      return InvalidArgument(
          "list: expected items of rank at least 1, got scalars");
    if (s.dim(0) >= 0) *first = s.dim(0);
    Result<PartialShape> merged =
        rest->MergeWith(array::SubShape(s, 1, s.rank()));
    if (!merged.ok())
      return InvalidArgument(
          "list: expected items of equal shapes except in the "
          "first dimension, got ",
          rest->ToString(), " and ", s.ToString());
    *rest = *std::move(merged);
    return OkStatus();
  }
  const PartialShape shape_;
};

// ---- Tensors to items -------------------------------------------------------

// Row `i` of t, without its first dimension, sharing t's memory.
Result<Tensor> Row(const Tensor& t, int64_t i, const Shape& shape) {
  return t.Rows(i, i + 1).Reshaped(shape);
}

Status RequireRows(const Tensor& t) {
  return t.rank() >= 1 ? OkStatus()
                       : InvalidArgument(
                             "tensor: expected rank at least 1, got a scalar");
}

Status RequireVector(const Tensor& t, const char* what) {
  return t.rank() == 1
             ? OkStatus()
             : InvalidArgument(what, ": expected a vector, got shape ",
                               t.shape().ToString());
}

Status Misfit(const PartialShape& declared, const Shape& item) {
  return InvalidArgument("element_shape: expected one that fits ",
                         item.ToString(), ", got ", declared.ToString());
}

class FromTensorKernel : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const Tensor t, ctx.TakeToKeep(0));
    SLUICE_RETURN_IF_ERROR(RequireRows(t));
    SLUICE_ASSIGN_OR_RETURN(PartialShape declared,
                            PartialShapeFrom(ctx.input(1), "element_shape"));
    const Shape item(t.shape().dims().subspan(1));
    if (!declared.CompatibleWith(item)) return Misfit(declared, item);
    SLUICE_ASSIGN_OR_RETURN(auto list,
                            NewList(dtype_, std::move(declared), t.dim(0)));
    for (int64_t i = 0; i < t.dim(0); ++i) {
      SLUICE_ASSIGN_OR_RETURN(list->items[static_cast<size_t>(i)],
                              Row(t, i, item));
    }
    ctx.set_output(0, ListTensor(std::move(list)));
    return OkStatus();
  }
};

// Sets item indices[i] of a sufficiently long list to row i of t.
Status ScatterRows(const Tensor& t, const Tensor& indices, const Shape& item,
                   TensorList* list) {
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(
        list->items[static_cast<size_t>(indices.raw<int32_t>()[i])],
        Row(t, i, item));
  }
  return OkStatus();
}

// Checks rows against indices; returns the highest index, -1 if there is none.
Result<int64_t> HighestIndex(const Tensor& t, const Tensor& indices) {
  SLUICE_RETURN_IF_ERROR(RequireRows(t));
  SLUICE_RETURN_IF_ERROR(RequireVector(indices, "indices"));
  if (t.dim(0) != indices.dim(0))
    return InvalidArgument("tensor: expected a row per index, ", indices.dim(0),
                           ", got ", t.dim(0));
  int64_t most = -1;
  for (const int32_t i : indices.raw_flat<int32_t>()) {
    if (i < 0)
      return InvalidArgument("indices: expected none below 0, got ", i);
    most = std::max<int64_t>(most, i);
  }
  return most;
}

class ScatterKernel : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const Tensor t, ctx.TakeToKeep(0));
    const Tensor& indices = ctx.input(1);
    SLUICE_ASSIGN_OR_RETURN(const int64_t most, HighestIndex(t, indices));
    SLUICE_ASSIGN_OR_RETURN(PartialShape declared,
                            PartialShapeFrom(ctx.input(2), "element_shape"));
    const Shape item(t.shape().dims().subspan(1));
    if (!declared.CompatibleWith(item)) return Misfit(declared, item);
    int64_t size = -1;
    if (ctx.num_inputs() > 3) {
      SLUICE_ASSIGN_OR_RETURN(size, IntInput(ctx, 3, "num_elements"));
    }
    if (size < -1)
      return InvalidArgument("num_elements: expected at least -1, got ", size);
    if (size >= 0 && most >= size)
      return InvalidArgument("indices: expected values in [0, ", size,
                             "), got ", most);
    SLUICE_ASSIGN_OR_RETURN(auto list, NewList(dtype_, std::move(declared),
                                               size >= 0 ? size : most + 1));
    SLUICE_RETURN_IF_ERROR(ScatterRows(t, indices, item, list.get()));
    ctx.set_output(0, ListTensor(std::move(list)));
    return OkStatus();
  }
};

class ScatterIntoKernel : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const TensorList* list, ListInput(ctx, 0, dtype_));
    SLUICE_ASSIGN_OR_RETURN(const Tensor t, ctx.TakeToKeep(1));
    const Tensor& indices = ctx.input(2);
    SLUICE_ASSIGN_OR_RETURN(const int64_t most, HighestIndex(t, indices));
    const Shape item(t.shape().dims().subspan(1));
    SLUICE_RETURN_IF_ERROR(CheckItem(*list, item));
    SLUICE_ASSIGN_OR_RETURN(TensorList * own, MutableList(ctx, dtype_));
    if (most >= own->size()) SLUICE_RETURN_IF_ERROR(ResizeList(own, most + 1));
    return ScatterRows(t, indices, item, own);
  }
};

class ListSplitKernel : public ListKernel {
 public:
  using ListKernel::ListKernel;
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const Tensor t, ctx.TakeToKeep(0));
    const Tensor& lengths = ctx.input(2);
    SLUICE_RETURN_IF_ERROR(RequireRows(t));
    SLUICE_RETURN_IF_ERROR(RequireVector(lengths, "lengths"));
    SLUICE_ASSIGN_OR_RETURN(PartialShape declared,
                            PartialShapeFrom(ctx.input(1), "element_shape"));
    int64_t total = 0;
    for (const int64_t l : lengths.raw_flat<int64_t>())
      if (l < 0 || __builtin_add_overflow(total, l, &total))
        return InvalidArgument("lengths: expected values >= 0, got ", l);
    if (total != t.dim(0))
      return InvalidArgument("lengths: expected the sum ", t.dim(0),
                             ", the number of rows, got ", total);
    SLUICE_ASSIGN_OR_RETURN(auto list, NewList(dtype_, std::move(declared),
                                               lengths.num_elements()));
    int64_t row = 0;
    for (size_t i = 0; i < list->items.size(); ++i) {
      const int64_t end = row + lengths.raw<int64_t>()[i];
      list->items[i] = t.Rows(row, end);
      SLUICE_RETURN_IF_ERROR(CheckItem(*list, list->items[i].shape()));
      row = end;
    }
    ctx.set_output(0, ListTensor(std::move(list)));
    return OkStatus();
  }
};

// ---- Shapes -----------------------------------------------------------------

Status StackShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape item, ShapeOfItems(c, 1));
  c.set_output(0, array::JoinShapes({c.node().IntAttr("num_elements")}, item));
  return OkStatus();
}

Status ListGatherShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape indices, c.WithRank(1, 1));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape item, ShapeOfItems(c, 2));
  c.set_output(0, array::JoinShapes({indices.dim(0)}, item));
  return OkStatus();
}

Status ListConcatShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  PartialShape item =
      c.node().AttrOr<PartialShape>("element_shape", PartialShape());
  if (c.num_inputs() > 1) {
    SLUICE_ASSIGN_OR_RETURN(item, c.InputAsShape(1));
  }
  // (Scalars cannot be joined: an error of the kernel, as in TensorFlow.)
  if (item.rank() == 0) item = PartialShape();
  if (item.rank_known()) item.set_dim(0, -1);
  c.set_output(0, item);
  c.set_output(1, {-1});
  return OkStatus();
}

Status FromTensorShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRankAtLeast(0, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(1, 1).status());
  return ScalarShape(c);
}

Status ListScatterShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRankAtLeast(0, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(2, 1).status());
  if (c.num_inputs() > 3) SLUICE_RETURN_IF_ERROR(c.RequireScalar(3));
  return ScalarShape(c);
}

Status ScatterIntoShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_RETURN_IF_ERROR(c.WithRankAtLeast(1, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(2, 1).status());
  return ScalarShape(c);
}

Status ListSplitShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRankAtLeast(0, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(2, 1).status());
  return ScalarShape(c);
}

// ---- Gradients --------------------------------------------------------------

bool ListHasGradients(DType t) {
  return IsFloating(t) || IsComplex(t) || t == DType::kVariant;
}

Status StackGrad(GradContext& c) {
  c.grads[0] = Build("TensorListFromTensor", {c.dy[0], RowShapeOf(c.dy[0])});
  return OkStatus();
}

Status FromTensorGrad(GradContext& c) {
  const DType t = c.op->TypeAttr("element_dtype");
  if (!ListHasGradients(t)) return OkStatus();
  const PartialShape& rows = c.input(0).shape();
  c.grads[0] = Build("TensorListStack", {c.dy[0], RowShapeOf(c.input(0))},
                     {{"element_dtype", t},
                      {"num_elements", rows.rank() >= 1 ? rows.dim(0) : -1}});
  return OkStatus();
}

// An item that was gathered several times gets the sum of the gradients.
Status ListGatherGrad(GradContext& c) {
  Node* items = BuildNode("Unique", {c.input(1)});
  if (items == nullptr) return OkStatus();
  const Output sums =
      Build("UnsortedSegmentSum",
            {c.dy[0], Output(items, 1), grad::SizeOf(Output(items, 0))});
  c.grads[0] = Build(
      "TensorListScatterIntoExistingList",
      {tensor_list::UnsetLike(c.input(0), c.op->TypeAttr("element_dtype")),
       sums, Output(items, 0)});
  return OkStatus();
}

Status ListScatterGrad(GradContext& c) {
  const DType t = c.op->TypeAttr("element_dtype");
  if (ListHasGradients(t))
    c.grads[0] =
        Build("TensorListGather", {c.dy[0], c.input(1), RowShapeOf(c.input(0))},
              {{"element_dtype", t}});
  return OkStatus();
}

Status ScatterIntoGrad(GradContext& c) {
  const DType t = c.op->TypeAttr("element_dtype");
  c.grads[0] = Build("TensorListResize",
                     {Build("TensorListScatterIntoExistingList",
                            {c.dy[0], grad::ZerosLike(c.input(1)), c.input(2)}),
                      Build("TensorListLength", {c.input(0)})});
  if (ListHasGradients(t))
    c.grads[1] =
        Build("TensorListGather", {c.dy[0], c.input(2), RowShapeOf(c.input(1))},
              {{"element_dtype", t}});
  return OkStatus();
}

Status ListConcatGrad(GradContext& c) {
  if (!c.dy[0].valid()) return OkStatus();
  c.grads[0] =
      Build("TensorListSplit", {c.dy[0],
                                Build("TensorListElementShape", {c.input(0)},
                                      {{"shape_type", DType::kInt32}}),
                                c.output(1)});
  return OkStatus();
}

Status ListSplitGrad(GradContext& c) {
  const DType t = c.op->TypeAttr("element_dtype");
  if (!ListHasGradients(t)) return OkStatus();
  const Output shape =
      Build("ConcatV2",
            {IntVector({-1}), RowShapeOf(c.input(0)), Constant(int32_t{0})});
  c.grads[0] = Build("TensorListConcatV2", {c.dy[0], shape, c.input(2)},
                     {{"element_dtype", t}});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(TensorListStack)
    .Input("input_handle: variant")
    .Input("element_shape: int32")
    .Output("tensor: element_dtype")
    .Attr("element_dtype: type")
    .Attr("num_elements: int = -1")
    .Family("tensor_array")
    .Shape(StackShape)
    .Kernel(CpuState<StackKernel>(/*expensive=*/true))
    .Grad(StackGrad)
    .Doc("Stacks the items of a list along a new first dimension.");

SLUICE_OP(TensorListGather)
    .Input("input_handle: variant")
    .Input("indices: int32")
    .Input("element_shape: int32")
    .Output("values: element_dtype")
    .Attr("element_dtype: type")
    .Family("tensor_array")
    .Shape(ListGatherShape)
    .Kernel(CpuState<ListGatherKernel>(/*expensive=*/true))
    .Grad(ListGatherGrad)
    .Doc("Stacks some items of a list along a new first dimension.");

SLUICE_OP(TensorListConcat)
    .Input("input_handle: variant")
    .Output("tensor: element_dtype")
    .Output("lengths: int64")
    .Attr("element_dtype: type")
    .Attr("element_shape: shape = { unknown_rank: true }")
    .Family("tensor_array")
    .Shape(ListConcatShape)
    .Kernel(CpuState<ListConcatKernel>(/*expensive=*/true))
    .Grad(ListConcatGrad)
    .Doc("Older version of TensorListConcatV2.");

SLUICE_OP(TensorListConcatV2)
    .Input("input_handle: variant")
    .Input("element_shape: shape_type")
    .Input("leading_dims: int64")
    .Output("tensor: element_dtype")
    .Output("lengths: int64")
    .Attr("element_dtype: type")
    .Attr("shape_type: {int32, int64}")
    .Family("tensor_array")
    .Shape(ListConcatShape)
    .Kernel(CpuState<ListConcatKernel>(/*expensive=*/true))
    .Grad(ListConcatGrad)
    .Doc(
        "Concatenates the items of a list along their first dimension, and "
        "returns the length of each.");

SLUICE_OP(TensorListFromTensor)
    .Input("tensor: element_dtype")
    .Input("element_shape: shape_type")
    .Output("output_handle: variant")
    .Attr("element_dtype: type")
    .Attr("shape_type: {int32, int64}")
    .Family("tensor_array")
    .Shape(FromTensorShape)
    .Kernel(CpuState<FromTensorKernel>())
    .Grad(FromTensorGrad)
    .Doc("Returns a list of the rows of a tensor.");

SLUICE_OP(TensorListScatter)
    .Input("tensor: element_dtype")
    .Input("indices: int32")
    .Input("element_shape: shape_type")
    .Output("output_handle: variant")
    .Attr("element_dtype: type")
    .Attr("shape_type: {int32, int64}")
    .Family("tensor_array")
    .Shape(ListScatterShape)
    .Kernel(CpuState<ScatterKernel>())
    .Grad(ListScatterGrad)
    .Doc("Older version of TensorListScatterV2.");

SLUICE_OP(TensorListScatterV2)
    .Input("tensor: element_dtype")
    .Input("indices: int32")
    .Input("element_shape: shape_type")
    .Input("num_elements: int32")
    .Output("output_handle: variant")
    .Attr("element_dtype: type")
    .Attr("shape_type: {int32, int64}")
    .Family("tensor_array")
    .Shape(ListScatterShape)
    .Kernel(CpuState<ScatterKernel>())
    .Grad(ListScatterGrad)
    .Doc(
        "Returns a list whose items at the given indices are the rows of a "
        "tensor.");

SLUICE_OP(TensorListScatterIntoExistingList)
    .Input("input_handle: variant")
    .Input("tensor: element_dtype")
    .Input("indices: int32")
    .Output("output_handle: variant")
    .Attr("element_dtype: type")
    .Family("tensor_array")
    .Shape(ScatterIntoShape)
    .Kernel(CpuState<ScatterIntoKernel>())
    .Grad(ScatterIntoGrad)
    .Doc(
        "Replaces the items at the given indices of a list by rows of a "
        "tensor.");

SLUICE_OP(TensorListSplit)
    .Input("tensor: element_dtype")
    .Input("element_shape: shape_type")
    .Input("lengths: int64")
    .Output("output_handle: variant")
    .Attr("element_dtype: type")
    .Attr("shape_type: {int32, int64}")
    .Family("tensor_array")
    .Shape(ListSplitShape)
    .Kernel(CpuState<ListSplitKernel>())
    .Grad(ListSplitGrad)
    .Doc(
        "Splits a tensor into runs of rows of the given lengths, and returns "
        "them as a list.");

}  // namespace
}  // namespace sluice
