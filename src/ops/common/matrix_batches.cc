#include "ops/common/matrix_batches.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/parallel.h"
#include "graph/builder.h"
#include "ops/common/grad_nodes.h"

namespace sluice::linalg {

// ---- Kernels ----------------------------------------------------------------

Result<Shape> Matrices::BatchOf(std::initializer_list<int64_t> dims) const {
  Dims all = batch;
  all.insert(all.end(), dims.begin(), dims.end());
  return array::MakeShape(all);
}

Result<Matrices> MatricesOf(KernelContext& ctx, int i, const char* what) {
  const Shape& s = ctx.input(i).shape();
  if (s.rank() < 2)
    return InvalidArgument(what, ": expected rank at least 2, got shape ",
                           s.ToString());
  Matrices m;
  m.batch.assign(s.dims().begin(), s.dims().end() - 2);
  m.count = array::Product(s.dims(), 0, s.rank() - 2);
  m.rows = s.dim(s.rank() - 2);
  m.columns = s.dim(s.rank() - 1);
  return m;
}

Result<Matrices> SquareMatricesOf(KernelContext& ctx, int i, const char* what) {
  SLUICE_ASSIGN_OR_RETURN(Matrices m, MatricesOf(ctx, i, what));
  if (m.rows != m.columns)
    return InvalidArgument(what, ": expected square matrices, got shape ",
                           ctx.input(i).shape().ToString());
  return m;
}

Result<Matrices> RightSidesOf(KernelContext& ctx, int i, const Matrices& a) {
  SLUICE_ASSIGN_OR_RETURN(Matrices m, MatricesOf(ctx, i, "rhs"));
  if (m.batch != a.batch)
    return InvalidArgument("rhs: expected the matrices' batch dimensions ",
                           PartialShape(array::SpanOf(a.batch)).ToString(),
                           ", got shape ", ctx.input(i).shape().ToString());
  if (m.rows != a.rows)
    return InvalidArgument("rhs: expected as many rows as the matrices, ",
                           a.rows, ", got shape ",
                           ctx.input(i).shape().ToString());
  return m;
}

int64_t FirstFailure(int64_t count, double work,
                     absl::FunctionRef<bool(int64_t)> each) {
  // (Ten microseconds of work justify another thread.)
  const auto grain = static_cast<int64_t>(
      std::clamp(16384.0 / std::max(work, 1.0), 1.0, 16384.0));
  std::atomic<int64_t> failed = count;
  ParallelFor(count, grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      if (each(i)) continue;
      int64_t before = failed.load();
      while (i < before && !failed.compare_exchange_weak(before, i)) {
      }
      return;
    }
  });
  return failed == count ? -1 : failed.load();
}

Status ForEachMatrix(int64_t count, double work, const char* what,
                     absl::FunctionRef<bool(int64_t)> each) {
  const int64_t failed = FirstFailure(count, work, each);
  if (failed < 0) return OkStatus();
  return InvalidArgument(what, ", got another as matrix ", failed, " of ",
                         count);
}

// ---- Shapes -----------------------------------------------------------------

Result<PartialShape> SquareInput(ShapeContext& c, int i) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape s, c.WithRankAtLeast(i, 2));
  if (!s.rank_known()) return s;
  const int rank = s.rank();
  const Result<int64_t> size = MergeDim(s.dim(rank - 2), s.dim(rank - 1));
  if (!size.ok())
    return InvalidArgument("input ", i, ": expected square matrices, got ",
                           s.ToString());
  s.set_dim(rank - 2, *size);
  s.set_dim(rank - 1, *size);
  return s;
}

PartialShape BatchOf(const PartialShape& s) {
  return array::SubShape(s, 0, s.rank() - 2);
}

Status SquareShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape s, SquareInput(c, 0));
  c.set_output(0, std::move(s));
  return OkStatus();
}

// ---- Gradients --------------------------------------------------------------

