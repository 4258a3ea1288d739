// Element types. The values are those of TensorFlow's DataType enum and are
// stored in every GraphDef and checkpoint. DO NOT CHANGE.
//
//   DType type = DTypeOf<int64_t>();                        // DType::kInt64
//   std::string name = DTypeName(type);                     // "int64"
//   std::optional<DType> parsed = ParseDType("DT_STRING");  // DType::kString
#ifndef SLUICE_TENSOR_DTYPE_H_
#define SLUICE_TENSOR_DTYPE_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/half.h"

namespace sluice {

enum class DType : uint8_t {
  kInvalid = 0,
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kQint8 = 11,
  kQuint8 = 12,
  kQint32 = 13,
  kBfloat16 = 14,
  kQint16 = 15,
  kQuint16 = 16,
  kUint16 = 17,
  kComplex128 = 18,
  kHalf = 19,
  kResource = 20,
  kVariant = 21,
  kUint32 = 22,
  kUint64 = 23,
};

// A reference type (an edge that carries a variable, not a value) is the value
// type plus 100, as in TensorFlow.
inline constexpr int kRefOffset = 100;
inline bool IsRef(DType t) { return static_cast<int>(t) > kRefOffset; }
inline DType MakeRef(DType t) {
  return IsRef(t) ? t : static_cast<DType>(static_cast<int>(t) + kRefOffset);
}
inline DType RemoveRef(DType t) {
  return IsRef(t) ? static_cast<DType>(static_cast<int>(t) - kRefOffset) : t;
}

// Bytes per element; 0 for kInvalid and for types whose elements are objects
// (string, resource, variant).
size_t DTypeSize(DType t);

// "float", "int32", "float_ref": the names of TensorFlow's attribute syntax.
std::string DTypeName(DType t);

// Accepts "float", "float32", "DT_FLOAT", and the same with a "_ref" suffix.
std::optional<DType> ParseDType(std::string_view name);

// True if `value` is one of the enumerators (reference types included).
bool IsValidDType(int value);

inline bool IsFloating(DType t) {
  return t == DType::kFloat || t == DType::kDouble || t == DType::kHalf ||
         t == DType::kBfloat16;
}
inline bool IsComplex(DType t) {
  return t == DType::kComplex64 || t == DType::kComplex128;
}
bool IsInteger(DType t);  // Signed or unsigned, not quantised, not bool.
bool IsQuantized(DType t);
// Elements are bytes that may be copied by memcpy.
inline bool IsPlain(DType t) { return DTypeSize(t) != 0; }

// Quantised types have distinct C++ types so that kernels can distinguish them.
struct qint8 {
  int8_t value;
};
struct quint8 {
  uint8_t value;
};
struct qint16 {
  int16_t value;
};
struct quint16 {
  uint16_t value;
};
struct qint32 {
  int32_t value;
};

using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

struct ResourceHandle;  // tensor/object.h
class Variant;          // tensor/object.h

// DTypeOf<float>() == DType::kFloat.
template <typename T>
constexpr DType DTypeOf();
#define SLUICE_DTYPE_OF(cpp, enumerator) \
  template <>                            \
  constexpr DType DTypeOf<cpp>() {       \
    return DType::enumerator;            \
  }
SLUICE_DTYPE_OF(float, kFloat)
SLUICE_DTYPE_OF(double, kDouble)
SLUICE_DTYPE_OF(int32_t, kInt32)
SLUICE_DTYPE_OF(uint8_t, kUint8)
SLUICE_DTYPE_OF(int16_t, kInt16)
SLUICE_DTYPE_OF(int8_t, kInt8)
SLUICE_DTYPE_OF(std::string, kString)
SLUICE_DTYPE_OF(complex64, kComplex64)
SLUICE_DTYPE_OF(int64_t, kInt64)
SLUICE_DTYPE_OF(bool, kBool)
SLUICE_DTYPE_OF(qint8, kQint8)
SLUICE_DTYPE_OF(quint8, kQuint8)
SLUICE_DTYPE_OF(qint32, kQint32)
SLUICE_DTYPE_OF(bfloat16, kBfloat16)
SLUICE_DTYPE_OF(qint16, kQint16)
SLUICE_DTYPE_OF(quint16, kQuint16)
SLUICE_DTYPE_OF(uint16_t, kUint16)
SLUICE_DTYPE_OF(complex128, kComplex128)
SLUICE_DTYPE_OF(half, kHalf)
SLUICE_DTYPE_OF(ResourceHandle, kResource)
SLUICE_DTYPE_OF(Variant, kVariant)
SLUICE_DTYPE_OF(uint32_t, kUint32)
SLUICE_DTYPE_OF(uint64_t, kUint64)
#undef SLUICE_DTYPE_OF

}  // namespace sluice

#endif  // SLUICE_TENSOR_DTYPE_H_
