// The memory that one element of a tensor takes.
#ifndef SLUICE_TENSOR_ELEMENT_BYTES_H_
#define SLUICE_TENSOR_ELEMENT_BYTES_H_

#include <cstddef>
#include <string>

#include "tensor/tensor.h"

namespace sluice {

// The size of an element, or of the handle of an object: the distance between
// adjacent elements.
inline size_t ElementBytes(DType t) {
  switch (t) {
    case DType::kString:
      return sizeof(std::string);
    case DType::kResource:
      return sizeof(ResourceHandle);
    case DType::kVariant:
      return sizeof(Variant);
    default:
      return DTypeSize(t);
  }
}

}  // namespace sluice

#endif  // SLUICE_TENSOR_ELEMENT_BYTES_H_
