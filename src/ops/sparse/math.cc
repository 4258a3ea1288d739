// Arithmetic on sparse tensors: sums and extremes of two of them, softmax, and
// filling of empty rows.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "graph/op_def.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/sparse/sparse_tensor.h"

namespace sluice {
namespace {

using sparse::Entries;

// ---- Unions -----------------------------------------------------------------

// A position of a union: entry a of one tensor, entry b of the other, -1 for
// none.
struct UnionPlace {
  int64_t a = -1, b = -1;
};

std::vector<UnionPlace> UnionOf(const Entries& a, const Entries& b) {
  std::vector<UnionPlace> out;
  int64_t i = 0, j = 0;
  while (i < a.n || j < b.n) {
    const int c = i == a.n   ? 1
                  : j == b.n ? -1
                             : sparse::Compare(a.row(i), b.row(j), a.rank);
    UnionPlace p;
    if (c <= 0) p.a = i++;
    if (c >= 0) p.b = j++;
    out.push_back(p);
  }
  return out;
}

Status CheckSameShape(const Entries& a, const Entries& b) {
  if (a.shape == b.shape) return OkStatus();
  return InvalidArgument("b_shape: expected the shape of a, got another");
}

template <typename T>
auto Magnitude(T v) {
  if constexpr (std::is_unsigned_v<T>)
    return v;
  else if constexpr (std::is_integral_v<T>)
    return v < 0 ? array::WrapSub(T(0), v) : v;
  else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>)
    return std::abs(static_cast<float>(v));
  else
    return std::abs(v);
}

// The real type of thresholds for values of T.
template <typename T>
struct RealOf {
  using type = T;
};
template <typename F>
struct RealOf<std::complex<F>> {
  using type = F;
};

class SparseAddKernel {
 public:
  static Result<std::shared_ptr<SparseAddKernel>> Make(const Node& n) {
    const DType t = n.TypeAttr("T");
    DType real = t;
    if (t == DType::kComplex64) real = DType::kFloat;
    if (t == DType::kComplex128) real = DType::kDouble;
    if (n.TypeAttr("Treal") != real)
      return InvalidArgument("Treal: expected ", DTypeName(real),
                             " for values of ", DTypeName(t), ", got ",
                             DTypeName(n.TypeAttr("Treal")));
    return std::make_shared<SparseAddKernel>();
  }

  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Entries a, sparse::InputAt(ctx, 0, "a_"));
    SLUICE_ASSIGN_OR_RETURN(const Entries b, sparse::InputAt(ctx, 3, "b_"));
    SLUICE_RETURN_IF_ERROR(CheckSameShape(a, b));
    if (ctx.input(6).rank() != 0)
      return InvalidArgument("thresh: expected a scalar, got shape ",
                             ctx.input(6).shape().ToString());
    Status status = OkStatus();
    const bool known = array::ByNumber(
        a.values->dtype(),
        [&]<typename T>(array::Tag<T>) { status = Add<T>(ctx, a, b); });
    return known ? status : NoKernelFor(ctx.node(), a.values->dtype());
  }

 private:
  template <typename T>
  static Status Add(KernelContext& ctx, const Entries& a, const Entries& b) {
    const auto least =
        ctx.input(6).template raw_scalar<typename RealOf<T>::type>();
    std::vector<UnionPlace> places;
    std::vector<T> sums;
    for (const UnionPlace& p : UnionOf(a, b)) {
      T sum = p.a >= 0 ? a.values->template raw<T>()[p.a] : T(0);
      if (p.b >= 0) {
        const T v = b.values->template raw<T>()[p.b];
        sum = p.a >= 0 ? array::WrapAdd(sum, v) : v;
      }
      // (Entries of only one of the operands are kept, however small.)
      if (p.a >= 0 && p.b >= 0 && !(Magnitude(sum) >= least)) continue;
      places.push_back(p);
      sums.push_back(sum);
    }
    SLUICE_RETURN_IF_ERROR(sparse::AllocateSparse(
        ctx, 0, static_cast<int64_t>(places.size()), DTypeOf<T>(), a.shape));
    int64_t* row = ctx.output(0).template raw<int64_t>();
    for (const UnionPlace& p : places)
      row = std::copy_n(p.a >= 0 ? a.row(p.a) : b.row(p.b), a.rank, row);
    std::copy(sums.begin(), sums.end(), ctx.output(1).template raw<T>());
    return OkStatus();
  }
};

