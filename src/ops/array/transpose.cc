// Permuting dimensions, and broadcasting as a separate op.
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

using array::DimsOf;
using array::IntAt;
using array::SpanOf;

// ---- Transpose --------------------------------------------------------------

// A permutation of [0, rank), checked.
Result<Dims> Permutation(const Tensor& t, int rank) {
  SLUICE_ASSIGN_OR_RETURN(Dims perm, array::IntVectorOf(t, "perm"));
  if (static_cast<int>(perm.size()) != rank)
    return InvalidArgument("perm: expected ", rank,
                           " entries, one per dimension, got ", perm.size());
  uint32_t seen = 0;
  for (int64_t p : perm) {
    if (p < 0 || p >= rank || (seen >> p) & 1)
      return InvalidArgument("perm: expected a permutation of [0, ", rank,
                             "), got ", t.Summarize(-1));
    seen |= 1u << p;
  }
  return perm;
}

template <typename T>
void Conjugate(Tensor* t) {
  for (T& v : t->raw_flat<T>()) v = std::conj(v);
}

template <bool kConjugate>
Status TransposeKernel(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  SLUICE_ASSIGN_OR_RETURN(const Dims perm,
                          Permutation(ctx.input(1), in.rank()));
  Dims dims(perm.size()), from(perm.size());
  const Dims strides = array::DenseStrides(in.shape().dims());
  int64_t previous = -1;
  bool moves = false;  // Dimensions of size 1 may be at any position.
  for (size_t i = 0; i < perm.size(); ++i) {
    const auto p = static_cast<size_t>(perm[i]);
    dims[i] = in.shape().dims()[p];
    from[i] = strides[p];
    if (dims[i] == 1) continue;
    moves |= perm[i] < previous;
    previous = perm[i];
  }
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
  const DType type = in.dtype();
  const bool conjugate = kConjugate && IsComplex(type);
  if (!moves && !conjugate) {
    SLUICE_ASSIGN_OR_RETURN(Tensor out, ctx.TakeInput(0).Reshaped(shape));
    ctx.set_output(0, std::move(out));
    return OkStatus();
  }
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, shape));
  Tensor& out = ctx.output(0);
  array::CopyStrided(type, SpanOf(dims), in.raw(), SpanOf(from), out.raw(),
                     SpanOf(array::DenseStrides(SpanOf(dims))));
  if (conjugate) {
    if (type == DType::kComplex64)
      Conjugate<complex64>(&out);
    else
      Conjugate<complex128>(&out);
  }
  return OkStatus();
}

Status TransposeShape(ShapeContext& c) {
  const PartialShape& in = c.input(0);
  SLUICE_ASSIGN_OR_RETURN(const PartialShape perm_shape, c.WithRank(1, 1));
  const Tensor* perm = c.constant(1);
  int rank = in.rank();
  if (perm_shape.dim(0) >= 0) {
    if (rank >= 0 && perm_shape.dim(0) != rank)
      return InvalidArgument("perm: expected ", rank,
                             " entries, one per dimension, got ",
                             perm_shape.dim(0));
    if (perm_shape.dim(0) > kMaxRank)
      return InvalidArgument("perm: expected at most ", kMaxRank,
                             " entries, got ", perm_shape.dim(0));
    rank = static_cast<int>(perm_shape.dim(0));
  }
  if (rank < 0) return OkStatus();
  PartialShape out = PartialShape::OfRank(rank);
  if (perm != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(const Dims p, Permutation(*perm, rank));
    for (int i = 0; i < rank; ++i)
      out.set_dim(i, in.dim(static_cast<int>(p[static_cast<size_t>(i)])));
  } else if (rank <= 1) {
    out = in.rank_known() ? in : out;
  }
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status TransposeGrad(GradContext& g) {
  g.grads[0] = Build(g.op->op_name(),
                     {g.dy[0], Build("InvertPermutation", {g.input(1)})});
  return OkStatus();
}

template <typename T>
struct InvertPermutationKernel {
  static Status Run(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    if (in.rank() != 1)
      return InvalidArgument("x: expected a vector, got shape ",
                             in.shape().ToString());
    const int64_t n = in.num_elements();
    if (static_cast<int64_t>(static_cast<T>(n)) != n)
      return InvalidArgument("x: expected at most 2^31-1 entries, got ", n);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), in.shape()));
    const T* x = in.raw<T>();
    T* y = ctx.output(0).raw<T>();
    std::fill_n(y, n, T{-1});
    for (int64_t i = 0; i < n; ++i) {
      const int64_t to = x[i];
      if (to < 0 || to >= n || y[to] != -1)
        return InvalidArgument("x: expected a permutation of [0, ", n,
                               "), got ", to,
                               to < 0 || to >= n ? "" : " twice");
      y[to] = static_cast<T>(i);
    }
    return OkStatus();
  }
};

