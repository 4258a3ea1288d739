// Ops that move the entries of sparse tensors: sort, reshape, slice, split,
// concatenate.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "graph/op_def.h"
#include "ops/common/grad_nodes.h"
#include "ops/sparse/sparse_tensor.h"

namespace sluice {
namespace {

using sparse::Entries;

// ---- SparseReorder ----------------------------------------------------------

Status RunSparseReorder(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const Entries e, sparse::InputAt(ctx, 0, "input_"));
  const std::vector<int64_t> order = sparse::Order(e);
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kInt64, ctx.input(0).shape()));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, e.values->dtype(), e.values->shape()));
  int64_t* out = ctx.output(0).raw<int64_t>();
  int64_t at = 0;
  for (int64_t i : order) {
    out = std::copy_n(e.row(i), e.rank, out);
    sparse::CopyValue(*e.values, i, &ctx.output(1), at++);
  }
  return OkStatus();
}

Status SparseReorderShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(sparse::CheckShapes(c, 0).status());
  SLUICE_ASSIGN_OR_RETURN(const PartialShape indices, c.WithRank(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape values, c.WithRank(1, 1));
  c.set_output(0, indices);
  c.set_output(1, values);
  return OkStatus();
}

// Restores the order of the values' gradient by sorting the entry numbers.
Status SparseReorderGrad(GradContext& c) {
  if (c.dy[1].node == nullptr) return OkStatus();
  const Output n = grad::SizeOf(c.input(1));
  const Output numbers =
      Build("Range", {Constant<int32_t>(0), n, Constant<int32_t>(1)});
  Node* sorted = BuildNode("SparseReorder", {c.input(0), numbers, c.input(2)});
  if (sorted == nullptr) return OkStatus();
  const Output back = Build("InvertPermutation", {Output(sorted, 1)});
  c.grads[1] = Build("GatherV2", {c.dy[1], back, Constant<int32_t>(0)});
  return OkStatus();
}

SLUICE_OP(SparseReorder)
    .Input("input_indices: int64")
    .Input("input_values: T")
    .Input("input_shape: int64")
    .Output("output_indices: int64")
    .Output("output_values: T")
    .Attr("T: type")
    .Family("sparse")
    .Shape(SparseReorderShape)
    .Kernel(Cpu(RunSparseReorder))
    .Grad(SparseReorderGrad)
    .Sample({{.shape = {3, 2}, .values = {1, 2, 0, 1, 1, 0}},
             {.shape = {3}},
             {.shape = {2}, .values = {2, 3}}})
    .Doc("Sorts the entries of a sparse tensor by index.");

// ---- SparseReshape ----------------------------------------------------------

// The product, or -1 if it overflows.
int64_t ProductOf(const Dims& dims) {
  int64_t n = 1;
  bool over = false;
  for (int64_t d : dims) over = __builtin_mul_overflow(n, d, &n) || over;
  return over && std::count(dims.begin(), dims.end(), 0) == 0 ? -1
         : over                                               ? 0
                                                              : n;
}

Status RunSparseReshape(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(
      const Entries e,
      sparse::View(ctx.input(0), nullptr, ctx.input(1), "input_"));
  if (ctx.input(2).rank() != 1 || ctx.input(2).dim(0) > 64)
    return InvalidArgument(
        "new_shape: expected a vector of at most 64 dimensions, got shape ",
        ctx.input(2).shape().ToString());
  Dims to;
  int unknown = -1;
  Dims known;
  for (const int64_t d : ctx.input(2).raw_flat<int64_t>()) {
    if (d < -1 || (d == -1 && unknown >= 0))
      return InvalidArgument(
          "new_shape: expected dimensions >= 0 and at most one of -1, got ", d);
    if (d == -1)
      unknown = static_cast<int>(to.size());
    else
      known.push_back(d);
    to.push_back(d);
  }
  const int64_t have = ProductOf(e.shape), want = ProductOf(known);
  if (have < 0 || want < 0)
    return InvalidArgument(
        "input_shape, new_shape: expected fewer than 2^63 elements, got more");
  if (unknown >= 0) {
    if (want == 0 || have % want != 0)
      return InvalidArgument("new_shape: expected dimensions that divide ",
                             have, " elements beside -1, got a product of ",
                             want);
    to[static_cast<size_t>(unknown)] = have / want;
  } else if (have != want) {
    return InvalidArgument("new_shape: expected ", have, " elements, got ",
                           want);
  }
  SLUICE_RETURN_IF_ERROR(sparse::CheckBounds(e));
  const auto rank = static_cast<int64_t>(to.size());
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kInt64, Shape({e.n, rank})));
  int64_t* out = ctx.output(0).raw<int64_t>();
  for (int64_t i = 0; i < e.n; ++i, out += rank) {
    int64_t linear = 0;
    for (int d = 0; d < e.rank; ++d)
      linear = linear * e.shape[static_cast<size_t>(d)] + e.row(i)[d];
    for (size_t d = to.size(); d-- > 0; linear /= to[d])
      out[d] = linear % to[d];
  }
  ctx.set_output(1, sparse::VectorOf(to));
  return OkStatus();
}