Status SparseAddShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(int64_t rank, sparse::CheckShapes(c, 0));
  SLUICE_ASSIGN_OR_RETURN(const int64_t other, sparse::CheckShapes(c, 3));
  SLUICE_ASSIGN_OR_RETURN(rank, MergeDim(rank, other));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(6));
  c.set_output(0, PartialShape({-1, rank}));
  c.set_output(1, PartialShape({-1}));
  c.set_output(2, PartialShape({rank}));
  return OkStatus();
}

Status SparseAddGradient(GradContext& c) {
  if (c.dy[1].node == nullptr) return OkStatus();
  Node* g = BuildNode("SparseAddGrad",
                      {c.dy[1], c.input(0), c.input(3), c.output(0)});
  if (g == nullptr) return OkStatus();
  c.grads[1] = Output(g, 0);
  c.grads[4] = Output(g, 1);
  return OkStatus();
}

SLUICE_OP(SparseAdd)
    .Input("a_indices: int64")
    .Input("a_values: T")
    .Input("a_shape: int64")
    .Input("b_indices: int64")
    .Input("b_values: T")
    .Input("b_shape: int64")
    .Input("thresh: Treal")
    .Output("sum_indices: int64")
    .Output("sum_values: T")
    .Output("sum_shape: int64")
    .Attr(kNumberTypes)
    .Attr(
        "Treal: {float, double, int32, uint8, int16, int8, int64, bfloat16, "
        "uint16, half, uint32, uint64}")
    .Family("sparse")
    .Shape(SparseAddShape)
    .Kernel(CpuState<SparseAddKernel>())
    .Grad(SparseAddGradient)
    .Sample({{.shape = {3, 2}, .values = {0, 1, 1, 0, 1, 2}},
             {.shape = {3}, .dtype = DType::kDouble},
             {.shape = {2}, .values = {2, 3}},
             {.shape = {2, 2}, .values = {0, 0, 1, 0}},
             {.shape = {2}, .dtype = DType::kDouble},
             {.shape = {2}, .values = {2, 3}},
             {.values = {0}, .dtype = DType::kDouble}})
    .Doc(
        "Adds two sparse tensors and drops sums of two entries that are "
        "smaller than a threshold.");

// Gradients of the entries of a sum with respect to its operands: all lists are
// sorted.
Status RunSparseAddGrad(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Tensor& sum = ctx.input(3);
  if (dy.rank() != 1 || sum.rank() != 2 || dy.dim(0) != sum.dim(0))
    return InvalidArgument(
        "backprop_val_grad: expected a vector with a value for each row of "
        "sum_indices, got shapes ",
        dy.shape().ToString(), " and ", sum.shape().ToString());
  const auto rank = static_cast<int>(sum.dim(1));
  for (int k : {1, 2}) {
    const Tensor& term = ctx.input(k);
    if (term.rank() != 2 || term.dim(1) != sum.dim(1))
      return InvalidArgument(k == 1 ? "a" : "b", "_indices: expected ", rank,
                             " columns, got shape ", term.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(Tensor out,
                            array::MakeZeros(dy.dtype(), Shape({term.dim(0)}),
                                             ctx.step().allocator));
    int64_t at = 0;
    for (int64_t i = 0; i < term.dim(0); ++i) {
      const int64_t* row = term.raw<int64_t>() + i * rank;
      int c = 1;
      while (at < sum.dim(0) &&
             (c = sparse::Compare(sum.raw<int64_t>() + at * rank, row, rank)) <
                 0)
        ++at;
      if (at < sum.dim(0) && c == 0) sparse::CopyValue(dy, at, &out, i);
    }
    ctx.set_output(k - 1, std::move(out));
  }
  return OkStatus();
}

Status SparseAddGradShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(3, 2).status());
  for (int i : {1, 2}) {
    SLUICE_ASSIGN_OR_RETURN(const PartialShape s, c.WithRank(i, 2));
    c.set_output(i - 1, PartialShape({s.dim(0)}));
  }
  return OkStatus();
}

SLUICE_OP(SparseAddGrad)
    .Input("backprop_val_grad: T")
    .Input("a_indices: int64")
    .Input("b_indices: int64")
    .Input("sum_indices: int64")
    .Output("a_val_grad: T")
    .Output("b_val_grad: T")
    .Attr(kNumberTypes)
    .Family("sparse")
    .Shape(SparseAddGradShape)
    .Kernel(Cpu(RunSparseAddGrad))
    .NoGradient("TensorFlow does not define one")
    .Sample({{.shape = {3}},
             {.shape = {2, 1}, .values = {0, 2}},
             {.shape = {2, 1}, .values = {0, 1}},
             {.shape = {3, 1}, .values = {0, 1, 2}}})
    .Doc(
        "The gradient of a sparse sum with respect to the entries of its two "
        "operands.");

