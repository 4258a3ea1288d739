// Concatenation of tensors along an existing dimension, and splitting along
// one.
#include <algorithm>

#include "exec/batching/batch_form.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

using array::At;
using array::DimsOf;
using array::Piece;

// ---- Concat, ConcatV2 -------------------------------------------------------

// Inputs [first, first + n) along the axis given by input `axis_input`.
Status ConcatInputs(KernelContext& ctx, int first, int n, int axis_input) {
  SLUICE_ASSIGN_OR_RETURN(const int64_t axis_value,
                          array::IntScalar(ctx.input(axis_input), "axis"));
  const Tensor& head = ctx.input(first);
  const int rank = head.rank();
  if (rank == 0)
    return InvalidArgument(
        "values: expected rank at least 1 (join scalars with Pack), got "
        "scalars");
  SLUICE_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(axis_value, rank));
  int64_t joined = 0;
  for (int i = first; i < first + n; ++i) {
    const Shape& s = ctx.input(i).shape();
    bool fits = s.rank() == rank;
    for (int d = 0; fits && d < rank; ++d)
      fits = d == axis || s[d] == head.dim(d);
    if (!fits)
      return InvalidArgument("values: expected shapes that differ only in ",
                             "dimension ", axis, ", got ",
                             head.shape().ToString(), " and ", s.ToString(),
                             " (number ", i - first, ")");
    if (__builtin_add_overflow(joined, s[axis], &joined))
      return InvalidArgument("values: expected fewer than 2^63 elements");
  }
  Dims dims = DimsOf(head.shape());
  dims[static_cast<size_t>(axis)] = joined;
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
  const int64_t inner = array::Product(head.shape().dims(), axis + 1, rank);
  const int64_t outer = array::Product(head.shape().dims(), 0, axis);
  const DType type = head.dtype();
  std::vector<Piece> pieces;
  pieces.reserve(static_cast<size_t>(n));
  for (int i = first; i < first + n; ++i)
    if (ctx.input(i).num_elements() > 0)
      pieces.push_back({ctx.input(i).raw(), ctx.input(i).dim(axis) * inner});
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, shape));
  if (!pieces.empty())
    array::JoinBlocks(type, pieces, outer, ctx.output(0).raw());
  return OkStatus();
}

Status ConcatV2Kernel(KernelContext& ctx) {
  return ConcatInputs(ctx, 0, ctx.num_inputs() - 1, ctx.num_inputs() - 1);
}

Status ConcatKernel(KernelContext& ctx) {
  return ConcatInputs(ctx, 1, ctx.num_inputs() - 1, 0);
}

