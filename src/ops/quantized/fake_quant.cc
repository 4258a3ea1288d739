// Simulated quantisation: rounds floats to the values of a few bits within a
// range, so that networks are trained with the rounding, and its gradients.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/simd/quantize.h"
#include "kernels/simd/unary.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

// A range shifted so that zero is exactly representable.
struct Nudged {
  float min, max, scale;
  float steps;  // 1 / scale, rounded once.
};

// The attributes of all of these ops. Immutable.
struct FakeQuantizer {
  int64_t bits = 8;
  bool narrow = false;

  static Result<FakeQuantizer> Read(const Node& n) {
    FakeQuantizer f;
    f.bits = n.AttrOr<int64_t>("num_bits", 8);
    f.narrow = n.BoolAttr("narrow_range");
    if (f.bits < 2 || f.bits > 16)
      return InvalidArgument("num_bits: expected a value in [2, 16], got ",
                             f.bits);
    return f;
  }

  Nudged Nudge(float min, float max) const {
    const float low = narrow ? 1.0f : 0.0f;
    const float high = static_cast<float>((1 << bits) - 1);
    const float scale = (max - min) / (high - low);
    const float zero = low - min / scale;
    const float nudged = !(zero > low) ? low
                         : zero > high ? high
                                       : std::round(zero);
    return {(low - nudged) * scale, (high - nudged) * scale, scale,
            (high - low) / (max - min)};
  }

  // n elements, `step` apart. The rounding of ties depends on the arithmetic:
  // TensorFlow divides by the step size if the range is given by two inputs,
  // and multiplies by its inverse for attributes and channels.
  template <bool kDivide>
  void Round(float min, float max, const float* in, int64_t n, int64_t step,
             float* out) const {
    if (min == 0 && max == 0) {
      for (int64_t i = 0; i < n; ++i) out[i * step] = 0;
      return;
    }
    const Nudged r = Nudge(min, max);
    const auto count = [&](float v) {
      return kDivide ? v / r.scale : v * r.steps;
    };
    const float zero = std::floor(count(-r.min) + 0.5f);
    if (step == 1) {
      // By vectors, with the same arithmetic.
      static const simd::UnaryKernel floor =
          simd::GetUnary(simd::UnaryOp::kFloor, DType::kFloat);
      constexpr int64_t kBlock = 512;
      float steps[kBlock];
      for (int64_t i = 0; i < n; i += kBlock) {
        const int64_t m = std::min(kBlock, n - i);
#pragma omp simd
        for (int64_t j = 0; j < m; ++j) {
          const float v = std::max(std::min(in[i + j], r.max), r.min) - r.min;
          steps[j] = count(v) - zero + 0.5f;
        }
        floor(steps, steps, m);
#pragma omp simd
        for (int64_t j = 0; j < m; ++j) out[i + j] = steps[j] * r.scale;
      }
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      const float v = std::max(std::min(in[i * step], r.max), r.min) - r.min;
      out[i * step] = std::floor(count(v) - zero + 0.5f) * r.scale;
    }
  }

  // The gradients of Round: dy within the range; the gradients of values below
  // and above are added to those of the ends.
  void Back(float min, float max, const float* dy, const float* in, int64_t n,
            int64_t step, float* dx, float* d_min, float* d_max) const {
    if (min == 0 && max == 0) {
      for (int64_t i = 0; i < n; ++i) dx[i * step] = dy[i * step];
      return;
    }
    const Nudged r = Nudge(min, max);
    if (step == 1) {
      double below = 0, above = 0;
      simd::ClampGradient(r.min, r.max, dy, in, n, dx, &below, &above);
      if (d_min != nullptr) *d_min += static_cast<float>(below);
      if (d_max != nullptr) *d_max += static_cast<float>(above);
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      const float v = in[i * step], g = dy[i * step];
      dx[i * step] = v >= r.min && v <= r.max ? g : 0.0f;
      if (v < r.min && d_min != nullptr) *d_min += g;
      if (v > r.max && d_max != nullptr) *d_max += g;
    }
  }
};

enum class FakeRange { kAttrs, kScalars, kChannels };

