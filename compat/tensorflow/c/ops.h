/* Ops declared in C, and their shape functions. TensorFlow 2.6's names and
 * layout; link with libsluice_c.
 *
 *   static void DeclareTwice(TF_Status* status) {
 *     TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("Twice");
 *     TF_OpDefinitionBuilderAddAttr(op, "T: {float, double}");
 *     TF_OpDefinitionBuilderAddInput(op, "x: T");
 *     TF_OpDefinitionBuilderAddOutput(op, "y: T");
 *     TF_OpDefinitionBuilderSetShapeInferenceFunction(op, TwiceShape);
 *     TF_RegisterOpDefinition(op, status);
 *   }
 *
 * No exception leaves a function. Null handles do nothing, or give
 * TF_INVALID_ARGUMENT where there is a status. */
#ifndef TENSORFLOW_C_OPS_H_
#define TENSORFLOW_C_OPS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"

TF_CAPI_BEGIN

/* A declaration that is being written; one thread at a time. */
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
/* The inputs' shapes, as far as they are known, and room for the outputs'.
 * Valid for one call of a shape function, on its thread. */
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext;
/* A shape whose rank or sizes may be unknown, a value of its owner. */
typedef struct TF_ShapeHandle TF_ShapeHandle;
/* One size, or unknown. */
typedef struct TF_DimensionHandle TF_DimensionHandle;

/* ---- Declarations ------------------------------------------------------- */

/* The name starts with a capital letter; letters, digits and '_' follow. */
TF_CAPI_EXPORT TF_OpDefinitionBuilder* TF_NewOpDefinitionBuilder(
    const char* op_name);
/* Adds the op to those of the process, which all graphs share, and deletes the
 * builder, on errors too. TF_INVALID_ARGUMENT if a part of the declaration is
 * malformed, TF_ALREADY_EXISTS if there is an op of this name. While
 * TF_LoadLibrary loads a library, an error here makes the load fail, and the
 * op exists when the load has succeeded. Thread-safe. */
TF_CAPI_EXPORT void TF_RegisterOpDefinition(TF_OpDefinitionBuilder* builder,
                                            TF_Status* status);
/* Of one that is not registered. Accepts null. */
TF_CAPI_EXPORT void TF_DeleteOpDefinitionBuilder(
    TF_OpDefinitionBuilder* builder);

/* "<name>: <type>" or "<name>: <type> = <default>". The type is string, int,
 * float, bool, type, shape, tensor or func; a set of types, such as numbertype,
 * realnumbertype, quantizedtype or {int32, float}; a set of strings, such as
 * {'SAME', 'VALID'}; "int >= 2"; or a list of one of these: "list(int) >= 2".
 * Defaults are 'text', 2, 0.5, true or false, DT_FLOAT, {} or [2, -1] (a
 * shape), or several in brackets: ['a', 'b']; they must be allowed values.
 * Attributes, inputs and outputs have different names. Mistakes are reported
 * when the op is registered. */
TF_CAPI_EXPORT void TF_OpDefinitionBuilderAddAttr(
    TF_OpDefinitionBuilder* builder, const char* attr_spec);
/* "<name>: <type>", "<name>: <number> * <type>", "<name>: <list of types>", or
 * "<name>: Ref(<type>)", where the type, number or list is an attribute or the
 * type is fixed. The order of the calls is that of the inputs. A Ref is a
 * variable, whose value the kernel reads; an output cannot be one. */
TF_CAPI_EXPORT void TF_OpDefinitionBuilderAddInput(
    TF_OpDefinitionBuilder* builder, const char* input_spec);
TF_CAPI_EXPORT void TF_OpDefinitionBuilderAddOutput(
    TF_OpDefinitionBuilder* builder, const char* output_spec);
/* The order of the inputs does not matter: two of one type, or a number of one
 * type. */
TF_CAPI_EXPORT void TF_OpDefinitionBuilderSetIsCommutative(
    TF_OpDefinitionBuilder* builder, bool is_commutative);
/* A sum-like op of any number of inputs. Exported with the op; nothing here
 * depends on it. */
TF_CAPI_EXPORT void TF_OpDefinitionBuilderSetIsAggregate(
    TF_OpDefinitionBuilder* builder, bool is_aggregate);
/* The outputs depend on more than the inputs and attributes, or a run has
 * effects: nodes are not computed ahead of a step, merged or left out. */
TF_CAPI_EXPORT void TF_OpDefinitionBuilderSetIsStateful(
    TF_OpDefinitionBuilder* builder, bool is_stateful);
/* A reference input may be a variable without a value. A step runs no other op
 * on one: it fails with TF_FAILED_PRECONDITION. */
TF_CAPI_EXPORT void TF_OpDefinitionBuilderSetAllowsUninitializedInput(
    TF_OpDefinitionBuilder* builder, bool allows_uninitialized_input);
/* A note for readers of the op's definition; the op can be used. */
TF_CAPI_EXPORT void TF_OpDefinitionBuilderDeprecated(
    TF_OpDefinitionBuilder* builder, int version, const char* explanation);
/* Called for each node that is made, on the maker's thread, with a status that
 * is TF_OK; setting an error there rejects the node. An output that it does not
 * set is unknown; without a function all are. */
