// Dispatch from an element type as a value to an instance of a template.
//
//   UnaryFn fn = ByDType<UnaryFn>(ComplexTypes(), t, []<class T>() -> UnaryFn {
//     return Loop<Op, T>;
//   });
#ifndef SLUICE_KERNELS_SIMD_BY_DTYPE_H_
#define SLUICE_KERNELS_SIMD_BY_DTYPE_H_

#include <cstdint>

#include "tensor/computed_types.h"
#include "tensor/dtype.h"
#include "tensor/half.h"

namespace sluice::simd {

template <class... Ts>
struct Types {};
using FloatTypes = Types<float, double, half, bfloat16>;
using ComplexTypes = Types<complex64, complex128>;
using IntTypes = Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                       uint32_t, uint64_t>;

// Returns pick<T>() for the T that `t` denotes; Fn() (null) if it is not one of
// Ts, or one that this build does not compute with.
template <class Fn, class... Ts, class Pick>
Fn ByDType(Types<Ts...>, DType t, const Pick& pick) {
  Fn fn = {};
  const auto choose = [&]<class T>() {
    if constexpr (kIsComputed<T>)
      if (t == DTypeOf<T>()) fn = pick.template operator()<T>();
  };
  (choose.template operator()<Ts>(), ...);
  return fn;
}

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_BY_DTYPE_H_
