// Reductions of the rows of an array by segment.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "graph/deferred_sums.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/tensor_array/deferred_sum.h"

namespace sluice {
namespace {

using grad::Mul;
using grad::Select;

enum class SegmentOp { kSum, kMean, kProd, kMax, kMin };

template <typename T>
struct Limits {
  static T Lowest() { return std::numeric_limits<T>::lowest(); }
  static T Highest() { return std::numeric_limits<T>::max(); }
};
template <>
struct Limits<half> {
  static half Lowest() { return half(-65504.0f); }
  static half Highest() { return half(65504.0f); }
};
template <>
struct Limits<bfloat16> {
  static bfloat16 Lowest() { return bfloat16(-3.3895314e38f); }
  static bfloat16 Highest() { return bfloat16(3.3895314e38f); }
};

// Integers wrap around, which is only defined for unsigned ones.
template <typename T>
auto Wrapping(T x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<uint64_t>(x);
  else
    return x;
}

// acc[i] = op(acc[i], row[i]), rounding to T each time.
template <SegmentOp op, typename T>
void Combine(T* acc, const T* row, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (op == SegmentOp::kSum || op == SegmentOp::kMean)
      acc[i] = T(Wrapping(acc[i]) + Wrapping(row[i]));
    else if constexpr (op == SegmentOp::kProd)
      acc[i] = T(Wrapping(acc[i]) * Wrapping(row[i]));
    else if constexpr (op == SegmentOp::kMax)
      acc[i] = acc[i] < row[i] ? row[i] : acc[i];
    else
      acc[i] = row[i] < acc[i] ? row[i] : acc[i];
  }
}

int64_t IdAt(const Tensor& ids, int64_t i) {
  switch (ids.dtype()) {
    case DType::kInt16:
      return ids.raw<int16_t>()[i];
    case DType::kInt32:
      return ids.raw<int32_t>()[i];
    default:
      return ids.raw<int64_t>()[i];
  }
}

// Calls f with the ids as an array of their type.
template <typename F>
auto WithIds(const Tensor& ids, F&& f) {
  switch (ids.dtype()) {
    case DType::kInt16:
      return f(ids.raw<int16_t>());
    case DType::kInt32:
      return f(ids.raw<int32_t>());
    default:
      return f(ids.raw<int64_t>());
  }
}

template <typename T>
void FillWith(T value, T* out, int64_t n) {
  std::fill(out, out + n, value);
}

// ---- Sorted ids: SegmentSum and related ops ---------------------------------

// One segment: the rows [begin, end) into `out`.
template <SegmentOp op, typename T, typename C>
void ReduceRows(const T* in, int64_t begin, int64_t end, int64_t width,
                std::vector<C>* row, std::vector<C>* acc, T* out) {
  const T* first = in + begin * width;
  if (width == 1) {
    C sum = C(*first);
    for (int64_t i = begin + 1; i < end; ++i) {
      const C x = C(in[i]);
      Combine<op, C>(&sum, &x, 1);
    }
    if constexpr (op == SegmentOp::kMean) sum = C(sum / C(end - begin));
    *out = T(sum);
    return;
  }
  if constexpr (std::is_same_v<T, C>) {
    std::copy(first, first + width, out);
    for (int64_t i = begin + 1; i < end; ++i)
      Combine<op, C>(out, in + i * width, width);
    if constexpr (op == SegmentOp::kMean)
      for (int64_t j = 0; j < width; ++j) out[j] = C(out[j] / C(end - begin));
  } else {
    std::copy(first, first + width, acc->begin());
    for (int64_t i = begin + 1; i < end; ++i) {
      std::copy(in + i * width, in + (i + 1) * width, row->begin());
      Combine<op, C>(acc->data(), row->data(), width);
    }
    for (int64_t j = 0; j < width; ++j) {
      C& a = (*acc)[static_cast<size_t>(j)];
      if constexpr (op == SegmentOp::kMean) a = C(a / C(end - begin));
      out[j] = T(a);
    }
  }
}

template <SegmentOp op, typename T, typename Id>
Status ReduceSorted(KernelContext& ctx, const Tensor& data, const Id* ids) {
  const int64_t rows = data.dim(0);
  const int64_t segments = rows > 0 ? int64_t{ids[rows - 1]} + 1 : 0;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t id = ids[i], before = i > 0 ? ids[i - 1] : 0;
    if (id < before || id >= segments)
      return InvalidArgument(
          "segment_ids: expected ids that are not decreasing, in [0, ",
          segments, "), got ", id, " after ", before);
  }
  Dims dims(data.shape().dims().begin(), data.shape().dims().end());
  dims[0] = segments;
  SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                          Shape::Make({dims.data(), dims.size()}));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, data.dtype(), shape));
  const int64_t width = rows > 0 ? data.num_elements() / rows : 0;
  if (width == 0) return OkStatus();
  const T* in = data.raw<T>();
  T* out = ctx.output(0).raw<T>();
  using C = ComputeType<T>;
  std::vector<C> acc, row;
  if constexpr (!std::is_same_v<T, C>) {
    acc.resize(static_cast<size_t>(width));
    row.resize(acc.size());
  }
  int64_t next = 0;  // Segments below this are done.
  for (int64_t i = 0; i < rows;) {
    const int64_t id = ids[i];
    int64_t end = i + 1;
    while (end < rows && ids[end] == ids[i]) ++end;
    FillWith(T(op == SegmentOp::kProd ? 1 : 0), out + next * width,
             (id - next) * width);
    ReduceRows<op, T, C>(in, i, end, width, &row, &acc, out + id * width);
    next = id + 1;
    i = end;
  }
  return OkStatus();
}

