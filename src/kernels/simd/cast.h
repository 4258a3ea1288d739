// Conversion between element types.
#ifndef SLUICE_KERNELS_SIMD_CAST_H_
#define SLUICE_KERNELS_SIMD_CAST_H_

#include <cstdint>

#include "tensor/dtype.h"

namespace sluice::simd {

// Converts n elements on the calling thread; `out` must not overlap `in`
// unless both are the same pointer and the element sizes are equal.
using CastFn = void (*)(const void* in, void* out, int64_t n);

// A value type; default-constructed: "not supported".
struct CastKernel {
  CastFn fn = nullptr;
  uint8_t in_size = 0;   // Bytes per element.
  uint8_t out_size = 0;  // Bytes per element.

  explicit operator bool() const { return fn != nullptr; }

  // As fn, split over IntraOpThreads() if n is large.
  void operator()(const void* in, void* out, int64_t n) const {
    if (n <= kGrain) return fn(in, out, n);
    RunParallel(in, out, n);
  }

 private:
  static constexpr int64_t kGrain = 32768;
  void RunParallel(const void* in, void* out, int64_t n) const;
};

// Between any two of bool, the eight integer types, half, bfloat16, float,
// double and the two complex types. Integers keep their low bits. Float to
// integer drops the fraction; out-of-range values are unspecified. Nonzero
// converts to true. A complex number is replaced by its real part. With
// `truncate`, the bits that a narrower float cannot hold are dropped instead of
// rounded (if the result is half, bfloat16 or float); NaN stays NaN.
CastKernel GetCast(DType from, DType to, bool truncate = false);

// The part of GetCast for float and the 16-bit floats, compiled for several
// instruction sets; nullptr for other types.
CastFn GetCastHalf(DType from, DType to);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_CAST_H_
