// Counting and ranking: buckets, histograms, the n-th element; and Cross.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/math/elementwise.h"

namespace sluice {
namespace {

using array::IntAt;

constexpr char kCounts[] = "counts are not differentiable";

Result<int64_t> Scalar(KernelContext& ctx, int i, const char* what) {
  if (ctx.input(i).num_elements() != 1)
    return InvalidArgument(what, ": expected a scalar, got shape ",
                           ctx.input(i).shape().ToString());
  const int64_t v = IntAt(ctx.input(i), 0);
  if (v < 0) return InvalidArgument(what, ": expected a value >= 0, got ", v);
  return v;
}

// ---- Bucketize --------------------------------------------------------------

template <typename T>
class Bucketize {
 public:
  static Result<std::shared_ptr<Bucketize>> Make(const Node& n) {
    auto k = std::make_shared<Bucketize>();
    k->boundaries_ = n.AttrOr<std::vector<float>>("boundaries", {});
    if (!std::is_sorted(k->boundaries_.begin(), k->boundaries_.end()))
      return InvalidArgument("boundaries: expected ascending values");
    return k;
  }
  Status Run(KernelContext& ctx) const {
    const Tensor& x = ctx.input(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kInt32, x.shape()));
    const T* in = x.raw<T>();
    int32_t* out = ctx.output(0).raw<int32_t>();
    for (int64_t i = 0; i < x.num_elements(); ++i)
      out[i] = static_cast<int32_t>(
          std::upper_bound(boundaries_.begin(), boundaries_.end(), in[i]) -
          boundaries_.begin());
    return OkStatus();
  }

 private:
  std::vector<float> boundaries_;
};

SLUICE_OP(Bucketize)
    .Input("input: T")
    .Output("output: int32")
    .Attr("T: {int32, int64, float, double}")
    .Attr("boundaries: list(float)")
    .Family("math")
    .Shape(UnchangedShape)
    .Kernel(CpuStateFor<Bucketize, int32_t, int64_t, float, double>("T"))
    .NoGradient("bucket numbers are integers")
    .Sample({{.shape = {6}, .low = -5, .high = 15}},
            {{"boundaries", AttrValue::Floats{0, 10}}})
    .Doc(
        "Returns for each element the number of boundaries that are less than "
        "or equal to it.");

// ---- DenseBincount ----------------------------------------------------------

// Adds 1, or the weight, to the bin of each value; ignores values beyond the
// last bin. Each row of a matrix is counted separately.
template <typename T>
class DenseBincount {
 public:
  explicit DenseBincount(const Node& n)
      : binary_(n.BoolAttr("binary_output")) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& values = ctx.input(0);
    const Tensor& weights = ctx.input(2);
    SLUICE_ASSIGN_OR_RETURN(const int64_t size, Scalar(ctx, 1, "size"));
    if (values.rank() < 1 || values.rank() > 2)
      return InvalidArgument("input: expected rank 1 or 2, got shape ",
                             values.shape().ToString());
    const bool weighted = weights.num_elements() > 0;
    if (weighted && weights.num_elements() != values.num_elements())
      return InvalidArgument("weights: expected none or one for each of ",
                             values.num_elements(), " values, got ",
                             weights.num_elements());
    const bool rows = values.rank() == 2;
    const int64_t row_count = rows ? values.dim(0) : 1;
    const int64_t columns = rows ? values.dim(1) : values.num_elements();
    Dims dims = {size};
    if (rows) dims = {row_count, size};
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            Shape::Make({dims.data(), dims.size()}));
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0), Tensor::Zeros(DTypeOf<T>(), shape));
    T* out = ctx.output(0).template raw<T>();
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      const int64_t bin = IntAt(values, i);
      if (bin < 0)
        return InvalidArgument("input: expected values >= 0, got ", bin);
      if (bin >= size) continue;
      T& to = out[(columns > 0 ? i / columns : 0) * size + bin];
      if (binary_)
        to = T(1);
      else
        to += weighted ? weights.raw<T>()[i] : T(1);
    }
    return OkStatus();
  }

 private:
  const bool binary_;
};

Status DenseBincountShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  const int64_t size = c.ConstantInt(1).value_or(-1);
  if (c.ConstantInt(1).has_value() && size < 0)
    return InvalidArgument("size: expected a value >= 0, got ", size);
  const PartialShape& x = c.input(0);
  if (!x.rank_known()) return OkStatus();
  if (x.rank() == 2)
    c.set_output(0, PartialShape({x.dim(0), size}));
  else
    c.set_output(0, PartialShape({size}));
  return OkStatus();
}

