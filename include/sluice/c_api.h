/* Sluice for C programs and for bindings of other languages: link with
 * libsluice_c. (`tensorflow/c/c_api.h` is TensorFlow's interface to the same
 * library. examples/native_c_api.c is a program.)
 *
 *   sl_output x = SL_OP(graph, "Placeholder", SL_ATTRS(
 *       SL_ATTR_TYPE("dtype", SL_FLOAT), SL_ATTR_SHAPE("shape", -1, 3)));
 *   sl_output y = SL_OP(graph, "MatMul", SL_INPUTS(x, w), .name = "y");
 *
 * Ownership. Free what a function stores through `made`, the tensors that a
 * run stores in `results`, and every status, with sl_<type>_free (which accepts
 * NULL). Nothing else: it belongs to the object that was asked. On an error
 * `*made` is NULL. Arguments are only read during the call, unless a function
 * says otherwise.
 *
 * Errors. A status is NULL on success. Its message has the form "<what>:
 * expected <rule>, got <value>; node 'name' (Op) at file.c:12". Functions that
 * add one node return its output instead of a status, so that calls nest: on an
 * error they return an output whose node is NULL, and the
 * graph keeps the error, with the line of the call. Whatever is built from that
 * output, and a step that fetches it, fails with this error; sl_output_status
 * returns it at once. Other functions that can fail return a status; those that
 * only ask return the answer. NULL or a handle of another kind is an error as
 * well; of an sl_node and an sl_op_def only NULL is, since their kind cannot be
 * checked. No exception and no abort crosses this interface. A handle that was
 * freed must not be used.
 *
 * Threads. Graphs, functions, sessions, steps, models and cancellations may be
 * used by several threads at a time; a tensor, a buffer and a status by one at
 * a time. Nothing may be freed while another thread uses it.
 *
 * The macros SL_... need C11; other languages call the functions, all of which
 * are symbols of the library, and fill in the structs. Structs that may grow
 * begin with their size. */
#ifndef SLUICE_C_API_H_
#define SLUICE_C_API_H_

#include <stddef.h>
#include <stdint.h>

#ifndef SL_EXPORT
#define SL_EXPORT __attribute__((visibility("default")))
#endif
#ifndef SL_MUST_CHECK /* A status that is dropped is a leak. */
#define SL_MUST_CHECK __attribute__((warn_unused_result))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Versions ----------------------------------------------------------- */

/* The interface that this header describes; larger than the library's if the
 * library is too old for it. Functions are added, never changed. */
#define SL_ABI_VERSION 1
SL_EXPORT int32_t sl_abi_version(void);
SL_EXPORT const char* sl_version(void); /* "0.1.0" */

/* Bytes that belong to someone else. */
typedef struct sl_string {
  const char* data;
  size_t size;
} sl_string;
/* A literal as an sl_string. */
#define SL_TEXT(LITERAL) \
  { (LITERAL), sizeof(LITERAL) - 1 }

/* ---- Statuses ----------------------------------------------------------- */

/* What went wrong; NULL if nothing did. */
typedef struct sl_status sl_status;
enum {
  SL_OK = 0,
  SL_CANCELLED = 1,
  SL_UNKNOWN = 2,
  SL_INVALID_ARGUMENT = 3,
  SL_DEADLINE_EXCEEDED = 4,
  SL_NOT_FOUND = 5,
  SL_ALREADY_EXISTS = 6,
  SL_PERMISSION_DENIED = 7,
  SL_RESOURCE_EXHAUSTED = 8,
  SL_FAILED_PRECONDITION = 9,
  SL_ABORTED = 10,
  SL_OUT_OF_RANGE = 11,
  SL_UNIMPLEMENTED = 12,
  SL_INTERNAL = 13,
  SL_UNAVAILABLE = 14,
  SL_DATA_LOSS = 15
};
/* For callbacks that fail. NULL for SL_OK; an unknown code is SL_UNKNOWN. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_status_new(int32_t code,
                                                 const char* message);
/* SL_OK and "" of NULL. */
SL_EXPORT int32_t sl_status_code(const sl_status* status);
SL_EXPORT const char* sl_status_message(const sl_status* status);
SL_EXPORT void sl_status_free(sl_status* status);
/* The first node that the message names, with the line of the program that
 * built it. The texts are parts of the message: valid as long as the status,
 * without a '\0' at their ends. What it does not say is {NULL, 0} or 0. */
typedef struct sl_origin {
  sl_string node, op, file;
  int32_t line;
} sl_origin;
SL_EXPORT sl_origin sl_status_origin(const sl_status* status);

/* Returns from the calling function, which returns a status, on an error. */
#define SL_TRY(CALL)                                         \
  do {                                                       \
    sl_status* const sl_status_of_call = (CALL);             \
    if (sl_status_of_call != NULL) return sl_status_of_call; \
  } while (0)

/* ---- Values ------------------------------------------------------------- */

