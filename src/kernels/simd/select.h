// Selecting from two arrays, and clamping an array between two bounds.
#ifndef SLUICE_KERNELS_SIMD_SELECT_H_
#define SLUICE_KERNELS_SIMD_SELECT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/simd/broadcast.h"
#include "tensor/dtype.h"

namespace sluice::simd {

// Which operands are arrays; the others are single elements.
struct SelectSteps {
  bool cond = true;
  bool a = true;
  bool b = true;
};

// out[i] = cond[i] ? a[i] : b[i] for elements of 1, 2, 4, 8 or 16 bytes; false
// for any other size. `out` may be the pointer of an array operand. Large n is
// split over threads.
bool Select(size_t element_size, SelectSteps steps, const bool* cond,
            const void* a, const void* b, void* out, int64_t n);

// The same under a broadcast of (cond, a, b). `out` is dense.
bool BroadcastSelect(size_t element_size, const Broadcast<3>& plan,
                     const bool* cond, const void* a, const void* b, void* out);

// out = max(min(x, hi), lo), keeping NaN in x; lo and hi are arrays or, if the
// flag is set, single elements. Ints and floats; false for other types.
bool Clip(DType t, const void* x, const void* lo, bool lo_is_scalar,
          const void* hi, bool hi_is_scalar, void* out, int64_t n);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_SELECT_H_
