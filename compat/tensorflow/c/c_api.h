/* TensorFlow's C API in graph mode (2.6's names and layout), implemented by
 * Sluice: link with libsluice_c.
 *
 * No exception leaves a function. Functions that have a status report null
 * handles and other invalid arguments in it, and then return null, 0 or -1;
 * without a status, arguments that may be null say so. Objects that a function
 * TF_NewX returns are deleted by TF_DeleteX, which accepts null. Objects of
 * which nothing else is said may be used by one thread at a time. */
#ifndef TENSORFLOW_C_C_API_H_
#define TENSORFLOW_C_C_API_H_

#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_attrtype.h"
#include "tensorflow/c/tf_buffer.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"
#include "tensorflow/c/tf_tstring.h"

TF_CAPI_BEGIN

/* Bytes that are not owned. */
typedef struct TF_StringView {
  const char* data;
  size_t len;
} TF_StringView;

/* ---- Version ------------------------------------------------------------ */

/* The version of TensorFlow whose interface this is, and Sluice's:
 * "2.6.0 (Sluice 0.1.0)". */
TF_CAPI_EXPORT const char* TF_Version(void);

/* ---- Sessions' options -------------------------------------------------- */

/* One thread at a time. */
typedef struct TF_SessionOptions TF_SessionOptions;
TF_CAPI_EXPORT TF_SessionOptions* TF_NewSessionOptions(void);
/* "" or "local": this process. "grpc://host:port": a task of a cluster. */
TF_CAPI_EXPORT void TF_SetTarget(TF_SessionOptions* options,
                                 const char* target);
/* A serialised ConfigProto. Read are device_count, the numbers of threads,
 * soft and logged placement, timeouts, device filters, the cluster, isolation
 * and the cost model; other fields have no effect here. TF_INVALID_ARGUMENT,
 * with the options unchanged, if the bytes are malformed. */
TF_CAPI_EXPORT void TF_SetConfig(TF_SessionOptions* options, const void* proto,
                                 size_t proto_len, TF_Status* status);
TF_CAPI_EXPORT void TF_DeleteSessionOptions(TF_SessionOptions* options);

/* ---- Graphs ------------------------------------------------------------- */

/* Thread-safe, as are the functions of its operations. Lives until it and all
 * sessions of it are deleted. */
typedef struct TF_Graph TF_Graph;
/* Belongs to its graph and lives as long. */
typedef struct TF_Operation TF_Operation;
/* A node that is being described; one thread at a time. */
typedef struct TF_OperationDescription TF_OperationDescription;
/* Immutable but for its attributes; belongs to the caller. */
typedef struct TF_Function TF_Function;
typedef struct TF_FunctionOptions TF_FunctionOptions;
/* An input of an operation, and an output, by its number. */
typedef struct TF_Input {
  TF_Operation* oper;
  int index;
} TF_Input;
typedef struct TF_Output {
  TF_Operation* oper;
  int index;
} TF_Output;
TF_CAPI_EXPORT TF_Graph* TF_NewGraph(void);
/* Accepts null. */
TF_CAPI_EXPORT void TF_DeleteGraph(TF_Graph* graph);
/* Merges a shape into what is known: -1 is an unknown size, num_dims -1 an
 * unknown rank. TF_INVALID_ARGUMENT if they contradict each other. */
TF_CAPI_EXPORT void TF_GraphSetTensorShape(TF_Graph* graph, TF_Output output,
                                           const int64_t* dims,
                                           const int num_dims,
                                           TF_Status* status);
/* -1 if the rank is unknown. */
TF_CAPI_EXPORT int TF_GraphGetTensorNumDims(TF_Graph* graph, TF_Output output,
                                            TF_Status* status);
/* `num_dims` is what TF_GraphGetTensorNumDims returned; -1: unknown sizes. */
TF_CAPI_EXPORT void TF_GraphGetTensorShape(TF_Graph* graph, TF_Output output,
                                           int64_t* dims, int num_dims,
                                           TF_Status* status);

/* ---- Adding operations -------------------------------------------------- */

/* Describes a node; TF_FinishOperation adds it and deletes the description.
 * Mistakes in between, such as an input that does not exist, are reported
 * there. Strings are copied. */
TF_CAPI_EXPORT TF_OperationDescription* TF_NewOperation(TF_Graph* graph,
                                                        const char* op_type,
                                                        const char* oper_name);
TF_CAPI_EXPORT void TF_SetDevice(TF_OperationDescription* desc,
                                 const char* device);
/* Inputs in the order of the op's arguments; an argument that is a list takes
 * one call of TF_AddInputList. */
TF_CAPI_EXPORT void TF_AddInput(TF_OperationDescription* desc, TF_Output input);
TF_CAPI_EXPORT void TF_AddInputList(TF_OperationDescription* desc,
                                    const TF_Output* inputs, int num_inputs);
