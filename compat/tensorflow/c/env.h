/* Files, clocks and threads, for libraries of ops. Paths are those of this
 * machine, and "file:///a/b" means "/a/b".
 *
 * Errors of the system have the code of their errno (TF_NOT_FOUND for ENOENT,
 * TF_ALREADY_EXISTS for EEXIST, TF_FAILED_PRECONDITION for ENOTEMPTY,
 * TF_PERMISSION_DENIED, TF_RESOURCE_EXHAUSTED for a full disk) and a message
 * that names the path. A null path, handle or place for a result is
 * TF_INVALID_ARGUMENT. All functions may run on any thread; a handle belongs to
 * one thread at a time. */
#ifndef TENSORFLOW_C_ENV_H_
#define TENSORFLOW_C_ENV_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_file_statistics.h"
#include "tensorflow/c/tf_status.h"

TF_CAPI_BEGIN

typedef struct TF_WritableFileHandle TF_WritableFileHandle;
/* A list of strings with a position. */
typedef struct TF_StringStream TF_StringStream;
typedef struct TF_Thread TF_Thread;

/* ---- Folders and files -------------------------------------------------- */

/* Creates a folder in one that exists. */
TF_CAPI_EXPORT void TF_CreateDir(const char* dirname, TF_Status* status);
/* Deletes an empty folder. */
TF_CAPI_EXPORT void TF_DeleteDir(const char* dirname, TF_Status* status);
/* Deletes a folder and all that is in it, or a file. Links are deleted, not
 * followed. Goes on where something cannot be deleted, counts files and folders
 * that are left (either place may be null), and reports the first error. If
 * nothing is there: TF_NOT_FOUND, with one folder counted. */
TF_CAPI_EXPORT void TF_DeleteRecursively(const char* dirname,
                                         int64_t* undeleted_file_count,
                                         int64_t* undeleted_dir_count,
                                         TF_Status* status);
/* Deletes a file or a link. */
TF_CAPI_EXPORT void TF_DeleteFile(const char* filename, TF_Status* status);
/* Sets *stats unless it fails. Follows links. */
TF_CAPI_EXPORT void TF_FileStat(const char* filename, TF_FileStatistics* stats,
                                TF_Status* status);
/* The names in a folder, sorted, without "." and ".."; empty if it fails. The
 * caller frees it with TF_StringStreamDone. */
TF_CAPI_EXPORT TF_StringStream* TF_GetChildren(const char* filename,
                                               TF_Status* status);
/* Folders for temporary files: the first of $TEST_TMPDIR, $TMPDIR and $TMP that
 * is set, then /tmp; those that exist. The caller frees it with
 * TF_StringStreamDone. */
TF_CAPI_EXPORT TF_StringStream* TF_GetLocalTempDirectories(void);

/* Sets *result to the next string, which the list owns; to null, and returns
 * false, at the end. */
TF_CAPI_EXPORT bool TF_StringStreamNext(TF_StringStream* list,
                                        const char** result);
/* Frees the list. Accepts null. */
TF_CAPI_EXPORT void TF_StringStreamDone(TF_StringStream* list);

/* ---- Writing ------------------------------------------------------------ */

/* Creates a file, or empties the one that is there, and sets *handle unless it
 * fails. The caller closes it. */
TF_CAPI_EXPORT void TF_NewWritableFile(const char* filename,
                                       TF_WritableFileHandle** handle,
                                       TF_Status* status);
TF_CAPI_EXPORT void TF_AppendWritableFile(TF_WritableFileHandle* handle,
                                          const char* data, size_t length,
                                          TF_Status* status);
/* Hands the system what was appended: it is kept if this process ends. */
TF_CAPI_EXPORT void TF_FlushWritableFile(TF_WritableFileHandle* handle,
                                         TF_Status* status);
/* As above, and waits until it is on the disk. */
TF_CAPI_EXPORT void TF_SyncWritableFile(TF_WritableFileHandle* handle,
                                        TF_Status* status);
/* Flushes, closes and frees the handle, which is freed also if this fails. */
TF_CAPI_EXPORT void TF_CloseWritableFile(TF_WritableFileHandle* handle,
                                         TF_Status* status);

/* ---- Clocks ------------------------------------------------------------- */

/* The time since the Unix epoch. */
TF_CAPI_EXPORT uint64_t TF_NowNanos(void);
TF_CAPI_EXPORT uint64_t TF_NowMicros(void);
TF_CAPI_EXPORT uint64_t TF_NowSeconds(void);

/* ---- Threads ------------------------------------------------------------ */

typedef struct TF_ThreadOptions {
  size_t stack_size; /* In bytes; 0: the system's. */
  size_t guard_size; /* In bytes, beside the stack; 0: the system's. */
  int numa_node;     /* Ignored, as TensorFlow does where it has no NUMA. */
} TF_ThreadOptions;

/* The system's sizes, and no NUMA node (-1). */
TF_CAPI_EXPORT void TF_DefaultThreadOptions(TF_ThreadOptions* options);
/* A thread that calls work_func(param). `options` may be null; a longer name
 * than the system's limit of 15 bytes is cut. Null if there is no function, or
 * if the system refuses (its limits, sizes that cannot be had). The caller joins
 * it. */
TF_CAPI_EXPORT TF_Thread* TF_StartThread(const TF_ThreadOptions* options,
                                         const char* thread_name,
                                         void (*work_func)(void*), void* param);
/* Waits for the end of the thread and frees it. Accepts null. */
TF_CAPI_EXPORT void TF_JoinThread(TF_Thread* thread);

TF_CAPI_END

#endif /* TENSORFLOW_C_ENV_H_ */