SLUICE_OP(DenseBincount)
    .Input("input: Tidx")
    .Input("size: Tidx")
    .Input("weights: T")
    .Output("output: T")
    .Attr("Tidx: {int32, int64}")
    .Attr("T: {int32, int64, float, double}")
    .Attr("binary_output: bool = false")
    .Family("math")
    .Shape(DenseBincountShape)
    .Kernel(CpuStateFor<DenseBincount, int32_t, int64_t, float, double>("T"))
    .NoGradient(kCounts)
    .Sample({{.shape = {2, 3}, .values = {0, 2, 2, 1, 7, 1}},
             {.values = {4}},
             {.shape = {0}, .dtype = DType::kFloat}})
    .Doc(
        "Counts the occurrences of each value in a vector, or in each row of "
        "a matrix.");

// ---- HistogramFixedWidth ----------------------------------------------------

template <typename T>
struct Histogram {
  explicit Histogram(const Node&) {}
  Status Run(KernelContext& ctx) const {
    const Tensor& values = ctx.input(0);
    const Tensor& range = ctx.input(1);
    SLUICE_ASSIGN_OR_RETURN(const int64_t bins, Scalar(ctx, 2, "nbins"));
    if (bins < 1) return InvalidArgument("nbins: expected a value > 0, got 0");
    if (range.num_elements() != 2)
      return InvalidArgument("value_range: expected 2 values, got shape ",
                             range.shape().ToString());
    const double low = static_cast<double>(range.raw<T>()[0]);
    const double high = static_cast<double>(range.raw<T>()[1]);
    if (!(low < high))
      return InvalidArgument("value_range: expected two ascending values, got ",
                             low, " and ", high);
    const double step = (high - low) / static_cast<double>(bins);
    const DType type = ctx.node().output_type(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, Shape({bins})));
    const auto count = [&](auto* counts) {
      std::fill_n(counts, bins, 0);
      const T* in = values.raw<T>();
      const auto last = static_cast<double>(bins - 1);
      constexpr int64_t kBlock = 256;
      double at[kBlock];
      for (int64_t i = 0, n = values.num_elements(); i < n; i += kBlock) {
        const int64_t m = std::min(kBlock, n - i);
        const double from = low, width = step;
#pragma omp simd
        for (int64_t j = 0; j < m; ++j)
          at[j] = (static_cast<double>(in[i + j]) - from) / width;
        for (int64_t j = 0; j < m; ++j) {
          if (at[j] != at[j]) continue;  // NaN, or an infinite range.
          // (Not below 0, so that a conversion rounds like floor.)
          const double bin = std::min(std::max(at[j], 0.0), last);
          ++counts[static_cast<int64_t>(bin)];
        }
      }
    };
    if (type == DType::kInt32)
      count(ctx.output(0).raw<int32_t>());
    else
      count(ctx.output(0).raw<int64_t>());
    return OkStatus();
  }
};

Status HistogramShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape range, c.WithRank(1, 1));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(2));
  if (range.rank_known())
    SLUICE_RETURN_IF_ERROR(MergeDim(range.dim(0), 2).status());
  const std::optional<int64_t> bins = c.ConstantInt(2);
  if (bins && *bins < 1)
    return InvalidArgument("nbins: expected a value > 0, got ", *bins);
  c.set_output(0, PartialShape({bins.value_or(-1)}));
  return OkStatus();
}

SLUICE_OP(HistogramFixedWidth)
    .Input("values: T")
    .Input("value_range: T")
    .Input("nbins: int32")
    .Output("out: dtype")
    .Attr("T: {int32, int64, float, double}")
    .Attr("dtype: {int32, int64} = DT_INT32")
    .Family("math")
    .Shape(HistogramShape)
    .Kernel(CpuStateFor<Histogram, int32_t, int64_t, float, double>("T"))
    .NoGradient(kCounts)
    .Sample({{.shape = {6}, .low = -1, .high = 6, .dtype = DType::kFloat},
             {.shape = {2}, .values = {0, 5}, .dtype = DType::kFloat},
             {.values = {5}}})
    .Doc(
        "Counts values in bins of equal width; values outside the range count "
        "in the first or last bin.");

// ---- NthElement -------------------------------------------------------------

template <typename T>
struct NthElement {
  explicit NthElement(const Node& n) : reverse(n.BoolAttr("reverse")) {}
  Status Run(KernelContext& ctx) const {
    const Tensor& x = ctx.input(0);
    SLUICE_ASSIGN_OR_RETURN(int64_t n, Scalar(ctx, 1, "n"));
    if (x.rank() < 1)
      return InvalidArgument("input: expected rank 1 or more, got a scalar");
    const int64_t columns = x.dim(x.rank() - 1);
    if (n >= columns)
      return InvalidArgument("n: expected a value below ", columns,
                             ", the size of the last dimension, got ", n);
    if (reverse) n = columns - 1 - n;
    const Shape out(x.shape().dims().first(static_cast<size_t>(x.rank() - 1)));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, x.dtype(), out));
    const T* in = x.raw<T>();
    T* to = ctx.output(0).template raw<T>();
    std::vector<T> row(static_cast<size_t>(columns));
    for (int64_t r = 0; r < out.num_elements(); ++r) {
      std::copy(in + r * columns, in + (r + 1) * columns, row.begin());
      std::nth_element(row.begin(), row.begin() + n, row.end(),
                       [](T a, T b) { return a < b; });
      to[r] = row[static_cast<size_t>(n)];
    }
    return OkStatus();
  }
  bool reverse;
};

