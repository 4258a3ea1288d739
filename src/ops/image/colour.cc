// Colour spaces, and adjustments of colours.
#include "kernels/image/colour.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/parallel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"

namespace sluice {
namespace {

template <typename S>
using Pixel = std::array<S, 3>;

// ---- Pixels -----------------------------------------------------------------

template <typename S>
Pixel<S> ToHsv(const Pixel<S>& rgb) {
  const auto [r, g, b] = rgb;
  const S value = std::max(r, std::max(g, b));
  const S range = value - std::min(r, std::min(g, b));
  const S saturation = value > 0 ? range / value : S{0};
  const S norm = S{1} / (S{6} * range);
  S hue = r == value   ? norm * (g - b)
          : g == value ? norm * (b - r) + S{2} / S{6}
                       : norm * (r - g) + S{4} / S{6};
  if (!(range > 0)) hue = 0;
  if (hue < 0) hue += 1;
  return {hue, saturation, value};
}

template <typename S>
Pixel<S> ToRgb(const Pixel<S>& hsv) {
  const auto [hue, saturation, value] = hsv;
  const S h = hue * 6;
  const auto channel = [s = saturation, v = value](S ramp) {
    return ((1 - s) + s * std::min(std::max(ramp, S{0}), S{1})) * v;
  };
  return {channel(std::abs(h - 3) - 1), channel(2 - std::abs(h - 2)),
          channel(2 - std::abs(h - 4))};
}

// v reduced to [0, n), by subtraction if it is near (the usual case, and
// exact).
float Modulo(float v, float n) {
  if (!(std::abs(v) <= 4 * n)) v = std::fmod(v, n);
  while (v < 0) v += n;
  while (v >= n) v -= n;
  return v;
}

// The three channels in descending order, by the sector of the hue.
constexpr int kOrder[6][3] = {{0, 1, 2}, {1, 0, 2}, {1, 2, 0},
                              {2, 1, 0}, {2, 0, 1}, {0, 2, 1}};

// Turns the hue by `turns`; greatest and least channel keep their values.
Pixel<float> TurnHue(const Pixel<float>& rgb, float turns) {
  const auto [r, g, b] = rgb;
  int sector;
  if (r < g)
    sector = b < r ? 1 : b > g ? 3 : 2;
  else
    sector = b < g ? 0 : b > r ? 4 : 5;
  const auto at = [&](int i) {
    return rgb[static_cast<size_t>(kOrder[sector][i])];
  };
  const float most = at(0), middle = at(1), least = at(2);
  float hue = 0;
  if (most != least) {
    const float part = (middle - least) / (most - least);
    hue = static_cast<float>(sector) + (sector % 2 == 0 ? part : 1 - part);
  }
  hue = Modulo(hue + turns * 6, 6);
  // (NaN would be in no sector.)
  const int turned = hue >= 0 && hue < 6 ? static_cast<int>(hue) : 5;
  float part = hue - static_cast<float>(turned);
  if (turned % 2 != 0) part = 1 - part;
  Pixel<float> out;
  out[static_cast<size_t>(kOrder[turned][0])] = most;
  out[static_cast<size_t>(kOrder[turned][1])] = least + part * (most - least);
  out[static_cast<size_t>(kOrder[turned][2])] = least;
  return out;
}

Pixel<float> ScaleSaturation(const Pixel<float>& rgb, float scale) {
  const auto [hue, s, value] = ToHsv(rgb);
  const float chroma = std::min(1.0f, std::max(0.0f, s * scale)) * value;
  const float least = value - chroma, h = hue * 6;
  const float middle = chroma * (1 - std::abs(Modulo(h, 2) - 1)) + least;
  Pixel<float> out{least, least, least};
  if (h >= 0 && h < 6) {
    const int* order = kOrder[static_cast<int>(h)];
    out[static_cast<size_t>(order[0])] = chroma + least;
    out[static_cast<size_t>(order[1])] = middle;
  }
  return out;
}

// ---- Kernels ----------------------------------------------------------------

// Calls fn(from, n, to) for runs of n pixels of input 0. `other_channels`: the
// error if there are not three.
template <typename T, typename Fn>
Status ForRuns(KernelContext& ctx, int least_rank, StatusCode other_channels,
               Fn fn) {
  const Tensor& in = ctx.input(0);
  const Shape shape = in.shape();
  if (in.rank() < least_rank)
    return InvalidArgument("images: expected rank ", least_rank,
                           " or more, got shape ", shape.ToString());
  if (in.dim(in.rank() - 1) != 3)
    return Status(other_channels,
                  absl::StrCat("images: expected three channels, got shape ",
                               shape.ToString()));
  const T* from = in.raw<T>();
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, DTypeOf<T>(), shape));
  T* const to = ctx.output(0).raw<T>();
  ParallelFor(shape.num_elements() / 3, 4096, [&](int64_t begin, int64_t end) {
    fn(from + 3 * begin, end - begin, to + 3 * begin);
  });
  return OkStatus();
}

