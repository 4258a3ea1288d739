// Sparse tensors combined with dense ones: conversion, addition, multiplication
// and division.
#include <algorithm>
#include <string>
#include <vector>

#include "graph/op_def.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/sparse/sparse_tensor.h"

namespace sluice {
namespace {

using array::IntAt;
using sparse::Entries;

// ---- SparseToDense ----------------------------------------------------------

class SparseToDenseKernel {
 public:
  explicit SparseToDenseKernel(const Node& n)
      : validate_(n.BoolAttr("validate_indices")) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& indices = ctx.input(0);
    const Tensor& values = ctx.input(2);
    const Tensor& rest = ctx.input(3);
    if (indices.rank() > 2)
      return InvalidArgument("sparse_indices: expected rank 0 to 2, got shape ",
                             indices.shape().ToString());
    const int64_t n = indices.rank() > 0 ? indices.dim(0) : 1;
    const int64_t rank = indices.rank() == 2 ? indices.dim(1) : 1;
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            array::ShapeFrom(ctx.input(1), "output_shape"));
    if (shape.rank() != rank)
      return InvalidArgument("output_shape: expected ", rank,
                             " dimensions, as many as indices have, got ",
                             shape.ToString());
    if (values.rank() > 1 || (values.rank() == 1 && values.dim(0) != n))
      return InvalidArgument("sparse_values: expected a scalar or a vector of ",
                             n, ", got shape ", values.shape().ToString());
    if (rest.rank() != 0)
      return InvalidArgument("default_value: expected a scalar, got shape ",
                             rest.shape().ToString());
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, values.dtype(), shape));
    Tensor& out = ctx.output(0);
    array::FillRun(out.dtype(), rest.raw(), out.raw(), out.num_elements());
    // (Indices are increasing if every position is after the previous one.)
    int64_t before = -1;
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = 0;
      for (int64_t d = 0; d < rank; ++d) {
        const int64_t dim = shape.dim(static_cast<int>(d));
        const int64_t v = IntAt(indices, i * rank + d);
        if (v < 0 || v >= dim)
          return InvalidArgument("sparse_indices: expected index ", i,
                                 " within ", shape.ToString(), ", got ", v,
                                 " in dimension ", d);
        at = at * dim + v;
      }
      if (validate_ && at <= before)
        return InvalidArgument(
            "sparse_indices: expected increasing order without repeats, got "
            "index ",
            i, at == before ? " equal to" : " before", " the last one");
      before = at;
      sparse::CopyValue(values, values.rank() == 0 ? 0 : i, &out, at);
    }
    return OkStatus();
  }

 private:
  const bool validate_;
};

Status SparseToDenseShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(0, 2).status());
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(2, 1).status());
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(3));
  SLUICE_ASSIGN_OR_RETURN(PartialShape shape, c.InputAsShape(1));
  c.set_output(0, std::move(shape));
  return OkStatus();
}

Status SparseToDenseGrad(GradContext& c) {
  Output indices = c.input(0);
  if (!indices.shape().rank_known())
    return InvalidArgument(
        "sparse_indices: expected a known rank for the gradient");
  // GatherNd requires one index per row.
  const int rank = indices.shape().rank();
  if (rank < 2) indices = grad::ExpandDims(indices, rank);
  const Output taken = Build("GatherNd", {c.dy[0], indices});
  const PartialShape& values = c.input(2).shape();
  if (!values.rank_known())
    return InvalidArgument(
        "sparse_values: expected a known rank for the gradient");
  const Output all = Build(
      "Sum",
      {c.dy[0], Build("Range", {Constant<int32_t>(0), grad::RankOf(c.dy[0]),
                                Constant<int32_t>(1)})});
  const Output sum = rank == 0 ? taken : grad::SumAxes(taken, {0});
  c.grads[2] = values.rank() == 0 ? sum : taken;
  c.grads[3] = grad::Sub(all, sum);
  return OkStatus();
}

SLUICE_OP(SparseToDense)
    .Input("sparse_indices: Tindices")
    .Input("output_shape: Tindices")
    .Input("sparse_values: T")
    .Input("default_value: T")
    .Output("dense: T")
    .Attr("validate_indices: bool = true")
    .Attr("T: type")
    .Attr("Tindices: {int32, int64}")
    .Family("sparse")
    .Shape(SparseToDenseShape)
    .Kernel(CpuState<SparseToDenseKernel>())
    .Grad(SparseToDenseGrad)
    .Sample({{.shape = {3, 2},
              .values = {0, 1, 1, 0, 1, 2},
              .dtype = DType::kInt64},
             {.shape = {2}, .values = {2, 3}},
             {.shape = {3}},
             {}})
    .Sample({{.shape = {2}, .values = {1, 2}, .dtype = DType::kInt32},
             {.shape = {1}, .values = {4}},
             {.shape = {}},
             {}})
    .Doc(
        "Returns a dense tensor with the given entries and a default value "
        "elsewhere.");