Status ConcatShapeOf(ShapeContext& c, int first, int n, int axis_input) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(axis_input));
  int rank = -1;
  for (int i = first; i < first + n; ++i) {
    if (!c.input(i).rank_known()) continue;
    if (rank >= 0 && c.input(i).rank() != rank)
      return InvalidArgument("values: expected equal ranks, got ", rank,
                             " and ", c.input(i).rank());
    rank = c.input(i).rank();
  }
  if (rank < 0) return OkStatus();
  if (rank == 0)
    return InvalidArgument(
        "values: expected rank at least 1 (join scalars with Pack), got "
        "scalars");
  const std::optional<int64_t> axis_value = c.ConstantInt(axis_input);
  if (!axis_value) {
    c.set_output(0, PartialShape::OfRank(rank));
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(*axis_value, rank));
  PartialShape out = PartialShape::OfRank(rank);
  int64_t joined = 0;
  for (int i = first; i < first + n; ++i) {
    PartialShape s = c.input(i);
    if (!s.rank_known()) {
      joined = -1;
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(joined, array::AddDims(joined, s.dim(axis)));
    s.set_dim(axis, -1);
    SLUICE_ASSIGN_OR_RETURN(out, out.MergeWith(s));
  }
  out.set_dim(axis, joined);
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status ConcatV2Shape(ShapeContext& c) {
  return ConcatShapeOf(c, 0, c.num_inputs() - 1, c.num_inputs() - 1);
}
Status ConcatShape(ShapeContext& c) {
  return ConcatShapeOf(c, 1, c.num_inputs() - 1, 0);
}

// Each input's gradient is its slice of dy.
Status ConcatGradOf(GradContext& g, int first, int n, int axis_input) {
  const Output dy = g.dy[0];
  if (n == 1) {
    g.grads[static_cast<size_t>(first)] = dy;
    return OkStatus();
  }
  const std::optional<Tensor> axis = ConstantValue(g.input(axis_input));
  // If all sizes are known, one SplitV suffices.
  if (axis && dy.shape().rank_known()) {
    SLUICE_ASSIGN_OR_RETURN(
        const int d, CanonicalAxis(array::IntAt(*axis, 0), dy.shape().rank()));
    std::vector<int32_t> sizes;
    for (int i = first; i < first + n; ++i) {
      const PartialShape& s = g.input(i).shape();
      const int64_t size = s.rank_known() ? s.dim(d) : -1;
      if (size < 0 || size > INT32_MAX) break;
      sizes.push_back(static_cast<int32_t>(size));
    }
    if (static_cast<int>(sizes.size()) == n) {
      Node* split = BuildNode(
          "SplitV", {dy, IntVector(sizes), Constant(static_cast<int32_t>(d))},
          {{"num_split", n}});
      if (split == nullptr) return OkStatus();
      for (int i = 0; i < n; ++i)
        g.grads[static_cast<size_t>(first + i)] = Output(split, i);
      return OkStatus();
    }
  }
  std::vector<Output> inputs;
  for (int i = first; i < first + n; ++i) inputs.push_back(g.input(i));
  Node* shapes = BuildNode("ShapeN", inputs, {{"N", n}});
  if (shapes == nullptr) return OkStatus();
  // ConcatOffset requires an axis >= 0.
  const Output axis32 = grad::Cast(g.input(axis_input), DType::kInt32);
  const Output positive =
      Build("FloorMod", {axis32, grad::RankOf(g.input(first))});
  std::vector<Output> offset_inputs = {positive};
  for (int i = 0; i < n; ++i) offset_inputs.push_back(Output(shapes, i));
  Node* offsets = BuildNode("ConcatOffset", offset_inputs, {{"N", n}});
  if (offsets == nullptr) return OkStatus();
  for (int i = 0; i < n; ++i)
    g.grads[static_cast<size_t>(first + i)] =
        Build("Slice", {dy, Output(offsets, i), Output(shapes, i)});
  return OkStatus();
}

Status ConcatV2Grad(GradContext& g) {
  const int n = g.op->num_inputs() - 1;
  return ConcatGradOf(g, 0, n, n);
}
Status ConcatGrad(GradContext& g) {
  return ConcatGradOf(g, 1, g.op->num_inputs() - 1, 0);
}

// ---- ConcatOffset -----------------------------------------------------------

Status ConcatOffsetKernel(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const int64_t axis_value,
                          array::IntScalar(ctx.input(0), "concat_dim"));
  SLUICE_ASSIGN_OR_RETURN(const Dims head,
                          array::IntVectorOf(ctx.input(1), "shape"));
  SLUICE_ASSIGN_OR_RETURN(
      const int axis, CanonicalAxis(axis_value, static_cast<int>(head.size())));
  const auto a = static_cast<size_t>(axis);
  int64_t offset = 0;
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const Dims s,
                            array::IntVectorOf(ctx.input(i), "shape"));
    bool fits = s.size() == head.size();
    for (size_t d = 0; fits && d < s.size(); ++d)
      fits = d == a || s[d] == head[d];
    if (!fits)
      return InvalidArgument("shape: expected shapes that differ only in ",
                             "dimension ", axis, ", got [",
                             ctx.input(1).Summarize(-1), "] and [",
                             ctx.input(i).Summarize(-1), "]");
    Dims out(s.size(), 0);
    out[a] = offset;
    SLUICE_ASSIGN_OR_RETURN(
        Tensor t, array::IntTensor(ctx.input(i).dtype(), array::SpanOf(out)));
    ctx.set_output(i - 1, std::move(t));
    if (__builtin_add_overflow(offset, s[a], &offset))
      return InvalidArgument("shape: expected fewer than 2^63 elements");
  }
  return OkStatus();
}

