// Assignments to whole variables, by reference and by handle.
#include "graph/op_def.h"
#include "kernels/simd/binary.h"
#include "ops/state/lookup.h"

namespace sluice {
namespace {

using state::ForwardReference;
using state::OfUse;
using state::VariableInput;

// ---- Assign -----------------------------------------------------------------

// The variable takes over the token, or shares it: shared buffers are not
// written to. State: validate_shape.
Status RunAssign(KernelContext& ctx) {
  const DType dtype = ctx.input(1).dtype();
  SLUICE_ASSIGN_OR_RETURN(Variable * v, VariableInput(ctx, 0, dtype));
  SLUICE_ASSIGN_OR_RETURN(Tensor value, ctx.TakeToKeep(1));
  if (ctx.state<bool>()) {
    SLUICE_RETURN_IF_ERROR(v->AssignSameShape(std::move(value)));
  } else {
    v->Assign(std::move(value));
  }
  ForwardReference(ctx);
  return OkStatus();
}

Status MakeAssign(const Node& n, Kernel* k) {
  k->state = std::make_shared<bool>(n.BoolAttr("validate_shape"));
  k->run = RunAssign;
  return OkStatus();
}

Status AssignShape(ShapeContext& c) {
  PartialShape out = c.input(1);
  if (c.node().BoolAttr("validate_shape")) {
    SLUICE_ASSIGN_OR_RETURN(out, c.input(0).MergeWith(out));
  }
  c.set_output(0, std::move(out));
  return OkStatus();
}

// No outputs, but the value must match the declaration of the handle.
Status AssignVariableShape(ShapeContext& c) {
  const DType dtype = c.ResourceType(0);
  const DType given = RemoveRef(c.node().input_type(1));
  if (dtype != DType::kInvalid && dtype != given)
    return InvalidArgument("value: expected the variable's type, ",
                           DTypeName(dtype), ", got ", DTypeName(given));
  return c.ResourceShape(0).MergeWith(c.input(1)).status();
}

// ---- AssignAdd, AssignSub ---------------------------------------------------

// The dtype of input 1 of `n`.
DType ValueType(const Node& n) { return RemoveRef(n.input_type(1)); }

// State: the loop for this op and type.
Status RunAssignUpdate(KernelContext& ctx) {
  const Tensor& value = ctx.input(1);
  SLUICE_ASSIGN_OR_RETURN(Variable * v, VariableInput(ctx, 0, value.dtype()));
  const auto& update = ctx.state<simd::BinaryKernel>();
  SLUICE_RETURN_IF_ERROR(
      OfUse(ctx, v->Rewrite([&](const Tensor& from, Tensor& to) -> Status {
        if (!(from.shape() == value.shape()))
          return InvalidArgument("update of variable '", v->name(),
                                 "': expected shape ", from.shape().ToString(),
                                 ", got ", value.shape().ToString());
        update(from.raw(), value.raw(), to.raw(), from.num_elements());
        return OkStatus();
      })));
  ForwardReference(ctx);
  return OkStatus();
}

template <simd::BinaryOp op>
Status MakeAssignUpdate(const Node& n, Kernel* k) {
  const simd::BinaryKernel update = simd::GetBinary(op, ValueType(n));
  if (!update) return NoKernelFor(n, ValueType(n));
  k->state = std::make_shared<simd::BinaryKernel>(update);
  k->run = RunAssignUpdate;
  k->expensive = true;
  return OkStatus();
}

Status AssignUpdateShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape s, c.input(0).MergeWith(c.input(1)));
  c.set_output(0, std::move(s));
  return OkStatus();
}

// ---- CountUpTo --------------------------------------------------------------

// State: the limit.
template <typename T>
Status RunCountUpTo(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(Variable * v, VariableInput(ctx, 0, DTypeOf<T>()));
  const int64_t limit = ctx.state<int64_t>();
  return OfUse(ctx, v->Update([&](Tensor& t) -> Status {
    if (t.rank() != 0)
      return InvalidArgument("variable '", v->name(),
                             "': expected a scalar, got shape ",
                             t.shape().ToString());
    const T count = t.raw_scalar<T>();
    if (count >= limit) return OutOfRange("Reached limit of ", limit);
    ctx.set_output(0, Tensor::Scalar<T>(count));
    *t.raw<T>() = static_cast<T>(count + 1);
    return OkStatus();
  }));
}

