// Reading elements by index.
#include "ops/common/gather.h"

#include <algorithm>

#include "base/parallel.h"
#include "exec/batching/batch_form.h"
#include "graph/builder.h"
#include "graph/op_def.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/nd_index.h"
#include "ops/common/prefetch.h"

namespace sluice {
namespace array {
namespace {

template <typename I>
Status CheckIndices(const Tensor& indices, int64_t limit) {
  const I* index = indices.raw<I>();
  const int64_t n = indices.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = index[i];
    if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(limit))
      return InvalidArgument(
          "indices", indices.rank() > 0 ? IndexName(indices.shape(), i) : "",
          ": expected a value in [0, ", limit, "), got ", at);
  }
  return OkStatus();
}

// out[b, o, i, :] = params[b, o, index[b, i], :], in elements of type T.
struct GatherLoop {
  int64_t batch, outer, limit, inner, indices;
  DType type;

  template <typename T, typename I>
  void Run(const void* params, const void* index, void* out) const {
    const T* const p = static_cast<const T*>(params);
    const I* const at = static_cast<const I*>(index);
    T* const to = static_cast<T*>(out);
    const int64_t rows = batch * outer * indices;
    ParallelFor(rows, std::max<int64_t>(1, 16384 / inner),
                [&](int64_t begin, int64_t end) {
                  for (int64_t r = begin; r < end;) {
                    const int64_t bo = r / indices, i = r % indices;
                    const int64_t last = std::min(end, r - i + indices);
                    const T* const from = p + bo * limit * inner;
                    const I* const ix = at + bo / outer * indices + (i - r);
                    if (inner == 1) {
                      for (; r < last; ++r) to[r] = from[ix[r]];
                    } else {
                      CopyRows(from, ix, r, last, to);
                      r = last;
                    }
                  }
                });
  }

  // to[r] = from[ix[r]] for the rows [r, last).
  template <typename T, typename I>
  void CopyRows(const T* from, const I* ix, int64_t r, int64_t last,
                T* to) const {
    const size_t bytes = static_cast<size_t>(inner) * sizeof(T);
    constexpr auto kAhead = static_cast<int64_t>(kRowsAhead);
    for (int64_t i = r; i < std::min(last, r + kAhead); ++i)
      PrefetchRow(from + ix[i] * inner, bytes);
    for (; r < last; ++r) {
      if (r + kAhead < last) PrefetchRow(from + ix[r + kAhead] * inner, bytes);
      CopyRun(type, from + ix[r] * inner, to + r * inner, inner);
    }
  }
};

}  // namespace

Result<Tensor> GatherRows(const Tensor& params, const Tensor& indices,
                          int64_t axis, int64_t batch_dims,
                          Allocator* allocator) {
  if (indices.dtype() == DType::kInt16) {  // Rare: convert.
    SLUICE_ASSIGN_OR_RETURN(Tensor wide,
                            Tensor::Make(DType::kInt32, indices.shape()));
    std::copy_n(indices.raw<int16_t>(), indices.num_elements(),
                wide.raw<int32_t>());
    return GatherRows(params, wide, axis, batch_dims, allocator);
  }
  const Shape &ps = params.shape(), &is = indices.shape();
  if (batch_dims < -is.rank() || batch_dims > is.rank())
    return InvalidArgument("batch_dims: expected a value in [", -is.rank(),
                           ", ", is.rank(), "], got ", batch_dims);
  const int batch =
      static_cast<int>(batch_dims < 0 ? batch_dims + is.rank() : batch_dims);
  if (ps.rank() == 0)
    return InvalidArgument("params: expected rank at least 1, got a scalar");
  SLUICE_ASSIGN_OR_RETURN(const int d, CanonicalAxis(axis, ps.rank()));
  if (batch > d)
    return InvalidArgument("batch_dims: expected at most the axis ", d,
                           ", got ", batch);
  for (int i = 0; i < batch; ++i)
    if (ps[i] != is[i])
      return InvalidArgument("params and indices: expected equal batch ",
                             "dimensions, got shapes ", ps.ToString(), " and ",
                             is.ToString());
  const bool wide = indices.dtype() == DType::kInt64;
  SLUICE_RETURN_IF_ERROR(wide ? CheckIndices<int64_t>(indices, ps[d])
                              : CheckIndices<int32_t>(indices, ps[d]));
  Dims dims(ps.dims().begin(), ps.dims().begin() + d);
  dims.insert(dims.end(), is.dims().begin() + batch, is.dims().end());
  dims.insert(dims.end(), ps.dims().begin() + d + 1, ps.dims().end());
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, MakeShape(dims));
  SLUICE_ASSIGN_OR_RETURN(Tensor out,
                          Tensor::Make(params.dtype(), shape, allocator));
  if (shape.num_elements() == 0) return out;
  const GatherLoop loop = {Product(ps.dims(), 0, batch),
                           Product(ps.dims(), batch, d),
                           ps[d],
                           Product(ps.dims(), d + 1, ps.rank()),
                           Product(is.dims(), batch, is.rank()),
                           params.dtype()};
  ByElement(params.dtype(), [&]<typename T>(Tag<T>) {
    if (wide)
      loop.Run<T, int64_t>(params.raw(), indices.raw(), out.raw());
    else
      loop.Run<T, int32_t>(params.raw(), indices.raw(), out.raw());
  });
  return out;
}

