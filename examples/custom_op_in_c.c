/* An op, its kernel and its gradient in C, as a library: it needs nothing of
 * Sluice's C++.
 *
 *   cc -std=c11 -shared -fPIC -o custom_op_in_c.so custom_op_in_c.c \
 *     $(pkg-config --cflags --libs sluice_c)
 *
 * tf.load_op_library("custom_op_in_c.so").scaled_reverse(x, factor=10.0) in
 * Python, LoadOpLibrary in C++ and TF_LoadLibrary in C load it. */
#include <stdint.h>
#include <stdlib.h>

#include "sluice/c_api.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"

/* The output has the shape of the input, a vector. */
static void ScaledReverseShape(TF_ShapeInferenceContext* ctx,
                               TF_Status* status) {
  TF_ShapeHandle* shape = TF_NewShapeHandle();
  TF_ShapeInferenceContextGetInput(ctx, 0, shape, status);
  if (TF_GetCode(status) == TF_OK)
    TF_ShapeInferenceContextWithRank(ctx, shape, 1, shape, status);
  if (TF_GetCode(status) == TF_OK)
    TF_ShapeInferenceContextSetOutput(ctx, 0, shape, status);
  TF_DeleteShapeHandle(shape);
}

/* What a kernel knows of its node. All steps read it, and none writes it. */
typedef struct {
  float factor;
} ScaledReverse;

static void* NewScaledReverse(TF_OpKernelConstruction* ctx) {
  ScaledReverse* made = malloc(sizeof(*made));
  TF_Status* status = TF_NewStatus();
  TF_OpKernelConstruction_GetAttrFloat(ctx, "factor", &made->factor, status);
  if (TF_GetCode(status) == TF_OK && made->factor == 0)
    TF_SetStatus(status, TF_INVALID_ARGUMENT, "factor: expected not 0, got 0");
  if (TF_GetCode(status) != TF_OK) TF_OpKernelConstruction_Failure(ctx, status);
  TF_DeleteStatus(status);
  return made;
}

/* Reads its inputs, sets every output, keeps nothing. */
static void RunScaledReverse(void* kernel, TF_OpKernelContext* ctx) {
  const float factor = ((ScaledReverse*)kernel)->factor;
  TF_Status* status = TF_NewStatus();
  TF_Tensor* x = NULL;
  TF_Tensor* y = NULL;
  TF_GetInput(ctx, 0, &x, status);
  if (TF_GetCode(status) == TF_OK) {
    int64_t n = TF_Dim(x, 0);
    y = TF_AllocateOutput(ctx, 0, TF_FLOAT, &n, 1, TF_TensorByteSize(x),
                          status);
    if (TF_GetCode(status) == TF_OK) {
      const float* from = TF_TensorData(x);
      float* to = TF_TensorData(y);
      for (int64_t i = 0; i < n; ++i) to[i] = factor * from[n - 1 - i];
    }
  }
  if (TF_GetCode(status) != TF_OK) TF_OpKernelContext_Failure(ctx, status);
  TF_DeleteTensor(x);
  TF_DeleteTensor(y);
  TF_DeleteStatus(status);
}

/* Element i of x is multiplied and goes to place n - 1 - i of y, so that its
 * slope comes from there: dx is the op itself, of dy. */
static sl_status* ScaledReverseGradient(sl_graph* graph, sl_node* node,
                                        const sl_output* dy, sl_output* dx,
                                        void* data) {
  (void)data;
  sl_attr factor;
  SL_TRY(sl_node_attr(node, "factor", &factor));
  dx[0] = SL_OP(graph, "ScaledReverse", SL_INPUTS(dy[0]),
                SL_ATTRS(SL_ATTR_FLOAT("factor", factor.value.f)));
  return NULL;
}

/* Called once, when the library is loaded. Errors make the load fail. */
void TF_InitKernel(void) {
  TF_Status* status = TF_NewStatus();
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("ScaledReverse");
  TF_OpDefinitionBuilderAddAttr(op, "factor: float = 1.0");
  TF_OpDefinitionBuilderAddInput(op, "x: float");
  TF_OpDefinitionBuilderAddOutput(op, "y: float");
  TF_OpDefinitionBuilderSetShapeInferenceFunction(op, ScaledReverseShape);
  TF_RegisterOpDefinition(op, status);
  TF_KernelBuilder* kernel = TF_NewKernelBuilder(
      "ScaledReverse", "CPU", NewScaledReverse, RunScaledReverse, free);
  TF_RegisterKernelBuilder("ScaledReverse", kernel, status);
  TF_DeleteStatus(status);
  sl_status_free(
      sl_register_gradient("ScaledReverse", ScaledReverseGradient, NULL));
}