template <SegmentOp op, typename T>
Status RunSorted(KernelContext& ctx) {
  const Tensor& data = ctx.input(0);
  const Tensor& ids = ctx.input(1);
  if (data.rank() < 1 || ids.rank() != 1 || ids.dim(0) != data.dim(0))
    return InvalidArgument(
        "segment_ids: expected a vector with one id for each row of data, got ",
        ids.shape().ToString(), " for ", data.shape().ToString());
  return WithIds(
      ids, [&](const auto* id) { return ReduceSorted<op, T>(ctx, data, id); });
}

template <SegmentOp op, typename... Ts>
KernelMaker MakeSorted() {
  return [](const Node& n, Kernel* k) {
    const DType t = n.TypeAttr("T");
    k->expensive = true;
    const auto use = [&]<typename T>() {
      if constexpr (kIsComputed<T>)
        if (t == DTypeOf<T>()) k->run = RunSorted<op, T>;
    };
    (use.template operator()<Ts>(), ...);
    return k->run != nullptr ? OkStatus() : NoKernelFor(n, t);
  };
}

Status SortedShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape data, c.WithRankAtLeast(0, 1));
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  if (!data.rank_known()) return OkStatus();
  // (As in TensorFlow, sizes are compared only when the op runs.)
  data.set_dim(0, -1);
  c.set_output(0, std::move(data));
  return OkStatus();
}

// ---- Any ids: UnsortedSegmentSum and related ops ----------------------------

// The number of elements that is worth a thread.
constexpr int64_t kSegmentGrain = 32768;

// True if the dimensions of ids are the leading dimensions of data.
bool IsPrefix(const Shape& ids, const Shape& data) {
  if (ids.rank() > data.rank()) return false;
  for (int d = 0; d < ids.rank(); ++d)
    if (ids.dim(d) != data.dim(d)) return false;
  return true;
}