namespace {

Output Int64(int64_t v) { return Constant(Tensor::Scalar<int64_t>(v)); }

Output BandPart(Output x, int64_t below, int64_t above) {
  return Build("MatrixBandPart", {x, Int64(below), Int64(above)});
}

// x[..., from:to, :] (fixed = 1) or x[..., from:to] (fixed = 0).
Output Span(Output x, int from, int to, int fixed) {
  std::vector<int32_t> begin = {0, from}, end = {0, to}, strides = {1, 1};
  int64_t all = 0;
  if (fixed == 1) {
    begin.push_back(0);
    end.push_back(0);
    strides.push_back(1);
    all = 4;
  }
  return Build(
      "StridedSlice", {x, IntVector(begin), IntVector(end), IntVector(strides)},
      {{"ellipsis_mask", int64_t{1}}, {"begin_mask", all}, {"end_mask", all}});
}

}  // namespace

Output Product(Output a, Output b, bool adjoint_a, bool adjoint_b) {
  return Build("BatchMatMulV2", {a, b},
               {{"adj_x", adjoint_a}, {"adj_y", adjoint_b}});
}

Output Adjoint(Output x) {
  if (!x.valid()) return x;
  const char* op =
      IsComplex(grad::TypeOf(x)) ? "ConjugateTranspose" : "Transpose";
  const PartialShape& s = x.shape();
  if (s.rank_known()) {
    std::vector<int32_t> order;
    for (int i = 0; i < s.rank(); ++i) order.push_back(i);
    if (order.size() >= 2) std::swap(order[order.size() - 2], order.back());
    return Build(op, {x, IntVector(order)});
  }
  const Output one = IntVector({1}), rank = grad::RankOf(x);
  const Output last = Build("Sub", {rank, one});
  const Output before = Build("Sub", {last, one});
  const Output rest =
      Build("Range",
            {Constant(int32_t{0}), Build("Sub", {rank, Constant(int32_t{2})}),
             Constant(int32_t{1})});
  return Build(op, {x, Concat({rest, last, before}, 0)});
}

Output Concat(std::vector<Output> parts, int axis) {
  const auto n = static_cast<int64_t>(parts.size());
  parts.push_back(Constant(static_cast<int32_t>(axis)));
  return Build("ConcatV2", std::move(parts), {{"N", n}});
}

Output Diagonal(Output x) { return Build("MatrixDiagPart", {x}); }
Output DiagonalMatrix(Output d) { return Build("MatrixDiag", {d}); }
Output WithDiagonal(Output x, Output d) {
  return Build("MatrixSetDiag", {x, d});
}
Output UpperTriangle(Output x) { return BandPart(x, 0, -1); }
Output LowerTriangle(Output x) { return BandPart(x, -1, 0); }

Output Columns(Output x, int from, int to) { return Span(x, from, to, 0); }
Output Rows(Output x, int from, int to) { return Span(x, from, to, 1); }

Output SafeInverse(Output x) {
  // (Squares that are negligible compared with the constant have no effect.)
  return grad::Div(x, grad::Add(grad::Square(x), grad::Number(x, 1e-20)));
}

Output InverseDifferences(Output v) {
  return WithDiagonal(
      SafeInverse(grad::Sub(grad::ExpandDims(v, -2), grad::ExpandDims(v, -1))),
      grad::ZerosLike(v));
}

Output SumRepeated(Output dx, Output x, Output other) {
  if (!dx.valid() || !x.valid() || !other.valid()) return Output();
  const auto batch = [](Output o) {
    const PartialShape& s = o.shape();
    return s.rank_known() && s.rank() >= 2 ? BatchOf(s) : PartialShape();
  };
  if (auto axes = grad::BroadcastAxes(batch(x), batch(other))) {
    if (axes->empty()) return dx;
    return grad::ReshapeLike(grad::SumAxes(dx, *axes), x);
  }
  const auto batch_shape = [](Output o) {
    return Build("StridedSlice", {grad::ShapeOf(o), IntVector({0}),
                                  IntVector({-2}), IntVector({1})});
  };
  const Output axes =
      Build("BroadcastGradientArgs", {batch_shape(x), batch_shape(other)});
  return grad::ReshapeLike(grad::SumOver(dx, axes), x);
}

}  // namespace sluice::linalg