Status ConcatOffsetShape(ShapeContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(PartialShape s, c.WithRank(i, 1));
    c.set_output(i - 1, std::move(s));
  }
  return OkStatus();
}

// ---- Split, SplitV ----------------------------------------------------------

// Output i gets the next sizes[i] entries of dimension `axis`.
Status SplitInto(KernelContext& ctx, int value, int axis,
                 std::span<const int64_t> sizes) {
  if (sizes.size() == 1) {
    ctx.set_output(0, ctx.TakeInput(value));
    return OkStatus();
  }
  const Tensor& in = ctx.input(value);
  const int64_t outer = array::Product(in.shape().dims(), 0, axis);
  const int64_t inner = array::Product(in.shape().dims(), axis + 1, in.rank());
  const int64_t row = in.dim(axis) * inner;
  const DType type = in.dtype();
  int64_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int output = static_cast<int>(i);
    // Whole rows of the first dimension share the buffer, which is sufficiently
    // aligned for every kernel, since its elements are.
    if (axis == 0) {
      ctx.set_output(output, in.Rows(at, at + sizes[i]));
      at += sizes[i];
      continue;
    }
    Dims dims = DimsOf(in.shape());
    dims[static_cast<size_t>(axis)] = sizes[i];
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(output, type, shape));
    const int64_t block[] = {outer, sizes[i] * inner};
    const int64_t from[] = {row, 1}, to[] = {sizes[i] * inner, 1};
    if (shape.num_elements() > 0)
      array::CopyStrided(type, block, At(type, in.raw(), at * inner), from,
                         ctx.output(output).raw(), to);
    at += sizes[i];
  }
  return OkStatus();
}

Status SplitKernel(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const int64_t axis_value,
                          array::IntScalar(ctx.input(0), "split_dim"));
  const Tensor& in = ctx.input(1);
  SLUICE_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(axis_value, in.rank()));
  const int n = ctx.num_outputs();
  if (in.dim(axis) % n != 0)
    return InvalidArgument("value: expected dimension ", axis,
                           " to be a multiple of ", n, ", got shape ",
                           in.shape().ToString());
  const Dims sizes(static_cast<size_t>(n), in.dim(axis) / n);
  return SplitInto(ctx, 1, axis, array::SpanOf(sizes));
}

// Fills in the one -1 of `sizes`; they must add up to `total`.
Status CompleteSizes(int64_t total, Dims* sizes) {
  int missing = -1;
  int64_t sum = 0;
  for (size_t i = 0; i < sizes->size(); ++i) {
    const int64_t s = (*sizes)[i];
    if (s == -1 && missing < 0) {
      missing = static_cast<int>(i);
    } else if (s < 0 || __builtin_add_overflow(sum, s, &sum)) {
      return InvalidArgument(
          "size_splits: expected sizes >= 0 and at most one -1, got ", s);
    }
  }
  if (missing >= 0 ? sum > total : sum != total)
    return InvalidArgument("size_splits: expected a sum of ",
                           missing >= 0 ? "at most " : "", total, ", got ",
                           sum);
  if (missing >= 0) (*sizes)[static_cast<size_t>(missing)] = total - sum;
  return OkStatus();
}