Status NthElementShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape x, c.WithRankAtLeast(0, 1));
  const std::optional<int64_t> n = c.ConstantInt(1);
  if (n && *n < 0) return InvalidArgument("n: expected a value >= 0, got ", *n);
  if (!x.rank_known()) return OkStatus();
  const int64_t columns = x.dim(x.rank() - 1);
  if (n && columns >= 0 && *n >= columns)
    return InvalidArgument("n: expected a value below ", columns,
                           ", the size of the last dimension, got ", *n);
  c.set_output(0, PartialShape(std::span<const int64_t>(
                      x.dims().data(), static_cast<size_t>(x.rank() - 1))));
  return OkStatus();
}

// Elements equal to the n-th share its gradient.
Status NthElementGrad(GradContext& c) {
  const Output x = c.input(0);
  if (!x.valid() || !c.dy[0].valid()) return OkStatus();
  const Output y = grad::ExpandDims(c.output(0), -1);
  const Output hits = grad::Cast(Build("Equal", {y, x}), grad::TypeOf(x));
  const Output count = grad::SumAxes(hits, {-1}, /*keep_dims=*/true);
  c.grads[0] = grad::Mul(grad::Div(hits, count), grad::ExpandDims(c.dy[0], -1));
  return OkStatus();
}

SLUICE_OP(NthElement)
    .Input("input: T")
    .Input("n: int32")
    .Output("values: T")
    .Attr("reverse: bool = false")
    .Attr(kRealTypes)
    .Family("math")
    .Shape(NthElementShape)
    .Kernel(CpuStateFor<NthElement, float, double, half, bfloat16, int8_t,
                        int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                        uint64_t>("T", /*expensive=*/true))
    .Grad(NthElementGrad)
    .Sample({{.shape = {2, 5}}, {.values = {1}}})
    .Doc(
        "Returns the n-th smallest (or largest) element of each row, counting "
        "from 0.");

// ---- Cross ------------------------------------------------------------------

template <typename T>
struct Cross {
  explicit Cross(const Node&) {}
  Status Run(KernelContext& ctx) const {
    SLUICE_RETURN_IF_ERROR(RequireEqualShapes(ctx, 0, 1));
    const Tensor& a = ctx.input(0);
    const Tensor& b = ctx.input(1);
    if (a.rank() < 1)
      return InvalidArgument("a: expected rank 1 or more, got a scalar");
    if (a.dim(a.rank() - 1) != 3)
      return FailedPrecondition("a: expected a last dimension of 3, got shape ",
                                a.shape().ToString());
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, a.dtype(), a.shape()));
    T* out = ctx.output(0).template raw<T>();
    for (int64_t i = 0; i < a.num_elements(); i += 3) {
      const T *u = a.raw<T>() + i, *v = b.raw<T>() + i;
      for (int k = 0; k < 3; ++k) {
        const int p = (k + 1) % 3, q = (k + 2) % 3;
        out[i + k] = array::WrapSub(array::WrapMul(u[p], v[q]),
                                    array::WrapMul(u[q], v[p]));
      }
    }
    return OkStatus();
  }
};

Status CrossShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(MergeBothShape(c));
  const PartialShape& s = c.outputs()[0];
  if (!s.rank_known()) return OkStatus();
  if (s.rank() < 1)
    return InvalidArgument("a: expected rank 1 or more, got a scalar");
  return MergeDim(s.dim(s.rank() - 1), 3).status();
}

Status CrossGrad(GradContext& c) {
  c.grads[0] = Build("Cross", {c.input(1), c.dy[0]});
  c.grads[1] = Build("Cross", {c.dy[0], c.input(0)});
  return OkStatus();
}

SLUICE_OP(Cross)
    .Input("a: T")
    .Input("b: T")
    .Output("product: T")
    .Attr(kRealTypes)
    .Family("math")
    .Shape(CrossShape)
    .Kernel(CpuStateFor<Cross, float, double, half, bfloat16, int8_t, int16_t,
                        int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                        uint64_t>("T"))
    .Grad(CrossGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {2, 3}}})
    .Doc(
        "The cross product of three-element vectors along the last "
        "dimension.");

}  // namespace
}  // namespace sluice
