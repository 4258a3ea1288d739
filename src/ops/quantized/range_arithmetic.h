// Numbers in a few bits: a quantised tensor and a range of floats whose ends
// correspond to the lowest and the highest value of its type. The arithmetic is
// TensorFlow's to the bit: results depend on which steps use float, which use
// double, and where values are rounded.
#ifndef SLUICE_OPS_QUANTIZED_RANGE_ARITHMETIC_H_
#define SLUICE_OPS_QUANTIZED_RANGE_ARITHMETIC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/simd/quantize.h"

namespace sluice::quantized {

inline constexpr char kTypes[] = "qint8, quint8, qint32, qint16, quint16";

// The lowest and highest values of a quantised type.
struct TypeLimits {
  int bits = 0;
  int64_t low = 0, high = 0;
  double steps() const { return static_cast<double>(int64_t{1} << bits); }
};
// REQUIRES: IsQuantized(t).
TypeLimits LimitsOf(DType t);

// The floats that the lowest and highest values represent.
struct Range {
  float min = 0, max = 0;
};

// v as an integer; out of range or NaN gives the lowest int64, as the
// processor's conversion does.
int64_t ToInt64(double v);

// One number at a time, in double.
int64_t QuantizeUnclamped(float v, Range r, const TypeLimits& l);
int64_t Quantize(float v, Range r, const TypeLimits& l);  // Within the limits.
float Dequantize(int64_t q, Range r, const TypeLimits& l);
// The float distance between adjacent values of the type.
float LevelOf(Range r, const TypeLimits& l);
// The ranges of products and of sums of two quantised numbers.
Range ProductRange(Range a, const TypeLimits& la, Range b, const TypeLimits& lb,
                   const TypeLimits& product);
// (2^headroom times the larger, symmetric about zero.)
Range SumRange(Range a, Range b, int headroom);

// Converts many numbers in float, with one multiplication and one addition
// each.
class Dequantizer {
 public:
  Dequantizer(Range r, const TypeLimits& l);
  float operator()(int32_t q) const {
    return base_ + static_cast<float>(q) * scale_;
  }

 private:
  float scale_, base_;
};
class Quantizer {
 public:
  Quantizer(Range r, const TypeLimits& l);
  int32_t operator()(float v) const;
  // The same for simd::Quantize.
  simd::Quantization arithmetic() const {
    return {.scale = scale_, .offset = offset_, .low = low_, .high = high_};
  }

 private:
  float scale_, offset_, low_, high_;
};

// ---- Kernels ----------------------------------------------------------------

// The one number in input i.
Result<float> FloatInput(const KernelContext& ctx, int i, const char* name);
// The range in inputs i and i + 1; with `rising`, requires max > min.
Result<Range> RangeInput(const KernelContext& ctx, int i, const char* name,
                         bool rising = false);
// Sets outputs i and i + 1.
void SetRange(KernelContext& ctx, int i, Range r);

// The elements of a quantised tensor as integers, minus `offset` (wrapping).
std::vector<int32_t> Widen(const Tensor& t, int64_t offset = 0);
// The reverse; values must be within the limits of the tensor's type.
void Narrow(const int32_t* from, Tensor* to);

// ---- Declarations -----------------------------------------------------------

// "name: {all quantised types}", with a default. Never freed, since
// declarations are read later.
const char* TypeAttr(const char* name, const char* by_default = nullptr);
// A builder that sets the family and the reason why there is no gradient.
OpDefBuilder Op(const char* name);

// Output 0 has the shape of input 0, the others are scalars.
Status LikeFirstShape(ShapeContext& c);
// InvalidArgument unless what is known of inputs [first, end) are scalars.
Status RequireScalars(ShapeContext& c, int first, int end);

}  // namespace sluice::quantized

#endif  // SLUICE_OPS_QUANTIZED_RANGE_ARITHMETIC_H_
