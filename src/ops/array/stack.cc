// Stacking tensors along a new dimension, and unstacking.
#include <algorithm>

#include "exec/batching/batch_form.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

using array::At;
using array::DimsOf;
using array::Piece;

// ---- Pack, Unpack -----------------------------------------------------------

class PackKernel {
 public:
  explicit PackKernel(const Node& n) : axis_(n.IntAttr("axis")) {}
  Status Run(KernelContext& ctx) {
    const Tensor& head = ctx.input(0);
    const int n = ctx.num_inputs();
    for (int i = 1; i < n; ++i)
      if (!(ctx.input(i).shape() == head.shape()))
        return InvalidArgument(
            "values: expected equal shapes, got ", head.shape().ToString(),
            " and ", ctx.input(i).shape().ToString(), " (number ", i, ")");
    SLUICE_ASSIGN_OR_RETURN(const int axis,
                            CanonicalAxis(axis_, head.rank() + 1));
    Dims dims = DimsOf(head.shape());
    dims.insert(dims.begin() + axis, n);
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    if (n == 1) {
      SLUICE_ASSIGN_OR_RETURN(Tensor out, ctx.TakeInput(0).Reshaped(shape));
      ctx.set_output(0, std::move(out));
      return OkStatus();
    }
    const int64_t block =
        array::Product(head.shape().dims(), axis, head.rank());
    const int64_t outer = array::Product(head.shape().dims(), 0, axis);
    const DType type = head.dtype();
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, shape));
    if (shape.num_elements() == 0) return OkStatus();
    void* out = ctx.output(0).raw();
    if (head.num_elements() == 1) {  // Scalars: no list of pieces.
      for (int i = 0; i < n; ++i)
        array::CopyRun(type, ctx.input(i).raw(), At(type, out, i), 1);
      return OkStatus();
    }
    std::vector<Piece> pieces;
    pieces.reserve(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) pieces.push_back({ctx.input(i).raw(), block});
    array::JoinBlocks(type, pieces, outer, out);
    return OkStatus();
  }

 private:
  const int64_t axis_;
};

Status PackShape(ShapeContext& c) {
  PartialShape in = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(in, in.MergeWith(c.input(i)));
  }
  if (!in.rank_known()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(
      const int axis, CanonicalAxis(c.node().IntAttr("axis"), in.rank() + 1));
  c.set_output(
      0, array::JoinShapes(
             array::JoinShapes(array::SubShape(in, 0, axis), {c.num_inputs()}),
             array::SubShape(in, axis, in.rank())));
  return OkStatus();
}

Status PackGrad(GradContext& g) {
  const int n = g.op->num_inputs();
  Node* parts = BuildNode("Unpack", {g.dy[0]},
                          {{"num", n}, {"axis", g.op->IntAttr("axis")}});
  if (parts == nullptr) return OkStatus();
  for (int i = 0; i < n; ++i)
    g.grads[static_cast<size_t>(i)] = Output(parts, i);
  return OkStatus();
}

class UnpackKernel {
 public:
  explicit UnpackKernel(const Node& n) : axis_(n.IntAttr("axis")) {}
  Status Run(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    const int n = ctx.num_outputs();
    SLUICE_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(axis_, in.rank()));
    if (in.dim(axis) != n)
      return InvalidArgument("value: expected dimension ", axis, " of size ", n,
                             ", got shape ", in.shape().ToString());
    Dims dims = DimsOf(in.shape());
    dims.erase(dims.begin() + axis);
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    const int64_t outer = array::Product(in.shape().dims(), 0, axis);
    const int64_t block =
        array::Product(in.shape().dims(), axis + 1, in.rank());
    const DType type = in.dtype();
    for (int i = 0; i < n; ++i) {
      if (outer == 1) {
        SLUICE_ASSIGN_OR_RETURN(const Tensor flat,
                                in.Reshaped(Shape({n, block})));
        SLUICE_ASSIGN_OR_RETURN(Tensor out,
                                flat.Rows(i, i + 1).Reshaped(shape));
        ctx.set_output(i, std::move(out));
        continue;
      }
      SLUICE_RETURN_IF_ERROR(ctx.Allocate(i, type, shape));
      if (shape.num_elements() == 0) continue;
      const int64_t count[] = {outer, block}, from[] = {n * block, 1},
                    to[] = {block, 1};
      array::CopyStrided(type, count, At(type, in.raw(), i * block), from,
                         ctx.output(i).raw(), to);
    }
    return OkStatus();
  }

 private:
  const int64_t axis_;
};

Status UnpackShape(ShapeContext& c) {
  const PartialShape& in = c.input(0);
  if (!in.rank_known()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const int axis,
                          CanonicalAxis(c.node().IntAttr("axis"), in.rank()));
  if (in.dim(axis) >= 0 && in.dim(axis) != c.num_outputs())
    return InvalidArgument("value: expected dimension ", axis, " of size ",
                           c.num_outputs(), ", got shape ", in.ToString());
  c.set_all_outputs(array::JoinShapes(
      array::SubShape(in, 0, axis), array::SubShape(in, axis + 1, in.rank())));
  return OkStatus();
}

