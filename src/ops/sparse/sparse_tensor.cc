#include "ops/sparse/sparse_tensor.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_join.h"

namespace sluice::sparse {
namespace {

std::string IndexText(const int64_t* row, int rank) {
  return absl::StrCat("[", absl::StrJoin(row, row + rank, ","), "]");
}

}  // namespace

Result<Entries> View(const Tensor& indices, const Tensor* values,
                     const Tensor& shape, const std::string& what) {
  if (indices.rank() != 2)
    return InvalidArgument(what, "indices: expected a matrix, got shape ",
                           indices.shape().ToString());
  if (shape.rank() != 1 || shape.dim(0) != indices.dim(1))
    return InvalidArgument(
        what, "shape: expected a vector of ", indices.dim(1),
        " dimensions, as many as there are columns of indices, got shape ",
        shape.shape().ToString());
  if (values != nullptr &&
      (values->rank() != 1 || values->dim(0) != indices.dim(0)))
    return InvalidArgument(what, "values: expected a vector of ",
                           indices.dim(0),
                           ", one for each row of indices, got shape ",
                           values->shape().ToString());
  if (shape.dim(0) > 64)
    return InvalidArgument(what, "shape: expected at most 64 dimensions, got ",
                           shape.dim(0));
  Entries e;
  e.n = indices.dim(0);
  e.rank = static_cast<int>(indices.dim(1));
  e.indices = indices.raw<int64_t>();
  e.values = values;
  for (const int64_t d : shape.raw_flat<int64_t>()) {
    if (d < 0)
      return InvalidArgument(what, "shape: expected dimensions >= 0, got ", d);
    e.shape.push_back(d);
  }
  return e;
}

Result<Entries> InputAt(const KernelContext& ctx, int first,
                        const std::string& what) {
  return View(ctx.input(first), &ctx.input(first + 1), ctx.input(first + 2),
              what);
}

int Compare(const int64_t* a, const int64_t* b, int rank) {
  for (int d = 0; d < rank; ++d)
    if (a[d] != b[d]) return a[d] < b[d] ? -1 : 1;
  return 0;
}

Status CheckBounds(const Entries& e) {
  for (int64_t i = 0; i < e.n; ++i)
    for (int d = 0; d < e.rank; ++d)
      if (e.row(i)[d] < 0 || e.row(i)[d] >= e.shape[static_cast<size_t>(d)])
        return InvalidArgument("indices: expected index ", i, " within [",
                               absl::StrJoin(e.shape, ","), "], got ",
                               IndexText(e.row(i), e.rank));
  return OkStatus();
}

Status CheckOrder(const Entries& e, bool repeats_allowed) {
  for (int64_t i = 1; i < e.n; ++i) {
    const int c = Compare(e.row(i - 1), e.row(i), e.rank);
    if (c > 0 || (c == 0 && !repeats_allowed))
      return InvalidArgument("indices: expected increasing order, got ",
                             IndexText(e.row(i), e.rank), " after ",
                             IndexText(e.row(i - 1), e.rank));
  }
  return OkStatus();
}

std::vector<int64_t> Order(const Entries& e) {
  std::vector<int64_t> order(static_cast<size_t>(e.n));
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](int64_t a, int64_t b) {
    return Compare(e.row(a), e.row(b), e.rank) < 0;
  };
  if (!std::is_sorted(order.begin(), order.end(), before))
    std::stable_sort(order.begin(), order.end(), before);
  return order;
}

Result<Shape> DenseShape(const Entries& e) { return array::MakeShape(e.shape); }

Tensor VectorOf(const Dims& values) {
  return Tensor::Vector<int64_t>(array::SpanOf(values));
}

Status AllocateSparse(KernelContext& ctx, int first, int64_t n, DType type,
                      const Dims& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(first, DType::kInt64, Shape({n, rank})));
  if (type != DType::kInvalid)
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(first + 1, type, Shape({n})));
  ctx.set_output(first + 2, VectorOf(shape));
  return OkStatus();
}

void CopyValue(const Tensor& from, int64_t i, Tensor* to, int64_t at) {
  array::CopyRun(from.dtype(), array::At(from.dtype(), from.raw(), i),
                 array::At(from.dtype(), to->raw(), at), 1);
}

Result<int64_t> CheckShapes(const ShapeContext& c, int first) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape indices, c.WithRank(first, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape values, c.WithRank(first + 1, 1));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape shape, c.WithRank(first + 2, 1));
  SLUICE_RETURN_IF_ERROR(MergeDim(indices.dim(0), values.dim(0)).status());
  return MergeDim(indices.dim(1), shape.dim(0));
}

}  // namespace sluice::sparse
