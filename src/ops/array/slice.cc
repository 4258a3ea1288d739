// Slices of tensors, and their gradients.
#include <algorithm>

#include "exec/batching/batch_form.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/array/strided_slice.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/in_place.h"

namespace sluice {
namespace {

using array::At;
using array::DimsOf;
using array::IntAt;
using array::SliceMasks;
using array::SliceSpec;
using array::SpanOf;

// ---- Slice ------------------------------------------------------------------

// Checks one dimension of a Slice; a `size` of -1 is replaced by the rest.
Status CheckRange(int d, int64_t dim, int64_t begin, int64_t* size) {
  if (begin < 0 || begin > dim)
    return InvalidArgument("begin: expected begin[", d, "] in [0, ", dim,
                           "], got ", begin);
  if (*size == -1) *size = dim - begin;
  if (*size < 0 || *size > dim - begin)
    return InvalidArgument("size: expected size[", d, "] in [0, ", dim - begin,
                           "] or -1, got ", *size);
  return OkStatus();
}

Status SliceKernel(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  SLUICE_ASSIGN_OR_RETURN(const Dims begin,
                          array::IntVectorOf(ctx.input(1), "begin"));
  SLUICE_ASSIGN_OR_RETURN(Dims size, array::IntVectorOf(ctx.input(2), "size"));
  const auto rank = static_cast<size_t>(in.rank());
  if (begin.size() != rank || size.size() != rank)
    return InvalidArgument("begin and size: expected ", rank,
                           " entries, one per dimension, got ", begin.size(),
                           " and ", size.size());
  bool whole = true, rows = true;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t dim = in.shape().dims()[i];
    SLUICE_RETURN_IF_ERROR(
        CheckRange(static_cast<int>(i), dim, begin[i], &size[i]));
    whole &= size[i] == dim;
    rows &= i == 0 || size[i] == dim;
  }
  if (whole) {
    ctx.set_output(0, ctx.TakeInput(0));
    return OkStatus();
  }
  if (rows) {
    ctx.set_output(0, in.Rows(begin[0], begin[0] + size[0]));
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(size));
  const DType type = in.dtype();
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, shape));
  if (shape.num_elements() == 0) return OkStatus();
  const Dims strides = array::DenseStrides(in.shape().dims());
  int64_t offset = 0;
  for (size_t i = 0; i < rank; ++i) offset += begin[i] * strides[i];
  array::CopyStrided(type, SpanOf(size), At(type, in.raw(), offset),
                     SpanOf(strides), ctx.output(0).raw(),
                     SpanOf(array::DenseStrides(SpanOf(size))));
  return OkStatus();
}

Status SliceShape(ShapeContext& c) {
  PartialShape in = c.input(0);
  int rank = in.rank();
  for (int i : {1, 2}) {
    SLUICE_ASSIGN_OR_RETURN(const PartialShape s, c.WithRank(i, 1));
    if (s.dim(0) < 0) continue;
    if ((rank >= 0 && s.dim(0) != rank) || s.dim(0) > kMaxRank)
      return InvalidArgument("begin and size: expected ",
                             rank >= 0 ? rank : kMaxRank, " entries, got ",
                             s.dim(0));
    rank = static_cast<int>(s.dim(0));
  }
  if (rank < 0) return OkStatus();
  if (!in.rank_known()) in = PartialShape::OfRank(rank);
  const Tensor* begin = c.constant(1);
  const Tensor* size = c.constant(2);
  PartialShape out = PartialShape::OfRank(rank);
  for (int i = 0; size != nullptr && i < rank; ++i) {
    int64_t s = IntAt(*size, i);
    if (s < -1) return InvalidArgument("size: expected sizes >= -1, got ", s);
    if (begin != nullptr && in.dim(i) >= 0) {
      SLUICE_RETURN_IF_ERROR(CheckRange(i, in.dim(i), IntAt(*begin, i), &s));
    } else if (in.dim(i) >= 0 && s > in.dim(i)) {
      return InvalidArgument("size: expected at most ", in.dim(i),
                             " for dimension ", i, ", got ", s);
    }
    out.set_dim(i, s);
  }
  if (size == nullptr) {
    // Some sizes may be known; an unknown one may turn out to be -1.
    SLUICE_ASSIGN_OR_RETURN(const PartialShape sizes, c.InputAsShape(2));
    if (sizes.rank() == rank) out = sizes;
  }
  c.set_output(0, std::move(out));
  return OkStatus();
}