Status NamingId(const Node& node, const Tensor& indices, int64_t rows,
                Status otherwise) {
  const AttrValue* const table = node.FindAttr("_table");
  if (table == nullptr || table->get<std::string>() == nullptr ||
      (indices.dtype() != DType::kInt32 && indices.dtype() != DType::kInt64))
    return otherwise;
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    const int64_t row = indices.dtype() == DType::kInt64
                            ? indices.raw<int64_t>()[i]
                            : indices.raw<int32_t>()[i];
    if (row >= 0 && row < rows) continue;
    // (Wraps around like the id that was divided.)
    const auto id = static_cast<int64_t>(
        static_cast<uint64_t>(row) *
            static_cast<uint64_t>(node.IntAttr("_id_scale")) +
        static_cast<uint64_t>(node.IntAttr("_id_offset")));
    const int64_t all = node.IntAttr("_table_rows");
    return InvalidArgument("ids: expected ids of table '",
                           *table->get<std::string>(), "' in [0, ",
                           all < 0 ? rows : all, "), got ", id);
  }
  return otherwise;
}

Result<PartialShape> GatherShape(const PartialShape& params,
                                 const PartialShape& indices,
                                 std::optional<int64_t> axis,
                                 int64_t batch_dims) {
  if (params.rank() == 0)
    return InvalidArgument("params: expected rank at least 1, got a scalar");
  if (!indices.rank_known()) return PartialShape();
  const int rank = indices.rank();
  if (batch_dims < -rank || batch_dims > rank)
    return InvalidArgument("batch_dims: expected a value in [", -rank, ", ",
                           rank, "], got ", batch_dims);
  const int batch =
      static_cast<int>(batch_dims < 0 ? batch_dims + rank : batch_dims);
  if (!params.rank_known()) return PartialShape();
  if (!axis) return PartialShape::OfRank(params.rank() - 1 + rank - batch);
  SLUICE_ASSIGN_OR_RETURN(const int d, CanonicalAxis(*axis, params.rank()));
  if (batch > d)
    return InvalidArgument("batch_dims: expected at most the axis ", d,
                           ", got ", batch);
  SLUICE_ASSIGN_OR_RETURN(
      const PartialShape shared,
      SubShape(params, 0, batch).MergeWith(SubShape(indices, 0, batch)));
  return JoinShapes(JoinShapes(shared, SubShape(params, batch, d)),
                    JoinShapes(SubShape(indices, batch, rank),
                               SubShape(params, d + 1, params.rank())));
}

// ---- Pieces of shapes for gradients -----------------------------------------

namespace {

// vector[from:to] (to the end if to < 0).
Output Part(Output vector, int from, int to = -1) {
  return Build(
      "StridedSlice",
      {vector, IntVector({from}), IntVector({std::max(to, 0)}), IntVector({1})},
      {{"end_mask", to < 0 ? 1 : 0}});
}

Output AsVector(Output scalar) { return grad::ExpandDims(scalar, 0); }

Output Joined(std::vector<Output> vectors) {
  const auto n = static_cast<int64_t>(vectors.size());
  vectors.push_back(Constant(int32_t{0}));
  return Build("ConcatV2", std::move(vectors), {{"N", n}});
}

// The shape of the slices if it is known; else of unknown rank.
PartialShape KnownSlicesShape(const Output& indices,
                              const Output& params_shape) {
  if (!indices.valid() || !params_shape.valid()) return PartialShape();
  const Result<PartialShape> params = ConstantAsShape(params_shape);
  if (!params.ok() || !params->fully_known() || params->rank() == 0 ||
      !indices.shape().fully_known())
    return PartialShape();
  PartialShape shape = *params;
  shape.set_dim(0, indices.shape().num_elements());
  return shape;
}

}  // namespace