/* The type of an element. */
typedef int32_t sl_dtype;
enum {
  SL_FLOAT = 1,
  SL_DOUBLE = 2,
  SL_INT32 = 3,
  SL_UINT8 = 4,
  SL_INT16 = 5,
  SL_INT8 = 6,
  SL_STRING = 7,
  SL_COMPLEX64 = 8,
  SL_INT64 = 9,
  SL_BOOL = 10,
  SL_QINT8 = 11,
  SL_QUINT8 = 12,
  SL_QINT32 = 13,
  SL_BFLOAT16 = 14,
  SL_QINT16 = 15,
  SL_QUINT16 = 16,
  SL_UINT16 = 17,
  SL_COMPLEX128 = 18,
  SL_HALF = 19,
  SL_RESOURCE = 20,
  SL_VARIANT = 21,
  SL_UINT32 = 22,
  SL_UINT64 = 23
};
/* Bytes of an element; 0 for strings, resources and variants. */
SL_EXPORT size_t sl_dtype_size(sl_dtype dtype);
SL_EXPORT const char* sl_dtype_name(sl_dtype dtype); /* "float" */

/* The number of elements of a list of TYPE. */
#define SL_COUNT(TYPE, ...) (sizeof((const TYPE[]){__VA_ARGS__}) / sizeof(TYPE))
/* The arguments `dims` and `rank`. */
#define SL_SHAPE(...) \
  (const int64_t[]){__VA_ARGS__}, (int32_t)SL_COUNT(int64_t, __VA_ARGS__)
#define SL_SCALAR_SHAPE NULL, 0

/* A value: a type, a shape of at most 8 dimensions, and elements, which tensors
 * share until one is written. */
typedef struct sl_tensor sl_tensor;
/* Elements that are not set ("" for strings). */
SL_EXPORT SL_MUST_CHECK sl_status* sl_tensor_new(sl_dtype dtype,
                                                 const int64_t* dims,
                                                 int32_t rank,
                                                 sl_tensor** made);
/* A copy of `size` bytes at `data`; SL_INVALID_ARGUMENT if the shape has
 * another size. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_tensor_copy(sl_dtype dtype,
                                                  const int64_t* dims,
                                                  int32_t rank,
                                                  const void* data, size_t size,
                                                  sl_tensor** made);
/* The caller's memory itself. `release` (may be NULL) is called once with
 * `arg`, on any thread, when nothing uses the memory any more; on an error,
 * before this returns. (At most 8 bytes, or memory that is not aligned to 16,
 * are copied and released at once.) */
SL_EXPORT SL_MUST_CHECK sl_status* sl_tensor_borrow(
    sl_dtype dtype, const int64_t* dims, int32_t rank, void* data, size_t size,
    void (*release)(void* arg), void* arg, sl_tensor** made);
/* The caller's memory, for one step at a time: nothing writes it, and nothing
 * keeps it when a step has ended. Between steps the caller may change the
 * elements, and feed the tensor again: no copy, no allocation. The memory must
 * live until sl_tensor_free. (At most 8 bytes, or memory that is not aligned to
 * 16, are copied in each step.) */
SL_EXPORT SL_MUST_CHECK sl_status* sl_tensor_lend(sl_dtype dtype,
                                                  const int64_t* dims,
                                                  int32_t rank,
                                                  const void* data, size_t size,
                                                  sl_tensor** made);
/* Copies of as many strings as the shape says. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_tensor_strings(const int64_t* dims,
                                                     int32_t rank,
                                                     const sl_string* strings,
                                                     sl_tensor** made);
SL_EXPORT sl_dtype sl_tensor_dtype(const sl_tensor* tensor); /* 0 of NULL. */
SL_EXPORT int32_t sl_tensor_rank(const sl_tensor* tensor);   /* -1 of NULL. */
/* -1 if there is no such dimension. */
SL_EXPORT int64_t sl_tensor_dim(const sl_tensor* tensor, int32_t dim);
SL_EXPORT int64_t sl_tensor_count(const sl_tensor* tensor); /* Elements. */
SL_EXPORT size_t sl_tensor_size(const sl_tensor* tensor);   /* Their bytes. */
/* The elements in row-major order; NULL for strings and the like. Valid until
 * the tensor is written, replaced by a step, or freed. */
SL_EXPORT const void* sl_tensor_data(const sl_tensor* tensor);
/* The same for writing: if another tensor or a graph shares the elements, this
 * tensor gets a copy first. NULL also for memory that is lent. */
SL_EXPORT void* sl_tensor_write(sl_tensor* tensor);
/* Element i of a tensor of strings; {NULL, 0} if there is none. */
SL_EXPORT sl_string sl_tensor_string(const sl_tensor* tensor, int64_t i);
/* Writes it, as sl_tensor_write does. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_tensor_set_string(sl_tensor* tensor,
                                                        int64_t i,
                                                        sl_string value);
SL_EXPORT void sl_tensor_free(sl_tensor* tensor);

/* Bytes that a function made. */
typedef struct sl_buffer sl_buffer;
SL_EXPORT sl_string sl_buffer_bytes(const sl_buffer* buffer);
SL_EXPORT void sl_buffer_free(sl_buffer* buffer);