// Pads dy with zeros to the shape of the input.
Status SliceGrad(GradContext& g) {
  const Output x = g.input(0), begin = g.input(1);
  const DType index = begin.dtype();
  const std::optional<Tensor> known = ConstantValue(begin);
  const PartialShape in = x.shape(), out = g.output(0).shape();
  Output paddings;
  if (known && in.fully_known() && out.fully_known()) {
    std::vector<int64_t> amounts;
    for (int i = 0; i < in.rank(); ++i) {
      amounts.push_back(IntAt(*known, i));
      amounts.push_back(in.dim(i) - out.dim(i) - amounts.back());
    }
    SLUICE_ASSIGN_OR_RETURN(Tensor t, array::IntTensor(index, amounts));
    SLUICE_ASSIGN_OR_RETURN(t, t.Reshaped(Shape({in.rank(), 2})));
    paddings = Constant(std::move(t));
  } else {
    const Output left = grad::Sub(
        grad::Sub(grad::ShapeOf(x, index), grad::ShapeOf(g.output(0), index)),
        begin);
    paddings = Build("Pack", {begin, left}, {{"N", 2}, {"axis", 1}});
  }
  g.grads[0] = Build("Pad", {g.dy[0], paddings});
  return OkStatus();
}

// ---- StridedSlice -----------------------------------------------------------

class StridedSliceKernel {
 public:
  explicit StridedSliceKernel(const Node& n)
      : slice_(n, 1, n.input(0).shape()) {}
  Status Run(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    SliceSpec made;
    SLUICE_ASSIGN_OR_RETURN(const SliceSpec* const found,
                            slice_.Of(in.shape(), ctx, &made));
    const SliceSpec& spec = *found;
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, spec.result.ToShape());
    if (spec.whole) {
      SLUICE_ASSIGN_OR_RETURN(Tensor out, ctx.TakeInput(0).Reshaped(shape));
      ctx.set_output(0, std::move(out));
      return OkStatus();
    }
    if (RowsOnly(spec, in.shape())) {
      const Tensor rows = in.Rows(spec.begin[0], spec.begin[0] + spec.size[0]);
      SLUICE_ASSIGN_OR_RETURN(Tensor out, rows.Reshaped(shape));
      ctx.set_output(0, std::move(out));
      return OkStatus();
    }
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), shape));
    array::ReadSlice(in, spec, &ctx.output(0));
    return OkStatus();
  }

 private:
  // True if the slice consists of consecutive whole rows of the first
  // dimension.
  static bool RowsOnly(const SliceSpec& spec, const Shape& in) {
    if (spec.size.empty() || (spec.stride[0] != 1 && spec.size[0] > 1))
      return false;
    for (int i = 1; i < in.rank(); ++i) {
      const auto at = static_cast<size_t>(i);
      if (spec.size[at] != in[i] || (spec.stride[at] != 1 && in[i] > 1))
        return false;
    }
    return spec.size[0] > 0;
  }

  const array::NodeSlice slice_;
};

// The number of entries of the slice vectors: equal lengths where known.
Result<int64_t> SliceEntries(ShapeContext& c, int begin) {
  int64_t entries = -1;
  for (int i = begin; i < begin + 3; ++i) {
    SLUICE_ASSIGN_OR_RETURN(const PartialShape s, c.WithRank(i, 1));
    SLUICE_ASSIGN_OR_RETURN(entries, MergeDim(entries, s.dim(0)));
  }
  if (entries > 31)
    return InvalidArgument("slice: expected at most 31 entries, got ", entries);
  return entries;
}

Status StridedSliceShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(SliceEntries(c, 1).status());
  const Tensor* strides = c.constant(3);
  if (!c.input(0).rank_known() || strides == nullptr) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(
      SliceSpec spec,
      array::MakeSliceSpec(c.input(0), c.constant(1), c.constant(2), *strides,
                           SliceMasks(c.node())));
  c.set_output(0, std::move(spec.result));
  return OkStatus();
}

AttrMap MaskAttrs(const Node& n) {
  AttrMap attrs;
  for (const char* mask : {"begin_mask", "end_mask", "ellipsis_mask",
                           "new_axis_mask", "shrink_axis_mask"})
    attrs[mask] = n.IntAttr(mask);
  return attrs;
}

Status StridedSliceGradFn(GradContext& g) {
  Output begin = g.input(1), end = g.input(2), strides = g.input(3);
  DType index = begin.dtype();
  if (index != DType::kInt64 && index != DType::kInt32) {
    index = DType::kInt32;
    begin = grad::Cast(begin, index);
    end = grad::Cast(end, index);
    strides = grad::Cast(strides, index);
  }
  g.grads[0] =
      Build("StridedSliceGrad",
            {grad::ShapeOf(g.input(0), index), begin, end, strides, g.dy[0]},
            MaskAttrs(*g.op));
  return OkStatus();
}

