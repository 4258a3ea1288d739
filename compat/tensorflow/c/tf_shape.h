/* TF_Shape: a shape that may be unknown. No function of TensorFlow 2.6's C API
 * sets its dimensions (functions of shape inference take TF_ShapeHandle,
 * ops.h). */
#ifndef TENSORFLOW_C_TF_SHAPE_H_
#define TENSORFLOW_C_TF_SHAPE_H_

#include <stdint.h>

#include "tensorflow/c/c_api_macros.h"

TF_CAPI_BEGIN

typedef struct TF_Shape TF_Shape;

/* A shape of unknown rank; delete it with TF_DeleteShape, which accepts null. */
TF_CAPI_EXPORT TF_Shape* TF_NewShape(void);
TF_CAPI_EXPORT void TF_DeleteShape(TF_Shape* shape);
/* The rank; -1 if it is unknown. */
TF_CAPI_EXPORT int TF_ShapeDims(const TF_Shape* shape);
/* The size of dimension d; -1 if it is unknown, or if there is no such
 * dimension. */
TF_CAPI_EXPORT int64_t TF_ShapeDimSize(const TF_Shape* shape, int d);

TF_CAPI_END

#endif /* TENSORFLOW_C_TF_SHAPE_H_ */
