// Distributing rows over several tensors and merging them; replacing rows in
// place.
#include <algorithm>

#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/in_place.h"

namespace sluice {
namespace {

using array::At;
using array::IntAt;
using array::Tag;

// True if the first dimensions of `whole` are those of `prefix`.
bool StartsWith(const Shape& whole, const Shape& prefix) {
  return prefix.rank() <= whole.rank() &&
         std::equal(prefix.dims().begin(), prefix.dims().end(),
                    whole.dims().begin());
}

// ---- DynamicPartition -------------------------------------------------------

Status DynamicPartitionKernel(KernelContext& ctx) {
  const Tensor &data = ctx.input(0), &partitions = ctx.input(1);
  const int n = ctx.num_outputs();
  if (!StartsWith(data.shape(), partitions.shape()))
    return InvalidArgument(
        "data: expected a shape that begins with that of partitions, ",
        partitions.shape().ToString(), ", got ", data.shape().ToString());
  std::vector<int64_t> counts(static_cast<size_t>(n), 0);
  const int32_t* p = partitions.raw<int32_t>();
  for (int64_t i = 0; i < partitions.num_elements(); ++i) {
    if (p[i] < 0 || p[i] >= n)
      return InvalidArgument("partitions: expected values in [0, ", n,
                             "), got ", p[i], " at ",
                             array::IndexName(partitions.shape(), i));
    ++counts[static_cast<size_t>(p[i])];
  }
  const int64_t row =
      array::Product(data.shape().dims(), partitions.rank(), data.rank());
  const DType type = data.dtype();
  std::vector<void*> to(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    Dims dims = {counts[static_cast<size_t>(i)]};
    for (int d = partitions.rank(); d < data.rank(); ++d)
      dims.push_back(data.dim(d));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(i, type, shape));
    to[static_cast<size_t>(i)] = ctx.output(i).raw();
  }
  if (row == 0) return OkStatus();
  for (int64_t i = 0; i < partitions.num_elements(); ++i) {
    void*& at = to[static_cast<size_t>(p[i])];
    array::CopyRun(type, At(type, data.raw(), i * row), at, row);
    at = At(type, at, row);
  }
  return OkStatus();
}

Status DynamicPartitionShape(ShapeContext& c) {
  const PartialShape &data = c.input(0), &partitions = c.input(1);
  if (!data.rank_known() || !partitions.rank_known()) return OkStatus();
  if (partitions.rank() > data.rank() ||
      !array::SubShape(data, 0, partitions.rank()).CompatibleWith(partitions))
    return InvalidArgument(
        "data: expected a shape that begins with that of partitions, ",
        partitions.ToString(), ", got ", data.ToString());
  c.set_all_outputs(array::JoinShapes(
      {-1}, array::SubShape(data, partitions.rank(), data.rank())));
  return OkStatus();
}

Output Stitch(std::vector<Output> indices, const std::vector<Output>& data) {
  const auto n = static_cast<int64_t>(data.size());
  indices.insert(indices.end(), data.begin(), data.end());
  return Build("ParallelDynamicStitch", std::move(indices), {{"N", n}});
}

// The rows of the gradients are moved back to their original indices.
Status DynamicPartitionGrad(GradContext& g) {
  const Output data = g.input(0), partitions = g.input(1);
  const auto n = static_cast<int64_t>(g.dy.size());
  const Output prefix = grad::ShapeOf(partitions);
  const Output all = Build(
      "Range",
      {Constant(int32_t{0}), grad::SizeOf(partitions), Constant(int32_t{1})});
  Node* where =
      BuildNode("DynamicPartition", {grad::ReshapeTo(all, prefix), partitions},
                {{"num_partitions", n}});
  if (where == nullptr) return OkStatus();
  std::vector<Output> indices, dys;
  for (int i = 0; i < static_cast<int>(n); ++i) {
    indices.push_back(Output(where, i));
    dys.push_back(g.DyOrZeros(i));
  }
  g.grads[0] = grad::ReshapeLike(Stitch(indices, dys), data);
  return OkStatus();
}

// ---- DynamicStitch ----------------------------------------------------------

Status DynamicStitchKernel(KernelContext& ctx) {
  const int n = ctx.num_inputs() / 2;
  const Tensor &first_index = ctx.input(0), &first = ctx.input(n);
  int64_t rows = 0;
  for (int k = 0; k < n; ++k) {
    const Tensor &indices = ctx.input(k), &data = ctx.input(n + k);
    bool fits =
        StartsWith(data.shape(), indices.shape()) &&
        data.rank() - indices.rank() == first.rank() - first_index.rank();
    for (int d = indices.rank(); fits && d < data.rank(); ++d)
      fits = data.dim(d) == first.dim(d - indices.rank() + first_index.rank());
    if (!fits)
      return InvalidArgument(
          "data: expected shapes that are those of indices followed by one "
          "common shape, got ",
          data.shape().ToString(), " for indices of shape ",
          indices.shape().ToString(), " (number ", k, ")");
    for (const int32_t i : indices.raw_flat<int32_t>()) {
      if (i < 0)
        return InvalidArgument("indices: expected values >= 0, got ", i);
      rows = std::max<int64_t>(rows, int64_t{i} + 1);
    }
  }
  Dims dims = {rows};
  for (int d = first_index.rank(); d < first.rank(); ++d)
    dims.push_back(first.dim(d));
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
  const DType type = first.dtype();
  // Rows without an index are zero.
  SLUICE_ASSIGN_OR_RETURN(Tensor out,
                          array::MakeZeros(type, shape, ctx.step().allocator));
  const int64_t row = array::Product(shape.dims(), 1, shape.rank());
  for (int k = 0; k < n && row > 0; ++k) {
    const Tensor &indices = ctx.input(k), &data = ctx.input(n + k);
    for (int64_t i = 0; i < indices.num_elements(); ++i)
      array::CopyRun(type, At(type, data.raw(), i * row),
                     At(type, out.raw(), indices.raw<int32_t>()[i] * row), row);
  }
  ctx.set_output(0, std::move(out));
  return OkStatus();
}

Status DynamicStitchShape(ShapeContext& c) {
  const int n = c.num_inputs() / 2;
  PartialShape rest;
  int64_t rows = 0;
  for (int k = 0; k < n; ++k) {
    const PartialShape &indices = c.input(k), &data = c.input(n + k);
    const Tensor* known = c.constant(k);
    if (known == nullptr) rows = -1;
    for (int64_t i = 0; rows >= 0 && i < known->num_elements(); ++i) {
      if (IntAt(*known, i) < 0)
        return InvalidArgument("indices: expected values >= 0, got ",
                               IntAt(*known, i));
      rows = std::max(rows, IntAt(*known, i) + 1);
    }
    if (!indices.rank_known() || !data.rank_known()) continue;
    if (indices.rank() > data.rank() ||
        !array::SubShape(data, 0, indices.rank()).CompatibleWith(indices))
      return InvalidArgument("data: expected a shape that begins with ",
                             indices.ToString(), ", got ", data.ToString());
    SLUICE_ASSIGN_OR_RETURN(rest, rest.MergeWith(array::SubShape(
                                      data, indices.rank(), data.rank())));
  }
  c.set_output(0, array::JoinShapes({rows}, rest));
  return OkStatus();
}

Status DynamicStitchGrad(GradContext& g) {
  const int n = g.op->num_inputs() / 2;
  for (int k = 0; k < n; ++k)
    g.grads[static_cast<size_t>(n + k)] =
        Build("GatherV2", {g.dy[0], g.input(k), Constant(int32_t{0})});
  return OkStatus();
}

// ---- InplaceUpdate, InplaceAdd, InplaceSub ----------------------------------

enum class Inplace { kUpdate, kAdd, kSub };

template <Inplace kOp>
Status InplaceKernel(KernelContext& ctx) {
  const Tensor i = ctx.input(1), v = ctx.input(2);
  const Shape shape = ctx.input(0).shape();
  if (shape.rank() < 1 || i.rank() > 1)
    return InvalidArgument("x and i: expected rows and a vector, got shapes ",
                           shape.ToString(), " and ", i.shape().ToString());
  Dims want = array::DimsOf(shape);
  if (i.rank() == 0)
    want.erase(want.begin());
  else
    want[0] = i.num_elements();
  if (want != array::DimsOf(v.shape()))
    return InvalidArgument("v: expected shape ",
                           PartialShape(array::SpanOf(want)).ToString(),
                           ", got ", v.shape().ToString());
  SLUICE_ASSIGN_OR_RETURN(Tensor x, array::TakeToChange(ctx, 0));
  const int64_t rows = shape[0];
  const int64_t row = array::Product(shape.dims(), 1, shape.rank());
  const DType type = v.dtype();
  for (int64_t k = 0; k < i.num_elements() && rows > 0 && row > 0; ++k) {
    // Any integer is a valid row number: they wrap around.
    const int64_t r = (i.raw<int32_t>()[k] % rows + rows) % rows;
    if (kOp == Inplace::kUpdate) {
      array::CopyRun(type, At(type, v.raw(), k * row),
                     At(type, x.raw(), r * row), row);
      continue;
    }
    array::ByNumber(type, [&]<typename T>(Tag<T>) {
      T* to = x.raw<T>() + r * row;
      const T* from = v.raw<T>() + k * row;
      for (int64_t e = 0; e < row; ++e)
        to[e] = kOp == Inplace::kAdd ? array::WrapAdd(to[e], from[e])
                                     : array::WrapSub(to[e], from[e]);
    });
  }
  ctx.set_output(0, std::move(x));
  return OkStatus();
}

Status MakeInplaceSum(const Node& n, Kernel* k) {
  const DType t = n.TypeAttr("T");
  if (!array::ByNumber(t, [](auto) {})) return NoKernelFor(n, t);
  k->run = n.op_name() == "InplaceAdd" ? InplaceKernel<Inplace::kAdd>
                                       : InplaceKernel<Inplace::kSub>;
  k->expensive = true;
  return OkStatus();
}

// The rows selected by i, as a vector of numbers in range.
Output RowsNamed(GradContext& c) {
  const Output rows = Build("StridedSlice",
                            {grad::ShapeOf(c.input(0)), IntVector({0}),
                             IntVector({1}), IntVector({1})},
                            {{"shrink_axis_mask", 1}});
  return Build("Reshape",
               {Build("FloorMod", {c.input(1), rows}), IntVector({-1})});
}

// The rows of dy that v was added to, in the shape of v.
Status InplaceAddGrad(GradContext& c) {
  c.grads[0] = c.dy[0];
  c.grads[2] = grad::ReshapeLike(
      Build("GatherV2", {c.dy[0], RowsNamed(c), Constant(int32_t{0})}),
      c.input(2));
  return OkStatus();
}

Status InplaceSubGrad(GradContext& c) {
  SLUICE_RETURN_IF_ERROR(InplaceAddGrad(c));
  c.grads[2] = grad::Neg(c.grads[2].dense);
  return OkStatus();
}

// If a row was replaced several times, only the last one has a gradient.
Status InplaceUpdateGrad(GradContext& c) {
  const Output zeros = grad::ZerosLike(c.input(2));
  c.grads[0] = Build("InplaceUpdate", {c.dy[0], c.input(1), zeros});
  const Output rows = RowsNamed(c);
  const Output order = Build("Range", {Constant(int32_t{0}), grad::SizeOf(rows),
                                       Constant(int32_t{1})});
  const Output count =
      Build("StridedSlice", {grad::ShapeOf(c.input(0)), IntVector({0}),
                             IntVector({1}), IntVector({1})});
  const Output last =
      Build("InplaceUpdate",
            {Build("Fill", {count, Constant(int32_t{-1})}), rows, order});
  const Output axis = Constant(int32_t{0});
  const Output taken = Build("GatherV2", {c.dy[0], rows, axis});
  c.grads[2] = grad::ReshapeLike(
      Build("Select",
            {Build("Equal", {Build("GatherV2", {last, rows, axis}), order}),
             taken, grad::ZerosLike(taken)}),
      c.input(2));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(DynamicPartition)
    .Input("data: T")
    .Input("partitions: int32")
    .Output("outputs: num_partitions * T")
    .Attr("num_partitions: int >= 1")
    .Attr("T: type")
    .Shape(DynamicPartitionShape)
    .Kernel(Cpu(DynamicPartitionKernel, true))
    .Grad(DynamicPartitionGrad)
    .Sample({{.shape = {4, 2}}, {.shape = {4}, .values = {1, 0, 1, 1}}},
            {{"num_partitions", 2}})
    .Doc("Distributes rows over the outputs that partitions selects.")
    .Family("data_flow");

SLUICE_OP(DynamicStitch)
    .Input("indices: N * int32")
    .Input("data: N * T")
    .Output("merged: T")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .Shape(DynamicStitchShape)
    .Kernel(Cpu(DynamicStitchKernel, true))
    .Grad(DynamicStitchGrad)
    .Sample({{.shape = {2}, .values = {0, 3}},
             {.shape = {2}, .values = {2, 1}},
             {.shape = {2, 3}},
             {.shape = {2, 3}}},
            {{"N", 2}})
    .Doc(
        "Merges rows by index into one tensor; the last of several equal "
        "indices wins.")
    .Family("data_flow");

SLUICE_OP(ParallelDynamicStitch)
    .Input("indices: N * int32")
    .Input("data: N * T")
    .Output("merged: T")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .Shape(DynamicStitchShape)
    .Kernel(Cpu(DynamicStitchKernel, true))
    .Grad(DynamicStitchGrad)
    .Sample({{.shape = {2}, .values = {0, 3}},
             {.shape = {2}, .values = {2, 1}},
             {.shape = {2, 3}},
             {.shape = {2, 3}}},
            {{"N", 2}})
    .Doc("Merges rows by index into one tensor, in unspecified order.")
    .Family("data_flow");

#define SLUICE_INPLACE(Name, kernel, grad, doc)  \
  SLUICE_OP(Name)                                \
      .Input("x: T")                             \
      .Input("i: int32")                         \
      .Input("v: T")                             \
      .Output("y: T")                            \
      .Attr("T: type")                           \
      .Shape(UnchangedShape)                     \
      .Kernel(kernel)                            \
      .Grad(grad)                                \
      .Sample({{.shape = {3, 2}},                \
               {.shape = {2}, .values = {2, 0}}, \
               {.shape = {2, 2}}})               \
      .Doc(doc)                                  \
      .Family("array")

SLUICE_INPLACE(
    InplaceUpdate, Cpu(InplaceKernel<Inplace::kUpdate>, true),
    InplaceUpdateGrad,
    "Returns x with rows replaced, in place if x has no other reader.");
SLUICE_INPLACE(
    InplaceAdd, MakeInplaceSum, InplaceAddGrad,
    "Returns x with v added to rows, in place if x has no other reader.");
SLUICE_INPLACE(InplaceSub, MakeInplaceSum, InplaceSubGrad,
               "Returns x with v subtracted from rows, in place if x has no "
               "other reader.");
#undef SLUICE_INPLACE

}  // namespace
}  // namespace sluice
