// The primitives of dynamic control flow, and the inputs and outputs of a step.
// All except RefSelect and Abort only move tokens, which the executor does
// according to their role.
#include <optional>
#include <string>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

constexpr const char* kWithItsConstruct =
    "differentiated with its whole conditional or loop";

Status SwitchShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  c.set_all_outputs(c.input(0));
  return OkStatus();
}

// The common shape of a token that may come from any of inputs [first, n). A
// back edge that does not exist yet may have any shape.
PartialShape UnionOfInputs(const ShapeContext& c, int first) {
  std::optional<PartialShape> all;
  for (int i = first; i < c.num_inputs(); ++i) {
    if (!c.node().input(i).valid()) return PartialShape::Unknown();
    all = all.has_value() ? all->Union(c.input(i)) : c.input(i);
  }
  return all.value_or(PartialShape::Unknown());
}

Status MergeShape(ShapeContext& c) {
  c.set_output(0, UnionOfInputs(c, 0));
  c.set_output(1, PartialShape::Scalar());
  return OkStatus();
}

Status LoopCondShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  c.set_output(0, PartialShape::Scalar());
  return OkStatus();
}

Status RefSelectShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  c.set_output(0, UnionOfInputs(c, 1));
  return OkStatus();
}

Status RunRefSelect(KernelContext& ctx) {
  const Tensor& index = ctx.input(0);
  if (index.num_elements() != 1)
    return InvalidArgument("index: expected a scalar, got shape ",
                           index.shape().ToString());
  const int32_t i = index.raw_scalar<int32_t>();
  const int n = ctx.num_inputs() - 1;
  if (i < 0 || i >= n)
    return InvalidArgument("index: expected a value in [0, ", n, "), got ", i);
  ctx.set_output(0, ctx.input(i + 1));
  return OkStatus();
}

// In TensorFlow this ends the process; here it ends the step, since graphs are
// untrusted input. State: the message.
Status MakeAbort(const Node& n, Kernel* k) {
  std::string message = n.AttrOr<std::string>("error_msg", "");
  if (message.empty()) message = "the step reached an Abort op";
  k->state = std::make_shared<std::string>(std::move(message));
  k->run = [](KernelContext& ctx) -> Status {
    return Aborted(ctx.state<std::string>());
  };
  return OkStatus();
}

SLUICE_OP(Switch)
    .Input("data: T")
    .Input("pred: bool")
    .Output("output_false: T")
    .Output("output_true: T")
    .Attr("T: type")
    .Family("control_flow")
    .Role(OpRole::kSwitch)
    .Shape(SwitchShape)
    .NoGradient(kWithItsConstruct)
    .Doc(
        "Forwards the data to the output that the predicate selects; the "
        "other output is dead.");

SLUICE_OP(Merge)
    .Input("inputs: N * T")
    .Output("output: T")
    .Output("value_index: int32")
    .Attr("T: type")
    .Attr("N: int >= 1")
    .Family("control_flow")
    .Role(OpRole::kMerge)
    .Shape(MergeShape)
    .NoGradient(kWithItsConstruct)
    .Doc("Forwards the first live input to arrive, and returns its index.");

