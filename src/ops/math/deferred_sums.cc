// Deferred sums (docs/design/046): sums over calls or iterations whose summands
// are products or rows, which are computed together when the sum is read.
#include "graph/deferred_sums.h"

#include <memory>
#include <optional>
#include <utility>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/tensor_array/deferred_sum.h"

namespace sluice {
namespace {

constexpr char kRowTypes[] = "T: {float, double}";

Result<const DeferredSumValue*> DeferredInput(const Tensor& t) {
  const DeferredSumValue* sum = nullptr;
  if (t.dtype() == DType::kVariant && t.rank() == 0)
    sum = AsDeferredSum(t.raw_scalar<Variant>());
  if (sum == nullptr)
    return InvalidArgument("deferred sum: expected a scalar DeferredSum, got ",
                           t.ToString());
  return sum;
}

// The sum in `token` if it has no other owner, which may then change it.
DeferredSumValue* OwnedSum(const Tensor& token, const DeferredSumValue* sum) {
  // (Every value was created as non-const.)
  return token.unique() && token.raw_scalar<Variant>().unique()
             ? const_cast<DeferredSumValue*>(sum)
             : nullptr;
}

// ---- Summands ---------------------------------------------------------------

Status RunDeferredSum(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(Tensor dense, ctx.TakeToKeep(0));
  auto sum = std::make_shared<DeferredSumValue>();
  SLUICE_RETURN_IF_ERROR(sum->Add(std::move(dense)));
  ctx.set_output(0, DeferredTensor(std::move(sum)));
  return OkStatus();
}

Status RunDeferredProduct(KernelContext& ctx) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  if (a.rank() != 2 || b.rank() != 2 || a.dim(0) != b.dim(0))
    return InvalidArgument(
        "deferred product: expected two matrices with equally many rows, got ",
        a.shape().ToString(), " and ", b.shape().ToString());
  const int64_t dims[] = {a.dim(1), b.dim(1)};
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  DeferredTerm term;
  SLUICE_ASSIGN_OR_RETURN(term.a, ctx.TakeToKeep(0));
  SLUICE_ASSIGN_OR_RETURN(term.b, ctx.TakeToKeep(1));
  return SetDeferredTerm(ctx, std::move(term), shape);
}

Status DeferredProductShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape a, c.WithRank(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(1, 2));
  SLUICE_RETURN_IF_ERROR(MergeDim(a.dim(0), b.dim(0)).status());
  c.set_output(0, PartialShape::Scalar());
  return OkStatus();
}

Status RunDeferredColumnSum(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  if (x.rank() < 1)
    return InvalidArgument(
        "deferred sum of columns: expected at least rank 1, got a scalar");
  const Shape shape({x.dim(x.rank() - 1)});
  DeferredTerm term;
  term.kind = DeferredTerm::Kind::kColumns;
  SLUICE_ASSIGN_OR_RETURN(term.a, ctx.TakeToKeep(0));
  return SetDeferredTerm(ctx, std::move(term), shape);
}

Status MakeDeferredNone(const Node&, Kernel* k) {
  k->state = std::make_shared<Tensor>(
      DeferredTensor(std::make_shared<DeferredSumValue>()));
  k->run = [](KernelContext& ctx) {
    ctx.set_output(0, ctx.state<Tensor>());
    return OkStatus();
  };
  return OkStatus();
}

// ---- Sums -------------------------------------------------------------------

// The first summand that is not empty takes in the others.
Status RunDeferredAdd(KernelContext& ctx) {
  Tensor total;
  DeferredSumValue* own = nullptr;  // The sum in `total`, if it may change.
  bool empty = true;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    Tensor token = ctx.TakeInput(i);
    SLUICE_ASSIGN_OR_RETURN(const DeferredSumValue* sum, DeferredInput(token));
    if (i > 0 && sum->dtype() == DType::kInvalid) continue;
    DeferredSumValue* const owned = OwnedSum(token, sum);
    if (empty) {
      empty = sum->dtype() == DType::kInvalid;
      total = std::move(token);
      own = owned;
      continue;
    }
    if (own == nullptr) {
      SLUICE_ASSIGN_OR_RETURN(const DeferredSumValue* so_far,
                              DeferredInput(total));
      auto copy = std::make_shared<DeferredSumValue>(*so_far);
      own = copy.get();
      total = DeferredTensor(std::move(copy));
    }
    SLUICE_RETURN_IF_ERROR(owned != nullptr ? own->Add(std::move(*owned))
                                            : own->Add(*sum));
  }
  ctx.set_output(0, std::move(total));
  return OkStatus();
}

// ---- The array --------------------------------------------------------------

