// Updates of slices selected by several leading coordinates: ScatterNd* by
// reference, ResourceScatterNd* by handle, and on a plain tensor.
#include <algorithm>
#include <optional>

#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "kernels/simd/binary.h"
#include "ops/common/elements.h"
#include "ops/common/nd_index.h"
#include "ops/state/lookup.h"

namespace sluice {
namespace {

using state::ForwardReference;
using state::VariableInput;

// One kernel of the family. Immutable: shared by all steps.
struct ScatterNd {
  simd::BinaryKernel combine;  // Invalid: the slice is replaced.
  bool logical_or = false;     // For bool, which has no sum
  bool logical_xor = false;    // and no difference.
  bool ignore_bad = false;     // Out-of-range indices are skipped.
  DType dtype;

  // Combines n elements of `from` into `to`.
  void Slice(const void* from, void* to, int64_t n) const {
    if (combine) {
      combine.fn(simd::Operands::kVectorVector, to, from, to, n);
    } else if (logical_or) {
      for (int64_t i = 0; i < n; ++i)
        static_cast<char*>(to)[i] |= static_cast<const char*>(from)[i];
    } else if (logical_xor) {
      for (int64_t i = 0; i < n; ++i)
        static_cast<char*>(to)[i] ^= static_cast<const char*>(from)[i];
    } else {
      array::CopyRun(dtype, from, to, n);
    }
  }
};

Status Apply(const ScatterNd& scatter, Tensor& target, const Tensor& indices,
             const Tensor& updates) {
  if (target.rank() == 0)
    return InvalidArgument("target: expected rank at least 1, got a scalar");
  SLUICE_ASSIGN_OR_RETURN(const array::NdIndex nd,
                          array::NdIndex::Make(target.shape(), indices));
  Dims expected(indices.shape().dims().begin(),
                indices.shape().dims().end() - 1);
  expected.insert(expected.end(), target.shape().dims().begin() + nd.depth(),
                  target.shape().dims().end());
  if (!std::equal(expected.begin(), expected.end(),
                  updates.shape().dims().begin(), updates.shape().dims().end()))
    return InvalidArgument("updates: expected shape ",
                           PartialShape(array::SpanOf(expected)).ToString(),
                           " for indices of shape ", indices.shape().ToString(),
                           " into ", target.shape().ToString(), ", got ",
                           updates.shape().ToString());
  // Without elements the number of rows does not bound the work.
  if (nd.depth() == 0 && nd.row() == 0) return OkStatus();
  // Checks all indices before the first write: on error the target is
  // unchanged.
  if (!scatter.ignore_bad) SLUICE_RETURN_IF_ERROR(nd.CheckAll());
  if (nd.row() == 0) return OkStatus();
  for (int64_t i = 0; i < nd.count(); ++i) {
    const int64_t at = nd.Offset(i);
    if (at >= 0)
      scatter.Slice(array::At(scatter.dtype, updates.raw(), i * nd.row()),
                    array::At(scatter.dtype, target.raw(), at), nd.row());
  }
  return OkStatus();
}

Status RunScatterNd(KernelContext& ctx) {
  const auto& scatter = ctx.state<ScatterNd>();
  SLUICE_ASSIGN_OR_RETURN(Variable * v, VariableInput(ctx, 0, scatter.dtype));
  const Tensor& indices = ctx.input(1);
  const Tensor& updates = ctx.input(2);
  SLUICE_RETURN_IF_ERROR(v->Update(
      [&](Tensor& t) { return Apply(scatter, t, indices, updates); }));
  ForwardReference(ctx);
  return OkStatus();
}

// On a tensor: in place if this kernel is its last reader.
Status RunNonAliasingAdd(KernelContext& ctx) {
  const auto& scatter = ctx.state<ScatterNd>();
  Tensor target;
  if (ctx.CanForward(0)) {
    target = ctx.TakeInput(0);
  } else {
    SLUICE_ASSIGN_OR_RETURN(target, ctx.input(0).Clone());
  }
  SLUICE_RETURN_IF_ERROR(Apply(scatter, target, ctx.input(1), ctx.input(2)));
  ctx.set_output(0, std::move(target));
  return OkStatus();
}

Status MakeScatterNd(const Node& n, Kernel* k,
                     std::optional<simd::BinaryOp> op) {
  auto scatter = std::make_shared<ScatterNd>();
  scatter->dtype = RemoveRef(n.input_type(2));
  const auto policy = n.AttrOr<std::string>("bad_indices_policy", "");
  if (policy != "" && policy != "DEFAULT" && policy != "ERROR" &&
      policy != "IGNORE")
    return InvalidArgument(
        "bad_indices_policy: expected '', DEFAULT, ERROR or IGNORE, got '",
        policy, "'");
  scatter->ignore_bad = policy == "IGNORE";
  if (op.has_value()) {
    scatter->combine = simd::GetBinary(*op, scatter->dtype);
    scatter->logical_or =
        *op == simd::BinaryOp::kAdd && scatter->dtype == DType::kBool;
    scatter->logical_xor =
        *op == simd::BinaryOp::kSub && scatter->dtype == DType::kBool;
    if (!scatter->combine && !scatter->logical_or && !scatter->logical_xor)
      return NoKernelFor(n, scatter->dtype);
  }
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
  const PartialShape target = IsRef(c.node().input_type(0)) ||
                                      c.node().input_type(0) != DType::kResource
                                  ? c.input(0)
                                  : c.ResourceShape(0);
  if (target.rank() == 0)
    return InvalidArgument("target: expected rank at least 1, got a scalar");
  SLUICE_RETURN_IF_ERROR(c.WithRankAtLeast(1, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRankAtLeast(2, 1).status());
  const PartialShape& indices = c.input(1);
  const int64_t depth =
      indices.rank_known() ? indices.dim(indices.rank() - 1) : -1;
  if (target.rank_known() && depth > target.rank())
    return InvalidArgument("indices: expected a last dimension of at most ",
                           target.rank(), ", the rank of the target, got ",
                           depth);
  if (target.rank_known() && depth >= 0) {
    PartialShape expected = PartialShape::Scalar();
    for (int i = 0; i + 1 < indices.rank(); ++i)
      expected.add_dim(indices.dim(i));
    for (int i = static_cast<int>(depth); i < target.rank(); ++i)
      expected.add_dim(target.dim(i));
    if (!c.input(2).CompatibleWith(expected))
      return InvalidArgument("updates: expected shape ", expected.ToString(),
                             " for indices of shape ", indices.ToString(),
                             " into ", target.ToString(), ", got ",
                             c.input(2).ToString());
  }
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
