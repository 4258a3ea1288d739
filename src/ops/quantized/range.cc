// Conversion of 32-bit results to fewer bits: finding the used range, and
// converting numbers from one range to another.
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "ops/quantized/range_arithmetic.h"

namespace sluice {
namespace {

using quantized::Range;
using quantized::TypeLimits;

// ---- Conversion -------------------------------------------------------------

// Converts qint32 to quint8 in fixed point with 16 fractional bits.
class FixedPoint {
 public:
  FixedPoint(Range in, Range out) {
    constexpr int kOne = 1 << kShift;
    const float in_range = in.max - in.min, out_range = out.max - out.min;
    if (out_range != 0.0f) {
      scale_ = quantized::ToInt64(255.0 * kOne * static_cast<double>(in_range) /
                                  static_cast<double>(out_range));
      out_offset_ =
          quantized::ToInt64(kOne * (static_cast<double>(out.min) * 255.0) /
                             static_cast<double>(out_range));
    }
    const float reciprocal =
        out_range == 0.0f
            ? 0.0f
            : static_cast<float>(255.0 / static_cast<double>(out_range));
    const auto middle =
        static_cast<float>(static_cast<double>(in.min + in.max) / 2.0);
    in_offset_ = quantized::ToInt64(
        static_cast<double>(middle * reciprocal * static_cast<float>(kOne)));
  }

  int32_t operator()(int32_t v) const {
    // (Unsigned, since degenerate ranges overflow.)
    const auto product =
        static_cast<int64_t>(static_cast<uint64_t>(static_cast<int64_t>(v)) *
                             static_cast<uint64_t>(scale_));
    const auto sum = static_cast<int64_t>(static_cast<uint64_t>(product >> 32) +
                                          static_cast<uint64_t>(in_offset_) -
                                          static_cast<uint64_t>(out_offset_) +
                                          (uint64_t{1} << (kShift - 1)));
    return static_cast<int32_t>(std::clamp<int64_t>(sum >> kShift, 0, 255));
  }

 private:
  static constexpr int kShift = 16;
  int64_t scale_ = 0, in_offset_ = 0, out_offset_ = 0;
};

// Converts elements of `in`, a qint32, to output 0.
void MoveRange(const Tensor& in, Range from, Range to, Tensor* out) {
  std::vector<int32_t> v = quantized::Widen(in);
  if (out->dtype() == DType::kQuint8) {
    std::transform(v.begin(), v.end(), v.begin(), FixedPoint(from, to));
  } else {
    const quantized::Dequantizer d(from, quantized::LimitsOf(in.dtype()));
    const quantized::Quantizer q(to, quantized::LimitsOf(out->dtype()));
    std::transform(v.begin(), v.end(), v.begin(),
                   [&](int32_t x) { return q(d(x)); });
  }
  quantized::Narrow(v.data(), out);
}

// The floats that the least and the greatest element represent, extended to
// include zero.
Range UsedRange(const Tensor& in, Range r) {
  const TypeLimits l = quantized::LimitsOf(in.dtype());
  int64_t least = l.high, greatest = l.low;
  for (const int32_t v : quantized::Widen(in)) {
    least = std::min<int64_t>(least, v);
    greatest = std::max<int64_t>(greatest, v);
  }
  return {std::min(0.0f, quantized::Dequantize(least, r, l)),
          quantized::Dequantize(greatest, r, l)};
}

// ---- Kernels ----------------------------------------------------------------

Status RunRequantizationRange(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const Range r,
                          quantized::RangeInput(ctx, 1, "input"));
  quantized::SetRange(ctx, 0, UsedRange(ctx.input(0), r));
  return OkStatus();
}

Status RunRequantize(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const Range from,
                          quantized::RangeInput(ctx, 1, "input"));
  SLUICE_ASSIGN_OR_RETURN(const Range to,
                          quantized::RangeInput(ctx, 3, "requested_output"));
  if (!(to.min <= 0.0f) || !(to.max >= 0.0f))
    return InvalidArgument(
        "requested_output: expected a range with zero within, got ", to.min,
        " to ", to.max);
  SLUICE_RETURN_IF_ERROR(
      ctx.Allocate(0, ctx.node().output_type(0), ctx.input(0).shape()));
  MoveRange(ctx.input(0), from, to, &ctx.output(0));
  quantized::SetRange(ctx, 1, to);
  return OkStatus();
}

Status RunShrinkRange(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const Range from,
                          quantized::RangeInput(ctx, 1, "input"));
  const Range to = UsedRange(ctx.input(0), from);
  SLUICE_RETURN_IF_ERROR(
      ctx.Allocate(0, ctx.node().output_type(0), ctx.input(0).shape()));
  MoveRange(ctx.input(0), from, to, &ctx.output(0));
  quantized::SetRange(ctx, 1, to);
  return OkStatus();
}

// Converts from qint32 to one of two types.
template <Status (*Run)(KernelContext&), bool kToInt8>
Status MakeFromInt32(const Node& n, Kernel* k) {
  if (n.TypeAttr("Tinput") != DType::kQint32)
    return NoKernelFor(n, n.TypeAttr("Tinput"));
  if (n.FindAttr("out_type") != nullptr) {
    const DType out = n.TypeAttr("out_type");
    if (out != DType::kQuint8 && !(kToInt8 && out == DType::kQint8))
      return NoKernelFor(n, out);
  }
  return Cpu(Run)(n, k);
}

// ---- Declarations -----------------------------------------------------------

Status RequantizeShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(quantized::RequireScalars(c, 1, c.num_inputs()));
  if (c.num_outputs() == 2) return ScalarShape(c);
  return quantized::LikeFirstShape(c);
}

OpDefBuilder FromInt32Op(const char* name, bool output) {
  OpDefBuilder b = quantized::Op(name);
  b.Input("input: Tinput").Input("input_min: float").Input("input_max: float");
  if (output) b.Output("output: out_type");
  b.Output("output_min: float")
      .Output("output_max: float")
      .Attr(quantized::TypeAttr("Tinput"));
  if (output) b.Attr(quantized::TypeAttr("out_type"));
  b.Shape(RequantizeShape);
  return b;
}

AttrMap ToBytes() {
  return {{"Tinput", DType::kQint32}, {"out_type", DType::kQuint8}};
}

const OpRegistrar kRequantizations[] = {
    FromInt32Op("RequantizationRange", false)
        .Kernel(MakeFromInt32<RunRequantizationRange, false>)
        .Sample({{.shape = {4}, .dtype = DType::kQint32},
                 {.values = {-1}},
                 {.values = {1}}},
                {{"Tinput", DType::kQint32}})
        .Doc("Returns the range from the least to the greatest element of a "
             "quantised tensor."),
    FromInt32Op("Requantize", true)
        .Input("requested_output_min: float")
        .Input("requested_output_max: float")
        .Kernel(MakeFromInt32<RunRequantize, true>)
        .Sample({{.shape = {4}, .dtype = DType::kQint32},
                 {.values = {-1}},
                 {.values = {1}},
                 {.values = {-1}},
                 {.values = {1}}},
                ToBytes())
        .Doc("Converts quantised numbers to fewer bits and the given range."),
    FromInt32Op("QuantizeDownAndShrinkRange", true)
        .Kernel(MakeFromInt32<RunShrinkRange, false>)
        .Sample({{.shape = {4}, .dtype = DType::kQint32},
                 {.values = {-1}},
                 {.values = {1}}},
                ToBytes())
        .Doc("Converts quantised numbers to fewer bits and the range that they "
             "span."),
};

}  // namespace
}  // namespace sluice