Status SparseReshapeShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape indices, c.WithRank(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape shape, c.WithRank(1, 1));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape to, c.WithRank(2, 1));
  SLUICE_RETURN_IF_ERROR(MergeDim(indices.dim(1), shape.dim(0)).status());
  c.set_output(0, PartialShape({indices.dim(0), to.dim(0)}));
  c.set_output(1, PartialShape({to.dim(0)}));
  return OkStatus();
}

SLUICE_OP(SparseReshape)
    .Input("input_indices: int64")
    .Input("input_shape: int64")
    .Input("new_shape: int64")
    .Output("output_indices: int64")
    .Output("output_shape: int64")
    .Family("sparse")
    .Shape(SparseReshapeShape)
    .Kernel(Cpu(RunSparseReshape))
    .NoGradient("indices are integers; the values pass by the op")
    .Sample({{.shape = {3, 2}, .values = {0, 1, 1, 0, 1, 2}},
             {.shape = {2}, .values = {2, 3}},
             {.shape = {2}, .values = {3, -1}}})
    .Doc(
        "Returns the indices of the same entries in a tensor of another "
        "shape.");

// ---- SparseSlice ------------------------------------------------------------

Status RunSparseSlice(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const Entries e, sparse::InputAt(ctx, 0));
  const Tensor& start = ctx.input(3);
  const Tensor& size = ctx.input(4);
  for (const Tensor* t : {&start, &size})
    if (t->rank() != 1 || t->dim(0) != e.rank)
      return InvalidArgument("start, size: expected vectors of ", e.rank,
                             ", got shape ", t->shape().ToString());
  const int64_t* from = start.raw<int64_t>();
  Dims out_shape;
  for (int d = 0; d < e.rank; ++d) {
    const int64_t many = size.raw<int64_t>()[d];
    const int64_t dim = e.shape[static_cast<size_t>(d)];
    if (many < 0)
      return InvalidArgument("size: expected values >= 0, got ", many);
    int64_t end = 0;
    if (__builtin_add_overflow(from[d], many, &end))
      end = std::numeric_limits<int64_t>::max();
    out_shape.push_back(end < dim ? many : from[d] < dim ? dim - from[d] : 0);
  }
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < e.n; ++i) {
    bool in = true;
    for (int d = 0; in && d < e.rank; ++d) {
      int64_t end = 0;
      if (__builtin_add_overflow(from[d], size.raw<int64_t>()[d], &end))
        end = std::numeric_limits<int64_t>::max();
      in = e.row(i)[d] >= from[d] && e.row(i)[d] < end;
    }
    if (in) kept.push_back(i);
  }
  SLUICE_RETURN_IF_ERROR(sparse::AllocateSparse(
      ctx, 0, static_cast<int64_t>(kept.size()), e.values->dtype(), out_shape));
  int64_t* out = ctx.output(0).raw<int64_t>();
  int64_t at = 0;
  for (int64_t i : kept) {
    for (int d = 0; d < e.rank; ++d) *out++ = e.row(i)[d] - from[d];
    sparse::CopyValue(*e.values, i, &ctx.output(1), at++);
  }
  return OkStatus();
}

Status SparseSliceShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(int64_t rank, sparse::CheckShapes(c, 0));
  for (int i : {3, 4}) {
    SLUICE_ASSIGN_OR_RETURN(const PartialShape s, c.WithRank(i, 1));
    SLUICE_ASSIGN_OR_RETURN(rank, MergeDim(rank, s.dim(0)));
  }
  c.set_output(0, PartialShape({-1, rank}));
  c.set_output(1, PartialShape({-1}));
  c.set_output(2, PartialShape({rank}));
  return OkStatus();
}

