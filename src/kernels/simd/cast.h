// Conversion between element types.
#ifndef SLUICE_KERNELS_SIMD_CAST_H_
#define SLUICE_KERNELS_SIMD_CAST_H_

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/simd/unary.h"

namespace sluice::simd {

// A double to half is rounded once: through float it could be rounded twice.
template <class T16>
T16 DoubleTo16(double x) {
  // Round to odd: the last bit of the float records that bits were lost.
  float f = static_cast<float>(x);
  if (static_cast<double>(f) != x && std::isfinite(f)) {
    uint32_t bits = std::bit_cast<uint32_t>(f);
    if (std::fabs(static_cast<double>(f)) > std::fabs(x)) --bits;
    f = std::bit_cast<float>(bits | 1u);
  }
  return T16(f);
}

// Between any two of bool, the eight integer types, half, bfloat16, float,
// double and the two complex types. Integers keep their low bits. Float to
// integer drops the fraction; out-of-range values are unspecified. Nonzero
// converts to true. A complex number is replaced by its real part. With
// `truncate`, the bits that a narrower float cannot hold are dropped instead of
// rounded (if the result is half, bfloat16 or float); NaN stays NaN.
UnaryKernel GetCast(DType from, DType to, bool truncate = false);

// The part of GetCast that is compiled for several instruction sets; nullptr
// for other types.
UnaryFn GetCastHalf(DType from, DType to);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_CAST_H_