Status SplitVKernel(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const int64_t axis_value,
                          array::IntScalar(ctx.input(2), "split_dim"));
  const Tensor& in = ctx.input(0);
  SLUICE_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(axis_value, in.rank()));
  SLUICE_ASSIGN_OR_RETURN(Dims sizes,
                          array::IntVectorOf(ctx.input(1), "size_splits"));
  if (static_cast<int>(sizes.size()) != ctx.num_outputs())
    return InvalidArgument("size_splits: expected ", ctx.num_outputs(),
                           " sizes, got ", sizes.size());
  SLUICE_RETURN_IF_ERROR(CompleteSizes(in.dim(axis), &sizes));
  return SplitInto(ctx, 0, axis, array::SpanOf(sizes));
}

Status SplitShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  PartialShape out = c.input(1);
  if (!out.rank_known()) return OkStatus();
  const std::optional<int64_t> axis_value = c.ConstantInt(0);
  if (!axis_value) {
    c.set_all_outputs(PartialShape::OfRank(out.rank()));
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const int axis,
                          CanonicalAxis(*axis_value, out.rank()));
  const int64_t n = c.num_outputs();
  if (out.dim(axis) >= 0) {
    if (out.dim(axis) % n != 0)
      return InvalidArgument("value: expected dimension ", axis,
                             " to be a multiple of ", n, ", got shape ",
                             out.ToString());
    out.set_dim(axis, out.dim(axis) / n);
  }
  c.set_all_outputs(out);
  return OkStatus();
}

Status SplitVShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(2));
  const PartialShape& in = c.input(0);
  const std::optional<int64_t> axis_value = c.ConstantInt(2);
  if (c.num_outputs() == 1 && (!in.rank_known() || !axis_value)) {
    c.set_output(0, in);
    return OkStatus();
  }
  if (!in.rank_known()) return OkStatus();
  if (!axis_value) {
    c.set_all_outputs(PartialShape::OfRank(in.rank()));
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const int axis,
                          CanonicalAxis(*axis_value, in.rank()));
  Dims sizes(static_cast<size_t>(c.num_outputs()), -1);
  if (const Tensor* known = c.constant(1)) {
    SLUICE_ASSIGN_OR_RETURN(sizes, array::IntVectorOf(*known, "size_splits"));
    if (static_cast<int>(sizes.size()) != c.num_outputs())
      return InvalidArgument("size_splits: expected ", c.num_outputs(),
                             " sizes, got ", sizes.size());
    if (in.dim(axis) >= 0)
      SLUICE_RETURN_IF_ERROR(CompleteSizes(in.dim(axis), &sizes));
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    PartialShape out = in;
    // (With one output it takes everything.)
    const int64_t size =
        c.num_outputs() == 1 ? in.dim(axis) : sizes[static_cast<size_t>(i)];
    if (size < -1)
      return InvalidArgument("size_splits: expected sizes >= -1, got ", size);
    out.set_dim(axis, size);
    c.set_output(i, std::move(out));
  }
  return OkStatus();
}

// The gradients of all outputs, with zeros for missing ones.
std::vector<Output> AllDys(GradContext& g) {
  std::vector<Output> dys;
  for (size_t i = 0; i < g.dy.size(); ++i)
    dys.push_back(g.DyOrZeros(static_cast<int>(i)));
  return dys;
}

Output ConcatOf(std::vector<Output> values, Output axis) {
  if (values.size() == 1) return values[0];
  const auto n = static_cast<int64_t>(values.size());
  values.push_back(axis);
  return Build("ConcatV2", std::move(values), {{"N", n}});
}

Status SplitGrad(GradContext& g) {
  g.grads[1] = ConcatOf(AllDys(g), g.input(0));
  return OkStatus();
}

