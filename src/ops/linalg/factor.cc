// Factors of matrices: Cholesky, QR, LU.
#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "exec/batching/batch_form.h"
#include "graph/builder.h"
#include "graph/op_def.h"
#include "kernels/linalg/linalg.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/matrix_batches.h"

namespace sluice::linalg {
namespace {

// ---- Cholesky ---------------------------------------------------------------

template <typename T>
struct CholeskyKernel {
  static Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const Matrices m,
                            SquareMatricesOf(ctx, 0, "input"));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), ctx.input(0).shape()));
    const T* a = ctx.input(0).raw<T>();
    T* out = ctx.output(0).raw<T>();
    const int64_t n = m.rows;
    const double work = static_cast<double>(n) * n * n / 3;
    // (As in TensorFlow, a matrix that is not positive definite is not an
    // error.)
    constexpr auto kNan = std::numeric_limits<RealOf<T>>::quiet_NaN();
    return ForEachMatrix(m.count, work, "", [&](int64_t i) {
      T* to = out + i * n * n;
      if (Cholesky(a + i * n * n, n, to)) return true;
      for (int64_t row = 0; row < n; ++row)
        for (int64_t column = 0; column < n; ++column)
          to[row * n + column] = T(column <= row ? kNan : 0);
      return true;
    });
  }
};

// With l^H dl =: M, dL = l * (lower half of l^-1 dA l^-H) gives
// dA = l^-H P l^-1, P the lower half of M: its adjoint is the same with P^H.
Status CholeskyGradient(GradContext& c) {
  const Output l = c.output(0);
  const auto divide = [&](Output x) {
    return Build("MatrixTriangularSolve", {l, x}, {{"adjoint", true}});
  };
  Output p = LowerTriangle(Product(l, c.dy[0], true));
  p = WithDiagonal(p, grad::Mul(Diagonal(p), grad::Number(p, 0.5)));
  const Output half = divide(Adjoint(divide(p)));
  c.grads[0] =
      grad::Mul(grad::Add(half, Adjoint(half)), grad::Number(half, 0.5));
  return OkStatus();
}

SLUICE_OP(Cholesky)
    .Input("input: T")
    .Output("output: T")
    .Attr(kMatrixTypes)
    .Shape(SquareShape)
    .Kernel(CpuFor<CholeskyKernel, float, double, complex64, complex128>("T",
                                                                         true))
    .Grad(CholeskyGradient)
    .Sample({{.shape = {2, 2, 2}, .values = {4, 1, 1, 3, 2, -1, -1, 5}}})
    .Doc(
        "The Cholesky factor: the lower triangular output with output "
        "output^H = input (^H: conjugate transpose). Reads only the lower "
        "triangle; NaN if the input is not positive definite.")
    .Family("linalg");

template <typename T>
struct CholeskyGradKernel {
  static Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const Matrices m, SquareMatricesOf(ctx, 0, "l"));
    if (!(ctx.input(1).shape() == ctx.input(0).shape()))
      return InvalidArgument("grad: expected l's shape ",
                             ctx.input(0).shape().ToString(), ", got ",
                             ctx.input(1).shape().ToString());
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), ctx.input(0).shape()));
    const T *l = ctx.input(0).raw<T>(), *grad = ctx.input(1).raw<T>();
    T* out = ctx.output(0).raw<T>();
    const int64_t n = m.rows, size = n * n;
    return ForEachMatrix(
        m.count, 2.0 * static_cast<double>(size) * n, "", [&](int64_t i) {
          CholeskyGrad(l + i * size, grad + i * size, n, out + i * size);
          return true;
        });
  }
};

SLUICE_OP(CholeskyGrad)
    .Input("l: T")
    .Input("grad: T")
    .Output("output: T")
    .Attr("T: {half, float, double}")
    .Shape(SquareShape)
    .Kernel(CpuFor<CholeskyGradKernel, float, double>("T", true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {2, 2}, .values = {2, 0, 1, 3}}, {.shape = {2, 2}}})
    .Doc("The gradient of Cholesky with respect to its input, made symmetric.")
    .Family("linalg");

// ---- QR ---------------------------------------------------------------------