TF_CAPI_EXPORT void TF_OpDefinitionBuilderSetShapeInferenceFunction(
    TF_OpDefinitionBuilder* builder,
    void (*shape_inference_func)(TF_ShapeInferenceContext* ctx,
                                 TF_Status* status));

/* ---- Shape functions ---------------------------------------------------- */

TF_CAPI_EXPORT int64_t
TF_ShapeInferenceContextNumInputs(TF_ShapeInferenceContext* ctx);
/* A shape of unknown rank. */
TF_CAPI_EXPORT TF_ShapeHandle* TF_NewShapeHandle(void);
/* Stores input i in `handle`. TF_INVALID_ARGUMENT if there is none. */
TF_CAPI_EXPORT void TF_ShapeInferenceContextGetInput(
    TF_ShapeInferenceContext* ctx, int i, TF_ShapeHandle* handle,
    TF_Status* status);
/* Copies the shape. TF_INVALID_ARGUMENT if there is no output i. */
TF_CAPI_EXPORT void TF_ShapeInferenceContextSetOutput(
    TF_ShapeInferenceContext* ctx, int i, TF_ShapeHandle* handle,
    TF_Status* status);
/* The caller deletes the result. */
TF_CAPI_EXPORT TF_ShapeHandle* TF_ShapeInferenceContextScalar(
    TF_ShapeInferenceContext* ctx);
/* The caller deletes the result. */
TF_CAPI_EXPORT TF_ShapeHandle* TF_ShapeInferenceContextVectorFromSize(
    TF_ShapeInferenceContext* ctx, size_t size);
/* Unknown. */
TF_CAPI_EXPORT TF_DimensionHandle* TF_NewDimensionHandle(void);
/* TF_INVALID_ARGUMENT if the node has no such attribute, or it is no type. */
TF_CAPI_EXPORT void TF_ShapeInferenceContext_GetAttrType(
    TF_ShapeInferenceContext* ctx, const char* attr_name, TF_DataType* val,
    TF_Status* status);
/* -1 if it is unknown. */
TF_CAPI_EXPORT int64_t TF_ShapeInferenceContextRank(
    TF_ShapeInferenceContext* ctx, TF_ShapeHandle* handle);
/* 1 or 0. */
TF_CAPI_EXPORT int TF_ShapeInferenceContextRankKnown(
    TF_ShapeInferenceContext* ctx, TF_ShapeHandle* handle);
/* Stores in `result` (which may be `handle`) what is known of a shape that has
 * this rank: at least, at most. TF_INVALID_ARGUMENT if its rank is known and
 * another. */
TF_CAPI_EXPORT void TF_ShapeInferenceContextWithRank(
    TF_ShapeInferenceContext* ctx, TF_ShapeHandle* handle, int64_t rank,
    TF_ShapeHandle* result, TF_Status* status);
TF_CAPI_EXPORT void TF_ShapeInferenceContextWithRankAtLeast(
    TF_ShapeInferenceContext* ctx, TF_ShapeHandle* handle, int64_t rank,
    TF_ShapeHandle* result, TF_Status* status);
TF_CAPI_EXPORT void TF_ShapeInferenceContextWithRankAtMost(
    TF_ShapeInferenceContext* ctx, TF_ShapeHandle* handle, int64_t rank,
    TF_ShapeHandle* result, TF_Status* status);
/* Dimension i, from the end if i is negative; unknown if there is none. */
TF_CAPI_EXPORT void TF_ShapeInferenceContextDim(TF_ShapeInferenceContext* ctx,
                                                TF_ShapeHandle* shape_handle,
                                                int64_t i,
                                                TF_DimensionHandle* result);
/* Dimensions [start, end), both from the end if negative and the rank if
 * larger. TF_INVALID_ARGUMENT if they lie before the first one, or start is
 * behind end. */
TF_CAPI_EXPORT void TF_ShapeInferenceContextSubshape(
    TF_ShapeInferenceContext* ctx, TF_ShapeHandle* shape_handle, int64_t start,
    int64_t end, TF_ShapeHandle* result, TF_Status* status);
/* Makes all outputs unknown. It is a shape function itself. */
TF_CAPI_EXPORT void TF_ShapeInferenceContextSetUnknownShape(
    TF_ShapeInferenceContext* ctx, TF_Status* status);
/* 1 or 0. */
TF_CAPI_EXPORT int TF_DimensionHandleValueKnown(TF_DimensionHandle* dim_handle);
/* -1 if it is unknown. */
TF_CAPI_EXPORT int64_t TF_DimensionHandleValue(TF_DimensionHandle* dim_handle);
/* Of unknown rank if one is. TF_INVALID_ARGUMENT above 8 dimensions. */
TF_CAPI_EXPORT void TF_ShapeInferenceContextConcatenateShapes(
    TF_ShapeInferenceContext* ctx, TF_ShapeHandle* first,
    TF_ShapeHandle* second, TF_ShapeHandle* result, TF_Status* status);
/* Both accept null. */
TF_CAPI_EXPORT void TF_DeleteShapeHandle(TF_ShapeHandle* handle);
TF_CAPI_EXPORT void TF_DeleteDimensionHandle(TF_DimensionHandle* handle);

TF_CAPI_END

#endif /* TENSORFLOW_C_OPS_H_ */