template <SegmentOp op, typename T>
Status RunUnsorted(KernelContext& ctx) {
  const Tensor& data = ctx.input(0);
  const Tensor& ids = ctx.input(1);
  const Tensor& count = ctx.input(2);
  if (count.num_elements() != 1)
    return InvalidArgument("num_segments: expected a scalar, got shape ",
                           count.shape().ToString());
  const int64_t segments = IdAt(count, 0);
  if (segments < 0)
    return InvalidArgument("num_segments: expected a value >= 0, got ",
                           segments);
  if (!IsPrefix(ids.shape(), data.shape()))
    return InvalidArgument(
        "segment_ids: expected a shape that data's begins with, got ",
        ids.shape().ToString(), " for ", data.shape().ToString());
  Dims dims = {segments};
  for (int d = ids.rank(); d < data.rank(); ++d) dims.push_back(data.dim(d));
  SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                          Shape::Make({dims.data(), dims.size()}));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, data.dtype(), shape));
  T* out = ctx.output(0).raw<T>();
  T start = T(op == SegmentOp::kProd ? 1 : 0);
  if constexpr (op == SegmentOp::kMax) start = Limits<T>::Lowest();
  if constexpr (op == SegmentOp::kMin) start = Limits<T>::Highest();
  const int64_t rows = ids.num_elements();
  const int64_t width = rows > 0 ? data.num_elements() / rows : 0;
  const int64_t beyond = WithIds(ids, [&](const auto* id) {
    int64_t i = 0;
    while (i < rows && id[i] < segments) ++i;
    return i;
  });
  if (beyond < rows)
    return InvalidArgument("segment_ids: expected ids below ", segments,
                           ", got ", IdAt(ids, beyond), " at ",
                           array::IndexName(ids.shape(), beyond));
  if (shape.num_elements() == 0) return OkStatus();
  // Each segment is processed by one thread, so that its rows are combined in
  // order; since every thread scans all ids, this only pays if rows are large.
  const T* in = data.raw<T>();
  const int64_t work = data.num_elements() + shape.num_elements();
  const int64_t row_width =
      shape.num_elements() / std::max<int64_t>(segments, 1);
  const int64_t parts = std::max<int64_t>(1, width / 8);
  const int64_t grain =
      std::max(segments * kSegmentGrain / std::max<int64_t>(work, 1) + 1,
               (segments + parts - 1) / parts);
  ParallelFor(segments, grain, [&](int64_t begin, int64_t end) {
    FillWith(start, out + begin * row_width, (end - begin) * row_width);
    WithIds(ids, [&](const auto* ids_of_rows) {
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t id = ids_of_rows[i];
        if (id < begin || id >= end) continue;
        if (width == 1)
          Combine<op, T>(out + id, in + i, 1);
        else
          Combine<op, T>(out + id * width, in + i * width, width);
      }
    });
  });
  return OkStatus();
}

template <SegmentOp op, typename... Ts>
KernelMaker MakeUnsorted() {
  return [](const Node& n, Kernel* k) {
    const DType t = n.TypeAttr("T");
    k->expensive = true;
    const auto use = [&]<typename T>() {
      if constexpr (kIsComputed<T>)
        if (t == DTypeOf<T>()) k->run = RunUnsorted<op, T>;
    };
    (use.template operator()<Ts>(), ...);
    return k->run != nullptr ? OkStatus() : NoKernelFor(n, t);
  };
}

Status UnsortedShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(2));
  const PartialShape& data = c.input(0);
  const PartialShape& ids = c.input(1);
  if (!data.rank_known() || !ids.rank_known()) return OkStatus();
  if (ids.rank() > data.rank())
    return InvalidArgument("segment_ids: expected rank ", data.rank(),
                           " at most, got ", ids.rank());
  for (int d = 0; d < ids.rank(); ++d)
    SLUICE_RETURN_IF_ERROR(MergeDim(data.dim(d), ids.dim(d)).status());
  PartialShape out({c.ConstantInt(2).value_or(-1)});
  if (out.dim(0) < -1 || (c.ConstantInt(2).has_value() && out.dim(0) < 0))
    return InvalidArgument("num_segments: expected a value >= 0, got ",
                           out.dim(0));
  for (int d = ids.rank(); d < data.rank(); ++d) out.add_dim(data.dim(d));
  c.set_output(0, std::move(out));
  return OkStatus();
}

