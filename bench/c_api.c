/* The C API of several libraries, by turns: Sluice's and TensorFlow's.
 *
 *   c_api TURNS LIBRARY...      such as libsluice_c.so.0, libtensorflow_cc.so.2
 *
 * Each library is loaded by a process of its own, which measures
 *   capi.session_run.us   TF_SessionRun of x + x for a scalar that is fed,
 *                         with the deletion of the result
 *   capi.import.ms        TF_GraphImportGraphDef of 50,000 nodes that add and
 *                         multiply
 *   capi.step_run.us      sl_step_run of x + x, with x lent and the result
 *                         reused; only of a library that has it
 * and prints the best of all turns, and how many times the last library's the
 * first one's is. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sluice/c_api.h"
#include "tensorflow/c/c_api.h"

enum { kNodes = 50000, kSteps = 20000, kRepetitions = 5, kFigures = 3 };

/* Those that are used, found in the library. */
#define FUNCTIONS(F)                                                      \
  F(TF_NewStatus) F(TF_GetCode) F(TF_Message) F(TF_NewGraph)              \
  F(TF_DeleteGraph) F(TF_NewOperation) F(TF_AddInput) F(TF_SetAttrType)   \
  F(TF_SetAttrShape) F(TF_FinishOperation) F(TF_NewSessionOptions)        \
  F(TF_NewSession) F(TF_SessionRun) F(TF_AllocateTensor) F(TF_TensorData) \
  F(TF_DeleteTensor) F(TF_NewBuffer) F(TF_DeleteBuffer)                   \
  F(TF_GraphToGraphDef) F(TF_GraphImportGraphDef)                         \
  F(TF_NewImportGraphDefOptions)
#define POINTER(NAME) static __typeof__(&NAME) p_##NAME;
FUNCTIONS(POINTER)

/* Those of Sluice's own interface. */
#define NATIVE(F)                                              \
  F(sl_graph_new) F(sl_op) F(sl_session_new) F(sl_tensor_lend) \
  F(sl_step_new) F(sl_step_run) F(sl_tensor_data)
NATIVE(POINTER)
static int has_native = 1;

static TF_Status* status;

static double Now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void Check(const char* what) {
  if (p_TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "%s: %s\n", what, p_TF_Message(status));
  exit(1);
}

static void Load(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "expected a library, got %s\n", dlerror());
    exit(1);
  }
#define FIND(NAME)                                             \
  *(void**)&p_##NAME = dlsym(library, #NAME);                  \
  if (p_##NAME == NULL) {                                      \
    fprintf(stderr, "expected %s in %s, got none\n", #NAME, path); \
    exit(1);                                                   \
  }
  FUNCTIONS(FIND)
#define FIND_IF_ANY(NAME)                   \
  *(void**)&p_##NAME = dlsym(library, #NAME); \
  if (p_##NAME == NULL) has_native = 0;
  NATIVE(FIND_IF_ANY)
  status = p_TF_NewStatus();
}

static TF_Output Placeholder(TF_Graph* graph) {
  TF_OperationDescription* d = p_TF_NewOperation(graph, "Placeholder", "x");
  p_TF_SetAttrType(d, "dtype", TF_FLOAT);
  p_TF_SetAttrShape(d, "shape", NULL, 0);
  const TF_Output x = {p_TF_FinishOperation(d, status), 0};
  Check("placeholder");
  return x;
}

static TF_Output Binary(TF_Graph* graph, const char* op, const char* name,
                        TF_Output a, TF_Output b) {
  TF_OperationDescription* d = p_TF_NewOperation(graph, op, name);
  p_TF_AddInput(d, a);
  p_TF_AddInput(d, b);
  const TF_Output y = {p_TF_FinishOperation(d, status), 0};
  Check(op);
  return y;
}

static double SessionRun(void) {
  TF_Graph* graph = p_TF_NewGraph();
  const TF_Output x = Placeholder(graph);
  const TF_Output y = Binary(graph, "AddV2", "y", x, x);
  TF_Session* session =
      p_TF_NewSession(graph, p_TF_NewSessionOptions(), status);
  Check("session");
  TF_Tensor* in = p_TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(float));
  *(float*)p_TF_TensorData(in) = 21;
  double best = 1e9;
  for (int r = 0; r < kRepetitions; ++r) {
    const double start = Now();
    for (int i = 0; i < kSteps; ++i) {
      TF_Tensor* out = NULL;
      p_TF_SessionRun(session, NULL, &x, &in, 1, &y, &out, 1, NULL, 0, NULL,
                      status);
      if (out == NULL || *(float*)p_TF_TensorData(out) != 42) {
        Check("step");
        exit(1);
      }
      p_TF_DeleteTensor(out);
    }
    const double us = 1e6 * (Now() - start) / kSteps;
    if (us < best) best = us;
  }
  return best;
}

