// The types in which quantised elements are computed.
#ifndef SLUICE_OPS_COMMON_CARRIER_TYPE_H_
#define SLUICE_OPS_COMMON_CARRIER_TYPE_H_

#include "tensor/dtype.h"

namespace sluice {

// The integer type with the same bits and order as a quantised type; else t
// itself.
inline DType CarrierType(DType t) {
  switch (t) {
    case DType::kQint8:
      return DType::kInt8;
    case DType::kQuint8:
      return DType::kUint8;
    case DType::kQint16:
      return DType::kInt16;
    case DType::kQuint16:
      return DType::kUint16;
    case DType::kQint32:
      return DType::kInt32;
    default:
      return t;
  }
}

}  // namespace sluice

#endif  // SLUICE_OPS_COMMON_CARRIER_TYPE_H_