Status SplitVGrad(GradContext& g) {
  g.grads[0] = ConcatOf(AllDys(g), g.input(2));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(Concat)
    .Input("concat_dim: int32")
    .Input("values: N * T")
    .Output("output: T")
    .Attr("N: int >= 2")
    .Attr("T: type")
    .HostInput("concat_dim")
    .Shape(ConcatShape)
    .Kernel(Cpu(ConcatKernel, true))
    .Grad(ConcatGrad)
    .Sample({{.shape = {}, .values = {1}},
             {.shape = {2, 3}},
             {.shape = {2, 1}}},
            {{"N", 2}})
    .Doc("Concatenates tensors along one dimension.")
    .Family("array");

SLUICE_OP(ConcatV2)
    .Input("values: N * T")
    .Input("axis: Tidx")
    .Output("output: T")
    .Attr("N: int >= 2")
    .Attr("T: type")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .HostInput("axis")
    .Kind(OpKind::kConcat)
    .Shape(ConcatV2Shape)
    .Kernel(Cpu(ConcatV2Kernel, true))
    .Grad(ConcatV2Grad)
    .Sample({{.shape = {2, 3}},
             {.shape = {2, 1}},
             {.shape = {}, .values = {-1}}},
            {{"N", 2}})
    .Doc("Concatenates tensors along one dimension.")
    .Family("array");

const BatchFormRegistrar concat_batch(
    "ConcatV2", [](const Node& n) -> std::optional<BatchForm> {
      return BatchForm{.axis = BatchForm::kNew,
                       .shared = 1u << (n.num_inputs() - 1),
                       .accepts = [](std::span<Tensor> inputs) {
                         return MoveAxes(&inputs.back(), inputs[0].rank());
                       }};
    });
const BatchFormRegistrar split_batch("Split", AlongAxes<0>);
const BatchFormRegistrar split_v_batch("SplitV", AlongAxes<2, 1 << 1 | 1 << 2>);

SLUICE_OP(ConcatOffset)
    .Input("concat_dim: int32")
    .Input("shape: N * shape_type")
    .Output("offset: N * shape_type")
    .Attr("N: int >= 2")
    .Attr("shape_type: {int32, int64} = DT_INT32")
    .Shape(ConcatOffsetShape)
    .Kernel(Cpu(ConcatOffsetKernel))
    .NoGradient("shapes have no derivative")
    .Sample({{.shape = {}, .values = {1}},
             {.shape = {2}, .values = {2, 3}},
             {.shape = {2}, .values = {2, 5}}},
            {{"N", 2}})
    .Doc(
        "Computes the offset of each tensor within the result of a "
        "concatenation.")
    .Family("array");

SLUICE_OP(Split)
    .Input("split_dim: int32")
    .Input("value: T")
    .Output("output: num_split * T")
    .Attr("num_split: int >= 1")
    .Attr("T: type")
    .HostInput("split_dim")
    .Shape(SplitShape)
    .Kernel(Cpu(SplitKernel, true))
    .Grad(SplitGrad)
    .Sample({{.shape = {}, .values = {1}}, {.shape = {2, 6}}},
            {{"num_split", 3}})
    .Doc("Splits a dimension into equal parts.")
    .Family("array");

SLUICE_OP(SplitV)
    .Input("value: T")
    .Input("size_splits: Tlen")
    .Input("split_dim: int32")
    .Output("output: num_split * T")
    .Attr("num_split: int >= 1")
    .Attr("T: type")
    .Attr("Tlen: {int8, int32, int64} = DT_INT64")
    .HostInput("size_splits")
    .HostInput("split_dim")
    .Shape(SplitVShape)
    .Kernel(Cpu(SplitVKernel, true))
    .Grad(SplitVGrad)
    .Sample({{.shape = {2, 6}},
             {.shape = {3}, .values = {1, -1, 2}},
             {.shape = {}, .values = {1}}},
            {{"num_split", 3}})
    .Doc(
        "Splits a dimension into parts of the given sizes; one size may be -1 "
        "to take the rest.")
    .Family("array");

}  // namespace
}  // namespace sluice
