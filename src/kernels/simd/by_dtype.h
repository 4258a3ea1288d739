// Dispatch from an element type as a value to an instance of a template.
//
//   UnaryFn fn = ByDType<UnaryFn>(ComplexTypes(), t, []<class T>() -> UnaryFn {
//     return Loop<Op, T>;
//   });
#ifndef SLUICE_KERNELS_SIMD_BY_DTYPE_H_
#define SLUICE_KERNELS_SIMD_BY_DTYPE_H_

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/half.h"

namespace sluice::simd {

template <class... Ts>
struct Types {};
using FloatTypes = Types<float, double, half, bfloat16>;
using ComplexTypes = Types<complex64, complex128>;
using IntTypes = Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                       uint32_t, uint64_t>;

// Returns pick<T>() for the T that `t` denotes; null if it is not one of Ts.
template <class Fn, class... Ts, class Pick>
Fn ByDType(Types<Ts...>, DType t, const Pick& pick) {
  Fn fn = nullptr;
  ((fn = t == DTypeOf<Ts>() ? pick.template operator()<Ts>() : fn), ...);
  return fn;
}

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_BY_DTYPE_H_