Status VectorShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape s, c.WithRank(0, 1));
  c.set_output(0, std::move(s));
  return OkStatus();
}

// ---- Broadcasting -----------------------------------------------------------

Status BroadcastToKernel(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                          array::ShapeFrom(ctx.input(1), "shape"));
  if (shape == in.shape()) {
    ctx.set_output(0, ctx.TakeInput(0));
    return OkStatus();
  }
  const int extra = shape.rank() - in.rank();
  const Dims strides = array::DenseStrides(in.shape().dims());
  Dims from(static_cast<size_t>(shape.rank()), 0);
  for (int i = 0; i < in.rank(); ++i) {
    const bool same = extra >= 0 && in.dim(i) == shape[extra + i];
    if (extra < 0 || (!same && in.dim(i) != 1))
      return InvalidArgument("shape: expected one that the input of shape ",
                             in.shape().ToString(), " broadcasts to, got ",
                             shape.ToString());
    if (in.dim(i) != 1)
      from[static_cast<size_t>(extra + i)] = strides[static_cast<size_t>(i)];
  }
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), shape));
  array::CopyStrided(in.dtype(), shape.dims(), in.raw(), SpanOf(from),
                     ctx.output(0).raw(),
                     SpanOf(array::DenseStrides(shape.dims())));
  return OkStatus();
}

Status BroadcastToShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape out, c.InputAsShape(1));
  const PartialShape& in = c.input(0);
  if (in.rank_known() && out.rank_known()) {
    if (in.rank() > out.rank())
      return InvalidArgument("shape: expected at least rank ", in.rank(),
                             ", got ", out.ToString());
    SLUICE_ASSIGN_OR_RETURN(const PartialShape both, BroadcastShapes(in, out));
    for (int i = 0; i < out.rank(); ++i)
      if (out.dim(i) >= 0 && both.dim(i) >= 0 && both.dim(i) != out.dim(i))
        return InvalidArgument("shape: expected one that the input of shape ",
                               in.ToString(), " broadcasts to, got ",
                               out.ToString());
  }
  c.set_output(0, out);
  return OkStatus();
}

Status BroadcastToGrad(GradContext& g) {
  g.grads[0] = grad::SumToShapeOf(g.dy[0], g.input(0));
  return OkStatus();
}

// Both shapes as vectors aligned at their ends, and whether they broadcast.
struct ShapePair {
  Dims a, b;
  size_t rank() const { return std::max(a.size(), b.size()); }
  // Dimension i of the broadcast rank; missing ones are 1.
  static int64_t Dim(const Dims& d, size_t rank, size_t i) {
    const size_t missing = rank - d.size();
    return i < missing ? 1 : d[i - missing];
  }
};

Result<ShapePair> ReadPair(KernelContext& ctx) {
  ShapePair p;
  SLUICE_ASSIGN_OR_RETURN(p.a, array::IntVectorOf(ctx.input(0), "s0"));
  SLUICE_ASSIGN_OR_RETURN(p.b, array::IntVectorOf(ctx.input(1), "s1"));
  for (size_t i = 0; i < p.rank(); ++i) {
    const int64_t a = ShapePair::Dim(p.a, p.rank(), i);
    const int64_t b = ShapePair::Dim(p.b, p.rank(), i);
    if (a != b && a != 1 && b != 1)
      return InvalidArgument(
          "shapes: expected dimensions that are equal or 1, got [",
          ctx.input(0).Summarize(-1), "] and [", ctx.input(1).Summarize(-1),
          "]");
  }
  return p;
}

Status BroadcastArgsKernel(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const ShapePair p, ReadPair(ctx));
  Dims out;
  for (size_t i = 0; i < p.rank(); ++i) {
    const int64_t a = ShapePair::Dim(p.a, p.rank(), i);
    out.push_back(a == 1 ? ShapePair::Dim(p.b, p.rank(), i) : a);
  }
  SLUICE_ASSIGN_OR_RETURN(Tensor t,
                          array::IntTensor(ctx.input(0).dtype(), SpanOf(out)));
  ctx.set_output(0, std::move(t));
  return OkStatus();
}

Status BroadcastGradientArgsKernel(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const ShapePair p, ReadPair(ctx));
  Dims ra, rb;
  if (p.a != p.b) {
    for (size_t i = 0; i < p.rank(); ++i) {
      const int64_t a = ShapePair::Dim(p.a, p.rank(), i);
      const int64_t b = ShapePair::Dim(p.b, p.rank(), i);
      // If both are 1, summing has no effect, but both must list the axis.
      if (a == 1) ra.push_back(static_cast<int64_t>(i));
      if (b == 1) rb.push_back(static_cast<int64_t>(i));
    }
  }
  const DType type = ctx.input(0).dtype();
  SLUICE_ASSIGN_OR_RETURN(Tensor a, array::IntTensor(type, SpanOf(ra)));
  SLUICE_ASSIGN_OR_RETURN(Tensor b, array::IntTensor(type, SpanOf(rb)));
  ctx.set_output(0, std::move(a));
  ctx.set_output(1, std::move(b));
  return OkStatus();
}