// Calls fn for each pixel, computed as S.
template <typename T, typename Fn>
Status ForEachPixel(KernelContext& ctx, int least_rank,
                    StatusCode other_channels, Fn fn) {
  using S = ComputeType<T>;
  return ForRuns<T>(
      ctx, least_rank, other_channels, [&](const T* from, int64_t n, T* to) {
        for (int64_t i = 0; i < 3 * n; i += 3) {
          const Pixel<S> out =
              fn(Pixel<S>{static_cast<S>(from[i]), static_cast<S>(from[i + 1]),
                          static_cast<S>(from[i + 2])});
          for (int64_t c = 0; c < 3; ++c)
            to[i + c] = static_cast<T>(out[static_cast<size_t>(c)]);
        }
      });
}

template <typename T>
struct RgbToHsv {
  static Status Run(KernelContext& ctx) {
    return ForEachPixel<T>(ctx, 1, StatusCode::kFailedPrecondition,
                           ToHsv<ComputeType<T>>);
  }
};

template <typename T>
struct HsvToRgb {
  static Status Run(KernelContext& ctx) {
    constexpr StatusCode kOther = StatusCode::kFailedPrecondition;
    if constexpr (std::is_same_v<T, float>)
      return ForRuns<T>(ctx, 1, kOther, image::HsvToRgb);
    else
      return ForEachPixel<T>(ctx, 1, kOther, ToRgb<ComputeType<T>>);
  }
};

Status ReadAmount(const KernelContext& ctx, const char* name, float* v) {
  const Tensor& t = ctx.input(1);
  if (t.rank() != 0)
    return InvalidArgument(name, ": expected a scalar, got shape ",
                           t.shape().ToString());
  *v = t.raw_scalar<float>();
  return OkStatus();
}

template <typename T>
struct AdjustHue {
  static Status Run(KernelContext& ctx) {
    float delta;
    SLUICE_RETURN_IF_ERROR(ReadAmount(ctx, "delta", &delta));
    return ForEachPixel<T>(
        ctx, 3, StatusCode::kInvalidArgument,
        [&](const Pixel<float>& p) { return TurnHue(p, delta); });
  }
};

template <typename T>
struct AdjustSaturation {
  static Status Run(KernelContext& ctx) {
    float scale;
    SLUICE_RETURN_IF_ERROR(ReadAmount(ctx, "scale", &scale));
    return ForEachPixel<T>(
        ctx, 3, StatusCode::kInvalidArgument,
        [&](const Pixel<float>& p) { return ScaleSaturation(p, scale); });
  }
};