// ---- Extremes ---------------------------------------------------------------

// An entry of only one of them is combined with zero.
template <bool maximum>
Status RunExtreme(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const Entries a, sparse::InputAt(ctx, 0, "a_"));
  SLUICE_ASSIGN_OR_RETURN(const Entries b, sparse::InputAt(ctx, 3, "b_"));
  SLUICE_RETURN_IF_ERROR(CheckSameShape(a, b));
  const std::vector<UnionPlace> places = UnionOf(a, b);
  const auto n = static_cast<int64_t>(places.size());
  const DType type = a.values->dtype();
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kInt64, Shape({n, a.rank})));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, type, Shape({n})));
  int64_t* row = ctx.output(0).raw<int64_t>();
  for (const UnionPlace& p : places)
    row = std::copy_n(p.a >= 0 ? a.row(p.a) : b.row(p.b), a.rank, row);
  bool real = false;
  array::ByNumber(type, [&]<typename T>(array::Tag<T>) {
    if constexpr (!std::is_same_v<T, complex64> &&
                  !std::is_same_v<T, complex128>) {
      real = true;
      T* out = ctx.output(1).template raw<T>();
      for (const UnionPlace& p : places) {
        const T x = p.a >= 0 ? a.values->raw<T>()[p.a] : T(0);
        const T y = p.b >= 0 ? b.values->raw<T>()[p.b] : T(0);
        *out++ = (maximum ? x < y : y < x) ? y : x;
      }
    }
  });
  return real ? OkStatus() : NoKernelFor(ctx.node(), type);
}

Status ExtremeShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(int64_t rank, sparse::CheckShapes(c, 0));
  SLUICE_ASSIGN_OR_RETURN(const int64_t other, sparse::CheckShapes(c, 3));
  SLUICE_ASSIGN_OR_RETURN(rank, MergeDim(rank, other));
  c.set_output(0, PartialShape({-1, rank}));
  c.set_output(1, PartialShape({-1}));
  return OkStatus();
}

SLUICE_OP(SparseSparseMaximum)
    .Input("a_indices: int64")
    .Input("a_values: T")
    .Input("a_shape: int64")
    .Input("b_indices: int64")
    .Input("b_values: T")
    .Input("b_shape: int64")
    .Output("output_indices: int64")
    .Output("output_values: T")
    .Attr(kRealTypes)
    .Family("sparse")
    .Shape(ExtremeShape)
    .Kernel(Cpu(RunExtreme<true>))
    .Grad(grad::Undefined)
    .Doc(
        "The maximum of two sparse tensors at each position where either has "
        "an entry.");

SLUICE_OP(SparseSparseMinimum)
    .Input("a_indices: int64")
    .Input("a_values: T")
    .Input("a_shape: int64")
    .Input("b_indices: int64")
    .Input("b_values: T")
    .Input("b_shape: int64")
    .Output("output_indices: int64")
    .Output("output_values: T")
    .Attr(kNumberTypes)
    .Family("sparse")
    .Shape(ExtremeShape)
    .Kernel(Cpu(RunExtreme<false>))
    .Grad(grad::Undefined)
    .Doc(
        "The minimum of two sparse tensors at each position where either has "
        "an entry.");

// ---- SparseSoftmax ----------------------------------------------------------

template <typename T>
struct SparseSoftmaxKernel {
  static Status Run(KernelContext& ctx) {
    using C = ComputeType<T>;
    SLUICE_ASSIGN_OR_RETURN(const Entries e, sparse::InputAt(ctx, 0, "sp_"));
    if (e.rank < 2)
      return InvalidArgument("sp_shape: expected rank 2 or more, got ", e.rank);
    SLUICE_RETURN_IF_ERROR(sparse::CheckBounds(e));
    SLUICE_RETURN_IF_ERROR(sparse::CheckOrder(e));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), Shape({e.n})));
    const T* x = e.values->template raw<T>();
    T* out = ctx.output(0).template raw<T>();
    for (int64_t begin = 0, end = 0; begin < e.n; begin = end) {
      C most = static_cast<C>(x[begin]);
      for (end = begin; end < e.n && sparse::Compare(e.row(begin), e.row(end),
                                                     e.rank - 1) == 0;
           ++end)
        most = std::max(most, static_cast<C>(x[end]));
      C sum = 0;
      for (int64_t i = begin; i < end; ++i)
        sum += std::exp(static_cast<C>(x[i]) - most);
      for (int64_t i = begin; i < end; ++i)
        out[i] = T(std::exp(static_cast<C>(x[i]) - most) / sum);
    }
    return OkStatus();
  }
};

