// Conversion between element types.
#ifndef SLUICE_KERNELS_SIMD_CAST_H_
#define SLUICE_KERNELS_SIMD_CAST_H_

#include "kernels/simd/unary.h"

namespace sluice::simd {

// Between any two of bool, the eight integer types, half, bfloat16, float,
// double and the two complex types. Integers keep their low bits. Float to
// integer drops the fraction; out-of-range values are unspecified. Nonzero
// converts to true. A complex number is replaced by its real part. With
// `truncate`, the bits that a narrower float cannot hold are dropped instead of
// rounded (if the result is half, bfloat16 or float); NaN stays NaN.
UnaryKernel GetCast(DType from, DType to, bool truncate = false);

// The part of GetCast for float and the 16-bit floats, compiled for several
// instruction sets; nullptr for other types.
UnaryFn GetCastHalf(DType from, DType to);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_CAST_H_
