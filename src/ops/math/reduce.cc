// Reductions over dimensions, and their gradients.
#include "kernels/simd/reduce.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "exec/batching/batch_form.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/carrier_type.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/math/elementwise.h"
#include "tensor/computed_types.h"

namespace sluice {
namespace {

using grad::Div;
using grad::Mul;
using grad::Number;
using simd::ReduceOp;

constexpr char kMinMaxTypes[] =
    "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, "
    "half, uint32, uint64, qint8, quint8, qint32, qint16, quint16}";

// ---- The kernel -------------------------------------------------------------

// The reduced dimensions of an input, and the resulting shape.
class Reduction {
 public:
  // `axes`: a scalar or vector of dimensions, negative ones count from the end.
  Status Init(const Tensor& in, const Tensor& axes, bool keep_dims) {
    const int rank = in.rank();
    if (axes.rank() > 1)
      return InvalidArgument("reduction axes: expected a vector, got shape ",
                             axes.shape().ToString());
    for (int64_t i = 0; i < axes.num_elements(); ++i) {
      const int64_t axis = axes.dtype() == DType::kInt32
                               ? axes.raw<int32_t>()[i]
                               : axes.raw<int64_t>()[i];
      if (axis < -rank || axis >= rank)
        return InvalidArgument("reduction axis: expected one in [", -rank, ", ",
                               rank, "), got ", axis);
      bool& r = reduced_[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
      if (r)
        return InvalidArgument(
            "reduction axes: expected each dimension once, got ", axis,
            " again");
      r = true;
    }
    std::array<int64_t, kMaxRank> dims;
    size_t n = 0;
    for (int d = 0; d < rank; ++d) {
      const bool r = reduced_[static_cast<size_t>(d)];
      if (r && in.dim(d) != 1) changes_ = true;
      if (!r || keep_dims) dims[n++] = r ? 1 : in.dim(d);
    }
    SLUICE_ASSIGN_OR_RETURN(out_, Shape::Make({dims.data(), n}));
    return OkStatus();
  }

  const Shape& out() const { return out_; }
  const bool* reduced() const { return reduced_; }
  // False if every result is computed from one element.
  bool changes() const { return changes_; }

 private:
  bool reduced_[kMaxRank] = {};
  bool changes_ = false;
  Shape out_;
};

struct ReduceState {
  ReduceOp op;
  DType type;
  bool keep_dims;
};

Status RunReduce(KernelContext& ctx) {
  const ReduceState& s = ctx.state<ReduceState>();
  Reduction r;
  SLUICE_RETURN_IF_ERROR(r.Init(ctx.input(0), ctx.input(1), s.keep_dims));
  if (!r.changes() && s.op != ReduceOp::kEuclideanNorm) {
    const Tensor in = ctx.TakeInput(0);
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0), in.Reshaped(r.out()));
    return OkStatus();
  }
  const Tensor& in = ctx.input(0);
  const size_t rank = static_cast<size_t>(in.rank());
  simd::ReducePlan plan;
  plan.Build(absl::MakeConstSpan(in.shape().dims().data(), rank),
             absl::MakeConstSpan(r.reduced(), rank));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), r.out()));
  // (For complex numbers TensorFlow's mean of an empty set is not NaN.)
  if (s.op == ReduceOp::kMean && IsComplex(s.type) && in.num_elements() == 0) {
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0), Tensor::Zeros(s.type, r.out()));
    return OkStatus();
  }
  simd::Reduce(s.op, s.type, plan, in.raw(), ctx.output(0).raw());
  return OkStatus();
}

bool ReducesMuch(const Node& n) {
  constexpr int64_t kManyElements = 16384;
  const int64_t in = n.input(0).shape().num_elements();
  return in < 0
             ? !n.input(0).shape().rank_known() || n.input(0).shape().rank() > 1
             : in > kManyElements;
}

bool Supports(ReduceOp op, DType t) {
  if (!IsComputed(t)) return false;
  switch (op) {
    case ReduceOp::kAny:
    case ReduceOp::kAll:
      return t == DType::kBool;
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      return IsFloating(t) || IsInteger(t);
    default:
      return IsFloating(t) || IsInteger(t) || IsComplex(t);
  }
}

KernelMaker MakeReduce(ReduceOp op) {
  return [op](const Node& n, Kernel* k) {
    auto s = std::make_shared<ReduceState>();
    s->op = op;
    s->type = CarrierType(n.input_type(0));
    s->keep_dims = n.BoolAttr("keep_dims");
    if (!Supports(op, s->type)) return NoKernelFor(n, s->type);
    k->state = std::move(s);
    k->run = RunReduce;
    k->expensive = ReducesMuch(n);
    return OkStatus();
  };
}

// ---- Gradients --------------------------------------------------------------

