/* Kernels in C, for ops declared in C (ops.h). TensorFlow 2.6's names and
 * layout; link with libsluice_c.
 *
 *   static void Twice(void* kernel, TF_OpKernelContext* ctx) { ... }
 *
 *   TF_KernelBuilder* k = TF_NewKernelBuilder("Twice", "CPU", NULL, Twice,
 *                                             NULL);
 *   TF_KernelBuilder_TypeConstraint(k, "T", TF_FLOAT, status);
 *   TF_RegisterKernelBuilder("TwiceFloat", k, status);
 *
 * No exception leaves a function. Null handles do nothing, or give
 * TF_INVALID_ARGUMENT where there is a status. */
#ifndef TENSORFLOW_C_KERNELS_H_
#define TENSORFLOW_C_KERNELS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"

TF_CAPI_BEGIN

/* A registration that is being written; one thread at a time. */
typedef struct TF_KernelBuilder TF_KernelBuilder;
/* The node that a kernel is made for. Valid within create_func. */
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;
/* One run of a kernel: inputs, and room for outputs. Valid within compute_func,
 * on one thread at a time. */
typedef struct TF_OpKernelContext TF_OpKernelContext;
/* The stream of a device (TF_GetStream). */
typedef struct SP_Stream_st* SP_Stream;

/* A library that TF_LoadLibrary loads may define this. It is called once, and
 * registers the library's ops and kernels. (They may also be registered in a
 * constructor of the library.) */
void TF_InitKernel(void);

/* ---- Registration ------------------------------------------------------- */

/* A kernel of an op for the devices of a type: "CPU", or "DEFAULT" for any
 * device that has none. Kernels for other devices are kept and never run.
 *
 * create_func (may be null) is called once for a node of a step that is
 * prepared (once for a session if the op is stateful), on the thread that
 * prepares it; more often to compute the node ahead of steps, to find out which
 * device can run it, or to find the node that an error names. What it returns,
 * else null, is the first argument of compute_func, which runs the kernel: on
 * any thread, and on several at the same time. delete_func (may be null) is
 * called once for each call of create_func, also if that failed: when the last
 * step that uses the kernel is gone. */
TF_CAPI_EXPORT TF_KernelBuilder* TF_NewKernelBuilder(
    const char* op_name, const char* device_name,
    void* (*create_func)(TF_OpKernelConstruction*),
    void (*compute_func)(void*, TF_OpKernelContext*),
    void (*delete_func)(void*));
/* The kernel is for nodes whose attribute is this type (for a list of types:
 * consists of it). TF_INVALID_ARGUMENT if it is no type. */
TF_CAPI_EXPORT void TF_KernelBuilder_TypeConstraint(
    TF_KernelBuilder* kernel_builder, const char* attr_name,
    const TF_DataType type, TF_Status* status);
/* Of no effect for kernels of the CPU, whose arguments all are in its memory.
 */
TF_CAPI_EXPORT void TF_KernelBuilder_HostMemory(
    TF_KernelBuilder* kernel_builder, const char* arg_name);
/* If several kernels are for a node, the one with the highest number runs; it
 * is an error if there are two. 0 by default. */
TF_CAPI_EXPORT void TF_KernelBuilder_Priority(TF_KernelBuilder* kernel_builder,
                                              int32_t priority_number);
/* Adds the kernel to those of the process and deletes the builder, on errors
 * too. The op may be declared later. TF_INVALID_ARGUMENT without a
 * compute_func; TF_ALREADY_EXISTS if the op is not declared in C, since such an
 * op has the kernels of its declaration. While TF_LoadLibrary loads a library,
 * an error here makes the load fail. Thread-safe. */
TF_CAPI_EXPORT void TF_RegisterKernelBuilder(const char* kernel_name,
                                             TF_KernelBuilder* builder,
                                             TF_Status* status);
/* Of one that is not registered. Accepts null. */
TF_CAPI_EXPORT void TF_DeleteKernelBuilder(TF_KernelBuilder* builder);

/* ---- Runs --------------------------------------------------------------- */

/* Null, with TF_FAILED_PRECONDITION: CPUs have none. */
TF_CAPI_EXPORT SP_Stream TF_GetStream(TF_OpKernelContext* ctx,
                                      TF_Status* status);
TF_CAPI_EXPORT int TF_NumInputs(TF_OpKernelContext* ctx);
TF_CAPI_EXPORT int TF_NumOutputs(TF_OpKernelContext* ctx);
/* Stores input i, which the caller deletes and must not write. It may be kept
 * when compute_func returns, but no other thread may use it at this time: what
 * is in memory that the step's caller lent (a NumPy array) is copied then. Of a
 * reference, it is the value that the variable has now. On errors, `*tensor`
 * stays as it is: TF_OUT_OF_RANGE if there is no input i,
 * TF_FAILED_PRECONDITION if the variable has no value. */
TF_CAPI_EXPORT void TF_GetInput(TF_OpKernelContext* ctx, int i,
                                TF_Tensor** tensor, TF_Status* status);
/* Makes `tensor`, which stays the caller's, output i. It shares the memory,
 * which must not be written after the kernel has returned. TF_OUT_OF_RANGE if
 * there is no output i, TF_INVALID_ARGUMENT if it is of another type. */