Status RunDeferredValue(KernelContext& ctx) {
  const Tensor& dims = ctx.input(1);
  Dims known;
  for (int64_t i = 0; i < dims.num_elements(); ++i)
    known.push_back(dims.dtype() == DType::kInt32 ? dims.raw<int32_t>()[i]
                                                  : dims.raw<int64_t>()[i]);
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(known));
  const Tensor token = ctx.TakeInput(0);
  SLUICE_ASSIGN_OR_RETURN(const DeferredSumValue* sum, DeferredInput(token));
  const DType t = ctx.node().output_type(0);
  if (DeferredSumValue* const own = OwnedSum(token, sum)) {
    SLUICE_ASSIGN_OR_RETURN(Tensor value,
                            own->Take(t, shape, ctx.step().allocator));
    ctx.set_output(0, std::move(value));
    return OkStatus();
  }
  DeferredSumValue copy = *sum;
  SLUICE_ASSIGN_OR_RETURN(Tensor value,
                          copy.Take(t, shape, ctx.step().allocator));
  ctx.set_output(0, std::move(value));
  return OkStatus();
}

Status DeferredValueShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_ASSIGN_OR_RETURN(PartialShape shape, c.InputAsShape(1));
  c.set_output(0, std::move(shape));
  return OkStatus();
}

// ---- Gradients --------------------------------------------------------------
// The gradient of a deferred sum is a deferred sum.

// The dimensions of x from `begin` on.
Output LastDims(Output x, int begin) {
  return Build(
      "StridedSlice",
      {grad::ShapeOf(x), IntVector({begin}), IntVector({0}), IntVector({1})},
      {{"end_mask", 1}});
}

Output ValueOfShape(Output sum, Output shape, Output like) {
  return Build("DeferredValue", {sum, shape}, {{"T", grad::TypeOf(like)}});
}

Status DeferredSumGrad(GradContext& c) {
  c.grads[0] = DeferredValueOf(c.dy[0], c.input(0));
  return OkStatus();
}

Status DeferredProductGrad(GradContext& c) {
  const Output a = c.input(0), b = c.input(1);
  const Output shape =
      Build("ConcatV2", {LastDims(a, 1), LastDims(b, 1), Constant(int32_t{0})});
  const Output g = ValueOfShape(c.dy[0], shape, a);
  c.grads[0] = Build("MatMul", {b, g}, {{"transpose_b", true}});
  c.grads[1] = Build("MatMul", {a, g});
  return OkStatus();
}

Status DeferredColumnSumGrad(GradContext& c) {
  const Output x = c.input(0);
  const Output g = ValueOfShape(c.dy[0], LastDims(x, -1), x);
  c.grads[0] = grad::Add(grad::ZerosLike(x), g);
  return OkStatus();
}

Status DeferredAddGrad(GradContext& c) {
  for (Gradient& g : c.grads) g = c.dy[0];
  return OkStatus();
}

Status DeferredValueGrad(GradContext& c) {
  c.grads[0] = Build("DeferredSum", {c.dy[0]});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(DeferredSum)
    .Input("term: T")
    .Output("sum: variant")
    .Attr("T: type")
    .Family("math")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunDeferredSum))
    .Grad(DeferredSumGrad)
    .Doc("Returns a deferred sum of one array.");

SLUICE_OP(DeferredProduct)
    .Input("a: T")
    .Input("b: T")
    .Output("sum: variant")
    .Attr(kRowTypes)
    .Family("math")
    .Shape(DeferredProductShape)
    .Kernel(Cpu(RunDeferredProduct))
    .Grad(DeferredProductGrad)
    .Doc("Returns a deferred sum of one product: a, transposed, times b.");

SLUICE_OP(DeferredColumnSum)
    .Input("x: T")
    .Output("sum: variant")
    .Attr(kRowTypes)
    .Family("math")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunDeferredColumnSum))
    .Grad(DeferredColumnSumGrad)
    .Doc(
        "Returns a deferred sum of the rows of x: over all dimensions but the "
        "last.");

SLUICE_OP(DeferredNone)
    .Output("sum: variant")
    .Family("math")
    .Shape(ScalarShape)
    .Kernel(MakeDeferredNone)
    .NoGradient("it has no inputs")
    .Doc("Returns a deferred sum of nothing.");

SLUICE_OP(DeferredAdd)
    .Input("sums: N * variant")
    .Output("sum: variant")
    .Attr("N: int >= 1")
    .Family("math")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunDeferredAdd))
    .Grad(DeferredAddGrad)
    .Doc("Joins deferred sums.");

SLUICE_OP(DeferredValue)
    .Input("sum: variant")
    .Input("shape: Tshape")
    .Output("value: T")
    .Attr("T: type")
    .Attr("Tshape: {int32, int64} = DT_INT64")
    .HostInput("shape")
    .Family("math")
    .Shape(DeferredValueShape)
    .Kernel(Cpu(RunDeferredValue, true))
    .Grad(DeferredValueGrad)
    .Doc(
        "Computes a deferred sum: all its products as one; zeros of the given "
        "shape if nothing was added.");

const DeferredTermRegistrar value_terms(
    "DeferredValue",
    [](const Node& n) -> std::optional<Output> { return n.input(0); }, true);

}  // namespace
}  // namespace sluice
