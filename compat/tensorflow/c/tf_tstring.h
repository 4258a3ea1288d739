/* TF_TString: an element of a TF_STRING tensor, 24 bytes, as in TensorFlow 2.4
 * and later. Its first byte's two lowest bits are its type. A TF_TString of
 * zeros is the empty string. */
#ifndef TENSORFLOW_C_TF_TSTRING_H_
#define TENSORFLOW_C_TF_TSTRING_H_

#include <stdint.h>

#include "tensorflow/c/tf_tensor.h"

TF_CAPI_BEGIN

typedef enum TF_TString_Type {
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

TF_CAPI_END

#endif /* TENSORFLOW_C_TF_TSTRING_H_ */
