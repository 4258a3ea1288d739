// Reductions of selected rows of an array by segment (fused embedding lookup
// and sum), and their gradients.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

using array::IntAt;

enum class Weight { kSum, kMean, kSqrtN };

Weight WeightOf(const std::string& op) {
  if (op.find("SqrtN") != std::string::npos) return Weight::kSqrtN;
  return op.find("Mean") != std::string::npos ? Weight::kMean : Weight::kSum;
}

// The divisor of the sum of `n` rows.
double Divisor(Weight w, int64_t n) {
  switch (w) {
    case Weight::kSum:
      return 1;
    case Weight::kMean:
      return static_cast<double>(n);
    case Weight::kSqrtN:
      return std::sqrt(static_cast<double>(n));
  }
  return 1;
}

Status CheckLists(const Tensor& indices, const Tensor& ids) {
  if (indices.rank() == 1 && ids.rank() == 1 && indices.dim(0) == ids.dim(0))
    return OkStatus();
  return InvalidArgument(
      "indices and segment_ids: expected vectors of one length, got ",
      indices.shape().ToString(), " and ", ids.shape().ToString());
}

Status CheckIndex(const Tensor& indices, int64_t i, int64_t rows) {
  const int64_t index = IntAt(indices, i);
  if (index >= 0 && index < rows) return OkStatus();
  return InvalidArgument("indices: expected rows in [0, ", rows, "), got ",
                         index, " at [", i, "]");
}

Result<Shape> WithRows(const Shape& s, int64_t rows) {
  Dims dims(s.dims().begin(), s.dims().end());
  dims[0] = rows;
  return Shape::Make({dims.data(), dims.size()});
}

// ---- Forward ----------------------------------------------------------------

template <typename T>
class SparseSegment {
 public:
  explicit SparseSegment(const Node& n) : weight_(WeightOf(n.op_name())) {}

  Status Run(KernelContext& ctx) const {
    using C = ComputeType<T>;
    const Tensor& data = ctx.input(0);
    const Tensor& indices = ctx.input(1);
    const Tensor& ids = ctx.input(2);
    if (data.rank() < 1)
      return InvalidArgument("data: expected rank 1 or more, got a scalar");
    SLUICE_RETURN_IF_ERROR(CheckLists(indices, ids));
    const int64_t n = ids.dim(0);
    int64_t segments = 0;
    if (ctx.num_inputs() == 3 && n > 0) {
      const int64_t last = IntAt(ids, n - 1);
      if (last >= std::numeric_limits<int32_t>::max())
        return InvalidArgument("segment_ids: expected ids below 2^31-1, got ",
                               last);
      segments = last + 1;
    } else if (ctx.num_inputs() == 4) {
      if (ctx.input(3).num_elements() != 1)
        return InvalidArgument("num_segments: expected a scalar, got shape ",
                               ctx.input(3).shape().ToString());
      segments = IntAt(ctx.input(3), 0);
      if (segments < 0)
        return InvalidArgument("num_segments: expected a value >= 0, got ",
                               segments);
    }
    for (int64_t i = 0; i < n; ++i) {
      const int64_t id = IntAt(ids, i), before = i > 0 ? IntAt(ids, i - 1) : 0;
      if (id < before || id >= segments)
        return InvalidArgument(
            "segment_ids: expected ids that are not decreasing, in [0, ",
            segments, "), got ", id, " after ", before);
      SLUICE_RETURN_IF_ERROR(CheckIndex(indices, i, data.dim(0)));
    }
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            WithRows(data.shape(), segments));
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0), Tensor::Zeros(data.dtype(), shape));
    const int64_t width =
        data.dim(0) > 0 ? data.num_elements() / data.dim(0) : 0;
    const T* in = data.raw<T>();
    T* out = ctx.output(0).template raw<T>();
    std::vector<C> acc(static_cast<size_t>(width));
    for (int64_t i = 0; i < n;) {
      const int64_t id = IntAt(ids, i);
      std::fill(acc.begin(), acc.end(), C(0));
      int64_t end = i;
      for (; end < n && IntAt(ids, end) == id; ++end) {
        const T* row = in + IntAt(indices, end) * width;
        for (int64_t j = 0; j < width; ++j) {
          C& sum = acc[static_cast<size_t>(j)];
          sum = array::WrapAdd(sum, static_cast<C>(row[j]));
        }
      }
      const double divisor = Divisor(weight_, end - i);
      for (int64_t j = 0; j < width; ++j)
        out[id * width + j] =
            T(acc[static_cast<size_t>(j)] / static_cast<C>(divisor));
      i = end;
    }
    return OkStatus();
  }

 private:
  const Weight weight_;
};