// The axes of a reduction in [0, rank), ascending, if they and the rank of the
// input are known before a step.
std::optional<std::vector<int32_t>> StaticAxes(const GradContext& c) {
  const PartialShape& in = c.input(0).shape();
  const std::optional<Tensor> axes = ConstantValue(c.input(1));
  if (!in.rank_known() || !axes.has_value()) return std::nullopt;
  std::vector<bool> reduced(static_cast<size_t>(in.rank()), false);
  for (int64_t i = 0; i < axes->num_elements(); ++i) {
    const Result<int> axis =
        CanonicalAxis(axes->dtype() == DType::kInt32 ? axes->raw<int32_t>()[i]
                                                     : axes->raw<int64_t>()[i],
                      in.rank());
    if (!axis.ok()) return std::nullopt;
    reduced[static_cast<size_t>(*axis)] = true;
  }
  std::vector<int32_t> sorted;
  for (int d = 0; d < in.rank(); ++d)
    if (reduced[static_cast<size_t>(d)]) sorted.push_back(d);
  return sorted;
}

Output AsVector(Output x) { return grad::ReshapeTo(x, IntVector({-1})); }

// Axes as a vector of int32 in [0, rank), at run time.
Output DynamicAxes(const GradContext& c) {
  const Output rank = grad::RankOf(c.input(0));
  const Output axes = AsVector(grad::Cast(c.input(1), DType::kInt32));
  return Build("FloorMod", {grad::Add(axes, rank), rank});
}

// The shape of the input with 1 for each reduced dimension, at run time.
Output DynamicKeptShape(const GradContext& c) {
  const Output one = Constant(int32_t{1}), zero = Constant(int32_t{0});
  const Output hits =
      Build("OneHot", {DynamicAxes(c), grad::RankOf(c.input(0)), one, zero});
  const Output is_reduced = Build("Greater", {grad::SumAxes(hits, {0}), zero});
  return grad::Select(is_reduced, one, grad::ShapeOf(c.input(0)));
}

// Restores the reduced dimensions of a result (or its gradient) as size 1.
Output WithKeptDims(const GradContext& c, Output y) {
  if (!y.valid() || c.op->BoolAttr("keep_dims")) return y;
  const auto axes = StaticAxes(c);
  if (!axes.has_value()) return grad::ReshapeTo(y, DynamicKeptShape(c));
  const PartialShape& in = c.input(0).shape();
  std::vector<int32_t> kept;
  int unknown = 0;
  for (int d = 0; d < in.rank(); ++d) {
    const bool reduced =
        std::find(axes->begin(), axes->end(), d) != axes->end();
    kept.push_back(reduced ? 1 : static_cast<int32_t>(in.dim(d)));
    if (kept.back() < 0) ++unknown;
  }
  if (unknown <= 1) return grad::ReshapeTo(y, IntVector(kept));
  for (int32_t axis : *axes) y = grad::ExpandDims(y, axis);
  return y;
}

Output BroadcastToInput(const GradContext& c, Output y) {
  return Build("BroadcastTo", {y, grad::ShapeOf(c.input(0))});
}

Status SumGrad(GradContext& c) {
  c.grads[0] = BroadcastToInput(c, WithKeptDims(c, c.dy[0]));
  return OkStatus();
}

// The number of elements of each mean, as a scalar of the type of `like`.
Output Count(const GradContext& c, Output like) {
  const PartialShape& in = c.input(0).shape();
  if (const auto axes = StaticAxes(c)) {
    int64_t n = 1;
    for (int32_t axis : *axes)
      n = in.dim(axis) < 0 ? -1 : (n < 0 ? n : n * in.dim(axis));
    if (n >= 0) return Number(like, static_cast<double>(n));
  }
  const Output out_size = grad::SizeOf(c.output(0), DType::kInt64);
  const Output count =
      Build("FloorDiv", {grad::SizeOf(c.input(0), DType::kInt64),
                         Build("Maximum", {out_size, Constant(int64_t{1})})});
  return grad::Cast(count, grad::TypeOf(like));
}

Status MeanGrad(GradContext& c) {
  const Output dy = c.dy[0];
  if (!dy.valid()) return OkStatus();
  c.grads[0] = BroadcastToInput(c, WithKeptDims(c, Div(dy, Count(c, dy))));
  return OkStatus();
}

// Elements that tie for the extreme value share its gradient equally.
Status ExtremeGrad(GradContext& c) {
  const Output dy = WithKeptDims(c, c.dy[0]);
  const Output y = WithKeptDims(c, c.output(0));
  if (!dy.valid() || !y.valid()) return OkStatus();
  const Output hits =
      grad::Cast(Build("Equal", {y, c.input(0)}), grad::TypeOf(dy));
  const Output count = grad::SumOver(hits, c.input(1), /*keep_dims=*/true);
  c.grads[0] = Mul(Div(hits, count), dy);
  return OkStatus();
}

Status EuclideanNormGrad(GradContext& c) {
  c.grads[0] = Mul(Div(c.input(0), WithKeptDims(c, c.output(0))),
                   WithKeptDims(c, c.dy[0]));
  return OkStatus();
}

