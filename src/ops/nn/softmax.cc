// Softmax, LogSoftmax and the cross-entropies based on them.
#include "kernels/simd/softmax.h"

#include <algorithm>
#include <string>
#include <utility>

#include "exec/batching/batch_form.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/simd/move.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"

namespace sluice {
namespace {

using grad::Mul;
using grad::Sub;

// ---- Softmax, LogSoftmax ----------------------------------------------------

using RowsFn = bool (*)(DType, int64_t, int64_t, const void*, void*);

template <RowsFn F>
Status RunRows(KernelContext& ctx) {
  const DType t = ctx.input(0).dtype();
  const Shape shape = ctx.input(0).shape();
  if (shape.rank() < 1)
    return InvalidArgument("logits: expected rank 1 or more, got a scalar");
  const void* in = ctx.input(0).raw();
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, t, shape));
  if (shape.num_elements() == 0) return OkStatus();
  const int64_t columns = shape.dim(shape.rank() - 1);
  if (!F(t, shape.num_elements() / columns, columns, in, ctx.output(0).raw()))
    return NoKernelFor(ctx.node(), t);
  return OkStatus();
}

Status SoftmaxGrad(GradContext& c) {
  const Output y = c.output(0), dy = c.dy[0];
  const Output sums = grad::SumAxes(Mul(dy, y), {-1}, /*keep_dims=*/true);
  c.grads[0] = Mul(Sub(dy, sums), y);
  return OkStatus();
}

Status LogSoftmaxGrad(GradContext& c) {
  const Output dy = c.dy[0];
  const Output sums = grad::SumAxes(dy, {-1}, /*keep_dims=*/true);
  c.grads[0] = Sub(dy, Mul(sums, Build("Exp", {c.output(0)})));
  return OkStatus();
}

Status LogitsShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape s, c.WithRankAtLeast(0, 1));
  c.set_output(0, s);
  return OkStatus();
}

OpDefBuilder SoftmaxOp(const char* name, const char* output,
                       Status (*run)(KernelContext&), GradFn gradient,
                       const char* doc) {
  OpDefBuilder b(name);
  b.Input("logits: T")
      .Output(output)
      .Attr(kFloatTypes)
      .Family("nn")
      .Shape(LogitsShape)
      .Kernel(Cpu(run, /*expensive=*/true))
      .Grad(gradient)
      .Sample({{.shape = {2, 3}, .low = -2, .high = 2}})
      .Sample({{.shape = {4}, .low = -2, .high = 2}})
      .Doc(doc);
  return b;
}

const OpRegistrar kSoftmaxes[] = {
    SoftmaxOp("Softmax", "softmax: T", RunRows<simd::Softmax>, SoftmaxGrad,
              "exp(logits) / sum(exp(logits)) along the last dimension."),
    SoftmaxOp("LogSoftmax", "logsoftmax: T", RunRows<simd::LogSoftmax>,
              LogSoftmaxGrad,
              "logits - log(sum(exp(logits))) along the last dimension."),
};

// ---- Cross-entropies --------------------------------------------------------

Status RequireClasses(const Shape& features) {
  if (features.rank() == 2 && features.dim(1) > 0) return OkStatus();
  return InvalidArgument(
      "features: expected [batch, classes] with at least one class, got ",
      features.ToString());
}

// A matrix whose rows or columns are broadcast to `shape`. Returns the distance
// between its rows: 0 if one row is used for all. Repeats columns into `wide`,
// which then owns them.
Result<int64_t> RowStride(KernelContext& ctx, const Tensor& t,
                          const Shape& shape, Tensor* wide) {
  const int64_t rows = t.dim(0), columns = shape.dim(1);
  *wide = t;
  if (t.dim(1) != columns) {  // One column: each row is one value.
    SLUICE_ASSIGN_OR_RETURN(
        *wide, ctx.AllocateTemp(t.dtype(), Shape({rows, columns})));
    const size_t size = DTypeSize(t.dtype());
    for (int64_t r = 0; r < rows; ++r)
      simd::Fill(size, t.raw<char>() + r * static_cast<int64_t>(size),
                 wide->raw<char>() + r * columns * static_cast<int64_t>(size),
                 columns);
  }
  return rows == shape.dim(0) ? columns : 0;
}

