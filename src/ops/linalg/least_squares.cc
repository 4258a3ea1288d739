// Least squares.
#include <algorithm>
#include <optional>

#include "graph/builder.h"
#include "graph/op_def.h"
#include "kernels/linalg/linalg.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/matrix_batches.h"

namespace sluice::linalg {
namespace {

template <typename T>
class SolveLsKernel {
 public:
  explicit SolveLsKernel(const Node& n) : fast_(n.AttrOr<bool>("fast", true)) {}
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Matrices m, MatricesOf(ctx, 0, "matrix"));
    SLUICE_ASSIGN_OR_RETURN(const Matrices b, RightSidesOf(ctx, 1, m));
    if (ctx.input(2).rank() != 0)
      return InvalidArgument("l2_regularizer: expected a scalar, got shape ",
                             ctx.input(2).shape().ToString());
    const double l2 = ctx.input(2).raw_scalar<double>();
    if (!(l2 >= 0))
      return InvalidArgument("l2_regularizer: expected at least 0, got ", l2);
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            m.BatchOf({m.columns, b.columns}));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), shape));
    const T *a = ctx.input(0).raw<T>(), *rhs = ctx.input(1).raw<T>();
    T* out = ctx.output(0).raw<T>();
    const double work = static_cast<double>(m.size()) *
                        static_cast<double>(m.least() + b.columns);
    return ForEachMatrix(
        m.count, work,
        "matrix: expected full rank, a larger l2_regularizer or fast = false",
        [&](int64_t i) {
          const T *ai = a + i * m.size(), *bi = rhs + i * b.size();
          T* x = out + i * m.columns * b.columns;
          if (fast_)
            return LeastSquares(ai, bi, m.rows, m.columns, b.columns, l2, x);
          LeastSquaresAnyRank(ai, bi, m.rows, m.columns, b.columns, x);
          return true;
        });
  }

 private:
  const bool fast_;
};

Status SolveLsShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape a, c.WithRankAtLeast(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape b, c.WithRankAtLeast(1, 2));
  if (!a.rank_known() || !b.rank_known()) return OkStatus();
  const auto rows = array::SubShape(a, 0, a.rank() - 1)
                        .MergeWith(array::SubShape(b, 0, b.rank() - 1));
  if (!rows.ok())
    return InvalidArgument("rhs: expected the batch and rows of the matrices ",
                           a.ToString(), ", got ", b.ToString());
  c.set_output(0,
               array::JoinShapes(array::SubShape(*rows, 0, rows->rank() - 1),
                                 {a.dim(a.rank() - 1), b.dim(b.rank() - 1)}));
  return OkStatus();
}

// x = (a^H a + l2)^-1 a^H b, or a^H (a a^H + l2)^-1 b for an a with more
// columns than rows. b's gradient is the same function w of a's adjoint and dx.
// a's is -w x^H plus the part of the residual b - a x or, for a wide a, of dx -
// a^H w.
Status SolveLsGradient(GradContext& c) {
  if (!c.op->AttrOr<bool>("fast", true))
    return Unimplemented(
        "gradient of MatrixSolveLs: expected fast = true, got false");
  const Output a = c.input(0), b = c.input(1), l2 = c.input(2);
  const Output x = c.output(0), dx = c.dy[0];
  const PartialShape& s = a.shape();
  const bool known =
      s.rank_known() && s.dim(s.rank() - 2) >= 0 && s.dim(s.rank() - 1) >= 0;
  const std::optional<Tensor> least = ConstantValue(l2);
  Output w, rest;
  if (!known && least && least->num_elements() == 1 &&
      least->raw_scalar<double>() == 0) {
    // One of the two terms is zero, depending on the shape.
    const Output h = Adjoint(a);
    w = Build("MatrixSolveLs", {h, dx, l2});
    const Output z = Build("MatrixSolveLs", {a, w, l2});
    const Output y = Build("MatrixSolveLs", {h, x, l2});
    rest = grad::Add(Product(grad::Sub(b, Product(a, x)), z, false, true),
                     Product(y, grad::Sub(dx, Product(h, w)), false, true));
  } else if (!known) {
    return Unimplemented(
        "gradient of MatrixSolveLs: expected matrices of known size, or a "
        "constant l2_regularizer of 0, got shape ",
        s.ToString());
  } else {
    const bool tall = s.dim(s.rank() - 2) >= s.dim(s.rank() - 1);
    Output gramian = tall ? Product(a, a, true) : Product(a, a, false, true);
    gramian = WithDiagonal(
        gramian, grad::Add(Diagonal(gramian), grad::Cast(l2, grad::TypeOf(a))));
    const Output l = Build("Cholesky", {gramian});
    const auto solve = [&](Output right) {
      return Build("MatrixTriangularSolve",
                   {l, Build("MatrixTriangularSolve", {l, right})},
                   {{"adjoint", true}});
    };
    if (tall) {
      const Output z = solve(dx);
      w = Product(a, z);
      rest = Product(grad::Sub(b, Product(a, x)), z, false, true);
    } else {
      w = solve(Product(a, dx));
      rest = Product(solve(b), grad::Sub(dx, Product(a, w, true)), false, true);
    }
  }
  c.grads[0] = grad::Sub(rest, Product(w, x, false, true));
  c.grads[1] = w;
  return OkStatus();
}

SLUICE_OP(MatrixSolveLs)
    .Input("matrix: T")
    .Input("rhs: T")
    .Input("l2_regularizer: double")
    .Output("output: T")
    .Attr(kMatrixTypes)
    .Attr("fast: bool = true")
    .Shape(SolveLsShape)
    .Kernel(CpuStateFor<SolveLsKernel, float, double, complex64, complex128>(
        "T", true))
    .Grad(SolveLsGradient)
    .Sample({{.shape = {2, 3, 2},
              .values = {4, 1, 2, 3, -1, 1,  //
                         2, -1, 1, 5, 3, 1}},
             {.shape = {2, 3, 2}},
             {.shape = {}, .values = {0.5}}})
    .Sample({{.shape = {2, 3}, .values = {4, 1, 2, 3, 2, -1}},
             {.shape = {2, 1}},
             {.shape = {}, .values = {0}}})
    .Doc(
        "Solves the regularised least-squares problem: the x for which the sum "
        "of the squares of matrix x - rhs, plus l2_regularizer times that of "
        "the squares of x, is least.")
    .Family("linalg");

}  // namespace
}  // namespace sluice::linalg
