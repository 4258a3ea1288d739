// Searching sorted rows.
#include <algorithm>

#include "base/parallel.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"

namespace sluice {
namespace {

using array::Tag;

// For each of some values, the number of elements of a sorted row that are
// before it; with kAfter, including equal ones. Without branches that depend on
// the elements, since each would be mispredicted half of the time, and side by
// side, so that one search goes on while another waits for its element.
template <bool kAfter, size_t kTogether, typename T>
void BoundsIn(const T* row, int64_t n, const T* values, int64_t* bounds) {
  const auto passes = [](T x, T v) -> int64_t {
    return kAfter ? !(v < x) : x < v;
  };
  std::fill_n(bounds, kTogether, 0);
  for (; n > 1; n -= n / 2)
    for (size_t i = 0; i < kTogether; ++i)
      bounds[i] += n / 2 & -passes(row[bounds[i] + n / 2 - 1], values[i]);
  if (n == 1)
    for (size_t i = 0; i < kTogether; ++i)
      bounds[i] += passes(row[bounds[i]], values[i]);
}

// The same for any number of values.
template <bool kAfter, typename T, typename Index>
void AllBoundsIn(const T* row, int64_t n, const T* values, int64_t count,
                 Index* out) {
  constexpr size_t kTogether = 8;
  int64_t bounds[kTogether];
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kTogether) <= count;
       i += static_cast<int64_t>(kTogether)) {
    BoundsIn<kAfter, kTogether>(row, n, values + i, bounds);
    std::copy_n(bounds, kTogether, out + i);
  }
  for (; i < count; ++i) {
    BoundsIn<kAfter, 1>(row, n, values + i, bounds);
    out[i] = static_cast<Index>(bounds[0]);
  }
}

// Values for which another thread starts.
constexpr int64_t kValuesPerThread = 2048;

Status CheckRows(const PartialShape& sorted, const PartialShape& values) {
  for (const PartialShape& s : {sorted, values})
    if (s.rank_known() && s.rank() != 2)
      return InvalidArgument("sorted_inputs and values: expected rank 2, got ",
                             s.ToString());
  if (sorted.rank_known() && values.rank_known())
    return MergeDim(sorted.dim(0), values.dim(0)).status();
  return OkStatus();
}

// For each value, the number of elements before it in its sorted row; with
// kAfter, including equal ones.
template <bool kAfter>
class BoundKernel {
 public:
  static Result<std::shared_ptr<BoundKernel>> Make(const Node& n) {
    const DType t = n.TypeAttr("T");
    if (IsComplex(t) || !array::ByNumber(t, [](auto) {}))
      return NoKernelFor(n, t);
    auto k = std::make_shared<BoundKernel>();
    k->index_ = n.TypeAttr("out_type");
    return k;
  }
  Status Run(KernelContext& ctx) {
    const Tensor &sorted = ctx.input(0), &values = ctx.input(1);
    SLUICE_RETURN_IF_ERROR(CheckRows(sorted.shape(), values.shape()));
    const int64_t n = sorted.dim(1), m = values.dim(1);
    if (index_ == DType::kInt32 && n > INT32_MAX)
      return InvalidArgument("sorted_inputs: expected at most 2^31-1 columns, ",
                             "got ", n);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, index_, values.shape()));
    Tensor& out = ctx.output(0);
    array::ByNumber(values.dtype(), [&]<typename T>(Tag<T>) {
      if constexpr (!std::is_same_v<T, complex64> &&
                    !std::is_same_v<T, complex128>) {
        ParallelFor(values.num_elements(), kValuesPerThread,
                    [&](int64_t begin, int64_t end) {
                      while (begin < end) {
                        const int64_t row = begin / m;
                        const int64_t count =
                            std::min(end, (row + 1) * m) - begin;
                        const T* of = sorted.raw<T>() + row * n;
                        const T* from = values.raw<T>() + begin;
                        if (index_ == DType::kInt32)
                          AllBoundsIn<kAfter>(of, n, from, count,
                                              out.raw<int32_t>() + begin);
                        else
                          AllBoundsIn<kAfter>(of, n, from, count,
                                              out.raw<int64_t>() + begin);
                        begin += count;
                      }
                    });
      }
    });
    return OkStatus();
  }

 private:
  DType index_ = DType::kInt32;
};

Status BoundShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(CheckRows(c.input(0), c.input(1)));
  c.set_output(0, c.input(1));
  return OkStatus();
}

SLUICE_OP(LowerBound)
    .Input("sorted_inputs: T")
    .Input("values: T")
    .Output("output: out_type")
    .Attr("T: type")
    .Attr("out_type: {int32, int64} = DT_INT32")
    .Shape(BoundShape)
    .Kernel(CpuState<BoundKernel<false>>(true))
    .NoGradient("indices have no derivative")
    .Sample({{.shape = {1, 4}, .values = {1, 3, 3, 5}},
             {.shape = {1, 3}, .values = {0, 3, 9}}})
    .Doc(
        "Counts, for each value, the elements of the sorted row that are less "
        "than it.")
    .Family("array");

SLUICE_OP(UpperBound)
    .Input("sorted_inputs: T")
    .Input("values: T")
    .Output("output: out_type")
    .Attr("T: type")
    .Attr("out_type: {int32, int64} = DT_INT32")
    .Shape(BoundShape)
    .Kernel(CpuState<BoundKernel<true>>(true))
    .NoGradient("indices have no derivative")
    .Sample({{.shape = {1, 4}, .values = {1, 3, 3, 5}},
             {.shape = {1, 3}, .values = {0, 3, 9}}})
    .Doc(
        "Counts, for each value, the elements of the sorted row that are less "
        "than or equal to it.")
    .Family("array");

}  // namespace
}  // namespace sluice