Gradient GatherSlices(Output dy, Output indices, Output params_shape) {
  const PartialShape known = KnownSlicesShape(indices, params_shape);
  Output values = dy;
  if (!known.fully_known())
    values = grad::ReshapeTo(
        dy, Joined({AsVector(grad::SizeOf(indices)), Part(params_shape, 1)}));
  else if (dy.valid() && !(dy.shape() == known))
    values = grad::ReshapeTo(
        dy, Constant(Tensor::Vector<int64_t>(std::vector<int64_t>(
                known.dims().begin(), known.dims().end()))));
  const bool is_flat = indices.valid() && indices.shape().rank() == 1;
  const Output flat =
      is_flat ? indices : grad::ReshapeTo(indices, IntVector({-1}));
  return Gradient::Slices(flat, values, params_shape);
}

// ---- Slices by several coordinates ------------------------------------------

Status GatherNd(KernelContext& ctx, const Tensor& params, const Tensor& indices,
                bool ignore_bad) {
  SLUICE_ASSIGN_OR_RETURN(const NdIndex nd,
                          NdIndex::Make(params.shape(), indices));
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, nd.SlicesShape());
  const DType type = params.dtype();
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, shape));
  if (!ignore_bad) SLUICE_RETURN_IF_ERROR(nd.CheckAll());
  if (shape.num_elements() == 0) return OkStatus();
  const int64_t row = nd.row();
  const void* from = params.raw();
  void* out = ctx.output(0).raw();
  // Single elements, without a call for each.
  const auto each = [&]<typename T>(Tag<T>) {
    ParallelFor(nd.count(), 16384, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = nd.Offset(i);
        static_cast<T*>(out)[i] =
            at < 0 ? T() : static_cast<const T*>(from)[at];
      }
    });
    return OkStatus();
  };
  if (row == 1 && DTypeSize(type) == 4) return each(Tag<uint32_t>());
  if (row == 1 && DTypeSize(type) == 8) return each(Tag<uint64_t>());
  ParallelFor(nd.count(), std::max<int64_t>(1, 16384 / row),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  const int64_t at = nd.Offset(i);
                  void* to = At(type, out, i * row);
                  if (at < 0)
                    ZeroRun(type, to, row);
                  else
                    CopyRun(type, At(type, from, at), to, row);
                }
              });
  return OkStatus();
}

Status SetGatherNdShape(ShapeContext& c, const PartialShape& params) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape indices, c.WithRankAtLeast(1, 1));
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, SlicesShape(params, indices));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Gradient GatherNdGradient(Output dy, Output indices,
                          const std::function<Output(DType)>& shape_of_params) {
  if (indices.dtype() == DType::kInt16)
    indices = grad::Cast(indices, DType::kInt32);
  const PartialShape& s = indices.shape();
  if (s.rank() == 2 && s.dim(1) == 1) {
    const Output flat =
        Build("Squeeze", {indices}, {{"squeeze_dims", AttrValue::Ints{-1}}});
    return Gradient::Slices(flat, dy, shape_of_params(indices.dtype()));
  }
  return Build("ScatterNd", {indices, dy, shape_of_params(indices.dtype())});
}

