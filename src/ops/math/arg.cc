// Positions of extreme elements: ArgMax, TopK and related ops.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "exec/batching/batch_form.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/simd/reduce.h"
#include "ops/common/carrier_type.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/math/descending_order.h"

namespace sluice {
namespace {

constexpr char kArgTypes[] =
    "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, "
    "half, uint32, uint64, qint8, quint8, qint32, qint16, quint16, bool}";
constexpr char kIndices[] = "indices are not differentiable";

// The single integer in input i, of any signed integer type.
Result<int64_t> ScalarInput(KernelContext& ctx, int i, const char* what) {
  const Tensor& t = ctx.input(i);
  if (t.num_elements() != 1)
    return InvalidArgument(what, ": expected a scalar, got shape ",
                           t.shape().ToString());
  switch (t.dtype()) {
    case DType::kInt16:
      return t.raw_scalar<int16_t>();
    case DType::kInt32:
      return t.raw_scalar<int32_t>();
    default:
      return t.raw_scalar<int64_t>();
  }
}

// ---- ArgMax, ArgMin ---------------------------------------------------------

using ArgFn = bool (*)(DType, DType, int64_t, int64_t, int64_t, const void*,
                       void*);

template <ArgFn F>
Status RunArg(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  if (ctx.input(1).rank() != 0)
    return InvalidArgument("dimension: expected a scalar, got shape ",
                           ctx.input(1).shape().ToString());
  SLUICE_ASSIGN_OR_RETURN(const int64_t value,
                          ScalarInput(ctx, 1, "dimension"));
  SLUICE_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(value, x.rank()));
  if (x.dim(axis) == 0)
    return InvalidArgument("dimension ", axis,
                           ": expected one that is not empty, got shape ",
                           x.shape().ToString());
  int64_t outer = 1, inner = 1;
  Dims dims;
  for (int d = 0; d < x.rank(); ++d) {
    if (d != axis) dims.push_back(x.dim(d));
    if (d < axis) outer *= x.dim(d);
    if (d > axis) inner *= x.dim(d);
  }
  const DType out = ctx.node().output_type(0);
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(
      0, out, Shape(std::span<const int64_t>(dims.data(), dims.size()))));
  if (!F(CarrierType(x.dtype()), out, outer, x.dim(axis), inner, x.raw(),
         ctx.output(0).raw()))
    return NoKernelFor(ctx.node(), x.dtype());
  return OkStatus();
}

Status ArgShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape x, c.WithRankAtLeast(0, 1));
  if (!x.rank_known()) return OkStatus();
  const auto value = c.ConstantInt(1);
  if (!value.has_value()) {
    c.set_output(0, PartialShape::OfRank(x.rank() - 1));
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(*value, x.rank()));
  PartialShape out = PartialShape::Scalar();
  for (int d = 0; d < x.rank(); ++d)
    if (d != axis) out.add_dim(x.dim(d));
  c.set_output(0, std::move(out));
  return OkStatus();
}

OpDefBuilder Arg(const char* name, const char* index_types,
                 const char* output_types, Status (*run)(KernelContext&),
                 const char* doc) {
  OpDefBuilder b(name);
  b.Input("input: T")
      .Input("dimension: Tidx")
      .Output("output: output_type")
      .Attr(kArgTypes)
      .Attr(index_types)
      .Attr(output_types)
      .HostInput("dimension")
      .Family("math")
      .Shape(ArgShape)
      .Kernel(Cpu(run, /*expensive=*/true))
      .NoGradient(kIndices)
      .Sample({{.shape = {2, 3}}, {.values = {1}}})
      .Sample({{.shape = {2, 3}}, {.values = {0}}})
      .Doc(doc);
  return b;
}

const OpRegistrar kArgs[] = {
    Arg("ArgMax", "Tidx: {int16, int32, int64} = DT_INT32",
        "output_type: {int16, uint16, int32, int64} = DT_INT64",
        RunArg<simd::ArgMax>,
        "The index of the first greatest element along a dimension."),
    Arg("ArgMin", "Tidx: {int32, int64} = DT_INT32",
        "output_type: {int32, int64} = DT_INT64", RunArg<simd::ArgMin>,
        "The index of the first smallest element along a dimension."),
};