// ---- UnsortedSegmentSum as a summand ----------------------------------------

Status RunDeferredSegmentSum(KernelContext& ctx) {
  const Tensor &data = ctx.input(0), &ids = ctx.input(1);
  SLUICE_ASSIGN_OR_RETURN(const int64_t segments,
                          array::IntScalar(ctx.input(2), "num_segments"));
  if (segments < 0)
    return InvalidArgument("num_segments: expected a value >= 0, got ",
                           segments);
  if (!IsPrefix(ids.shape(), data.shape()))
    return InvalidArgument(
        "segment_ids: expected a shape that data's begins with, got ",
        ids.shape().ToString(), " for ", data.shape().ToString());
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    if (const int64_t id = IdAt(ids, i); id >= segments)
      return InvalidArgument("segment_ids: expected ids below ", segments,
                             ", got ", id, " at ",
                             array::IndexName(ids.shape(), i));
  }
  Dims dims = {segments};
  for (int d = ids.rank(); d < data.rank(); ++d) dims.push_back(data.dim(d));
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
  DeferredTerm term;
  term.kind = DeferredTerm::Kind::kSegments;
  SLUICE_ASSIGN_OR_RETURN(term.a, ctx.TakeToKeep(0));
  SLUICE_ASSIGN_OR_RETURN(term.b, ctx.TakeToKeep(1));
  return SetDeferredTerm(ctx, std::move(term), shape);
}

const DeferredTermRegistrar segment_sum_terms(
    "UnsortedSegmentSum", [](const Node& n) -> std::optional<Output> {
      const DType t = n.output_type(0), ids = n.input_type(1);
      if ((t != DType::kFloat && t != DType::kDouble) ||
          (ids != DType::kInt32 && ids != DType::kInt64))
        return std::nullopt;
      return Build("DeferredSegmentSum", n.inputs(), {}, "", {});
    });

// ---- Gradients --------------------------------------------------------------

Output Gather(Output params, Output indices) {
  return Build("GatherV2", {params, indices, Constant(int32_t{0})});
}

// Segments in gradients: maps rows of a result back to rows of the data; a
// negative id means that there is no such row.
class Rows {
 public:
  explicit Rows(const GradContext& c) : data_(c.input(0)), ids_(c.input(1)) {
    if (c.op->num_inputs() == 3) count_ = c.input(2);
    if (!count_.valid() || !ids_.valid() || !data_.valid()) return;
    clipped_ = Build("Maximum", {ids_, grad::Number(ids_, 0)});
    valid_ = Build("GreaterEqual", {ids_, grad::Number(ids_, 0)});
    const PartialShape &d = data_.shape(), &i = ids_.shape();
    if (d.rank_known() && i.rank_known()) {
      for (int r = i.rank(); r < d.rank(); ++r)
        valid_ = grad::ExpandDims(valid_, -1);
    } else {
      const Output inner =
          Build("StridedSlice",
                {grad::ShapeOf(data_),
                 grad::ReshapeTo(grad::RankOf(ids_), IntVector({1})),
                 IntVector({0}), IntVector({1})},
                {{"end_mask", 1}});
      valid_ = grad::ReshapeTo(
          valid_, Build("ConcatV2", {grad::ShapeOf(ids_), grad::OnesLike(inner),
                                     Constant(int32_t{0})}));
    }
  }

  // Row i is row ids[i] of `result`, or zeros if that is negative.
  Output Back(Output result) const {
    if (!count_.valid()) return Gather(result, ids_);
    const Output rows = Gather(result, clipped_);
    return Select(valid_, rows, grad::ZerosLike(rows));
  }
  // The op `kind` ("Sum", "Prod") over the segments.
  Output Reduce(const char* kind, Output rows) const {
    const std::string op = std::string("Segment") + kind;
    return count_.valid() ? Build("Unsorted" + op, {rows, ids_, count_})
                          : Build(op, {rows, ids_});
  }
  // `mask`, set to false where the id is negative.
  Output Valid(Output mask) const {
    return count_.valid() ? Build("LogicalAnd", {mask, valid_}) : mask;
  }