// ---- SparseTensorDenseAdd ---------------------------------------------------

// The entries of inputs 0 to 2, whose indices may be int32. `copy` stores them
// as int64.
Result<Entries> InputOfAnyIndex(const KernelContext& ctx, Tensor* copy,
                                Tensor* shape_copy) {
  const auto widen = [](const Tensor& from, Tensor* to) -> Status {
    if (from.dtype() == DType::kInt64) {
      *to = from;
      return OkStatus();
    }
    SLUICE_ASSIGN_OR_RETURN(*to, Tensor::Make(DType::kInt64, from.shape()));
    std::copy_n(from.raw<int32_t>(), from.num_elements(), to->raw<int64_t>());
    return OkStatus();
  };
  SLUICE_RETURN_IF_ERROR(widen(ctx.input(0), copy));
  SLUICE_RETURN_IF_ERROR(widen(ctx.input(2), shape_copy));
  return sparse::View(*copy, &ctx.input(1), *shape_copy, "a_");
}

// The offset of an index in a dense tensor. REQUIRES: it is within the shape.
int64_t DenseOffset(const int64_t* row, const Dims& shape) {
  int64_t at = 0;
  for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + row[d];
  return at;
}

Status RunSparseTensorDenseAdd(KernelContext& ctx) {
  Tensor indices, shape;
  SLUICE_ASSIGN_OR_RETURN(const Entries e,
                          InputOfAnyIndex(ctx, &indices, &shape));
  const Tensor& b = ctx.input(3);
  if (b.rank() != e.rank ||
      !std::equal(e.shape.begin(), e.shape.end(), b.shape().dims().begin()))
    return InvalidArgument("b: expected the shape of a, got ",
                           b.shape().ToString());
  SLUICE_RETURN_IF_ERROR(sparse::CheckBounds(e));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, b.dtype(), b.shape()));
  Tensor& out = ctx.output(0);
  array::CopyRun(b.dtype(), b.raw(), out.raw(), b.num_elements());
  const bool known = array::ByNumber(b.dtype(), [&]<typename T>(array::Tag<T>) {
    for (int64_t i = 0; i < e.n; ++i) {
      T* at = out.raw<T>() + DenseOffset(e.row(i), e.shape);
      *at = array::WrapAdd(*at, e.values->raw<T>()[i]);
    }
  });
  return known ? OkStatus() : NoKernelFor(ctx.node(), b.dtype());
}

Status SparseTensorDenseAddShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(sparse::CheckShapes(c, 0).status());
  c.set_output(0, c.input(3));
  return OkStatus();
}

Status SparseTensorDenseAddGrad(GradContext& c) {
  c.grads[1] = Build("GatherNd", {c.dy[0], c.input(0)});
  c.grads[3] = c.dy[0];
  return OkStatus();
}

SLUICE_OP(SparseTensorDenseAdd)
    .Input("a_indices: Tindices")
    .Input("a_values: T")
    .Input("a_shape: Tindices")
    .Input("b: T")
    .Output("output: T")
    .Attr(kNumberTypes)
    .Attr("Tindices: {int32, int64}")
    .Family("sparse")
    .Shape(SparseTensorDenseAddShape)
    .Kernel(Cpu(RunSparseTensorDenseAdd))
    .Grad(SparseTensorDenseAddGrad)
    .Sample({{.shape = {3, 2},
              .values = {0, 1, 1, 0, 1, 2},
              .dtype = DType::kInt64},
             {.shape = {3}},
             {.shape = {2}, .values = {2, 3}},
             {.shape = {2, 3}}})
    .Doc("Adds the entries of a sparse tensor to a dense tensor.");

// ---- SparseTensorDenseMatMul ------------------------------------------------

template <typename T>
T ConjugateOf(T v) {
  if constexpr (std::is_same_v<T, complex64> || std::is_same_v<T, complex128>)
    return std::conj(v);
  else
    return v;
}

class SparseMatMulKernel {
 public:
  explicit SparseMatMulKernel(const Node& n)
      : adjoint_a_(n.BoolAttr("adjoint_a")),
        adjoint_b_(n.BoolAttr("adjoint_b")) {}