template <typename T>
struct AdjustContrast {
  static Status Run(KernelContext& ctx) {
    float factor;
    SLUICE_RETURN_IF_ERROR(ReadAmount(ctx, "contrast_factor", &factor));
    const Tensor& in = ctx.input(0);
    const Shape shape = in.shape();
    const int rank = shape.rank();
    if (rank < 3)
      return InvalidArgument(
          "images: expected [..., height, width, channels], got shape ",
          shape.ToString());
    const T* const from = in.raw<T>();
    SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, DTypeOf<T>(), shape));
    if (shape.num_elements() == 0) return OkStatus();
    T* const to = ctx.output(0).raw<T>();
    const int64_t channels = shape.dim(rank - 1);
    const int64_t pixels = shape.dim(rank - 3) * shape.dim(rank - 2);
    const int64_t planes = shape.num_elements() / pixels;
    // Images and channels.
    ParallelFor(planes, 16384 / pixels + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i / channels * pixels * channels + i % channels;
        double sum = 0;
        for (int64_t p = 0; p < pixels; ++p)
          sum += static_cast<float>(from[first + p * channels]);
        const auto mean = static_cast<float>(sum / static_cast<double>(pixels));
        for (int64_t p = 0; p < pixels; ++p) {
          const auto v = static_cast<float>(from[first + p * channels]);
          to[first + p * channels] = static_cast<T>((v - mean) * factor + mean);
        }
      }
    });
    return OkStatus();
  }
};

// ---- Shapes and gradients ---------------------------------------------------

Status ColourShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.WithRankAtLeast(0, 1));
  if (out.rank_known()) {
    SLUICE_RETURN_IF_ERROR(MergeDim(out.dim(out.rank() - 1), 3).status());
    out.set_dim(out.rank() - 1, 3);
  }
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status AdjustedShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.WithRankAtLeast(0, 3));
  c.set_output(0, std::move(out));
  return OkStatus();
}

// The derivatives of value, saturation and hue by the greatest channel, the
// least one, and (of the hue) by those that follow and precede the greatest.
Status RgbToHsvGradient(GradContext& c) {
  const Output rgb = c.input(0);
  const DType t = grad::TypeOf(rgb);
  const Output last = Constant(Tensor::Scalar<int32_t>(-1));
  const Output axis = Constant(Tensor::Vector<int32_t>({-1}));
  const Output one = grad::Number(rgb, 1), zero = grad::Number(rgb, 0);
  // 1 for one channel of each pixel; of equal ones the first is the greatest
  // and the last the least.
  const auto mark = [&](const char* which, Output x) {
    return Build("OneHot", {Build(which, {x, last}),
                            Constant(Tensor::Scalar<int32_t>(3)), one, zero});
  };
  const auto turned = [&](Output x, int32_t by) {
    return Build("Roll", {x, Constant(Tensor::Scalar<int32_t>(by)), last});
  };
  const auto sum = [&](Output x) {
    return Build("Sum", {x, axis}, {{"keep_dims", true}});
  };
  const auto over = [&](Output a, Output b) {
    return Build("DivNoNan", {a, b});
  };
  static_cast<void>(t);
  const Output greatest = mark("ArgMax", rgb);
  const auto reversed = [&](Output x) { return Build("ReverseV2", {x, axis}); };
  const Output least = reversed(mark("ArgMin", reversed(rgb)));
  const Output most = sum(grad::Mul(greatest, rgb));
  const Output min = sum(grad::Mul(least, rgb));
  const Output range = grad::Sub(most, min);
  const Output sides = Build("Split", {last, c.dy[0]}, {{"num_split", 3}});
  const Output by_hue(sides.node, 0), by_saturation(sides.node, 1),
      by_value(sides.node, 2);
  // value = most; saturation = 1 - min / most, or 0 for black.
  const Output of_saturation = grad::Sub(
      grad::Mul(greatest, over(min, grad::Square(most))), over(least, most));
  // hue = (const + difference / range) / 6, of the other two channels.
  const Output others = grad::Sub(turned(greatest, 1), turned(greatest, -1));
  const Output difference = sum(grad::Mul(others, rgb));
  const Output of_hue =
      grad::Div(grad::Sub(over(others, range),
                          grad::Mul(grad::Sub(greatest, least),
                                    over(difference, grad::Square(range)))),
                grad::Number(rgb, 6));
  c.grads[0] = grad::Add(grad::Mul(greatest, by_value),
                         grad::Add(grad::Mul(of_saturation, by_saturation),
                                   grad::Mul(of_hue, by_hue)));
  return OkStatus();
}