// Gradient ops take the gradients before the other inputs.
template <FakeRange kRange, bool kGrad>
class FakeQuant {
 public:
  static Result<std::shared_ptr<FakeQuant>> Make(const Node& n) {
    auto k = std::make_shared<FakeQuant>();
    SLUICE_ASSIGN_OR_RETURN(k->quantizer_, FakeQuantizer::Read(n));
    if constexpr (kRange == FakeRange::kAttrs) {
      k->min_ = n.AttrOr<float>("min", -6.0f);
      k->max_ = n.AttrOr<float>("max", 6.0f);
      if (!(k->min_ < k->max_))
        return InvalidArgument("max: expected more than the min of ", k->min_,
                               ", got ", k->max_);
    }
    return k;
  }

  Status Run(KernelContext& ctx) const {
    constexpr int kFirst = kGrad ? 1 : 0;
    const Tensor in = ctx.input(kFirst);
    const Tensor dy = ctx.input(0);  // The input itself if not kGrad.
    if (dy.shape() != in.shape())
      return InvalidArgument("gradients: expected the shape of inputs, ",
                             in.shape().ToString(), ", got ",
                             dy.shape().ToString());
    const float *min = &min_, *max = &max_;
    int64_t channels = 1;
    if constexpr (kRange != FakeRange::kAttrs) {
      const Tensor &a = ctx.input(kFirst + 1), &b = ctx.input(kFirst + 2);
      SLUICE_RETURN_IF_ERROR(CheckRange(in, a, b));
      if constexpr (kRange == FakeRange::kChannels) channels = a.dim(0);
      min = a.raw<float>();
      max = b.raw<float>();
      if constexpr (kGrad) {
        for (int i = 1; i < 3; ++i) {
          SLUICE_ASSIGN_OR_RETURN(ctx.output(i),
                                  Tensor::Zeros(DType::kFloat, a.shape()));
        }
      }
    }
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kFloat, in.shape()));
    const int64_t rows = channels == 0 ? 0 : in.num_elements() / channels;
    for (int64_t c = 0; c < channels; ++c) {
      float* out = ctx.output(0).raw<float>() + c;
      const float* from = in.raw<float>() + c;
      if constexpr (kGrad) {
        const bool ends = kRange != FakeRange::kAttrs;
        quantizer_.Back(min[c], max[c], dy.raw<float>() + c, from, rows,
                        channels, out,
                        ends ? ctx.output(1).raw<float>() + c : nullptr,
                        ends ? ctx.output(2).raw<float>() + c : nullptr);
      } else {
        quantizer_.Round<kRange == FakeRange::kScalars>(min[c], max[c], from,
                                                        rows, channels, out);
      }
    }
    return OkStatus();
  }

 private:
  static Status CheckRange(const Tensor& in, const Tensor& a, const Tensor& b) {
    if constexpr (kRange == FakeRange::kScalars) {
      if (a.rank() == 0 && b.rank() == 0) return OkStatus();
      return InvalidArgument("min and max: expected scalars, got shapes ",
                             a.shape().ToString(), " and ",
                             b.shape().ToString());
    } else {
      if (in.rank() > 0 && a.rank() == 1 && a.shape() == b.shape() &&
          a.dim(0) == in.dim(in.rank() - 1))
        return OkStatus();
      return InvalidArgument(
          "min and max: expected a number for each element of the last "
          "dimension of inputs, of shape ",
          in.shape().ToString(), ", got shapes ", a.shape().ToString(), " and ",
          b.shape().ToString());
    }
  }

  FakeQuantizer quantizer_;
  float min_ = 0, max_ = 0;
};

// ---- Shapes and gradients ---------------------------------------------------