/* ---- Graphs ------------------------------------------------------------- */

/* Nodes and functions. Lives until it, and all sessions and models of it, are
 * freed. */
typedef struct sl_graph sl_graph;
/* Belongs to its graph. One that is built in the body of a function dies when
 * the body returns. */
typedef struct sl_node sl_node;
/* An output of a node; of a node without outputs, output 0 stands for the node
 * itself. `node` is NULL if building it failed. */
typedef struct sl_output {
  sl_node* node;
  int32_t index;
} sl_output;
/* Another output of the same node; an output that failed stays as it is. */
SL_EXPORT sl_output sl_nth(sl_output output, int32_t index);

/* The line of a call, which errors name. (If the call takes several lines, some
 * compilers give the first of them, others the last.) */
typedef struct sl_loc {
  const char* file;
  int32_t line;
} sl_loc;
#define SL_HERE ((sl_loc){__FILE__, __LINE__})

SL_EXPORT SL_MUST_CHECK sl_status* sl_graph_new(sl_graph** made);
SL_EXPORT void sl_graph_free(sl_graph* graph);
/* The error behind an output whose node is NULL, or why there is none; NULL if
 * it has a node, with such an output. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_output_status(sl_graph* graph,
                                                    sl_output output);
/* The first error that the graph keeps. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_graph_status(sl_graph* graph);
SL_EXPORT void sl_graph_forget_errors(sl_graph* graph);

/* The value of an attribute. */
enum {
  SL_KIND_INT = 1,
  SL_KIND_FLOAT = 2,
  SL_KIND_BOOL = 3,
  SL_KIND_STRING = 4,
  SL_KIND_TYPE = 5,
  SL_KIND_SHAPE = 6,
  SL_KIND_TENSOR = 7,
  SL_KIND_FUNCTION = 8,
  SL_KIND_PROTO = 9, /* A serialised AttrValue, of any kind. */
  SL_KIND_LIST = 16  /* Added to the kind of its elements. */
};
typedef struct sl_shape { /* -1 is an unknown size, rank -1 an unknown rank. */
  const int64_t* dims;
  int32_t rank;
} sl_shape;
typedef struct sl_attr {
  const char* name;
  int32_t kind;
  /* The elements of a list, the bytes of a string, function or proto, the rank
   * of a shape. SL_TO_THE_END: a string that ends with '\0'. */
  int64_t count;
  union {
    int64_t i;
    float f;
    int32_t b;
    sl_dtype type;
    const char* s;       /* A string, the name of a function, a proto. */
    const int64_t* dims; /* A shape. */
    const sl_tensor* tensor;
    const int64_t* ints;
    const float* floats;
    const int32_t* bools;
    const sl_dtype* types;
    const sl_string* strings; /* Names, for a list of functions. */
    const sl_shape* shapes;
    sl_tensor* const* tensors;
  } value;
} sl_attr;
#define SL_TO_THE_END (-1)
#define SL_ATTR_OF(NAME, KIND, COUNT, FIELD, VALUE)              \
  {                                                              \
    .name = (NAME), .kind = (KIND), .count = (COUNT), .value = { \
      .FIELD = VALUE                                             \
    }                                                            \
  }
#define SL_ATTR_LIST(NAME, KIND, FIELD, TYPE, ...)        \
  SL_ATTR_OF(NAME, (KIND) | SL_KIND_LIST,                 \
             (int64_t)SL_COUNT(TYPE, __VA_ARGS__), FIELD, \
             ((const TYPE[]){__VA_ARGS__}))
#define SL_ATTR_INT(NAME, V) SL_ATTR_OF(NAME, SL_KIND_INT, 0, i, (V))
#define SL_ATTR_FLOAT(NAME, V) SL_ATTR_OF(NAME, SL_KIND_FLOAT, 0, f, (V))
#define SL_ATTR_BOOL(NAME, V) SL_ATTR_OF(NAME, SL_KIND_BOOL, 0, b, (V))
#define SL_ATTR_TYPE(NAME, V) SL_ATTR_OF(NAME, SL_KIND_TYPE, 0, type, (V))
#define SL_ATTR_STRING(NAME, TEXT) \
  SL_ATTR_OF(NAME, SL_KIND_STRING, SL_TO_THE_END, s, (TEXT))
#define SL_ATTR_FUNCTION(NAME, FUNCTION) \
  SL_ATTR_OF(NAME, SL_KIND_FUNCTION, SL_TO_THE_END, s, (FUNCTION))
#define SL_ATTR_TENSOR(NAME, TENSOR) \
  SL_ATTR_OF(NAME, SL_KIND_TENSOR, 0, tensor, (TENSOR))
#define SL_ATTR_DIMS(NAME, DIMS, RANK) \
  SL_ATTR_OF(NAME, SL_KIND_SHAPE, (RANK), dims, (DIMS))
#define SL_ATTR_SHAPE(NAME, ...)                       \
  SL_ATTR_DIMS(NAME, ((const int64_t[]){__VA_ARGS__}), \
               (int64_t)SL_COUNT(int64_t, __VA_ARGS__))
