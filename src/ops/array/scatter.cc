// Writing elements by index into a new tensor.
#include <algorithm>

#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/in_place.h"
#include "ops/common/nd_index.h"

namespace sluice {
namespace {

using array::At;
using array::NdIndex;
using array::Tag;

enum class Combine { kUpdate, kAdd, kSub, kMin, kMax };

// A sum of booleans is their logical or; strings are concatenated.
template <Combine kOp, typename T>
void Apply(const T& from, T* to) {
  if constexpr (kOp == Combine::kMin)
    *to = from < *to ? from : *to;
  else if constexpr (kOp == Combine::kMax)
    *to = *to < from ? from : *to;
  else if constexpr (kOp == Combine::kSub)
    *to = array::WrapSub(*to, from);
  else if constexpr (std::is_same_v<T, std::string>)
    *to += from;
  else
    *to = array::WrapAdd(*to, from);
}

// Combines the rows of `updates` into `out`, in order.
template <Combine kOp, typename T>
Status Scatter(const NdIndex& nd, const Tensor& updates, bool ignore_bad,
               Tensor* out) {
  const T* u = updates.raw<T>();
  T* o = out->raw<T>();
  const int64_t row = nd.row();
  return nd.ForEach(ignore_bad, [&](int64_t from, int64_t at) {
    for (int64_t k = 0; k < row; ++k) Apply<kOp, T>(u[from + k], &o[at + k]);
  });
}

Status ScatterInto(Combine op, const NdIndex& nd, const Tensor& updates,
                   bool ignore_bad, Tensor* out) {
  const DType type = out->dtype();
  if (op == Combine::kUpdate)
    return nd.ForEach(ignore_bad, [&](int64_t from, int64_t at) {
      array::CopyRun(type, At(type, updates.raw(), from),
                     At(type, out->raw(), at), nd.row());
    });
  if (type == DType::kBool)
    return Scatter<Combine::kAdd, bool>(nd, updates, ignore_bad, out);
  if (type == DType::kString)
    return Scatter<Combine::kAdd, std::string>(nd, updates, ignore_bad, out);
  Status status;
  array::ByNumber(type, [&]<typename T>(Tag<T>) {
    if (op == Combine::kAdd)
      status = Scatter<Combine::kAdd, T>(nd, updates, ignore_bad, out);
    else if (op == Combine::kSub)
      status = Scatter<Combine::kSub, T>(nd, updates, ignore_bad, out);
    else if constexpr (!std::is_same_v<T, complex64> &&
                       !std::is_same_v<T, complex128>)
      status = op == Combine::kMin
                   ? Scatter<Combine::kMin, T>(nd, updates, ignore_bad, out)
                   : Scatter<Combine::kMax, T>(nd, updates, ignore_bad, out);
  });
  return status;
}

// Checks that the kernel supports this operation for the type.
Status CheckCombines(const Node& n, Combine op) {
  const DType t = n.TypeAttr("T");
  if (op == Combine::kUpdate) return OkStatus();
  const bool ordered = op == Combine::kMin || op == Combine::kMax;
  const bool sum = op == Combine::kAdd;
  if (IsQuantized(t) || t == DType::kResource || t == DType::kVariant ||
      (ordered && IsComplex(t)) ||
      (!sum && (t == DType::kBool || t == DType::kString)))
    return NoKernelFor(n, t);
  return OkStatus();
}

template <Combine kOp>
struct TensorScatterKernel {
  static Result<std::shared_ptr<TensorScatterKernel>> Make(const Node& n) {
    SLUICE_RETURN_IF_ERROR(CheckCombines(n, kOp));
    auto k = std::make_shared<TensorScatterKernel>();
    SLUICE_ASSIGN_OR_RETURN(k->ignore_bad, array::IgnoresBadIndices(n));
    return k;
  }
  Status Run(KernelContext& ctx) {
    const Tensor indices = ctx.input(1), updates = ctx.input(2);
    const Shape shape = ctx.input(0).shape();
    SLUICE_ASSIGN_OR_RETURN(const NdIndex nd, NdIndex::Make(shape, indices));
    SLUICE_RETURN_IF_ERROR(nd.CheckUpdates(updates.shape()));
    SLUICE_ASSIGN_OR_RETURN(Tensor out, array::TakeToChange(ctx, 0));
    if (out.num_elements() > 0 || !ignore_bad)
      SLUICE_RETURN_IF_ERROR(ScatterInto(kOp, nd, updates, ignore_bad, &out));
    ctx.set_output(0, std::move(out));
    return OkStatus();
  }
  bool ignore_bad = false;
};

struct ScatterNdKernel {
  static Result<std::shared_ptr<ScatterNdKernel>> Make(const Node& n) {
    SLUICE_RETURN_IF_ERROR(CheckCombines(n, Combine::kAdd));
    auto k = std::make_shared<ScatterNdKernel>();
    SLUICE_ASSIGN_OR_RETURN(k->ignore_bad, array::IgnoresBadIndices(n));
    return k;
  }
  Status Run(KernelContext& ctx) {
    const Tensor &indices = ctx.input(0), &updates = ctx.input(1);
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            array::ShapeFrom(ctx.input(2), "shape"));
    if (shape.num_elements() == 0 && updates.num_elements() > 0)
      return InvalidArgument("shape: expected elements to scatter into, got ",
                             shape.ToString());
    SLUICE_ASSIGN_OR_RETURN(const NdIndex nd, NdIndex::Make(shape, indices));
    SLUICE_RETURN_IF_ERROR(nd.CheckUpdates(updates.shape()));
    SLUICE_ASSIGN_OR_RETURN(Tensor out, array::MakeZeros(updates.dtype(), shape,
                                                         ctx.step().allocator));
    SLUICE_RETURN_IF_ERROR(
        ScatterInto(Combine::kAdd, nd, updates, ignore_bad, &out));
    ctx.set_output(0, std::move(out));
    return OkStatus();
  }
  bool ignore_bad = false;
};

// ---- Shapes -----------------------------------------------------------------

Status TensorScatterShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(
      array::CheckUpdates(c.input(0), c.input(1), c.input(2)));
  c.set_output(0, c.input(0));
  return OkStatus();
}

