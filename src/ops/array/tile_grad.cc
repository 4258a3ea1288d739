// TileGrad, which appears in graphs of TensorFlow's first year. Today's
// gradient of Tile is in fill.cc.
#include <algorithm>
#include <complex>

#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"

namespace sluice {
namespace {

// Adds up the copies: for each element of the sum, reads its summands in order.
template <typename T>
void AddCopies(const Tensor& in, const Dims& sizes, Tensor* out) {
  const Dims strides = array::DenseStrides({sizes.data(), sizes.size()});
  const size_t rank = sizes.size();
  T* to = out->raw<T>();
  std::fill_n(to, out->num_elements(), T{});
  Dims at(rank, 0);
  for (int64_t i = 0; i < in.num_elements(); ++i) {
    int64_t place = 0;
    for (size_t d = 0; d < rank; ++d) place += at[d] % sizes[d] * strides[d];
    to[place] = array::WrapAdd(to[place], in.raw<T>()[i]);
    for (size_t d = rank; d-- > 0;) {
      if (++at[d] < in.shape().dims()[d]) break;
      at[d] = 0;
    }
  }
}

template <typename T>
struct TileGradKernel {
  static Status Run(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    SLUICE_ASSIGN_OR_RETURN(const Dims multiples,
                            array::IntVectorOf(ctx.input(1), "multiples"));
    if (multiples.size() != static_cast<size_t>(in.rank()))
      return InvalidArgument("multiples: expected ", in.rank(),
                             " entries, one per dimension, got ",
                             multiples.size());
    Dims sizes;
    for (size_t i = 0; i < multiples.size(); ++i) {
      const int64_t d = in.shape().dims()[i];
      if (multiples[i] <= 0 || d % multiples[i] != 0)
        return InvalidArgument(
            "multiples: expected divisors of the input's shape ",
            in.shape().ToString(), ", got ", multiples[i]);
      sizes.push_back(d / multiples[i]);
    }
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(sizes));
    if (shape == in.shape()) {
      ctx.set_output(0, ctx.TakeInput(0));
      return OkStatus();
    }
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), shape));
    AddCopies<T>(in, sizes, &ctx.output(0));
    return OkStatus();
  }
};

Status TileGradShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  const PartialShape& in = c.input(0);
  SLUICE_ASSIGN_OR_RETURN(const PartialShape multiples, c.InputAsShape(1));
  if (!in.rank_known() || !multiples.rank_known()) {
    if (in.rank_known()) c.set_output(0, PartialShape::OfRank(in.rank()));
    return OkStatus();
  }
  if (in.rank() != multiples.rank())
    return InvalidArgument("multiples: expected ", in.rank(),
                           " entries, one per dimension, got ",
                           multiples.rank());
  PartialShape out = PartialShape::OfRank(in.rank());
  for (int i = 0; i < in.rank(); ++i)
    if (in.dim(i) >= 0 && multiples.dim(i) > 0 &&
        in.dim(i) % multiples.dim(i) == 0)
      out.set_dim(i, in.dim(i) / multiples.dim(i));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status GradOfTileGrad(GradContext& g) {
  g.grads[0] = Build("Tile", {g.dy[0], g.input(1)});
  return OkStatus();
}

SLUICE_OP(TileGrad)
    .Input("input: T")
    .Input("multiples: int32")
    .Output("output: T")
    .Attr("T: type")
    .Shape(TileGradShape)
    .Kernel(CpuFor<TileGradKernel, float, double, half, bfloat16, int8_t,
                   int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                   uint64_t, std::complex<float>, std::complex<double>>("T",
                                                                        true))
    .Grad(GradOfTileGrad)
    .Sample({{.shape = {4, 9}}, {.shape = {2}, .values = {2, 3}}})
    .Sample({{.shape = {2, 3}}, {.shape = {2}, .values = {1, 1}}})
    .Doc("The gradient of Tile: the sum over the copies.")
    .Family("array");

}  // namespace
}  // namespace sluice