#define SL_ATTR_INTS(NAME, ...) \
  SL_ATTR_LIST(NAME, SL_KIND_INT, ints, int64_t, __VA_ARGS__)
#define SL_ATTR_FLOATS(NAME, ...) \
  SL_ATTR_LIST(NAME, SL_KIND_FLOAT, floats, float, __VA_ARGS__)
#define SL_ATTR_BOOLS(NAME, ...) \
  SL_ATTR_LIST(NAME, SL_KIND_BOOL, bools, int32_t, __VA_ARGS__)
#define SL_ATTR_TYPES(NAME, ...) \
  SL_ATTR_LIST(NAME, SL_KIND_TYPE, types, sl_dtype, __VA_ARGS__)
#define SL_ATTR_STRINGS(NAME, ...) /* SL_ATTR_STRINGS("s", SL_TEXT("a")) */ \
  SL_ATTR_LIST(NAME, SL_KIND_STRING, strings, sl_string, __VA_ARGS__)

typedef struct sl_named_input {
  const char* name; /* Of the op's argument; a list's has several entries. */
  sl_output value;
} sl_named_input;
/* A node to be. */
typedef struct sl_op_spec {
  size_t struct_size;
  sl_loc at;
  const char* op;
  const sl_output* inputs; /* In the op's order, */
  size_t num_inputs;
  const sl_named_input* named; /* or in any order, by the op's names. */
  size_t num_named;
  /* Types and numbers that the inputs determine may be left out, and so may
   * those that have defaults. Names are the op's, or begin with "_". */
  const sl_attr* attrs;
  size_t num_attrs;
  const sl_output* after; /* Control inputs: the node runs after these. */
  size_t num_after;
  const char* name;   /* Made unique; NULL: the op's. */
  const char* device; /* Such as "/cpu:0"; NULL: any. */
} sl_op_spec;
/* Adds a node of any op of the registry (docs/ops), of a library that was
 * loaded, or of a function of the graph; returns its first output. */
SL_EXPORT sl_output sl_op(sl_graph* graph, const sl_op_spec* spec);
/* SL_OP(graph, "Add", SL_INPUTS(x, y), SL_ATTRS(...), .name = "sum") */
#define SL_OP(GRAPH, ...)                                               \
  sl_op((GRAPH), &(const sl_op_spec){.struct_size = sizeof(sl_op_spec), \
                                     .at = {__FILE__, __LINE__},        \
                                     .op = __VA_ARGS__})
#define SL_INPUTS(...)                        \
  .inputs = (const sl_output[]){__VA_ARGS__}, \
  .num_inputs = SL_COUNT(sl_output, __VA_ARGS__)
#define SL_NAMED(...) /* SL_NAMED({"a", x}, {"b", w}) */ \
  .named = (const sl_named_input[]){__VA_ARGS__},        \
  .num_named = SL_COUNT(sl_named_input, __VA_ARGS__)
#define SL_ATTRS(...)                      \
  .attrs = (const sl_attr[]){__VA_ARGS__}, \
  .num_attrs = SL_COUNT(sl_attr, __VA_ARGS__)
#define SL_AFTER(...)                        \
  .after = (const sl_output[]){__VA_ARGS__}, \
  .num_after = SL_COUNT(sl_output, __VA_ARGS__)

/* A constant of plain elements, which are copied. */
SL_EXPORT sl_output sl_constant(sl_graph* graph, sl_loc at, sl_dtype dtype,
                                const int64_t* dims, int32_t rank,
                                const void* data);
/* SL_CONSTANT(graph, SL_FLOAT, SL_SHAPE(2, 3), numbers) */
#define SL_CONSTANT(GRAPH, ...) sl_constant((GRAPH), SL_HERE, __VA_ARGS__)
/* A constant of as many strings as the shape says. */
SL_EXPORT sl_output sl_constant_strings(sl_graph* graph, sl_loc at,
                                        const int64_t* dims, int32_t rank,
                                        const sl_string* strings);
/* SL_STRINGS(graph, SL_TEXT("a"), SL_TEXT("b")): a vector */
#define SL_STRINGS(GRAPH, ...)                                                \
  sl_constant_strings((GRAPH), SL_HERE,                                       \
                      (const int64_t[]){SL_COUNT(sl_string, __VA_ARGS__)}, 1, \
                      (const sl_string[]){__VA_ARGS__})
/* A scalar of the type of a C number, which is a float, double, int, long, long
 * long or uint8_t: SL_SCALAR(graph, 0.5f). In C `true` and comparisons are int:
 * SL_SCALAR_BOOL. */
