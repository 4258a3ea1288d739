/* What the headers of the C API share. */
#ifndef TENSORFLOW_C_C_API_MACROS_H_
#define TENSORFLOW_C_C_API_MACROS_H_

#include <stddef.h>

#ifndef TF_CAPI_EXPORT
#define TF_CAPI_EXPORT __attribute__((visibility("default")))
#endif

#ifndef TF_Bool
#define TF_Bool unsigned char
#endif

/* Programs pass any number as an enumeration, which C allows; so does C++ if
 * the underlying type is given (it is C's). */
#ifdef __cplusplus
#define TF_CAPI_ENUM : unsigned int
#else
#define TF_CAPI_ENUM
#endif

#ifdef __cplusplus
#define TF_CAPI_BEGIN extern "C" {
#define TF_CAPI_END }
#else
#define TF_CAPI_BEGIN
#define TF_CAPI_END
#endif

/* The size of a struct up to and including a member, for versioned structs. */
#ifndef TF_OFFSET_OF_END
#define TF_OFFSET_OF_END(TYPE, MEMBER) \
  (offsetof(TYPE, MEMBER) + sizeof(((TYPE*)0)->MEMBER))
#endif

#endif /* TENSORFLOW_C_C_API_MACROS_H_ */