namespace {

// The number of elements of the dimensions from `from` up to `to` (to the end
// if that is null): vectors with one number, since ranks may be unknown yet.
Output Elements(Output shape, Output from, Output to) {
  const Output part =
      Build("StridedSlice",
            {shape, from, to.node != nullptr ? to : from, IntVector({1})},
            {{"end_mask", to.node != nullptr ? 0 : 1}});
  return Build("Prod", {part, IntVector({0})});
}

// Gradient for rows taken along a later dimension, or per batch. The tensor is
// viewed as [batch, outer, rows, inner]; the rows are scattered with the row
// dimension moved before the outer one, and then moved back.
Output DenseGatherGrad(Output params, Output indices, Output dy, Output axis,
                       int batch) {
  const Output shape = grad::ShapeOf(params);
  const Output taken = grad::ShapeOf(indices);
  const Output at = AsVector(Build(
      "FloorMod", {grad::Cast(axis, DType::kInt32), grad::SizeOf(shape)}));
  const Output after = grad::Add(at, IntVector({1}));
  const Output first = IntVector({0});
  const Output batch_end =
      batch >= 0 ? IntVector({batch})
                 : AsVector(grad::Add(grad::SizeOf(taken), Constant(batch)));
  const Output batches = Elements(shape, first, batch_end);
  const Output outer = Elements(shape, batch_end, at);
  const Output limit = Elements(shape, at, after);
  const Output inner = Elements(shape, after, {});
  const Output count = Elements(taken, batch_end, {});
  const auto pack = [](std::vector<Output> dims) {
    const auto n = static_cast<int64_t>(dims.size());
    return Build("Pack", std::move(dims), {{"N", n}});
  };
  const Output width = grad::Mul(outer, inner);
  const Output values = grad::ReshapeTo(
      grad::Transpose(grad::ReshapeTo(dy, pack({batches, outer, count, inner})),
                      {0, 2, 1, 3}),
      pack({grad::Mul(batches, count), width}));
  // Batches become one dimension of rows; each row index is offset by its
  // batch.
  const Output all = grad::Mul(batches, limit);
  Output rows =
      grad::Cast(grad::ReshapeTo(indices, IntVector({-1})), DType::kInt32);
  if (batch != 0) {
    const Output starts = Build("Range", {Constant(int32_t{0}), all, limit});
    const Output spread = Build(
        "BroadcastTo", {grad::ExpandDims(starts, 1), pack({batches, count})});
    rows = grad::Add(rows, grad::ReshapeTo(spread, IntVector({-1})));
  }
  const Output flat = Build(
      "ScatterNd", {grad::ExpandDims(rows, 1), values, pack({all, width})});
  return grad::ReshapeTo(
      grad::Transpose(
          grad::ReshapeTo(flat, pack({batches, limit, outer, inner})),
          {0, 2, 1, 3}),
      shape);
}

// ---- Gather, GatherV2 -------------------------------------------------------

Status GatherKernel(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(Tensor out, GatherRows(ctx.input(0), ctx.input(1), 0,
                                                 0, ctx.step().allocator));
  ctx.set_output(0, std::move(out));
  return OkStatus();
}

struct GatherV2Kernel {
  explicit GatherV2Kernel(const Node& n)
      : batch_dims(n.IntAttr("batch_dims")) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const int64_t axis,
                            IntScalar(ctx.input(2), "axis"));
    Result<Tensor> out = GatherRows(ctx.input(0), ctx.input(1), axis,
                                    batch_dims, ctx.step().allocator);
    if (!out.ok())
      return NamingId(ctx.node(), ctx.input(1), ctx.input(0).dim(0),
                      out.status());
    ctx.set_output(0, *std::move(out));
    return OkStatus();
  }
  const int64_t batch_dims;
};

Status GatherOpShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape out,
                          GatherShape(c.input(0), c.input(1), 0, 0));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status GatherV2Shape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(2));
  SLUICE_ASSIGN_OR_RETURN(PartialShape out,
                          GatherShape(c.input(0), c.input(1), c.ConstantInt(2),
                                      c.node().IntAttr("batch_dims")));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status GatherGrad(GradContext& g) {
  g.grads[0] = GatherSlices(g.dy[0], g.input(1), grad::ShapeOf(g.input(0)));
  return OkStatus();
}

Status GatherV2Grad(GradContext& g) {
  const Output params = g.input(0), indices = g.input(1);
  const std::optional<Tensor> axis = ConstantValue(g.input(2));
  const auto batch = static_cast<int>(g.op->IntAttr("batch_dims"));
  const int64_t a = axis ? IntAt(*axis, 0) : 1;
  const bool first =
      a == 0 || (params.shape().rank_known() && a == -params.shape().rank());
  if (first && batch == 0)
    g.grads[0] = GatherSlices(g.dy[0], indices, grad::ShapeOf(params));
  else
    g.grads[0] = DenseGatherGrad(params, indices, g.dy[0], g.input(2), batch);
  return OkStatus();
}

// ---- GatherNd ---------------------------------------------------------------