Status ForwardShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape data, c.WithRankAtLeast(0, 1));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape indices, c.WithRank(1, 1));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape ids, c.WithRank(2, 1));
  SLUICE_RETURN_IF_ERROR(MergeDim(indices.dim(0), ids.dim(0)).status());
  if (!data.rank_known()) return OkStatus();
  data.set_dim(0, -1);
  if (c.num_inputs() == 4) {
    SLUICE_RETURN_IF_ERROR(c.RequireScalar(3));
    const int64_t segments = c.ConstantInt(3).value_or(-1);
    if (c.ConstantInt(3).has_value() && segments < 0)
      return InvalidArgument("num_segments: expected a value >= 0, got ",
                             segments);
    data.set_dim(0, segments);
  }
  c.set_output(0, std::move(data));
  return OkStatus();
}

// ---- Backward ---------------------------------------------------------------

// Row indices[i] of the result is row segment_ids[i] of the gradient, divided
// by the divisor of that segment. The second version returns only the selected
// rows, and their indices.
template <typename T>
class SparseSegmentGrad {
 public:
  explicit SparseSegmentGrad(const Node& n)
      : weight_(WeightOf(n.op_name())), compact_(n.num_outputs() == 2) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& dy = ctx.input(0);
    const Tensor& indices = ctx.input(1);
    const Tensor& ids = ctx.input(2);
    if (dy.rank() < 1 || ctx.input(3).num_elements() != 1)
      return InvalidArgument(
          "grad and output_dim0: expected rank 1 or more and a scalar, got ",
          dy.shape().ToString(), " and ", ctx.input(3).shape().ToString());
    SLUICE_RETURN_IF_ERROR(CheckLists(indices, ids));
    const int64_t rows = ctx.input(3).raw_scalar<int32_t>();
    if (rows < 0)
      return InvalidArgument("output_dim0: expected a value >= 0, got ", rows);
    const int64_t n = ids.dim(0);
    std::vector<int64_t> counts(static_cast<size_t>(dy.dim(0)));
    std::map<int64_t, int64_t> places;  // Selected rows, sorted.
    for (int64_t i = 0; i < n; ++i) {
      const int64_t id = IntAt(ids, i);
      if (id < 0 || id >= dy.dim(0))
        return InvalidArgument("segment_ids: expected ids in [0, ", dy.dim(0),
                               "), got ", id);
      SLUICE_RETURN_IF_ERROR(CheckIndex(indices, i, rows));
      ++counts[static_cast<size_t>(id)];
      if (compact_) places[IntAt(indices, i)] = 0;
    }
    int64_t place = 0;
    for (auto& entry : places) entry.second = place++;
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            WithRows(dy.shape(), compact_ ? place : rows));
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0), Tensor::Zeros(dy.dtype(), shape));
    const int64_t width = dy.dim(0) > 0 ? dy.num_elements() / dy.dim(0) : 0;
    const T* in = dy.raw<T>();
    T* out = ctx.output(0).template raw<T>();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t id = IntAt(ids, i), index = IntAt(indices, i);
      const auto divisor = static_cast<ComputeType<T>>(
          Divisor(weight_, counts[static_cast<size_t>(id)]));
      T* to = out + (compact_ ? places[index] : index) * width;
      const T* from = in + id * width;
      for (int64_t j = 0; j < width; ++j)
        to[j] = T(static_cast<ComputeType<T>>(to[j]) +
                  static_cast<ComputeType<T>>(from[j]) / divisor);
    }
    if (!compact_) return OkStatus();
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, indices.dtype(), Shape({place})));
    for (const auto& [index, at] : places) {
      if (indices.dtype() == DType::kInt32)
        ctx.output(1).template raw<int32_t>()[at] = static_cast<int32_t>(index);
      else
        ctx.output(1).template raw<int64_t>()[at] = index;
    }
    return OkStatus();
  }

 private:
  const Weight weight_;
  const bool compact_;
};

Status BackwardShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape dy, c.WithRankAtLeast(0, 1));
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(2, 1).status());
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(3));
  if (c.num_outputs() == 2) c.set_output(1, PartialShape({-1}));
  if (!dy.rank_known()) return OkStatus();
  dy.set_dim(0, c.num_outputs() == 2 ? -1 : c.ConstantInt(3).value_or(-1));
  c.set_output(0, std::move(dy));
  return OkStatus();
}

Output FirstDim(Output x) {
  return Build(
      "StridedSlice",
      {grad::ShapeOf(x), IntVector({0}), IntVector({1}), IntVector({1})},
      {{"shrink_axis_mask", 1}});
}

// SparseSegmentMeanWithNumSegments -> SparseSegmentMeanGrad; with
// sparse_gradient only the selected rows.
Status SparseSegmentGradient(GradContext& c) {
  std::string op = c.op->op_name();
  op = op.substr(0, op.find("WithNumSegments")) + "Grad";
  const std::vector<Output> inputs = {c.dy[0], c.input(1), c.input(2),
                                      FirstDim(c.input(0))};
  if (!c.op->BoolAttr("sparse_gradient")) {
    c.grads[0] = Build(op, inputs);
    return OkStatus();
  }
  Node* slices = BuildNode(op + "V2", inputs);
  if (slices == nullptr) return OkStatus();
  c.grads[0] = Gradient::Slices(Output(slices, 1), Output(slices, 0),
                                grad::ShapeOf(c.input(0)));
  return OkStatus();
}