Status MakeCountUpTo(const Node& n, Kernel* k) {
  k->state = std::make_shared<int64_t>(n.IntAttr("limit"));
  k->run = n.TypeAttr("T") == DType::kInt32 ? RunCountUpTo<int32_t>
                                            : RunCountUpTo<int64_t>;
  return OkStatus();
}

Status CountUpToShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(
      state::VariableShapeOf(c, 0).MergeWith(PartialShape::Scalar()).status());
  c.set_output(0, PartialShape::Scalar());
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(Assign)
    .Kind(OpKind::kAssign)
    .Input("ref: Ref(T)")
    .Input("value: T")
    .Output("output_ref: Ref(T)")
    .Attr("T: type")
    .Attr("validate_shape: bool = true")
    .Attr("use_locking: bool = true")
    .AllowsUninitializedInput()
    .Family("state")
    .Shape(AssignShape)
    .Kernel(MakeAssign)
    .NoGradient(state::kUpdates)
    .Doc("Assigns a value to a variable, and returns its reference.");

SLUICE_OP(AssignAdd)
    .Input("ref: Ref(T)")
    .Input("value: T")
    .Output("output_ref: Ref(T)")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Family("state")
    .Shape(AssignUpdateShape)
    .Kernel(MakeAssignUpdate<simd::BinaryOp::kAdd>)
    .NoGradient(state::kUpdates)
    .Doc("Adds a value to a variable, and returns its reference.");

SLUICE_OP(AssignSub)
    .Kind(OpKind::kAssignSub)
    .Input("ref: Ref(T)")
    .Input("value: T")
    .Output("output_ref: Ref(T)")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Family("state")
    .Shape(AssignUpdateShape)
    .Kernel(MakeAssignUpdate<simd::BinaryOp::kSub>)
    .NoGradient(state::kUpdates)
    .Doc("Subtracts a value from a variable, and returns its reference.");

SLUICE_OP(AssignVariableOp)
    .Kind(OpKind::kAssign)
    .Input("resource: resource")
    .Input("value: dtype")
    .Attr("dtype: type")
    .Attr("validate_shape: bool = false")
    .Stateful()
    .Family("state")
    .Shape(AssignVariableShape)
    .Kernel(MakeAssign)
    .NoGradient(state::kUpdates)
    .Doc("Assigns a value to a variable.");

SLUICE_OP(AssignAddVariableOp)
    .Input("resource: resource")
    .Input("value: dtype")
    .Attr("dtype: type")
    .Stateful()
    .Family("state")
    .Shape(AssignVariableShape)
    .Kernel(MakeAssignUpdate<simd::BinaryOp::kAdd>)
    .NoGradient(state::kUpdates)
    .Doc("Adds a value to a variable.");

SLUICE_OP(AssignSubVariableOp)
    .Kind(OpKind::kAssignSub)
    .Input("resource: resource")
    .Input("value: dtype")
    .Attr("dtype: type")
    .Stateful()
    .Family("state")
    .Shape(AssignVariableShape)
    .Kernel(MakeAssignUpdate<simd::BinaryOp::kSub>)
    .NoGradient(state::kUpdates)
    .Doc("Subtracts a value from a variable.");

SLUICE_OP(CountUpTo)
    .Input("ref: Ref(T)")
    .Output("output: T")
    .Attr("limit: int")
    .Attr("T: {int32, int64}")
    .Family("state")
    .Shape(CountUpToShape)
    .Kernel(MakeCountUpTo)
    .NoGradient("counts are integers")
    .Doc(
        "Increments a scalar variable and returns its previous value; "
        "OutOfRange if that has reached the limit.");

SLUICE_OP(ResourceCountUpTo)
    .Input("resource: resource")
    .Output("output: T")
    .Attr("limit: int")
    .Attr("T: {int32, int64}")
    .Stateful()
    .Family("state")
    .Shape(CountUpToShape)
    .Kernel(MakeCountUpTo)
    .NoGradient("counts are integers")
    .Doc(
        "Increments a scalar variable and returns its previous value; "
        "OutOfRange if that has reached the limit.");

}  // namespace
}  // namespace sluice