Status ScatterNdShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.InputAsShape(2));
  SLUICE_RETURN_IF_ERROR(array::CheckUpdates(out, c.input(0), c.input(1)));
  c.set_output(0, std::move(out));
  return OkStatus();
}

// ---- Gradients --------------------------------------------------------------

Output PickedAt(Output tensor, Output indices) {
  return Build("GatherNd", {tensor, indices});
}

Status ScatterNdGrad(GradContext& g) {
  g.grads[1] = PickedAt(g.dy[0], g.input(0));
  return OkStatus();
}

Status UpdateGrad(GradContext& g) {
  const Output zeros = grad::ZerosLike(g.input(2));
  g.grads[0] = Build("TensorScatterUpdate", {g.dy[0], g.input(1), zeros});
  g.grads[2] = PickedAt(g.dy[0], g.input(1));
  return OkStatus();
}

Status TensorScatterAddGrad(GradContext& g) {
  g.grads[0] = g.dy[0];
  g.grads[2] = PickedAt(g.dy[0], g.input(1));
  return OkStatus();
}

Status TensorScatterSubGrad(GradContext& g) {
  g.grads[0] = g.dy[0];
  g.grads[2] = grad::Neg(PickedAt(g.dy[0], g.input(1)));
  return OkStatus();
}

// If several elements are extreme, they share the gradient.
Status MinMaxGrad(GradContext& g) {
  const Output x = g.input(0), indices = g.input(1), y = g.input(2);
  const Output out = g.output(0), dy = g.dy[0];
  const Output of_x = grad::Cast(Build("Equal", {x, out}), dy.dtype());
  const Output of_y =
      grad::Cast(Build("Equal", {y, PickedAt(out, indices)}), dy.dtype());
  const Output scattered =
      Build("ScatterNd", {indices, of_y, grad::ShapeOf(x, indices.dtype())});
  const Output share = grad::Div(dy, grad::Add(of_x, scattered));
  g.grads[0] = grad::Mul(share, of_x);
  g.grads[2] = grad::Mul(PickedAt(share, indices), of_y);
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(ScatterNd)
    .Input("indices: Tindices")
    .Input("updates: T")
    .Input("shape: Tindices")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tindices: {int16, int32, int64}")
    .Attr("bad_indices_policy: string = ''")
    .HostInput("shape")
    .Shape(ScatterNdShape)
    .Kernel(CpuState<ScatterNdKernel>(true))
    .Grad(ScatterNdGrad)
    .Sample({{.shape = {3, 1}, .values = {4, 1, 4}, .dtype = DType::kInt32},
             {.shape = {3, 2}},
             {.shape = {2}, .values = {6, 2}, .dtype = DType::kInt32}})
    .Doc("Adds updates at the given indices to zeros of the given shape.")
    .Family("array");

#define SLUICE_TENSOR_SCATTER(Name, combine, gradient, index_types, doc)       \
  SLUICE_OP(Name)                                                              \
      .Input("tensor: T")                                                      \
      .Input("indices: Tindices")                                              \
      .Input("updates: T")                                                     \
      .Output("output: T")                                                     \
      .Attr("T: type")                                                         \
      .Attr("Tindices: " index_types)                                          \
      .Attr("bad_indices_policy: string = ''")                                 \
      .Shape(TensorScatterShape)                                               \
      .Kernel(CpuState<TensorScatterKernel<Combine::combine>>(true))           \
      .Grad(gradient)                                                          \
      .Sample({{.shape = {6, 2}},                                              \
               {.shape = {3, 1}, .values = {4, 1, 0}, .dtype = DType::kInt32}, \
               {.shape = {3, 2}}})                                             \
      .Doc(doc)                                                                \
      .Family("array")

SLUICE_TENSOR_SCATTER(
    TensorScatterUpdate, kUpdate, UpdateGrad, "{int16, int32, int64, uint16}",
    "Returns the tensor with the elements at the indices replaced.");
SLUICE_TENSOR_SCATTER(TensorScatterAdd, kAdd, TensorScatterAddGrad,
                      "{int32, int64}",
                      "Returns the tensor with updates added at the indices.");
SLUICE_TENSOR_SCATTER(
    TensorScatterSub, kSub, TensorScatterSubGrad, "{int32, int64}",
    "Returns the tensor with updates subtracted at the indices.");
SLUICE_TENSOR_SCATTER(TensorScatterMin, kMin, MinMaxGrad, "{int32, int64}",
                      "Returns the tensor with the minimum of its elements and "
                      "the updates at the indices.");
SLUICE_TENSOR_SCATTER(TensorScatterMax, kMax, MinMaxGrad, "{int32, int64}",
                      "Returns the tensor with the maximum of its elements and "
                      "the updates at the indices.");
#undef SLUICE_TENSOR_SCATTER

}  // namespace
}  // namespace sluice