// ---- TopK -------------------------------------------------------------------

// Results that need not be sorted are in TensorFlow's order, which is that of a
// heap.
template <typename T>
class TopK {
 public:
  explicit TopK(const Node& n)
      : k_(n.num_inputs() == 1 ? n.IntAttr("k") : -1),
        sorted_(n.BoolAttr("sorted")),
        index_(n.output_type(1)) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& x = ctx.input(0);
    int64_t k = k_;
    if (ctx.num_inputs() == 2) {
      SLUICE_ASSIGN_OR_RETURN(k, ScalarInput(ctx, 1, "k"));
    }
    if (x.rank() < 1)
      return InvalidArgument("input: expected rank 1 or more, got a scalar");
    const int64_t columns = x.dim(x.rank() - 1);
    if (k < 0 || k > columns)
      return InvalidArgument("k: expected a value in [0, ", columns,
                             "], the size of the last dimension, got ", k);
    Dims dims(x.shape().dims().begin(), x.shape().dims().end());
    dims.back() = k;
    const Shape out(std::span<const int64_t>(dims.data(), dims.size()));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, x.dtype(), out));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, index_, out));
    if (out.num_elements() == 0) return OkStatus();
    const T* in = x.raw<T>();
    T* values = ctx.output(0).template raw<T>();
    Tensor& indices = ctx.output(1);
    ParallelFor(x.num_elements() / columns,
                std::max<int64_t>(1, 8192 / columns),
                [&](int64_t begin, int64_t end) {
                  Work work;
                  for (int64_t r = begin; r < end; ++r)
                    Row(in + r * columns, columns, k, work, values + r * k,
                        indices, r * k);
                });
    return OkStatus();
  }

 private:
  struct Work {
    DescendingOrder<ComputeType<T>> all;
    std::vector<int32_t> heap;
  };

  // For equal elements the lower index comes first; NaN comes before numbers.
  void Row(const T* in, int64_t columns, int64_t k, Work& work, T* values,
           Tensor& indices, int64_t at) const {
    // Sorting all of them is faster than a large heap.
    if (k == columns || (sorted_ && k > columns / 16 && k > 64)) {
      work.all.Sort(columns, [in](int64_t i) {
        return static_cast<ComputeType<T>>(in[i]);
      });
      return Put(
          in, k, [&work](size_t i) { return work.all[i]; }, values, indices,
          at);
    }
    std::vector<int32_t>& order = work.heap;
    const auto before = [in](int32_t a, int32_t b) {
      const auto x = static_cast<ComputeType<T>>(in[a]);
      const auto y = static_cast<ComputeType<T>>(in[b]);
      if (x > y) return true;
      if (x < y) return false;
      const bool x_nan = x != x, y_nan = y != y;
      return x_nan != y_nan ? x_nan : a < b;
    };
    order.resize(static_cast<size_t>(k + 1));
    std::iota(order.begin(), order.end(), 0);
    // A heap of the first k so far, with the last of them on top. For many
    // columns most elements are rejected by one comparison.
    std::make_heap(order.begin(), order.end(), before);
    std::pop_heap(order.begin(), order.end(), before);
    order.pop_back();
    // (An equal element comes after, and every element after NaN.)
    for (int64_t i = k + 1;; ++i) {
      const T last = in[order.front()];
      i = IsNan(last) ? columns : NextAbove(in, i, columns, last);
      if (i == columns) break;
      std::pop_heap(order.begin(), order.end(), before);
      order.back() = static_cast<int32_t>(i);
      std::push_heap(order.begin(), order.end(), before);
    }
    if (sorted_) std::sort_heap(order.begin(), order.end(), before);
    Put(
        in, k, [&order](size_t i) { return order[i]; }, values, indices, at);
  }
  // Results of a row, of which `order(i)` is the index of the i-th.
  template <typename Order>
  void Put(const T* in, int64_t k, Order&& order, T* values, Tensor& indices,
           int64_t at) const {
    for (int64_t i = 0; i < k; ++i) {
      const int32_t from = order(static_cast<size_t>(i));
      values[i] = in[from];
      switch (index_) {
        case DType::kInt16:
          indices.raw<int16_t>()[at + i] = static_cast<int16_t>(from);
          break;
        case DType::kInt32:
          indices.raw<int32_t>()[at + i] = from;
          break;
        default:
          indices.raw<int64_t>()[at + i] = from;
      }
    }
  }

  static bool IsNan(T x) {
    const auto v = static_cast<ComputeType<T>>(x);
    return v != v;
  }
  // The first of elements i to n that is greater than `last`; n if none is.
  static int64_t NextAbove(const T* in, int64_t i, int64_t n, T last) {
    if constexpr (std::is_same_v<T, ComputeType<T>>) {
      return i + simd::FirstAbove(in + i, n - i, last);
    } else {
      const auto bound = static_cast<ComputeType<T>>(last);
      while (i < n && static_cast<ComputeType<T>>(in[i]) <= bound) ++i;
      return i;
    }
  }

  const int64_t k_;
  const bool sorted_;
  const DType index_;
};