  Status Run(KernelContext& ctx) const {
    Tensor indices, shape;
    SLUICE_ASSIGN_OR_RETURN(const Entries e,
                            InputOfAnyIndex(ctx, &indices, &shape));
    const Tensor& b = ctx.input(3);
    if (e.rank != 2 || b.rank() != 2)
      return InvalidArgument("a, b: expected matrices, got rank ", e.rank,
                             " and shape ", b.shape().ToString());
    const int64_t rows = e.shape[adjoint_a_ ? 1 : 0];
    const int64_t inner = e.shape[adjoint_a_ ? 0 : 1];
    const int64_t columns = b.dim(adjoint_b_ ? 0 : 1);
    if (b.dim(adjoint_b_ ? 1 : 0) != inner)
      return InvalidArgument("b: expected ", inner, " ",
                             adjoint_b_ ? "columns" : "rows", ", got shape ",
                             b.shape().ToString());
    SLUICE_RETURN_IF_ERROR(sparse::CheckBounds(e));
    SLUICE_ASSIGN_OR_RETURN(const Shape out_shape,
                            array::MakeShape({rows, columns}));
    SLUICE_ASSIGN_OR_RETURN(
        ctx.output(0),
        array::MakeZeros(b.dtype(), out_shape, ctx.step().allocator));
    Status status = OkStatus();
    const bool known =
        array::ByNumber(b.dtype(), [&]<typename T>(array::Tag<T>) {
          status = Multiply<T>(e, b, columns, &ctx.output(0));
        });
    return known ? status : NoKernelFor(ctx.node(), b.dtype());
  }

 private:
  // 16-bit floats are summed in float.
  template <typename T>
  Status Multiply(const Entries& e, const Tensor& b, int64_t columns,
                  Tensor* out) const {
    using C = ComputeType<T>;
    Tensor wide;
    C* sums = nullptr;
    if constexpr (std::is_same_v<T, C>) {
      sums = out->raw<T>();
    } else {
      SLUICE_ASSIGN_OR_RETURN(wide, Tensor::Zeros(DTypeOf<C>(), out->shape()));
      sums = wide.raw<C>();
    }
    for (int64_t i = 0; i < e.n; ++i) {
      const int64_t row = e.row(i)[adjoint_a_ ? 1 : 0];
      const int64_t k = e.row(i)[adjoint_a_ ? 0 : 1];
      const T value = e.values->raw<T>()[i];
      const C a = static_cast<C>(adjoint_a_ ? ConjugateOf(value) : value);
      C* to = sums + row * columns;
      if (adjoint_b_) {
        const T* from = b.raw<T>() + k;
        for (int64_t j = 0; j < columns; ++j, from += b.dim(1))
          to[j] = array::WrapAdd(
              to[j], array::WrapMul(a, static_cast<C>(ConjugateOf(*from))));
      } else {
        const T* from = b.raw<T>() + k * columns;
        for (int64_t j = 0; j < columns; ++j)
          to[j] =
              array::WrapAdd(to[j], array::WrapMul(a, static_cast<C>(from[j])));
      }
    }
    if constexpr (!std::is_same_v<T, C>)
      for (int64_t i = 0; i < out->num_elements(); ++i)
        out->raw<T>()[i] = T(sums[i]);
    return OkStatus();
  }

  const bool adjoint_a_, adjoint_b_;
};

Status SparseMatMulShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const int64_t rank, sparse::CheckShapes(c, 0));
  SLUICE_RETURN_IF_ERROR(MergeDim(rank, 2).status());
  SLUICE_ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(3, 2));
  const bool adjoint_a = c.node().BoolAttr("adjoint_a");
  const bool adjoint_b = c.node().BoolAttr("adjoint_b");
  SLUICE_ASSIGN_OR_RETURN(const PartialShape a, c.InputAsShape(2));
  const bool known = a.rank() == 2;
  if (known)
    SLUICE_RETURN_IF_ERROR(
        MergeDim(a.dim(adjoint_a ? 0 : 1), b.dim(adjoint_b ? 1 : 0)).status());
  c.set_output(0, PartialShape({known ? a.dim(adjoint_a ? 1 : 0) : -1,
                                b.dim(adjoint_b ? 0 : 1)}));
  return OkStatus();
}

// Column `i` of the indices.
Output IndexColumn(Output indices, int i) {
  return Build(
      "StridedSlice",
      {indices, IntVector({0, i}), IntVector({0, i + 1}), IntVector({1, 1})},
      {{"begin_mask", 1}, {"end_mask", 1}, {"shrink_axis_mask", 2}});
}

