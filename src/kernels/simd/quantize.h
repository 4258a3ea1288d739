// Floats as numbers of a few bits. All functions split large work over
// IntraOpThreads().
#ifndef SLUICE_KERNELS_SIMD_QUANTIZE_H_
#define SLUICE_KERNELS_SIMD_QUANTIZE_H_

#include <cstddef>
#include <cstdint>
#include <limits>

namespace sluice::simd {

// A value v, within [min, max], becomes (v - base) * scale - shift, is rounded,
// and less `offset` is within [low, high]: `low` if it is NaN. What then fits
// no int32 is the lowest. Each operation is rounded once.
struct Quantization {
  enum class Rounding : uint8_t { kHalfAway, kHalfToEven, kDown };
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  float min = -kInfinity, max = kInfinity;
  float base = 0, scale = 1, shift = 0;
  Rounding rounding = Rounding::kHalfAway;
  float offset = 0, low = -kInfinity, high = kInfinity;
};

// Stores the low `bytes` bytes (1, 2 or 4) of each number.
void Quantize(const Quantization& q, const float* in, int64_t n, size_t bytes,
              void* out);

// dx = dy where x is within [min, max], else 0; adds the dy of the smaller x to
// *below and that of the greater to *above.
void ClampGradient(float min, float max, const float* dy, const float* x,
                   int64_t n, float* dx, double* below, double* above);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_QUANTIZE_H_
