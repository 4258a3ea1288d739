/* A library whose second declaration is malformed: loading it fails and leaves
 * nothing of the first. */
#include <stddef.h>

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"

static void Nothing(void* kernel, TF_OpKernelContext* ctx) {
  (void)kernel;
  (void)ctx;
}

void TF_InitKernel(void) {
  TF_Status* status = TF_NewStatus();
  TF_RegisterKernelBuilder(
      "First", TF_NewKernelBuilder("OfBrokenLibrary", "CPU", NULL, Nothing, NULL),
      status);
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("OfBrokenLibrary");
  TF_OpDefinitionBuilderAddOutput(op, "y: float");
  TF_RegisterOpDefinition(op, status);
  op = TF_NewOpDefinitionBuilder("AlsoOfBrokenLibrary");
  TF_OpDefinitionBuilderAddOutput(op, "y: no_such_type");
  TF_RegisterOpDefinition(op, status);
  TF_DeleteStatus(status);
}