// The product of all other elements: that of the elements before times that of
// the elements after, which needs no division and therefore supports zeros. The
// reduced dimensions are moved to the front and merged.
Status ProdGrad(GradContext& c) {
  const Output x = c.input(0);
  if (!x.valid() || !c.dy[0].valid()) return OkStatus();
  Output to_front, back;
  if (const auto axes = StaticAxes(c)) {
    std::vector<int32_t> front = *axes;
    for (int d = 0; d < x.shape().rank(); ++d)
      if (std::find(axes->begin(), axes->end(), d) == axes->end())
        front.push_back(d);
    std::vector<int32_t> inverse(front.size());
    for (size_t i = 0; i < front.size(); ++i)
      inverse[static_cast<size_t>(front[i])] = static_cast<int32_t>(i);
    to_front = IntVector(front);
    back = IntVector(inverse);
  } else {
    const Output list = DynamicAxes(c);
    const Output all = Build(
        "Range", {Constant(int32_t{0}), grad::RankOf(x), Constant(int32_t{1})});
    to_front = Build("ConcatV2", {list, Build("ListDiff", {all, list}),
                                  Constant(int32_t{0})});
    back = Build("InvertPermutation", {to_front});
  }
  // One row for each element of a product; -1 would be ambiguous for an empty
  // input.
  const Output out_size = grad::SizeOf(c.output(0));
  const Output rows = Build(
      "FloorDiv",
      {grad::SizeOf(x), Build("Maximum", {out_size, Constant(int32_t{1})})});
  const Output permuted = Build("Transpose", {x, to_front});
  const Output table =
      grad::ReshapeTo(permuted, Build("Pack", {rows, out_size}));
  const auto cumprod = [&](bool reverse) {
    return Build("Cumprod", {table, Constant(int32_t{0})},
                 {{"exclusive", true}, {"reverse", reverse}});
  };
  const Output others =
      Mul(grad::Conj(cumprod(false)), grad::Conj(cumprod(true)));
  const Output slope = Build(
      "Transpose", {grad::ReshapeTo(others, grad::ShapeOf(permuted)), back});
  c.grads[0] = grad::ReshapeLike(Mul(WithKeptDims(c, c.dy[0]), slope), x);
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

const BatchFormRegistrar reduction_batches[] = {
    {"Sum", AlongAxes<1>},  {"Mean", AlongAxes<1>},
    {"Prod", AlongAxes<1>}, {"Max", AlongAxes<1>},
    {"Min", AlongAxes<1>},  {"EuclideanNorm", AlongAxes<1>},
};

OpDefBuilder Declare(const char* name, const char* type, ReduceOp op) {
  const std::string_view t = type;
  OpDefBuilder b(name);
  b.Input(t.empty() ? "input: bool" : "input: T")
      .Input("reduction_indices: Tidx")
      .Output(t.empty() ? "output: bool" : "output: T")
      .Attr("keep_dims: bool = false");
  if (!t.empty()) b.Attr(type);
  b.Attr("Tidx: {int32, int64} = DT_INT32")
      .HostInput("reduction_indices")
      .Family("math")
      .Shape(ReductionShape)
      .Kernel(MakeReduce(op))
      .Sample({{.shape = {2, 3, 4}, .low = 0.5, .high = 2},
               {.shape = {2}, .values = {0, -1}}})
      .Sample({{.shape = {2, 3}, .low = 0.5, .high = 2}, {.values = {1}}},
              {{"keep_dims", true}});
  return b;
}

const OpRegistrar kReductions[] = {
    Declare("Sum", kNumberTypes, ReduceOp::kSum)
        .Kind(OpKind::kSum)
        .Grad(SumGrad)
        .Doc("The sum of elements over dimensions."),
    Declare("Mean", kNumberTypes, ReduceOp::kMean)
        .Grad(MeanGrad)
        .Doc("The mean of elements over dimensions."),
    Declare("Prod", kNumberTypes, ReduceOp::kProd)
        .Kind(OpKind::kProd)
        .Grad(ProdGrad)
        .Doc("The product of elements over dimensions."),
    Declare("Max", kMinMaxTypes, ReduceOp::kMax)
        .Kind(OpKind::kMax)
        .Grad(ExtremeGrad)
        .Doc("The greatest element over dimensions."),
    Declare("Min", kMinMaxTypes, ReduceOp::kMin)
        .Kind(OpKind::kMin)
        .Grad(ExtremeGrad)
        .Doc("The least element over dimensions."),
    Declare("EuclideanNorm", kNumberTypes, ReduceOp::kEuclideanNorm)
        .Grad(EuclideanNormGrad)
        .Doc("The square root of the sum of squares over dimensions."),
    Declare("All", "", ReduceOp::kAll)
        .NoGradient("its output is boolean")
        .Doc("Whether all elements are true, reduced over dimensions."),
    Declare("Any", "", ReduceOp::kAny)
        .NoGradient("its output is boolean")
        .Doc("Whether any element is true, reduced over dimensions."),
};

}  // namespace
}  // namespace sluice
