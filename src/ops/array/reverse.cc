// The same elements in another order along some dimensions.
#include <algorithm>

#include "exec/batching/batch_form.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

using array::At;
using array::DimsOf;
using array::IntAt;
using array::SpanOf;

// ---- Reverse, ReverseV2 -----------------------------------------------------

// Reverses the dimensions whose bits are set in `mask`.
Status ReverseDims(KernelContext& ctx, uint32_t mask) {
  const Tensor& in = ctx.input(0);
  for (int d = 0; d < in.rank(); ++d)
    if (in.dim(d) <= 1) mask &= ~(1u << d);
  if (mask == 0 || in.num_elements() == 0) {
    ctx.set_output(0, ctx.TakeInput(0));
    return OkStatus();
  }
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), in.shape()));
  const Dims to = array::DenseStrides(in.shape().dims());
  Dims from = to;
  int64_t offset = 0;
  for (int d = 0; d < in.rank(); ++d) {
    if (!((mask >> d) & 1)) continue;
    const auto i = static_cast<size_t>(d);
    offset += (in.dim(d) - 1) * from[i];
    from[i] = -from[i];
  }
  array::CopyStrided(in.dtype(), in.shape().dims(),
                     At(in.dtype(), in.raw(), offset), SpanOf(from),
                     ctx.output(0).raw(), SpanOf(to));
  return OkStatus();
}

Status ReverseKernel(KernelContext& ctx) {
  const Tensor &in = ctx.input(0), &dims = ctx.input(1);
  if (dims.rank() != 1 || dims.num_elements() != in.rank())
    return InvalidArgument("dims: expected ", in.rank(),
                           " entries, one per dimension, got shape ",
                           dims.shape().ToString());
  uint32_t mask = 0;
  for (int d = 0; d < in.rank(); ++d)
    if (dims.raw<bool>()[d]) mask |= 1u << d;
  return ReverseDims(ctx, mask);
}

// The axes as a bit mask; duplicates are errors.
Result<uint32_t> AxisMask(const Tensor& axes, int rank) {
  if (axes.rank() > 1)
    return InvalidArgument("axis: expected a vector, got shape ",
                           axes.shape().ToString());
  uint32_t mask = 0;
  for (int64_t i = 0; i < axes.num_elements(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const int d, CanonicalAxis(IntAt(axes, i), rank));
    if ((mask >> d) & 1)
      return InvalidArgument("axis: expected each dimension at most once, got ",
                             d, " twice");
    mask |= 1u << d;
  }
  return mask;
}

Status ReverseV2Kernel(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const uint32_t mask,
                          AxisMask(ctx.input(1), ctx.input(0).rank()));
  return ReverseDims(ctx, mask);
}

Status ReverseShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape dims, c.WithRank(1, 1));
  if (c.input(0).rank_known() && dims.dim(0) >= 0 &&
      dims.dim(0) != c.input(0).rank())
    return InvalidArgument("dims: expected ", c.input(0).rank(),
                           " entries, one per dimension, got ", dims.dim(0));
  c.set_output(0, c.input(0));
  return OkStatus();
}

Status ReverseV2Shape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  const Tensor* axes = c.constant(1);
  if (axes != nullptr && c.input(0).rank_known())
    SLUICE_RETURN_IF_ERROR(AxisMask(*axes, c.input(0).rank()).status());
  c.set_output(0, c.input(0));
  return OkStatus();
}

Status ReverseGrad(GradContext& g) {
  g.grads[0] = Build(g.op->op_name(), {g.dy[0], g.input(1)});
  return OkStatus();
}

// ---- ReverseSequence --------------------------------------------------------

Status CheckDims(int64_t seq, int64_t batch, int rank) {
  if (seq < 0 || batch < 0 || seq >= rank || batch >= rank || seq == batch)
    return InvalidArgument(
        "seq_dim and batch_dim: expected two dimensions in [0, ", rank,
        "), got ", seq, " and ", batch);
  return OkStatus();
}

