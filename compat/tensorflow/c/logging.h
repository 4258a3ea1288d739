/* Log lines of op libraries, on standard error: local time, a letter for the
 * level, and the message ("2026-01-31 12:00:00.000001: W message"). Any thread
 * may log; lines do not mix. */
#ifndef TENSORFLOW_C_LOGGING_H_
#define TENSORFLOW_C_LOGGING_H_

#include "tensorflow/c/c_api_macros.h"

TF_CAPI_BEGIN

typedef enum TF_LogLevel TF_CAPI_ENUM {
  TF_INFO = 0,
  TF_WARNING = 1,
  TF_ERROR = 2,
  TF_FATAL = 3
} TF_LogLevel;

/* Writes a line, in the format of printf. The environment variable
 * TF_CPP_MIN_LOG_LEVEL, read at the first call, is the lowest level that is
 * written (0). TF_FATAL is always written, and ends the process (abort()). A
 * null format writes nothing. */
TF_CAPI_EXPORT void TF_Log(TF_LogLevel level, const char* fmt, ...);
/* Writes a line of information if `level` is at most the environment variable
 * TF_CPP_MAX_VLOG_LEVEL (0), read at the first call. */
TF_CAPI_EXPORT void TF_VLog(int level, const char* fmt, ...);
/* TF_VLog where the library was built with assertions; else nothing. */
TF_CAPI_EXPORT void TF_DVLog(int level, const char* fmt, ...);

TF_CAPI_END

#endif /* TENSORFLOW_C_LOGGING_H_ */
