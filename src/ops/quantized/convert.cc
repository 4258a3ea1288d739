// Conversion between floats and quantised numbers, with one range or one per
// slice along an axis.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/simd/cast.h"
#include "kernels/simd/quantize.h"
#include "ops/quantized/range_arithmetic.h"

namespace sluice {
namespace {

using quantized::Range;
using quantized::TypeLimits;

enum class QuantizeMode { kMinCombined, kMinFirst, kScaled };

// The quantisation attributes of both ops. Immutable.
struct QuantizeOptions {
  QuantizeMode mode;
  bool half_to_even, narrow_range;
  int64_t axis;
  float ensure_minimum_range;
  TypeLimits limits;

  static Result<QuantizeOptions> Read(const Node& n) {
    QuantizeOptions o;
    const std::string mode = n.AttrOr<std::string>("mode", "MIN_COMBINED");
    o.mode = mode == "SCALED"      ? QuantizeMode::kScaled
             : mode == "MIN_FIRST" ? QuantizeMode::kMinFirst
                                   : QuantizeMode::kMinCombined;
    o.half_to_even = n.AttrOr<std::string>(
                         "round_mode", "HALF_AWAY_FROM_ZERO") == "HALF_TO_EVEN";
    if (o.half_to_even && o.mode != QuantizeMode::kScaled)
      return InvalidArgument(
          "round_mode: expected HALF_AWAY_FROM_ZERO in mode ", mode,
          ", got HALF_TO_EVEN");
    o.narrow_range = n.BoolAttr("narrow_range");
    o.axis = n.AttrOr<int64_t>("axis", -1);
    if (o.axis < -1)
      return InvalidArgument("axis: expected at least -1, got ", o.axis);
    o.ensure_minimum_range = n.AttrOr<float>("ensure_minimum_range", 0.01f);
    o.limits = quantized::LimitsOf(n.TypeAttr("T"));
    return o;
  }

  int64_t lowest() const { return limits.low + (narrow_range ? 1 : 0); }
  // Half the number of values of a signed type; 0 for others.
  float half_range() const {
    if (limits.low == 0) return 0.0f;
    return (static_cast<float>(limits.high) - static_cast<float>(limits.low) +
            1) /
           2.0f;
  }
};

// Slices of a tensor along an axis: outer blocks of `count` slices of `inner`.
struct Slices {
  int64_t outer = 1, count = 1, inner = 1;
};

// For axis -1 there is one slice.
Result<Slices> SlicesOf(const Shape& s, int64_t axis, const Tensor& min,
                        const Tensor& max) {
  Slices slices;
  if (axis >= s.rank())
    return InvalidArgument("axis: expected less than the rank of ",
                           s.ToString(), ", got ", axis);
  // (For an empty tensor, the product of the other extents may exceed 2^63.)
  if (s.num_elements() == 0) {
    slices.outer = 0;
    if (axis >= 0) slices.count = s.dim(static_cast<int>(axis));
  }
  for (int i = 0; i < s.rank() && s.num_elements() > 0; ++i) {
    if (i < axis) {
      slices.outer *= s.dim(i);
    } else if (i == axis) {
      slices.count = s.dim(i);
    } else {
      slices.inner *= s.dim(i);
    }
  }
  for (const Tensor* t : {&min, &max})
    if (t->num_elements() != slices.count || t->rank() > 1)
      return InvalidArgument("range: expected ", slices.count,
                             " numbers, one for each slice along the axis, got "
                             "shape ",
                             t->shape().ToString());
  return slices;
}

// Calls fn(begin, end) for the elements of slice k.
template <typename Fn>
void ForSlice(const Slices& s, int64_t k, Fn fn) {
  for (int64_t o = 0; o < s.outer; ++o) {
    const int64_t begin = (o * s.count + k) * s.inner;
    fn(begin, begin + s.inner);
  }
}

Status ConvertShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const QuantizeOptions o,
                          QuantizeOptions::Read(c.node()));
  const PartialShape& in = c.input(0);
  const int axis = static_cast<int>(std::min<int64_t>(o.axis, 1 << 20));
  PartialShape ranges = PartialShape::Scalar();
  if (axis >= 0) {
    if (in.rank_known() && axis >= in.rank())
      return InvalidArgument("axis: expected less than the rank of ",
                             in.ToString(), ", got ", o.axis);
    ranges = PartialShape({in.rank_known() ? in.dim(axis) : -1});
    for (int i = 1; i < 3; ++i)
      SLUICE_RETURN_IF_ERROR(ranges.MergeWith(c.input(i)).status());
  }
  c.set_all_outputs(ranges);
  c.set_output(0, in);
  return OkStatus();
}

// ---- QuantizeV2 -------------------------------------------------------------