#define SL_SCALAR(GRAPH, V)                                             \
  sl_constant(                                                          \
      (GRAPH), SL_HERE,                                                 \
      _Generic((V), float                                               \
               : SL_FLOAT, double                                       \
               : SL_DOUBLE, int                                         \
               : SL_INT32, long                                         \
               : SL_INT64, long long                                    \
               : SL_INT64, uint8_t                                      \
               : SL_UINT8, _Bool                                        \
               : SL_BOOL),                                              \
      NULL, 0,                                                          \
      _Generic((V), float                                               \
               : (const void*)&(const float){(V)}, double               \
               : (const void*)&(const double){(V)}, int                 \
               : (const void*)&(const int32_t){(int32_t)(V)}, long      \
               : (const void*)&(const int64_t){(int64_t)(V)}, long long \
               : (const void*)&(const int64_t){(int64_t)(V)}, uint8_t   \
               : (const void*)&(const uint8_t){(uint8_t)(V)}, _Bool     \
               : (const void*)&(const _Bool){(V) != 0}))
#define SL_SCALAR_BOOL(GRAPH, V) \
  sl_constant((GRAPH), SL_HERE, SL_BOOL, NULL, 0, &(const _Bool){(V) != 0})

/* A trainable variable with this initial value, of its type and shape. The
 * output is its handle, for ops such as "AssignVariableOp" and as an x of
 * sl_gradients. `name` may be NULL. */
SL_EXPORT sl_output sl_variable(sl_graph* graph, sl_loc at, const char* name,
                                sl_output initial);
#define SL_VARIABLE(GRAPH, NAME, INITIAL) \
  sl_variable((GRAPH), SL_HERE, (NAME), (INITIAL))
/* The value of a variable when this read runs. */
SL_EXPORT sl_output sl_read(sl_graph* graph, sl_loc at, sl_output variable);
#define SL_READ(GRAPH, VARIABLE) sl_read((GRAPH), SL_HERE, (VARIABLE))
/* A node that initialises all variables of sl_variable so far. */
SL_EXPORT sl_output sl_initializer(sl_graph* graph, sl_loc at);
#define SL_INITIALIZER(GRAPH) sl_initializer((GRAPH), SL_HERE)

/* The arguments for outputs and their number. */
#define SL_OUTPUTS(...) \
  (const sl_output[]){__VA_ARGS__}, SL_COUNT(sl_output, __VA_ARGS__)

/* Builds a part of a construct while the function that it is given to runs, on
 * the same thread: reads `in` and stores in `out`, of the sizes that the
 * function says (NULL if there are none). `graph` is to be used for what is
 * built, and lives until this returns, as do the nodes in the body of a
 * function; it must not be freed. A body may use outputs from outside, build
 * further constructs, and leave an output as it is on an error. The graph is
 * locked meanwhile: a body must not run steps or wait for other threads. */
typedef void (*sl_body)(sl_graph* graph, const sl_output* in, sl_output* out,
                        void* data);

typedef struct sl_while_options {
  size_t struct_size;
  const char* name;            /* NULL: "while". */
  int32_t parallel_iterations; /* 0: 32. */
  int32_t no_gradients;        /* Not 0: none may flow through the loop. */
  int32_t batch;          /* Not 0: runs nodes of several iterations as one. */
  const sl_shape* shapes; /* That hold in every iteration, one per variable;
                             NULL: those of the initial values. */
} sl_while_options;
/* Repeats `body` while `condition`, a boolean scalar (out[0]), is true. Both
 * get the `n` variables; `body` stores their next values. `results` has room
 * for n. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_while(sl_graph* graph, sl_loc at,
                                            const sl_output* init, size_t n,
                                            sl_body condition, sl_body body,
                                            void* data,
                                            const sl_while_options* options,
                                            sl_output* results);
/* SL_WHILE(graph, SL_OUTPUTS(i, sum), Less, Add, data, NULL, results) */
#define SL_WHILE(GRAPH, ...) sl_while((GRAPH), SL_HERE, __VA_ARGS__)
#define SL_WHILE_OPTIONS(...)                                         \
  (&(const sl_while_options){.struct_size = sizeof(sl_while_options), \
                             __VA_ARGS__})

/* The n outputs of `then` if `condition` is true, else those of `otherwise`;
 * only that one runs. Both get no inputs. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_cond(sl_graph* graph, sl_loc at,
                                           sl_output condition, sl_body then,
                                           sl_body otherwise, void* data,
                                           sl_output* results, size_t n);
#define SL_COND(GRAPH, ...) sl_cond((GRAPH), SL_HERE, __VA_ARGS__)

/* A function of a graph, which keeps the definition; this is a handle to it. */
typedef struct sl_function sl_function;
/* Defines a function of arguments and results of these types. `*made` is set
 * before `body` is called, which may call it: recursion. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_function_define(
    sl_graph* graph, sl_loc at, const char* name, const sl_dtype* arguments,
    size_t num_arguments, const sl_dtype* results, size_t num_results,
    sl_body body, void* data, sl_function** made);
/* SL_FUNCTION(graph, "f", SL_TYPES(SL_FLOAT), SL_TYPES(SL_FLOAT), F, NULL, &f)
 */
#define SL_FUNCTION(GRAPH, ...) \
  sl_function_define((GRAPH), SL_HERE, __VA_ARGS__)
#define SL_TYPES(...) \
  (const sl_dtype[]){__VA_ARGS__}, SL_COUNT(sl_dtype, __VA_ARGS__)
