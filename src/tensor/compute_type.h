// The type in which arithmetic on a type of elements is done.
#ifndef SLUICE_TENSOR_COMPUTE_TYPE_H_
#define SLUICE_TENSOR_COMPUTE_TYPE_H_

#include <type_traits>

#include "tensor/half.h"

namespace sluice {

// float for 16-bit floats, else the type itself.
template <typename T>
using ComputeType =
    std::conditional_t<std::is_same_v<T, half> || std::is_same_v<T, bfloat16>,
                       float, T>;

}  // namespace sluice

#endif  // SLUICE_TENSOR_COMPUTE_TYPE_H_