// Immutable.
class QuantizeKernel {
 public:
  static Result<std::shared_ptr<QuantizeKernel>> Make(const Node& n) {
    auto k = std::make_shared<QuantizeKernel>();
    SLUICE_ASSIGN_OR_RETURN(k->o_, QuantizeOptions::Read(n));
    if (!(k->o_.ensure_minimum_range >= 0))
      return InvalidArgument("ensure_minimum_range: expected at least 0, got ",
                             k->o_.ensure_minimum_range);
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor &in = ctx.input(0), &min = ctx.input(1), &max = ctx.input(2);
    SLUICE_ASSIGN_OR_RETURN(const Slices s,
                            SlicesOf(in.shape(), o_.axis, min, max));
    if (s.count != 1 && o_.mode == QuantizeMode::kMinFirst)
      return Unimplemented(
          "mode: expected a mode other than MIN_FIRST with an axis");
    const DType t = ctx.node().output_type(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, t, in.shape()));
    const Shape ranges = o_.axis < 0 ? Shape() : Shape({s.count});
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, DType::kFloat, ranges));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(2, DType::kFloat, ranges));
    std::vector<simd::Quantization> arithmetic;
    for (int64_t k = 0; k < s.count; ++k) {
      Range r{min.raw<float>()[k], max.raw<float>()[k]};
      if (r.max < r.min)
        return InvalidArgument(
            "range: expected a maximum of at least the "
            "minimum, got ",
            r.min, " to ", r.max);
      r = Widened(r);
      float scale = 0;
      if (o_.mode == QuantizeMode::kScaled) {
        scale = ScaleOf(r);
        r = {static_cast<float>(o_.lowest()) / scale,
             static_cast<float>(o_.limits.high) / scale};
      }
      arithmetic.push_back(Arithmetic(r, scale));
      ctx.output(1).raw<float>()[k] = r.min;
      ctx.output(2).raw<float>()[k] = r.max;
    }
    QuantizeSlices(s, arithmetic, in.raw<float>(), DTypeSize(t),
                   static_cast<char*>(ctx.output(0).raw()));
    return OkStatus();
  }

 private:
  // Ends that are too close are moved apart, since they would be one number.
  // Zero is within the range.
  Range Widened(Range r) const {
    const float min = std::min(0.0f, r.min);
    const float apart =
        std::max(1.0f, std::max(std::fabs(r.min), std::fabs(r.max))) *
        o_.ensure_minimum_range;
    return {min, std::max(0.0f, std::max(r.max, min + apart))};
  }

  float ScaleOf(Range r) const {
    const auto low = static_cast<float>(o_.lowest());
    const auto high = static_cast<float>(o_.limits.high);
    constexpr float kAny = std::numeric_limits<float>::max();
    return std::min(low * r.min > 0 ? low / r.min : kAny,
                    high * r.max > 0 ? high / r.max : kAny);
  }

  // Pieces of a few elements are gathered first, from a part of the tensor that
  // stays in the cache while all slices are.
  static void QuantizeSlices(const Slices& s,
                             const std::vector<simd::Quantization>& q,
                             const float* in, size_t bytes, char* out) {
    const bool gathers = s.outer > 1 && s.inner < 64;
    const int64_t most =
        gathers ? std::max<int64_t>(1, 256 / std::max<int64_t>(1, s.inner))
                : s.outer;
    std::vector<float> floats;
    std::vector<char> quantized;
    for (int64_t first = 0; first < s.outer; first += most) {
      const Slices part{std::min(most, s.outer - first), s.count, s.inner};
      const int64_t begins = first * s.count * s.inner;
      for (int64_t k = 0; k < s.count; ++k) {
        const simd::Quantization& to = q[static_cast<size_t>(k)];
        if (!gathers) {
          ForSlice(part, k, [&](int64_t begin, int64_t end) {
            simd::Quantize(to, in + begin, end - begin, bytes,
                           out + static_cast<size_t>(begin) * bytes);
          });
          continue;
        }
        floats.clear();
        ForSlice(part, k, [&](int64_t begin, int64_t end) {
          floats.insert(floats.end(), in + begins + begin, in + begins + end);
        });
        quantized.resize(floats.size() * bytes);
        simd::Quantize(to, floats.data(), static_cast<int64_t>(floats.size()),
                       bytes, quantized.data());
        const char* from = quantized.data();
        ForSlice(part, k, [&](int64_t begin, int64_t end) {
          const size_t size = static_cast<size_t>(end - begin) * bytes;
          std::memcpy(out + static_cast<size_t>(begins + begin) * bytes, from,
                      size);
          from += size;
        });
      }
    }
  }

  simd::Quantization Arithmetic(Range r, float scale) const {
    using Rounding = simd::Quantization::Rounding;
    if (o_.mode == QuantizeMode::kMinFirst)
      return quantized::Quantizer(r, o_.limits).arithmetic();
    simd::Quantization q{.min = r.min, .max = r.max};
    if (o_.mode == QuantizeMode::kScaled) {
      q.scale = scale;
      if (o_.half_to_even) q.rounding = Rounding::kHalfToEven;
      return q;
    }
    q.base = r.min;
    q.scale = static_cast<float>((static_cast<double>(o_.limits.high) -
                                  static_cast<double>(o_.limits.low)) /
                                 static_cast<double>(r.max - r.min));
    q.shift = o_.half_range();
    if (q.shift > 0) return q;
    q.shift = -0.5f;
    q.rounding = Rounding::kDown;
    return q;
  }

  QuantizeOptions o_;
};