TF_CAPI_EXPORT void TF_AddControlInput(TF_OperationDescription* desc,
                                       TF_Operation* input);
TF_CAPI_EXPORT void TF_ColocateWith(TF_OperationDescription* desc,
                                    TF_Operation* op);
/* Attributes. Types and numbers that the inputs determine may be left out, and
 * so may those that have defaults. Values are copied. */
TF_CAPI_EXPORT void TF_SetAttrString(TF_OperationDescription* desc,
                                     const char* attr_name, const void* value,
                                     size_t length);
TF_CAPI_EXPORT void TF_SetAttrStringList(TF_OperationDescription* desc,
                                         const char* attr_name,
                                         const void* const* values,
                                         const size_t* lengths, int num_values);
TF_CAPI_EXPORT void TF_SetAttrInt(TF_OperationDescription* desc,
                                  const char* attr_name, int64_t value);
TF_CAPI_EXPORT void TF_SetAttrIntList(TF_OperationDescription* desc,
                                      const char* attr_name,
                                      const int64_t* values, int num_values);
TF_CAPI_EXPORT void TF_SetAttrFloat(TF_OperationDescription* desc,
                                    const char* attr_name, float value);
TF_CAPI_EXPORT void TF_SetAttrFloatList(TF_OperationDescription* desc,
                                        const char* attr_name,
                                        const float* values, int num_values);
TF_CAPI_EXPORT void TF_SetAttrBool(TF_OperationDescription* desc,
                                   const char* attr_name, unsigned char value);
TF_CAPI_EXPORT void TF_SetAttrBoolList(TF_OperationDescription* desc,
                                       const char* attr_name,
                                       const unsigned char* values,
                                       int num_values);
TF_CAPI_EXPORT void TF_SetAttrType(TF_OperationDescription* desc,
                                   const char* attr_name, TF_DataType value);
TF_CAPI_EXPORT void TF_SetAttrTypeList(TF_OperationDescription* desc,
                                       const char* attr_name,
                                       const TF_DataType* values,
                                       int num_values);
/* For bodies of functions: the value is the function's attribute of that name.
 */
TF_CAPI_EXPORT void TF_SetAttrPlaceholder(TF_OperationDescription* desc,
                                          const char* attr_name,
                                          const char* placeholder);
TF_CAPI_EXPORT void TF_SetAttrFuncName(TF_OperationDescription* desc,
                                       const char* attr_name, const char* value,
                                       size_t length);
/* num_dims -1: an unknown rank. */
TF_CAPI_EXPORT void TF_SetAttrShape(TF_OperationDescription* desc,
                                    const char* attr_name, const int64_t* dims,
                                    int num_dims);
TF_CAPI_EXPORT void TF_SetAttrShapeList(TF_OperationDescription* desc,
                                        const char* attr_name,
                                        const int64_t* const* dims,
                                        const int* num_dims, int num_shapes);
TF_CAPI_EXPORT void TF_SetAttrTensorShapeProto(TF_OperationDescription* desc,
                                               const char* attr_name,
                                               const void* proto,
                                               size_t proto_len,
                                               TF_Status* status);
TF_CAPI_EXPORT void TF_SetAttrTensorShapeProtoList(
    TF_OperationDescription* desc, const char* attr_name,
    const void* const* protos, const size_t* proto_lens, int num_shapes,
    TF_Status* status);
TF_CAPI_EXPORT void TF_SetAttrTensor(TF_OperationDescription* desc,
                                     const char* attr_name, TF_Tensor* value,
                                     TF_Status* status);
TF_CAPI_EXPORT void TF_SetAttrTensorList(TF_OperationDescription* desc,
                                         const char* attr_name,
                                         TF_Tensor* const* values,
                                         int num_values, TF_Status* status);
/* A serialised AttrValue, of any kind. */
TF_CAPI_EXPORT void TF_SetAttrValueProto(TF_OperationDescription* desc,
                                         const char* attr_name,
                                         const void* proto, size_t proto_len,
                                         TF_Status* status);
/* Null on errors. The description is deleted in any case. */
TF_CAPI_EXPORT TF_Operation* TF_FinishOperation(TF_OperationDescription* desc,
                                                TF_Status* status);

/* ---- What operations are ------------------------------------------------ */

/* Strings live as long as the graph. Functions without a status require an
 * operation that is not null; for an index that does not exist, they return a
 * type of 0, a null operation or -1. */
TF_CAPI_EXPORT const char* TF_OperationName(TF_Operation* oper);
TF_CAPI_EXPORT const char* TF_OperationOpType(TF_Operation* oper);
TF_CAPI_EXPORT const char* TF_OperationDevice(TF_Operation* oper);
TF_CAPI_EXPORT int TF_OperationNumOutputs(TF_Operation* oper);
TF_CAPI_EXPORT TF_DataType TF_OperationOutputType(TF_Output oper_out);
/* The number of outputs (inputs) of an argument, by its name; -1 on errors. */
TF_CAPI_EXPORT int TF_OperationOutputListLength(TF_Operation* oper,
                                                const char* arg_name,
                                                TF_Status* status);
