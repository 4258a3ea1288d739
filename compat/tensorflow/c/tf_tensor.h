/* TF_Tensor: a typed, shaped value in host memory. */
#ifndef TENSORFLOW_C_TF_TENSOR_H_
#define TENSORFLOW_C_TF_TENSOR_H_

#include <stdbool.h>
#include <stdint.h>

#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"

TF_CAPI_BEGIN

/* Elements are in row-major order. Those of TF_STRING are TF_TStrings
 * (tf_tstring.h); those of TF_RESOURCE and TF_VARIANT are not accessible, but
 * such a tensor may be fed where one like it was fetched.
 *
 * A tensor may be used by several threads as long as none writes to it. Steps
 * and constants may share its memory after it is deleted: the deallocator runs
 * when the last of them is done, on that thread. */
typedef struct TF_Tensor TF_Tensor;

/* Takes over `data`, `len` bytes, and calls deallocator(data, len, arg) once,
 * when they are no longer needed: for data that is not aligned to 16 bytes or
 * that has at most 8 bytes, which is copied, within this call. Null, with the
 * deallocator called, if a dimension is negative, the shape overflows or `len`
 * is less than the elements take; or if `data` is null and there are elements,
 * or the type is TF_RESOURCE, TF_VARIANT or none. */
TF_CAPI_EXPORT TF_Tensor* TF_NewTensor(
    TF_DataType dtype, const int64_t* dims, int num_dims, void* data,
    size_t len, void (*deallocator)(void* data, size_t len, void* arg),
    void* deallocator_arg);
/* A tensor with memory of its own, `len` bytes of it, uninitialised. Strings
 * are empty; what is put into them stays the caller's, to be freed with
 * TF_StringDealloc after the last use. Null as for TF_NewTensor, and if there
 * is not enough memory. */
TF_CAPI_EXPORT TF_Tensor* TF_AllocateTensor(TF_DataType dtype,
                                            const int64_t* dims, int num_dims,
                                            size_t len);
/* A new tensor with the value of this one, which is then empty and must still
 * be deleted, if nothing else shares its memory; else null. */
TF_CAPI_EXPORT TF_Tensor* TF_TensorMaybeMove(TF_Tensor* tensor);
/* Accepts null. */
TF_CAPI_EXPORT void TF_DeleteTensor(TF_Tensor* tensor);
TF_CAPI_EXPORT TF_DataType TF_TensorType(const TF_Tensor* tensor);
TF_CAPI_EXPORT int TF_NumDims(const TF_Tensor* tensor);
/* -1 if there is no such dimension. */
TF_CAPI_EXPORT int64_t TF_Dim(const TF_Tensor* tensor, int dim_index);
TF_CAPI_EXPORT size_t TF_TensorByteSize(const TF_Tensor* tensor);
/* Valid as long as the tensor. Null for TF_RESOURCE and TF_VARIANT. Results of
 * steps and attributes must not be written: others may share their memory. */
TF_CAPI_EXPORT void* TF_TensorData(const TF_Tensor* tensor);
TF_CAPI_EXPORT int64_t TF_TensorElementCount(const TF_Tensor* tensor);
/* Makes `to` the bytes of `from` under another type and shape. They share
 * memory. TF_INVALID_ARGUMENT if the numbers of bytes differ, or either type's
 * elements are objects. */
TF_CAPI_EXPORT void TF_TensorBitcastFrom(const TF_Tensor* from,
                                         TF_DataType type, TF_Tensor* to,
                                         const int64_t* new_dims,
                                         int num_new_dims, TF_Status* status);
/* Whether the data is aligned to 64 bytes. */
TF_CAPI_EXPORT bool TF_TensorIsAligned(const TF_Tensor* tensor);

/* The encoding of strings before TensorFlow 2.4: a varint of the length, then
 * the bytes. (Elements of tensors are TF_TStrings.) */
TF_CAPI_EXPORT size_t TF_StringEncodedSize(size_t len);
/* Returns the bytes written; TF_OUT_OF_RANGE if dst is too small. */
TF_CAPI_EXPORT size_t TF_StringEncode(const char* src, size_t src_len,
                                      char* dst, size_t dst_len,
                                      TF_Status* status);
/* Returns the bytes read, and a view of `src`; TF_INVALID_ARGUMENT if it is
 * malformed. */
TF_CAPI_EXPORT size_t TF_StringDecode(const char* src, size_t src_len,
                                      const char** dst, size_t* dst_len,
                                      TF_Status* status);

typedef struct TF_AllocatorAttributes {
  size_t struct_size;
  TF_Bool on_host;
} TF_AllocatorAttributes;
#define TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE \
  TF_OFFSET_OF_END(TF_AllocatorAttributes, on_host)

TF_CAPI_END

#endif /* TENSORFLOW_C_TF_TENSOR_H_ */
