// Sums of rows by segment. Sparse gradients become dense through it.
#include <algorithm>
#include <type_traits>

#include "exec/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/grad_util.h"

namespace sluice {
namespace {

int64_t IntAt(const Tensor& t, int64_t i) {
  return t.dtype() == DType::kInt32 ? t.data<int32_t>()[i]
                                    : t.data<int64_t>()[i];
}

// [num_segments] and what data has beyond the dimensions of the ids.
Result<Shape> OutputShape(const Tensor& data, const Tensor& ids,
                          const Tensor& count) {
  const auto prefix = ids.shape().dims();
  if (data.rank() < ids.rank() ||
      !std::equal(prefix.begin(), prefix.end(), data.shape().dims().begin()))
    return InvalidArgument(
        "data: expected a shape that begins with that of segment_ids, ",
        ids.shape().ToString(), ", got ", data.shape().ToString());
  if (count.rank() != 0)
    return InvalidArgument("num_segments: expected a scalar, got shape ",
                           count.shape().ToString());
  const int64_t n = IntAt(count, 0);
  if (n < 0)
    return InvalidArgument("num_segments: expected at least 0, got ", n);
  Dims dims = {n};
  for (int i = ids.rank(); i < data.rank(); ++i) dims.push_back(data.dim(i));
  return Shape::Make({dims.data(), dims.size()});
}

// Integers wrap; half and bfloat16 are rounded after each addition.
template <typename T>
T Add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(
        static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return static_cast<T>(a + b);
  }
}

template <typename T>
struct UnsortedSegmentSumKernel {
  static Status Run(KernelContext& ctx) {
    const Tensor data = ctx.input(0), ids = ctx.input(1);
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            OutputShape(data, ids, ctx.input(2)));
    const int64_t segments = shape.dim(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, data.dtype(), shape));
    T* out = ctx.output(0).template data<T>();
    std::fill(out, out + shape.num_elements(), T());
    const int64_t rows = ids.num_elements();
    const int64_t width = rows == 0 ? 0 : data.num_elements() / rows;
    const T* row = data.data<T>();
    for (int64_t i = 0; i < rows; ++i, row += width) {
      const int64_t id = IntAt(ids, i);
      if (id < 0) continue;  // Such rows are dropped.
      if (id >= segments)
        return InvalidArgument("segment_ids: expected ids below ", segments,
                               ", got ", id);
      T* to = out + id * width;
      for (int64_t k = 0; k < width; ++k) to[k] = Add(to[k], row[k]);
    }
    return OkStatus();
  }
};

Status UnsortedSegmentShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(2));
  const PartialShape &data = c.input(0), &ids = c.input(1);
  if (!data.rank_known() || !ids.rank_known()) return OkStatus();
  if (data.rank() < ids.rank())
    return InvalidArgument(
        "data: expected a shape that begins with that of segment_ids, ",
        ids.ToString(), ", got ", data.ToString());
  PartialShape out = PartialShape::Scalar();
  const std::optional<int64_t> n = c.ConstantInt(2);
  if (n && *n < 0)
    return InvalidArgument("num_segments: expected at least 0, got ", *n);
  out.add_dim(n.value_or(-1));
  for (int i = 0; i < data.rank(); ++i) {
    if (i < ids.rank())
      SLUICE_RETURN_IF_ERROR(MergeDim(data.dim(i), ids.dim(i)).status());
    else
      out.add_dim(data.dim(i));
  }
  c.set_output(0, out);
  return OkStatus();
}

// Each row gets the gradient of its segment; dropped ones get zero.
Status UnsortedSegmentSumGrad(GradContext& c) {
  const Output ids = c.input(1);
  const Output zero = ScalarOf(ids.dtype(), 0);
  const Output rows = Build("GatherV2", {c.dy[0], Build("Maximum", {ids, zero}),
                                         ScalarOf(DType::kInt32, 0)});
  Output kept = Build("GreaterEqual", {ids, zero});
  if (!rows || !kept) return OkStatus();  // The graph has the error.
  // A mask of as many dimensions as the rows.
  const Output extra = Build("Sub", {grad::RankOf(rows), grad::RankOf(ids)});
  const Output ones =
      Build("Fill", {grad::ExpandDims(extra, 0), ScalarOf(DType::kInt32, 1)});
  const Output shape =
      Build("ConcatV2", {grad::ShapeOf(ids), ones, ScalarOf(DType::kInt32, 0)});
  kept = grad::ReshapeTo(kept, shape);
  c.grads[0] = grad::Select(kept, rows, grad::ZerosLike(rows));
  return OkStatus();
}

SLUICE_OP(UnsortedSegmentSum)
    .Family("math")
    .Input("data: T")
    .Input("segment_ids: Tindices")
    .Input("num_segments: Tnumsegments")
    .Output("output: T")
    .Attr("T: numbertype")
    .Attr("Tindices: {int32, int64}")
    .Attr("Tnumsegments: {int32, int64} = DT_INT32")
    .Shape(UnsortedSegmentShape)
    .Kernel(CpuFor<UnsortedSegmentSumKernel, float, double, half, bfloat16,
                   int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                   uint32_t, uint64_t, complex64, complex128>("T"))
    .Grad(UnsortedSegmentSumGrad)
    .Sample({{.shape = {4, 2}},
             {.shape = {4}, .values = {2, 0, -1, 2}},
             {.shape = {}, .values = {3}}})
    .Doc("Sums the rows of each segment; rows of negative ids are dropped.");

}  // namespace
}  // namespace sluice
