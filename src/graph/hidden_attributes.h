// The attributes that Sluice puts on nodes beside those that their ops declare.
// Exports keep them, so they are part of the format of a GraphDef; those that a
// step's own graph has (made by Prune and later passes) never leave the process
// or cluster.
#ifndef SLUICE_GRAPH_HIDDEN_ATTRIBUTES_H_
#define SLUICE_GRAPH_HIDDEN_ATTRIBUTES_H_

namespace sluice {

// ---- TensorFlow's.

// list(string): "loc:@x" puts the node on the device of x.
inline constexpr const char* kColocationAttr = "_class";
// string: the op whose gradient function is used for the node.
inline constexpr const char* kGradientOpTypeAttr = "_gradient_op_type";
// list(shape): what is known of the outputs' shapes.
inline constexpr const char* kOutputShapesAttr = "_output_shapes";
// bool, of a function or a call: keep the body as a function.
inline constexpr const char* kNoInlineAttr = "_noinline";

// ---- In exported graphs: what lets gradients of loops be differentiated again
// (client/autodiff/loop_family.h).

// string, on an array and its reads: the output whose values the array holds.
inline constexpr const char* kSavedValueAttr = "_saved_value";
// string, on an array of a variable's values: the node that writes the last.
inline constexpr const char* kLastWriteAttr = "_saved_last";
// string, on the Merge of a loop's index: the loop's family (the Exit that
// gives the number of iterations).
inline constexpr const char* kLoopFamilyAttr = "_loop_family";
// bool, beside it: whether the index descends.
inline constexpr const char* kLoopDescendingAttr = "_loop_descending";
// bool, on the Merge of the variable that waits for the loop's writes, unless
// that is the index.
inline constexpr const char* kLoopDoneAttr = "_loop_done";
// bool, on reads and writes of saved values: they may be kept in host memory.
inline constexpr const char* kSwapMemoryAttr = "_swap_memory";

// bool, on the Enters of a loop, a FunctionDef and the _Retvals of its frame:
// instances of the nodes within run as one (exec/batching/batch_requests.h).
inline constexpr const char* kBatchAttr = "_batch";

// bool, on a conditional accumulator: as synchronous replicas need it
// (train/sync_replicas.h). It takes only gradients of its own step, not those
// of a later one; and the mean of rows is over all gradients, also over those
// that do not have the row.
inline constexpr const char* kReplicasAccumulatorAttr = "_for_replicas";

// string, on a queue: the pipeline whose start fills it. Taking from it before
// that is an error.
inline constexpr const char* kPipelineAttr = "_pipeline";
// list(int), beside it, on the queue that a stage fills: the number of the
// stage, and those of the stages that it takes elements from.
inline constexpr const char* kPipelineStageAttr = "_pipeline_stage";

// string, on a node of a scheduled body (client/control/scheduled.h), and on
// the nodes that compute its gradient: the body. Gradients are placed with the
// nodes that they differentiate.
inline constexpr const char* kScheduledAttr = "_scheduled";
// bool, on a ScheduleDone: the inputs were a part of some, so that each result
// must have as many rows as the first of them.
inline constexpr const char* kResultsHaveRowsAttr = "_results_have_rows";

// list(string), on a read of a TensorStore: the gradients that add a part for
// each run of it. (These names are no names of nodes.)
inline constexpr const char* kStoreSourcesAttr = "_store_sources";

// Those of the above that name another node of the same graph or function, or
// one of its outputs ("node:1"). Code that renames nodes renames these too.
inline constexpr const char* kNamingAttrs[] = {kLoopFamilyAttr, kLastWriteAttr,
                                               kSavedValueAttr};

// ---- In the bodies of exported functions.

// string: the client's line, "model.cc:12".
inline constexpr const char* kSourceLineAttr = "_sluice_line";
// bool: the function was declared and not yet defined.
inline constexpr const char* kDeclaredAttr = "_sluice_declared";

// ---- In the graph of a step.

// string, on an _Arg: the fed edge and a description of its node.
inline constexpr const char* kFedEdgeAttr = "_edge";
inline constexpr const char* kFedNodeAttr = "_fed_node";
// string, on a _Retval: the same for what is fetched.
inline constexpr const char* kFetchedAttr = "_fetched";
inline constexpr const char* kFetchedNodeAttr = "_fetched_node";
// list(string), on a fused product: descriptions of the nodes it replaces.
inline constexpr const char* kFusedFromAttr = "_fused_from";
// bool, on a node of a device with its own memory: it runs on the host, where
// its inputs and outputs are (passes/partition_memory.cc).
inline constexpr const char* kRunsOnHostAttr = "_runs_on_host";
// string, on a _CopyToDevice: the variable whose value it copies for a
// scheduled body. The device keeps the copy
// (exec/scheduling/parameter_cache.h).
inline constexpr const char* kParameterAttr = "_parameter";

}  // namespace sluice

#endif  // SLUICE_GRAPH_HIDDEN_ATTRIBUTES_H_
