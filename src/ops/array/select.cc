// Selecting elements of tensors, and finding true elements.
#include "kernels/simd/select.h"

#include <algorithm>

#include "exec/batching/batch_form.h"
#include "exec/core/kernel.h"
#include "exec/fusion/block_form.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

using array::Tag;

// ---- Select, SelectV2 -------------------------------------------------------

Status BadShapes(const Shape& c, const Shape& t, const Shape& e) {
  return InvalidArgument(
      "condition, t and e: expected shapes that broadcast, got ", c.ToString(),
      ", ", t.ToString(), " and ", e.ToString());
}

// Fast path for equal shapes.
void SelectEqual(const Tensor& c, const Tensor& t, const Tensor& e,
                 Tensor* out) {
  const int64_t n = out->num_elements();
  const bool* cond = c.raw<bool>();
  if (IsPlain(t.dtype())) {
    simd::Select(DTypeSize(t.dtype()), {}, cond, t.raw(), e.raw(), out->raw(),
                 n);
    return;
  }
  array::ByElement(t.dtype(), [&]<typename T>(Tag<T>) {
    const T *a = static_cast<const T*>(t.raw()),
            *b = static_cast<const T*>(e.raw());
    T* o = static_cast<T*>(out->raw());
    for (int64_t i = 0; i < n; ++i) o[i] = cond[i] ? a[i] : b[i];
  });
}

absl::Span<const int64_t> Span(const Shape& s) {
  return absl::MakeConstSpan(s.dims().data(), s.dims().size());
}

Status SelectV2Kernel(KernelContext& ctx) {
  const Tensor &c = ctx.input(0), &t = ctx.input(1), &e = ctx.input(2);
  const DType type = t.dtype();
  if (c.rank() == 0 && t.shape() == e.shape()) {
    ctx.set_output(0, ctx.TakeInput(c.raw_scalar<bool>() ? 1 : 2));
    return OkStatus();
  }
  if (c.shape() == t.shape() && t.shape() == e.shape()) {
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, t.shape()));
    SelectEqual(c, t, e, &ctx.output(0));
    return OkStatus();
  }
  simd::Broadcast<3> plan;
  if (!plan.Build({Span(c.shape()), Span(t.shape()), Span(e.shape())}))
    return BadShapes(c.shape(), t.shape(), e.shape());
  SLUICE_ASSIGN_OR_RETURN(
      const Shape shape,
      Shape::Make({plan.shape().data(), plan.shape().size()}));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, shape));
  if (shape.num_elements() == 0) return OkStatus();
  Tensor& out = ctx.output(0);
  if (IsPlain(type)) {
    simd::BroadcastSelect(DTypeSize(type), plan, c.raw<bool>(), t.raw(),
                          e.raw(), out.raw());
    return OkStatus();
  }
  array::ByElement(type, [&]<typename T>(Tag<T>) {
    const T *a = static_cast<const T*>(t.raw()),
            *b = static_cast<const T*>(e.raw());
    T* o = static_cast<T*>(out.raw());
    const int last = plan.rank() - 1;
    plan.ForEachInner(0, plan.outer(), [&](int64_t at, const auto& from) {
      for (int64_t i = 0; i < plan.inner(); ++i)
        o[at + i] = c.raw<bool>()[from[0] + i * plan.stride(0, last)]
                        ? a[from[1] + i * plan.stride(1, last)]
                        : b[from[2] + i * plan.stride(2, last)];
    });
  });
  return OkStatus();
}

