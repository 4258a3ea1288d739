// Updates of slices selected by several leading coordinates: ScatterNd* by
// reference, ResourceScatterNd* by handle, and on a plain tensor.
#include <optional>

#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "kernels/simd/binary.h"
#include "ops/common/in_place.h"
#include "ops/common/nd_index.h"
#include "ops/state/combiner.h"
#include "ops/state/lookup.h"

namespace sluice {
namespace {

using state::ForwardReference;
using state::OfUse;
using state::VariableInput;

// One kernel of the family. Immutable: shared by all steps.
struct ScatterNd {
  state::Combiner combine;
  bool ignore_bad = false;  // Out-of-range indices are skipped.
};

Status ScalarTarget() {
  return InvalidArgument("target: expected rank at least 1, got a scalar");
}

Status Apply(const ScatterNd& scatter, Tensor& target, const Tensor& indices,
             const Tensor& updates) {
  if (target.rank() == 0) return ScalarTarget();
  SLUICE_ASSIGN_OR_RETURN(const array::NdIndex nd,
                          array::NdIndex::Make(target.shape(), indices));
  SLUICE_RETURN_IF_ERROR(nd.CheckUpdates(updates.shape()));
  // Without elements the number of rows does not bound the work.
  if (nd.depth() == 0 && nd.row() == 0) return OkStatus();
  // Checks all indices before the first write: on error the target is
  // unchanged.
  if (!scatter.ignore_bad) SLUICE_RETURN_IF_ERROR(nd.CheckAll());
  if (nd.row() == 0) return OkStatus();
  return nd.ForEach(/*ignore_bad=*/true, [&](int64_t from, int64_t at) {
    scatter.combine.Run(updates, from, nd.row(), target, at);
  });
}

Status RunScatterNd(KernelContext& ctx) {
  const auto& scatter = ctx.state<ScatterNd>();
  SLUICE_ASSIGN_OR_RETURN(Variable * v,
                          VariableInput(ctx, 0, scatter.combine.dtype()));
  const Tensor& indices = ctx.input(1);
  const Tensor& updates = ctx.input(2);
  SLUICE_RETURN_IF_ERROR(OfUse(ctx, v->Update([&](Tensor& t) {
    return Apply(scatter, t, indices, updates);
  })));
  ForwardReference(ctx);
  return OkStatus();
}

// On a tensor: in place if this kernel is its last reader.
Status RunNonAliasingAdd(KernelContext& ctx) {
  const auto& scatter = ctx.state<ScatterNd>();
  SLUICE_ASSIGN_OR_RETURN(Tensor target, array::TakeToChange(ctx, 0));
  SLUICE_RETURN_IF_ERROR(Apply(scatter, target, ctx.input(1), ctx.input(2)));
  ctx.set_output(0, std::move(target));
  return OkStatus();
}

Status MakeScatterNd(const Node& n, Kernel* k,
                     std::optional<simd::BinaryOp> op) {
  auto scatter = std::make_shared<ScatterNd>();
  SLUICE_ASSIGN_OR_RETURN(scatter->ignore_bad, array::IgnoresBadIndices(n));
  SLUICE_ASSIGN_OR_RETURN(scatter->combine, state::Combiner::Make(n, op));
  k->state = std::move(scatter);
  k->run = RunScatterNd;
  k->expensive = true;
  return OkStatus();
}

Status MakeScatterNdUpdate(const Node& n, Kernel* k) {
  return MakeScatterNd(n, k, std::nullopt);
}
template <simd::BinaryOp op>
Status MakeScatterNdOp(const Node& n, Kernel* k) {
  return MakeScatterNd(n, k, op);
}
Status MakeNonAliasingAdd(const Node& n, Kernel* k) {
  SLUICE_RETURN_IF_ERROR(MakeScatterNd(n, k, simd::BinaryOp::kAdd));
  k->run = RunNonAliasingAdd;
  return OkStatus();
}

Status StateNdShape(ShapeContext& c) {
  const PartialShape target = c.node().input_type(0) == DType::kResource
                                  ? c.ResourceShape(0)
                                  : c.input(0);
  if (target.rank() == 0) return ScalarTarget();
  SLUICE_RETURN_IF_ERROR(c.WithRankAtLeast(1, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRankAtLeast(2, 1).status());
  SLUICE_RETURN_IF_ERROR(array::CheckUpdates(target, c.input(1), c.input(2)));
  if (c.num_outputs() > 0) c.set_output(0, target);
  return OkStatus();
}

Status NonAliasingAddGrad(GradContext& c) {
  c.grads[0] = c.dy[0];
  c.grads[2] = Build("GatherNd", {c.dy[0], c.input(1)});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

#define SLUICE_SCATTER_ND(Name, types, locking, maker, doc) \
  SLUICE_OP(Name)                                           \
      .Input("ref: Ref(T)")                                 \
      .Input("indices: Tindices")                           \
      .Input("updates: T")                                  \
      .Output("output_ref: Ref(T)")                         \
      .Attr("T: " types)                                    \
      .Attr("Tindices: {int32, int64}")                     \
      .Attr("use_locking: bool = " locking)                 \
      .Attr("bad_indices_policy: string = ''")              \
      .Family("state")                                      \
      .Shape(StateNdShape)                                  \
      .Kernel(maker)                                        \
      .NoGradient(state::kUpdates)                          \
      .Doc(doc ", and returns its reference.")

#define SLUICE_RESOURCE_SCATTER_ND(Name, maker, doc) \
  SLUICE_OP(Name)                                    \
      .Input("ref: resource")                        \
      .Input("indices: Tindices")                    \
      .Input("updates: T")                           \
      .Attr("T: type")                               \
      .Attr("Tindices: {int32, int64}")              \
      .Attr("use_locking: bool = true")              \
      .Attr("bad_indices_policy: string = ''")       \
      .Stateful()                                    \
      .Family("state")                               \
      .Shape(StateNdShape)                           \
      .Kernel(maker)                                 \
      .NoGradient(state::kUpdates)                   \
      .Doc(doc ".")

SLUICE_SCATTER_ND(ScatterNdUpdate, "type", "true", MakeScatterNdUpdate,
                  "Replaces slices of a variable");
SLUICE_SCATTER_ND(ScatterNdAdd, "numbertype", "false",
                  MakeScatterNdOp<simd::BinaryOp::kAdd>,
                  "Adds to slices of a variable");
SLUICE_SCATTER_ND(ScatterNdSub, "numbertype", "false",
                  MakeScatterNdOp<simd::BinaryOp::kSub>,
                  "Subtracts from slices of a variable");

SLUICE_RESOURCE_SCATTER_ND(ResourceScatterNdUpdate, MakeScatterNdUpdate,
                           "Replaces slices of a variable");
SLUICE_RESOURCE_SCATTER_ND(ResourceScatterNdAdd,
                           MakeScatterNdOp<simd::BinaryOp::kAdd>,
                           "Adds to slices of a variable");
SLUICE_RESOURCE_SCATTER_ND(ResourceScatterNdSub,
                           MakeScatterNdOp<simd::BinaryOp::kSub>,
                           "Subtracts from slices of a variable");

SLUICE_OP(ScatterNdNonAliasingAdd)
    .Input("input: T")
    .Input("indices: Tindices")
    .Input("updates: T")
    .Output("output: T")
    .Attr(
        "T: {float, double, int32, uint8, int16, int8, complex64, int64, "
        "qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, complex128, "
        "half, uint32, uint64, bool}")
    .Attr("Tindices: {int32, int64}")
    .Attr("bad_indices_policy: string = ''")
    .Family("state")
    .Shape(StateNdShape)
    .Kernel(MakeNonAliasingAdd)
    .Grad(NonAliasingAddGrad)
    .Sample({{.shape = {4, 3}},
             {.shape = {2, 1}, .values = {3, 0}, .dtype = DType::kInt32},
             {.shape = {2, 3}}})
    .Sample({{.shape = {4, 3}},
             {.shape = {2, 2}, .values = {3, 0, 3, 0}, .dtype = DType::kInt64},
             {.shape = {2}}})
    .Doc("Returns a tensor with updates added to some of its slices.");

}  // namespace
}  // namespace sluice
