// Normalisation over batches (FusedBatchNorm and related ops).
#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/dnn/batch_norm.h"
#include "kernels/simd/binary.h"
#include "kernels/simd/cast.h"
#include "kernels/simd/reduce.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

using grad::Add;
using grad::Mul;
using grad::Neg;
using grad::Sub;
using simd::BinaryOp;
using simd::ReduceOp;

// The attributes of a node. Immutable.
struct NormAttrs {
  explicit NormAttrs(const Node& n)
      : epsilon(n.AttrOr<float>("epsilon", 1e-4f)),
        factor(n.AttrOr<float>("exponential_avg_factor", 1)),
        training(n.AttrOr<bool>("is_training", true)),
        channels_first(
            n.AttrOr<std::string>("data_format", "NHWC").starts_with("NC")) {}
  int channel(int rank) const { return channels_first ? 1 : rank - 1; }

  float epsilon, factor;
  bool training, channels_first;
};

// Arithmetic on an image viewed as [before, channels, after], in float. Lives
// for one kernel run.
class PerChannel {
 public:
  PerChannel(const Shape& s, int channel) : channels_(s.dim(channel)) {
    for (int d = 0; d < s.rank(); ++d)
      (d < channel ? dims_[0] : d > channel ? dims_[2] : dims_[1]) *= s.dim(d);
    const int64_t vector[] = {channels_, 1};
    broadcast_.Build({absl::MakeConstSpan(dims_), vector});
    const bool reduced[] = {true, false, true};
    plan_.Build(dims_, reduced);
  }
  int64_t channels() const { return channels_; }
  int64_t size() const { return dims_[0] * dims_[1] * dims_[2]; }
  // Elements of each channel.
  int64_t count() const { return dims_[0] * dims_[2]; }
  // Whether channels come last: then kernels/dnn/batch_norm.h can be used.
  bool is_rows() const { return dims_[2] == 1 && size() > 0; }
  dnn::NormShape rows() const { return {dims_[0], channels_}; }

  std::vector<float> Reduce(ReduceOp op, const float* x) const {
    std::vector<float> out(static_cast<size_t>(channels_));
    simd::Reduce(op, DType::kFloat, plan_, x, out.data());
    return out;
  }
  // out = op(x, v[channel]).
  void Apply(BinaryOp op, const float* x, const std::vector<float>& v,
             float* out) const {
    simd::RunBroadcast(simd::GetBinary(op, DType::kFloat), broadcast_, x,
                       v.data(), out);
  }
  // out = op(x, y), all of one shape.
  void Combine(BinaryOp op, const float* x, const float* y, float* out) const {
    simd::GetBinary(op, DType::kFloat)(x, y, out, size());
  }

 private:
  int64_t channels_;
  int64_t dims_[3] = {1, 1, 1};
  simd::Broadcast<2> broadcast_;
  simd::ReducePlan plan_;
};

// Input i as float: itself, or a copy.
Result<Tensor> AsFloat(KernelContext& ctx, int i) {
  const Tensor& t = ctx.input(i);
  if (t.dtype() == DType::kFloat) return t;
  SLUICE_ASSIGN_OR_RETURN(Tensor f, ctx.AllocateTemp(DType::kFloat, t.shape()));
  simd::GetCast(t.dtype(), DType::kFloat)(t.raw(), f.raw(), t.num_elements());
  return f;
}

// Sets output i to `values`, converted to its declared type.
Status SetOutput(KernelContext& ctx, int i, const float* values,
                 const Shape& shape) {
  const DType t = ctx.node().output_type(i);
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(i, t, shape));
  simd::GetCast(DType::kFloat, t)(values, ctx.output(i).raw(),
                                  shape.num_elements());
  return OkStatus();
}
Status SetVector(KernelContext& ctx, int i, const std::vector<float>& v) {
  return SetOutput(ctx, i, v.data(), Shape({static_cast<int64_t>(v.size())}));
}

Status RequireVector(KernelContext& ctx, int i, int64_t n) {
  const Shape& s = ctx.input(i).shape();
  if (s.rank() == 1 && s.dim(0) == n) return OkStatus();
  return InvalidArgument("input ", i, ": expected a vector of ", n,
                         " elements, one a channel, got shape ", s.ToString());
}

Status RequireImage(const Tensor& x) {
  if (x.rank() == 4 || x.rank() == 5) return OkStatus();
  return InvalidArgument("x: expected rank 4 or 5, got shape ",
                         x.shape().ToString());
}