// A row or a single value as a matrix, for broadcasting.
Tensor AsMatrix(const Tensor& t) {
  return t.rank() >= 2 ? t : t.Reshaped(Shape({1, t.num_elements()})).value();
}

// The loss and its gradient for one-hot or soft labels, with broadcasting.
Status RunCrossEntropy(KernelContext& ctx) {
  const Tensor features = AsMatrix(ctx.input(0));
  const Tensor labels = AsMatrix(ctx.input(1));
  const auto fits = [&](int d) {
    return features.dim(d) == labels.dim(d) || features.dim(d) == 1 ||
           labels.dim(d) == 1;
  };
  if (std::max(ctx.input(0).rank(), ctx.input(1).rank()) != 2 || !fits(0) ||
      !fits(1))
    return InvalidArgument(
        "features and labels: expected shapes that broadcast to [batch, "
        "classes], got ",
        ctx.input(0).shape().ToString(), " and ",
        ctx.input(1).shape().ToString());
  const auto wide = [&](int d) {
    return features.dim(d) == 1 ? labels.dim(d) : features.dim(d);
  };
  const Shape shape({wide(0), wide(1)});
  const DType t = features.dtype();
  if (shape.dim(1) == 0) {  // Sums of no terms.
    ctx.set_output(1, Tensor(t, shape));
    SLUICE_ASSIGN_OR_RETURN(
        Tensor loss,
        array::MakeZeros(t, Shape({shape.dim(0)}), ctx.step().allocator));
    ctx.set_output(0, std::move(loss));
    return OkStatus();
  }
  Tensor f, l;
  SLUICE_ASSIGN_OR_RETURN(const int64_t f_stride,
                          RowStride(ctx, features, shape, &f));
  SLUICE_ASSIGN_OR_RETURN(const int64_t l_stride,
                          RowStride(ctx, labels, shape, &l));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, t, Shape({shape.dim(0)})));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, t, shape));
  if (!simd::SoftmaxCrossEntropy(t, shape.dim(0), shape.dim(1),
                                 std::as_const(f).raw(), f_stride,
                                 std::as_const(l).raw(), l_stride,
                                 ctx.output(0).raw(), ctx.output(1).raw()))
    return NoKernelFor(ctx.node(), t);
  return OkStatus();
}

// The same for labels that are class indices.
Status RunSparseCrossEntropy(KernelContext& ctx) {
  const Shape shape = ctx.input(0).shape();
  const Tensor labels = ctx.input(1);
  SLUICE_RETURN_IF_ERROR(RequireClasses(shape));
  if (labels.rank() != 1 || labels.dim(0) != shape.dim(0))
    return InvalidArgument("labels: expected a vector of ", shape.dim(0),
                           ", one a row, got shape ",
                           labels.shape().ToString());
  const DType t = ctx.input(0).dtype();
  const void* in = ctx.input(0).raw();
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, t, labels.shape()));
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 1, t, shape));
  int64_t bad_row = -1;
  if (!simd::SparseSoftmaxCrossEntropy(
          t, labels.dtype(), shape.dim(0), shape.dim(1), in, labels.raw(),
          ctx.output(0).raw(), ctx.output(1).raw(), &bad_row))
    return NoKernelFor(ctx.node(), t);
  if (bad_row < 0) return OkStatus();
  const int64_t label = labels.dtype() == DType::kInt32
                            ? labels.raw<int32_t>()[bad_row]
                            : labels.raw<int64_t>()[bad_row];
  return InvalidArgument("labels: expected classes in [0, ", shape.dim(1),
                         "), got ", label, " in row ", bad_row);
}

// The gradient of the loss with respect to the logits, plus the gradient
// through the gradient output: (g - sum(g * softmax)) * softmax.
Output LogitsGrad(GradContext& c) {
  Output d;
  if (c.dy[0].valid()) d = Mul(grad::ExpandDims(c.dy[0], -1), Output(c.op, 1));
  if (const Output g = c.dy[1]; g.valid()) {
    const Output softmax = Build("Softmax", {c.input(0)});
    const Output sums =
        grad::SumAxes(Mul(g, softmax), {-1}, /*keep_dims=*/true);
    const Output second = Mul(Sub(g, sums), softmax);
    d = d.valid() ? grad::Add(d, second) : second;
  }
  return d;
}

