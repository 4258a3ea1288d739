// Updates of some rows of a variable: RefScatter* by reference,
// ResourceScatter* by handle.
#include <optional>

#include "graph/op_def.h"
#include "kernels/simd/binary.h"
#include "ops/common/elements.h"
#include "ops/state/combiner.h"
#include "ops/state/lookup.h"

namespace sluice {
namespace {

using state::ForwardReference;
using state::OfUse;
using state::VariableInput;

// Checks, as far as the shapes are known, that updates is a scalar or has the
// shape of the indices, then that of a row.
Status CheckRowUpdates(const PartialShape& variable,
                       const PartialShape& indices,
                       const PartialShape& updates) {
  if (variable.rank() == 0)
    return InvalidArgument("variable: expected rank at least 1, got a scalar");
  if (!variable.rank_known() || updates.rank() == 0) return OkStatus();
  const PartialShape expected =
      array::JoinShapes(indices, array::SubShape(variable, 1, variable.rank()));
  if (updates.CompatibleWith(expected)) return OkStatus();
  return InvalidArgument("updates: expected a scalar or shape ",
                         expected.ToString(), ", got ", updates.ToString());
}

// Rows are updated in the order of their indices: if several updates replace
// the same row, the last one wins.
Status RunRefScatter(KernelContext& ctx) {
  const auto& combine = ctx.state<state::Combiner>();
  SLUICE_ASSIGN_OR_RETURN(Variable * v, VariableInput(ctx, 0, combine.dtype()));
  const Tensor& indices = ctx.input(1);
  const Tensor& updates = ctx.input(2);
  SLUICE_RETURN_IF_ERROR(OfUse(ctx, v->Update([&](Tensor& t) -> Status {
    SLUICE_RETURN_IF_ERROR(
        CheckRowUpdates(t.shape(), indices.shape(), updates.shape()));
    // Checks all indices before the first write: on error the variable is
    // unchanged.
    SLUICE_ASSIGN_OR_RETURN(const std::vector<int64_t> rows,
                            state::CheckedIndices(indices, t.dim(0)));
    if (t.num_elements() == 0) return OkStatus();
    const int64_t n = t.num_elements() / t.dim(0);
    bool divided = true;
    for (size_t i = 0; i < rows.size(); ++i)
      divided &=
          combine.Run(updates, static_cast<int64_t>(i) * n, n, t, rows[i] * n);
    if (!divided)
      return InvalidArgument("updates: expected divisors other than 0, got 0");
    return OkStatus();
  })));
  ForwardReference(ctx);
  return OkStatus();
}

Status MakeScatter(const Node& n, Kernel* k, std::optional<simd::BinaryOp> op) {
  auto combine = std::make_shared<state::Combiner>();
  SLUICE_ASSIGN_OR_RETURN(*combine, state::Combiner::Make(n, op));
  k->state = std::move(combine);
  k->run = RunRefScatter;
  k->expensive = true;
  return OkStatus();
}

Status MakeScatterUpdate(const Node& n, Kernel* k) {
  return MakeScatter(n, k, std::nullopt);
}
template <simd::BinaryOp op>
Status MakeScatterOp(const Node& n, Kernel* k) {
  return MakeScatter(n, k, op);
}

Status RefScatterShape(ShapeContext& c) {
  const PartialShape variable = state::VariableShapeOf(c, 0);
  SLUICE_RETURN_IF_ERROR(CheckRowUpdates(variable, c.input(1), c.input(2)));
  if (c.num_outputs() > 0) c.set_output(0, variable);
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

#define SLUICE_SCATTER(Name, types, locking, maker, doc) \
  SLUICE_OP(Name)                                        \
      .Input("ref: Ref(T)")                              \
      .Input("indices: Tindices")                        \
      .Input("updates: T")                               \
      .Output("output_ref: Ref(T)")                      \
      .Attr("T: " types)                                 \
      .Attr("Tindices: {int32, int64}")                  \
      .Attr("use_locking: bool = " locking)              \
      .Family("state")                                   \
      .Shape(RefScatterShape)                            \
      .Kernel(maker)                                     \
      .NoGradient(state::kUpdates)                       \
      .Doc(doc ", and returns its reference.")

#define SLUICE_RESOURCE_SCATTER(Name, types, maker, doc) \
  SLUICE_OP(Name)                                        \
      .Input("resource: resource")                       \
      .Input("indices: Tindices")                        \
      .Input("updates: dtype")                           \
      .Attr("dtype: " types)                             \
      .Attr("Tindices: {int32, int64}")                  \
      .Stateful()                                        \
      .Family("state")                                   \
      .Shape(RefScatterShape)                            \
      .Kernel(maker)                                     \
      .NoGradient(state::kUpdates)                       \
      .Doc(doc ".")

#define SLUICE_MIN_MAX_TYPES "{half, bfloat16, float, double, int32, int64}"

SLUICE_SCATTER(ScatterUpdate, "type", "true", MakeScatterUpdate,
               "Replaces rows of a variable");
SLUICE_SCATTER(ScatterAdd, "numbertype", "false",
               MakeScatterOp<simd::BinaryOp::kAdd>,
               "Adds to rows of a variable")
    .Kind(OpKind::kScatterAdd);
SLUICE_SCATTER(ScatterSub, "numbertype", "false",
               MakeScatterOp<simd::BinaryOp::kSub>,
               "Subtracts from rows of a variable");
SLUICE_SCATTER(ScatterMul, "numbertype", "false",
               MakeScatterOp<simd::BinaryOp::kMul>,
               "Multiplies rows of a variable");
SLUICE_SCATTER(ScatterDiv, "numbertype", "false",
               MakeScatterOp<simd::BinaryOp::kDiv>,
               "Divides rows of a variable");
SLUICE_SCATTER(ScatterMin, SLUICE_MIN_MAX_TYPES, "false",
               MakeScatterOp<simd::BinaryOp::kMinimum>,
               "Reduces rows of a variable by minimum");
SLUICE_SCATTER(ScatterMax, SLUICE_MIN_MAX_TYPES, "false",
               MakeScatterOp<simd::BinaryOp::kMaximum>,
               "Reduces rows of a variable by maximum");

SLUICE_RESOURCE_SCATTER(ResourceScatterUpdate, "type", MakeScatterUpdate,
                        "Replaces rows of a variable");
SLUICE_RESOURCE_SCATTER(ResourceScatterAdd, "numbertype",
                        MakeScatterOp<simd::BinaryOp::kAdd>,
                        "Adds to rows of a variable")
    .Kind(OpKind::kScatterAdd);
SLUICE_RESOURCE_SCATTER(ResourceScatterSub, "numbertype",
                        MakeScatterOp<simd::BinaryOp::kSub>,
                        "Subtracts from rows of a variable");
SLUICE_RESOURCE_SCATTER(ResourceScatterMul, "numbertype",
                        MakeScatterOp<simd::BinaryOp::kMul>,
                        "Multiplies rows of a variable");
SLUICE_RESOURCE_SCATTER(ResourceScatterDiv, "numbertype",
                        MakeScatterOp<simd::BinaryOp::kDiv>,
                        "Divides rows of a variable");
SLUICE_RESOURCE_SCATTER(ResourceScatterMin, "numbertype",
                        MakeScatterOp<simd::BinaryOp::kMinimum>,
                        "Reduces rows of a variable by minimum");
SLUICE_RESOURCE_SCATTER(ResourceScatterMax, "numbertype",
                        MakeScatterOp<simd::BinaryOp::kMaximum>,
                        "Reduces rows of a variable by maximum");

}  // namespace
}  // namespace sluice