std::vector<float> ToVector(const Tensor& t) { return t.ToVector<float>(); }

// scale / sqrt(variance + epsilon).
std::vector<float> Slope(const std::vector<float>& scale,
                         const std::vector<float>& variance, float epsilon) {
  std::vector<float> out(scale.size());
  for (size_t c = 0; c < out.size(); ++c)
    out[c] = scale[c] / std::sqrt(variance[c] + epsilon);
  return out;
}

// ---- Forward ----------------------------------------------------------------

Status RunBatchNorm(KernelContext& ctx) {
  const NormAttrs& a = ctx.state<NormAttrs>();
  SLUICE_RETURN_IF_ERROR(RequireImage(ctx.input(0)));
  const Shape shape = ctx.input(0).shape();
  const PerChannel pc(shape, a.channel(shape.rank()));
  SLUICE_RETURN_IF_ERROR(RequireVector(ctx, 1, pc.channels()));
  SLUICE_RETURN_IF_ERROR(RequireVector(ctx, 2, pc.channels()));
  const bool has_average = !a.training || a.factor != 1;
  for (int i = 3; has_average && i <= 4; ++i)
    SLUICE_RETURN_IF_ERROR(RequireVector(ctx, i, pc.channels()));
  SLUICE_ASSIGN_OR_RETURN(const Tensor x, AsFloat(ctx, 0));
  SLUICE_ASSIGN_OR_RETURN(const Tensor scale, AsFloat(ctx, 1));
  SLUICE_ASSIGN_OR_RETURN(const Tensor offset, AsFloat(ctx, 2));
  SLUICE_ASSIGN_OR_RETURN(const Tensor old_mean, AsFloat(ctx, 3));
  SLUICE_ASSIGN_OR_RETURN(const Tensor old_variance, AsFloat(ctx, 4));
  SLUICE_ASSIGN_OR_RETURN(Tensor y, ctx.AllocateTemp(DType::kFloat, shape));
  float* py = y.raw<float>();
  const float* px = x.raw<float>();

  std::vector<float> mean, variance;
  if (pc.is_rows()) {
    if (a.training) {
      mean.resize(static_cast<size_t>(pc.channels()));
      variance.resize(mean.size());
      dnn::ChannelMoments(pc.rows(), px, mean.data(), variance.data());
    } else {
      mean = ToVector(old_mean);
      variance = ToVector(old_variance);
    }
    dnn::Normalize(pc.rows(), px, mean.data(),
                   Slope(ToVector(scale), variance, a.epsilon).data(),
                   offset.raw<float>(), py);
  } else if (a.training) {
    mean = pc.Reduce(ReduceOp::kMean, px);
    pc.Apply(BinaryOp::kSub, px, mean, py);
    variance = pc.Reduce(ReduceOp::kSumSquares, py);
    for (float& v : variance) v /= static_cast<float>(pc.count());
  } else {
    mean = ToVector(old_mean);
    variance = ToVector(old_variance);
    pc.Apply(BinaryOp::kSub, px, mean, py);
  }
  if (!pc.is_rows()) {
    pc.Apply(BinaryOp::kMul, py, Slope(ToVector(scale), variance, a.epsilon),
             py);
    pc.Apply(BinaryOp::kAdd, py, ToVector(offset), py);
  }
  if (ctx.node().output_type(0) == DType::kFloat)
    ctx.set_output(0, std::move(y));
  else
    SLUICE_RETURN_IF_ERROR(SetOutput(ctx, 0, py, shape));

  // The running averages use the unbiased variance, mixed with the old one.
  std::vector<float> new_mean = mean, new_variance = variance;
  if (a.training) {
    const float n = static_cast<float>(pc.count());
    for (size_t c = 0; c < mean.size(); ++c) {
      new_variance[c] *= n / std::max(n - 1, 1.0f);
      if (a.factor == 1) continue;
      new_mean[c] =
          (1 - a.factor) * old_mean.raw<float>()[c] + a.factor * new_mean[c];
      new_variance[c] = (1 - a.factor) * old_variance.raw<float>()[c] +
                        a.factor * new_variance[c];
    }
  }
  SLUICE_RETURN_IF_ERROR(SetVector(ctx, 1, new_mean));
  SLUICE_RETURN_IF_ERROR(SetVector(ctx, 2, new_variance));
  SLUICE_RETURN_IF_ERROR(SetVector(ctx, 3, mean));
  SLUICE_RETURN_IF_ERROR(SetVector(ctx, 4, variance));
  if (ctx.num_outputs() < 6) return OkStatus();
  const float nothing = 0;
  return SetOutput(ctx, 5, &nothing, Shape());
}