 private:
  Output data_, ids_, count_, clipped_, valid_;
};

Status SegmentSumGrad(GradContext& c) {
  c.grads[0] = Rows(c).Back(c.dy[0]);
  return OkStatus();
}

Status DeferredSegmentSumGrad(GradContext& c) {
  const Output shape = grad::ShapeOf(
      Build("UnsortedSegmentSum", {c.input(0), c.input(1), c.input(2)}));
  c.grads[0] = Rows(c).Back(Build("DeferredValue", {c.dy[0], shape},
                                  {{"T", grad::TypeOf(c.input(0))}}));
  return OkStatus();
}

Status SegmentMeanGrad(GradContext& c) {
  const Output data = c.input(0), dy = c.dy[0];
  if (!data.valid() || !dy.valid()) return OkStatus();
  const Rows rows(c);
  Output ones = grad::OnesLike(data);
  if (data.shape().rank_known()) {  // Counting needs only one column.
    std::vector<int32_t> column(static_cast<size_t>(data.shape().rank()), 1);
    column[0] = -1;
    ones = grad::ReshapeTo(
        grad::Cast(grad::OnesLike(c.input(1)), grad::TypeOf(dy)),
        IntVector(column));
  }
  c.grads[0] = rows.Back(grad::Div(dy, rows.Reduce("Sum", ones)));
  return OkStatus();
}

// Tied rows share the gradient.
Status SegmentExtremeGrad(GradContext& c) {
  const Output dy = c.dy[0];
  if (!dy.valid()) return OkStatus();
  const Rows rows(c);
  const Output chosen =
      rows.Valid(Build("Equal", {c.input(0), rows.Back(c.output(0))}));
  const Output count = rows.Reduce("Sum", grad::Cast(chosen, grad::TypeOf(dy)));
  const Output shares = rows.Back(grad::Div(dy, count));
  c.grads[0] = Select(chosen, shares, grad::ZerosLike(shares));
  return OkStatus();
}

