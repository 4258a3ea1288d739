// Layer normalisation and its gradient, each as one node. Built of arithmetic
// ops it takes about fifteen nodes, several of which store an array as large as
// x.
#include "kernels/simd/layer_norm.h"

#include <numeric>
#include <vector>

#include "exec/batching/batch_form.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

using grad::Add;
using grad::Div;
using grad::Mul;
using grad::Sub;

// ---- Shapes and kernels -----------------------------------------------------

// The last `dims` dimensions of x are those of gamma; the others count the
// rows. The moments have the shape of x with 1 for the last dimensions.
struct NormSizes {
  simd::RowsShape rows;
  Shape moments;
};

Result<NormSizes> SizesOf(const Shape& x, const Shape& gamma, int64_t dims) {
  if (gamma.rank() != dims)
    return InvalidArgument("gamma: expected rank ", dims,
                           ", the attribute 'dims', got ", gamma.ToString());
  const int outer = x.rank() - gamma.rank();
  bool fits = outer >= 0;
  for (int i = 0; fits && i < gamma.rank(); ++i)
    fits = x.dim(outer + i) == gamma.dim(i);
  if (!fits)
    return InvalidArgument("gamma: expected the last dimensions of x, ",
                           x.ToString(), ", got ", gamma.ToString());
  NormSizes s;
  s.rows = {1, gamma.num_elements()};
  std::vector<int64_t> moments(static_cast<size_t>(x.rank()), 1);
  for (int i = 0; i < outer; ++i) {
    moments[static_cast<size_t>(i)] = x.dim(i);
    s.rows.rows *= x.dim(i);
  }
  SLUICE_ASSIGN_OR_RETURN(s.moments, Shape::Make(moments));
  return s;
}

// The attribute of a node.
Result<int> DimsOf(const Node& n) {
  const int64_t dims = n.IntAttr("dims");
  if (dims >= 1 && dims <= kMaxRank) return static_cast<int>(dims);
  return InvalidArgument("dims: expected 1 to ", kMaxRank, ", got ", dims);
}

// The moments of what is known; `dims` is gamma's rank.
Result<PartialShape> MomentsShape(const PartialShape& x, int dims) {
  if (!x.rank_known()) return PartialShape();
  if (dims > x.rank())
    return InvalidArgument("x: expected rank ", dims,
                           " or more, that of gamma, got shape ", x.ToString());
  PartialShape moments = x;
  for (int i = x.rank() - dims; i < x.rank(); ++i) moments.set_dim(i, 1);
  return moments;
}

// The shapes of input `x`, which is given what gamma says of it, and of gamma.
Result<std::pair<PartialShape, PartialShape>> XAndGamma(ShapeContext& c,
                                                        int x_input,
                                                        int gamma_input) {
  SLUICE_ASSIGN_OR_RETURN(const int dims, DimsOf(c.node()));
  PartialShape x = c.input(x_input);
  SLUICE_ASSIGN_OR_RETURN(PartialShape gamma, c.WithRank(gamma_input, dims));
  SLUICE_RETURN_IF_ERROR(MomentsShape(x, dims).status());
  if (!x.rank_known()) return std::pair(x, gamma);
  if (!gamma.rank_known()) gamma = PartialShape::OfRank(dims);
  const int outer = x.rank() - dims;
  for (int i = 0; i < dims; ++i) {
    const auto merged = MergeDim(x.dim(outer + i), gamma.dim(i));
    if (!merged.ok())
      return InvalidArgument("gamma: expected the last dimensions of x, ",
                             x.ToString(), ", got ", gamma.ToString());
    x.set_dim(outer + i, *merged);
    gamma.set_dim(i, *merged);
  }
  return std::pair(x, gamma);
}

Status LayerNormShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const auto gamma, XAndGamma(c, 0, 1));
  SLUICE_ASSIGN_OR_RETURN(const auto beta, XAndGamma(c, 0, 2));
  SLUICE_RETURN_IF_ERROR(gamma.second.MergeWith(beta.second).status());
  SLUICE_ASSIGN_OR_RETURN(const PartialShape x,
                          gamma.first.MergeWith(beta.first));
  SLUICE_ASSIGN_OR_RETURN(const int dims, DimsOf(c.node()));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape moments, MomentsShape(x, dims));
  c.set_output(0, x);
  c.set_output(1, moments);
  c.set_output(2, moments);
  return OkStatus();
}

Status LayerNormGradShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const auto of_dy, XAndGamma(c, 0, 2));
  SLUICE_ASSIGN_OR_RETURN(const auto of_x, XAndGamma(c, 1, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape x,
                          of_dy.first.MergeWith(of_x.first));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape gamma,
                          of_dy.second.MergeWith(of_x.second));
  SLUICE_ASSIGN_OR_RETURN(const int dims, DimsOf(c.node()));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape moments, MomentsShape(x, dims));
  for (int i : {3, 4})
    SLUICE_RETURN_IF_ERROR(moments.MergeWith(c.input(i)).status());
  c.set_output(0, x);
  c.set_output(1, gamma);
  c.set_output(2, gamma);
  return OkStatus();
}

