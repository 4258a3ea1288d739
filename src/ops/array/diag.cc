// The diagonal of a tensor as a whole, and the band of a matrix.
#include <algorithm>

#include "exec/batching/batch_form.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"

namespace sluice {
namespace {

using array::At;

// ---- MatrixBandPart ---------------------------------------------------------

Status BandPartKernel(KernelContext& ctx) {
  const Tensor in = ctx.input(0);
  if (in.rank() < 2)
    return InvalidArgument("input: expected rank at least 2, got shape ",
                           in.shape().ToString());
  SLUICE_ASSIGN_OR_RETURN(const int64_t lower,
                          array::IntScalar(ctx.input(1), "num_lower"));
  SLUICE_ASSIGN_OR_RETURN(const int64_t upper,
                          array::IntScalar(ctx.input(2), "num_upper"));
  const int64_t rows = in.dim(in.rank() - 2), columns = in.dim(in.rank() - 1);
  if (lower > rows)
    return InvalidArgument("num_lower: expected at most ", rows,
                           ", the number of rows, got ", lower);
  if (upper > columns)
    return InvalidArgument("num_upper: expected at most ", columns,
                           ", the number of columns, got ", upper);
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), in.shape()));
  if (in.num_elements() == 0) return OkStatus();
  const DType type = in.dtype();
  void* out = ctx.output(0).raw();
  const int64_t all_rows = in.num_elements() / columns;
  for (int64_t r = 0; r < all_rows; ++r) {
    const int64_t m = r % rows, at = r * columns;
    const int64_t begin =
        lower < 0 ? 0 : std::clamp<int64_t>(m - lower, 0, columns);
    const int64_t end =
        upper < 0 ? columns : std::max(begin, std::min(columns, m + upper + 1));
    array::ZeroRun(type, At(type, out, at), begin);
    array::CopyRun(type, At(type, in.raw(), at + begin),
                   At(type, out, at + begin), end - begin);
    array::ZeroRun(type, At(type, out, at + end), columns - end);
  }
  return OkStatus();
}

Status BandPartShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.WithRankAtLeast(0, 2));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(2));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status BandPartGrad(GradContext& g) {
  g.grads[0] = Build("MatrixBandPart", {g.dy[0], g.input(1), g.input(2)});
  return OkStatus();
}

// ---- Diag, DiagPart ---------------------------------------------------------

Status DiagKernel(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  if (in.rank() < 1)
    return InvalidArgument("diagonal: expected rank at least 1, got a scalar");
  Dims dims = array::DimsOf(in.shape());
  dims.insert(dims.end(), in.shape().dims().begin(), in.shape().dims().end());
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
  SLUICE_ASSIGN_OR_RETURN(
      Tensor out, array::MakeZeros(in.dtype(), shape, ctx.step().allocator));
  const int64_t n = in.num_elements();
  const int64_t count[] = {n}, from[] = {1}, to[] = {n + 1};
  array::CopyStrided(in.dtype(), count, in.raw(), from, out.raw(), to);
  ctx.set_output(0, std::move(out));
  return OkStatus();
}

Status DiagPartKernel(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  const int half_rank = in.rank() / 2;
  bool square = in.rank() > 0 && in.rank() % 2 == 0;
  for (int i = 0; square && i < half_rank; ++i)
    square = in.dim(i) == in.dim(half_rank + i);
  if (!square)
    return InvalidArgument(
        "input: expected a shape that repeats its first half, got ",
        in.shape().ToString());
  SLUICE_ASSIGN_OR_RETURN(
      const Shape shape,
      Shape::Make(in.shape().dims().first(static_cast<size_t>(half_rank))));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), shape));
  const int64_t n = shape.num_elements();
  const int64_t count[] = {n}, from[] = {n + 1}, to[] = {1};
  array::CopyStrided(in.dtype(), count, in.raw(), from, ctx.output(0).raw(),
                     to);
  return OkStatus();
}

Status DiagShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRankAtLeast(0, 1));
  c.set_output(0, array::JoinShapes(in, in));
  return OkStatus();
}

Status DiagPartShape(ShapeContext& c) {
  const PartialShape& in = c.input(0);
  if (!in.rank_known()) return OkStatus();
  const int n = in.rank() / 2;
  if (in.rank() % 2 != 0 || n == 0)
    return InvalidArgument("input: expected an even rank above 0, got shape ",
                           in.ToString());
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, array::SubShape(in, 0, n).MergeWith(
                                                array::SubShape(in, n, 2 * n)));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status DiagGrad(GradContext& g) {
  g.grads[0] = Build("DiagPart", {g.dy[0]});
  return OkStatus();
}
Status DiagPartGrad(GradContext& g) {
  g.grads[0] = Build("Diag", {g.dy[0]});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(MatrixBandPart)
    .Input("input: T")
    .Input("num_lower: Tindex")
    .Input("num_upper: Tindex")
    .Output("band: T")
    .Attr("T: type")
    .Attr("Tindex: {int32, int64} = DT_INT64")
    .Shape(BandPartShape)
    .Kernel(Cpu(BandPartKernel, true))
    .Grad(BandPartGrad)
    .Sample({{.shape = {2, 3, 4}},
             {.shape = {}, .values = {1}},
             {.shape = {}, .values = {-1}}})
    .Doc("Sets everything outside a diagonal band of each matrix to zero.")
    .Family("array");

SLUICE_OP(Diag)
    .Input("diagonal: T")
    .Output("output: T")
    .Attr(
        "T: {bfloat16, half, float, double, int32, int64, complex64, "
        "complex128}")
    .Shape(DiagShape)
    .Kernel(Cpu(DiagKernel, true))
    .Grad(DiagGrad)
    .Sample({{.shape = {2, 3}}})
    .Doc("Returns a tensor of twice the rank with the input on its diagonal.")
    .Family("array");

SLUICE_OP(DiagPart)
    .Input("input: T")
    .Output("diagonal: T")
    .Attr(
        "T: {bfloat16, half, float, double, int32, int64, complex64, "
        "complex128}")
    .Shape(DiagPartShape)
    .Kernel(Cpu(DiagPartKernel, true))
    .Grad(DiagPartGrad)
    .Sample({{.shape = {2, 3, 2, 3}}})
    .Doc(
        "Returns the diagonal of a tensor whose shape is the same shape "
        "twice.")
    .Family("array");

const BatchFormRegistrar band_part_batch("MatrixBandPart",
                                         PartByPart<2, 1 << 1 | 1 << 2>);

}  // namespace
}  // namespace sluice