template <typename T>
class QrKernel {
 public:
  explicit QrKernel(const Node& n) : full_(n.BoolAttr("full_matrices")) {}
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Matrices m, MatricesOf(ctx, 0, "input"));
    const int64_t middle = full_ ? m.rows : m.least();
    SLUICE_ASSIGN_OR_RETURN(const Shape q_shape, m.BatchOf({m.rows, middle}));
    SLUICE_ASSIGN_OR_RETURN(const Shape r_shape,
                            m.BatchOf({middle, m.columns}));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), q_shape));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, DTypeOf<T>(), r_shape));
    const T* a = ctx.input(0).raw<T>();
    T *q = ctx.output(0).raw<T>(), *r = ctx.output(1).raw<T>();
    const double work =
        2.0 * static_cast<double>(m.size()) * static_cast<double>(middle);
    return ForEachMatrix(m.count, work, "", [&](int64_t i) {
      T* const qi = q + i * m.rows * middle;
      T* const ri = r + i * middle * m.columns;
      if constexpr (std::is_same_v<T, half>) {
        std::vector<float> wide_q(static_cast<size_t>(m.rows * middle));
        std::vector<float> wide_r(static_cast<size_t>(middle * m.columns));
        Qr(Widened(a + i * m.size(), m.size()).data(), m.rows, m.columns, full_,
           wide_q.data(), wide_r.data());
        Narrow(wide_q, qi);
        Narrow(wide_r, ri);
      } else {
        Qr(a + i * m.size(), m.rows, m.columns, full_, qi, ri);
      }
      return true;
    });
  }

 private:
  const bool full_;
};

Status QrShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRankAtLeast(0, 2));
  if (!in.rank_known()) return OkStatus();
  const int64_t m = in.dim(in.rank() - 2), n = in.dim(in.rank() - 1);
  int64_t middle = m < 0 || n < 0 ? -1 : std::min(m, n);
  if (m == 0 || n == 0) middle = 0;
  if (c.node().BoolAttr("full_matrices")) middle = m;
  const PartialShape batch = BatchOf(in);
  c.set_output(0, array::JoinShapes(batch, {m, middle}));
  c.set_output(1, array::JoinShapes(batch, {middle, n}));
  return OkStatus();
}

// x r^-H for an upper triangular r.
Output DivideByAdjoint(Output x, Output r) {
  return Adjoint(Build("MatrixTriangularSolve", {r, Adjoint(x)},
                       {{"lower", false}, {"adjoint", false}}));
}

// For at least as many rows as columns, with q of the input's shape (Walter,
// Lehmann and Lamour 2012; Roberts and Roberts 2020).
Output TallQrGradient(Output q, Output r, Output dq, Output dr) {
  const Output qdq = Product(q, dq, true);
  const Output rdr = Product(r, dr, false, true);
  const auto skew = [](Output x) { return grad::Sub(x, Adjoint(x)); };
  const Output middle = LowerTriangle(grad::Add(skew(qdq), skew(rdr)));
  Output inner = grad::Sub(dq, Product(q, qdq));
  // (Rotations of the columns of q in the complex plane change whether the
  // diagonal of r is real: the gradient includes this part.)
  if (IsComplex(grad::TypeOf(q))) {
    const Output d = Diagonal(grad::Sub(rdr, Adjoint(qdq)));
    const DType real =
        grad::TypeOf(q) == DType::kComplex64 ? DType::kFloat : DType::kDouble;
    const Output re =
        grad::Cast(Build("Real", {d}, {{"Tout", real}}), grad::TypeOf(q));
    inner = grad::Add(inner,
                      Product(q, DiagonalMatrix(grad::Conj(grad::Sub(d, re)))));
  }
  return grad::Add(Product(q, grad::Add(dr, DivideByAdjoint(middle, r))),
                   DivideByAdjoint(inner, r));
}