Status SparseSliceGradient(GradContext& c) {
  if (c.dy[1].node == nullptr) return OkStatus();
  c.grads[1] =
      Build("SparseSliceGrad", {c.dy[1], c.input(0), c.input(3), c.output(0)});
  return OkStatus();
}

SLUICE_OP(SparseSlice)
    .Input("indices: int64")
    .Input("values: T")
    .Input("shape: int64")
    .Input("start: int64")
    .Input("size: int64")
    .Output("output_indices: int64")
    .Output("output_values: T")
    .Output("output_shape: int64")
    .Attr("T: type")
    .Family("sparse")
    .Shape(SparseSliceShape)
    .Kernel(Cpu(RunSparseSlice))
    .Grad(SparseSliceGradient)
    .Sample({{.shape = {3, 2}, .values = {0, 1, 1, 0, 1, 2}},
             {.shape = {3}},
             {.shape = {2}, .values = {2, 3}},
             {.shape = {2}, .values = {0, 1}},
             {.shape = {2}, .values = {2, 2}}})
    .Doc(
        "Extracts the entries within a box, with indices relative to its "
        "corner.");

// Both index lists have the same order, so one pass finds the kept entries.
Status RunSparseSliceGrad(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Tensor& in = ctx.input(1);
  const Tensor& start = ctx.input(2);
  const Tensor& out = ctx.input(3);
  if (dy.rank() != 1 || in.rank() != 2 || out.rank() != 2 ||
      start.rank() != 1 || in.dim(1) != out.dim(1) ||
      start.dim(0) != in.dim(1) || dy.dim(0) != out.dim(0))
    return InvalidArgument(
        "expected a vector, two matrices of indices and a vector that match, "
        "got "
        "shapes ",
        dy.shape().ToString(), ", ", in.shape().ToString(), ", ",
        start.shape().ToString(), " and ", out.shape().ToString());
  SLUICE_ASSIGN_OR_RETURN(ctx.output(0),
                          Tensor::Zeros(dy.dtype(), Shape({in.dim(0)})));
  const int64_t rank = in.dim(1);
  int64_t k = 0;
  for (int64_t i = 0; i < in.dim(0) && k < out.dim(0); ++i) {
    bool same = true;
    for (int64_t d = 0; same && d < rank; ++d)
      same = static_cast<uint64_t>(in.raw<int64_t>()[i * rank + d]) -
                 static_cast<uint64_t>(start.raw<int64_t>()[d]) ==
             static_cast<uint64_t>(out.raw<int64_t>()[k * rank + d]);
    if (same) sparse::CopyValue(dy, k++, &ctx.output(0), i);
  }
  if (k != out.dim(0))
    return InvalidArgument(
        "output_indices: expected indices of the slice in the order of "
        "input_indices, got ",
        out.dim(0) - k, " others");
  return OkStatus();
}

Status SparseSliceGradShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRank(1, 2));
  SLUICE_RETURN_IF_ERROR(c.WithRank(2, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(3, 2).status());
  c.set_output(0, PartialShape({in.dim(0)}));
  return OkStatus();
}

SLUICE_OP(SparseSliceGrad)
    .Input("backprop_val_grad: T")
    .Input("input_indices: int64")
    .Input("input_start: int64")
    .Input("output_indices: int64")
    .Output("val_grad: T")
    .Attr("T: numbertype")
    .Family("sparse")
    .Shape(SparseSliceGradShape)
    .Kernel(Cpu(RunSparseSliceGrad))
    .Grad(grad::Undefined)
    .Doc("The gradient of SparseSlice: zero for the removed entries.");

// ---- SparseSplit ------------------------------------------------------------