class StridedSliceGradKernel {
 public:
  explicit StridedSliceGradKernel(const Node& n)
      : slice_(n, 1, n.output_shape(0)) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            array::ShapeFrom(ctx.input(0), "shape"));
    SliceSpec made;
    SLUICE_ASSIGN_OR_RETURN(const SliceSpec* const found,
                            slice_.Of(shape, ctx, &made));
    const SliceSpec& spec = *found;
    const Tensor& dy = ctx.input(4);
    if (!(PartialShape(dy.shape()) == spec.result))
      return InvalidArgument("dy: expected the shape of the slice, ",
                             spec.result.ToString(), ", got ",
                             dy.shape().ToString());
    if (spec.whole) {
      SLUICE_ASSIGN_OR_RETURN(Tensor out, ctx.TakeInput(4).Reshaped(shape));
      ctx.set_output(0, std::move(out));
      return OkStatus();
    }
    SLUICE_ASSIGN_OR_RETURN(
        Tensor out, array::MakeZeros(dy.dtype(), shape, ctx.step().allocator));
    SLUICE_RETURN_IF_ERROR(array::WriteSlice(spec, dy, &out));
    ctx.set_output(0, std::move(out));
    return OkStatus();
  }

 private:
  const array::NodeSlice slice_;
};

Status StridedSliceGradShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(SliceEntries(c, 1).status());
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.InputAsShape(0));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status StridedSliceGradGrad(GradContext& g) {
  g.grads[4] =
      Build("StridedSlice", {g.dy[0], g.input(1), g.input(2), g.input(3)},
            MaskAttrs(*g.op));
  return OkStatus();
}

// ---- TensorStridedSliceUpdate -----------------------------------------------

class SliceUpdateKernel {
 public:
  explicit SliceUpdateKernel(const Node& n)
      : slice_(n, 1, n.input(0).shape()) {}
  Status Run(KernelContext& ctx) {
    const Tensor value = ctx.input(4);
    SliceSpec made;
    SLUICE_ASSIGN_OR_RETURN(const SliceSpec* const spec,
                            slice_.Of(ctx.input(0).shape(), ctx, &made));
    SLUICE_ASSIGN_OR_RETURN(Tensor x, array::TakeToChange(ctx, 0));
    SLUICE_RETURN_IF_ERROR(array::WriteSlice(*spec, value, &x));
    ctx.set_output(0, std::move(x));
    return OkStatus();
  }

 private:
  const array::NodeSlice slice_;
};

Status SliceUpdateGrad(GradContext& g) {
  const Output begin = g.input(1), end = g.input(2), strides = g.input(3);
  const Output value = g.input(4);
  const AttrMap masks = MaskAttrs(*g.op);
  g.grads[0] =
      Build("TensorStridedSliceUpdate",
            {g.dy[0], begin, end, strides, grad::ZerosLike(value)}, masks);
  const Output part =
      Build("StridedSlice", {g.dy[0], begin, end, strides}, masks);
  g.grads[4] = grad::SumToShapeOf(part, value);
  return OkStatus();
}

