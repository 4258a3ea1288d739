#include "capi/testing/native_program.h"

#include "sluice/c_api.h"

#include <stdio.h>
#include <string.h>

static char text[2000];

static const char* Wrong(int line, const char* what) {
  snprintf(text, sizeof(text), "line %d: %s", line, what);
  return text;
}
static const char* Failed(int line, sl_status* status) {
  Wrong(line, sl_status_message(status));
  sl_status_free(status);
  return text;
}
#define CHECK(CONDITION) \
  if (!(CONDITION)) return Wrong(__LINE__, "expected " #CONDITION)
#define RUN(CALL)                                                  \
  do {                                                             \
    sl_status* const failed = (CALL);                              \
    if (failed != NULL) return Failed(__LINE__, failed);           \
  } while (0)

/* What the programs share: a graph, and one step of it at a time. */
typedef struct {
  sl_graph* graph;
  sl_session* session;
} World;

static const char* Begin(World* w) {
  RUN(sl_graph_new(&w->graph));
  RUN(sl_session_new(w->graph, SL_SESSION_OPTIONS(.intra_op_threads = 1),
                     &w->session));
  return NULL;
}
static void End(World* w) {
  sl_session_free(w->session);
  sl_graph_free(w->graph);
}
#define BEGIN(W)               \
  World W = {NULL, NULL};                \
  do {                                   \
    const char* const begun = Begin(&W); \
    if (begun != NULL) return begun;     \
  } while (0)

static sl_status* Fetch(const World* w, sl_output o, float* value) {
  sl_tensor* result = NULL;
  SL_TRY(sl_session_run(w->session, SL_NO_FEEDS, SL_OUTPUTS(o), &result, NULL));
  if (sl_tensor_size(result) == sizeof(float))
    memcpy(value, sl_tensor_data(result), sizeof(float));
  sl_tensor_free(result);
  return NULL;
}
static float Magnitude(float x) { return x < 0 ? -x : x; }

/* ---- Training ----------------------------------------------------------- */

static sl_output Move(sl_graph* g, sl_output variable, sl_output slope) {
  sl_output step = SL_OP(g, "Mul", SL_INPUTS(slope, SL_SCALAR(g, 0.1f)));
  return SL_OP(g, "AssignSubVariableOp", SL_INPUTS(variable, step));
}

/* Fits y = 3 x - 2. */
const char* sl_test_trains(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  const float xs[] = {-1, 0, 1, 2}, ys[] = {-5, -2, 1, 4};
  sl_output x = SL_CONSTANT(g, SL_FLOAT, SL_SHAPE(4, 1), xs);
  sl_output y = SL_CONSTANT(g, SL_FLOAT, SL_SHAPE(4, 1), ys);
  const float zero[] = {0};
  sl_output slope = SL_VARIABLE(
      g, "slope", SL_CONSTANT(g, SL_FLOAT, SL_SHAPE(1, 1), zero));
  sl_output offset = SL_VARIABLE(g, "offset", SL_SCALAR(g, 0.0f));
  sl_output guess =
      SL_OP(g, "AddV2",
            SL_INPUTS(SL_OP(g, "MatMul", SL_INPUTS(x, SL_READ(g, slope))),
                      SL_READ(g, offset)));
  const int32_t axes[] = {0, 1};
  sl_output loss =
      SL_OP(g, "Mean",
            SL_INPUTS(SL_OP(g, "SquaredDifference", SL_INPUTS(guess, y)),
                      SL_CONSTANT(g, SL_INT32, SL_SHAPE(2), axes)));
  sl_output slopes[2];
  RUN(SL_GRADIENTS(g, SL_OUTPUTS(loss), SL_OUTPUTS(slope, offset), NULL,
                   slopes));
  sl_output train = SL_OP(
      g, "NoOp",
      SL_AFTER(Move(g, slope, slopes[0]), Move(g, offset, slopes[1])));
  float value = 0;
  RUN(Fetch(&w, SL_INITIALIZER(g), &value));
  sl_step* step = NULL;
  sl_tensor* none = NULL;
  RUN(sl_step_new(w.session, NULL, 0, SL_OUTPUTS(train), &step));
  for (int i = 0; i < 200; ++i) RUN(sl_step_run(step, NULL, &none, NULL));
  CHECK(none == NULL);
  sl_step_free(step);
  RUN(Fetch(&w, SL_READ(g, offset), &value));
  CHECK(Magnitude(value + 2) < 1e-3f);
  RUN(Fetch(&w, SL_READ(g, slope), &value));
  CHECK(Magnitude(value - 3) < 1e-3f);
  RUN(Fetch(&w, loss, &value));
  CHECK(value < 1e-5f);
  End(&w);
  return NULL;
}

/* ---- Control flow ------------------------------------------------------- */

static void IsBelow(sl_graph* g, const sl_output* in, sl_output* out,
                    void* data) {
  out[0] = SL_OP(g, "Less", SL_INPUTS(in[0], SL_SCALAR(g, *(int32_t*)data)));
}
static void Multiply(sl_graph* g, const sl_output* in, sl_output* out,
                     void* data) {
  (void)data;
  out[0] = SL_OP(g, "AddV2", SL_INPUTS(in[0], SL_SCALAR(g, 1)));
  out[1] = SL_OP(g, "Mul", SL_INPUTS(in[1], in[2]));
  out[2] = in[2];
}

/* x^5 by a loop, and its derivative. */
const char* sl_test_loops(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  int32_t limit = 5;
  sl_output x = SL_SCALAR(g, 2.0f);
  sl_output results[3], slope;
  RUN(SL_WHILE(g, SL_OUTPUTS(SL_SCALAR(g, 0), SL_SCALAR(g, 1.0f), x), IsBelow,
               Multiply, &limit, SL_WHILE_OPTIONS(.name = "power"), results));
  float value = 0;
  RUN(Fetch(&w, results[1], &value));
  CHECK(value == 32);
  RUN(SL_GRADIENTS(g, SL_OUTPUTS(results[1]), SL_OUTPUTS(x), NULL, &slope));
  RUN(Fetch(&w, slope, &value));
  CHECK(value == 80);
  /* A body that leaves an output as it is. */
  sl_status* s = SL_WHILE(g, SL_OUTPUTS(x, x), IsBelow, IsBelow, &limit, NULL,
                          results);
  CHECK(sl_status_code(s) == SL_INVALID_ARGUMENT);
  CHECK(results[1].node == NULL);
  sl_status_free(s);
  End(&w);
  return NULL;
}

static void Double(sl_graph* g, const sl_output* in, sl_output* out,
                   void* data) {
  (void)in;
  sl_output x = *(sl_output*)data;
  out[0] = SL_OP(g, "AddV2", SL_INPUTS(x, x));
}
static void Negate(sl_graph* g, const sl_output* in, sl_output* out,
                   void* data) {
  (void)in;
  out[0] = SL_OP(g, "Neg", SL_INPUTS(*(sl_output*)data));
}

const char* sl_test_branches(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  sl_output x = SL_OP(g, "Placeholder",
                      SL_ATTRS(SL_ATTR_TYPE("dtype", SL_FLOAT),
                               SL_ATTR_DIMS("shape", NULL, 0)));
  sl_output positive =
      SL_OP(g, "Greater", SL_INPUTS(x, SL_SCALAR(g, 0.0f)));
  sl_output y;
  RUN(SL_COND(g, positive, Double, Negate, &x, &y, 1));
  const float given[] = {3, -4};
  const float expected[] = {6, 4};
  sl_tensor* result = NULL;
  for (int i = 0; i < 2; ++i) {
    sl_tensor* in = NULL;
    RUN(sl_tensor_copy(SL_FLOAT, SL_SCALAR_SHAPE, &given[i], sizeof(float),
                       &in));
    RUN(sl_session_run(w.session, SL_FEEDS({x, in}), SL_OUTPUTS(y), &result,
                       NULL));
    CHECK(*(const float*)sl_tensor_data(result) == expected[i]);
    sl_tensor_free(in);
  }
  sl_tensor_free(result);
  End(&w);
  return NULL;
}

/* fact(n) = n < 2 ? 1 : n * fact(n - 1), which uses itself. */
typedef struct {
  sl_function* self;
  sl_output n;
} Factorial;

static void One(sl_graph* g, const sl_output* in, sl_output* out, void* data) {
  (void)in;
  (void)data;
  out[0] = SL_SCALAR(g, 1.0f);
}
static void Recurse(sl_graph* g, const sl_output* in, sl_output* out,
                    void* data) {
  (void)in;
  Factorial* f = data;
  sl_output less = SL_OP(g, "Sub", SL_INPUTS(f->n, SL_SCALAR(g, 1.0f)));
  sl_output rest;
  sl_status_free(SL_CALL(g, f->self, SL_OUTPUTS(less), &rest, 1));
  out[0] = SL_OP(g, "Mul", SL_INPUTS(f->n, rest));
}
static void Body(sl_graph* g, const sl_output* in, sl_output* out, void* data) {
  Factorial* f = data;
  f->n = in[0];
  sl_output small = SL_OP(g, "Less", SL_INPUTS(in[0], SL_SCALAR(g, 2.0f)));
  sl_status_free(SL_COND(g, small, One, Recurse, f, out, 1));
}

const char* sl_test_functions(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  Factorial f = {NULL, {NULL, 0}};
  RUN(SL_FUNCTION(g, "factorial", SL_TYPES(SL_FLOAT), SL_TYPES(SL_FLOAT), Body,
                  &f, &f.self));
  CHECK(strcmp(sl_function_name(f.self), "factorial") == 0);
  sl_output y;
  RUN(SL_CALL(g, f.self, SL_OUTPUTS(SL_SCALAR(g, 5.0f)), &y, 1));
  float value = 0;
  RUN(Fetch(&w, y, &value));
  CHECK(value == 120);
  sl_output two[2];
  sl_status* s = SL_CALL(g, f.self, SL_OUTPUTS(SL_SCALAR(g, 5.0f)), two, 2);
  CHECK(sl_status_code(s) == SL_INVALID_ARGUMENT);
  sl_status_free(s);
  sl_function_free(f.self);
  End(&w);
  return NULL;
}

/* ---- Errors ------------------------------------------------------------- */

/* Whether the message has the text, and the place in this file. */
static int Says(sl_status* status, const char* what, int line) {
  char place[64];
  snprintf(place, sizeof(place), "native_program.c:%d", line);
  const char* message = sl_status_message(status);
  const int says = strstr(message, what) != NULL &&
                   strstr(message, place) != NULL;
  if (!says) fprintf(stderr, "got '%s', without %s\n", message, place);
  sl_status_free(status);
  return says;
}

const char* sl_test_lines(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  sl_output x = SL_SCALAR(g, 1.0f);
  int line = __LINE__ + 1;
  sl_output unknown = SL_OP(g, "MatMull", SL_INPUTS(x, x));
  CHECK(unknown.node == NULL);
  CHECK(Says(sl_output_status(g, unknown), "nearest: MatMul,", line));
  CHECK(Says(sl_graph_status(g), "MatMull", line));
  /* What is built on it, and a step that fetches that, say the same. */
  sl_output next = SL_OP(g, "Neg", SL_INPUTS(unknown));
  CHECK(Says(sl_output_status(g, next), "MatMull", line));
  float value = 0;
  CHECK(Says(Fetch(&w, next, &value), "MatMull", line));
  sl_graph_forget_errors(g);
  CHECK(sl_graph_status(g) == NULL);

  line = __LINE__ + 1;
  sl_output shapes = SL_OP(g, "MatMul", SL_INPUTS(x, x), .name = "product");
  CHECK(Says(sl_output_status(g, shapes), "node 'product' (MatMul)", line));
  line = __LINE__ + 1;
  sl_output index = SL_OP(g, "Neg", SL_INPUTS(sl_nth(x, 3)));
  CHECK(Says(sl_output_status(g, index), "inputs[0]: expected", line));
  line = __LINE__ + 1;
  sl_output kind = SL_OP(g, "Neg", SL_INPUTS(x), SL_ATTRS({"T", 77, 0, {0}}));
  CHECK(Says(sl_output_status(g, kind), "attribute 'T': kind", line));
  line = __LINE__ + 1;
  sl_output late = SL_OP(g, "Neg", SL_INPUTS(x), SL_AFTER(unknown));
  CHECK(late.node == NULL);

  /* A step's error names the line of the node. */
  const int32_t rows[] = {0, 7};
  sl_output rows_of =
      SL_OP(g, "ExpandDims", SL_INPUTS(x, SL_SCALAR(g, 0)));
  sl_output chosen = SL_CONSTANT(g, SL_INT32, SL_SHAPE(2), rows);
  line = __LINE__ + 1;
  sl_output gathered = SL_OP(g, "Gather", SL_INPUTS(rows_of, chosen));
  CHECK(Says(Fetch(&w, gathered, &value), "(Gather)", line));
  sl_output results[1];
  sl_status* s =
      SL_GRADIENTS(g, SL_OUTPUTS(sl_nth(x, 2)), SL_OUTPUTS(x), NULL, results);
  CHECK(sl_status_code(s) == SL_INVALID_ARGUMENT);
  sl_status_free(s);

  /* Null, and handles of another kind. */
  CHECK(SL_OP(NULL, "NoOp").node == NULL);
  CHECK(SL_OP((sl_graph*)w.session, "NoOp").node == NULL);
  s = sl_session_new((sl_graph*)w.session, NULL, &(sl_session*){NULL});
  CHECK(sl_status_code(s) == SL_INVALID_ARGUMENT);
  sl_status_free(s);
  CHECK(sl_status_code(NULL) == SL_OK);
  CHECK(strcmp(sl_status_message(NULL), "") == 0);
  End(&w);
  return NULL;
}

/* Whether it is an error that has the text. */
static int Refuses(sl_status* status, const char* what) {
  const int says = status != NULL &&
                   strstr(sl_status_message(status), what) != NULL;
  if (!says)
    fprintf(stderr, "got '%s', without '%s'\n", sl_status_message(status),
            what);
  sl_status_free(status);
  return says;
}

/* A slope that failed to build does not count as ones. */
const char* sl_test_slopes(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  sl_output x = SL_SCALAR(g, 3.0f), dx;
  sl_output y = SL_OP(g, "Square", SL_INPUTS(x));
  sl_output wrong = SL_OP(g, "MatMull");
  CHECK(Refuses(SL_GRADIENTS(g, SL_OUTPUTS(y), SL_OUTPUTS(x), &wrong, &dx),
                "MatMull"));
  CHECK(dx.node == NULL);
  const sl_output none = {NULL, 0};
  CHECK(Refuses(SL_GRADIENTS(g, SL_OUTPUTS(y), SL_OUTPUTS(x), &none, &dx),
                "dys[0]: expected an output, got none"));
  sl_output two = SL_SCALAR(g, 2.0f);
  RUN(SL_GRADIENTS(g, SL_OUTPUTS(y), SL_OUTPUTS(x), &two, &dx));
  float value = 0;
  RUN(Fetch(&w, dx, &value));
  CHECK(value == 12);
  End(&w);
  return NULL;
}

/* Output 0 stands for a node without outputs. */
const char* sl_test_nodes_without_outputs(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  sl_output v = SL_VARIABLE(g, "v", SL_SCALAR(g, 1.0f));
  RUN(sl_output_status(g, SL_OP(g, "NoOp")));
  RUN(sl_output_status(g, SL_INITIALIZER(g)));
  RUN(sl_output_status(
      g, SL_OP(g, "AssignVariableOp", SL_INPUTS(v, SL_SCALAR(g, 2.0f)))));
  CHECK(Refuses(sl_output_status(g, sl_nth(SL_OP(g, "NoOp"), 1)), "no output"));
  End(&w);
  return NULL;
}

static void Nothing(sl_graph* g, const sl_output* in, sl_output* out,
                    void* data) {
  (void)g;
  (void)in;
  (void)out;
  (void)data;
}

const char* sl_test_calls_without_results(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  sl_output x = SL_SCALAR(g, 1.0f), result;
  sl_function* f = NULL;
  RUN(SL_FUNCTION(g, "f", SL_TYPES(SL_FLOAT), NULL, 0, Nothing, NULL, &f));
  RUN(SL_CALL(g, f, SL_OUTPUTS(x), NULL, 0));
  const int line = __LINE__ + 1;
  sl_status* s = SL_CALL(g, f, SL_OUTPUTS(x, x), NULL, 0);
  const char* place = strstr(sl_status_message(s), "; at ");
  CHECK(place != NULL && strstr(place + 1, "; at ") == NULL);
  CHECK(Says(s, "expected 1 argument", line));
  CHECK(Refuses(SL_CALL(g, f, SL_OUTPUTS(SL_SCALAR(g, 1)), NULL, 0), "int32"));
  CHECK(Refuses(SL_CALL(g, f, SL_OUTPUTS({NULL, 0}), NULL, 0), "got none"));
  sl_output wrong = SL_OP(g, "MatMull");
  SL_OP(g, "AndAnotherError");
  CHECK(Refuses(SL_CALL(g, f, SL_OUTPUTS(wrong), NULL, 0), "MatMull"));
  CHECK(Refuses(SL_CALL(g, f, SL_OUTPUTS(x), &result, 1), "room for 0"));
  /* Of a graph that keeps no further errors. */
  for (int i = 0; i < 1100; ++i) SL_OP(g, "MatMull");
  RUN(SL_CALL(g, f, SL_OUTPUTS(x), NULL, 0));
  CHECK(Refuses(SL_CALL(g, f, SL_OUTPUTS(x, x), NULL, 0), "expected"));
  sl_function_free(f);
  End(&w);
  return NULL;
}

/* Within a body the slopes of its graph and of the one around it. */
static void Slopes(sl_graph* g, const sl_output* in, sl_output* out,
                   void* data) {
  const sl_output outer = *(const sl_output*)data;
  sl_output y = SL_OP(g, "Mul", SL_INPUTS(in[0], outer));
  sl_status_free(
      SL_GRADIENTS(g, SL_OUTPUTS(y), SL_OUTPUTS(in[0], outer), NULL, out));
}

const char* sl_test_other_graphs(void) {
  BEGIN(w);
  BEGIN(other);
  sl_graph* g = w.graph;
  sl_output x = SL_SCALAR(g, 1.0f), results[2];
  sl_output there = SL_SCALAR(other.graph, 5.0f);
  sl_output y = SL_OP(g, "Neg", SL_INPUTS(x));
  static const char kWhat[] = "expected a node of this graph";
  CHECK(Refuses(SL_GRADIENTS(g, SL_OUTPUTS(there), SL_OUTPUTS(there), NULL,
                             results), kWhat));
  CHECK(Refuses(SL_GRADIENTS(g, SL_OUTPUTS(y), SL_OUTPUTS(there), NULL,
                             results), kWhat));
  CHECK(Refuses(SL_GRADIENTS(g, SL_OUTPUTS(y, there), SL_OUTPUTS(x), NULL,
                             results), kWhat));
  CHECK(Refuses(SL_GRADIENTS(g, SL_OUTPUTS(y), SL_OUTPUTS(x), &there, results),
                kWhat));
  sl_function* f = NULL;
  RUN(SL_FUNCTION(g, "slopes", SL_TYPES(SL_FLOAT), SL_TYPES(SL_FLOAT, SL_FLOAT),
                  Slopes, &x, &f));
  RUN(SL_CALL(g, f, SL_OUTPUTS(SL_SCALAR(g, 7.0f)), results, 2));
  float value = 0;
  RUN(Fetch(&w, results[0], &value));
  CHECK(value == 1);
  RUN(Fetch(&w, results[1], &value));
  CHECK(value == 7);
  sl_function_free(f);
  End(&other);
  End(&w);
  return NULL;
}

static void Twice(sl_graph* g, const sl_output* in, sl_output* out,
                  void* data) {
  (void)data;
  out[0] = SL_OP(g, "AddV2", SL_INPUTS(in[0], in[0]));
}
static void Count2(sl_graph* g, const sl_output* in, sl_output* out,
                   void* data) {
  out[0] = SL_OP(g, "AddV2", SL_INPUTS(in[0], SL_SCALAR(g, 1)));
  Twice(g, in + 1, out + 1, data);
}

/* Results in the array of the arguments. */
const char* sl_test_overlaps(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  float value = 0;
  int32_t limit = 3;
  sl_output both[] = {SL_SCALAR(g, 0), SL_SCALAR(g, 1.0f)};
  RUN(SL_WHILE(g, both, 2, IsBelow, Count2, &limit, NULL, both));
  RUN(Fetch(&w, both[1], &value));
  CHECK(value == 8);
  sl_function* f = NULL;
  RUN(SL_FUNCTION(g, "twice", SL_TYPES(SL_FLOAT), SL_TYPES(SL_FLOAT), Twice,
                  NULL, &f));
  sl_output x = SL_SCALAR(g, 3.0f);
  RUN(SL_CALL(g, f, &x, 1, &x, 1));
  RUN(Fetch(&w, x, &value));
  CHECK(value == 6);
  sl_output y = SL_OP(g, "Square", SL_INPUTS(x));
  RUN(SL_GRADIENTS(g, SL_OUTPUTS(y), &x, 1, NULL, &x));
  RUN(Fetch(&w, x, &value));
  CHECK(value == 12);
  sl_output slope = SL_SCALAR(g, 10.0f), z = SL_SCALAR(g, 2.0f);
  y = SL_OP(g, "Square", SL_INPUTS(z));
  RUN(SL_GRADIENTS(g, SL_OUTPUTS(y), SL_OUTPUTS(z), &slope, &slope));
  RUN(Fetch(&w, slope, &value));
  CHECK(value == 40);
  /* On an error they are null. */
  CHECK(Refuses(SL_CALL(g, NULL, &z, 1, &z, 1), "function"));
  CHECK(z.node == NULL);
  sl_function_free(f);
  End(&w);
  return NULL;
}

/* ---- Nodes -------------------------------------------------------------- */

const char* sl_test_undeclared(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  const float numbers[] = {1, 2, 3, 4};
  sl_output a = SL_CONSTANT(g, SL_FLOAT, SL_SHAPE(2, 2), numbers);
  const sl_attr plain = SL_ATTR_BOOL("transpose_b", 0);
  const sl_attr transposed = SL_ATTR_BOOL("transpose_b", 1);
#define MATMUL(...) \
  SL_OP(g, "MatMul", SL_INPUTS(a, a), SL_ATTRS(__VA_ARGS__))
  int line = __LINE__ + 1;
  sl_output typo = MATMUL(SL_ATTR_BOOL("transposeb", 1));
  CHECK(Says(sl_output_status(g, typo), "'transpose_b'", line));
  CHECK(Refuses(sl_output_status(g, typo), "got 'transposeb'"));
  line = __LINE__ + 1;
  sl_output both = MATMUL(plain, transposed);
  CHECK(Says(sl_output_status(g, both), "expected one value, got two", line));
  RUN(sl_output_status(g, MATMUL(SL_ATTR_STRING("_note", "mine"))));
#undef MATMUL
  End(&w);
  return NULL;
}

const char* sl_test_attributes(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  const float numbers[] = {1, 2, 3, 4, 5, 6};
  sl_output a = SL_CONSTANT(g, SL_FLOAT, SL_SHAPE(2, 3), numbers);
  sl_output b = SL_CONSTANT(g, SL_FLOAT, SL_SHAPE(2, 3), numbers);
  /* By name, in any order. */
  sl_output product = SL_OP(g, "MatMul", SL_NAMED({"b", b}, {"a", a}),
                            SL_ATTRS(SL_ATTR_BOOL("transpose_b", 1)));
  RUN(sl_output_status(g, product));
  CHECK(sl_node_input(product.node, 1).node == b.node);
  int64_t dims[4] = {0, 0, 0, 0};
  CHECK(sl_output_shape(product, dims, 4) == 2 && dims[0] == 2 && dims[1] == 2);
  CHECK(sl_output_dtype(product) == SL_FLOAT);
  sl_attr attr;
  RUN(sl_node_attr(product.node, "transpose_b", &attr));
  CHECK(attr.kind == SL_KIND_BOOL && attr.value.b == 1);
  RUN(sl_node_attr(product.node, "T", &attr));
  CHECK(attr.kind == SL_KIND_TYPE && attr.value.type == SL_FLOAT);
  /* A list of inputs, whose number is inferred. */
  sl_output sum = SL_OP(g, "AddN", SL_NAMED({"inputs", a}, {"inputs", b}));
  RUN(sl_output_status(g, sum));
  RUN(sl_node_attr(sum.node, "N", &attr));
  CHECK(attr.kind == SL_KIND_INT && attr.value.i == 2);
  sl_output parts = SL_OP(
      g, "SplitV",
      SL_INPUTS(a, SL_CONSTANT(g, SL_INT64, SL_SHAPE(2), ((int64_t[]){1, 2})),
                SL_SCALAR(g, 1)),
      SL_ATTRS(SL_ATTR_INT("num_split", 2)));
  CHECK(sl_node_num_outputs(parts.node) == 2);
  CHECK(sl_output_shape(sl_nth(parts, 1), dims, 4) == 2 && dims[1] == 2);
  sl_output image = SL_OP(
      g, "Placeholder",
      SL_ATTRS(SL_ATTR_TYPE("dtype", SL_FLOAT),
               SL_ATTR_SHAPE("shape", -1, 8, 8, 1)));
  sl_output pool = SL_OP(g, "MaxPool", SL_INPUTS(image),
                         SL_ATTRS(SL_ATTR_INTS("ksize", 1, 2, 2, 1),
                                  SL_ATTR_INTS("strides", 1, 2, 2, 1),
                                  SL_ATTR_STRING("padding", "SAME")),
                         .name = "pool/max", .device = "/cpu:0");
  RUN(sl_output_status(g, pool));
  CHECK(strcmp(sl_node_name(pool.node), "pool/max") == 0);
  CHECK(strcmp(sl_node_op(pool.node), "MaxPool") == 0);
  RUN(sl_node_attr(pool.node, "ksize", &attr));
  CHECK(attr.kind == (SL_KIND_INT | SL_KIND_LIST) && attr.count == 4 &&
        attr.value.ints[1] == 2);
  RUN(sl_node_attr(pool.node, "padding", &attr));
  CHECK(attr.count == 4 && memcmp(attr.value.s, "SAME", 4) == 0);
  sl_buffer* proto = NULL;
  RUN(sl_node_attr_proto(pool.node, "ksize", &proto));
  const sl_string bytes = sl_buffer_bytes(proto);
  sl_output same = SL_OP(g, "MaxPool", SL_INPUTS(image),
                         SL_ATTRS({"ksize", SL_KIND_PROTO,
                                   (int64_t)bytes.size, {.s = bytes.data}},
                                  SL_ATTR_INTS("strides", 1, 2, 2, 1),
                                  SL_ATTR_STRING("padding", "SAME")));
  RUN(sl_output_status(g, same));
  sl_buffer_free(proto);
  sl_status* s = sl_node_attr(pool.node, "no", &attr);
  CHECK(sl_status_code(s) == SL_INVALID_ARGUMENT);
  sl_status_free(s);
  const sl_loc at = sl_node_loc(pool.node);
  CHECK(strstr(at.file, "native_program.c") != NULL && at.line > 0);
  CHECK(sl_output_dtype(SL_SCALAR(g, 1 > 0)) == SL_INT32);
  CHECK(sl_output_dtype(SL_SCALAR_BOOL(g, 1 > 0)) == SL_BOOL);
  CHECK(sl_output_dtype(SL_SCALAR(g, (int64_t)1)) == SL_INT64);
  CHECK(sl_output_dtype(SL_SCALAR(g, 1LL)) == SL_INT64);
  CHECK(sl_output_dtype(SL_SCALAR(g, (uint8_t)200)) == SL_UINT8);
  s = sl_output_status(
      g, SL_OP(g, "MatMul", SL_NAMED({"a", a}, {"other", b})));
  CHECK(strstr(sl_status_message(s), "'b'") != NULL);
  sl_status_free(s);
  End(&w);
  return NULL;
}

/* Saves and restores by ops, with strings. */
const char* sl_test_checkpoint(const char* path) {
  BEGIN(w);
  sl_graph* g = w.graph;
  const sl_string names[] = {SL_TEXT("v")}, none[] = {SL_TEXT("")};
  const sl_string prefix[] = {{path, strlen(path)}};
  sl_tensor *name_value = NULL, *none_value = NULL, *prefix_value = NULL;
  RUN(sl_tensor_strings(SL_SHAPE(1), names, &name_value));
  RUN(sl_tensor_strings(SL_SHAPE(1), none, &none_value));
  RUN(sl_tensor_strings(SL_SCALAR_SHAPE, prefix, &prefix_value));
  CHECK(sl_tensor_string(prefix_value, 0).size == strlen(path));
  CHECK(sl_tensor_string(prefix_value, 1).data == NULL);
#define TEXTS(VALUE)                                           \
  SL_OP(g, "Const", SL_ATTRS(SL_ATTR_TYPE("dtype", SL_STRING), \
                             SL_ATTR_TENSOR("value", VALUE)))
  sl_output v = SL_VARIABLE(g, "v", SL_SCALAR(g, 42.0f));
  sl_output save = SL_OP(
      g, "SaveV2", SL_INPUTS(TEXTS(prefix_value), TEXTS(name_value),
                             TEXTS(none_value), SL_READ(g, v)));
  sl_output read = SL_OP(g, "RestoreV2",
                         SL_INPUTS(TEXTS(prefix_value), TEXTS(name_value),
                                   TEXTS(none_value)),
                         SL_ATTRS(SL_ATTR_TYPES("dtypes", SL_FLOAT)));
  sl_output restore = SL_OP(g, "AssignVariableOp", SL_INPUTS(v, read));
  sl_output zero =
      SL_OP(g, "AssignVariableOp", SL_INPUTS(v, SL_SCALAR(g, 0.0f)));
  float value = 0;
  RUN(Fetch(&w, SL_INITIALIZER(g), &value));
  RUN(Fetch(&w, save, &value));
  RUN(Fetch(&w, zero, &value));
  RUN(Fetch(&w, SL_READ(g, v), &value));
  CHECK(value == 0);
  RUN(Fetch(&w, restore, &value));
  RUN(Fetch(&w, SL_READ(g, v), &value));
  CHECK(value == 42);
  sl_tensor_free(name_value);
  sl_tensor_free(none_value);
  sl_tensor_free(prefix_value);
  End(&w);
  return NULL;
}

/* ---- Memory ------------------------------------------------------------- */

static void Count(void* arg) { ++*(int*)arg; }

const char* sl_test_lent(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  enum { kMany = 1000 };
  static _Alignas(64) float numbers[kMany];
  static float few[2], odd[kMany + 1];
  sl_output x = SL_OP(g, "Placeholder", SL_ATTRS(
      SL_ATTR_TYPE("dtype", SL_FLOAT), SL_ATTR_SHAPE("shape", -1)));
  sl_output y = SL_OP(g, "Neg", SL_INPUTS(x));
  sl_output same = SL_OP(g, "Identity", SL_INPUTS(x));
  sl_step* step = NULL;
  RUN(sl_step_new(w.session, SL_OUTPUTS(x), SL_OUTPUTS(y, same), &step));
  float* const memory[] = {numbers, few, odd + 1};
  const int64_t sizes[] = {kMany, 2, kMany};
  for (int m = 0; m < 3; ++m) {
    sl_tensor *in = NULL, *out[] = {NULL, NULL};
    RUN(sl_tensor_lend(SL_FLOAT, &sizes[m], 1, memory[m],
                       (size_t)sizes[m] * sizeof(float), &in));
    CHECK(sl_tensor_data(in) == memory[m]);
    CHECK(sl_tensor_write(in) == NULL);
    const sl_tensor* handle = NULL;
    for (int i = 0; i < 3; ++i) {
      for (int64_t k = 0; k < sizes[m]; ++k) memory[m][k] = (float)(i + 1);
      RUN(sl_step_run(step, &in, out, NULL));
      /* The same handles, with the values of this step. */
      if (i > 0) CHECK(out[0] == handle);
      handle = out[0];
      for (int64_t k = 0; k < sizes[m]; ++k) {
        CHECK(((const float*)sl_tensor_data(out[0]))[k] == -(float)(i + 1));
        CHECK(((const float*)sl_tensor_data(out[1]))[k] == (float)(i + 1));
      }
      /* What was lent is not kept. */
      CHECK(sl_tensor_data(out[1]) != memory[m]);
    }
    sl_tensor_free(in);
    sl_tensor_free(out[0]);
    sl_tensor_free(out[1]);
  }
  sl_step_free(step);

  /* Borrowed memory is released once, and copied by a write while shared. */
  int released = 0;
  sl_tensor *t = NULL, *kept = NULL;
  RUN(sl_tensor_borrow(SL_FLOAT, SL_SHAPE(kMany), numbers, sizeof(numbers),
                       Count, &released, &t));
  CHECK(sl_tensor_data(t) == numbers && sl_tensor_write(t) == numbers);
  RUN(sl_session_run(w.session, SL_FEEDS({x, t}), SL_OUTPUTS(same), &kept,
                     NULL));
  float* own = sl_tensor_write(kept);
  own[0] = 77;
  CHECK(numbers[0] == 3);
  sl_tensor_free(t);
  sl_tensor_free(kept);
  End(&w);
  CHECK(released == 1);
  sl_status* s = sl_tensor_borrow(SL_FLOAT, SL_SHAPE(5), numbers, 3, Count,
                                  &released, &t);
  CHECK(sl_status_code(s) == SL_INVALID_ARGUMENT && t == NULL && released == 2);
  sl_status_free(s);
  return NULL;
}

/* ---- Whole graphs ------------------------------------------------------- */

static void Append(const char* name, void* data) {
  strncat(data, name, 100);
}
static void Log(const char* line, size_t size, void* data) {
  strncat(data, line, size < 100 ? size : 100);
}

const char* sl_test_graphs(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  sl_output x = SL_OP(g, "Placeholder", SL_ATTRS(
      SL_ATTR_TYPE("dtype", SL_FLOAT), SL_ATTR_DIMS("shape", NULL, 0)),
      .name = "x");
  SL_OP(g, "Square", SL_INPUTS(x), .name = "y");
  sl_buffer* bytes = NULL;
  RUN(sl_graph_export(g, &bytes));
  sl_graph* copy = NULL;
  RUN(sl_graph_new(&copy));
  RUN(sl_graph_import(copy, sl_buffer_bytes(bytes).data,
                      sl_buffer_bytes(bytes).size, "copied"));
  sl_buffer_free(bytes);
  CHECK(sl_graph_num_nodes(copy) == sl_graph_num_nodes(g));
  CHECK(strcmp(sl_node_name(sl_graph_node(copy, 0)), "copied/x") == 0);
  CHECK(sl_graph_node(copy, 99) == NULL);
  sl_output from, to;
  RUN(sl_graph_find(copy, "copied/x:0", &from));
  RUN(sl_graph_find(copy, "copied/y", &to));
  sl_session* session = NULL;
  RUN(sl_session_new(copy, NULL, &session));
  sl_graph_free(copy); /* The session keeps it. */
  sl_tensor *in = NULL, *out = NULL;
  const float three = 3;
  RUN(sl_tensor_copy(SL_FLOAT, SL_SCALAR_SHAPE, &three, sizeof(three), &in));
  RUN(sl_session_run(session, SL_FEEDS({from, in}), SL_OUTPUTS(to), &out,
                     NULL));
  CHECK(*(const float*)sl_tensor_data(out) == 9);
  char devices[200] = "";
  RUN(sl_session_devices(session, Append, devices));
  CHECK(strstr(devices, "CPU:0") != NULL);
  /* Cancelled before it begins; the result stays. */
  sl_cancellation* stop = NULL;
  RUN(sl_cancellation_new(&stop));
  sl_cancel(stop);
  sl_status* s = sl_session_run(session, SL_FEEDS({from, in}), SL_OUTPUTS(to),
                                &out, SL_RUN_OPTIONS(.cancellation = stop));
  CHECK(sl_status_code(s) == SL_CANCELLED);
  sl_status_free(s);
  CHECK(*(const float*)sl_tensor_data(out) == 9);
  sl_cancellation_free(stop);
  RUN(sl_session_close(session));
  s = sl_session_run(session, SL_FEEDS({from, in}), SL_OUTPUTS(to), &out, NULL);
  CHECK(sl_status_code(s) == SL_FAILED_PRECONDITION);
  sl_status_free(s);
  sl_tensor_free(in);
  sl_tensor_free(out);
  sl_session_free(session);

  /* What "Print" prints goes to the caller's function. */
  char printed[400] = "";
  sl_tensor* ignored = NULL;
  sl_output one = SL_SCALAR(g, 1.5f);
  sl_output print =
      SL_OP(g, "Print", SL_INPUTS(one, one),
            SL_ATTRS(SL_ATTR_STRING("message", "value "),
                     SL_ATTR_TYPES("U", SL_FLOAT)));
  RUN(sl_session_run(w.session, SL_NO_FEEDS, SL_OUTPUTS(print), &ignored,
                     SL_RUN_OPTIONS(.log = Log, .log_data = printed)));
  CHECK(strstr(printed, "value") != NULL && strstr(printed, "1.5") != NULL);
  sl_tensor_free(ignored);
  s = sl_graph_find(g, "yy", &to);
  CHECK(sl_status_code(s) == SL_NOT_FOUND);
  sl_status_free(s);
  End(&w);
  return NULL;
}

/* ---- The registry ------------------------------------------------------- */

typedef struct {
  int ops;
  char last[100];
  int ordered;
} Ops;

static void See(const sl_op_def* op, void* data) {
  Ops* seen = data;
  sl_op_info info;
  sl_status* s = sl_op_def_info(op, &info);
  if (s == NULL) {
    if (strcmp(info.name, seen->last) < 0) seen->ordered = 0;
    snprintf(seen->last, sizeof(seen->last), "%s", info.name);
    ++seen->ops;
  }
  sl_status_free(s);
}

const char* sl_test_registry(void) {
  Ops seen = {0, "", 1};
  sl_op_def_each(See, &seen);
  CHECK(seen.ops > 500 && seen.ordered);
  const sl_op_def* op = sl_op_def_find("MatMul");
  CHECK(op != NULL && sl_op_def_find("MatMull") == NULL);
  sl_op_info info;
  RUN(sl_op_def_info(op, &info));
  CHECK(info.num_inputs == 2 && info.num_outputs == 1 && info.has_gradient);
  sl_arg_info arg;
  RUN(sl_op_def_input(op, 1, &arg));
  CHECK(strcmp(arg.name, "b") == 0 && strcmp(arg.type_attr, "T") == 0);
  RUN(sl_op_def_output(op, 0, &arg));
  CHECK(strcmp(arg.name, "product") == 0);
  int types = 0;
  for (int i = 0; i < info.num_attrs; ++i) {
    sl_attr_info attr;
    RUN(sl_op_def_attr(op, i, &attr));
    if (strcmp(attr.name, "T") != 0) continue;
    ++types;
    CHECK(attr.kind == SL_KIND_TYPE);
    CHECK((attr.allowed_types >> SL_FLOAT & 1) == 1);
    CHECK((attr.allowed_types >> SL_STRING & 1) == 0);
  }
  CHECK(types == 1);
  sl_buffer* proto = NULL;
  RUN(sl_op_def_proto(op, &proto));
  CHECK(sl_buffer_bytes(proto).size > 50);
  sl_buffer_free(proto);
  sl_status* s = sl_op_def_attr(op, 99, &(sl_attr_info){0});
  CHECK(sl_status_code(s) == SL_INVALID_ARGUMENT);
  sl_status_free(s);
  CHECK(sl_abi_version() == SL_ABI_VERSION);
  CHECK(strchr(sl_version(), '.') != NULL);
  CHECK(strcmp(sl_dtype_name(SL_INT64), "int64") == 0);
  CHECK(sl_dtype_size(SL_INT64) == 8 && sl_dtype_size(SL_STRING) == 0);
  return NULL;
}

/* ---- For bindings ------------------------------------------------------- */

static int Same(sl_string s, const char* text) {
  return s.size == strlen(text) && memcmp(s.data, text, s.size) == 0;
}

const char* sl_test_origins(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  sl_output x = SL_SCALAR(g, 1.0f);
  int line = __LINE__ + 1;
  sl_output shapes = SL_OP(g, "MatMul", SL_INPUTS(x, x), .name = "product");
  sl_status* s = sl_output_status(g, shapes);
  sl_origin o = sl_status_origin(s);
  CHECK(Same(o.node, "product"));
  CHECK(Same(o.op, "MatMul"));
  CHECK(o.file.size > 16 &&
        memcmp(o.file.data + o.file.size - 16, "native_program.c", 16) == 0);
  CHECK(o.line == line);
  sl_status_free(s);
  /* One of an op that there is not. */
  line = __LINE__ + 1;
  sl_output unknown = SL_OP(g, "MatMull", SL_INPUTS(x, x));
  s = sl_output_status(g, unknown);
  o = sl_status_origin(s);
  CHECK(Same(o.op, "MatMull"));
  CHECK(o.line == line);
  sl_status_free(s);
  /* Of other programs. */
  s = sl_status_new(SL_ABORTED,
                    "thing: got an anode 'a' (A); node 'b/c' (Op) at C:/x y.c:"
                    "12, in loop 'l'; node 'd' (D) at z.c:1");
  o = sl_status_origin(s);
  CHECK(Same(o.node, "b/c") && Same(o.op, "Op") && Same(o.file, "C:/x y.c"));
  CHECK(o.line == 12);
  sl_status_free(s);
  static const char* const kOthers[] = {
      "", "node '", "node 'x", "node 'x' (", "node 'x' (A) at ",
      "node 'x' (A) at f:", "node 'x' (A) at f:99999999999999999999"};
  for (size_t i = 0; i < sizeof(kOthers) / sizeof(kOthers[0]); ++i) {
    s = sl_status_new(SL_ABORTED, kOthers[i]);
    o = sl_status_origin(s);
    CHECK(o.file.data == NULL && o.line == 0);
    sl_status_free(s);
  }
  CHECK(sl_status_origin(NULL).node.data == NULL);
  End(&w);
  return NULL;
}

const char* sl_test_strings(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  sl_output words = SL_STRINGS(g, SL_TEXT("a"), SL_TEXT("b\0c"));
  CHECK(sl_output_dtype(words) == SL_STRING);
  int64_t dims[1];
  CHECK(sl_output_shape(words, dims, 1) == 1 && dims[0] == 2);
  sl_tensor* got = NULL;
  RUN(sl_session_run(w.session, SL_NO_FEEDS, SL_OUTPUTS(words), &got, NULL));
  CHECK(Same(sl_tensor_string(got, 0), "a"));
  CHECK(sl_tensor_string(got, 1).size == 3);
  /* What is written is seen in this tensor only: the graph has the others. */
  const sl_string longer = SL_TEXT("a text that is longer than any other here");
  RUN(sl_tensor_set_string(got, 0, longer));
  CHECK(Same(sl_tensor_string(got, 0), longer.data));
  sl_tensor* again = NULL;
  RUN(sl_session_run(w.session, SL_NO_FEEDS, SL_OUTPUTS(words), &again, NULL));
  CHECK(Same(sl_tensor_string(again, 0), "a"));
  CHECK(Refuses(sl_tensor_set_string(got, 2, longer), "expected one of 2"));
  CHECK(Refuses(sl_tensor_set_string(got, 0, (sl_string){NULL, 1}), "null"));
  sl_tensor* number = NULL;
  RUN(sl_tensor_new(SL_FLOAT, SL_SHAPE(2), &number));
  CHECK(Refuses(sl_tensor_set_string(number, 0, longer), "of strings"));
  sl_tensor_free(number);
  sl_tensor_free(got);
  sl_tensor_free(again);
  /* A scalar. */
  const sl_string one = SL_TEXT("one");
  sl_output scalar = sl_constant_strings(g, SL_HERE, SL_SCALAR_SHAPE, &one);
  CHECK(sl_output_shape(scalar, NULL, 0) == 0);
  End(&w);
  return NULL;
}

const char* sl_test_items(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  const sl_shape shapes[] = {{NULL, -1}, {(const int64_t[]){2, -1}, 2}};
  sl_attr shape_list = {"shapes", SL_KIND_SHAPE | SL_KIND_LIST, 2, {0}};
  shape_list.value.shapes = shapes;
  sl_output queue =
      SL_OP(g, "FIFOQueueV2",
            SL_ATTRS(SL_ATTR_TYPES("component_types", SL_FLOAT, SL_STRING),
                     shape_list));
  RUN(sl_output_status(g, queue));
  sl_attr a;
  RUN(sl_node_attr(queue.node, "component_types", &a));
  CHECK(a.kind == (SL_KIND_TYPE | SL_KIND_LIST) && a.count == 2);
  RUN(sl_node_attr_item(queue.node, "component_types", 1, &a));
  CHECK(a.kind == SL_KIND_TYPE && a.value.type == SL_STRING);
  CHECK(strcmp(a.name, "component_types") == 0);
  RUN(sl_node_attr_item(queue.node, "shapes", 0, &a));
  CHECK(a.kind == SL_KIND_SHAPE && a.count == -1);
  RUN(sl_node_attr_item(queue.node, "shapes", 1, &a));
  CHECK(a.kind == SL_KIND_SHAPE && a.count == 2 && a.value.dims[0] == 2);
  CHECK(Refuses(sl_node_attr_item(queue.node, "shapes", 2, &a),
                "an element of 2, got 2"));
  CHECK(Refuses(sl_node_attr_item(queue.node, "shapes", -1, &a), "got -1"));
  CHECK(Refuses(sl_node_attr_item(queue.node, "capacity", 0, &a), "a list"));
  CHECK(a.name == NULL && a.kind == 0);
  sl_output x = SL_SCALAR(g, 1.0f);
  sl_output negated = SL_OP(
      g, "Neg", SL_INPUTS(x),
              SL_ATTRS(SL_ATTR_STRINGS("_names", SL_TEXT("p"), SL_TEXT("qq")),
                       SL_ATTR_BOOLS("_flags", 0, 1),
                       SL_ATTR_INTS("_ints", 7, 8)));
  RUN(sl_output_status(g, negated));
  RUN(sl_node_attr_item(negated.node, "_names", 1, &a));
  CHECK(a.kind == SL_KIND_STRING && a.count == 2 && a.value.s[0] == 'q');
  RUN(sl_node_attr_item(negated.node, "_flags", 1, &a));
  CHECK(a.kind == SL_KIND_BOOL && a.value.b == 1);
  RUN(sl_node_attr_item(negated.node, "_ints", 0, &a));
  CHECK(a.kind == SL_KIND_INT && a.value.i == 7);
  RUN(sl_node_attr(negated.node, "_ints", &a));
  CHECK(a.count == 2 && a.value.ints[1] == 8);
  End(&w);
  return NULL;
}

/* The rows of a large table that a step reads are all that it changes. */
const char* sl_test_sparse_slopes(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  sl_output table = SL_VARIABLE(
      g, "table",
      SL_OP(g, "Fill",
            SL_INPUTS(SL_CONSTANT(g, SL_INT32, SL_SHAPE(2),
                                  ((const int32_t[]){1000, 2})),
                      SL_SCALAR(g, 1.0f))));
  sl_output scale = SL_VARIABLE(g, "scale", SL_SCALAR(g, 3.0f));
  const int32_t chosen[] = {7, 500, 7};
  sl_output rows =
      SL_OP(g, "ResourceGather",
            SL_INPUTS(table, SL_CONSTANT(g, SL_INT32, SL_SHAPE(3), chosen)),
            SL_ATTRS(SL_ATTR_TYPE("dtype", SL_FLOAT)));
  sl_output y = SL_OP(g, "Mul", SL_INPUTS(rows, SL_READ(g, scale)));
  sl_slope slopes[2];
  RUN(SL_SPARSE_GRADIENTS(g, SL_OUTPUTS(y), SL_OUTPUTS(table, scale), NULL,
                          slopes));
  CHECK(slopes[0].indices.node != NULL && slopes[0].values.node != NULL);
  CHECK(slopes[1].indices.node == NULL && slopes[1].values.node != NULL);
  sl_output update =
      SL_OP(g, "ResourceScatterSub",
            SL_INPUTS(table, slopes[0].indices, slopes[0].values),
            SL_ATTRS(SL_ATTR_TYPE("dtype", SL_FLOAT)));
  float value = 0;
  RUN(Fetch(&w, SL_INITIALIZER(g), &value));
  sl_tensor* got[] = {NULL, NULL, NULL};
  RUN(sl_session_run(
      w.session, SL_NO_FEEDS,
      SL_OUTPUTS(slopes[0].indices, slopes[0].values, slopes[1].values), got,
      NULL));
  CHECK(sl_tensor_count(got[0]) == 3 && sl_tensor_count(got[1]) == 6);
  const float* d = sl_tensor_data(got[1]);
  for (int i = 0; i < 6; ++i) CHECK(d[i] == 3);
  CHECK(*(const float*)sl_tensor_data(got[2]) == 6);
  for (int i = 0; i < 3; ++i) sl_tensor_free(got[i]);
  RUN(Fetch(&w, update, &value));
  sl_tensor* now = NULL;
  RUN(sl_session_run(w.session, SL_NO_FEEDS, SL_OUTPUTS(SL_READ(g, table)),
                     &now, NULL));
  const float* t = sl_tensor_data(now);
  for (int i = 0; i < 1000; ++i)
    CHECK(t[2 * i] == (i == 7 ? -5 : i == 500 ? -2 : 1));
  sl_tensor_free(now);
  /* Of what no y depends on, and of an error. */
  sl_output other = SL_VARIABLE(g, "other", SL_SCALAR(g, 1.0f));
  RUN(SL_SPARSE_GRADIENTS(g, SL_OUTPUTS(y), SL_OUTPUTS(other), NULL, slopes));
  CHECK(slopes[0].values.node == NULL && slopes[0].indices.node == NULL);
  const sl_output none = {NULL, 0};
  CHECK(Refuses(SL_SPARSE_GRADIENTS(g, SL_OUTPUTS(y), SL_OUTPUTS(table), &none,
                                    slopes),
                "dys[0]"));
  End(&w);
  return NULL;
}

typedef struct {
  int count;
  sl_variable_info last;
  char names[100];
  int64_t rows;
} Listed;
static void List(const sl_variable_info* v, void* data) {
  Listed* l = data;
  ++l->count;
  l->last = *v;
  strcat(strcat(l->names, v->name), " ");
  l->rows = v->shape.rank > 0 ? v->shape.dims[0] : v->shape.rank;
}

const char* sl_test_variables(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  const int32_t numbers[] = {1, 2, 3};
  SL_VARIABLE(g, "a", SL_CONSTANT(g, SL_INT32, SL_SHAPE(3), numbers));
  /* One that is built by its op is not trainable. */
  sl_output by_op = SL_OP(
      g, "VarHandleOp",
      SL_ATTRS(SL_ATTR_TYPE("dtype", SL_DOUBLE), SL_ATTR_SHAPE("shape", 5, -1)),
      .name = "by_op");
  Listed l = {0, {0}, "", 0};
  RUN(sl_graph_variables(g, List, &l));
  CHECK(l.count == 2 && strcmp(l.names, "a by_op ") == 0);
  CHECK(l.last.handle.node == by_op.node && l.last.dtype == SL_DOUBLE);
  CHECK(l.last.trainable == 0 && l.last.shape.rank == 2 && l.rows == 5);
  SL_VARIABLE(g, "c", SL_SCALAR(g, 1.0f));
  RUN(sl_graph_variables(g, List, &l));
  CHECK(l.last.trainable == 1 && l.rows == 0 && l.last.dtype == SL_FLOAT);
  CHECK(Refuses(sl_graph_variables(g, NULL, NULL), "a function, got null"));
  End(&w);
  return NULL;
}

/* ---- Runs for which no thread waits ------------------------------------- */

typedef struct {
  int calls;
  int32_t code;
  float value;
} Ended;
static void Note(sl_status* status, sl_tensor* const* results, size_t n,
                 void* data) {
  Ended* e = data;
  ++e->calls;
  e->code = sl_status_code(status);
  sl_status_free(status);
  if (n == 2) e->value = *(const float*)sl_tensor_data(results[0]);
  if (n == 2 && results[1] != NULL) e->code = -1;
  for (size_t i = 0; i < n; ++i) sl_tensor_free(results[i]);
}

const char* sl_test_async(void) {
  BEGIN(w);
  sl_graph* g = w.graph;
  sl_output x = SL_OP(g, "Placeholder",
                      SL_ATTRS(SL_ATTR_TYPE("dtype", SL_FLOAT),
                               SL_ATTR_DIMS("shape", NULL, 0)));
  sl_output queue = SL_OP(g, "FIFOQueueV2",
                          SL_ATTRS(SL_ATTR_TYPES("component_types", SL_FLOAT)));
  sl_output put = SL_OP(g, "QueueEnqueueV2", SL_INPUTS(queue, x));
  sl_output take =
      SL_OP(g, "QueueDequeueV2", SL_INPUTS(queue),
            SL_ATTRS(SL_ATTR_TYPES("component_types", SL_FLOAT)));
  sl_output sum = SL_OP(g, "AddV2", SL_INPUTS(take, x));
  sl_output nothing = SL_OP(g, "NoOp");
  float lent = 10;
  sl_tensor* value = NULL;
  sl_tensor* none = NULL;
  RUN(sl_tensor_lend(SL_FLOAT, SL_SCALAR_SHAPE, &lent, sizeof(lent), &value));
  sl_step* step = NULL;
  RUN(sl_step_new(w.session, &x, 1, SL_OUTPUTS(sum, nothing), &step));
  Ended ended[4] = {{0, 0, 0}};
  for (int i = 0; i < 2; ++i)
    RUN(sl_step_run_async(step, &value, Note, &ended[i], NULL));
  CHECK(ended[0].calls == 0);
  lent = 2;
  for (int i = 0; i < 2; ++i)
    RUN(sl_session_run(w.session, SL_FEEDS({x, value}), SL_OUTPUTS(put), &none,
                       NULL));
  CHECK(ended[0].calls == 1 && ended[0].code == SL_OK && ended[0].value == 12);
  CHECK(ended[1].calls == 1 && ended[1].value == 12);
  /* A run keeps its cancellation. */
  sl_cancellation* stop = NULL;
  RUN(sl_cancellation_new(&stop));
  RUN(sl_step_run_async(step, &value, Note, &ended[2],
                        SL_RUN_OPTIONS(.cancellation = stop)));
  CHECK(ended[2].calls == 0);
  sl_cancel(stop);
  CHECK(ended[2].calls == 1 && ended[2].code == SL_CANCELLED);
  RUN(sl_step_run_async(step, &value, Note, &ended[3], NULL));
  sl_cancellation_free(stop);
  /* Arguments that are wrong. */
  CHECK(Refuses(sl_step_run_async(step, &value, NULL, NULL, NULL), "null"));
  CHECK(Refuses(sl_step_run_async(NULL, &value, Note, NULL, NULL), "null"));
  CHECK(Refuses(sl_step_run_async(step, &none, Note, NULL, NULL), "feeds[0]"));
  /* What runs ends with its session, which the handles keep. */
  sl_step_free(step);
  CHECK(ended[3].calls == 0);
  End(&w);
  CHECK(ended[3].calls == 1 && ended[3].code == SL_CANCELLED);
  sl_tensor_free(value);
  return NULL;
}