struct GatherNdKernel {
  static Result<std::shared_ptr<GatherNdKernel>> Make(const Node& n) {
    auto k = std::make_shared<GatherNdKernel>();
    SLUICE_ASSIGN_OR_RETURN(k->ignore_bad, IgnoresBadIndices(n));
    return k;
  }
  Status Run(KernelContext& ctx) const {
    return GatherNd(ctx, ctx.input(0), ctx.input(1), ignore_bad);
  }
  bool ignore_bad = false;
};

Status GatherNdShape(ShapeContext& c) {
  return SetGatherNdShape(c, c.input(0));
}

Status GatherNdGrad(GradContext& g) {
  const Output params = g.input(0);
  g.grads[0] = GatherNdGradient(g.dy[0], g.input(1), [&](DType type) {
    return grad::ShapeOf(params, type);
  });
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(Gather)
    .Input("params: Tparams")
    .Input("indices: Tindices")
    .Output("output: Tparams")
    .Attr("validate_indices: bool = true")
    .Attr("Tparams: type")
    .Attr("Tindices: {int32, int64}")
    .Kind(OpKind::kGather)
    .Shape(GatherOpShape)
    .Kernel(Cpu(GatherKernel, true))
    .Grad(GatherGrad)
    .Sample({{.shape = {4, 3}},
             {.shape = {2}, .values = {3, 1}, .dtype = DType::kInt32}})
    .Doc("Gathers rows (slices along the first dimension) by index.")
    .Family("array");

// Rows of one table by the indices of all instances.
const BatchFormRegistrar gather_batch(
    "Gather", [](const Node&) -> std::optional<BatchForm> {
      return BatchForm{.axis = BatchForm::kNew, .shared = 1 << 0};
    });
const BatchFormRegistrar gather_v2_batch(
    "GatherV2", [](const Node& n) -> std::optional<BatchForm> {
      if (n.IntAttr("batch_dims") != 0) return std::nullopt;
      return BatchForm{.axis = BatchForm::kNew,
                       .shared = 1 << 0 | 1 << 2,
                       .accepts = [](std::span<Tensor> inputs) {
                         const Tensor& axis = inputs[2];
                         return axis.num_elements() == 1 &&
                                (axis.dtype() == DType::kInt32
                                     ? axis.raw_scalar<int32_t>() == 0
                                     : axis.raw_scalar<int64_t>() == 0);
                       }};
    });

SLUICE_OP(GatherV2)
    .Input("params: Tparams")
    .Input("indices: Tindices")
    .Input("axis: Taxis")
    .Output("output: Tparams")
    .Attr("batch_dims: int = 0")
    .Attr("Tparams: type")
    .Attr("Tindices: {int16, int32, int64}")
    .Attr("Taxis: {int32, int64}")
    .HostInput("axis")
    .Kind(OpKind::kGather)
    .Shape(GatherV2Shape)
    .Kernel(CpuState<GatherV2Kernel>(true))
    .Grad(GatherV2Grad)
    .Sample({{.shape = {4, 3}},
             {.shape = {2}, .values = {3, 1}, .dtype = DType::kInt32},
             {.shape = {}, .values = {0}, .dtype = DType::kInt32}})
    .Sample({{.shape = {2, 3, 4}},
             {.shape = {2, 2}, .values = {3, 1, 0, 3}, .dtype = DType::kInt32},
             {.shape = {}, .values = {2}, .dtype = DType::kInt32}},
            {{"batch_dims", 1}})
    .Doc(
        "Gathers slices along one dimension by index; leading dimensions may "
        "be batch dimensions.")
    .Family("array");

SLUICE_OP(GatherNd)
    .Input("params: Tparams")
    .Input("indices: Tindices")
    .Output("output: Tparams")
    .Attr("Tparams: type")
    .Attr("Tindices: {int16, int32, int64}")
    .Attr("bad_indices_policy: string = ''")
    .Shape(GatherNdShape)
    .Kernel(CpuState<GatherNdKernel>(true))
    .Grad(GatherNdGrad)
    .Sample({{.shape = {3, 4, 2}},
             {.shape = {2, 2}, .values = {0, 1, 2, 3}, .dtype = DType::kInt32}})
    .Doc(
        "Gathers elements or slices at the positions given by the rows of "
        "indices.")
    .Family("array");

const BatchFormRegistrar gather_nd_batch("GatherNd", PartByPart<1, 1 << 0>);

}  // namespace
}  // namespace array
}  // namespace sluice