TF_CAPI_EXPORT int TF_OperationNumInputs(TF_Operation* oper);
TF_CAPI_EXPORT TF_DataType TF_OperationInputType(TF_Input oper_in);
TF_CAPI_EXPORT int TF_OperationInputListLength(TF_Operation* oper,
                                               const char* arg_name,
                                               TF_Status* status);
TF_CAPI_EXPORT TF_Output TF_OperationInput(TF_Input oper_in);
/* The first `max_inputs` inputs. */
TF_CAPI_EXPORT void TF_OperationAllInputs(TF_Operation* oper, TF_Output* inputs,
                                          int max_inputs);
/* Consumers are those at the time of the call. The functions that fill an array
 * return the number that there are and store at most as many as it has room
 * for. */
TF_CAPI_EXPORT int TF_OperationOutputNumConsumers(TF_Output oper_out);
TF_CAPI_EXPORT int TF_OperationOutputConsumers(TF_Output oper_out,
                                               TF_Input* consumers,
                                               int max_consumers);
TF_CAPI_EXPORT int TF_OperationNumControlInputs(TF_Operation* oper);
TF_CAPI_EXPORT int TF_OperationGetControlInputs(TF_Operation* oper,
                                                TF_Operation** control_inputs,
                                                int max_control_inputs);
TF_CAPI_EXPORT int TF_OperationNumControlOutputs(TF_Operation* oper);
TF_CAPI_EXPORT int TF_OperationGetControlOutputs(TF_Operation* oper,
                                                 TF_Operation** control_outputs,
                                                 int max_control_outputs);
/* What is needed to receive an attribute. */
typedef struct TF_AttrMetadata {
  unsigned char is_list;
  int64_t list_size; /* -1 if it is no list. */
  TF_AttrType type;  /* Of the value, or of the elements. */
  /* Of a string: its bytes; of a list of strings: the sum. Of a shape: its
   * rank, or -1 if that is unknown; of a list of shapes: the sum of the known
   * ranks. Else -1. */
  int64_t total_size;
} TF_AttrMetadata;
/* TF_INVALID_ARGUMENT, below too, if there is no such attribute, or it is of
 * another kind, or its value does not fit into the room given. */
TF_CAPI_EXPORT TF_AttrMetadata TF_OperationGetAttrMetadata(
    TF_Operation* oper, const char* attr_name, TF_Status* status);
/* The first `max_length` bytes. */
TF_CAPI_EXPORT void TF_OperationGetAttrString(TF_Operation* oper,
                                              const char* attr_name,
                                              void* value, size_t max_length,
                                              TF_Status* status);
/* The bytes go to `storage`, where `values` then point. */
TF_CAPI_EXPORT void TF_OperationGetAttrStringList(
    TF_Operation* oper, const char* attr_name, void** values, size_t* lengths,
    int max_values, void* storage, size_t storage_size, TF_Status* status);
TF_CAPI_EXPORT void TF_OperationGetAttrInt(TF_Operation* oper,
                                           const char* attr_name,
                                           int64_t* value, TF_Status* status);
/* Lists: the first `max_values` elements. */
TF_CAPI_EXPORT void TF_OperationGetAttrIntList(TF_Operation* oper,
                                               const char* attr_name,
                                               int64_t* values, int max_values,
                                               TF_Status* status);
TF_CAPI_EXPORT void TF_OperationGetAttrFloat(TF_Operation* oper,
                                             const char* attr_name,
                                             float* value, TF_Status* status);
TF_CAPI_EXPORT void TF_OperationGetAttrFloatList(TF_Operation* oper,
                                                 const char* attr_name,
                                                 float* values, int max_values,
                                                 TF_Status* status);
TF_CAPI_EXPORT void TF_OperationGetAttrBool(TF_Operation* oper,
                                            const char* attr_name,
                                            unsigned char* value,
                                            TF_Status* status);
TF_CAPI_EXPORT void TF_OperationGetAttrBoolList(TF_Operation* oper,
                                                const char* attr_name,
                                                unsigned char* values,
                                                int max_values,
                                                TF_Status* status);
TF_CAPI_EXPORT void TF_OperationGetAttrType(TF_Operation* oper,
                                            const char* attr_name,
                                            TF_DataType* value,
                                            TF_Status* status);
TF_CAPI_EXPORT void TF_OperationGetAttrTypeList(TF_Operation* oper,
                                                const char* attr_name,
                                                TF_DataType* values,
                                                int max_values,
                                                TF_Status* status);
/* `num_dims` is the rank (total_size). */
TF_CAPI_EXPORT void TF_OperationGetAttrShape(TF_Operation* oper,
                                             const char* attr_name,
                                             int64_t* value, int num_dims,
                                             TF_Status* status);
