// Traits of ops: what passes, gradients and the executor must know of an op.
// They are declared with the op (graph/op_def.h) and asked of the op; nothing
// asks for its name, so that an op of a program, or another version of an op,
// is treated as it declares (docs/design/003-one-op-one-place.md).
//
//   SLUICE_OP(Ticks)
//       .Output("ticks: int64")
//       .Stateful({.has_identity = true,  // Its count.
//                  .not_foldable = true,
//                  .not_mergeable = true})
//       .Shape(ScalarShape)
//       .Kernel(CpuState<TicksKernel>())
//       .Doc("Returns how often the node has run in this session.");
#ifndef SLUICE_GRAPH_OP_TRAITS_H_
#define SLUICE_GRAPH_OP_TRAITS_H_

#include <cstdint>

namespace sluice {

// How the executor treats a node. All roles but kCompute only move tokens and
// have no kernel.
enum class OpRole : uint8_t {
  kCompute,
  kConst,     // The value of attribute "value".
  kArg,       // A feed.
  kRetval,    // A fetch.
  kNoOp,      // NoOp, ControlTrigger, _Function: ordering only.
  kIdentity,  // Input 0 to output 0.
  kSwitch,
  kMerge,
  kEnter,
  kExit,
  kNextIteration,
  kLoopCond,
  kCall,        // Runs a function in its own frame.
  kReturn,      // A result of such a frame. (In plans only; the op is _Retval.)
  kSend,        // Sends its token to another partition of the step.
  kRecv,        // Receives a token from another partition.
  kFunctional,  // A call, If, While, ...: replaced before a plan is made.
};

// What a node computes, for passes and gradients that recognise it. An op that
// declares a kind is treated like the op named here, whatever its own name, and
// computes the same. Versions of one op share a kind although their handles
// (references or resources), last inputs or some attributes differ: code that
// reads these asks the declaration. What the role tells (constants, Switch,
// Enter, ...) needs no kind.
enum class OpKind : uint8_t {
  kOther,
  // Values that are passed on or fed.
  kIdentity,     // Identity: the value of input 0, and its gradient.
  kIdentityN,    // IdentityN: output i is the value of input i.
  kSameValue,    // StopGradient, Snapshot, ...: the value of input 0 only.
  kPlaceholder,  // Placeholder: fed in place.
  // Ordering, and functions in frames of their own. (All with role kNoOp.)
  kControlTrigger,  // Runs after its control inputs, dead ones included.
  kFunctionStart,   // _Function.
  // Variables.
  kVarHandle,      // VarHandleOp: a handle.
  kRefVariable,    // VariableV2, Variable: a reference.
  kReadVariable,   // ReadVariableOp.
  kVariableShape,  // VariableShape.
  kIsInitialized,  // IsVariableInitialized, VarIsInitializedOp.
  kAssign,         // Assign, AssignVariableOp.
  kAssignSub,      // AssignSub, AssignSubVariableOp.
  kScatterAdd,     // ScatterAdd, ResourceScatterAdd.
  // Shapes. ReadsOnlyShapes names these four.
  kShape,
  kShapeN,
  kSize,
  kRank,
  // Arrays of one step. IsContainer names all from here to kStackClose.
  kTensorArray,
  kTensorArrayGrad,           // TensorArrayGradV3.
  kTensorArrayGradWithShape,  // With the shape to prepend as input 2.
  kTensorArrayWrite,
  kTensorArrayRead,
  kTensorArrayGather,
  kTensorArrayScatter,
  kTensorArrayConcat,
  kTensorArraySplit,
  kTensorArraySize,
  kTensorArrayClose,
  kStack,
  kStackPush,
  kStackPop,
  kStackClose,
  // Stores of one step or of many, whose reads wait for the writes.
  kTensorStore,
  kTensorStoreGrad,  // The store of another's gradients, by source.
  kTensorStoreWrite,
  kTensorStoreRead,  // TensorStoreRead, TensorStoreReadMany.
  kTensorStoreAdd,   // Adds to an element of a store of gradients.
  kTensorStoreSum,   // Reads one when all its parts have come.
  // Products, and what follows them in a layer.
  kMatMul,
  kMatMulAdd,
  kBatchMatMul,  // BatchMatMul, BatchMatMulV2, BatchMatMulV3.
  kConv2D,
  kDepthwiseConv2D,  // DepthwiseConv2dNative.
  kBiasAdd,          // BiasAdd, BiasAddV1.
  kBatchNorm,        // FusedBatchNorm, FusedBatchNormV2, FusedBatchNormV3.
  kRelu,
  kRelu6,
  kElu,
  kSelu,
  kLeakyRelu,
  kTanh,
  kSigmoid,
  kSoftplus,
  kSoftsign,
  kMaxPool,
  // Arithmetic.
  kAdd,  // Add, AddV2.
  kAddN,
  kSub,
  kMul,
  kDiv,  // RealDiv, Div. (They differ for integers.)
  kSqrt,
  kNeg,
  kFloorDiv,
  kFloorMod,
  kMaximum,
  kMinimum,
  kSum,
  kProd,
  kMax,
  kMin,
  kCast,
  // Rearrangements.
  kReshape,
  kExpandDims,
  kSqueeze,
  kPack,
  kUnpack,
  kConcat,  // ConcatV2.
  kSlice,
  kStridedSlice,
  kGather,  // Gather, GatherV2.
  kFill,
  kRange,
  kZerosLike,
  kOnesLike,
  kSparseConcat,
  kUnique,  // Unique, without counts.
  kUnsortedSegmentSum,
  // Functional nodes. (All with role kFunctional; one of kind kOther calls the
  // function of its own name.)
  kIf,
  kWhile,
  kCase,
  kFor,
  kPartitionedCall,  // PartitionedCall, StatefulPartitionedCall.
  kRemoteCall,       // Input 0 is the device.
  kSymbolicGradient,
  kSavingCall,  // SavingCall, StatefulSavingCall.
  kSavedGradient,
  // Copies that the partitioner adds.
  kCopyFromDevice,
  kCopyFromPeer,
  kCopyToDevice,
  kAwaitDevice,
  // The session.
  kGetSessionHandle,  // GetSessionHandle, GetSessionHandleV2.
};

// True for ops that read only the shapes of their inputs. A node may be folded
// although its inputs run in the step, so its inputs do not order it after
// anything.
constexpr bool ReadsOnlyShapes(OpKind k) {
  return k >= OpKind::kShape && k <= OpKind::kRank;
}

// True for ops on TensorArrays and stacks. Their state belongs to one step and
// is ordered by flows and control edges alone; each tensor is stored where its
// type says.
constexpr bool IsContainer(OpKind k) {
  return k >= OpKind::kTensorArray && k <= OpKind::kStackClose;
}

// What else a run of a node does or depends on, beside the inputs, attributes
// and outputs. A pass asks for the fact that it means. (Accesses through
// references are not facts of the op: passes see them in the types of the
// inputs.)
struct OpFacts {
  // A run can be observed by other means than the outputs: it changes a
  // variable, prints, may fail the step. In a function's body such a node runs
  // even if nothing reads it, and in order (graph/function_effects.cc); a call
  // with effects is done when they are (passes/inliner.cc).
  bool has_effects = false;
  // Each node owns something that outlives the step: a variable, the stream of
  // a random op, a count. The session keeps one kernel per node
  // (session/compile.h), and the node stays on its device
  // (passes/place_groups.cc).
  bool has_identity = false;
  // The outputs depend on something else: state, the time, random numbers. They
  // are not computed ahead of the step (passes/fold.cc).
  bool not_foldable = false;
  // Two nodes with equal inputs and attributes are not replaced by one
  // (passes/cse.cc).
  bool not_mergeable = false;
  // A run may wait for any length of time for something that another node or
  // another step does, as that of a lock does. The kernel must be async
  // (MakeDeclaredKernel, exec/core/checked_kernel.h checks it), use no thread
  // until it calls `done`, end with Cancelled when StepContext::cancellation is
  // cancelled, and not read StepContext::deadline, which changes with the
  // stages of a partial run. Other kernels run as if it were not there, and a
  // stage of a partial run may end before it (exec/core/executor.h).
  bool waits = false;

  // None of these: when and how often the node runs does not matter. Such nodes
  // are fused (exec/fusion/chains.cc, passes/fuse_products.cc), and nothing in
  // another partition waits for them because of their effects
  // (passes/partition.cc).
  constexpr bool pure() const {
    return !has_effects && !has_identity && !not_foldable && !not_mergeable &&
           !waits;
  }
};

// The facts of most ops that TensorFlow calls stateful, and the default of
// OpDefBuilder::Stateful.
inline constexpr OpFacts kUsesState = {.has_effects = true,
                                       .has_identity = true,
                                       .not_foldable = true,
                                       .not_mergeable = true};
// Owns state, such as a variable or the stream of a random op, but running it
// without using the outputs has no effect.
inline constexpr OpFacts kOwnsState = {
    .has_identity = true, .not_foldable = true, .not_mergeable = true};
// Returns something else each time, or a buffer of its own, and owns nothing
// after the step: Timestamp, Empty, ops on TensorArrays and stacks (whose
// effects are ordered by flows and control edges).
inline constexpr OpFacts kDiffersEachTime = {.not_foldable = true,
                                             .not_mergeable = true};

}  // namespace sluice

#endif  // SLUICE_GRAPH_OP_TRAITS_H_