// The older rule: a condition of the same shape, a scalar, or one value per
// row.
Status SelectKernel(KernelContext& ctx) {
  const Tensor &c = ctx.input(0), &t = ctx.input(1), &e = ctx.input(2);
  const bool per_row = c.rank() == 1 && t.rank() >= 1 && c.dim(0) == t.dim(0);
  if (!(t.shape() == e.shape()) ||
      (c.rank() != 0 && !(c.shape() == t.shape()) && !per_row))
    return InvalidArgument(
        "condition, t and e: expected t and e of one shape and a condition of "
        "that shape, a scalar or a vector with an entry per row, got shapes ",
        c.shape().ToString(), ", ", t.shape().ToString(), " and ",
        e.shape().ToString());
  if (c.rank() == 0) {
    ctx.set_output(0, ctx.TakeInput(c.raw_scalar<bool>() ? 1 : 2));
    return OkStatus();
  }
  const DType type = t.dtype();
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, t.shape()));
  if (t.num_elements() == 0) return OkStatus();
  Tensor& out = ctx.output(0);
  if (c.shape() == t.shape()) {
    SelectEqual(c, t, e, &out);
    return OkStatus();
  }
  const int64_t row = t.num_elements() / t.dim(0);
  for (int64_t i = 0; i < t.dim(0); ++i)
    array::CopyRun(
        type, array::At(type, c.raw<bool>()[i] ? t.raw() : e.raw(), i * row),
        array::At(type, out.raw(), i * row), row);
  return OkStatus();
}

template <size_t kSize>
bool SelectBlock(const void*, const void* const* in, uint32_t single, void* out,
                 int64_t n) {
  return simd::Select(kSize,
                      {.cond = (single & 1) == 0,
                       .a = (single & 2) == 0,
                       .b = (single & 4) == 0},
                      static_cast<const bool*>(in[0]), in[1], in[2], out, n);
}

const BlockFormRegistrar select_form(
    [](const Node& n, const Kernel& k) -> std::optional<BlockForm> {
      if (k.run != SelectKernel && k.run != SelectV2Kernel) return std::nullopt;
      BlockForm form;
      form.shapes =
          k.run == SelectKernel ? BlockForm::kSame : BlockForm::kBroadcast;
      switch (DTypeSize(n.output_type(0))) {
        case 1:
          form.fn = SelectBlock<1>;
          break;
        case 2:
          form.fn = SelectBlock<2>;
          break;
        case 4:
          form.fn = SelectBlock<4>;
          break;
        case 8:
          form.fn = SelectBlock<8>;
          break;
        default:
          form.fn = SelectBlock<16>;
      }
      return form;
    });

bool ScalarSelect(uint64_t* registers, Tensor*, const ScalarPlaces& at) {
  const bool condition = (registers[at.in[0]] & 1) != 0;
  registers[at.out] = registers[at.in[condition ? 1 : 2]];
  return true;
}

template <Status (*Run)(KernelContext&)>
Status MakeSelect(const Node& n, Kernel* k) {
  k->run = Run;
  k->expensive = true;
  const DType t = RemoveRef(n.TypeAttr("T"));
  if (IsPlain(t) && DTypeSize(t) <= 8) k->scalar = ScalarSelect;
  return OkStatus();
}

Status SelectV2Shape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape values,
                          BroadcastShapes(c.input(1), c.input(2)));
  SLUICE_ASSIGN_OR_RETURN(PartialShape out,
                          BroadcastShapes(c.input(0), values));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status SelectShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.input(1).MergeWith(c.input(2)));
  const PartialShape& cond = c.input(0);
  if (cond.rank_known() && cond.rank() != 0 && out.rank_known()) {
    const bool per_row = cond.rank() == 1 && out.rank() > 1;
    const PartialShape part = per_row ? array::SubShape(out, 0, 1) : out;
    SLUICE_ASSIGN_OR_RETURN(const PartialShape merged, part.MergeWith(cond));
    if (per_row)
      out.set_dim(0, merged.dim(0));
    else
      out = merged;
  } else if (cond.rank() > 1) {
    out = cond;
  }
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status SelectGrad(GradContext& g) {
  const Output c = g.input(0), dy = g.dy[0];
  const Output zeros = grad::ZerosLike(dy);
  g.grads[1] = Build("Select", {c, dy, zeros});
  g.grads[2] = Build("Select", {c, zeros, dy});
  return OkStatus();
}

Status SelectV2Grad(GradContext& g) {
  const Output c = g.input(0), dy = g.dy[0];
  const Output zero = ScalarOf(dy.dtype(), 0);
  g.grads[1] = grad::SumToShapeOf(Build("SelectV2", {c, dy, zero}), g.input(1));
  g.grads[2] = grad::SumToShapeOf(Build("SelectV2", {c, zero, dy}), g.input(2));
  return OkStatus();
}