/* The sizes go to `storage`, where `dims` then point; a shape of unknown rank
 * has num_dims -1. */
TF_CAPI_EXPORT void TF_OperationGetAttrShapeList(
    TF_Operation* oper, const char* attr_name, int64_t** dims, int* num_dims,
    int num_shapes, int64_t* storage, int storage_size, TF_Status* status);
TF_CAPI_EXPORT void TF_OperationGetAttrTensorShapeProto(TF_Operation* oper,
                                                        const char* attr_name,
                                                        TF_Buffer* value,
                                                        TF_Status* status);
/* Each of the first `max_values` is a new buffer of the caller. */
TF_CAPI_EXPORT void TF_OperationGetAttrTensorShapeProtoList(
    TF_Operation* oper, const char* attr_name, TF_Buffer** values,
    int max_values, TF_Status* status);
/* A new tensor of the caller. */
TF_CAPI_EXPORT void TF_OperationGetAttrTensor(TF_Operation* oper,
                                              const char* attr_name,
                                              TF_Tensor** value,
                                              TF_Status* status);
TF_CAPI_EXPORT void TF_OperationGetAttrTensorList(TF_Operation* oper,
                                                  const char* attr_name,
                                                  TF_Tensor** values,
                                                  int max_values,
                                                  TF_Status* status);
/* A serialised AttrValue. Buffers that are filled, here and below, have no data
 * before; what is in them belongs to the caller. */
TF_CAPI_EXPORT void TF_OperationGetAttrValueProto(TF_Operation* oper,
                                                  const char* attr_name,
                                                  TF_Buffer* output_attr_value,
                                                  TF_Status* status);
/* A serialised NodeDef. */
TF_CAPI_EXPORT void TF_OperationToNodeDef(TF_Operation* oper,
                                          TF_Buffer* output_node_def,
                                          TF_Status* status);

/* ---- What graphs hold --------------------------------------------------- */

/* Null if there is none. */
TF_CAPI_EXPORT TF_Operation* TF_GraphOperationByName(TF_Graph* graph,
                                                     const char* oper_name);
/* All operations, in the order of creation: `*pos` is 0 for the first call.
 * Null after the last. */
TF_CAPI_EXPORT TF_Operation* TF_GraphNextOperation(TF_Graph* graph,
                                                   size_t* pos);
TF_CAPI_EXPORT void TF_GraphToGraphDef(TF_Graph* graph,
                                       TF_Buffer* output_graph_def,
                                       TF_Status* status);
/* A serialised OpDef, of an op or a function of the graph. TF_NOT_FOUND names
 * the nearest. */
TF_CAPI_EXPORT void TF_GraphGetOpDef(TF_Graph* graph, const char* op_name,
                                     TF_Buffer* output_op_def,
                                     TF_Status* status);
/* A serialised VersionDef. */
TF_CAPI_EXPORT void TF_GraphVersions(TF_Graph* graph,
                                     TF_Buffer* output_version_def,
                                     TF_Status* status);
/* The value that an output has whatever a step is fed, computed without a
 * session. 1, with a new tensor of the caller, if it is known; else 0. */
TF_CAPI_EXPORT unsigned char TF_TryEvaluateConstant(TF_Graph* graph,
                                                    TF_Output output,
                                                    TF_Tensor** result,
                                                    TF_Status* status);
/* Gives an input another source of the same type. Later steps use it, running
 * ones do not. In sessions of this process that have run steps before, ops that
 * keep state of their own (streams of random numbers) start anew; variables and
 * other resources stay. Sessions of a cluster do not notice the change of what
 * they have run before. */
TF_CAPI_EXPORT void TF_UpdateEdge(TF_Graph* graph, TF_Output new_src,
                                  TF_Input dst, TF_Status* status);

/* ---- Importing GraphDefs ------------------------------------------------ */

typedef struct TF_ImportGraphDefOptions TF_ImportGraphDefOptions;
TF_CAPI_EXPORT TF_ImportGraphDefOptions* TF_NewImportGraphDefOptions(void);
TF_CAPI_EXPORT void TF_DeleteImportGraphDefOptions(
    TF_ImportGraphDefOptions* opts);
/* Names become "prefix/name". */
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsSetPrefix(
    TF_ImportGraphDefOptions* opts, const char* prefix);
/* The device of nodes that have none. */
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsSetDefaultDevice(
    TF_ImportGraphDefOptions* opts, const char* device);
/* Whether names that are taken become "name_1", ... (default: an error). */
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsSetUniquifyNames(
    TF_ImportGraphDefOptions* opts, unsigned char uniquify_names);
/* The same for the prefix. */
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsSetUniquifyPrefix(
    TF_ImportGraphDefOptions* opts, unsigned char uniquify_prefix);
