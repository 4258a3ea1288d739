// Normalisation without trained moments: local response normalisation over
// neighbouring channels, and the deprecated BatchNormWithGlobalNormalization.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "exec/batching/batch_form.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/simd/binary.h"
#include "kernels/simd/unary.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

using grad::Add;
using grad::Mul;
using grad::Neg;
using grad::Number;
using grad::Sub;

// ---- Local response normalisation -------------------------------------------

// y = x / norm^beta, where norm = bias + alpha * the sum of the squares of the
// channels at most `radius` away. Immutable.
struct LrnAttrs {
  explicit LrnAttrs(const Node& n)
      : radius(n.IntAttr("depth_radius")),
        bias(n.AttrOr<float>("bias", 1)),
        alpha(n.AttrOr<float>("alpha", 1)),
        beta(n.AttrOr<float>("beta", 0.5f)) {}

  // norm[c] for the `depth` channels x of one pixel; `squares` is for depth
  // numbers. Each sum is made in the order of the channels, all of them at
  // once.
  template <typename T>
  void Norm(const T* x, int64_t depth, float* squares, float* norm) const {
    for (int64_t c = 0; c < depth; ++c) {
      squares[c] = static_cast<float>(x[c]) * static_cast<float>(x[c]);
      norm[c] = 0;
    }
    const int64_t most = std::min(radius, depth - 1);
    for (int64_t k = -most; k <= most; ++k) {
      const int64_t end = std::min(depth, depth - k);
#pragma omp simd
      for (int64_t c = std::max<int64_t>(0, -k); c < end; ++c)
        norm[c] += squares[c + k];
    }
    for (int64_t c = 0; c < depth; ++c) norm[c] = bias + alpha * norm[c];
  }
  // norm[c]^-beta in place.
  void Invert(float* norm, int64_t depth) const {
    static const simd::UnaryKernel rsqrt =
        simd::GetUnary(simd::UnaryOp::kRsqrt, DType::kFloat);
    static const simd::BinaryKernel pow =
        simd::GetBinary(simd::BinaryOp::kPow, DType::kFloat);
    const float power = -beta;
    if (beta == 0.5f)
      rsqrt.fn(norm, norm, depth);
    else
      pow.fn(simd::Operands::kVectorScalar, norm, &power, norm, depth);
  }
  int64_t First(int64_t c) const { return std::max<int64_t>(0, c - radius); }
  int64_t Last(int64_t c, int64_t depth) const {
    return radius >= depth - c ? depth : c + radius + 1;
  }

  Status Check(const Tensor& x) const;

  int64_t radius;
  float bias, alpha, beta;
};

Status RequireRank4(const Tensor& x) {
  if (x.rank() == 4) return OkStatus();
  return InvalidArgument("input: expected rank 4, got shape ",
                         x.shape().ToString());
}

Status LrnAttrs::Check(const Tensor& x) const {
  if (radius < 0 || radius > std::numeric_limits<int32_t>::max())
    return InvalidArgument("depth_radius: expected a value in [0, 2^31), got ",
                           radius);
  return RequireRank4(x);
}

// The minimum number of pixels per thread.
int64_t Grain(int64_t depth) {
  return std::max<int64_t>(1, 4096 / std::max<int64_t>(1, depth));
}

template <typename T>
struct Lrn : LrnAttrs {
  using LrnAttrs::LrnAttrs;
  Status Run(KernelContext& ctx) const {
    const Tensor& x = ctx.input(0);
    SLUICE_RETURN_IF_ERROR(Check(x));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, x.dtype(), x.shape()));
    if (x.num_elements() == 0) return OkStatus();
    const int64_t depth = x.dim(3);
    const T* in = x.raw<T>();
    T* out = ctx.output(0).template raw<T>();
    ParallelFor(x.num_elements() / depth, Grain(depth),
                [&](int64_t begin, int64_t end) {
                  std::vector<float> norm(static_cast<size_t>(depth));
                  std::vector<float> squares(norm.size());
                  for (int64_t p = begin; p < end; ++p) {
                    const T* px = in + p * depth;
                    Norm(px, depth, squares.data(), norm.data());
                    Invert(norm.data(), depth);
                    for (int64_t c = 0; c < depth; ++c)
                      out[p * depth + c] = T(static_cast<float>(px[c]) *
                                             norm[static_cast<size_t>(c)]);
                  }
                });
    return OkStatus();
  }
};

