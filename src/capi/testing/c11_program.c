/* A program in C11: builds (x + 2), runs it, returns the sum; -1 on errors. */
#include <stddef.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

int sluice_c11_program(int x);

static int IsOk(TF_Status* status) { return TF_GetCode(status) == TF_OK; }

int sluice_c11_program(int x) {
  int result = -1;
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();

  TF_OperationDescription* desc = TF_NewOperation(graph, "Placeholder", "x");
  TF_SetAttrType(desc, "dtype", TF_INT32);
  TF_Operation* feed = TF_FinishOperation(desc, status);

  int32_t two = 2;
  TF_Tensor* value = TF_AllocateTensor(TF_INT32, NULL, 0, sizeof(two));
  memcpy(TF_TensorData(value), &two, sizeof(two));
  desc = TF_NewOperation(graph, "Const", "two");
  TF_SetAttrTensor(desc, "value", value, status);
  TF_SetAttrType(desc, "dtype", TF_INT32);
  TF_Operation* constant = TF_FinishOperation(desc, status);
  TF_DeleteTensor(value);

  desc = TF_NewOperation(graph, "AddV2", "sum");
  TF_AddInput(desc, (TF_Output){feed, 0});
  TF_AddInput(desc, (TF_Output){constant, 0});
  TF_Operation* sum = TF_FinishOperation(desc, status);

  TF_Session* session = TF_NewSession(graph, NULL, status);
  if (IsOk(status)) {
    TF_Output in = {feed, 0};
    TF_Output out = {sum, 0};
    TF_Tensor* given = TF_AllocateTensor(TF_INT32, NULL, 0, sizeof(int32_t));
    TF_Tensor* got = NULL;
    memcpy(TF_TensorData(given), &x, sizeof(int32_t));
    TF_SessionRun(session, NULL, &in, &given, 1, &out, &got, 1, NULL, 0, NULL,
                  status);
    if (IsOk(status)) result = *(int32_t*)TF_TensorData(got);
    TF_DeleteTensor(given);
    TF_DeleteTensor(got);
  }
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return result;
}