/* Inputs that are output src_index of node src_name become `dst`; -1: control
 * inputs. */
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsAddInputMapping(
    TF_ImportGraphDefOptions* opts, const char* src_name, int src_index,
    TF_Output dst);
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsRemapControlDependency(
    TF_ImportGraphDefOptions* opts, const char* src_name, TF_Operation* dst);
/* Imported nodes run after this one. */
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsAddControlDependency(
    TF_ImportGraphDefOptions* opts, TF_Operation* oper);
/* Outputs and operations to return, by their names in the GraphDef. An output
 * that was mapped is returned as what it was mapped to. */
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsAddReturnOutput(
    TF_ImportGraphDefOptions* opts, const char* oper_name, int index);
TF_CAPI_EXPORT int TF_ImportGraphDefOptionsNumReturnOutputs(
    const TF_ImportGraphDefOptions* opts);
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsAddReturnOperation(
    TF_ImportGraphDefOptions* opts, const char* oper_name);
TF_CAPI_EXPORT int TF_ImportGraphDefOptionsNumReturnOperations(
    const TF_ImportGraphDefOptions* opts);
/* The arrays that the functions of the results return belong to the results. */
typedef struct TF_ImportGraphDefResults TF_ImportGraphDefResults;
TF_CAPI_EXPORT void TF_ImportGraphDefResultsReturnOutputs(
    TF_ImportGraphDefResults* results, int* num_outputs, TF_Output** outputs);
TF_CAPI_EXPORT void TF_ImportGraphDefResultsReturnOperations(
    TF_ImportGraphDefResults* results, int* num_opers, TF_Operation*** opers);
/* Mappings of outputs that the GraphDef does not have. */
TF_CAPI_EXPORT void TF_ImportGraphDefResultsMissingUnusedInputMappings(
    TF_ImportGraphDefResults* results, int* num_missing_unused_input_mappings,
    const char*** src_names, int** src_indexes);
TF_CAPI_EXPORT void TF_DeleteImportGraphDefResults(
    TF_ImportGraphDefResults* results);
/* Null options: the defaults. After an error the graph may hold some of the
 * nodes. The results belong to the caller; null on errors. */
TF_CAPI_EXPORT TF_ImportGraphDefResults* TF_GraphImportGraphDefWithResults(
    TF_Graph* graph, const TF_Buffer* graph_def,
    const TF_ImportGraphDefOptions* options, TF_Status* status);
/* `num_return_outputs` is the number of outputs asked for. */
TF_CAPI_EXPORT void TF_GraphImportGraphDefWithReturnOutputs(
    TF_Graph* graph, const TF_Buffer* graph_def,
    const TF_ImportGraphDefOptions* options, TF_Output* return_outputs,
    int num_return_outputs, TF_Status* status);
TF_CAPI_EXPORT void TF_GraphImportGraphDef(
    TF_Graph* graph, const TF_Buffer* graph_def,
    const TF_ImportGraphDefOptions* options, TF_Status* status);

/* ---- Functions ---------------------------------------------------------- */

/* A function of nodes of a graph, which stays as it is: `opers`, or with
 * num_opers -1 all but those of the inputs. `inputs` are outputs whose values
 * become arguments; every input of `opers` comes from `opers` or `inputs`.
 * output_names may be null; opts are not used. With append_hash_to_fn_name the
 * name ends with a hash of the body. Null on errors; the caller deletes it. */
TF_CAPI_EXPORT TF_Function* TF_GraphToFunction(
    const TF_Graph* fn_body, const char* fn_name,
    unsigned char append_hash_to_fn_name, int num_opers,
    const TF_Operation* const* opers, int ninputs, const TF_Output* inputs,
    int noutputs, const TF_Output* outputs, const char* const* output_names,
    const TF_FunctionOptions* opts, const char* description, TF_Status* status);
/* With operations that run whenever the function does; their names may be
 * null. */
TF_CAPI_EXPORT TF_Function* TF_GraphToFunctionWithControlOutputs(
    const TF_Graph* fn_body, const char* fn_name,
    unsigned char append_hash_to_fn_name, int num_opers,
    const TF_Operation* const* opers, int ninputs, const TF_Output* inputs,
    int noutputs, const TF_Output* outputs, const char* const* output_names,
    int ncontrol_outputs, const TF_Operation* const* control_outputs,
    const char* const* control_output_names, const TF_FunctionOptions* opts,
    const char* description, TF_Status* status);
/* Valid as long as the function. */
TF_CAPI_EXPORT const char* TF_FunctionName(TF_Function* func);
TF_CAPI_EXPORT void TF_FunctionToFunctionDef(TF_Function* func,
                                             TF_Buffer* output_func_def,
                                             TF_Status* status);
TF_CAPI_EXPORT TF_Function* TF_FunctionImportFunctionDef(const void* proto,
                                                         size_t proto_len,
                                                         TF_Status* status);