Status SparseSoftmaxShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(sparse::CheckShapes(c, 0).status());
  SLUICE_ASSIGN_OR_RETURN(const PartialShape values, c.WithRank(1, 1));
  c.set_output(0, values);
  return OkStatus();
}

Status SparseSoftmaxGrad(GradContext& c) {
  const Output y = c.output(0), dy = c.dy[0];
  const Output sums =
      Build("SparseReduceSum",
            {c.input(0), grad::Mul(y, dy), c.input(2), IntVector({-1})},
            {{"keep_dims", true}});
  const Output centred = Build("SparseDenseCwiseAdd",
                               {c.input(0), dy, c.input(2), grad::Neg(sums)});
  c.grads[1] = grad::Mul(centred, y);
  return OkStatus();
}

SLUICE_OP(SparseSoftmax)
    .Input("sp_indices: int64")
    .Input("sp_values: T")
    .Input("sp_shape: int64")
    .Output("output: T")
    .Attr("T: {half, float, double}")
    .Family("sparse")
    .Shape(SparseSoftmaxShape)
    .Kernel(CpuFor<SparseSoftmaxKernel, half, float, double>("T"))
    .Grad(SparseSoftmaxGrad)
    .Sample({{.shape = {3, 2}, .values = {0, 1, 1, 0, 1, 2}},
             {.shape = {3}},
             {.shape = {2}, .values = {2, 3}}})
    .Doc("The softmax over the entries of each row, ignoring missing entries.");

// ---- SparseFillEmptyRows ----------------------------------------------------

Status RunSparseFillEmptyRows(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(
      const Entries e,
      sparse::View(ctx.input(0), &ctx.input(1), ctx.input(2), "dense_"));
  const Tensor& filling = ctx.input(3);
  if (filling.rank() != 0)
    return InvalidArgument("default_value: expected a scalar, got shape ",
                           filling.shape().ToString());
  if (e.rank == 0)
    return InvalidArgument("dense_shape: expected a dimension or more, got 0");
  const int64_t rows = e.shape[0];
  for (int64_t i = 0; i < e.n; ++i)
    if (e.row(i)[0] < 0 || e.row(i)[0] >= rows)
      return InvalidArgument("indices: expected rows in [0, ", rows, "), got ",
                             e.row(i)[0]);
  SLUICE_ASSIGN_OR_RETURN(const Shape row_shape, array::MakeShape({rows}));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(2, DType::kBool, row_shape));
  // The position of the next entry of each row.
  SLUICE_ASSIGN_OR_RETURN(Tensor next_of,
                          ctx.AllocateTemp(DType::kInt64, row_shape));
  int64_t* next = next_of.raw<int64_t>();
  bool* empty = ctx.output(2).raw<bool>();
  std::fill_n(next, rows, 0);
  for (int64_t i = 0; i < e.n; ++i) ++next[e.row(i)[0]];
  int64_t n = 0;
  for (int64_t r = 0; r < rows; ++r) {
    empty[r] = next[r] == 0;
    const int64_t many = std::max<int64_t>(next[r], 1);
    next[r] = n;
    n += many;
  }
  const DType type = filling.dtype();
  SLUICE_ASSIGN_OR_RETURN(const Shape out_shape, array::MakeShape({n, e.rank}));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kInt64, out_shape));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, type, Shape({n})));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(3, DType::kInt64, Shape({e.n})));
  int64_t* indices = ctx.output(0).raw<int64_t>();
  for (int64_t r = 0; r < rows; ++r) {
    if (!empty[r]) continue;
    indices[next[r] * e.rank] = r;
    std::fill_n(indices + next[r] * e.rank + 1, e.rank - 1, 0);
    sparse::CopyValue(filling, 0, &ctx.output(1), next[r]);
  }
  for (int64_t i = 0; i < e.n; ++i) {
    const int64_t at = next[e.row(i)[0]]++;
    std::copy_n(e.row(i), e.rank, indices + at * e.rank);
    sparse::CopyValue(*e.values, i, &ctx.output(1), at);
    ctx.output(3).raw<int64_t>()[i] = at;
  }
  return OkStatus();
}

Status SparseFillEmptyRowsShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const int64_t rank, sparse::CheckShapes(c, 0));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape values, c.WithRank(1, 1));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(3));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape shape, c.InputAsShape(2));
  c.set_output(0, PartialShape({-1, rank}));
  c.set_output(1, PartialShape({-1}));
  c.set_output(2, PartialShape({shape.rank() > 0 ? shape.dim(0) : -1}));
  c.set_output(3, values);
  return OkStatus();
}

Status SparseFillEmptyRowsGradient(GradContext& c) {
  if (c.dy[1].node == nullptr) return OkStatus();
  Node* g = BuildNode("SparseFillEmptyRowsGrad", {c.output(3), c.dy[1]});
  if (g == nullptr) return OkStatus();
  c.grads[1] = Output(g, 0);
  c.grads[3] = Output(g, 1);
  return OkStatus();
}

SLUICE_OP(SparseFillEmptyRows)
    .Input("indices: int64")
    .Input("values: T")
    .Input("dense_shape: int64")
    .Input("default_value: T")
    .Output("output_indices: int64")
    .Output("output_values: T")
    .Output("empty_row_indicator: bool")
    .Output("reverse_index_map: int64")
    .Attr("T: type")
    .Family("sparse")
    .Shape(SparseFillEmptyRowsShape)
    .Kernel(Cpu(RunSparseFillEmptyRows))
    .Grad(SparseFillEmptyRowsGradient)
    .Sample({{.shape = {3, 2}, .values = {2, 0, 0, 1, 2, 1}},
             {.shape = {3}},
             {.shape = {2}, .values = {4, 3}},
             {}})
    .Doc("Adds an entry with the given value to every empty row.");

Status RunSparseFillEmptyRowsGrad(KernelContext& ctx) {
  const Tensor& map = ctx.input(0);
  const Tensor& dy = ctx.input(1);
  if (map.rank() != 1 || dy.rank() != 1)
    return InvalidArgument(
        "reverse_index_map, grad_values: expected vectors, got shapes ",
        map.shape().ToString(), " and ", dy.shape().ToString());
  const int64_t n = dy.dim(0);
  for (int64_t at : map.raw_flat<int64_t>())
    if (at < 0 || at >= n)
      return InvalidArgument("reverse_index_map: expected places in [0, ", n,
                             "), got ", at);
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, dy.dtype(), map.shape()));
  SLUICE_ASSIGN_OR_RETURN(ctx.output(1), Tensor::Zeros(dy.dtype(), Shape()));
  std::vector<bool> seen(static_cast<size_t>(n));
  for (int64_t i = 0; i < map.dim(0); ++i) {
    const int64_t at = map.raw<int64_t>()[i];
    seen[static_cast<size_t>(at)] = true;
    sparse::CopyValue(dy, at, &ctx.output(0), i);
  }
  const bool known =
      array::ByNumber(dy.dtype(), [&]<typename T>(array::Tag<T>) {
        ComputeType<T> sum(0);
        for (int64_t i = 0; i < n; ++i)
          if (!seen[static_cast<size_t>(i)])
            sum = array::WrapAdd(sum,
                                 static_cast<ComputeType<T>>(dy.raw<T>()[i]));
        *ctx.output(1).raw<T>() = T(sum);
      });
  return known ? OkStatus() : NoKernelFor(ctx.node(), dy.dtype());
}

Status SparseFillEmptyRowsGradShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape map, c.WithRank(0, 1));
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  c.set_output(0, map);
  c.set_output(1, PartialShape::Scalar());
  return OkStatus();
}

SLUICE_OP(SparseFillEmptyRowsGrad)
    .Input("reverse_index_map: int64")
    .Input("grad_values: T")
    .Output("d_values: T")
    .Output("d_default_value: T")
    .Attr("T: type")
    .Family("sparse")
    .Shape(SparseFillEmptyRowsGradShape)
    .Kernel(Cpu(RunSparseFillEmptyRowsGrad))
    .NoGradient("TensorFlow does not define one")
    .Sample({{.shape = {2}, .values = {2, 0}}, {.shape = {4}}})
    .Doc("The gradients of SparseFillEmptyRows.");

}  // namespace
}  // namespace sluice
