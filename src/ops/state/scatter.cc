// Updates of some rows of a variable: RefScatter* by reference,
// ResourceScatter* by handle.
#include <algorithm>
#include <optional>

#include "graph/op_def.h"
#include "kernels/simd/binary.h"
#include "ops/common/elements.h"
#include "ops/state/lookup.h"

namespace sluice {
namespace {

using state::ForwardReference;
using state::VariableInput;

// One kernel of the family. Immutable: shared by all steps.
struct RefScatter {
  simd::BinaryKernel combine;  // Invalid: the row is replaced.
  DType dtype;

  // Combines n elements of `from` (or one, repeatedly) into `to`. False for an
  // integer division by zero.
  bool Row(const void* from, bool scalar, void* to, int64_t n) const {
    if (combine)
      return combine.fn(scalar ? simd::Operands::kVectorScalar
                               : simd::Operands::kVectorVector,
                        to, from, to, n);
    if (scalar) {
      array::FillRun(dtype, from, to, n);
    } else {
      array::CopyRun(dtype, from, to, n);
    }
    return true;
  }
};

// The required shape of updates: the shape of the indices, then that of a row.
Status CheckUpdates(const Shape& variable, const Shape& indices,
                    const Shape& updates) {
  if (variable.rank() == 0)
    return InvalidArgument("variable: expected rank at least 1, got a scalar");
  Dims expected(indices.dims().begin(), indices.dims().end());
  expected.insert(expected.end(), variable.dims().begin() + 1,
                  variable.dims().end());
  if (updates.rank() != 0 &&
      !std::equal(expected.begin(), expected.end(), updates.dims().begin(),
                  updates.dims().end()))
    return InvalidArgument(
        "updates: expected a scalar or shape ",
        PartialShape({expected.data(), expected.size()}).ToString(), ", got ",
        updates.ToString());
  return OkStatus();
}

// Rows are updated in the order of their indices: if several updates replace
// the same row, the last one wins.
Status RunRefScatter(KernelContext& ctx) {
  const auto& scatter = ctx.state<RefScatter>();
  SLUICE_ASSIGN_OR_RETURN(Variable * v, VariableInput(ctx, 0, scatter.dtype));
  const Tensor& indices = ctx.input(1);
  const Tensor& updates = ctx.input(2);
  SLUICE_RETURN_IF_ERROR(v->Update([&](Tensor& t) -> Status {
    SLUICE_RETURN_IF_ERROR(
        CheckUpdates(t.shape(), indices.shape(), updates.shape()));
    // Checks all indices before the first write: on error the variable is
    // unchanged.
    SLUICE_ASSIGN_OR_RETURN(const std::vector<int64_t> rows,
                            state::CheckedIndices(indices, t.dim(0)));
    if (t.num_elements() == 0) return OkStatus();
    const int64_t n = t.num_elements() / t.dim(0);
    const bool scalar = updates.rank() == 0;
    bool divided = true;
    for (size_t i = 0; i < rows.size(); ++i)
      divided &= scatter.Row(
          array::At(scatter.dtype, updates.raw(),
                    scalar ? 0 : static_cast<int64_t>(i) * n),
          scalar, array::At(scatter.dtype, t.raw(), rows[i] * n), n);
    if (!divided)
      return InvalidArgument("updates: expected divisors other than 0, got 0");
    return OkStatus();
  }));
  ForwardReference(ctx);
  return OkStatus();
}

Status MakeScatter(const Node& n, Kernel* k, std::optional<simd::BinaryOp> op) {
  const DType dtype = RemoveRef(n.input_type(2));
  auto scatter = std::make_shared<RefScatter>();
  scatter->dtype = dtype;
  if (op.has_value()) {
    scatter->combine = simd::GetBinary(*op, dtype);
    if (!scatter->combine) return NoKernelFor(n, dtype);
  }
  k->state = std::move(scatter);
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
  const PartialShape& indices = c.input(1);
  const PartialShape& updates = c.input(2);
  if (variable.rank() == 0)
    return InvalidArgument("variable: expected rank at least 1, got a scalar");
  if (variable.rank_known() && indices.rank_known() && updates.rank() != 0) {
    PartialShape expected = indices;
    for (int i = 1; i < variable.rank(); ++i) expected.add_dim(variable.dim(i));
    if (!updates.CompatibleWith(expected))
      return InvalidArgument("updates: expected a scalar or shape ",
                             expected.ToString(), ", got ", updates.ToString());
  }
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
               "Adds to rows of a variable");
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
                        "Adds to rows of a variable");
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