Status AdjustContrastGradient(GradContext& c) {
  const Output images = c.input(0), dy = c.dy[0];
  const Output rank = grad::RankOf(images);
  const Output sides =
      grad::Add(Constant(Tensor::Vector<int32_t>({-3, -2})), rank);
  const auto mean = [&](Output x) {
    return Build("Mean", {x, sides}, {{"keep_dims", true}});
  };
  const Output factor = grad::Cast(c.input(1), grad::TypeOf(images));
  c.grads[0] = grad::Add(
      grad::Mul(dy, factor),
      grad::Mul(grad::Sub(grad::Number(images, 1), factor), mean(dy)));
  const auto wide = [](Output x) { return grad::Cast(x, DType::kFloat); };
  const Output products =
      grad::Mul(wide(dy), grad::Sub(wide(images), wide(mean(images))));
  c.grads[1] =
      Build("Sum",
            {products, Build("Range", {Constant(Tensor::Scalar<int32_t>(0)),
                                       grad::RankOf(images),
                                       Constant(Tensor::Scalar<int32_t>(1))})});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

constexpr char kColourTypes[] = "T: {half, bfloat16, float, double} = DT_FLOAT";
constexpr char kAdjustedTypes[] = "T: {half, float} = DT_FLOAT";

SLUICE_OP(RGBToHSV)
    .Input("images: T")
    .Output("output: T")
    .Attr(kColourTypes)
    .Family("image")
    .Shape(ColourShape)
    .Kernel(CpuFor<RgbToHsv, half, bfloat16, float, double>("T", true))
    .Grad(RgbToHsvGradient)
    .Sample({{.shape = {2, 2, 4, 3}, .low = 0.1, .high = 0.9}})
    .Doc("Converts pixels from red, green, blue to hue, saturation, value.");

SLUICE_OP(HSVToRGB)
    .Input("images: T")
    .Output("output: T")
    .Attr(kColourTypes)
    .Family("image")
    .Shape(ColourShape)
    .Kernel(CpuFor<HsvToRgb, half, bfloat16, float, double>("T", true))
    .NoGradient("TensorFlow gives none for a conversion to RGB")
    .Sample({{.shape = {2, 2, 4, 3}, .low = 0.1, .high = 0.9}})
    .Doc("Converts pixels from hue, saturation, value to red, green, blue.");

SLUICE_OP(AdjustHue)
    .Input("images: T")
    .Input("delta: float")
    .Output("output: T")
    .Attr(kAdjustedTypes)
    .Family("image")
    .Shape(AdjustedShape)
    .Kernel(CpuFor<AdjustHue, half, float>("T", true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {2, 2, 4, 3}, .low = 0.1, .high = 0.9},
             {.shape = {}, .values = {0.3}}})
    .Doc("Turns the hue of RGB images by delta turns.");

SLUICE_OP(AdjustSaturation)
    .Input("images: T")
    .Input("scale: float")
    .Output("output: T")
    .Attr(kAdjustedTypes)
    .Family("image")
    .Shape(AdjustedShape)
    .Kernel(CpuFor<AdjustSaturation, half, float>("T", true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {2, 2, 4, 3}, .low = 0.1, .high = 0.9},
             {.shape = {}, .values = {1.3}}})
    .Doc("Multiplies the saturation of RGB images by a number.");

SLUICE_OP(AdjustContrastv2)
    .Input("images: T")
    .Input("contrast_factor: float")
    .Output("output: T")
    .Attr(kAdjustedTypes)
    .Family("image")
    .Shape(AdjustedShape)
    .Kernel(CpuFor<AdjustContrast, half, float>("T", true))
    .Grad(AdjustContrastGradient)
    .Sample({{.shape = {2, 2, 3, 2}}, {.shape = {}, .values = {1.7}}})
    .Doc("Multiplies each channel's distance from its mean over the image.");

}  // namespace
}  // namespace sluice