/* Attributes of the function itself: serialised AttrValues. Graphs to which it
 * was copied before are not affected. */
TF_CAPI_EXPORT void TF_FunctionSetAttrValueProto(TF_Function* func,
                                                 const char* attr_name,
                                                 const void* proto,
                                                 size_t proto_len,
                                                 TF_Status* status);
TF_CAPI_EXPORT void TF_FunctionGetAttrValueProto(TF_Function* func,
                                                 const char* attr_name,
                                                 TF_Buffer* output_attr_value,
                                                 TF_Status* status);
/* Accepts null. */
TF_CAPI_EXPORT void TF_DeleteFunction(TF_Function* func);
/* Adds a function, and its gradient (which may be null), to a graph, whose
 * operations may then call it by its name. No effect if the graph has it.
 * TF_INVALID_ARGUMENT if it has another of that name. */
TF_CAPI_EXPORT void TF_GraphCopyFunction(TF_Graph* g, const TF_Function* func,
                                         const TF_Function* grad,
                                         TF_Status* status);
TF_CAPI_EXPORT int TF_GraphNumFunctions(TF_Graph* g);
/* Stores at most `max_func` new functions of the caller; returns how many. */
TF_CAPI_EXPORT int TF_GraphGetFunctions(TF_Graph* g, TF_Function** funcs,
                                        int max_func, TF_Status* status);

/* ---- Loops and gradients ------------------------------------------------ */

/* A loop that is being built. cond_graph and body_graph, which belong to it,
 * compute cond_output (a scalar boolean) and body_outputs (the variables' next
 * values) from cond_inputs and body_inputs (the variables); the caller sets
 * these outputs and `name`. */
typedef struct TF_WhileParams {
  const int ninputs;
  TF_Graph* const cond_graph;
  const TF_Output* const cond_inputs;
  TF_Output cond_output;
  TF_Graph* const body_graph;
  const TF_Output* const body_inputs;
  TF_Output* const body_outputs;
  const char* name;
} TF_WhileParams;
/* Begins a loop of graph `g` whose variables begin as `inputs`. If `status` is
 * TF_OK, the caller ends it with TF_FinishWhile or TF_AbortWhile. */
TF_CAPI_EXPORT TF_WhileParams TF_NewWhile(TF_Graph* g, TF_Output* inputs,
                                          int ninputs, TF_Status* status);
/* Adds the loop to the graph; `outputs`, room for ninputs, become the final
 * values. The params and their graphs are deleted in any case. */
TF_CAPI_EXPORT void TF_FinishWhile(const TF_WhileParams* params,
                                   TF_Status* status, TF_Output* outputs);
TF_CAPI_EXPORT void TF_AbortWhile(const TF_WhileParams* params);
/* Adds the nodes that compute the derivatives of the sum of `y` with respect to
 * `x`, through conditionals, loops and functions. `dx` are the gradients of y,
 * or null for ones; `dy`, room for nx, become the results: a null operation
 * where no y depends on an x. An x of integers without a gradient is
 * TF_INVALID_ARGUMENT. */
TF_CAPI_EXPORT void TF_AddGradients(TF_Graph* g, TF_Output* y, int ny,
                                    TF_Output* x, int nx, TF_Output* dx,
                                    TF_Status* status, TF_Output* dy);
/* Names begin with "prefix/", which no node has yet; null: "gradients",
 * "gradients_1", ... */
TF_CAPI_EXPORT void TF_AddGradientsWithPrefix(TF_Graph* g, const char* prefix,
                                              TF_Output* y, int ny,
                                              TF_Output* x, int nx,
                                              TF_Output* dx, TF_Status* status,
                                              TF_Output* dy);

/* ---- Sessions ----------------------------------------------------------- */

/* Thread-safe. Prepares each step (inputs, outputs and targets) once. */
typedef struct TF_Session TF_Session;
/* Null options: the defaults. The options may be deleted afterwards. */
TF_CAPI_EXPORT TF_Session* TF_NewSession(TF_Graph* graph,
                                         const TF_SessionOptions* opts,
                                         TF_Status* status);
/* Adds a saved model's graph to `graph`, with variables restored and tables
 * filled. `run_options` is not used. `meta_graph_def` may be null; else it
 * becomes the serialised MetaGraphDef. */
TF_CAPI_EXPORT TF_Session* TF_LoadSessionFromSavedModel(
    const TF_SessionOptions* session_options, const TF_Buffer* run_options,
    const char* export_dir, const char* const* tags, int tags_len,
    TF_Graph* graph, TF_Buffer* meta_graph_def, TF_Status* status);
/* Running steps end with TF_CANCELLED, later ones fail. */
TF_CAPI_EXPORT void TF_CloseSession(TF_Session* session, TF_Status* status);
/* Closes it, waits for its steps, and deletes it, whatever the status. Accepts
 * null. */
