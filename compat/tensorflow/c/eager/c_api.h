/* The part of TensorFlow's eager C API that bindings of graph mode link with:
 * contexts, which list devices, and handles of tensors on devices. Sluice has
 * no eager mode: no function here runs an op. */
#ifndef TENSORFLOW_C_EAGER_C_API_H_
#define TENSORFLOW_C_EAGER_C_API_H_

#include "tensorflow/c/c_api.h"

TF_CAPI_BEGIN

/* One thread at a time. */
typedef struct TFE_ContextOptions TFE_ContextOptions;
TF_CAPI_EXPORT TFE_ContextOptions* TFE_NewContextOptions(void);
/* As TF_SetConfig. */
TF_CAPI_EXPORT void TFE_ContextOptionsSetConfig(TFE_ContextOptions* options,
                                                const void* proto,
                                                size_t proto_len,
                                                TF_Status* status);
typedef enum TFE_ContextDevicePlacementPolicy TF_CAPI_ENUM {
  TFE_DEVICE_PLACEMENT_EXPLICIT = 0,
  TFE_DEVICE_PLACEMENT_WARN = 1,
  TFE_DEVICE_PLACEMENT_SILENT = 2,
  TFE_DEVICE_PLACEMENT_SILENT_FOR_INT32 = 3
} TFE_ContextDevicePlacementPolicy;
/* Both are for runs of ops, and have no effect. */
TF_CAPI_EXPORT void TFE_ContextOptionsSetAsync(TFE_ContextOptions* options,
                                               unsigned char enable);
TF_CAPI_EXPORT void TFE_ContextOptionsSetDevicePlacementPolicy(
    TFE_ContextOptions* options, TFE_ContextDevicePlacementPolicy policy);
TF_CAPI_EXPORT void TFE_DeleteContextOptions(TFE_ContextOptions* options);

/* The devices of this process. Thread-safe. Null on errors. */
typedef struct TFE_Context TFE_Context;
TF_CAPI_EXPORT TFE_Context* TFE_NewContext(const TFE_ContextOptions* opts,
                                           TF_Status* status);
TF_CAPI_EXPORT void TFE_DeleteContext(TFE_Context* ctx);
/* Null on errors; the caller deletes it. */
TF_CAPI_EXPORT TF_DeviceList* TFE_ContextListDevices(TFE_Context* ctx,
                                                     TF_Status* status);

/* A tensor on a device; all are in host memory. Immutable. */
typedef struct TFE_TensorHandle TFE_TensorHandle;
/* Shares the memory of plain tensors. Null on errors. */
TF_CAPI_EXPORT TFE_TensorHandle* TFE_NewTensorHandle(const TF_Tensor* t,
                                                     TF_Status* status);
TF_CAPI_EXPORT void TFE_DeleteTensorHandle(TFE_TensorHandle* h);
TF_CAPI_EXPORT TF_DataType TFE_TensorHandleDataType(TFE_TensorHandle* h);
TF_CAPI_EXPORT int TFE_TensorHandleNumDims(TFE_TensorHandle* h,
                                           TF_Status* status);
TF_CAPI_EXPORT int64_t TFE_TensorHandleNumElements(TFE_TensorHandle* h,
                                                   TF_Status* status);
/* TF_INVALID_ARGUMENT, and -1, if there is no such dimension. */
TF_CAPI_EXPORT int64_t TFE_TensorHandleDim(TFE_TensorHandle* h, int dim_index,
                                           TF_Status* status);
/* "/job:localhost/replica:0/task:0/device:CPU:0"; valid as long as the handle.
 * Null on errors. */
TF_CAPI_EXPORT const char* TFE_TensorHandleDeviceName(TFE_TensorHandle* h,
                                                      TF_Status* status);
TF_CAPI_EXPORT const char* TFE_TensorHandleBackingDeviceName(
    TFE_TensorHandle* h, TF_Status* status);
/* TF_INVALID_ARGUMENT if the context has no such CPU. */
TF_CAPI_EXPORT TFE_TensorHandle* TFE_TensorHandleCopyToDevice(
    TFE_TensorHandle* h, TFE_Context* ctx, const char* device_name,
    TF_Status* status);
/* The tensor, sharing its memory, which must not be written. Null on errors;
 * the caller deletes it. */
TF_CAPI_EXPORT TF_Tensor* TFE_TensorHandleResolve(TFE_TensorHandle* h,
                                                  TF_Status* status);

TF_CAPI_END

#endif /* TENSORFLOW_C_EAGER_C_API_H_ */