/* Calls it; `results` has room for all. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_function_call(sl_graph* graph, sl_loc at,
                                                    const sl_function* function,
                                                    const sl_output* arguments,
                                                    size_t num_arguments,
                                                    sl_output* results,
                                                    size_t num_results);
#define SL_CALL(GRAPH, ...) sl_function_call((GRAPH), SL_HERE, __VA_ARGS__)
/* Its name in the graph. */
SL_EXPORT const char* sl_function_name(const sl_function* function);
SL_EXPORT void sl_function_free(sl_function* function);

/* Adds the gradients of the sum of the ys with respect to each x (an output, or
 * the handle of a variable). `dys`: the gradients of the ys, or NULL for ones
 * (one without a node is an error). A result whose node is NULL: no y depends
 * on that x, or the path is not differentiable; sl_output_status says why. The
 * graph does not keep errors of this function. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_gradients(
    sl_graph* graph, sl_loc at, const sl_output* ys, size_t num_ys,
    const sl_output* xs, size_t num_xs, const sl_output* dys, sl_output* dxs);
/* SL_GRADIENTS(graph, SL_OUTPUTS(loss), SL_OUTPUTS(w, b), NULL, slopes) */
#define SL_GRADIENTS(GRAPH, ...) sl_gradients((GRAPH), SL_HERE, __VA_ARGS__)

/* The gradient of one x. If `indices` has a node, only rows of it: row i of
 * `values` belongs to row indices[i] of x, and rows with the same index add up.
 * Else `values` is all of it. */
typedef struct sl_slope {
  sl_output values;
  sl_output indices; /* A vector of int32 or int64. */
} sl_slope;
/* The same, without a table of zeros for each x of which the ys read rows
 * ("ResourceGather", "GatherV2"): ops such as "ResourceScatterSub" and
 * "ResourceSparseApplyAdagrad" update only these rows. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_sparse_gradients(
    sl_graph* graph, sl_loc at, const sl_output* ys, size_t num_ys,
    const sl_output* xs, size_t num_xs, const sl_output* dys, sl_slope* dxs);
#define SL_SPARSE_GRADIENTS(GRAPH, ...) \
  sl_sparse_gradients((GRAPH), SL_HERE, __VA_ARGS__)

/* Builds the gradient of `node` in `graph`: from dy, one for each output (its
 * node is NULL where none flows), stores dx, one for each input (left alone:
 * none). Only until this returns may it use them. */
typedef sl_status* (*sl_gradient)(sl_graph* graph, sl_node* node,
                                  const sl_output* dy, sl_output* dx,
                                  void* data);
/* Gives an op without a gradient one, for the whole process: an op of a library
 * in C (tensorflow/c/ops.h), in its TF_InitKernel; taken back if the library
 * cannot be loaded. `op` may also be a name that nodes give in the attribute
 * "_gradient_op_type", and so need not be an op. SL_ALREADY_EXISTS if it has
 * one. `data` is kept. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_register_gradient(const char* op,
                                                        sl_gradient gradient,
                                                        void* data);

/* A GraphDef, as TensorFlow has them. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_graph_export(sl_graph* graph,
                                                   sl_buffer** made);
/* Adds the nodes of a GraphDef as "prefix/name" (NULL: "name"). After an error
 * the graph may have some of them. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_graph_import(sl_graph* graph,
                                                   const void* data,
                                                   size_t size,
                                                   const char* prefix);
/* "x", "x:1"; of a node without outputs, the node. SL_NOT_FOUND names the
 * nearest. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_graph_find(sl_graph* graph,
                                                 const char* name,
                                                 sl_output* found);
/* Nodes in the order in which they were added; NULL if there is none. */
SL_EXPORT size_t sl_graph_num_nodes(sl_graph* graph);
SL_EXPORT sl_node* sl_graph_node(sl_graph* graph, size_t i);

typedef struct sl_variable_info {
  const char* name;
  sl_output handle;  /* For sl_read, sl_gradients and ops. */
  sl_dtype dtype;    /* Of its value. */
  sl_shape shape;    /* Of its value. */
  int32_t trainable; /* 0 or 1 */
} sl_variable_info;
/* Calls `each` for all variables of the graph, in the order in which they were
 * added; `variable` and its shape are valid until it returns. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_graph_variables(
    sl_graph* graph, void (*each)(const sl_variable_info* variable, void* data),
    void* data);

/* NULL, 0 or an output without a node for what does not exist. */
SL_EXPORT const char* sl_node_name(const sl_node* node);
SL_EXPORT const char* sl_node_op(const sl_node* node);
SL_EXPORT const char* sl_node_device(const sl_node* node);
SL_EXPORT sl_loc sl_node_loc(const sl_node* node);
SL_EXPORT int32_t sl_node_num_inputs(const sl_node* node);
SL_EXPORT int32_t sl_node_num_outputs(const sl_node* node);
SL_EXPORT sl_output sl_node_input(const sl_node* node, int32_t i);
/* An attribute; what `attr` points to belongs to the node. Of a list of
 * anything but ints and floats, only its kind and the number of its elements:
 * sl_node_attr_item. Tensors are protos: sl_node_attr_proto. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_node_attr(const sl_node* node,
                                                const char* name,
                                                sl_attr* attr);
/* Element i of a list, as an attribute of its kind. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_node_attr_item(const sl_node* node,
                                                     const char* name,
                                                     int64_t i, sl_attr* attr);
/* A serialised AttrValue. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_node_attr_proto(const sl_node* node,
                                                      const char* name,
                                                      sl_buffer** made);
SL_EXPORT sl_dtype sl_output_dtype(sl_output output); /* 0: no such output. */
/* The rank, -1 if it is unknown, with the first `room` sizes (-1: unknown). */
SL_EXPORT int32_t sl_output_shape(sl_output output, int64_t* dims,
                                  int32_t room);

