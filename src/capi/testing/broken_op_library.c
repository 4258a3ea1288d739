/* A library whose second declaration is malformed: loading it fails and leaves
 * nothing of the first. */
#include <stddef.h>

#include "sluice/c_api.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"

static void Nothing(void* kernel, TF_OpKernelContext* ctx) {
  (void)kernel;
  (void)ctx;
}

static sl_status* NoGradient(sl_graph* graph, sl_node* node,
                             const sl_output* dy, sl_output* dx, void* data) {
  (void)graph;
  (void)node;
  (void)dy;
  (void)dx;
  (void)data;
  return NULL;
}

void TF_InitKernel(void) {
  TF_Status* status = TF_NewStatus();
  TF_RegisterKernelBuilder(
      "First", TF_NewKernelBuilder("OfBrokenLibrary", "CPU", NULL, Nothing, NULL),
      status);
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("OfBrokenLibrary");
  TF_OpDefinitionBuilderAddOutput(op, "y: float");
  TF_RegisterOpDefinition(op, status);
  sl_status_free(sl_register_gradient("OfBrokenLibrary", NoGradient, NULL));
  op = TF_NewOpDefinitionBuilder("AlsoOfBrokenLibrary");
  TF_OpDefinitionBuilderAddOutput(op, "y: no_such_type");
  TF_RegisterOpDefinition(op, status);
  TF_DeleteStatus(status);
}