Status BroadcastArgsShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape a, c.WithRank(0, 1));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(1, 1));
  const int64_t longest = std::max(a.dim(0), b.dim(0));
  c.set_output(0, {a.dim(0) < 0 || b.dim(0) < 0 ? -1 : longest});
  return OkStatus();
}

Status BroadcastGradientArgsShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  c.set_all_outputs({-1});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(Transpose)
    .Input("x: T")
    .Input("perm: Tperm")
    .Output("y: T")
    .Attr("T: type")
    .Attr("Tperm: {int32, int64} = DT_INT32")
    .HostInput("perm")
    .Shape(TransposeShape)
    .Kernel(Cpu(TransposeKernel<false>, true))
    .Grad(TransposeGrad)
    .Sample({{.shape = {2, 3, 4}}, {.shape = {3}, .values = {2, 0, 1}}})
    .Doc("Permutes the dimensions: dimension i of y is dimension perm[i] of x.")
    .Family("array");

SLUICE_OP(ConjugateTranspose)
    .Input("x: T")
    .Input("perm: Tperm")
    .Output("y: T")
    .Attr("T: type")
    .Attr("Tperm: {int32, int64} = DT_INT32")
    .HostInput("perm")
    .Shape(TransposeShape)
    .Kernel(Cpu(TransposeKernel<true>, true))
    .Grad(TransposeGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {2}, .values = {1, 0}}})
    .Doc("Transposes and conjugates complex elements.")
    .Family("array");

SLUICE_OP(InvertPermutation)
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {int32, int64} = DT_INT32")
    .Shape(VectorShape)
    .Kernel(CpuFor<InvertPermutationKernel, int32_t, int64_t>("T"))
    .NoGradient("indices have no derivative")
    .Sample({{.shape = {4}, .values = {2, 0, 3, 1}}})
    .Doc("Inverts a permutation x of [0, n): y[x[i]] = i.")
    .Family("array");

SLUICE_OP(BroadcastTo)
    .Input("input: T")
    .Input("shape: Tidx")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .HostInput("shape")
    .Shape(BroadcastToShape)
    .Kernel(Cpu(BroadcastToKernel, true))
    .Grad(BroadcastToGrad)
    .Sample({{.shape = {3, 1}}, {.shape = {3}, .values = {2, 3, 4}}})
    .Doc("Broadcasts the input to a shape.")
    .Family("array");

SLUICE_OP(BroadcastArgs)
    .Input("s0: T")
    .Input("s1: T")
    .Output("r0: T")
    .Attr("T: {int32, int64} = DT_INT32")
    .Shape(BroadcastArgsShape)
    .Kernel(Cpu(BroadcastArgsKernel))
    .NoGradient("shapes have no derivative")
    .Sample({{.shape = {2}, .values = {3, 1}},
             {.shape = {3}, .values = {2, 1, 4}}})
    .Doc("Returns the shape that two shapes broadcast to.")
    .Family("array");

SLUICE_OP(BroadcastGradientArgs)
    .Input("s0: T")
    .Input("s1: T")
    .Output("r0: T")
    .Output("r1: T")
    .Attr("T: {int32, int64} = DT_INT32")
    .Shape(BroadcastGradientArgsShape)
    .Kernel(Cpu(BroadcastGradientArgsKernel))
    .NoGradient("shapes have no derivative")
    .Sample({{.shape = {2}, .values = {3, 1}},
             {.shape = {3}, .values = {2, 1, 4}}})
    .Doc(
        "Returns the axes to sum over in the gradients of two broadcast "
        "operands.")
    .Family("array");

// The new dimension stays first.
std::optional<BatchForm> TransposeParts(const Node&) {
  return BatchForm{.axis = BatchForm::kNew,
                   .shared = 1 << 1,
                   .accepts = [](std::span<Tensor> inputs) {
                     const int rank = inputs[0].rank();
                     return inputs[1].num_elements() == rank &&
                            MoveAxes(&inputs[1], rank) &&
                            PutFirst(&inputs[1], 0);
                   }};
}
const BatchFormRegistrar transpose_batch("Transpose", TransposeParts);
const BatchFormRegistrar conjugate_transpose_batch("ConjugateTranspose",
                                                   TransposeParts);

}  // namespace
}  // namespace sluice