/* ---- Sessions ----------------------------------------------------------- */

/* Runs steps of a graph, and holds its variables. */
typedef struct sl_session sl_session;
typedef struct sl_session_options { /* Zeros: the defaults. */
  size_t struct_size;
  const char* target; /* A task of a cluster, "grpc://host:port"; NULL: here. */
  int32_t inter_op_threads; /* Beside the caller's; -1: none. */
  int32_t intra_op_threads; /* Of one kernel. */
  int32_t max_call_depth;   /* Of recursive functions. */
  int32_t soft_placement;   /* Not 0: a device without a kernel is no error. */
  int32_t batch;            /* Not 0: runs nodes of several frames as one. */
  int32_t as_built;         /* Not 0: no node is folded, fused or compiled. */
  const sl_session* share;  /* Uses its variables. */
  const void* config;       /* A serialised ConfigProto, for all else. */
  size_t config_size;
} sl_session_options;
#define SL_SESSION_OPTIONS(...)                                           \
  (&(const sl_session_options){.struct_size = sizeof(sl_session_options), \
                               __VA_ARGS__})
/* `options` may be NULL. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_session_new(
    sl_graph* graph, const sl_session_options* options, sl_session** made);
/* Ends running steps with SL_CANCELLED; later ones fail. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_session_close(sl_session* session);
/* Closes it; steps that were prepared in it then fail. */
SL_EXPORT void sl_session_free(sl_session* session);

typedef struct sl_feed {
  sl_output output;
  const sl_tensor* value;
} sl_feed;
/* Ends steps that were given it: also those that begin after sl_cancel. */
typedef struct sl_cancellation sl_cancellation;
SL_EXPORT SL_MUST_CHECK sl_status* sl_cancellation_new(sl_cancellation** made);
SL_EXPORT void sl_cancel(sl_cancellation* cancellation);
SL_EXPORT void sl_cancellation_free(sl_cancellation* cancellation);
typedef struct sl_run_options { /* Zeros: the defaults. */
  size_t struct_size;
  int64_t timeout_ms;
  sl_cancellation* cancellation;
  /* Gets what "Print" nodes print, on any thread; NULL: standard error. */
  void (*log)(const char* text, size_t size, void* log_data);
  void* log_data;
} sl_run_options;
#define SL_RUN_OPTIONS(...) \
  (&(const sl_run_options){.struct_size = sizeof(sl_run_options), __VA_ARGS__})
/* Runs one step. `results` has an element for each fetch, which is NULL or a
 * tensor of the caller: the value is stored in that, or in a new one, which is
 * then the caller's. (NULL stays for a node without outputs.) On an error all
 * stay as they were. `options` may be NULL. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_session_run(
    sl_session* session, const sl_feed* feeds, size_t num_feeds,
    const sl_output* fetches, size_t num_fetches, sl_tensor** results,
    const sl_run_options* options);
/* sl_session_run(s, SL_FEEDS({x, value}), SL_OUTPUTS(y), &result, NULL) */
#define SL_FEEDS(...) \
  (const sl_feed[]){__VA_ARGS__}, SL_COUNT(sl_feed, __VA_ARGS__)
#define SL_NO_FEEDS NULL, 0

/* A step that is prepared: the lowest cost of a run. Keeps its session. */
typedef struct sl_step sl_step;
SL_EXPORT SL_MUST_CHECK sl_status* sl_step_new(
    sl_session* session, const sl_output* feeds, size_t num_feeds,
    const sl_output* fetches, size_t num_fetches, sl_step** made);
/* `values` has one for each feed; `results` as above. With values that are lent
 * (sl_tensor_lend) and results of an earlier run nothing is copied, and from
 * the second run on the call itself allocates nothing. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_step_run(const sl_step* step,
                                               sl_tensor* const* values,
                                               sl_tensor** results,
                                               const sl_run_options* options);
/* The end of a run: a status, or the results, one for each fetch (NULL of a
 * node without outputs). The status and the results are to be freed by it; the
 * array is not. */
typedef void (*sl_done)(sl_status* status, sl_tensor* const* results, size_t n,
                        void* data);
