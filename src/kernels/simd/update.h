// In-place updates of parameters and accumulators, one pass over memory each.
// Half and bfloat16 are computed in float. All functions split large n over
// IntraOpThreads() and return false if the type is not supported.
#ifndef SLUICE_KERNELS_SIMD_UPDATE_H_
#define SLUICE_KERNELS_SIMD_UPDATE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "tensor/dtype.h"

namespace sluice::simd {

// out = inputs[0] + inputs[1] + ...; `out` may be inputs[0]. Ints (wrapping),
// floats, complex. REQUIRES: at least one input.
bool AddN(DType t, absl::Span<const void* const> inputs, void* out, int64_t n);

// The functions below support the four float types.

// y += alpha * x; gradient descent with alpha the negative learning rate.
bool Axpy(DType t, double alpha, const void* x, void* y, int64_t n);

// accum += g * g (where update_slots); w -= lr * g / (sqrt(accum) + epsilon).
bool AdagradUpdate(DType t, double lr, double epsilon, bool update_slots,
                   const void* g, void* accum, void* w, int64_t n);

// accum = momentum * accum + g; w -= lr * accum, or, with nesterov,
// w -= lr * (g + momentum * accum).
bool MomentumUpdate(DType t, double lr, double momentum, bool nesterov,
                    const void* g, void* accum, void* w, int64_t n);

// m += (1 - beta1) * (g - m); v += (1 - beta2) * (g*g - v);
// w -= lr * m / (sqrt(v) + epsilon), or, with nesterov, with
// beta1 * m + (1 - beta1) * g for m. The caller corrects lr for the bias.
bool AdamUpdate(DType t, double lr, double beta1, double beta2, double epsilon,
                bool nesterov, const void* g, void* m, void* v, void* w,
                int64_t n);

// AdamUpdate with a gradient of zero: the moments decay, and w moves on by
// them. What both moments are zero of stays as it is, and is not written.
bool AdamDecay(DType t, double lr, double beta1, double beta2, double epsilon,
               bool nesterov, void* m, void* v, void* w, int64_t n);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_UPDATE_H_