template <typename T>
struct LrnGrad : LrnAttrs {
  using LrnAttrs::LrnAttrs;
  Status Run(KernelContext& ctx) const {
    const Tensor& dy = ctx.input(0);
    const Tensor& x = ctx.input(1);
    const Tensor& y = ctx.input(2);
    SLUICE_RETURN_IF_ERROR(Check(x));
    if (!(dy.shape() == x.shape()) || !(y.shape() == x.shape()))
      return InvalidArgument(
          "input_grads and output_image: expected the shape of input_image ",
          x.shape().ToString(), ", got ", dy.shape().ToString(), " and ",
          y.shape().ToString());
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, x.dtype(), x.shape()));
    if (x.num_elements() == 0) return OkStatus();
    const int64_t depth = x.dim(3);
    const T *pdy = dy.raw<T>(), *px = x.raw<T>(), *py = y.raw<T>();
    T* out = ctx.output(0).template raw<T>();
    ParallelFor(x.num_elements() / depth, Grain(depth),
                [&](int64_t begin, int64_t end) {
                  for (int64_t p = begin; p < end; ++p)
                    Pixel(pdy + p * depth, px + p * depth, py + p * depth,
                          depth, out + p * depth);
                });
    return OkStatus();
  }

  void Pixel(const T* dy, const T* x, const T* y, int64_t depth, T* out) const {
    std::vector<float> norm(static_cast<size_t>(depth)), dx(norm.size());
    // (dx serves as memory for the squares before it is summed up.)
    Norm(x, depth, dx.data(), norm.data());
    std::vector<float> power = norm;
    Invert(power.data(), depth);
    std::fill(dx.begin(), dx.end(), 0.0f);
    for (int64_t c = 0; c < depth; ++c) {
      const float n = norm[static_cast<size_t>(c)];
      const float g = static_cast<float>(dy[c]);
      const float through_norm =
          -2 * alpha * beta * static_cast<float>(y[c]) / n * g;
      for (int64_t j = First(c); j < Last(c, depth); ++j)
        dx[static_cast<size_t>(j)] += through_norm * static_cast<float>(x[j]);
      dx[static_cast<size_t>(c)] += power[static_cast<size_t>(c)] * g;
    }
    for (int64_t c = 0; c < depth; ++c) out[c] = T(dx[static_cast<size_t>(c)]);
  }
};

Status LrnGradient(GradContext& c) {
  AttrMap attrs;
  for (const char* a : {"depth_radius", "bias", "alpha", "beta"})
    if (const AttrValue* v = c.op->FindAttr(a)) attrs[a] = *v;
  c.grads[0] = Build("LRNGrad", {c.dy[0], c.input(0), c.output(0)}, attrs);
  return OkStatus();
}

Status LrnShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape s, c.WithRank(0, 4));
  for (int i = 1; i < c.num_inputs(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(s, s.MergeWith(c.input(i)));
  }
  c.set_output(0, std::move(s));
  return OkStatus();
}

SLUICE_OP(LRN)
    .Input("input: T")
    .Output("output: T")
    .Attr("depth_radius: int = 5")
    .Attr("bias: float = 1.0")
    .Attr("alpha: float = 1.0")
    .Attr("beta: float = 0.5")
    .Attr("T: {half, bfloat16, float} = DT_FLOAT")
    .Family("nn")
    .Shape(LrnShape)
    .Kernel(CpuStateFor<Lrn, float, half, bfloat16>("T", /*expensive=*/true))
    .Grad(LrnGradient)
    .Sample({{.shape = {1, 2, 2, 4}}}, {{"depth_radius", 1}})
    .Doc(
        "Divides each channel by a norm of the neighbouring channels (local "
        "response normalisation).");

SLUICE_OP(LRNGrad)
    .Input("input_grads: T")
    .Input("input_image: T")
    .Input("output_image: T")
    .Output("output: T")
    .Attr("depth_radius: int = 5")
    .Attr("bias: float = 1.0")
    .Attr("alpha: float = 1.0")
    .Attr("beta: float = 0.5")
    .Attr("T: {half, bfloat16, float} = DT_FLOAT")
    .Family("nn")
    .Shape(LrnShape)
    .Kernel(CpuStateFor<LrnGrad, float, half, bfloat16>("T",
                                                        /*expensive=*/true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {1, 2, 2, 4}},
             {.shape = {1, 2, 2, 4}},
             {.shape = {1, 2, 2, 4}}},
            {{"depth_radius", 1}})
    .Doc("The gradient of LRN.");

// ---- BatchNormWithGlobalNormalization ---------------------------------------