// With C = op(A) op(B): the gradient of A at (r, c) is row r of dC times column
// c of op(B), only at the entries of A; that of B is a product with A itself.
Status SparseDenseMatMulGrad(GradContext& c) {
  const bool adjoint_a = c.op->BoolAttr("adjoint_a");
  const bool adjoint_b = c.op->BoolAttr("adjoint_b");
  const Output dy = c.dy[0], indices = c.input(0), b = c.input(3);
  const auto adjoint = [](Output x) {
    return grad::Transpose(grad::Conj(x), {1, 0});
  };
  Output db =
      Build("SparseTensorDenseMatMul", {indices, c.input(1), c.input(2), dy},
            {{"adjoint_a", !adjoint_a}});
  c.grads[3] = adjoint_b ? adjoint(db) : db;
  const Output row = IndexColumn(indices, adjoint_a ? 1 : 0);
  const Output column = IndexColumn(indices, adjoint_a ? 0 : 1);
  const Output zero = Constant<int32_t>(0);
  const Output dy_rows = Build("GatherV2", {dy, row, zero});
  const Output b_rows =
      Build("GatherV2", {adjoint_b ? adjoint(b) : b, column, zero});
  c.grads[1] = grad::SumAxes(adjoint_a ? grad::Mul(grad::Conj(dy_rows), b_rows)
                                       : grad::Mul(dy_rows, grad::Conj(b_rows)),
                             {1});
  return OkStatus();
}

SLUICE_OP(SparseTensorDenseMatMul)
    .Input("a_indices: Tindices")
    .Input("a_values: T")
    .Input("a_shape: int64")
    .Input("b: T")
    .Output("product: T")
    .Attr("T: type")
    .Attr("Tindices: {int32, int64} = DT_INT64")
    .Attr("adjoint_a: bool = false")
    .Attr("adjoint_b: bool = false")
    .Family("sparse")
    .Shape(SparseMatMulShape)
    .Kernel(CpuState<SparseMatMulKernel>(true))
    .Grad(SparseDenseMatMulGrad)
    .Sample({{.shape = {3, 2},
              .values = {0, 1, 1, 0, 1, 2},
              .dtype = DType::kInt64},
             {.shape = {3}},
             {.shape = {2}, .values = {2, 3}},
             {.shape = {3, 4}}})
    .Sample({{.shape = {3, 2},
              .values = {0, 1, 1, 0, 1, 2},
              .dtype = DType::kInt64},
             {.shape = {3}},
             {.shape = {2}, .values = {2, 3}},
             {.shape = {4, 2}}},
            {{"adjoint_a", true}, {"adjoint_b", true}})
    .Doc("Multiplies a sparse matrix by a dense one.");

// ---- SparseDenseCwise -------------------------------------------------------

enum class Cwise { kAdd, kMul, kDiv };

template <Cwise op, typename T>
T CwiseOf(T a, T b) {
  if constexpr (op == Cwise::kAdd) {
    return array::WrapAdd(a, b);
  } else if constexpr (op == Cwise::kMul) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) *
                            static_cast<uint64_t>(b));
    else
      return static_cast<T>(a * b);
  } else if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
    return b == T(-1) ? array::WrapSub(T(0), a) : static_cast<T>(a / b);
  } else {
    return static_cast<T>(a / b);
  }
}

// The dense side is broadcast to the sparse one; the result has only the
// entries of the sparse one.
template <Cwise op>
Status RunCwise(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const Entries e, sparse::InputAt(ctx, 0, "sp_"));
  const Tensor& dense = ctx.input(3);
  bool fits = dense.rank() <= e.rank;
  Dims strides(e.shape.size(), 0);
  int64_t stride = 1;
  for (int d = dense.rank() - 1; fits && d >= 0; --d) {
    const auto at = static_cast<size_t>(e.rank - dense.rank() + d);
    fits = dense.dim(d) == e.shape[at] || dense.dim(d) == 1;
    strides[at] = dense.dim(d) == 1 ? 0 : stride;
    stride *= dense.dim(d);
  }
  if (!fits)
    return InvalidArgument(
        "dense: expected a shape that can be broadcast to that of the sparse "
        "tensor, got ",
        dense.shape().ToString());
  SLUICE_RETURN_IF_ERROR(sparse::CheckBounds(e));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, dense.dtype(), Shape({e.n})));
  bool zero = false;
  const bool known =
      array::ByNumber(dense.dtype(), [&]<typename T>(array::Tag<T>) {
        if (op == Cwise::kDiv)
          for (const T v : dense.raw_flat<T>()) zero = zero || v == T(0);
        if (zero) return;
        T* out = ctx.output(0).template raw<T>();
        for (int64_t i = 0; i < e.n; ++i) {
          int64_t at = 0;
          for (int d = 0; d < e.rank; ++d)
            at += e.row(i)[d] * strides[static_cast<size_t>(d)];
          out[i] = CwiseOf<op, T>(e.values->raw<T>()[i], dense.raw<T>()[at]);
        }
      });
  if (zero) return InvalidArgument("dense: expected nonzero divisors, got 0");
  return known ? OkStatus() : NoKernelFor(ctx.node(), dense.dtype());
}

