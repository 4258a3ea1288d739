#include "ops/quantized/range_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "ops/common/elements.h"

namespace sluice::quantized {
namespace {

// Calls f(Tag<T>()) with the integer type in which elements are stored.
template <typename F>
void ByStorage(DType t, F&& f) {
  switch (t) {
    case DType::kQint8:
      return f(array::Tag<int8_t>());
    case DType::kQuint8:
      return f(array::Tag<uint8_t>());
    case DType::kQint16:
      return f(array::Tag<int16_t>());
    case DType::kQuint16:
      return f(array::Tag<uint16_t>());
    default:
      return f(array::Tag<int32_t>());
  }
}

}  // namespace

TypeLimits LimitsOf(DType t) {
  TypeLimits l;
  ByStorage(t, [&]<typename T>(array::Tag<T>) {
    l = {static_cast<int>(8 * sizeof(T)), std::numeric_limits<T>::min(),
         std::numeric_limits<T>::max()};
  });
  return l;
}

int64_t ToInt64(double v) {
  constexpr double kEnd = 9223372036854775808.0;  // 2^63
  return v >= -kEnd && v < kEnd ? static_cast<int64_t>(v)
                                : std::numeric_limits<int64_t>::min();
}

int64_t QuantizeUnclamped(float v, Range r, const TypeLimits& l) {
  if (r.min == r.max) return l.low;
  const double adjust = l.steps() / (l.steps() - 1.0);
  const double range = static_cast<double>(r.max - r.min) * adjust;
  const double scale = l.steps() / range;
  const int64_t q = ToInt64(std::round(static_cast<double>(v) * scale) -
                            std::round(static_cast<double>(r.min) * scale));
  return array::WrapAdd<int64_t>(q, l.low);
}

int64_t Quantize(float v, Range r, const TypeLimits& l) {
  return std::clamp(QuantizeUnclamped(v, r, l), l.low, l.high);
}

float Dequantize(int64_t q, Range r, const TypeLimits& l) {
  if (r.min == r.max) return r.min;
  const double adjust = l.steps() / (l.steps() - 1.0);
  const double range = static_cast<double>(r.max - r.min) * adjust;
  const double scale = range / l.steps();
  const auto float_scale = static_cast<float>(scale);
  const double base =
      static_cast<double>(std::round(r.min / float_scale) * float_scale);
  const double steps = static_cast<double>(q) - static_cast<double>(l.low);
  return static_cast<float>(base + steps * scale);
}

float LevelOf(Range r, const TypeLimits& l) {
  return (r.max - r.min) / static_cast<float>(l.high - l.low);
}

Range ProductRange(Range a, const TypeLimits& la, Range b, const TypeLimits& lb,
                   const TypeLimits& product) {
  const float level = LevelOf(a, la) * LevelOf(b, lb);
  return {level * static_cast<float>(product.low),
          level * static_cast<float>(product.high)};
}

Range SumRange(Range a, Range b, int headroom) {
  const float most =
      std::max(a.max, std::max(-a.min, std::max(b.max, -b.min))) *
      static_cast<float>(1 << headroom);
  return {-most, most};
}

Dequantizer::Dequantizer(Range r, const TypeLimits& l)
    : scale_(static_cast<float>(static_cast<double>(r.max - r.min) /
                                (l.steps() - 1.0))) {
  const float rounded =
      r.max == r.min ? r.min : std::round(r.min / scale_) * scale_;
  base_ = rounded - static_cast<float>(l.low) * scale_;
}

Quantizer::Quantizer(Range r, const TypeLimits& l)
    : scale_(r.max == r.min
                 ? 0.0f
                 : static_cast<float>((l.steps() - 1.0) /
                                      static_cast<double>(r.max - r.min))),
      offset_(std::round(r.min * scale_) - static_cast<float>(l.low)),
      low_(std::max(static_cast<float>(l.low), -2.147483648e9f)),
      // (The highest int32 is not representable as a float.)
      high_(std::min(static_cast<float>(l.high), 2.147483520e9f)) {}

int32_t Quantizer::operator()(float v) const {
  const float q = std::round(v * scale_) - offset_;
  // (NaN becomes the lowest.)
  const float at_least = q > low_ ? q : low_;
  return static_cast<int32_t>(at_least < high_ ? at_least : high_);
}

Result<float> FloatInput(const KernelContext& ctx, int i, const char* name) {
  const Tensor& t = ctx.input(i);
  if (t.num_elements() != 1)
    return InvalidArgument(name, ": expected one number, got shape ",
                           t.shape().ToString());
  return *t.raw<float>();
}

Result<Range> RangeInput(const KernelContext& ctx, int i, const char* name,
                         bool rising) {
  Range r;
  SLUICE_ASSIGN_OR_RETURN(r.min, FloatInput(ctx, i, name));
  SLUICE_ASSIGN_OR_RETURN(r.max, FloatInput(ctx, i + 1, name));
  if (rising && !(r.max > r.min))
    return InvalidArgument("range of ", name,
                           ": expected a maximum above the minimum, got ",
                           r.min, " to ", r.max);
  return r;
}

void SetRange(KernelContext& ctx, int i, Range r) {
  ctx.set_output(i, Tensor::Scalar<float>(r.min));
  ctx.set_output(i + 1, Tensor::Scalar<float>(r.max));
}

std::vector<int32_t> Widen(const Tensor& t, int64_t offset) {
  std::vector<int32_t> out(static_cast<size_t>(t.num_elements()));
  const auto less = static_cast<uint32_t>(offset);
  ByStorage(t.dtype(), [&]<typename T>(array::Tag<T>) {
    const T* from = static_cast<const T*>(t.raw());
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<int32_t>(
          static_cast<uint32_t>(static_cast<int32_t>(from[i])) - less);
  });
  return out;
}

void Narrow(const int32_t* from, Tensor* to) {
  ByStorage(to->dtype(), [&]<typename T>(array::Tag<T>) {
    T* out = static_cast<T*>(to->raw());
    for (int64_t i = 0; i < to->num_elements(); ++i)
      out[i] = static_cast<T>(from[i]);
  });
}

// (Never freed: the registry reads it on first use.)
const char* TypeAttr(const char* name, const char* by_default) {
  static auto* const all = new std::set<std::string>;
  std::string s = std::string(name) + ": {" + kTypes + "}";
  if (by_default != nullptr) s += std::string(" = ") + by_default;
  return all->insert(std::move(s)).first->c_str();
}

OpDefBuilder Op(const char* name) {
  OpDefBuilder b(name);
  b.Family("quantized").NoGradient("quantised values are discrete");
  return b;
}

Status LikeFirstShape(ShapeContext& c) {
  c.set_all_outputs(PartialShape::Scalar());
  c.set_output(0, c.input(0));
  return OkStatus();
}

Status RequireScalars(ShapeContext& c, int first, int end) {
  for (int i = first; i < end; ++i) SLUICE_RETURN_IF_ERROR(c.RequireScalar(i));
  return OkStatus();
}

}  // namespace sluice::quantized