// Linear in dy: the gradient of SparseSegmentMeanGrad is SparseSegmentMean.
Status BackwardGradient(GradContext& c) {
  std::string op = c.op->op_name();
  op = op.substr(0, op.size() - std::string("Grad").size());
  c.grads[0] = Build(op + "WithNumSegments",
                     {c.dy[0], c.input(1), c.input(2), FirstDim(c.input(0))});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

constexpr char kFloats[] = "T: {bfloat16, half, float, double}";
constexpr char kReals[] =
    "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, "
    "half, uint32, uint64}";

OpDefBuilder Forward(const char* name, const char* types, bool counted,
                     const char* doc) {
  OpDefBuilder b(name);
  b.Input("data: T").Input("indices: Tidx").Input("segment_ids: Tsegmentids");
  if (counted) b.Input("num_segments: Tnumsegments");
  b.Output("output: T").Attr(types).Attr("Tidx: {int32, int64} = DT_INT32");
  if (counted) b.Attr("Tnumsegments: {int32, int64} = DT_INT32");
  b.Attr("Tsegmentids: {int32, int64} = DT_INT32")
      .Attr("sparse_gradient: bool = false")
      .Family("math")
      .Shape(ForwardShape)
      .Kernel(CpuStateFor<SparseSegment, float, double, half, bfloat16, int8_t,
                          int16_t, int32_t, int64_t, uint8_t, uint16_t,
                          uint32_t, uint64_t>("T", /*expensive=*/true))
      .Grad(SparseSegmentGradient)
      .Doc(doc);
  std::vector<SampleInput> sample = {{.shape = {4, 2}},
                                     {.shape = {5}, .values = {3, 0, 1, 0, 2}},
                                     {.shape = {5}, .values = {0, 0, 1, 1, 1}}};
  if (counted) sample.push_back({.values = {3}});
  b.Sample(sample);
  return b;
}

OpDefBuilder Backward(const char* name, bool compact, const char* doc) {
  OpDefBuilder b(name);
  b.Input("grad: T").Input("indices: Tidx").Input("segment_ids: Tsegmentids");
  b.Input(compact ? "dense_output_dim0: int32" : "output_dim0: int32")
      .Output("output: T");
  if (compact) b.Output("sorted_unique_indices: Tidx");
  b.Attr(kFloats)
      .Attr("Tidx: {int32, int64} = DT_INT32")
      .Attr("Tsegmentids: {int32, int64} = DT_INT32")
      .Family("math")
      .Shape(BackwardShape)
      .Kernel(CpuStateFor<SparseSegmentGrad, float, double, half, bfloat16>(
          "T", /*expensive=*/true))
      .Sample({{.shape = {2, 2}},
               {.shape = {5}, .values = {3, 0, 1, 0, 2}},
               {.shape = {5}, .values = {0, 0, 1, 1, 1}},
               {.values = {4}}})
      .Doc(doc);
  if (compact)
    b.NoGradient("second derivatives of the compact form are not supported");
  else
    b.Grad(BackwardGradient);
  return b;
}

const OpRegistrar kForward[] = {
    Forward("SparseSegmentSum", kReals, false,
            "The sum of selected rows of the data by segment."),
    Forward("SparseSegmentMean", kFloats, false,
            "The mean of selected rows of the data by segment."),
    Forward("SparseSegmentSqrtN", kFloats, false,
            "The sum of selected rows by segment, divided by the square root "
            "of their number."),
    Forward("SparseSegmentSumWithNumSegments", kReals, true,
            "SparseSegmentSum with the number of segments given."),
    Forward("SparseSegmentMeanWithNumSegments", kFloats, true,
            "SparseSegmentMean with the number of segments given."),
    Forward("SparseSegmentSqrtNWithNumSegments", kFloats, true,
            "SparseSegmentSqrtN with the number of segments given."),
};

const OpRegistrar kBackward[] = {
    Backward("SparseSegmentSumGrad", false,
             "The gradient of SparseSegmentSum."),
    Backward("SparseSegmentMeanGrad", false,
             "The gradient of SparseSegmentMean."),
    Backward("SparseSegmentSqrtNGrad", false,
             "The gradient of SparseSegmentSqrtN."),
    Backward("SparseSegmentSumGradV2", true,
             "The gradient of SparseSegmentSum, only for the selected rows."),
    Backward("SparseSegmentMeanGradV2", true,
             "The gradient of SparseSegmentMean, only for the selected rows."),
    Backward("SparseSegmentSqrtNGradV2", true,
             "The gradient of SparseSegmentSqrtN, only for the selected rows."),
};

}  // namespace
}  // namespace sluice