Status RunSparseSplit(KernelContext& ctx) {
  const Tensor& axis_tensor = ctx.input(0);
  if (axis_tensor.rank() != 0)
    return InvalidArgument("split_dim: expected a scalar, got shape ",
                           axis_tensor.shape().ToString());
  SLUICE_ASSIGN_OR_RETURN(const Entries e, sparse::InputAt(ctx, 1));
  SLUICE_ASSIGN_OR_RETURN(
      const int axis, CanonicalAxis(axis_tensor.raw_scalar<int64_t>(), e.rank));
  const int many = ctx.num_outputs() / 3;
  const int64_t dim = e.shape[static_cast<size_t>(axis)];
  if (many > dim)
    return InvalidArgument("num_split: expected at most ", dim,
                           ", the size of dimension ", axis, ", got ", many);
  SLUICE_RETURN_IF_ERROR(sparse::CheckBounds(e));
  // The first `more` parts are one longer.
  const int64_t least = dim / many, more = dim % many;
  const auto part_of = [&](int64_t i) {
    return i < more * (least + 1) ? i / (least + 1)
                                  : more + (i - more * (least + 1)) / least;
  };
  std::vector<int64_t> sizes(static_cast<size_t>(many));
  for (int64_t i = 0; i < e.n; ++i)
    ++sizes[static_cast<size_t>(part_of(e.row(i)[axis]))];
  for (int p = 0; p < many; ++p) {
    const int64_t n = sizes[static_cast<size_t>(p)];
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(p, DType::kInt64, Shape({n, e.rank})));
    SLUICE_RETURN_IF_ERROR(
        ctx.Allocate(many + p, e.values->dtype(), Shape({n})));
    Dims shape = e.shape;
    shape[static_cast<size_t>(axis)] = least + (p < more);
    ctx.set_output(2 * many + p, sparse::VectorOf(shape));
  }
  std::vector<int64_t> done(static_cast<size_t>(many));
  for (int64_t i = 0; i < e.n; ++i) {
    const int64_t p = part_of(e.row(i)[axis]);
    const int64_t at = done[static_cast<size_t>(p)]++;
    int64_t* row = ctx.output(static_cast<int>(p)).raw<int64_t>() + at * e.rank;
    std::copy_n(e.row(i), e.rank, row);
    row[axis] -= p * least + std::min(p, more);
    sparse::CopyValue(*e.values, i, &ctx.output(many + static_cast<int>(p)),
                      at);
  }
  return OkStatus();
}

Status SparseSplitShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_ASSIGN_OR_RETURN(const int64_t rank, sparse::CheckShapes(c, 1));
  const int many = c.num_outputs() / 3;
  for (int p = 0; p < many; ++p) {
    c.set_output(p, PartialShape({-1, rank}));
    c.set_output(many + p, PartialShape({-1}));
    c.set_output(2 * many + p, PartialShape({rank}));
  }
  return OkStatus();
}

SLUICE_OP(SparseSplit)
    .Input("split_dim: int64")
    .Input("indices: int64")
    .Input("values: T")
    .Input("shape: int64")
    .Output("output_indices: num_split * int64")
    .Output("output_values: num_split * T")
    .Output("output_shape: num_split * int64")
    .Attr("num_split: int >= 1")
    .Attr("T: type")
    .Family("sparse")
    .Shape(SparseSplitShape)
    .Kernel(Cpu(RunSparseSplit))
    .NoGradient("TensorFlow does not define one")
    .Sample({{.values = {1}},
             {.shape = {3, 2}, .values = {0, 1, 1, 0, 1, 2}},
             {.shape = {3}},
             {.shape = {2}, .values = {2, 3}}},
            {{"num_split", 2}})
    .Doc("Splits a sparse tensor along one dimension into nearly equal parts.");

// ---- SparseConcat -----------------------------------------------------------

class SparseConcatKernel {
 public:
  explicit SparseConcatKernel(const Node& n)
      : axis_(n.AttrOr<int64_t>("concat_dim", 0)) {}

