// Reading and writing parts of a variable without reading all of it.
#include "ops/common/gather.h"

#include <algorithm>

#include "graph/builder.h"
#include "graph/device_scope.h"
#include "graph/op_def.h"
#include "ops/array/strided_slice.h"
#include "ops/common/elements.h"
#include "ops/state/lookup.h"

namespace sluice {
namespace {

using state::OfUse;
using state::VariableInput;

// ---- ResourceGather ---------------------------------------------------------

// Copies the rows while the variable is locked: a snapshot would make a
// concurrent update copy all of it. State: batch_dims.
Status RunResourceGather(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(Variable * v,
                          VariableInput(ctx, 0, ctx.node().output_type(0)));
  const int64_t batch_dims = ctx.state<int64_t>();
  return OfUse(ctx, v->View([&](const Tensor& params) -> Status {
    Result<Tensor> rows = array::GatherRows(params, ctx.input(1),
                                            std::max<int64_t>(batch_dims, 0),
                                            batch_dims, ctx.step().allocator);
    if (!rows.ok())
      return array::NamingId(ctx.node(), ctx.input(1), params.dim(0),
                             rows.status());
    ctx.set_output(0, *std::move(rows));
    return OkStatus();
  }));
}

Status MakeResourceGather(const Node& n, Kernel* k) {
  const int64_t batch_dims = n.IntAttr("batch_dims");
  if (batch_dims < 0)
    return InvalidArgument("batch_dims: expected a value of at least 0, got ",
                           batch_dims);
  k->state = std::make_shared<int64_t>(batch_dims);
  k->run = RunResourceGather;
  k->expensive = true;
  return OkStatus();
}

Status ResourceGatherShape(ShapeContext& c) {
  const int64_t batch_dims = c.node().IntAttr("batch_dims");
  SLUICE_ASSIGN_OR_RETURN(PartialShape s,
                          array::GatherShape(c.ResourceShape(0), c.input(1),
                                             batch_dims, batch_dims));
  c.set_output(0, std::move(s));
  return OkStatus();
}

// The shape of the variable behind input 0, as a vector of `type`. (It shares
// the variable's device, whatever the scopes of the gradients say.)
Output ShapeOfVariable(GradContext& g, DType type) {
  const NoDeviceScope none;
  const DeviceScope same_device(g.op->device());
  return Build("VariableShape", {g.input(0)}, {{"out_type", type}});
}

Status ResourceGatherGrad(GradContext& g) {
  if (g.op->IntAttr("batch_dims") != 0)
    return Unimplemented(
        "gradient of ResourceGather: expected batch_dims 0, got ",
        g.op->IntAttr("batch_dims"));
  g.grads[0] = array::GatherSlices(g.dy[0], g.input(1),
                                   ShapeOfVariable(g, DType::kInt32));
  return OkStatus();
}

// ---- ResourceGatherNd -------------------------------------------------------

// Copies the slices while the variable is locked, as ResourceGather does.
Status RunResourceGatherNd(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(Variable * v,
                          VariableInput(ctx, 0, ctx.node().output_type(0)));
  return OfUse(ctx, v->View([&](const Tensor& params) {
    return array::GatherNd(ctx, params, ctx.input(1), /*ignore_bad=*/false);
  }));
}

Status ResourceGatherNdShape(ShapeContext& c) {
  return array::SetGatherNdShape(c, c.ResourceShape(0));
}

Status ResourceGatherNdGrad(GradContext& g) {
  g.grads[0] = array::GatherNdGradient(g.dy[0], g.input(1), [&](DType type) {
    return ShapeOfVariable(g, type);
  });
  return OkStatus();
}

// ---- StridedSliceAssign -----------------------------------------------------

// State: the masks.
Status RunStridedSliceAssign(KernelContext& ctx) {
  const Tensor& value = ctx.input(4);
  SLUICE_ASSIGN_OR_RETURN(Variable * v, VariableInput(ctx, 0, value.dtype()));
  SLUICE_RETURN_IF_ERROR(OfUse(ctx, v->Update([&](Tensor& t) -> Status {
    SLUICE_ASSIGN_OR_RETURN(
        const array::SliceSpec spec,
        array::MakeSliceSpec(t.shape(), &ctx.input(1), &ctx.input(2),
                             ctx.input(3), ctx.state<array::SliceMasks>()));
    return array::WriteSlice(spec, value, &t);
  })));
  state::ForwardReference(ctx);
  return OkStatus();
}

Status MakeStridedSliceAssign(const Node& n, Kernel* k) {
  k->state = std::make_shared<array::SliceMasks>(n);
  k->run = RunStridedSliceAssign;
  k->expensive = true;
  return OkStatus();
}

Status StridedSliceAssignShape(ShapeContext& c) {
  for (int i = 1; i <= 3; ++i)
    SLUICE_RETURN_IF_ERROR(c.WithRank(i, 1).status());
  if (c.num_outputs() > 0) c.set_output(0, c.input(0));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(ResourceGather)
    .Input("resource: resource")
    .Input("indices: Tindices")
    .Output("output: dtype")
    .Attr("batch_dims: int = 0")
    .Attr("validate_indices: bool = true")
    .Attr("dtype: type")
    .Attr("Tindices: {int32, int64}")
    .Stateful()
    .Family("state")
    .Shape(ResourceGatherShape)
    .Kernel(MakeResourceGather)
    .Grad(ResourceGatherGrad)
    .Doc("Gathers rows of a variable by index.");

SLUICE_OP(ResourceGatherNd)
    .Input("resource: resource")
    .Input("indices: Tindices")
    .Output("output: dtype")
    .Attr("dtype: type")
    .Attr("Tindices: {int32, int64}")
    .Stateful()
    .Family("state")
    .Shape(ResourceGatherNdShape)
    .Kernel(Cpu(RunResourceGatherNd, /*expensive=*/true))
    .Grad(ResourceGatherNdGrad)
    .Doc(
        "Gathers elements or slices of a variable at the positions given by "
        "the rows of indices.");

SLUICE_OP(StridedSliceAssign)
    .Input("ref: Ref(T)")
    .Input("begin: Index")
    .Input("end: Index")
    .Input("strides: Index")
    .Input("value: T")
    .Output("output_ref: Ref(T)")
    .Attr("T: type")
    .Attr("Index: {int32, int64}")
    .Attr("begin_mask: int = 0")
    .Attr("end_mask: int = 0")
    .Attr("ellipsis_mask: int = 0")
    .Attr("new_axis_mask: int = 0")
    .Attr("shrink_axis_mask: int = 0")
    .Family("array")
    .Shape(StridedSliceAssignShape)
    .Kernel(MakeStridedSliceAssign)
    .NoGradient(state::kUpdates)
    .Doc(
        "Assigns a value, with broadcasting, to a strided slice of a "
        "variable, and returns its reference.");

SLUICE_OP(ResourceStridedSliceAssign)
    .Input("ref: resource")
    .Input("begin: Index")
    .Input("end: Index")
    .Input("strides: Index")
    .Input("value: T")
    .Attr("T: type")
    .Attr("Index: {int32, int64}")
    .Attr("begin_mask: int = 0")
    .Attr("end_mask: int = 0")
    .Attr("ellipsis_mask: int = 0")
    .Attr("new_axis_mask: int = 0")
    .Attr("shrink_axis_mask: int = 0")
    .Stateful()
    .Family("state")
    .Shape(StridedSliceAssignShape)
    .Kernel(MakeStridedSliceAssign)
    .NoGradient(state::kUpdates)
    .Doc(
        "Assigns a value, with broadcasting, to a strided slice of a "
        "variable.");

}  // namespace
}  // namespace sluice