// Immutable, as is the other.
class LayerNormKernel {
 public:
  explicit LayerNormKernel(const Node& n)
      : dims_(n.IntAttr("dims")), epsilon_(n.AttrOr<float>("epsilon", 1e-3f)) {}

  Status Run(KernelContext& ctx) const {
    const Tensor &x = ctx.input(0), &gamma = ctx.input(1), &beta = ctx.input(2);
    const Shape shape = x.shape();
    SLUICE_ASSIGN_OR_RETURN(const NormSizes s,
                            SizesOf(shape, gamma.shape(), dims_));
    if (beta.shape() != gamma.shape())
      return InvalidArgument("beta: expected the shape of gamma, ",
                             gamma.shape().ToString(), ", got ",
                             beta.shape().ToString());
    const DType t = x.dtype();
    const void *px = x.raw(), *pg = gamma.raw(), *pb = beta.raw();
    SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, t, shape));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, t, s.moments));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(2, t, s.moments));
    if (!simd::LayerNorm(t, s.rows, epsilon_, px, pg, pb, ctx.output(0).raw(),
                         ctx.output(1).raw(), ctx.output(2).raw()))
      return NoKernelFor(ctx.node(), t);
    return OkStatus();
  }

 private:
  const int64_t dims_;
  const double epsilon_;
};

class LayerNormGradKernel {
 public:
  explicit LayerNormGradKernel(const Node& n) : dims_(n.IntAttr("dims")) {}

  Status Run(KernelContext& ctx) const {
    const Tensor &dy = ctx.input(0), &x = ctx.input(1), &gamma = ctx.input(2);
    const Shape shape = x.shape(), row = gamma.shape();
    SLUICE_ASSIGN_OR_RETURN(const NormSizes s, SizesOf(shape, row, dims_));
    if (dy.shape() != shape)
      return InvalidArgument("dy: expected the shape of x, ", shape.ToString(),
                             ", got ", dy.shape().ToString());
    for (int i : {3, 4})
      if (ctx.input(i).shape() != s.moments)
        return InvalidArgument(i == 3 ? "mean" : "scale", ": expected shape ",
                               s.moments.ToString(), ", got ",
                               ctx.input(i).shape().ToString());
    const DType t = x.dtype();
    const void* in[5];
    for (int i = 0; i < 5; ++i) in[i] = ctx.input(i).raw();
    SLUICE_ASSIGN_OR_RETURN(
        Tensor room,
        ctx.AllocateTemp(t, Shape({simd::LayerNormGradRoom(s.rows)})));
    SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0, 1}, 0, t, shape));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, t, row));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(2, t, row));
    if (!simd::LayerNormGrad(t, s.rows, in[0], in[1], in[2], in[3], in[4],
                             ctx.output(0).raw(), ctx.output(1).raw(),
                             ctx.output(2).raw(), room.raw()))
      return NoKernelFor(ctx.node(), t);
    return OkStatus();
  }

 private:
  const int64_t dims_;
};

// Its gradient has no form: sums over the rows of each instance are outputs.
const BatchFormRegistrar layer_norm_batch("LayerNorm", [](const Node&) {
  return std::optional(BatchForm{.axis = BatchForm::kNew,
                                 .shared = 1 << 1 | 1 << 2,
                                 .accepts = [](std::span<Tensor> inputs) {
                                   // (Of x with too few dimensions the batch
                                   // would have enough.)
                                   return inputs[0].rank() >= inputs[1].rank();
                                 }});
});

// ---- Gradients --------------------------------------------------------------

// Sums and means over the last `dims` dimensions, which are kept.
struct LastDimensions {
  explicit LastDimensions(const Node& n)
      : axes(static_cast<size_t>(n.IntAttr("dims"))) {
    std::iota(axes.begin(), axes.end(), -static_cast<int32_t>(axes.size()));
  }
  Output Sum(Output v) const { return grad::SumAxes(v, axes, true); }
  Output Mean(Output v) const {
    return Build("Mean", {v, IntVector(axes)}, {{"keep_dims", true}});
  }
  std::vector<int32_t> axes;
};