class ReverseSequenceKernel {
 public:
  explicit ReverseSequenceKernel(const Node& n)
      : seq_(n.IntAttr("seq_dim")), batch_(n.IntAttr("batch_dim")) {}
  Status Run(KernelContext& ctx) {
    const Tensor &in = ctx.input(0), &lengths = ctx.input(1);
    SLUICE_RETURN_IF_ERROR(CheckDims(seq_, batch_, in.rank()));
    const auto s = static_cast<size_t>(seq_), b = static_cast<size_t>(batch_);
    Dims dims = DimsOf(in.shape());
    const int64_t steps = dims[s], batches = dims[b];
    if (lengths.rank() != 1 || lengths.num_elements() != batches)
      return InvalidArgument("seq_lengths: expected ", batches,
                             " entries, one per batch, got shape ",
                             lengths.shape().ToString());
    for (int64_t i = 0; i < batches; ++i)
      if (IntAt(lengths, i) < 0 || IntAt(lengths, i) > steps)
        return InvalidArgument("seq_lengths: expected values in [0, ", steps,
                               "], got ", IntAt(lengths, i));
    const DType type = in.dtype();
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, in.shape()));
    if (in.num_elements() == 0) return OkStatus();
    void* out = ctx.output(0).raw();
    const Dims to = array::DenseStrides(in.shape().dims());
    Dims from = to;
    dims[b] = 1;
    for (int64_t i = 0; i < batches; ++i) {
      const int64_t length = IntAt(lengths, i), begin = i * to[b];
      dims[s] = length;
      from[s] = -to[s];
      if (length > 0)
        array::CopyStrided(type, SpanOf(dims),
                           At(type, in.raw(), begin + (length - 1) * to[s]),
                           SpanOf(from), At(type, out, begin), SpanOf(to));
      dims[s] = steps - length;
      if (length < steps)
        array::CopyStrided(
            type, SpanOf(dims), At(type, in.raw(), begin + length * to[s]),
            SpanOf(to), At(type, out, begin + length * to[s]), SpanOf(to));
    }
    return OkStatus();
  }

 private:
  const int64_t seq_, batch_;
};

Status ReverseSequenceShape(ShapeContext& c) {
  PartialShape out = c.input(0);
  SLUICE_ASSIGN_OR_RETURN(const PartialShape lengths, c.WithRank(1, 1));
  if (out.rank_known()) {
    const int64_t batch = c.node().IntAttr("batch_dim");
    SLUICE_RETURN_IF_ERROR(
        CheckDims(c.node().IntAttr("seq_dim"), batch, out.rank()));
    SLUICE_ASSIGN_OR_RETURN(
        const int64_t d,
        MergeDim(out.dim(static_cast<int>(batch)), lengths.dim(0)));
    out.set_dim(static_cast<int>(batch), d);
  }
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status ReverseSequenceGrad(GradContext& g) {
  g.grads[0] = Build("ReverseSequence", {g.dy[0], g.input(1)},
                     {{"seq_dim", g.op->IntAttr("seq_dim")},
                      {"batch_dim", g.op->IntAttr("batch_dim")}});
  return OkStatus();
}

// ---- Roll -------------------------------------------------------------------

// Copies the block of `in` that starts at `from` to its place in `out`: each
// shifted dimension is split in two, one dimension after the other.
struct RollPlan {
  DType type;
  const void* in;
  void* out;
  Dims dims, shift, strides;

  void Run(size_t d, Dims* size, int64_t from, int64_t to) const {
    if (d == dims.size()) {
      array::CopyStrided(type, SpanOf(*size), At(type, in, from),
                         SpanOf(strides), At(type, out, to), SpanOf(strides));
      return;
    }
    const int64_t s = shift[d], n = dims[d];
    (*size)[d] = n - s;
    Run(d + 1, size, from, to + s * strides[d]);
    if (s == 0) return;
    (*size)[d] = s;
    Run(d + 1, size, from + (n - s) * strides[d], to);
  }
};

Status RollKernel(KernelContext& ctx) {
  const Tensor &in = ctx.input(0), &shift = ctx.input(1), &axis = ctx.input(2);
  if (in.rank() < 1)
    return InvalidArgument("input: expected rank at least 1, got a scalar");
  if (shift.rank() > 1 || axis.rank() > 1 || !(shift.shape() == axis.shape()))
    return InvalidArgument(
        "shift and axis: expected scalars or vectors of one length, got "
        "shapes ",
        shift.shape().ToString(), " and ", axis.shape().ToString());
  RollPlan plan;
  plan.dims = DimsOf(in.shape());
  plan.shift = Dims(plan.dims.size(), 0);
  bool moves = false;
  for (int64_t i = 0; i < shift.num_elements(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const int d,
                            CanonicalAxis(IntAt(axis, i), in.rank()));
    const int64_t n = std::max<int64_t>(1, in.dim(d));
    int64_t& sum = plan.shift[static_cast<size_t>(d)];
    sum = ((sum + IntAt(shift, i) % n) % n + n) % n;
  }
  for (int64_t s : plan.shift) moves |= s != 0;
  if (!moves || in.num_elements() == 0) {
    ctx.set_output(0, ctx.TakeInput(0));
    return OkStatus();
  }
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), in.shape()));
  plan.type = in.dtype();
  plan.in = in.raw();
  plan.out = ctx.output(0).raw();
  plan.strides = array::DenseStrides(in.shape().dims());
  Dims size = plan.dims;
  plan.Run(0, &size, 0, 0);
  return OkStatus();
}

