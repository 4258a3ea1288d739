/* Element types of tensors. The values are stored in GraphDefs. */
#ifndef TENSORFLOW_C_TF_DATATYPE_H_
#define TENSORFLOW_C_TF_DATATYPE_H_

#include "tensorflow/c/c_api_macros.h"

TF_CAPI_BEGIN

typedef enum TF_DataType TF_CAPI_ENUM {
  TF_FLOAT = 1,
  TF_DOUBLE = 2,
  TF_INT32 = 3,
  TF_UINT8 = 4,
  TF_INT16 = 5,
  TF_INT8 = 6,
  TF_STRING = 7,
  TF_COMPLEX64 = 8,
  TF_COMPLEX = 8, /* Another name of TF_COMPLEX64. */
  TF_INT64 = 9,
  TF_BOOL = 10,
  TF_QINT8 = 11,
  TF_QUINT8 = 12,
  TF_QINT32 = 13,
  TF_BFLOAT16 = 14,
  TF_QINT16 = 15,
  TF_QUINT16 = 16,
  TF_UINT16 = 17,
  TF_COMPLEX128 = 18,
  TF_HALF = 19,
  TF_RESOURCE = 20,
  TF_VARIANT = 21,
  TF_UINT32 = 22,
  TF_UINT64 = 23
} TF_DataType;

/* Bytes of one element; 0 for types whose elements are objects (TF_STRING,
 * TF_RESOURCE, TF_VARIANT) and for values that are no type. Thread-safe. */
TF_CAPI_EXPORT size_t TF_DataTypeSize(TF_DataType dt);

TF_CAPI_END

#endif /* TENSORFLOW_C_TF_DATATYPE_H_ */