Status TopKShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape x, c.WithRankAtLeast(0, 1));
  if (!x.rank_known()) return OkStatus();
  int64_t k = -1;
  if (c.num_inputs() == 1) {
    k = c.node().IntAttr("k");
  } else {
    SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
    k = c.ConstantInt(1).value_or(-1);
    if (c.ConstantInt(1).has_value() && k < 0)
      return InvalidArgument("k: expected a value >= 0, got ", k);
  }
  const int64_t columns = x.dim(x.rank() - 1);
  if (columns >= 0 && k > columns)
    return InvalidArgument("k: expected at most ", columns,
                           ", the size of the last dimension, got ", k);
  x.set_dim(x.rank() - 1, k);
  c.set_all_outputs(x);
  return OkStatus();
}

// Moves dy back to the positions of the values: rows and indices are flattened
// to one index.
Status TopKGrad(GradContext& c) {
  const Output x = c.input(0), dy = c.dy[0];
  const Output indices = grad::Cast(Output(c.op, 1), DType::kInt64);
  if (!x.valid() || !dy.valid()) return OkStatus();
  const Output shape = grad::ShapeOf(x, DType::kInt64);
  const auto last = [](Output s) {
    return Build("StridedSlice",
                 {s, IntVector({-1}), IntVector({0}), IntVector({1})},
                 {{"end_mask", 1}, {"shrink_axis_mask", 1}});
  };
  const Output columns = last(shape);
  const Output k = last(grad::ShapeOf(Output(c.op, 1), DType::kInt64));
  const Output minus_one = Constant(int64_t{-1});
  const Output table = grad::ReshapeTo(indices, Build("Pack", {minus_one, k}));
  const Output rows = Build("StridedSlice",
                            {grad::ShapeOf(table, DType::kInt64),
                             IntVector({0}), IntVector({1}), IntVector({1})},
                            {{"shrink_axis_mask", 1}});
  const Output starts =
      Build("Range", {Constant(int64_t{0}), grad::Mul(rows, columns),
                      Build("Maximum", {columns, Constant(int64_t{1})})});
  const Output flat = grad::ReshapeTo(
      grad::Add(table, grad::ExpandDims(starts, -1)), IntVector({-1, 1}));
  const Output size =
      grad::ReshapeTo(grad::SizeOf(x, DType::kInt64), IntVector({1}));
  const Output scattered =
      Build("ScatterNd", {flat, grad::ReshapeTo(dy, IntVector({-1})), size});
  c.grads[0] = grad::ReshapeTo(scattered, shape);
  return OkStatus();
}

template <const char* Name>
OpDefBuilder TopKOp() {
  OpDefBuilder b(Name);
  b.Family("math")
      .Shape(TopKShape)
      .Kernel(
          CpuStateFor<TopK, float, double, half, bfloat16, int8_t, int16_t,
                      int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(
              "T", /*expensive=*/true))
      .Grad(TopKGrad);
  return b;
}
constexpr char kTopK[] = "TopK";
constexpr char kTopKV2[] = "TopKV2";