template <FakeRange kRange, bool kGrad>
Status FakeQuantShape(ShapeContext& c) {
  constexpr int kFirst = kGrad ? 1 : 0;
  SLUICE_RETURN_IF_ERROR(FakeQuantizer::Read(c.node()).status());
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in,
                          c.input(0).MergeWith(c.input(kFirst)));
  PartialShape range = PartialShape::Scalar();
  if (kRange == FakeRange::kChannels) {
    if (in.rank_known() && in.rank() == 0)
      return InvalidArgument("inputs: expected rank at least 1, got a scalar");
    range = PartialShape({in.rank_known() ? in.dim(in.rank() - 1) : -1});
  }
  for (int i = kFirst + 1; i < c.num_inputs(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(range, range.MergeWith(c.input(i)));
  }
  c.set_all_outputs(range);
  c.set_output(0, in);
  return OkStatus();
}

AttrMap FakeQuantAttrs(const Node& n) {
  AttrMap attrs;
  for (const char* name : {"min", "max", "num_bits", "narrow_range"})
    if (const AttrValue* a = n.FindAttr(name)) attrs[name] = *a;
  return attrs;
}

Status FakeQuantGradient(GradContext& c) {
  std::vector<Output> in{c.dy[0]};
  for (int i = 0; i < c.op->num_inputs(); ++i) in.push_back(c.input(i));
  Node* n = BuildNode(c.op->op_name() + "Gradient", in, FakeQuantAttrs(*c.op));
  if (n == nullptr) return OkStatus();
  for (int i = 0; i < c.op->num_inputs(); ++i)
    c.grads[static_cast<size_t>(i)] = Output(n, i);
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

template <FakeRange kRange, bool kGrad>
OpDefBuilder FakeQuantOp(const char* name) {
  OpDefBuilder b(name);
  std::vector<SampleInput> sample{{.shape = {3, 2}}};
  if (kGrad) {
    b.Input("gradients: float");
    sample.push_back(sample[0]);
  }
  b.Input("inputs: float");
  constexpr bool kEnds = kRange != FakeRange::kAttrs;
  if (kEnds) {
    b.Input("min: float").Input("max: float");
    const Dims dims = kRange == FakeRange::kChannels ? Dims{2} : Dims{};
    const size_t n = kRange == FakeRange::kChannels ? 2 : 1;
    sample.push_back({.shape = dims, .values = std::vector<double>(n, -0.5)});
    sample.push_back({.shape = dims, .values = std::vector<double>(n, 0.75)});
  }
  if (kGrad) {
    b.Output(kEnds ? "backprops_wrt_input: float" : "backprops: float");
    if (kEnds)
      b.Output("backprop_wrt_min: float").Output("backprop_wrt_max: float");
    b.NoGradient("TensorFlow does not define one");
  } else {
    b.Output("outputs: float").Grad(FakeQuantGradient);
  }
  if (!kEnds) b.Attr("min: float = -6").Attr("max: float = 6");
  b.Attr("num_bits: int = 8")
      .Attr("narrow_range: bool = false")
      .Family("array")
      .Shape(FakeQuantShape<kRange, kGrad>)
      .Kernel(CpuState<FakeQuant<kRange, kGrad>>())
      .Sample(std::move(sample));
  return b;
}

const OpRegistrar kFakeQuants[] = {
    FakeQuantOp<FakeRange::kAttrs, false>("FakeQuantWithMinMaxArgs")
        .Doc("Rounds to the values that num_bits bits can represent between "
             "min and max."),
    FakeQuantOp<FakeRange::kAttrs, true>("FakeQuantWithMinMaxArgsGradient")
        .Doc("The gradient of FakeQuantWithMinMaxArgs."),
    FakeQuantOp<FakeRange::kScalars, false>("FakeQuantWithMinMaxVars")
        .Doc("FakeQuantWithMinMaxArgs with a trainable range."),
    FakeQuantOp<FakeRange::kScalars, true>("FakeQuantWithMinMaxVarsGradient")
        .Doc("The gradient of FakeQuantWithMinMaxVars."),
    FakeQuantOp<FakeRange::kChannels, false>(
        "FakeQuantWithMinMaxVarsPerChannel")
        .Doc("FakeQuantWithMinMaxVars with one range per channel."),
    FakeQuantOp<FakeRange::kChannels, true>(
        "FakeQuantWithMinMaxVarsPerChannelGradient")
        .Doc("The gradient of FakeQuantWithMinMaxVarsPerChannel."),
};

}  // namespace
}  // namespace sluice
