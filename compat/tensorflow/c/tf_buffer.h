/* TF_Buffer: bytes with their deallocator; serialised protocol buffers. */
#ifndef TENSORFLOW_C_TF_BUFFER_H_
#define TENSORFLOW_C_TF_BUFFER_H_

#include "tensorflow/c/c_api_macros.h"

TF_CAPI_BEGIN

typedef struct TF_Buffer {
  const void* data;
  size_t length;
  void (*data_deallocator)(void* data, size_t length); /* Null: not owned. */
} TF_Buffer;

/* A buffer with a copy of the bytes; null if there is no memory for it. */
TF_CAPI_EXPORT TF_Buffer* TF_NewBufferFromString(const void* proto,
                                                 size_t proto_len);
/* An empty buffer, which the caller or a function fills. */
TF_CAPI_EXPORT TF_Buffer* TF_NewBuffer(void);
/* Calls the deallocator of the data, if there is one. Accepts null. */
TF_CAPI_EXPORT void TF_DeleteBuffer(TF_Buffer* buffer);
TF_CAPI_EXPORT TF_Buffer TF_GetBuffer(TF_Buffer* buffer);

TF_CAPI_END

#endif /* TENSORFLOW_C_TF_BUFFER_H_ */