const OpRegistrar kTopKs[] = {
    TopKOp<kTopK>()
        .Input("input: T")
        .Output("values: T")
        .Output("indices: int32")
        .Attr("k: int >= 0")
        .Attr("sorted: bool = true")
        .Attr(kRealTypes)
        .Sample({{.shape = {2, 5}}}, {{"k", 2}})
        .Doc("Returns the k greatest elements of each row, and their indices."),
    TopKOp<kTopKV2>()
        .Input("input: T")
        .Input("k: Tk")
        .Output("values: T")
        .Output("indices: index_type")
        .HostInput("k")
        .Attr("sorted: bool = true")
        .Attr(kRealTypes)
        .Attr("Tk: {int16, int32, int64} = DT_INT32")
        .Attr("index_type: {int16, int32, int64} = DT_INT32")
        .Sample({{.shape = {2, 5}}, {.values = {2}}})
        .Doc("Returns the k greatest elements of each row, and their indices."),
};

// ---- InTopK -----------------------------------------------------------------

class InTopK {
 public:
  explicit InTopK(const Node& n)
      : k_(n.num_inputs() == 2 ? n.IntAttr("k") : -1) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& predictions = ctx.input(0);
    const Tensor& targets = ctx.input(1);
    int64_t k = k_;
    if (ctx.num_inputs() == 3) {
      SLUICE_ASSIGN_OR_RETURN(k, ScalarInput(ctx, 2, "k"));
    }
    if (predictions.rank() != 2 || targets.rank() != 1 ||
        predictions.dim(0) != targets.dim(0))
      return InvalidArgument(
          "predictions and targets: expected [n, classes] and [n], got ",
          predictions.shape().ToString(), " and ", targets.shape().ToString());
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kBool, targets.shape()));
    const int64_t classes = predictions.dim(1);
    for (int64_t r = 0; r < targets.num_elements(); ++r) {
      const int64_t target = targets.dtype() == DType::kInt32
                                 ? targets.raw<int32_t>()[r]
                                 : targets.raw<int64_t>()[r];
      ctx.output(0).raw<bool>()[r] =
          Holds(predictions.raw<float>() + r * classes, classes, target, k);
    }
    return OkStatus();
  }

 private:
  static bool Holds(const float* row, int64_t classes, int64_t target,
                    int64_t k) {
    if (target < 0 || target >= classes || !std::isfinite(row[target]))
      return false;
    // (The rest of the row matters only while fewer than k are better: an
    // infinity or NaN there makes the answer no, too.)
    int64_t better = 0;
    for (int64_t c = 0; c < classes; ++c) {
      if (!std::isfinite(row[c])) return false;
      if (row[c] > row[target] && ++better >= k) return false;
    }
    return better < k;
  }

  const int64_t k_;
};

Status InTopKShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape p, c.WithRank(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape t, c.WithRank(1, 1));
  SLUICE_ASSIGN_OR_RETURN(const int64_t n, MergeDim(p.dim(0), t.dim(0)));
  c.set_output(0, PartialShape({n}));
  return OkStatus();
}

SLUICE_OP(InTopK)
    .Input("predictions: float")
    .Input("targets: T")
    .Output("precision: bool")
    .Attr("k: int")
    .Attr("T: {int32, int64} = DT_INT32")
    .Family("math")
    .Shape(InTopKShape)
    .Kernel(CpuState<InTopK>())
    .NoGradient("its output is boolean")
    .Sample({{.shape = {3, 4}}, {.shape = {3}, .values = {0, 3, 1}}},
            {{"k", 2}})
    .Doc("Whether each target class is among the k best predictions.");

SLUICE_OP(InTopKV2)
    .Input("predictions: float")
    .Input("targets: T")
    .Input("k: T")
    .Output("precision: bool")
    .Attr("T: {int32, int64} = DT_INT32")
    .Family("math")
    .Shape(InTopKShape)
    .Kernel(CpuState<InTopK>())
    .NoGradient("its output is boolean")
    .Sample({{.shape = {3, 4}},
             {.shape = {3}, .values = {0, 3, 1}},
             {.values = {2}}})
    .Doc("Whether each target class is among the k best predictions.");

const BatchFormRegistrar arg_batches[] = {
    {"ArgMax", AlongAxes<1>}, {"ArgMin", AlongAxes<1>},
    {"TopK", PartByPart<1>},  {"TopKV2", PartByPart<1, 1 << 1>},
    {"InTopK", RowByRow<>},   {"InTopKV2", RowByRow<1 << 2>},
};

}  // namespace
}  // namespace sluice