// ---- Where ------------------------------------------------------------------

// NaN counts as true, since it is not zero.
template <typename T>
bool NotZero(const T& v) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>)
    return static_cast<float>(v) != 0;
  else
    return v != T(0);
}

template <typename T>
Status Find(const Tensor& in, Tensor* out, Allocator* allocator) {
  const T* x = in.raw<T>();
  const int64_t n = in.num_elements();
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += NotZero(x[i]);
  SLUICE_ASSIGN_OR_RETURN(
      *out, Tensor::Make(DType::kInt64, Shape({count, in.rank()}), allocator));
  if (count == 0) return OkStatus();
  // Row after row: the last coordinate is written for each element, and stays
  // if the element is not zero. (The branch would often be mispredicted.)
  const int rank = in.rank();
  const int64_t columns = rank == 0 ? 1 : in.dim(rank - 1);
  int64_t row[kMaxRank] = {};
  int64_t* to = out->raw<int64_t>();
  int64_t* const end = to + count * rank;
  for (const T* from = x; to != end; from += columns) {
    int64_t* const first = to;
    for (int64_t i = 0; i < columns && to != end; ++i) {
      to[rank - 1] = i;
      to += NotZero(from[i]) ? rank : 0;
    }
    for (int64_t* at = first; rank > 1 && at != to; at += rank)
      std::copy_n(row, rank - 1, at);
    for (int d = rank - 2; d >= 0 && ++row[d] == in.dim(d); --d) row[d] = 0;
  }
  return OkStatus();
}

Status WhereKernel(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  Tensor out;
  Status status;
  const auto find = [&]<typename T>(Tag<T>) {
    status = Find<T>(in, &out, ctx.step().allocator);
  };
  if (!array::ByNumber(in.dtype(), find)) {
    // Booleans and quantised types: compare with zero bits.
    switch (DTypeSize(in.dtype())) {
      case 1:
        find(Tag<uint8_t>());
        break;
      case 2:
        find(Tag<uint16_t>());
        break;
      default:
        find(Tag<uint32_t>());
        break;
    }
  }
  SLUICE_RETURN_IF_ERROR(status);
  ctx.set_output(0, std::move(out));
  return OkStatus();
}

Status WhereShape(ShapeContext& c) {
  c.set_output(0, {-1, c.input(0).rank()});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(Select)
    .Input("condition: bool")
    .Input("t: T")
    .Input("e: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(SelectShape)
    .Kernel(MakeSelect<SelectKernel>)
    .Grad(SelectGrad)
    .Sample({{.shape = {2}, .values = {1, 0}},
             {.shape = {2, 3}},
             {.shape = {2, 3}}})
    .Doc(
        "Returns t where the condition is true, else e; elementwise or by "
        "rows.")
    .Family("array");

SLUICE_OP(SelectV2)
    .Input("condition: bool")
    .Input("t: T")
    .Input("e: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(SelectV2Shape)
    .Kernel(MakeSelect<SelectV2Kernel>)
    .Grad(SelectV2Grad)
    .Sample({{.shape = {2, 1}, .values = {1, 0}},
             {.shape = {2, 3}},
             {.shape = {3}}})
    .Doc("Returns t where the condition is true, else e, with broadcasting.")
    .Family("array");

SLUICE_OP(Where)
    .Input("input: T")
    .Output("index: int64")
    .Attr(
        "T: {float, double, int32, uint8, int16, int8, complex64, int64, "
        "qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, "
        "complex128, half, uint32, uint64, bool} = DT_BOOL")
    .Shape(WhereShape)
    .Kernel(Cpu(WhereKernel, true))
    .NoGradient("indices have no derivative")
    .Sample({{.shape = {2, 3}, .values = {0, 1, 1, 0, 0, 1}}})
    .Doc("Returns the indices of the nonzero elements, in order.")
    .Family("array");

// A condition has the shape of the values, or one element for each row.
const BatchFormRegistrar select_batch("Select", RowByRow<>);

}  // namespace
}  // namespace sluice