  Status Run(KernelContext& ctx) const {
    const int many = ctx.num_inputs() / 3;
    std::vector<Entries> parts;
    for (int p = 0; p < many; ++p) {
      SLUICE_ASSIGN_OR_RETURN(Entries e,
                              sparse::View(ctx.input(p), &ctx.input(many + p),
                                           ctx.input(2 * many + p)));
      parts.push_back(std::move(e));
    }
    const int rank = parts[0].rank;
    SLUICE_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(axis_, rank));
    const auto at = static_cast<size_t>(axis);
    Dims shape = parts[0].shape;
    int64_t n = parts[0].n;
    for (size_t p = 1; p < parts.size(); ++p) {
      bool same = parts[p].rank == rank;
      for (size_t d = 0; same && d < shape.size(); ++d)
        same = d == at || parts[p].shape[d] == shape[d];
      if (!same)
        return InvalidArgument(
            "shapes: expected shapes that differ in dimension ", axis,
            " only, got another at place ", p);
      if (__builtin_add_overflow(shape[at], parts[p].shape[at], &shape[at]))
        return InvalidArgument(
            "shapes: expected a sum of dimensions below 2^63, got more");
      n += parts[p].n;
    }
    SLUICE_ASSIGN_OR_RETURN(Tensor indices,
                            ctx.AllocateTemp(DType::kInt64, Shape({n, rank})));
    int64_t* row = indices.raw<int64_t>();
    std::vector<std::pair<int, int64_t>> from;  // The source of each entry.
    int64_t offset = 0;
    for (int p = 0; p < many; ++p) {
      const Entries& e = parts[static_cast<size_t>(p)];
      for (int64_t i = 0; i < e.n; ++i, row += rank) {
        std::copy_n(e.row(i), rank, row);
        if (__builtin_add_overflow(row[axis], offset, &row[axis]))
          return InvalidArgument("indices: expected indices within the shape");
        from.emplace_back(p, i);
      }
      offset += e.shape[at];
    }
    const DType type = parts[0].values->dtype();
    SLUICE_RETURN_IF_ERROR(sparse::AllocateSparse(ctx, 0, n, type, shape));
    Entries all;
    all.n = n;
    all.rank = rank;
    all.indices = indices.raw<int64_t>();
    int64_t* out = ctx.output(0).raw<int64_t>();
    int64_t k = 0;
    for (int64_t i : sparse::Order(all)) {
      out = std::copy_n(all.row(i), rank, out);
      const auto& [p, j] = from[static_cast<size_t>(i)];
      sparse::CopyValue(*parts[static_cast<size_t>(p)].values, j,
                        &ctx.output(1), k++);
    }
    return OkStatus();
  }

 private:
  const int64_t axis_;
};

Status SparseConcatShape(ShapeContext& c) {
  const int many = c.num_inputs() / 3;
  int64_t rank = -1, entries = 0;  // Entries: -1 once one part's are unknown.
  for (int p = 0; p < many; ++p) {
    SLUICE_ASSIGN_OR_RETURN(const PartialShape indices, c.WithRank(p, 2));
    SLUICE_ASSIGN_OR_RETURN(const PartialShape values, c.WithRank(many + p, 1));
    SLUICE_ASSIGN_OR_RETURN(const PartialShape shape,
                            c.WithRank(2 * many + p, 1));
    SLUICE_ASSIGN_OR_RETURN(rank, MergeDim(rank, indices.dim(1)));
    SLUICE_ASSIGN_OR_RETURN(rank, MergeDim(rank, shape.dim(0)));
    SLUICE_ASSIGN_OR_RETURN(const int64_t n,
                            MergeDim(indices.dim(0), values.dim(0)));
    if (n < 0 || entries < 0 || __builtin_add_overflow(entries, n, &entries))
      entries = -1;
  }
  c.set_output(0, PartialShape({entries, rank}));
  c.set_output(1, PartialShape({entries}));
  c.set_output(2, PartialShape({rank}));
  return OkStatus();
}

SLUICE_OP(SparseConcat)
    .Input("indices: N * int64")
    .Input("values: N * T")
    .Input("shapes: N * int64")
    .Output("output_indices: int64")
    .Output("output_values: T")
    .Output("output_shape: int64")
    .Attr("concat_dim: int")
    .Attr("N: int >= 2")
    .Attr("T: type")
    .Kind(OpKind::kSparseConcat)
    .Family("sparse")
    .Shape(SparseConcatShape)
    .Kernel(CpuState<SparseConcatKernel>())
    .NoGradient("TensorFlow does not define one")
    .Sample({{.shape = {2, 2}, .values = {0, 1, 1, 0}},
             {.shape = {1, 2}, .values = {1, 1}},
             {.shape = {2}},
             {.shape = {1}},
             {.shape = {2}, .values = {2, 3}},
             {.shape = {2}, .values = {2, 2}}},
            {{"concat_dim", 1}, {"N", 2}})
    .Doc("Concatenates sparse tensors along one dimension, in index order.");

}  // namespace
}  // namespace sluice