static double Import(void) {
  TF_Graph* graph = p_TF_NewGraph();
  const TF_Output x = Placeholder(graph);
  TF_Output y = x;
  for (int i = 0; i < kNodes - 1; ++i) {
    char name[32];
    snprintf(name, sizeof(name), "layer_%d/op_%d", i / 100, i);
    y = Binary(graph, i % 2 == 0 ? "AddV2" : "Mul", name, y, x);
  }
  TF_Buffer* bytes = p_TF_NewBuffer();
  p_TF_GraphToGraphDef(graph, bytes, status);
  Check("export");
  p_TF_DeleteGraph(graph);
  TF_ImportGraphDefOptions* options = p_TF_NewImportGraphDefOptions();
  double best = 1e9;
  for (int r = 0; r < kRepetitions; ++r) {
    TF_Graph* copy = p_TF_NewGraph();
    const double start = Now();
    p_TF_GraphImportGraphDef(copy, bytes, options, status);
    const double ms = 1e3 * (Now() - start);
    Check("import");
    p_TF_DeleteGraph(copy);
    if (ms < best) best = ms;
  }
  p_TF_DeleteBuffer(bytes);
  return best;
}

static void CheckNative(const sl_status* failed) {
  if (failed == NULL) return;
  fprintf(stderr, "a function of sluice/c_api.h failed\n");
  exit(1);
}

static double NativeStep(void) {
  if (!has_native) return 0;
#define sl_op p_sl_op /* (What SL_OP calls.) */
  sl_graph* graph = NULL;
  sl_session* session = NULL;
  sl_step* step = NULL;
  sl_tensor *in = NULL, *out = NULL;
  float value = 21;
  CheckNative(p_sl_graph_new(&graph));
  const sl_output x = SL_OP(graph, "Placeholder",
                            SL_ATTRS(SL_ATTR_TYPE("dtype", SL_FLOAT),
                                     SL_ATTR_DIMS("shape", NULL, 0)));
  const sl_output y = SL_OP(graph, "AddV2", SL_INPUTS(x, x));
#undef sl_op
  CheckNative(p_sl_session_new(graph, NULL, &session));
  CheckNative(p_sl_step_new(session, &x, 1, &y, 1, &step));
  CheckNative(
      p_sl_tensor_lend(SL_FLOAT, NULL, 0, &value, sizeof(value), &in));
  double best = 1e9;
  for (int r = 0; r < kRepetitions; ++r) {
    const double start = Now();
    for (int i = 0; i < kSteps; ++i) {
      value = (float)i;
      CheckNative(p_sl_step_run(step, &in, &out, NULL));
      if (*(const float*)p_sl_tensor_data(out) != 2 * value) exit(1);
    }
    const double us = 1e6 * (Now() - start) / kSteps;
    if (us < best) best = us;
  }
  return best;
}

/* Measures in a process of its own; false if it failed. */
static int Measure(const char* path, double figures[kFigures]) {
  int ends[2];
  if (pipe(ends) != 0) return 0;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    Load(path);
    const double made[kFigures] = {SessionRun(), Import(), NativeStep()};
    const int ok = write(ends[1], made, sizeof(made)) == sizeof(made);
    _exit(ok ? 0 : 1);
  }
  close(ends[1]);
  const size_t size = sizeof(double) * kFigures;
  const int ok = read(ends[0], figures, size) == (ssize_t)size;
  close(ends[0]);
  waitpid(child, NULL, 0);
  return ok;
}

int main(int argc, char** argv) {
  const int turns = argc > 2 ? atoi(argv[1]) : 0;
  const int libraries = argc - 2;
  if (turns < 1) {
    fprintf(stderr, "usage: c_api TURNS LIBRARY...\n");
    return 2;
  }
  const char* names[kFigures] = {"capi.session_run.us", "capi.import.ms",
                                 "capi.step_run.us"};
  double(*best)[kFigures] = calloc((size_t)libraries, sizeof(*best));
  for (int t = 0; t < turns; ++t)
    for (int l = 0; l < libraries; ++l) {
      double got[kFigures];
      if (!Measure(argv[2 + l], got)) return 1;
      for (int f = 0; f < kFigures; ++f)
        if (t == 0 || got[f] < best[l][f]) best[l][f] = got[f];
    }
  for (int f = 0; f < kFigures; ++f) {
    for (int l = 0; l < libraries; ++l)
      if (best[l][f] > 0)
        printf("%-20s %10.2f  %s\n", names[f], best[l][f], argv[2 + l]);
    if (libraries > 1 && best[libraries - 1][f] > 0)
      printf("%-20s %10.1f  times\n", names[f],
             best[libraries - 1][f] / best[0][f]);
  }
  free(best);
  return 0;
}