Status UnchangedOfInput0(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(SliceEntries(c, 1).status());
  c.set_output(0, c.input(0));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

const BatchFormRegistrar slice_batch(
    "Slice", [](const Node&) -> std::optional<BatchForm> {
      return BatchForm{.axis = BatchForm::kNew,
                       .shared = 1 << 1 | 1 << 2,
                       .accepts = [](std::span<Tensor> inputs) {
                         return PutFirst(&inputs[1], 0) &&
                                PutFirst(&inputs[2], -1);
                       }};
    });

// All rows of an instance, and so of all: x[:, ...].
const BatchFormRegistrar strided_slice_batch(
    "StridedSlice", [](const Node& n) -> std::optional<BatchForm> {
      for (const char* mask : {"begin_mask", "end_mask"})
        if ((n.IntAttr(mask) & 1) == 0) return std::nullopt;
      for (const char* mask :
           {"ellipsis_mask", "new_axis_mask", "shrink_axis_mask"})
        if ((n.IntAttr(mask) & 1) != 0) return std::nullopt;
      return BatchForm{.shared = 1 << 1 | 1 << 2 | 1 << 3,
                       .accepts = [](std::span<Tensor> inputs) {
                         const Tensor& strides = inputs[3];
                         return strides.num_elements() > 0 &&
                                (strides.dtype() == DType::kInt32
                                     ? *strides.raw<int32_t>() == 1
                                     : strides.dtype() == DType::kInt64 &&
                                           *strides.raw<int64_t>() == 1);
                       }};
    });

SLUICE_OP(Slice)
    .Input("input: T")
    .Input("begin: Index")
    .Input("size: Index")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Index: {int32, int64}")
    .HostInput("begin")
    .HostInput("size")
    .Kind(OpKind::kSlice)
    .Shape(SliceShape)
    .Kernel(Cpu(SliceKernel, true))
    .Grad(SliceGrad)
    .Sample({{.shape = {4, 5}},
             {.shape = {2}, .values = {1, 2}, .dtype = DType::kInt32},
             {.shape = {2}, .values = {2, -1}, .dtype = DType::kInt32}})
    .Doc(
        "Extracts the block that starts at `begin` and has size `size` (-1: "
        "up to the end).")
    .Family("array");

SLUICE_OP(StridedSlice)
    .Input("input: T")
    .Input("begin: Index")
    .Input("end: Index")
    .Input("strides: Index")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Index: {int16, int32, int64}")
    .Attr("begin_mask: int = 0")
    .Attr("end_mask: int = 0")
    .Attr("ellipsis_mask: int = 0")
    .Attr("new_axis_mask: int = 0")
    .Attr("shrink_axis_mask: int = 0")
    .HostInput("begin")
    .HostInput("end")
    .HostInput("strides")
    .Kind(OpKind::kStridedSlice)
    .Shape(StridedSliceShape)
    .Kernel(CpuState<StridedSliceKernel>(true))
    .Grad(StridedSliceGradFn)
    .Sample({{.shape = {4, 5}},
             {.shape = {2}, .values = {3, 1}, .dtype = DType::kInt32},
             {.shape = {2}, .values = {0, 5}, .dtype = DType::kInt32},
             {.shape = {2}, .values = {-2, 2}, .dtype = DType::kInt32}},
            {{"end_mask", 1}})
    .Sample({{.shape = {4, 5, 2}},
             {.shape = {3}, .values = {0, 0, -1}, .dtype = DType::kInt32},
             {.shape = {3}, .values = {0, 0, 0}, .dtype = DType::kInt32},
             {.shape = {3}, .values = {1, 1, 1}, .dtype = DType::kInt32}},
            {{"ellipsis_mask", 1},
             {"new_axis_mask", 2},
             {"shrink_axis_mask", 4}})
    .Doc(
        "Returns x[begin:end:strides], with NumPy's ellipsis, new axes and "
        "single indices.")
    .Family("array");

SLUICE_OP(StridedSliceGrad)
    .Input("shape: Index")
    .Input("begin: Index")
    .Input("end: Index")
    .Input("strides: Index")
    .Input("dy: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Index: {int32, int64}")
    .Attr("begin_mask: int = 0")
    .Attr("end_mask: int = 0")
    .Attr("ellipsis_mask: int = 0")
    .Attr("new_axis_mask: int = 0")
    .Attr("shrink_axis_mask: int = 0")
    .HostInput("shape")
    .HostInput("begin")
    .HostInput("end")
    .HostInput("strides")
    .Shape(StridedSliceGradShape)
    .Kernel(CpuState<StridedSliceGradKernel>(true))
    .Grad(StridedSliceGradGrad)
    .Sample({{.shape = {1}, .values = {6}, .dtype = DType::kInt32},
             {.shape = {1}, .values = {1}, .dtype = DType::kInt32},
             {.shape = {1}, .values = {6}, .dtype = DType::kInt32},
             {.shape = {1}, .values = {2}, .dtype = DType::kInt32},
             {.shape = {3}}})
    .Doc(
        "The gradient of StridedSlice for a tensor of shape `shape`: dy at "
        "the elements that were read, zeros elsewhere.")
    .Family("array");

SLUICE_OP(TensorStridedSliceUpdate)
    .Input("input: T")
    .Input("begin: Index")
    .Input("end: Index")
    .Input("strides: Index")
    .Input("value: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Index: {int32, int64}")
    .Attr("begin_mask: int = 0")
    .Attr("end_mask: int = 0")
    .Attr("ellipsis_mask: int = 0")
    .Attr("new_axis_mask: int = 0")
    .Attr("shrink_axis_mask: int = 0")
    .Shape(UnchangedOfInput0)
    .Kernel(CpuState<SliceUpdateKernel>(true))
    .Grad(SliceUpdateGrad)
    .Sample({{.shape = {6}},
             {.shape = {1}, .values = {1}, .dtype = DType::kInt32},
             {.shape = {1}, .values = {6}, .dtype = DType::kInt32},
             {.shape = {1}, .values = {2}, .dtype = DType::kInt32},
             {.shape = {3}}})
    .Doc("Returns the input with the elements of a slice replaced by `value`.")
    .Family("array");

}  // namespace
}  // namespace sluice