Status CrossEntropyGrad(GradContext& c) {
  const Output logits = c.input(0), labels = c.input(1);
  c.grads[0] = grad::SumToShape(LogitsGrad(c), logits, labels);
  // The gradient output decreases by one when a label increases by one.
  Output d_labels;
  if (c.dy[0].valid())
    d_labels = grad::Neg(
        Mul(grad::ExpandDims(c.dy[0], -1), Build("LogSoftmax", {logits})));
  if (c.dy[1].valid())
    d_labels = d_labels.valid() ? Sub(d_labels, c.dy[1]) : grad::Neg(c.dy[1]);
  c.grads[1] = grad::SumToShape(d_labels, labels, logits);
  return OkStatus();
}

Status SparseCrossEntropyGrad(GradContext& c) {
  c.grads[0] = LogitsGrad(c);
  return OkStatus();
}

Status CrossEntropyShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape both,
                          BroadcastShapes(c.input(0), c.input(1)));
  SLUICE_ASSIGN_OR_RETURN(both, both.MergeWith(PartialShape::OfRank(2)));
  c.set_output(0, PartialShape({both.dim(0)}));
  c.set_output(1, both);
  return OkStatus();
}

Status SparseCrossEntropyShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape f, c.WithRank(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape l, c.WithRank(1, 1));
  SLUICE_ASSIGN_OR_RETURN(const int64_t n, MergeDim(f.dim(0), l.dim(0)));
  c.set_output(0, PartialShape({n}));
  c.set_output(1, PartialShape({n, f.dim(1)}));
  return OkStatus();
}

const BatchFormRegistrar softmax_batch("Softmax", PartByPart<1>);
const BatchFormRegistrar log_softmax_batch("LogSoftmax", PartByPart<1>);
// (Labels that broadcast have no row for each row of the features.)
template <int kLabelsRank>
std::optional<BatchForm> CrossEntropyRows(const Node&) {
  return BatchForm{.accepts = [](std::span<Tensor> inputs) {
    return inputs[0].rank() == 2 && inputs[1].rank() == kLabelsRank &&
           inputs[0].dim(0) == inputs[1].dim(0);
  }};
}
const BatchFormRegistrar cross_entropy_batch("SoftmaxCrossEntropyWithLogits",
                                             CrossEntropyRows<2>);
const BatchFormRegistrar sparse_cross_entropy_batch(
    "SparseSoftmaxCrossEntropyWithLogits", CrossEntropyRows<1>);

SLUICE_OP(SoftmaxCrossEntropyWithLogits)
    .Input("features: T")
    .Input("labels: T")
    .Output("loss: T")
    .Output("backprop: T")
    .Attr(kFloatTypes)
    .Family("nn")
    .Shape(CrossEntropyShape)
    .Kernel(Cpu(RunCrossEntropy, /*expensive=*/true))
    .Grad(CrossEntropyGrad)
    .Sample({{.shape = {2, 3}},
             {.shape = {2, 3}, .values = {0.25, 0.25, 0.5, 0, 1, 0}}})
    .Doc("The cross-entropy between softmax(features) and labels, row by row.");

SLUICE_OP(SparseSoftmaxCrossEntropyWithLogits)
    .Input("features: T")
    .Input("labels: Tlabels")
    .Output("loss: T")
    .Output("backprop: T")
    .Attr(kFloatTypes)
    .Attr("Tlabels: {int32, int64} = DT_INT64")
    .Family("nn")
    .Shape(SparseCrossEntropyShape)
    .Kernel(Cpu(RunSparseCrossEntropy, /*expensive=*/true))
    .Grad(SparseCrossEntropyGrad)
    .Sample({{.shape = {3, 4}}, {.shape = {3}, .values = {0, 3, 1}}})
    .Doc("The cross-entropy between softmax(features) and one class per row.");

}  // namespace
}  // namespace sluice