TF_CAPI_EXPORT void TF_SetOutput(TF_OpKernelContext* ctx, int i,
                                 const TF_Tensor* tensor, TF_Status* status);
/* The kernel cannot be made; the steps that need it fail with this status. */
TF_CAPI_EXPORT void TF_OpKernelConstruction_Failure(
    TF_OpKernelConstruction* ctx, TF_Status* status);
/* The step fails with this status; the outputs do not matter. */
TF_CAPI_EXPORT void TF_OpKernelContext_Failure(TF_OpKernelContext* ctx,
                                               TF_Status* status);
/* 0, which is no type, if there is no output i. */
TF_CAPI_EXPORT TF_DataType TF_ExpectedOutputDataType(TF_OpKernelContext* ctx,
                                                     int i);
/* The number of the step in its session; 0 for nodes that are computed ahead
 * of steps. */
TF_CAPI_EXPORT int64_t TF_StepId(TF_OpKernelContext* ctx);

/* Makes output i a tensor of this type, which must be that of the output, and
 * shape, and returns it; the caller deletes it. Plain elements are
 * uninitialised. Strings are empty; what the kernel puts into them becomes the
 * output's. `len` is not used. Null on errors. */
TF_CAPI_EXPORT TF_Tensor* TF_AllocateOutput(TF_OpKernelContext* context,
                                            int index, TF_DataType dtype,
                                            const int64_t* dims, int num_dims,
                                            size_t len, TF_Status* status);
/* The same, but the output is in the memory of the first input among the
 * candidates that nothing else uses and that has its type and as many elements;
 * `*forwarded_input` (may be null) tells which one, or -1. A tensor that
 * TF_GetInput returned counts as a use until it is deleted. The memory has the
 * input's values until the kernel writes it. */
TF_CAPI_EXPORT TF_Tensor* TF_ForwardInputOrAllocateOutput(
    TF_OpKernelContext* context, const int* candidate_input_indices,
    int num_candidate_input_indices, int output_index,
    const int64_t* output_dims, int output_num_dims, int* forwarded_input,
    TF_Status* status);
/* A tensor for the kernel's own use, which the caller deletes. `alloc_attrs`
 * may be null; else its struct_size must be set. Null on errors. */
TF_CAPI_EXPORT TF_Tensor* TF_AllocateTemp(TF_OpKernelContext* context,
                                          TF_DataType dtype,
                                          const int64_t* dims, int num_dims,
                                          TF_AllocatorAttributes* alloc_attrs,
                                          TF_Status* status);

/* ---- Attributes --------------------------------------------------------- */

/* The number of elements of a list, else -1; and the bytes of strings, or the
 * dimensions of shapes, else -1 (also for a shape of unknown rank). */
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrSize(
    TF_OpKernelConstruction* ctx, const char* attr_name, int32_t* list_size,
    int32_t* total_size, TF_Status* status);
/* All of these: TF_INVALID_ARGUMENT if the node has no such attribute, or one
 * of another kind, or an integer does not fit. Lists are stored up to max_vals
 * elements, strings up to max_length bytes, without a 0. */
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrType(
    TF_OpKernelConstruction* ctx, const char* attr_name, TF_DataType* val,
    TF_Status* status);
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrInt32(
    TF_OpKernelConstruction* ctx, const char* attr_name, int32_t* val,
    TF_Status* status);
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrInt64(
    TF_OpKernelConstruction* ctx, const char* attr_name, int64_t* val,
    TF_Status* status);
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrFloat(
    TF_OpKernelConstruction* ctx, const char* attr_name, float* val,
    TF_Status* status);
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrBool(
    TF_OpKernelConstruction* ctx, const char* attr_name, TF_Bool* val,
    TF_Status* status);
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrString(
    TF_OpKernelConstruction* ctx, const char* attr_name, char* val,
    size_t max_length, TF_Status* status);
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrTypeList(
    TF_OpKernelConstruction* ctx, const char* attr_name, TF_DataType* vals,
    int max_vals, TF_Status* status);
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrInt32List(
    TF_OpKernelConstruction* ctx, const char* attr_name, int32_t* vals,
    int max_vals, TF_Status* status);
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrInt64List(
    TF_OpKernelConstruction* ctx, const char* attr_name, int64_t* vals,
    int max_vals, TF_Status* status);
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrFloatList(
    TF_OpKernelConstruction* ctx, const char* attr_name, float* vals,
    int max_vals, TF_Status* status);
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrBoolList(
    TF_OpKernelConstruction* ctx, const char* attr_name, TF_Bool* vals,
    int max_vals, TF_Status* status);
/* The strings are stored one after the other in `storage`;
 * TF_INVALID_ARGUMENT if it is too small. */
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrStringList(
    TF_OpKernelConstruction* ctx, const char* attr_name, char** vals,
    size_t* lengths, int max_values, void* storage, size_t storage_size,
    TF_Status* status);
TF_CAPI_EXPORT bool TF_OpKernelConstruction_HasAttr(
    TF_OpKernelConstruction* ctx, const char* attr_name, TF_Status* status);
/* The node's name; valid as long as its graph. */
TF_CAPI_EXPORT TF_StringView
TF_OpKernelConstruction_GetName(TF_OpKernelConstruction* ctx);

TF_CAPI_END

#endif /* TENSORFLOW_C_KERNELS_H_ */