template <typename T>
struct GlobalNorm {
  explicit GlobalNorm(const Node& n)
      : epsilon(n.AttrOr<float>("variance_epsilon", 0)),
        scale(n.BoolAttr("scale_after_normalization")) {}

  Status Run(KernelContext& ctx) const {
    using C = ComputeType<T>;
    const Tensor& t = ctx.input(0);
    SLUICE_RETURN_IF_ERROR(RequireRank4(t));
    const int64_t depth = t.dim(3);
    for (int i = 1; i <= 4; ++i)
      if (ctx.input(i).rank() != 1 || ctx.input(i).dim(0) != depth)
        return InvalidArgument("input ", i, ": expected a vector of ", depth,
                               " elements, got shape ",
                               ctx.input(i).shape().ToString());
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, t.dtype(), t.shape()));
    const auto at = [&](int i, int64_t c) {
      return static_cast<C>(ctx.input(i).raw<T>()[c]);
    };
    std::vector<C> slope(static_cast<size_t>(depth));
    for (int64_t c = 0; c < depth; ++c)
      slope[static_cast<size_t>(c)] =
          (scale ? at(4, c) : C(1)) /
          std::sqrt(at(2, c) + static_cast<C>(epsilon));
    T* out = ctx.output(0).template raw<T>();
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      const int64_t c = i % depth;
      out[i] =
          T((at(0, i) - at(1, c)) * slope[static_cast<size_t>(c)] + at(3, c));
    }
    return OkStatus();
  }

  float epsilon;
  bool scale;
};

// result = (t - m) * (gamma or 1) / sqrt(v + epsilon) + beta.
Status GlobalNormGrad(GradContext& c) {
  const Output t = c.input(0), m = c.input(1), v = c.input(2);
  const Output gamma = c.input(4), dy = c.dy[0];
  if (!t.valid() || !dy.valid()) return OkStatus();
  const bool scale = c.op->BoolAttr("scale_after_normalization");
  const Output rsqrt = Build(
      "Rsqrt", {Add(v, Number(v, c.op->AttrOr<float>("variance_epsilon", 0)))});
  const Output slope = scale ? Mul(rsqrt, gamma) : rsqrt;
  const Output centred = Sub(t, m);
  const auto over_pixels = [](Output x) { return grad::SumAxes(x, {0, 1, 2}); };
  const Output d_slope = over_pixels(Mul(dy, centred));
  const Output d_level = over_pixels(dy);
  c.grads[0] = Mul(dy, slope);
  c.grads[1] = Neg(Mul(d_level, slope));
  const Output cubed = Mul(Mul(rsqrt, rsqrt), Number(rsqrt, -0.5));
  c.grads[2] = Mul(Mul(d_slope, slope), cubed);
  c.grads[3] = d_level;
  c.grads[4] = scale ? Mul(d_slope, rsqrt) : grad::ZerosLike(gamma);
  return OkStatus();
}

Status GlobalNormShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape t, c.WithRank(0, 4));
  int64_t depth = t.dim(3);
  for (int i = 1; i <= 4; ++i) {
    SLUICE_ASSIGN_OR_RETURN(const PartialShape v, c.WithRank(i, 1));
    SLUICE_ASSIGN_OR_RETURN(depth, MergeDim(depth, v.dim(0)));
  }
  t.set_dim(3, depth);
  c.set_output(0, std::move(t));
  return OkStatus();
}

SLUICE_OP(BatchNormWithGlobalNormalization)
    .Input("t: T")
    .Input("m: T")
    .Input("v: T")
    .Input("beta: T")
    .Input("gamma: T")
    .Output("result: T")
    .Attr(
        "T: {float, double, int32, uint8, int16, int8, complex64, int64, "
        "qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, complex128, "
        "half, uint32, uint64}")
    .Attr("variance_epsilon: float")
    .Attr("scale_after_normalization: bool")
    .Family("nn")
    .Shape(GlobalNormShape)
    .Kernel(CpuStateFor<GlobalNorm, float, double, half, bfloat16>(
        "T", /*expensive=*/true))
    .Grad(GlobalNormGrad)
    .Sample({{.shape = {1, 2, 2, 3}},
             {.shape = {3}},
             {.shape = {3}, .low = 0.5, .high = 2},
             {.shape = {3}},
             {.shape = {3}}},
            {{"variance_epsilon", 0.01f}, {"scale_after_normalization", true}})
    .Doc("Normalises the last dimension with the given moments.");

const BatchFormRegistrar lrn_batch("LRN", RowByRow<>);

}  // namespace
}  // namespace sluice
