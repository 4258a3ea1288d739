/* TF_Status: the outcome of a call. */
#ifndef TENSORFLOW_C_TF_STATUS_H_
#define TENSORFLOW_C_TF_STATUS_H_

#include "tensorflow/c/c_api_macros.h"

TF_CAPI_BEGIN

/* Owned by the caller: one call at a time may use it. Each function that takes
 * one sets it, to TF_OK on success. */
typedef struct TF_Status TF_Status;

typedef enum TF_Code TF_CAPI_ENUM {
  TF_OK = 0,
  TF_CANCELLED = 1,
  TF_UNKNOWN = 2,
  TF_INVALID_ARGUMENT = 3,
  TF_DEADLINE_EXCEEDED = 4,
  TF_NOT_FOUND = 5,
  TF_ALREADY_EXISTS = 6,
  TF_PERMISSION_DENIED = 7,
  TF_RESOURCE_EXHAUSTED = 8,
  TF_FAILED_PRECONDITION = 9,
  TF_ABORTED = 10,
  TF_OUT_OF_RANGE = 11,
  TF_UNIMPLEMENTED = 12,
  TF_INTERNAL = 13,
  TF_UNAVAILABLE = 14,
  TF_DATA_LOSS = 15,
  TF_UNAUTHENTICATED = 16
} TF_Code;

/* TF_OK; delete it with TF_DeleteStatus, which accepts null. */
TF_CAPI_EXPORT TF_Status* TF_NewStatus(void);
TF_CAPI_EXPORT void TF_DeleteStatus(TF_Status* s);
/* `msg` is copied; null counts as "". With TF_OK the message is dropped. */
TF_CAPI_EXPORT void TF_SetStatus(TF_Status* s, TF_Code code, const char* msg);
/* The code that stands for an errno, with "context: its text". */
TF_CAPI_EXPORT void TF_SetStatusFromIOError(TF_Status* s, int error_code,
                                            const char* context);
TF_CAPI_EXPORT TF_Code TF_GetCode(const TF_Status* s);
/* "" if TF_OK. Valid until `s` changes. */
TF_CAPI_EXPORT const char* TF_Message(const TF_Status* s);

TF_CAPI_END

#endif /* TENSORFLOW_C_TF_STATUS_H_ */