SLUICE_OP(Enter)
    .Input("data: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("frame_name: string")
    .Attr("is_constant: bool = false")
    .Attr("parallel_iterations: int = 10")
    .Family("control_flow")
    .Role(OpRole::kEnter)
    .Shape(UnchangedShape)
    .NoGradient(kWithItsConstruct)
    .Doc(
        "Passes a value into a loop's frame: to its first iteration, or to "
        "every iteration if it is a loop constant.");

SLUICE_OP(Exit)
    .Input("data: T")
    .Output("output: T")
    .Attr("T: type")
    .Family("control_flow")
    .Role(OpRole::kExit)
    .Shape(UnchangedShape)
    .NoGradient(kWithItsConstruct)
    .Doc("Passes a value out of a loop's frame to the parent frame.");

SLUICE_OP(NextIteration)
    .Input("data: T")
    .Output("output: T")
    .Attr("T: type")
    .Family("control_flow")
    .Role(OpRole::kNextIteration)
    .Shape(UnchangedShape)
    .NoGradient(kWithItsConstruct)
    .Doc("Passes a value to the next iteration of its loop.");

SLUICE_OP(LoopCond)
    .Input("input: bool")
    .Output("output: bool")
    .Family("control_flow")
    .Role(OpRole::kLoopCond)
    .Shape(LoopCondShape)
    .NoGradient(kWithItsConstruct)
    .Doc("Marks the predicate that decides whether a loop continues.");

SLUICE_OP(ControlTrigger)
    .Kind(OpKind::kControlTrigger)
    .Family("control_flow")
    .Role(OpRole::kNoOp)
    .Shape(NoOutputs)
    .NoGradient("it has no inputs")
    .Doc(
        "Does nothing; runs when all of its control inputs have arrived, "
        "including dead ones.");

SLUICE_OP(RefSwitch)
    .Input("data: Ref(T)")
    .Input("pred: bool")
    .Output("output_false: Ref(T)")
    .Output("output_true: Ref(T)")
    .Attr("T: type")
    .AllowsUninitializedInput()
    .Family("control_flow")
    .Role(OpRole::kSwitch)
    .Shape(SwitchShape)
    .NoGradient(kWithItsConstruct)
    .Doc("Switch for a reference to a variable.");

SLUICE_OP(RefMerge)
    .Input("inputs: Ref(N * T)")
    .Output("output: Ref(T)")
    .Output("value_index: int32")
    .Attr("T: type")
    .Attr("N: int >= 1")
    .Family("control_flow")
    .Role(OpRole::kMerge)
    .Shape(MergeShape)
    .NoGradient(kWithItsConstruct)
    .Doc("Merge for references to variables.");

SLUICE_OP(RefEnter)
    .Input("data: Ref(T)")
    .Output("output: Ref(T)")
    .Attr("T: type")
    .Attr("frame_name: string")
    .Attr("is_constant: bool = false")
    .Attr("parallel_iterations: int = 10")
    .Family("control_flow")
    .Role(OpRole::kEnter)
    .Shape(UnchangedShape)
    .NoGradient(kWithItsConstruct)
    .Doc("Enter for a reference to a variable.");

SLUICE_OP(RefExit)
    .Input("data: Ref(T)")
    .Output("output: Ref(T)")
    .Attr("T: type")
    .Family("control_flow")
    .Role(OpRole::kExit)
    .Shape(UnchangedShape)
    .NoGradient(kWithItsConstruct)
    .Doc("Exit for a reference to a variable.");

SLUICE_OP(RefNextIteration)
    .Input("data: Ref(T)")
    .Output("output: Ref(T)")
    .Attr("T: type")
    .Family("control_flow")
    .Role(OpRole::kNextIteration)
    .Shape(UnchangedShape)
    .NoGradient(kWithItsConstruct)
    .Doc("NextIteration for a reference to a variable.");

SLUICE_OP(RefIdentity)
    .Input("input: Ref(T)")
    .Output("output: Ref(T)")
    .Attr("T: type")
    .AllowsUninitializedInput()
    .Family("control_flow")
    .Role(OpRole::kIdentity)
    .Shape(UnchangedShape)
    .NoGradient("it passes on a reference, not a value")
    .Doc("Returns the reference to a variable unchanged.");

SLUICE_OP(RefSelect)
    .Input("index: int32")
    .Input("inputs: Ref(N * T)")
    .Output("output: Ref(T)")
    .Attr("T: type")
    .Attr("N: int >= 1")
    .Family("control_flow")
    .Shape(RefSelectShape)
    .Kernel(Cpu(RunRefSelect))
    .Grad(grad::Undefined)
    .Doc("Returns the input reference that the index selects.");

SLUICE_OP(Abort)
    .Attr("error_msg: string = ''")
    .Attr("exit_without_error: bool = false")
    .Family("control_flow")
    .Shape(NoOutputs)
    .Kernel(MakeAbort)
    .NoGradient("it has no inputs")
    .Doc("Fails the step with an Aborted error whose message is error_msg.");

// The arguments and results of a plan. Their names begin with an underscore, as
// for all ops that users do not write.
[[maybe_unused]] const OpRegistrar arg_op =
    OpDefBuilder("_Arg")
        .Output("output: T")
        .Attr("T: type")
        .Attr("index: int >= 0")
        .Attr("function: string = ''")
        .Stateful({})
        .Family("control_flow")
        .Role(OpRole::kArg)
        .Shape(UnknownShape)
        .NoGradient("it has no inputs")
        .Doc("The argument with this index of a step or of a function call.");

[[maybe_unused]] const OpRegistrar retval_op =
    OpDefBuilder("_Retval")
        .Input("input: T")
        .Attr("T: type")
        .Attr("index: int >= 0")
        .Attr("function: string = ''")
        .Stateful()
        .Family("control_flow")
        .Role(OpRole::kRetval)
        .Shape(NoOutputs)
        .NoGradient("it has no outputs")
        .Doc("The result with this index of a step or of a function call.");

// A function that runs in its own frame has its nodes in the graph of its
// callers; _Function, _Arg, _Retval and its calls refer to it by name.
[[maybe_unused]] const OpRegistrar function_op =
    OpDefBuilder("_Function")
        .Attr("function: string")
        .Kind(OpKind::kFunctionStart)
        .Stateful()
        .Family("control_flow")
        .Role(OpRole::kNoOp)
        .Shape(NoOutputs)
        .NoGradient("it has no inputs")
        .Doc("Runs when a call of the function begins.");

[[maybe_unused]] const OpRegistrar call_op =
    OpDefBuilder("_Call")
        .Input("args: Tin")
        .Output("results: Tout")
        .Attr("Tin: list(type) >= 0")
        .Attr("Tout: list(type) >= 0")
        .Attr("function: string")
        .Stateful()
        .Family("control_flow")
        .Role(OpRole::kCall)
        .Shape(UnknownShape)
        .NoGradient("it is created when a step is compiled")
        .Doc("Calls a function that may be recursive.");

// Copies between device and host memory, where a token crosses or the host
// reads it. Devices with their own memory provide the kernels; for others there
// is nothing to copy.
Status HandOn(KernelContext& ctx) {
  ctx.set_output(0, ctx.input(0));
  return OkStatus();
}
[[maybe_unused]] const OpRegistrar copy_from_device_op =
    OpDefBuilder("_CopyFromDevice")
        .Input("tensor: T")
        .Output("output: T")
        .Attr("T: type")
        .Kind(OpKind::kCopyFromDevice)
        .Family("control_flow")
        .Shape(UnchangedShape)
        .Kernel(Cpu(HandOn))
        .NoGradient("it is created when the graph is partitioned")
        .Doc("Copies the tensor to host memory.");
[[maybe_unused]] const OpRegistrar copy_to_device_op =
    OpDefBuilder("_CopyToDevice")
        .Input("tensor: T")
        .Output("output: T")
        .Attr("T: type")
        .Kind(OpKind::kCopyToDevice)
        .Family("control_flow")
        .Shape(UnchangedShape)
        .Kernel(Cpu(HandOn))
        .NoGradient("it is created when the graph is partitioned")
        .Doc("Copies the tensor to device memory.");
[[maybe_unused]] const OpRegistrar copy_from_peer_op =
    OpDefBuilder("_CopyFromPeer")
        .Input("tensor: T")
        .Output("output: T")
        .Attr("T: type")
        .Kind(OpKind::kCopyFromPeer)
        .Family("control_flow")
        .Shape(UnchangedShape)
        .Kernel(Cpu(HandOn))
        .NoGradient("it is created when the graph is partitioned")
        .Doc("Copies the tensor from the memory of another device.");

Status DoNothing(KernelContext&) { return OkStatus(); }
[[maybe_unused]] const OpRegistrar await_device_op =
    OpDefBuilder("_AwaitDevice")
        .Kind(OpKind::kAwaitDevice)
        .Stateful()
        .Family("control_flow")
        .Shape(NoOutputs)
        .Kernel(Cpu(DoNothing))
        .NoGradient("it is created when the graph is partitioned")
        .Doc("Waits until the device has finished all previously issued work.");

// An edge that was cut between two partitions of a step (passes/partition.h).
// destination: the number of the receiving partition; edge: the number of the
// _Recv among those there. group: the number, in the destination, of the edges
// that are dead together; only the leading edge reports deadness.
OpDefBuilder TransferOp(const char* name, OpRole role) {
  return OpDefBuilder(name)
      .Attr("tensor_name: string")
      .Attr("send_device: string")
      .Attr("recv_device: string")
      .Attr("edge: int >= 0")
      .Attr("group: int >= 0")
      .Stateful()
      .Family("control_flow")
      .Role(role);
}
OpDefBuilder SendOp(const char* name) {
  return TransferOp(name, OpRole::kSend)
      .Attr("destination: int >= 0")
      .Attr("leads_group: bool");
}
OpDefBuilder RecvOp(const char* name) {
  return TransferOp(name, OpRole::kRecv);
}

[[maybe_unused]] const OpRegistrar send_op =
    SendOp("_Send")
        .Input("tensor: T")
        .Attr("T: type")
        .Shape(NoOutputs)
        .NoGradient("it is created when the graph is partitioned")
        .Doc("Sends a value to another partition.");

[[maybe_unused]] const OpRegistrar recv_op =
    RecvOp("_Recv")
        .Output("tensor: T")
        .Attr("T: type")
        .Shape(UnknownShape)
        .NoGradient("it is created when the graph is partitioned")
        .Doc("Receives a value from another partition.");

[[maybe_unused]] const OpRegistrar send_signal_op =
    SendOp("_SendSignal")
        .Shape(NoOutputs)
        .NoGradient("it has no inputs")
        .Doc("Signals another partition that the control inputs have run.");

[[maybe_unused]] const OpRegistrar recv_signal_op =
    RecvOp("_RecvSignal")
        .Shape(NoOutputs)
        .NoGradient("it has no inputs")
        .Doc(
            "Completes when the matching _SendSignal of another partition has "
            "run.");

}  // namespace
}  // namespace sluice