// ---- Backward ---------------------------------------------------------------

Status RunBatchNormGrad(KernelContext& ctx) {
  const NormAttrs& a = ctx.state<NormAttrs>();
  SLUICE_RETURN_IF_ERROR(RequireImage(ctx.input(1)));
  const Shape shape = ctx.input(1).shape();
  if (!(ctx.input(0).shape() == shape))
    return InvalidArgument("y_backprop: expected the shape of x ",
                           shape.ToString(), ", got ",
                           ctx.input(0).shape().ToString());
  const PerChannel pc(shape, a.channel(shape.rank()));
  for (int i = 2; i <= 4; ++i)
    SLUICE_RETURN_IF_ERROR(RequireVector(ctx, i, pc.channels()));
  SLUICE_ASSIGN_OR_RETURN(const Tensor dy, AsFloat(ctx, 0));
  SLUICE_ASSIGN_OR_RETURN(const Tensor x, AsFloat(ctx, 1));
  SLUICE_ASSIGN_OR_RETURN(const Tensor scale, AsFloat(ctx, 2));
  SLUICE_ASSIGN_OR_RETURN(const Tensor mean, AsFloat(ctx, 3));
  SLUICE_ASSIGN_OR_RETURN(const Tensor variance, AsFloat(ctx, 4));
  SLUICE_ASSIGN_OR_RETURN(Tensor dx, ctx.AllocateTemp(DType::kFloat, shape));
  const float* pdy = dy.raw<float>();
  float* pdx = dx.raw<float>();
  const auto channels = static_cast<size_t>(pc.channels());
  const std::vector<float> slope =
      Slope(ToVector(scale), ToVector(variance), a.epsilon);

  // dx = slope * (dy - mean(dy) - centred * mean(dy * centred) / variance).
  std::vector<float> d_offset(channels), d_scale(channels);
  // The contributions of the means, in training: a constant for each element,
  // and a factor of its distance from the mean.
  std::vector<float> level(channels), along(channels);
  const auto find_means = [&] {
    if (!a.training) return;
    const float n = static_cast<float>(pc.count());
    for (size_t c = 0; c < channels; ++c) {
      along[c] = d_scale[c] / n / (variance.raw<float>()[c] + a.epsilon);
      level[c] = d_offset[c] / n;
    }
  };
  if (pc.is_rows()) {
    dnn::NormalizeGradSums(pc.rows(), pdy, x.raw<float>(), mean.raw<float>(),
                           d_offset.data(), d_scale.data());
    find_means();
    if (a.training) {
      dnn::NormalizeGrad(pc.rows(), pdy, x.raw<float>(), mean.raw<float>(),
                         slope.data(), level.data(), along.data(), pdx);
    } else {  // (x, which may be infinite, is not needed: both are zero.)
      dnn::Normalize(pc.rows(), pdy, level.data(), slope.data(), along.data(),
                     pdx);
    }
  } else {
    SLUICE_ASSIGN_OR_RETURN(Tensor t, ctx.AllocateTemp(DType::kFloat, shape));
    float* pt = t.raw<float>();
    pc.Apply(BinaryOp::kSub, x.raw<float>(), ToVector(mean), pdx);
    pc.Combine(BinaryOp::kMul, pdy, pdx, pt);
    d_offset = pc.Reduce(ReduceOp::kSum, pdy);
    d_scale = pc.Reduce(ReduceOp::kSum, pt);
    find_means();
    if (a.training) {
      pc.Apply(BinaryOp::kMul, pdx, along, pdx);
      pc.Combine(BinaryOp::kSub, pdy, pdx, pdx);
      pc.Apply(BinaryOp::kSub, pdx, level, pdx);
    }
    pc.Apply(BinaryOp::kMul, a.training ? pdx : pdy, slope, pdx);
  }
  // (For an empty batch the variance is NaN and the sum zero.)
  for (size_t c = 0; pc.count() > 0 && c < d_scale.size(); ++c)
    d_scale[c] /= std::sqrt(variance.raw<float>()[c] + a.epsilon);
  if (ctx.node().output_type(0) == DType::kFloat)
    ctx.set_output(0, std::move(dx));
  else
    SLUICE_RETURN_IF_ERROR(SetOutput(ctx, 0, pdx, shape));
  SLUICE_RETURN_IF_ERROR(SetVector(ctx, 1, d_scale));
  SLUICE_RETURN_IF_ERROR(SetVector(ctx, 2, d_offset));
  SLUICE_RETURN_IF_ERROR(SetVector(ctx, 3, {}));
  return SetVector(ctx, 4, {});
}