Status CwiseShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(sparse::CheckShapes(c, 0).status());
  SLUICE_ASSIGN_OR_RETURN(const PartialShape values, c.WithRank(1, 1));
  c.set_output(0, values);
  return OkStatus();
}

// The dense index that each entry was combined with.
Output IndicesOfDense(GradContext& c) {
  const Output dense_shape = grad::ShapeOf(c.input(3), DType::kInt64);
  const Output extra =
      grad::Sub(grad::SizeOf(c.input(2)), grad::RankOf(c.input(3)));
  const Output scale = Build(
      "FloorDiv", {Build("Slice", {c.input(2), grad::ExpandDims(extra, 0),
                                   IntVector({-1})}),
                   Build("Maximum", {dense_shape, Constant<int64_t>(1)})});
  const Output own =
      Build("Slice", {c.input(0), Build("Pack", {Constant<int32_t>(0), extra}),
                      IntVector({-1, -1})});
  return Build("FloorDiv",
               {own, Build("Maximum", {scale, Constant<int64_t>(1)})});
}

template <Cwise op>
Status CwiseGrad(GradContext& c) {
  const Output dy = c.dy[0], values = c.input(1), dense = c.input(3);
  const Output at = IndicesOfDense(c);
  const Output met = Build("GatherNd", {dense, at});
  Output dx = dy, dd = dy;
  if (op == Cwise::kMul) {
    dx = grad::Mul(dy, grad::Conj(met));
    dd = grad::Mul(dy, grad::Conj(values));
  } else if (op == Cwise::kDiv) {
    dx = grad::Div(dy, grad::Conj(met));
    dd = grad::Mul(dy,
                   grad::Conj(grad::Div(grad::Neg(values), grad::Square(met))));
  }
  c.grads[1] = dx;
  c.grads[3] =
      Build("ScatterNd", {at, dd, grad::ShapeOf(dense, DType::kInt64)});
  return OkStatus();
}

// (Divisors are not close to zero.)
const std::vector<SampleInput> kCwiseSample = {
    {.shape = {3, 2}, .values = {0, 1, 1, 0, 1, 2}},
    {.shape = {3}},
    {.shape = {2}, .values = {2, 3}},
    {.shape = {2, 1}, .values = {2, 3}}};

SLUICE_OP(SparseDenseCwiseAdd)
    .Input("sp_indices: int64")
    .Input("sp_values: T")
    .Input("sp_shape: int64")
    .Input("dense: T")
    .Output("output: T")
    .Attr(kNumberTypes)
    .Family("sparse")
    .Shape(CwiseShape)
    .Kernel(Cpu(RunCwise<Cwise::kAdd>))
    .Grad(CwiseGrad<Cwise::kAdd>)
    .Sample(kCwiseSample)
    .Doc("Adds to each entry the element of a dense tensor at its position.");

SLUICE_OP(SparseDenseCwiseMul)
    .Input("sp_indices: int64")
    .Input("sp_values: T")
    .Input("sp_shape: int64")
    .Input("dense: T")
    .Output("output: T")
    .Attr(kNumberTypes)
    .Family("sparse")
    .Shape(CwiseShape)
    .Kernel(Cpu(RunCwise<Cwise::kMul>))
    .Grad(CwiseGrad<Cwise::kMul>)
    .Sample(kCwiseSample)
    .Doc(
        "Multiplies each entry by the element of a dense tensor at its "
        "position.");

SLUICE_OP(SparseDenseCwiseDiv)
    .Input("sp_indices: int64")
    .Input("sp_values: T")
    .Input("sp_shape: int64")
    .Input("dense: T")
    .Output("output: T")
    .Attr(kNumberTypes)
    .Family("sparse")
    .Shape(CwiseShape)
    .Kernel(Cpu(RunCwise<Cwise::kDiv>))
    .Grad(CwiseGrad<Cwise::kDiv>)
    .Sample(kCwiseSample)
    .Doc(
        "Divides each entry by the element of a dense tensor at its "
        "position.");

}  // namespace
}  // namespace sluice