TF_CAPI_EXPORT void TF_DeleteSession(TF_Session* session, TF_Status* status);
/* Runs a step. `output_values`, room for `noutputs`, become new tensors of the
 * caller, or null on errors. run_options (a serialised RunOptions: trace_level,
 * timeout_in_ms and output_partition_graphs are read) and run_metadata (filled
 * with a serialised RunMetadata) may be null. */
TF_CAPI_EXPORT void TF_SessionRun(
    TF_Session* session, const TF_Buffer* run_options, const TF_Output* inputs,
    TF_Tensor* const* input_values, int ninputs, const TF_Output* outputs,
    TF_Tensor** output_values, int noutputs,
    const TF_Operation* const* target_opers, int ntargets,
    TF_Buffer* run_metadata, TF_Status* status);
/* Begins a step that is fed in stages: everything that any stage feeds, fetches
 * or runs. `*handle` belongs to the caller. */
TF_CAPI_EXPORT void TF_SessionPRunSetup(TF_Session* session,
                                        const TF_Output* inputs, int ninputs,
                                        const TF_Output* outputs, int noutputs,
                                        const TF_Operation* const* target_opers,
                                        int ntargets, const char** handle,
                                        TF_Status* status);
/* A stage. Targets run once what they need has been fed; those given here must
 * be among those of the setup. One stage of a step at a time. */
TF_CAPI_EXPORT void TF_SessionPRun(TF_Session* session, const char* handle,
                                   const TF_Output* inputs,
                                   TF_Tensor* const* input_values, int ninputs,
                                   const TF_Output* outputs,
                                   TF_Tensor** output_values, int noutputs,
                                   const TF_Operation* const* target_opers,
                                   int ntargets, TF_Status* status);
/* Ends the step, if it still runs, and frees the handle. Accepts null. */
TF_CAPI_EXPORT void TF_DeletePRunHandle(const char* handle);

/* ---- Sessions with graphs of their own, by names ------------------------ */

typedef struct TF_DeprecatedSession TF_DeprecatedSession;
TF_CAPI_EXPORT TF_DeprecatedSession* TF_NewDeprecatedSession(
    const TF_SessionOptions* options, TF_Status* status);
TF_CAPI_EXPORT void TF_CloseDeprecatedSession(TF_DeprecatedSession* session,
                                              TF_Status* status);
TF_CAPI_EXPORT void TF_DeleteDeprecatedSession(TF_DeprecatedSession* session,
                                               TF_Status* status);
/* Removes the state in these containers (none: all) of a cluster's tasks.
 * TF_INVALID_ARGUMENT if the options name no target, since sessions in this
 * process have states of their own. */
TF_CAPI_EXPORT void TF_Reset(const TF_SessionOptions* opt,
                             const char** containers, int ncontainers,
                             TF_Status* status);
TF_CAPI_EXPORT void TF_ExtendGraph(TF_DeprecatedSession* session,
                                   const void* proto, size_t proto_len,
                                   TF_Status* status);
/* As TF_SessionRun, also in that the inputs stay the caller's. */
TF_CAPI_EXPORT void TF_Run(TF_DeprecatedSession* session,
                           const TF_Buffer* run_options,
                           const char** input_names, TF_Tensor** inputs,
                           int ninputs, const char** output_names,
                           TF_Tensor** outputs, int noutputs,
                           const char** target_oper_names, int ntargets,
                           TF_Buffer* run_metadata, TF_Status* status);
TF_CAPI_EXPORT void TF_PRunSetup(TF_DeprecatedSession* session,
                                 const char** input_names, int ninputs,
                                 const char** output_names, int noutputs,
                                 const char** target_oper_names, int ntargets,
                                 const char** handle, TF_Status* status);
TF_CAPI_EXPORT void TF_PRun(TF_DeprecatedSession* session, const char* handle,
                            const char** input_names, TF_Tensor** inputs,
                            int ninputs, const char** output_names,
                            TF_Tensor** outputs, int noutputs,
                            const char** target_oper_names, int ntargets,
                            TF_Status* status);

/* ---- Devices ------------------------------------------------------------ */

/* Immutable. */
typedef struct TF_DeviceList TF_DeviceList;
/* Null on errors; the caller deletes it. */
TF_CAPI_EXPORT TF_DeviceList* TF_SessionListDevices(TF_Session* session,
                                                    TF_Status* status);
TF_CAPI_EXPORT TF_DeviceList* TF_DeprecatedSessionListDevices(
    TF_DeprecatedSession* session, TF_Status* status);
TF_CAPI_EXPORT void TF_DeleteDeviceList(TF_DeviceList* list);
TF_CAPI_EXPORT int TF_DeviceListCount(const TF_DeviceList* list);
/* "/job:localhost/replica:0/task:0/device:CPU:0"; null, and
 * TF_INVALID_ARGUMENT, for an index that does not exist. Valid as long as the
 * list. */
