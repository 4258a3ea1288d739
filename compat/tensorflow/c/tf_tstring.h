/* TF_TString: an element of a TF_STRING tensor, 24 bytes, as in TensorFlow 2.4
 * and later. Its first byte's two lowest bits are its type. A TF_TString of
 * zeros is the empty string. */
#ifndef TENSORFLOW_C_TF_TSTRING_H_
#define TENSORFLOW_C_TF_TSTRING_H_

#include <stdint.h>
#include <string.h>

#include "tensorflow/c/tf_tensor.h"

TF_CAPI_BEGIN

typedef enum TF_TString_Type TF_CAPI_ENUM {
  TF_TSTR_SMALL = 0,  /* At most 22 bytes, stored inside. */
  TF_TSTR_LARGE = 1,  /* Memory of malloc, which it owns. */
  TF_TSTR_OFFSET = 2, /* Memory at an offset from itself, not owned. */
  TF_TSTR_VIEW = 3,   /* Memory of another, not owned. */
  TF_TSTR_TYPE_MASK = 3
} TF_TString_Type;

typedef struct TF_TString_Small {
  uint8_t size; /* size << 2 */
  char str[23]; /* Ends with a 0. */
} TF_TString_Small;
typedef struct TF_TString_Large {
  size_t size; /* size << 2 | type */
  size_t cap;
  char* ptr;
} TF_TString_Large;
typedef struct TF_TString_Offset {
  uint32_t size; /* size << 2 | type */
  uint32_t offset;
  uint32_t count;
} TF_TString_Offset;
typedef struct TF_TString_View {
  size_t size; /* size << 2 | type */
  const char* ptr;
} TF_TString_View;
typedef struct TF_TString_Raw {
  uint8_t raw[24];
} TF_TString_Raw;

typedef struct TF_TString {
  union {
    TF_TString_Small smll;
    TF_TString_Large large;
    TF_TString_Offset offset;
    TF_TString_View view;
    TF_TString_Raw raw;
  } u;
} TF_TString;

/* Makes `t`, whose bytes may be anything, the empty string. */
TF_CAPI_EXPORT void TF_StringInit(TF_TString* t);
/* Replaces the value by a copy of the bytes. `dst` is initialised. Without
 * memory for it, `dst` becomes the empty string. */
TF_CAPI_EXPORT void TF_StringCopy(TF_TString* dst, const char* src,
                                  size_t size);
/* Replaces the value by a view: the bytes must outlive it. */
TF_CAPI_EXPORT void TF_StringAssignView(TF_TString* dst, const char* src,
                                        size_t size);
TF_CAPI_EXPORT const char* TF_StringGetDataPointer(const TF_TString* t);
TF_CAPI_EXPORT TF_TString_Type TF_StringGetType(const TF_TString* t);
TF_CAPI_EXPORT size_t TF_StringGetSize(const TF_TString* t);
TF_CAPI_EXPORT size_t TF_StringGetCapacity(const TF_TString* t);
/* Frees what it owns and makes it the empty string. */
TF_CAPI_EXPORT void TF_StringDealloc(TF_TString* t);
/* Changes the size in place and returns the bytes, of which those beyond the
 * old size are uninitialised; a 0 follows them. Views and offsets become
 * copies. Null, with the string unchanged, without memory for it. */
TF_CAPI_EXPORT char* TF_StringResizeUninitialized(TF_TString* t, size_t size);
/* Makes room for `capacity` bytes, if there is memory for it. */
TF_CAPI_EXPORT void TF_StringReserve(TF_TString* t, size_t capacity);
/* Adds bytes, which may be the string's own, in amortised time. Without memory
 * for them the string is unchanged. */
TF_CAPI_EXPORT void TF_StringAppendN(TF_TString* t, const char* src,
                                     size_t size);

TF_CAPI_END

/* ---- Functions that TensorFlow 2.6 defines in headers ------------------- */

static inline void TF_TString_Init(TF_TString* str) { TF_StringInit(str); }
static inline void TF_TString_Dealloc(TF_TString* str) {
  TF_StringDealloc(str);
}
static inline size_t TF_TString_GetSize(const TF_TString* str) {
  return TF_StringGetSize(str);
}
static inline size_t TF_TString_GetCapacity(const TF_TString* str) {
  return TF_StringGetCapacity(str);
}
static inline TF_TString_Type TF_TString_GetType(const TF_TString* str) {
  return TF_StringGetType(str);
}
static inline const char* TF_TString_GetDataPointer(const TF_TString* str) {
  return TF_StringGetDataPointer(str);
}
static inline void TF_TString_Copy(TF_TString* dst, const char* src,
                                   size_t size) {
  TF_StringCopy(dst, src, size);
}
static inline void TF_TString_AssignView(TF_TString* dst, const char* src,
                                         size_t size) {
  TF_StringAssignView(dst, src, size);
}
/* Views and offsets give a view, others a copy. */
static inline void TF_TString_Assign(TF_TString* dst, const TF_TString* src) {
  const TF_TString_Type type = TF_StringGetType(src);
  if (dst == src) return;
  if (type == TF_TSTR_VIEW || type == TF_TSTR_OFFSET)
    TF_StringAssignView(dst, TF_StringGetDataPointer(src),
                        TF_StringGetSize(src));
  else
    TF_StringCopy(dst, TF_StringGetDataPointer(src), TF_StringGetSize(src));
}
/* Leaves `src` empty. (An offset counts from where it is: it becomes a view.)
 */
static inline void TF_TString_Move(TF_TString* dst, TF_TString* src) {
  if (dst == src) return;
  if (TF_StringGetType(src) == TF_TSTR_OFFSET) {
    TF_TString_Assign(dst, src);
  } else {
    TF_StringDealloc(dst);
    *dst = *src;
  }
  TF_StringInit(src);
}

static inline char* TF_TString_ResizeUninitialized(TF_TString* str,
                                                   size_t new_size) {
  return TF_StringResizeUninitialized(str, new_size);
}
/* New bytes are `c`. */
static inline char* TF_TString_Resize(TF_TString* str, size_t new_size,
                                      char c) {
  const size_t size = TF_StringGetSize(str);
  char* bytes = TF_StringResizeUninitialized(str, new_size);
  if (bytes != NULL && new_size > size)
    memset(bytes + size, c, new_size - size);
  return bytes;
}
/* The bytes, to be written: a view or offset becomes a copy first. */
static inline char* TF_TString_GetMutableDataPointer(TF_TString* str) {
  return TF_StringResizeUninitialized(str, TF_StringGetSize(str));
}
static inline void TF_TString_Reserve(TF_TString* str, size_t new_cap) {
  TF_StringReserve(str, new_cap);
}
static inline void TF_TString_ReserveAmortized(TF_TString* str,
                                               size_t new_cap) {
  const size_t now = TF_StringGetCapacity(str);
  if (new_cap > now)
    TF_StringReserve(str, new_cap > 2 * now ? new_cap : 2 * now);
}
static inline void TF_TString_AppendN(TF_TString* dst, const char* src,
                                      size_t src_size) {
  TF_StringAppendN(dst, src, src_size);
}
static inline void TF_TString_Append(TF_TString* dst, const TF_TString* src) {
  TF_StringAppendN(dst, TF_StringGetDataPointer(src), TF_StringGetSize(src));
}

#endif /* TENSORFLOW_C_TF_TSTRING_H_ */