// The product of the other rows: by division if no element is zero, and without
// the zero if one is; with two or more zeros all are zero.
Status SegmentProdGrad(GradContext& c) {
  const Output data = c.input(0);
  if (!data.valid() || !c.dy[0].valid()) return OkStatus();
  const Rows rows(c);
  const Output is_zero = Build("Equal", {data, grad::Number(data, 0)});
  const Output zeros = rows.Reduce("Sum", grad::Cast(is_zero, DType::kInt32));
  const Output dy = Select(Build("Greater", {zeros, Constant(int32_t{1})}),
                           grad::ZerosLike(c.dy[0]), c.dy[0]);
  const Output nonzero = Select(is_zero, grad::OnesLike(data), data);
  const Output others = rows.Back(rows.Reduce("Prod", nonzero));
  const Output quotient = grad::Div(rows.Back(c.output(0)), nonzero);
  c.grads[0] = Mul(rows.Back(dy), Select(is_zero, others, quotient));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

OpDefBuilder Sorted(const char* name, const char* types, KernelMaker kernel,
                    GradFn gradient, const char* doc) {
  OpDefBuilder b(name);
  b.Input("data: T")
      .Input("segment_ids: Tindices")
      .Output("output: T")
      .Attr(types)
      .Attr("Tindices: {int32, int64}")
      .Family("math")
      .Shape(SortedShape)
      .Kernel(std::move(kernel))
      .Grad(gradient)
      .Sample({{.shape = {4, 2}, .low = 0.5, .high = 2},
               {.shape = {4}, .values = {0, 0, 1, 3}}})
      .Doc(doc);
  return b;
}

OpDefBuilder Unsorted(const char* name, const char* types,
                      const char* index_types, KernelMaker kernel,
                      GradFn gradient, const char* doc) {
  OpDefBuilder b(name);
  b.Input("data: T")
      .Input("segment_ids: Tindices")
      .Input("num_segments: Tnumsegments")
      .Output("output: T")
      .Attr(types)
      .Attr(index_types)
      .Attr("Tnumsegments: {int32, int64} = DT_INT32")
      .HostInput("num_segments")
      .Family("math")
      .Shape(UnsortedShape)
      .Kernel(std::move(kernel))
      .Grad(gradient)
      .Sample({{.shape = {4, 2}, .low = 0.5, .high = 2},
               {.shape = {4}, .values = {2, 0, -1, 1}},
               {.values = {3}}})
      .Doc(doc);
  return b;
}

#define SLUICE_REAL_TYPES                                                    \
  float, double, half, bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, \
      uint16_t, uint32_t, uint64_t
#define SLUICE_NUMBER_TYPES SLUICE_REAL_TYPES, complex64, complex128

const OpRegistrar kSorted[] = {
    Sorted("SegmentSum", kNumberTypes,
           MakeSorted<SegmentOp::kSum, SLUICE_NUMBER_TYPES>(), SegmentSumGrad,
           "The sum of the rows of each segment; ids are sorted."),
    Sorted("SegmentMean", kNumberTypes,
           MakeSorted<SegmentOp::kMean, SLUICE_NUMBER_TYPES>(), SegmentMeanGrad,
           "The mean of the rows of each segment; ids are sorted."),
    Sorted("SegmentProd", kNumberTypes,
           MakeSorted<SegmentOp::kProd, SLUICE_NUMBER_TYPES>(), SegmentProdGrad,
           "The product of the rows of each segment; ids are sorted."),
    Sorted("SegmentMax", kRealTypes,
           MakeSorted<SegmentOp::kMax, SLUICE_REAL_TYPES>(), SegmentExtremeGrad,
           "The maximum of the rows of each segment; ids are sorted."),
    Sorted("SegmentMin", kRealTypes,
           MakeSorted<SegmentOp::kMin, SLUICE_REAL_TYPES>(), SegmentExtremeGrad,
           "The minimum of the rows of each segment; ids are sorted."),
};

constexpr char kIds[] = "Tindices: {int32, int64}";

const OpRegistrar kUnsorted[] = {
    Unsorted(
        "UnsortedSegmentSum", kNumberTypes, "Tindices: {int16, int32, int64}",
        MakeUnsorted<SegmentOp::kSum, SLUICE_NUMBER_TYPES>(), SegmentSumGrad,
        "The sum of the rows of each segment; rows with negative ids are "
        "ignored.")
        .Kind(OpKind::kUnsortedSegmentSum),
    Unsorted("UnsortedSegmentProd", kNumberTypes, kIds,
             MakeUnsorted<SegmentOp::kProd, SLUICE_NUMBER_TYPES>(),
             SegmentProdGrad,
             "The product of the rows of each segment; 1 if it is empty."),
    Unsorted("UnsortedSegmentMax", kRealTypes, kIds,
             MakeUnsorted<SegmentOp::kMax, SLUICE_REAL_TYPES>(),
             SegmentExtremeGrad,
             "The maximum of the rows of each segment; the lowest value of the "
             "type if it is empty."),
    Unsorted("UnsortedSegmentMin", kRealTypes, kIds,
             MakeUnsorted<SegmentOp::kMin, SLUICE_REAL_TYPES>(),
             SegmentExtremeGrad,
             "The minimum of the rows of each segment; the highest value of "
             "the type if it is empty."),
};

SLUICE_OP(DeferredSegmentSum)
    .Input("data: T")
    .Input("segment_ids: Tindices")
    .Input("num_segments: Tnumsegments")
    .Output("sum: variant")
    .Attr("T: {float, double}")
    .Attr(kIds)
    .Attr("Tnumsegments: {int32, int64} = DT_INT32")
    .HostInput("num_segments")
    .Family("math")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunDeferredSegmentSum))
    .Grad(DeferredSegmentSumGrad)
    .Doc("Returns a deferred sum of the result of UnsortedSegmentSum.");

}  // namespace
}  // namespace sluice