Status UnpackGrad(GradContext& g) {
  std::vector<Output> dys;
  for (size_t i = 0; i < g.dy.size(); ++i)
    dys.push_back(g.DyOrZeros(static_cast<int>(i)));
  if (dys.empty()) return OkStatus();
  g.grads[0] = Build("Pack", dys,
                     {{"N", static_cast<int64_t>(dys.size())},
                      {"axis", g.op->IntAttr("axis")}});
  return OkStatus();
}

// ---- ParallelConcat ---------------------------------------------------------

class ParallelConcatKernel {
 public:
  explicit ParallelConcatKernel(const Node& n)
      : shape_(n.AttrOr<PartialShape>("shape", PartialShape())) {}
  Status Run(KernelContext& ctx) {
    const Tensor& head = ctx.input(0);
    Dims dims = DimsOf(head.shape());
    const int n = ctx.num_inputs();
    std::vector<Piece> pieces;
    for (int i = 0; i < n; ++i) {
      const Tensor& t = ctx.input(i);
      if (t.rank() < 1 || t.dim(0) != 1 || !(t.shape() == head.shape()))
        return InvalidArgument("values: expected equal shapes with a first ",
                               "dimension of 1, got ", t.shape().ToString());
      pieces.push_back({t.raw(), t.num_elements()});
    }
    dims[0] = n;
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    if (!shape_.CompatibleWith(shape))
      return InvalidArgument("shape: expected that of the result, ",
                             shape.ToString(), ", got ", shape_.ToString());
    const DType type = head.dtype();
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, shape));
    array::JoinBlocks(type, pieces, 1, ctx.output(0).raw());
    return OkStatus();
  }

 private:
  const PartialShape shape_;
};

Status ParallelConcatShape(ShapeContext& c) {
  const PartialShape shape =
      c.node().AttrOr<PartialShape>("shape", PartialShape());
  if (!shape.fully_known())
    return InvalidArgument("shape: expected a fully known one, got ",
                           shape.ToString());
  PartialShape in = shape;
  if (in.rank() < 1 || in.dim(0) != c.num_inputs())
    return InvalidArgument("shape: expected a first dimension of ",
                           c.num_inputs(), ", got ", shape.ToString());
  in.set_dim(0, 1);
  for (int i = 0; i < c.num_inputs(); ++i)
    SLUICE_RETURN_IF_ERROR(in.MergeWith(c.input(i)).status());
  c.set_output(0, shape);
  return OkStatus();
}

Status ParallelConcatGrad(GradContext& g) {
  const int n = g.op->num_inputs();
  Node* rows =
      BuildNode("Split", {Constant(int32_t{0}), g.dy[0]}, {{"num_split", n}});
  if (rows == nullptr) return OkStatus();
  for (int i = 0; i < n; ++i) g.grads[static_cast<size_t>(i)] = Output(rows, i);
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(Pack)
    .Input("values: N * T")
    .Output("output: T")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .Attr("axis: int = 0")
    .Kind(OpKind::kPack)
    .Shape(PackShape)
    .Kernel(CpuState<PackKernel>(true))
    .Grad(PackGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {2, 3}}}, {{"N", 2}, {"axis", 1}})
    .Doc("Stacks tensors of equal shape along a new dimension.")
    .Family("array");

SLUICE_OP(Unpack)
    .Input("value: T")
    .Output("output: num * T")
    .Attr("num: int >= 0")
    .Attr("T: type")
    .Attr("axis: int = 0")
    .Kind(OpKind::kUnpack)
    .Shape(UnpackShape)
    .Kernel(CpuState<UnpackKernel>(true))
    .Grad(UnpackGrad)
    .Sample({{.shape = {2, 3}}}, {{"num", 3}, {"axis", -1}})
    .Doc("Unstacks a dimension into one tensor per entry.")
    .Family("array");

SLUICE_OP(ParallelConcat)
    .Input("values: N * T")
    .Output("output: T")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .Attr("shape: shape")
    .Shape(ParallelConcatShape)
    .Kernel(CpuState<ParallelConcatKernel>(true))
    .Grad(ParallelConcatGrad)
    .Sample({{.shape = {1, 3}}, {.shape = {1, 3}}},
            {{"N", 2}, {"shape", PartialShape({2, 3})}})
    .Doc("Concatenates tensors with one row each along their first dimension.")
    .Family("array");

// Along an inner dimension, so that the rows are those of the parts.
std::optional<BatchForm> InnerAxis(const Node& n) {
  if (n.IntAttr("axis") < 1) return std::nullopt;
  return BatchForm{};
}
const BatchFormRegistrar pack_batch("Pack", InnerAxis);
const BatchFormRegistrar unpack_batch("Unpack", InnerAxis);

}  // namespace
}  // namespace sluice