// ---- Dequantize -------------------------------------------------------------

// Immutable.
class DequantizeKernel {
 public:
  static Result<std::shared_ptr<DequantizeKernel>> Make(const Node& n) {
    auto k = std::make_shared<DequantizeKernel>();
    SLUICE_ASSIGN_OR_RETURN(k->o_, QuantizeOptions::Read(n));
    if (n.TypeAttr("dtype") != DType::kFloat &&
        k->o_.mode != QuantizeMode::kMinCombined)
      return InvalidArgument(
          "mode: expected MIN_COMBINED, which bfloat16 needs, got another");
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor &in = ctx.input(0), &min = ctx.input(1), &max = ctx.input(2);
    SLUICE_ASSIGN_OR_RETURN(const Slices s,
                            SlicesOf(in.shape(), o_.axis, min, max));
    if (s.count != 1 && o_.mode == QuantizeMode::kMinFirst)
      return Unimplemented(
          "mode: expected a mode other than MIN_FIRST with an axis");
    SLUICE_ASSIGN_OR_RETURN(Tensor out,
                            ctx.AllocateTemp(DType::kFloat, in.shape()));
    const std::vector<int32_t> from = quantized::Widen(in);
    for (int64_t k = 0; k < s.count; ++k) {
      const Range r{min.raw<float>()[k], max.raw<float>()[k]};
      ForSlice(s, k, [&](int64_t begin, int64_t end) {
        Convert(r, from.data() + begin, end - begin, out.raw<float>() + begin);
      });
    }
    const DType t = ctx.node().output_type(0);
    if (t == DType::kFloat) {
      ctx.set_output(0, std::move(out));
      return OkStatus();
    }
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, t, in.shape()));
    simd::GetCast(DType::kFloat, t)(out.raw(), ctx.output(0).raw(),
                                    out.num_elements());
    return OkStatus();
  }

 private:
  void Convert(Range r, const int32_t* in, int64_t n, float* out) const {
    const auto high = static_cast<float>(o_.limits.high);
    switch (o_.mode) {
      case QuantizeMode::kMinCombined: {
        const float scale =
            (r.max - r.min) / (high - static_cast<float>(o_.limits.low));
        const float half = o_.half_range();
        for (int64_t i = 0; i < n; ++i)
          out[i] = (static_cast<float>(in[i]) + half) * scale + r.min;
        return;
      }
      case QuantizeMode::kMinFirst:
        std::transform(in, in + n, out, quantized::Dequantizer(r, o_.limits));
        return;
      case QuantizeMode::kScaled: {
        const float scale =
            o_.limits.low == 0
                ? r.max / high
                : std::max(r.min / static_cast<float>(o_.lowest()),
                           r.max / high);
        for (int64_t i = 0; i < n; ++i)
          out[i] = static_cast<float>(in[i]) * scale;
        return;
      }
    }
  }

  QuantizeOptions o_;
};

// ---- Declarations -----------------------------------------------------------

constexpr char kModeAttr[] =
    "mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'";

const OpRegistrar kConversions[] = {
    quantized::Op("QuantizeV2")
        .Input("input: float")
        .Input("min_range: float")
        .Input("max_range: float")
        .Output("output: T")
        .Output("output_min: float")
        .Output("output_max: float")
        .Attr(quantized::TypeAttr("T"))
        .Attr(kModeAttr)
        .Attr("round_mode: {'HALF_AWAY_FROM_ZERO', 'HALF_TO_EVEN'} = "
              "'HALF_AWAY_FROM_ZERO'")
        .Attr("narrow_range: bool = false")
        .Attr("axis: int = -1")
        .Attr("ensure_minimum_range: float = 0.01")
        .Shape(ConvertShape)
        .Kernel(CpuState<QuantizeKernel>())
        .Sample({{.shape = {2, 3}}, {.values = {-1}}, {.values = {1}}},
                {{"T", DType::kQuint8}})
        .Doc("Quantises floats to integers that divide the given range."),
    quantized::Op("Dequantize")
        .Input("input: T")
        .Input("min_range: float")
        .Input("max_range: float")
        .Output("output: dtype")
        .Attr(quantized::TypeAttr("T"))
        .Attr(kModeAttr)
        .Attr("narrow_range: bool = false")
        .Attr("axis: int = -1")
        .Attr("dtype: {bfloat16, float} = DT_FLOAT")
        .Shape(ConvertShape)
        .Kernel(CpuState<DequantizeKernel>())
        .Sample({{.shape = {2, 3}, .dtype = DType::kQuint8},
                 {.values = {-1}},
                 {.values = {1}}},
                {{"T", DType::kQuint8}})
        .Doc("Converts quantised numbers to floats."),
};

}  // namespace
}  // namespace sluice
