// The types of elements that this build computes with. The small build
// (SLUICE_MINIMAL) moves, casts and stores elements of every type, and computes
// with few.
#ifndef SLUICE_TENSOR_COMPUTED_TYPES_H_
#define SLUICE_TENSOR_COMPUTED_TYPES_H_

#include <cstdint>
#include <type_traits>

#include "tensor/dtype.h"
#include "tensor/half.h"

namespace sluice {

// False if templates of kernels are not to be made for T, a type of elements.
#ifdef SLUICE_FEW_TYPES
template <typename T>
inline constexpr bool kIsComputed =
    !std::is_same_v<T, half> && !std::is_same_v<T, bfloat16> &&
    !std::is_same_v<T, complex64> && !std::is_same_v<T, complex128> &&
    !std::is_same_v<T, int8_t> && !std::is_same_v<T, int16_t> &&
    !std::is_same_v<T, uint16_t> && !std::is_same_v<T, uint32_t> &&
    !std::is_same_v<T, uint64_t>;
#else
template <typename T>
inline constexpr bool kIsComputed = true;
#endif

// The same for a number's type as a value.
constexpr bool IsComputed(DType t) {
  const auto is = [t]<typename... Ts>() {
    return ((t != DTypeOf<Ts>() || kIsComputed<Ts>)&&...);
  };
  return is.template operator()<half, bfloat16, complex64, complex128, int8_t,
                                int16_t, uint16_t, uint32_t, uint64_t>();
}

}  // namespace sluice

#endif  // SLUICE_TENSOR_COMPUTED_TYPES_H_