Status LayerNormGradient(GradContext& c) {
  const Output x = c.input(0), mean = c.output(1), scale = c.output(2);
  Node* n =
      BuildNode("LayerNormGrad", {c.DyOrZeros(0), x, c.input(1), mean, scale},
                {{"dims", c.op->IntAttr("dims")}});
  if (n == nullptr) return OkStatus();
  Output dx(n, 0);
  // The moments are outputs too, for second derivatives.
  const Output dmean = c.dy[1], dscale = c.dy[2];
  if (dmean.valid() || dscale.valid()) {
    const DType t = grad::TypeOf(x);
    const Output share =
        Div(grad::Cast(grad::SizeOf(mean), t), grad::Cast(grad::SizeOf(x), t));
    if (dmean.valid()) dx = Add(dx, Mul(dmean, share));
    if (dscale.valid()) {
      const Output cubed = Mul(scale, grad::Square(scale));
      dx = Sub(dx, Mul(Mul(Mul(dscale, cubed), share), Sub(x, mean)));
    }
  }
  c.grads[0] = dx;
  c.grads[1] = Output(n, 1);
  c.grads[2] = Output(n, 2);
  return OkStatus();
}

// L = <a, dx> + <b, dgamma> + <c, dbeta> for the cotangents a, b and c: by
// hand, with n = (x - mean) * scale, g = dy * gamma, and means over a row:
// dx = scale * (g - mean(g) - n * mean(g * n)).
Status LayerNormGradGradient(GradContext& context) {
  const LastDimensions last(*context.op);
  const Output dy = context.input(0), x = context.input(1),
               gamma = context.input(2), mean = context.input(3),
               scale = context.input(4);
  const Output a = context.DyOrZeros(0), b = context.DyOrZeros(1),
               c = context.DyOrZeros(2);
  const Output off = Sub(x, mean);
  const Output n = Mul(off, scale);
  const Output g = Mul(dy, gamma);
  const Output along_a = last.Mean(Mul(a, n)), along_g = last.Mean(Mul(g, n));
  // Of g, and of n.
  const Output of_g = Mul(scale, Sub(Sub(a, last.Mean(a)), Mul(n, along_a)));
  const Output of_n =
      Sub(Mul(b, dy), Mul(scale, Add(Mul(a, along_g), Mul(g, along_a))));
  context.grads[0] = Add(Add(Mul(of_g, gamma), Mul(b, n)), c);
  context.grads[1] = Mul(of_n, scale);
  context.grads[2] = grad::SumToShape(Mul(of_g, dy), gamma, x);
  context.grads[3] = grad::Neg(last.Sum(Mul(of_n, scale)));
  context.grads[4] = last.Sum(
      Add(Mul(of_n, off), Mul(a, Sub(Sub(g, last.Mean(g)), Mul(n, along_g)))));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(LayerNorm)
    .Input("x: T")
    .Input("gamma: T")
    .Input("beta: T")
    .Output("y: T")
    .Output("mean: T")
    .Output("scale: T")
    .Attr("dims: int >= 1 = 1")
    .Attr("epsilon: float = 0.001")
    .Attr("T: {float, double}")
    .Family("nn")
    .Shape(LayerNormShape)
    .Kernel(CpuState<LayerNormKernel>(/*expensive=*/true))
    .Grad(LayerNormGradient)
    .Sample({{.shape = {2, 5}}, {.shape = {5}}, {.shape = {5}}},
            {{"epsilon", 0.1f}})
    .Sample({{.shape = {2, 3, 2}}, {.shape = {3, 2}}, {.shape = {3, 2}}},
            {{"dims", 2}, {"epsilon", 0.1f}})
    .Doc(
        "y = (x - mean) * scale * gamma + beta, with the mean over the last "
        "`dims` (1 to 8) dimensions of x, which are the shape of gamma and "
        "beta. `scale` is the reciprocal of the standard deviation there, the "
        "root of the sum of variance and `epsilon`.");

SLUICE_OP(LayerNormGrad)
    .Input("dy: T")
    .Input("x: T")
    .Input("gamma: T")
    .Input("mean: T")
    .Input("scale: T")
    .Output("dx: T")
    .Output("dgamma: T")
    .Output("dbeta: T")
    .Attr("dims: int >= 1 = 1")
    .Attr("T: {float, double}")
    .Family("nn")
    .Shape(LayerNormGradShape)
    .Kernel(CpuState<LayerNormGradKernel>(/*expensive=*/true))
    .Grad(LayerNormGradGradient)
    .Sample({{.shape = {3, 4}},
             {.shape = {3, 4}},
             {.shape = {4}},
             {.shape = {3, 1}},
             {.shape = {3, 1}, .low = 0.5, .high = 1.5}})
    .Sample({{.shape = {2, 2, 3}},
             {.shape = {2, 2, 3}},
             {.shape = {2, 3}},
             {.shape = {2, 1, 1}},
             {.shape = {2, 1, 1}, .low = 0.5, .high = 1.5}},
            {{"dims", 2}})
    .Doc(
        "The gradients of LayerNorm's inputs, given dy, that of y, and its "
        "results mean and scale.");

}  // namespace
}  // namespace sluice