KernelMaker MakeNorm(Status (*run)(KernelContext&)) {
  return [run](const Node& n, Kernel* k) {
    k->state = std::make_shared<NormAttrs>(n);
    k->run = run;
    k->expensive = true;
    return OkStatus();
  };
}

// ---- Shapes and gradients ---------------------------------------------------

Status BatchNormShape(ShapeContext& c) {
  PartialShape x = c.input(0);
  PartialShape channels({-1});
  if (x.rank_known()) {
    if (x.rank() != 4 && x.rank() != 5)
      return InvalidArgument("x: expected rank 4 or 5, got ", x.ToString());
    const int at = NormAttrs(c.node()).channel(x.rank());
    int64_t n = x.dim(at);
    for (int i = 1; i <= 2; ++i) {
      SLUICE_ASSIGN_OR_RETURN(const PartialShape v, c.WithRank(i, 1));
      SLUICE_ASSIGN_OR_RETURN(n, MergeDim(n, v.dim(0)));
    }
    x.set_dim(at, n);
    channels.set_dim(0, n);
  }
  c.set_output(0, x);
  for (int i = 1; i <= 4; ++i) c.set_output(i, channels);
  if (c.num_outputs() == 6) c.set_output(5, PartialShape::Scalar());
  return OkStatus();
}

Status BatchNormGradShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape x,
                          c.input(0).MergeWith(c.input(1)));
  const int64_t n = x.rank_known() && x.rank() >= 4
                        ? x.dim(NormAttrs(c.node()).channel(x.rank()))
                        : -1;
  c.set_output(0, x);
  c.set_output(1, PartialShape({n}));
  c.set_output(2, PartialShape({n}));
  c.set_output(3, PartialShape({0}));
  c.set_output(4, PartialShape({0}));
  return OkStatus();
}

Status BatchNormGradient(GradContext& c) {
  if (!c.dy[0].valid()) return OkStatus();  // The moments have no gradient.
  const bool training = c.op->AttrOr<bool>("is_training", true);
  const std::string& name = c.op->op_name();
  const std::string version = name.substr(std::string("FusedBatchNorm").size());
  std::vector<Output> inputs = {c.dy[0], c.input(0), c.input(1),
                                training ? Output(c.op, 3) : c.input(3),
                                training ? Output(c.op, 4) : c.input(4)};
  if (version == "V3") inputs.push_back(Output(c.op, 5));
  AttrMap attrs;
  for (const char* a : {"epsilon", "data_format", "is_training"})
    if (const AttrValue* v = c.op->FindAttr(a)) attrs[a] = *v;
  Node* d = BuildNode("FusedBatchNormGrad" + version, inputs, attrs);
  if (d == nullptr) return OkStatus();
  for (int i = 0; i < 3; ++i) c.grads[static_cast<size_t>(i)] = Output(d, i);
  return OkStatus();
}

// Builds nodes that operate on the channels of an image: per-channel values
// have the rank of the image, or are vectors that broadcast to it. Lives for
// one call of a gradient function.
class ChannelNodes {
 public:
  ChannelNodes(const Node& n, Output x)
      : channels_first_(NormAttrs(n).channels_first) {
    const int rank =
        x.shape().rank_known()
            ? x.shape().rank()
            : static_cast<int>(
                  n.AttrOr<std::string>("data_format", "NHWC").size());
    for (int d = 0; d < rank; ++d)
      if (d != NormAttrs(n).channel(rank)) axes_.push_back(d);
    wide_.assign(static_cast<size_t>(rank), 1);
    wide_[static_cast<size_t>(NormAttrs(n).channel(rank))] = -1;
  }
  // A vector that broadcasts to images, in float.
  Output Wide(Output vector) const {
    const Output v = grad::Cast(vector, DType::kFloat);
    return channels_first_ ? grad::ReshapeTo(v, IntVector(wide_)) : v;
  }
  Output Mean(Output x) const {
    return Build("Mean", {x, IntVector(axes_)}, {{"keep_dims", true}});
  }
  Output Centred(Output x) const { return Sub(x, Mean(x)); }
  Output Sum(Output x) const { return grad::SumAxes(x, axes_); }  // A vector.