TF_CAPI_EXPORT const char* TF_DeviceListName(const TF_DeviceList* list,
                                             int index, TF_Status* status);
/* "CPU". */
TF_CAPI_EXPORT const char* TF_DeviceListType(const TF_DeviceList* list,
                                             int index, TF_Status* status);
/* The machine's memory for the CPUs of this process; 0 if unknown; -1 on
 * errors. */
TF_CAPI_EXPORT int64_t TF_DeviceListMemoryBytes(const TF_DeviceList* list,
                                                int index, TF_Status* status);
/* Not 0, and another one in another process. */
TF_CAPI_EXPORT uint64_t TF_DeviceListIncarnation(const TF_DeviceList* list,
                                                 int index, TF_Status* status);

/* ---- Ops ---------------------------------------------------------------- */

/* A library of ops; they stay when the handle is deleted. */
typedef struct TF_Library TF_Library;
/* Loads a library that declares ops, in C++ (sluice/op.h) or in C (ops.h,
 * kernels.h). If it has a function TF_InitKernel, that is called once. Null on
 * errors, which leave none of its ops. */
TF_CAPI_EXPORT TF_Library* TF_LoadLibrary(const char* library_filename,
                                          TF_Status* status);
/* A serialised OpList of its ops, which belongs to the library. */
TF_CAPI_EXPORT TF_Buffer TF_GetOpList(TF_Library* lib_handle);
TF_CAPI_EXPORT void TF_DeleteLibraryHandle(TF_Library* lib_handle);
/* A serialised OpList of all ops of the process; the caller deletes it. */
TF_CAPI_EXPORT TF_Buffer* TF_GetAllOpList(void);
/* What bindings call the ops of a list, and say of them: an ApiDef by op. One
 * thread at a time. At first each op has its own names and texts. */
typedef struct TF_ApiDefMap TF_ApiDefMap;
/* A serialised OpList. Null on errors. */
TF_CAPI_EXPORT TF_ApiDefMap* TF_NewApiDefMap(TF_Buffer* op_list_buffer,
                                             TF_Status* status);
TF_CAPI_EXPORT void TF_DeleteApiDefMap(TF_ApiDefMap* apimap);
/* Overwrites what the text of an ApiDefs message says; it may have TensorFlow's
 * multi-line strings ("<<END"). Other ops than the map's are ignored.
 * TF_FAILED_PRECONDITION for arguments that the op does not have; what was read
 * before the mistake stays. */
TF_CAPI_EXPORT void TF_ApiDefMapPut(TF_ApiDefMap* api_def_map, const char* text,
                                    size_t text_len, TF_Status* status);
/* A serialised ApiDef, whose texts have the names that it gives; the caller
 * deletes it. Null, with TF_OK, if the map has no such op. */
TF_CAPI_EXPORT TF_Buffer* TF_ApiDefMapGet(TF_ApiDefMap* api_def_map,
                                          const char* name, size_t name_len,
                                          TF_Status* status);
/* A serialised KernelList; the caller deletes it. Kernels in C are listed as
 * they were registered. For other ops, which make a kernel for each node, there
 * is one entry, without constraints. */
TF_CAPI_EXPORT TF_Buffer* TF_GetAllRegisteredKernels(TF_Status* status);
TF_CAPI_EXPORT TF_Buffer* TF_GetRegisteredKernelsForOp(const char* name,
                                                       TF_Status* status);

/* ---- Servers ------------------------------------------------------------ */

/* A task of a cluster, in this process. Thread-safe. */
typedef struct TF_Server TF_Server;
/* A serialised ServerDef. Null on errors. */
TF_CAPI_EXPORT TF_Server* TF_NewServer(const void* proto, size_t proto_len,
                                       TF_Status* status);
TF_CAPI_EXPORT void TF_ServerStart(TF_Server* server, TF_Status* status);
/* It cannot be started again. */
TF_CAPI_EXPORT void TF_ServerStop(TF_Server* server, TF_Status* status);
/* Waits until another thread stops it. */
TF_CAPI_EXPORT void TF_ServerJoin(TF_Server* server, TF_Status* status);
/* For TF_SetTarget; valid as long as the server. */
TF_CAPI_EXPORT const char* TF_ServerTarget(TF_Server* server);
TF_CAPI_EXPORT void TF_DeleteServer(TF_Server* server);

/* ---- Messages and plugins ----------------------------------------------- */

/* TensorFlow's log messages; Sluice has none: errors are statuses. */
TF_CAPI_EXPORT void TF_RegisterLogListener(void (*listener)(const char*));
/* TF_UNIMPLEMENTED: files are the system's. */
TF_CAPI_EXPORT void TF_RegisterFilesystemPlugin(const char* plugin_filename,
                                                TF_Status* status);

TF_CAPI_END

#endif /* TENSORFLOW_C_C_API_H_ */