/* Begins a run for which no thread waits. This thread runs what can run at
 * once, and returns when the rest waits for something, such as an element of a
 * queue; the thread that ends that wait goes on. So `done` is called once, on
 * this thread before this returns, or later on any thread, also one that is
 * inside of another call, such as the run of another step. It may begin runs
 * and close the session; it must not wait for another step to end, or free what
 * a call on its thread uses. The step, its session and the values may be freed
 * before; what `options` points to may not (but the cancellation), nor memory
 * that is lent. If this returns a status, an argument was wrong, and `done` is
 * not called; all other errors are the run's. (In a session with a target, a
 * thread of its own waits for the task's answer.) */
SL_EXPORT SL_MUST_CHECK sl_status* sl_step_run_async(
    const sl_step* step, sl_tensor* const* values, sl_done done, void* data,
    const sl_run_options* options);
SL_EXPORT void sl_step_free(sl_step* step);

/* Calls `each` with the full name of each device that steps may use. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_session_devices(
    sl_session* session, void (*each)(const char* name, void* data),
    void* data);

/* ---- Saved models ------------------------------------------------------- */

/* A saved model with its graph and its session. (Checkpoints are files of the
 * ops "SaveV2" and "RestoreV2".) */
typedef struct sl_model sl_model;
/* The meta graph of the folder with exactly these tags; none: "serve". */
SL_EXPORT SL_MUST_CHECK sl_status* sl_model_load(
    const char* folder, const char* const* tags, size_t num_tags,
    const sl_session_options* options, sl_model** made);
/* They belong to the model: to free them has no effect. */
SL_EXPORT sl_graph* sl_model_graph(sl_model* model);
SL_EXPORT sl_session* sl_model_session(sl_model* model);
/* Calls `each` for the signatures: their names and methods, such as
 * "tensorflow/serving/predict". */
SL_EXPORT SL_MUST_CHECK sl_status* sl_model_signatures(
    sl_model* model,
    void (*each)(const char* name, const char* method, void* data), void* data);
typedef struct sl_value_info {
  const char* name;
  int32_t is_output; /* 0: an input. */
  sl_output output;
  sl_dtype dtype;
  sl_shape shape;
} sl_value_info;
/* Calls `each` for the inputs and then the outputs of a signature (NULL:
 * "serving_default"); `value` and what it points to are valid until it
 * returns. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_model_values(
    sl_model* model, const char* signature,
    void (*each)(const sl_value_info* value, void* data), void* data);
/* A value of a signature (NULL: "serving_default") by its name. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_model_input(sl_model* model,
                                                  const char* signature,
                                                  const char* name,
                                                  sl_output* found);
SL_EXPORT SL_MUST_CHECK sl_status* sl_model_output(sl_model* model,
                                                   const char* signature,
                                                   const char* name,
                                                   sl_output* found);
SL_EXPORT void sl_model_free(sl_model* model);

/* ---- The registry of ops ------------------------------------------------ */

/* A declaration; lives as long as the process, as does what it points to. */
typedef struct sl_op_def sl_op_def;
/* Loads a library of ops. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_load_library(const char* path);
SL_EXPORT const sl_op_def* sl_op_def_find(const char* name); /* Or NULL. */
/* Calls `each` for all, in the order of their names. */
SL_EXPORT void sl_op_def_each(void (*each)(const sl_op_def* op, void* data),
                              void* data);
typedef struct sl_op_info {
  const char* name;
  const char* family; /* As in the reference: "math". */
  const char* doc;
  int32_t num_inputs, num_outputs, num_attrs;
  int32_t stateful, has_gradient; /* 0 or 1. */
} sl_op_info;
typedef struct sl_arg_info {
  const char* name;
  sl_dtype dtype; /* 0: as one of these attributes says (else ""). */
  const char* type_attr;
  const char* type_list_attr;
  const char* number_attr; /* So many. */
  int32_t is_reference;
} sl_arg_info;
typedef struct sl_attr_info {
  const char* name;
  int32_t kind; /* With SL_KIND_LIST. */
  int32_t has_default;
  uint64_t allowed_types; /* Bit t for type t; none: any. */
  int32_t has_minimum;
  int64_t minimum; /* Of a number, or of the size of a list. */
} sl_attr_info;
SL_EXPORT SL_MUST_CHECK sl_status* sl_op_def_info(const sl_op_def* op,
                                                  sl_op_info* info);
SL_EXPORT SL_MUST_CHECK sl_status* sl_op_def_input(const sl_op_def* op,
                                                   int32_t i,
                                                   sl_arg_info* info);
SL_EXPORT SL_MUST_CHECK sl_status* sl_op_def_output(const sl_op_def* op,
                                                    int32_t i,
                                                    sl_arg_info* info);
SL_EXPORT SL_MUST_CHECK sl_status* sl_op_def_attr(const sl_op_def* op,
                                                  int32_t i,
                                                  sl_attr_info* info);
/* All of it: a serialised OpDef. */
SL_EXPORT SL_MUST_CHECK sl_status* sl_op_def_proto(const sl_op_def* op,
                                                   sl_buffer** made);

#ifdef __cplusplus
}
#endif

#endif /* SLUICE_C_API_H_ */
