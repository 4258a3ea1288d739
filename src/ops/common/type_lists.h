// Type lists shared by many ops, as attributes named T.
#ifndef SLUICE_OPS_COMMON_TYPE_LISTS_H_
#define SLUICE_OPS_COMMON_TYPE_LISTS_H_

namespace sluice {

inline constexpr char kFloatTypes[] = "T: {bfloat16, half, float, double}";
inline constexpr char kFloatOrComplexTypes[] =
    "T: {bfloat16, half, float, double, complex64, complex128}";
inline constexpr char kIntTypes[] =
    "T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}";
// TensorFlow's `realnumbertype`.
inline constexpr char kRealTypes[] =
    "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, "
    "half, uint32, uint64}";
// TensorFlow's `numbertype`.
inline constexpr char kNumberTypes[] =
    "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, "
    "quint8, qint32, bfloat16, qint16, quint16, uint16, complex128, half, "
    "uint32, uint64}";

}  // namespace sluice

#endif  // SLUICE_OPS_COMMON_TYPE_LISTS_H_
