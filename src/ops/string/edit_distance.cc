// Edit distance between sequences: insertions, deletions, substitutions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"

namespace sluice {
namespace {

template <typename T>
int64_t Levenshtein(const T* a, int64_t n, const T* b, int64_t m) {
  std::vector<int64_t> row(static_cast<size_t>(m + 1));
  for (int64_t j = 0; j <= m; ++j) row[static_cast<size_t>(j)] = j;
  for (int64_t i = 0; i < n; ++i) {
    int64_t diagonal = i;  // From the row above.
    row[0] = i + 1;
    for (int64_t j = 0; j < m; ++j) {
      int64_t& next = row[static_cast<size_t>(j + 1)];
      const int64_t swapped = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = next;
      next = std::min({swapped, next + 1, row[static_cast<size_t>(j)] + 1});
    }
  }
  return row.back();
}

// Three inputs: a sparse tensor whose rows are sequences.
class Sequences {
 public:
  static Result<Sequences> Read(const KernelContext& ctx, int first,
                                const char* what) {
    const Tensor &indices = ctx.input(first), &values = ctx.input(first + 1),
                 &shape = ctx.input(first + 2);
    if (indices.rank() != 2 || values.rank() != 1 || shape.rank() != 1 ||
        indices.dim(0) != values.dim(0) || indices.dim(1) != shape.dim(0))
      return InvalidArgument(
          what,
          ": expected indices [n, rank], values [n] and a shape [rank], got ",
          indices.shape().ToString(), ", ", values.shape().ToString(), " and ",
          shape.shape().ToString());
    if (shape.dim(0) < 2)
      return InvalidArgument(what, ": expected rank at least 2, got ",
                             shape.dim(0));
    Sequences s;
    SLUICE_ASSIGN_OR_RETURN(const Shape dense, array::ShapeFrom(shape, what));
    s.dims = array::DimsOf(dense);
    s.rank = shape.dim(0);
    s.count = indices.dim(0);
    s.index = indices.raw<int64_t>();
    for (int64_t i = 0; i < s.count; ++i)
      for (int64_t d = 0; d < s.rank; ++d) {
        const int64_t at = s.index[i * s.rank + d];
        if (at < 0 || at >= s.dims[static_cast<size_t>(d)])
          return InvalidArgument(what, "_indices: expected an index within ",
                                 dense.ToString(), ", got ", at,
                                 " in dimension ", d);
      }
    return s;
  }
  // The end of the sequence that begins at `i`.
  int64_t End(int64_t i) const {
    int64_t end = i + 1;
    while (end < count && Compare(*this, i, *this, end) == 0) ++end;
    return end;
  }
  // Compares the groups of two elements: all indices except the last.
  static int Compare(const Sequences& a, int64_t i, const Sequences& b,
                     int64_t j) {
    for (int64_t d = 0; d + 1 < a.rank; ++d) {
      const int64_t x = a.index[i * a.rank + d], y = b.index[j * b.rank + d];
      if (x != y) return x < y ? -1 : 1;
    }
    return 0;
  }

  Dims dims;
  int64_t rank = 0, count = 0;
  const int64_t* index = nullptr;
};

template <typename T>
struct EditDistanceKernel {
  static Status Run(KernelContext& ctx) {
    const bool normalize = ctx.node().BoolAttr("normalize");
    SLUICE_ASSIGN_OR_RETURN(const Sequences h,
                            Sequences::Read(ctx, 0, "hypothesis"));
    SLUICE_ASSIGN_OR_RETURN(const Sequences t,
                            Sequences::Read(ctx, 3, "truth"));
    if (h.rank != t.rank)
      return InvalidArgument("hypothesis: expected the rank of truth, ", t.rank,
                             ", got ", h.rank);
    Dims dims;
    for (size_t d = 0; d + 1 < h.dims.size(); ++d)
      dims.push_back(std::max(h.dims[d], t.dims[d]));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kFloat, shape));
    float* out = ctx.output(0).raw<float>();
    std::fill_n(out, shape.num_elements(), 0.0f);
    const Dims strides = array::DenseStrides(array::SpanOf(dims));
    const auto place = [&](const Sequences& s, int64_t i) -> float& {
      int64_t at = 0;
      for (size_t d = 0; d < strides.size(); ++d)
        at += s.index[i * s.rank + static_cast<int64_t>(d)] * strides[d];
      return out[at];
    };
    const T *hv = ctx.input(1).raw<T>(), *tv = ctx.input(4).raw<T>();
    for (int64_t i = 0, j = 0; i < h.count || j < t.count;) {
      const int order = i == h.count   ? 1
                        : j == t.count ? -1
                                       : Sequences::Compare(h, i, t, j);
      const int64_t i_end = order <= 0 ? h.End(i) : i;
      const int64_t j_end = order >= 0 ? t.End(j) : j;
      float& to = order <= 0 ? place(h, i) : place(t, j);
      if (order == 0) {
        to = static_cast<float>(
            Levenshtein(tv + j, j_end - j, hv + i, i_end - i));
        if (normalize) to /= static_cast<float>(j_end - j);
      } else if (order < 0) {  // The truth has no such sequence.
        to = normalize ? std::numeric_limits<float>::infinity()
                       : static_cast<float>(i_end - i);
      } else {
        to = normalize ? 1.0f : static_cast<float>(j_end - j);
      }
      i = i_end;
      j = j_end;
    }
    return OkStatus();
  }
};

Status EditDistanceShape(ShapeContext& c) {
  for (int i : {0, 3}) {
    SLUICE_RETURN_IF_ERROR(c.WithRank(i, 2).status());
    SLUICE_RETURN_IF_ERROR(c.WithRank(i + 1, 1).status());
    SLUICE_RETURN_IF_ERROR(c.WithRank(i + 2, 1).status());
  }
  const Tensor *h = c.constant(2), *t = c.constant(5);
  if (h == nullptr || t == nullptr) return OkStatus();
  const int64_t rank = h->num_elements();
  if (rank != t->num_elements() || rank < 2)
    return InvalidArgument(
        "hypothesis_shape and truth_shape: expected equal ranks of "
        "at least 2, got ",
        rank, " and ", t->num_elements());
  Dims dims;
  for (int64_t d = 0; d + 1 < rank; ++d)
    dims.push_back(std::max(array::IntAt(*h, d), array::IntAt(*t, d)));
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
  c.set_output(0, PartialShape(shape));
  return OkStatus();
}

SLUICE_OP(EditDistance)
    .Input("hypothesis_indices: int64")
    .Input("hypothesis_values: T")
    .Input("hypothesis_shape: int64")
    .Input("truth_indices: int64")
    .Input("truth_values: T")
    .Input("truth_shape: int64")
    .Output("output: float")
    .Attr("normalize: bool = true")
    .Attr("T: type")
    .Family("array")
    .Shape(EditDistanceShape)
    .Kernel(CpuFor<EditDistanceKernel, float, double, half, bfloat16, int8_t,
                   int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                   uint64_t, complex64, complex128, bool, std::string>("T"))
    .NoGradient("its output is a count")
    .Sample({{.shape = {2, 2}, .values = {0, 0, 0, 1}},
             {.shape = {2}, .values = {1, 2}},
             {.shape = {2}, .values = {1, 2}},
             {.shape = {2, 2}, .values = {0, 0, 0, 1}},
             {.shape = {2}, .values = {1, 3}},
             {.shape = {2}, .values = {1, 2}}})
    .Doc(
        "Computes the edit distance (insertions, deletions and substitutions) "
        "between the sequences of two sparse tensors.");

}  // namespace
}  // namespace sluice