 private:
  bool channels_first_;
  std::vector<int32_t> axes_, wide_;
};

// The sum of the valid ones.
Output Plus(Output a, Output b) {
  return !a.valid() ? b : !b.valid() ? a : Add(a, b);
}

// The gradient of the gradient, of ops that have gradients themselves. With
// x' = x - mean, r = 1 / sqrt(variance + epsilon) and, in training,
//   project(v) = r * (v' - r^2 * mean(v x') * x')       (else r * v)
// the op gives dx = scale * project(dy), d_scale = r * sum(dy x') and
// d_offset = sum(dy). In training the moments are functions of x: they are
// computed again instead of taken from the inputs, which are only their values.
Status BatchNormGradGradient(GradContext& c) {
  const bool training = c.op->AttrOr<bool>("is_training", true);
  const auto as_float = [](Output o) { return grad::Cast(o, DType::kFloat); };
  const Output dy = as_float(c.input(0)), x = as_float(c.input(1));
  const ChannelNodes channels(*c.op, x);
  const Output scale = channels.Wide(c.input(2));
  const Output centred =
      training ? channels.Centred(x) : Sub(x, channels.Wide(c.input(3)));
  const Output variance = training ? channels.Mean(grad::Square(centred))
                                   : channels.Wide(c.input(4));
  const Output r =
      Build("Rsqrt",
            {Add(variance,
                 grad::Number(variance, static_cast<double>(c.op->AttrOr<float>(
                                            "epsilon", 1e-4f))))});
  // mean(v x'): the correlation of v with x.
  const auto along = [&](Output v) { return channels.Mean(Mul(v, centred)); };
  const auto project = [&](Output v) {
    if (!training) return Mul(r, v);
    return Mul(r, Sub(channels.Centred(v),
                      Mul(Mul(grad::Square(r), along(v)), centred)));
  };

  Output d_dy, d_x;
  if (c.dy[0].valid()) {  // Through dx.
    const Output u = as_float(c.dy[0]);
    const Output projected = project(u);
    d_dy = Mul(scale, projected);
    c.grads[2] =
        grad::Cast(channels.Sum(Mul(projected, dy)), c.input(2).dtype());
    if (training) {
      const Output u_along = along(u), dy_along = along(dy);
      const Output u_centred = channels.Centred(u);
      const Output both = Mul(grad::Square(r), Mul(u_along, dy_along));
      const Output level = Sub(channels.Mean(Mul(u_centred, dy)),
                               Mul(grad::Number(both, 3), both));
      d_x = Neg(Mul(
          Mul(scale, Mul(r, grad::Square(r))),
          Add(Add(Mul(u_along, channels.Centred(dy)), Mul(dy_along, u_centred)),
              Mul(level, centred))));
    }
  }
  if (c.dy[1].valid()) {  // Through d_scale.
    const Output p = channels.Wide(c.dy[1]);
    d_dy = Plus(d_dy, Mul(Mul(p, r), centred));
    d_x = Plus(d_x, Mul(p, project(dy)));
  }
  if (c.dy[2].valid())  // Through d_offset.
    d_dy = Plus(d_dy, Build("BroadcastTo",
                            {channels.Wide(c.dy[2]), grad::ShapeOf(dy)}));
  if (d_dy.valid()) c.grads[0] = grad::Cast(d_dy, c.input(0).dtype());
  if (d_x.valid()) c.grads[1] = grad::Cast(d_x, c.input(1).dtype());
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

struct Version {
  const char *forward, *backward, *type, *vector_type;
  const char *types, *vector_types, *formats;
  bool reserve;
};

constexpr Version kV1 = {"FusedBatchNorm",
                         "FusedBatchNormGrad",
                         "T",
                         "T",
                         "T: {float}",
                         nullptr,
                         "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
                         false};
constexpr Version kV2 = {"FusedBatchNormV2",
                         "FusedBatchNormGradV2",
                         "T",
                         "U",
                         "T: {half, bfloat16, float}",
                         "U: {float}",
                         "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
                         false};
constexpr Version kV3 = {
    "FusedBatchNormV3",
    "FusedBatchNormGradV3",
    "T",
    "U",
    "T: {half, bfloat16, float}",
    "U: {bfloat16, float}",
    "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'",
    true};

// Specs must stay valid until the registry reads them.
const char* Keep(std::string s) {
  static auto* const kept = new std::deque<std::string>;
  kept->push_back(std::move(s));
  return kept->back().c_str();
}

OpDefBuilder ForwardOp(const Version& v) {
  OpDefBuilder b(v.forward);
  const std::string u = std::string(": ") + v.vector_type;
  b.Input("x: T");
  for (const char* name : {"scale", "offset", "mean", "variance"})
    b.Input(Keep(name + u));
  b.Output("y: T");
  for (const char* name :
       {"batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"})
    b.Output(Keep(name + u));
  if (v.reserve) b.Output(Keep("reserve_space_3" + u));
  b.Attr(v.types);
  if (v.vector_types != nullptr) b.Attr(v.vector_types);
  b.Attr("epsilon: float = 0.0001")
      .Attr("exponential_avg_factor: float = 1.0")
      .Attr(v.formats)
      .Attr("is_training: bool = true")
      .Kind(OpKind::kBatchNorm)
      .Family("nn")
      .Shape(BatchNormShape)
      .Kernel(MakeNorm(RunBatchNorm))
      .Grad(BatchNormGradient)
      .Sample({{.shape = {2, 2, 2, 3}, .dtype = DType::kFloat},
               {.shape = {3}, .low = 0.5, .high = 2, .dtype = DType::kFloat},
               {.shape = {3}, .dtype = DType::kFloat},
               {.shape = {0}, .dtype = DType::kFloat},
               {.shape = {0}, .dtype = DType::kFloat}})
      .Sample({{.shape = {2, 2, 2, 3}, .dtype = DType::kFloat},
               {.shape = {3}, .low = 0.5, .high = 2, .dtype = DType::kFloat},
               {.shape = {3}, .dtype = DType::kFloat},
               {.shape = {3}, .dtype = DType::kFloat},
               {.shape = {3}, .low = 0.5, .high = 2, .dtype = DType::kFloat}},
              {{"is_training", false}})
      .Doc(
          "Normalises each channel to mean 0 and variance 1 over the batch "
          "(or with the given moments), then scales and shifts it.");
  return b;
}

OpDefBuilder BackwardOp(const Version& v) {
  OpDefBuilder b(v.backward);
  const std::string u = std::string(": ") + v.vector_type;
  b.Input("y_backprop: T")
      .Input("x: T")
      .Input(v.vector_types == nullptr ? "scale: T" : "scale: float")
      .Input(Keep("reserve_space_1" + u))
      .Input(Keep("reserve_space_2" + u));
  if (v.reserve) b.Input(Keep("reserve_space_3" + u));
  b.Output("x_backprop: T")
      .Output(Keep("scale_backprop" + u))
      .Output(Keep("offset_backprop" + u))
      .Output(Keep((v.reserve ? "reserve_space_4" : "reserve_space_3") + u))
      .Output(Keep((v.reserve ? "reserve_space_5" : "reserve_space_4") + u))
      .Attr(v.types);
  if (v.vector_types != nullptr) b.Attr(v.vector_types);
  std::vector<SampleInput> sample = {
      {.shape = {2, 2, 2, 3}, .dtype = DType::kFloat},
      {.shape = {2, 2, 2, 3}, .dtype = DType::kFloat},
      {.shape = {3}, .low = 0.5, .high = 2, .dtype = DType::kFloat},
      {.shape = {3}, .dtype = DType::kFloat},
      {.shape = {3}, .low = 0.5, .high = 2, .dtype = DType::kFloat}};
  if (v.reserve) sample.push_back({.dtype = DType::kFloat});
  b.Attr("epsilon: float = 0.0001")
      .Attr(v.formats)
      .Attr("is_training: bool = true")
      .Family("nn")
      .Shape(BatchNormGradShape)
      .Kernel(MakeNorm(RunBatchNormGrad))
      .Grad(BatchNormGradGradient)
      .Sample(sample)
      .Doc("The gradient of FusedBatchNorm.");
  return b;
}

const OpRegistrar kFused[] = {ForwardOp(kV1),  ForwardOp(kV2),
                              ForwardOp(kV3),  BackwardOp(kV1),
                              BackwardOp(kV2), BackwardOp(kV3)};

}  // namespace
}  // namespace sluice