Status QrGradient(GradContext& c) {
  const Output q = c.output(0), r = c.output(1);
  const Output dq = c.DyOrZeros(0), dr = c.DyOrZeros(1);
  const PartialShape &qs = q.shape(), &rs = r.shape();
  if (!rs.rank_known() || !qs.rank_known() || rs.dim(rs.rank() - 2) < 0 ||
      rs.dim(rs.rank() - 1) < 0 || qs.dim(qs.rank() - 2) < 0)
    return Unimplemented(
        "gradient of Qr: expected matrices of known size, got r of shape ",
        rs.ToString());
  const int64_t m = qs.dim(qs.rank() - 2), n = rs.dim(rs.rank() - 1);
  if (rs.dim(rs.rank() - 2) > n)
    return Unimplemented(
        "gradient of Qr: expected full_matrices for matrices with no more rows "
        "than columns, got q of shape ",
        qs.ToString(), " and r of shape ", rs.ToString());
  if (m >= n) {
    c.grads[0] = TallQrGradient(q, r, dq, dr);
    return OkStatus();
  }
  // a = [x, y], r = [u, v]: x = q u, y = q v.
  const int split = static_cast<int>(m);
  const Output y = Columns(c.input(0), split), dv = Columns(dr, split);
  const Output dx = TallQrGradient(q, Columns(r, 0, split),
                                   grad::Add(dq, Product(y, dv, false, true)),
                                   Columns(dr, 0, split));
  c.grads[0] = Concat({dx, Product(q, dv)}, -1);
  return OkStatus();
}

SLUICE_OP(Qr)
    .Input("input: T")
    .Output("q: T")
    .Output("r: T")
    .Attr("full_matrices: bool = false")
    .Attr(kMatrixTypes)
    .Shape(QrShape)
    .Kernel(CpuStateFor<QrKernel, float, double, half, complex64, complex128>(
        "T", true))
    .Grad(QrGradient)
    .Sample({{.shape = {2, 3, 2}}})
    .Sample({{.shape = {3, 3}}}, {{"full_matrices", true}})
    .Sample({{.shape = {2, 2, 4}}})
    .Doc(
        "The QR factorisation: q with orthonormal columns and upper "
        "triangular r with q r = input.")
    .Family("linalg");

// ---- LU ---------------------------------------------------------------------

template <typename T>
class LuKernel {
 public:
  explicit LuKernel(const Node& n) : index_(n.output_type(1)) {}
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Matrices m,
                            SquareMatricesOf(ctx, 0, "input"));
    SLUICE_ASSIGN_OR_RETURN(const Shape p_shape, m.BatchOf({m.rows}));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), ctx.input(0).shape()));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, index_, p_shape));
    const T* a = ctx.input(0).raw<T>();
    T* lu = ctx.output(0).raw<T>();
    void* to = ctx.output(1).raw();
    const int64_t n = m.rows;
    const double work = static_cast<double>(n) * n * n * 2 / 3;
    return ForEachMatrix(m.count, work, kNotInvertible, [&](int64_t i) {
      std::vector<int64_t> p(static_cast<size_t>(n));
      if (!Lu(a + i * n * n, n, lu + i * n * n, p.data())) return false;
      if (index_ == DType::kInt64)
        std::copy(p.begin(), p.end(), static_cast<int64_t*>(to) + i * n);
      else
        std::transform(p.begin(), p.end(), static_cast<int32_t*>(to) + i * n,
                       [](int64_t v) { return static_cast<int32_t>(v); });
      return true;
    });
  }

 private:
  const DType index_;
};

Status LuShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape s, SquareInput(c, 0));
  c.set_output(0, s);
  if (s.rank_known()) c.set_output(1, array::SubShape(s, 0, s.rank() - 1));
  return OkStatus();
}

SLUICE_OP(Lu)
    .Input("input: T")
    .Output("lu: T")
    .Output("p: output_idx_type")
    .Attr("output_idx_type: {int32, int64} = DT_INT32")
    .Attr(kMatrixTypes)
    .Shape(LuShape)
    .Kernel(CpuStateFor<LuKernel, float, double, complex64, complex128>("T",
                                                                        true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {2, 3, 3}}})
    .Sample({{.shape = {2, 2}}}, {{"output_idx_type", DType::kInt64}})
    .Doc(
        "The LU factorisation with row permutation p: unit lower triangular L "
        "and upper triangular U, stored in one matrix, whose product is the "
        "rows p of input.")
    .Family("linalg");

const BatchFormRegistrar cholesky_batch("Cholesky", PartByPart<2>);

}  // namespace
}  // namespace sluice::linalg
