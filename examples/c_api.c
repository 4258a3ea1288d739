/* The C API: builds the square of x, and its gradient, and runs both.
 *
 *   cc -std=c11 c_api.c $(pkg-config --cflags --libs sluice_c)
 */
#include "tensorflow/c/c_api.h"

#include <stdio.h>
#include <string.h>

int main(void) {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();

  TF_OperationDescription* desc = TF_NewOperation(graph, "Placeholder", "x");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", NULL, 0);
  TF_Output x = {TF_FinishOperation(desc, status), 0};

  desc = TF_NewOperation(graph, "Square", "y");
  TF_AddInput(desc, x);
  TF_Output y = {TF_FinishOperation(desc, status), 0};

  TF_Output slope = {NULL, 0};
  if (TF_GetCode(status) == TF_OK)
    TF_AddGradients(graph, &y, 1, &x, 1, NULL, status, &slope);

  TF_Session* session = NULL;
  if (TF_GetCode(status) == TF_OK) session = TF_NewSession(graph, NULL, status);
  if (session != NULL) {
    const float three = 3;
    TF_Tensor* in = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(three));
    memcpy(TF_TensorData(in), &three, sizeof(three));
    const TF_Output fetches[] = {y, slope};
    TF_Tensor* out[] = {NULL, NULL};
    TF_SessionRun(session, NULL, &x, &in, 1, fetches, out, 2, NULL, 0, NULL,
                  status);
    if (TF_GetCode(status) == TF_OK)
      printf("y = %g, dy/dx = %g\n", *(float*)TF_TensorData(out[0]),
             *(float*)TF_TensorData(out[1]));
    TF_DeleteTensor(in);
    TF_DeleteTensor(out[0]);
    TF_DeleteTensor(out[1]);
  }
  const int failed = TF_GetCode(status) != TF_OK;
  if (failed) fprintf(stderr, "%s\n", TF_Message(status));
  TF_Status* closed = TF_NewStatus();
  TF_DeleteSession(session, closed);
  TF_DeleteStatus(closed);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return failed;
}