Status RollShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRankAtLeast(0, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(1, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(2, 1).status());
  c.set_output(0, c.input(0));
  return OkStatus();
}

Status RollGrad(GradContext& g) {
  g.grads[0] = Build("Roll", {g.dy[0], grad::Neg(g.input(1)), g.input(2)});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(Reverse)
    .Input("tensor: T")
    .Input("dims: bool")
    .Output("output: T")
    .Attr(
        "T: {uint8, int8, uint16, int16, uint32, int32, uint64, int64, bool, "
        "bfloat16, half, float, double, complex64, complex128, string}")
    .Shape(ReverseShape)
    .Kernel(Cpu(ReverseKernel, true))
    .Grad(ReverseGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {2}, .values = {0, 1}}})
    .Doc("Reverses the marked dimensions of the input.")
    .Family("array");

SLUICE_OP(ReverseV2)
    .Input("tensor: T")
    .Input("axis: Tidx")
    .Output("output: T")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Attr(
        "T: {uint8, int8, uint16, int16, int32, uint32, int64, uint64, bool, "
        "bfloat16, half, float, double, complex64, complex128, string}")
    .HostInput("axis")
    .Shape(ReverseV2Shape)
    .Kernel(Cpu(ReverseV2Kernel, true))
    .Grad(ReverseGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {1}, .values = {-1}}})
    .Doc("Reverses the given dimensions of the input.")
    .Family("array");

SLUICE_OP(ReverseSequence)
    .Input("input: T")
    .Input("seq_lengths: Tlen")
    .Output("output: T")
    .Attr("seq_dim: int")
    .Attr("batch_dim: int = 0")
    .Attr("T: type")
    .Attr("Tlen: {int32, int64} = DT_INT64")
    .HostInput("seq_lengths")
    .Shape(ReverseSequenceShape)
    .Kernel(CpuState<ReverseSequenceKernel>(true))
    .Grad(ReverseSequenceGrad)
    .Sample({{.shape = {2, 4}}, {.shape = {2}, .values = {3, 1}}},
            {{"seq_dim", 1}})
    .Doc("Reverses the first seq_lengths[b] steps of each batch entry b.")
    .Family("array");

SLUICE_OP(Roll)
    .Input("input: T")
    .Input("shift: Tshift")
    .Input("axis: Taxis")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tshift: {int32, int64}")
    .Attr("Taxis: {int32, int64}")
    .Shape(RollShape)
    .Kernel(Cpu(RollKernel, true))
    .Grad(RollGrad)
    .Sample({{.shape = {2, 5}},
             {.shape = {}, .values = {2}, .dtype = DType::kInt32},
             {.shape = {}, .values = {1}, .dtype = DType::kInt32}})
    .Doc(
        "Shifts the elements along dimensions; elements shifted past the end "
        "wrap around.")
    .Family("array");

const BatchFormRegistrar reverse_batch("ReverseV2", AlongAxes<1>);

}  // namespace
}  // namespace sluice
