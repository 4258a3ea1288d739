// Inverses, determinants and systems of square matrices.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
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

double Cube(int64_t n) { return std::pow(static_cast<double>(n), 3); }

// ---- Inverse ----------------------------------------------------------------

template <typename T>
class InverseKernel {
 public:
  explicit InverseKernel(const Node& n) : adjoint_(n.BoolAttr("adjoint")) {}
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Matrices m,
                            SquareMatricesOf(ctx, 0, "input"));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), ctx.input(0).shape()));
    const T* a = ctx.input(0).raw<T>();
    T* out = ctx.output(0).raw<T>();
    const int64_t n = m.rows, size = n * n;
    return ForEachMatrix(m.count, 2 * Cube(n), kNotInvertible, [&](int64_t i) {
      if constexpr (std::is_same_v<T, half>) {
        std::vector<float> inverse(static_cast<size_t>(size));
        if (!Invert(Widened(a + i * size, size).data(), n, adjoint_,
                    inverse.data()))
          return false;
        Narrow(inverse, out + i * size);
        return true;
      } else {
        return Invert(a + i * size, n, adjoint_, out + i * size);
      }
    });
  }

 private:
  const bool adjoint_;
};

// d(a^-1) = -a^-1 da a^-1.
Status InverseGradient(GradContext& c) {
  const bool adjoint = c.op->BoolAttr("adjoint");
  const Output y = c.output(0);
  c.grads[0] =
      grad::Neg(Product(y, Product(c.dy[0], y, adjoint, !adjoint), !adjoint));
  return OkStatus();
}

SLUICE_OP(MatrixInverse)
    .Input("input: T")
    .Output("output: T")
    .Attr("adjoint: bool = false")
    .Attr(kMatrixTypes)
    .Shape(SquareShape)
    .Kernel(CpuStateFor<InverseKernel, float, double, half, complex64,
                        complex128>("T", true))
    .Grad(InverseGradient)
    .Sample({{.shape = {2, 2, 2}, .values = {4, 1, 2, 3, 2, -1, 1, 5}}})
    .Sample({{.shape = {2, 2}, .values = {4, 1, 2, 3}}}, {{"adjoint", true}})
    .Doc("Inverts matrices, or their adjoints.")
    .Family("linalg");

// ---- Determinants -----------------------------------------------------------

// The sign and logarithm of the determinant, or the determinant itself.
template <typename T, bool kLogarithm>
Status RunDeterminant(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const Matrices m, SquareMatricesOf(ctx, 0, "input"));
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, m.BatchOf({}));
  for (int i = 0; i < (kLogarithm ? 2 : 1); ++i)
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(i, DTypeOf<T>(), shape));
  const T* a = ctx.input(0).raw<T>();
  T* first = ctx.output(0).raw<T>();
  T* second = kLogarithm ? ctx.output(1).raw<T>() : nullptr;
  const int64_t n = m.rows;
  return ForEachMatrix(m.count, Cube(n) * 2 / 3, "", [&](int64_t i) {
    T sign;
    RealOf<T> log_abs;
    LogDeterminant(a + i * n * n, n, &sign, &log_abs);
    first[i] = kLogarithm ? sign : sign * std::exp(log_abs);
    if (kLogarithm) second[i] = T(log_abs);
    return true;
  });
}
template <typename T>
struct DeterminantKernel {
  static Status Run(KernelContext& ctx) {
    return RunDeterminant<T, false>(ctx);
  }
};
template <typename T>
struct LogDeterminantKernel {
  static Status Run(KernelContext& ctx) { return RunDeterminant<T, true>(ctx); }
};

Status DeterminantShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape s, SquareInput(c, 0));
  if (s.rank_known()) c.set_all_outputs(BatchOf(s));
  return OkStatus();
}

// a^-H times one number per matrix.
Output TimesInverse(Output a, Output number) {
  const Output inverse = Build("MatrixInverse", {a}, {{"adjoint", true}});
  return grad::Mul(grad::ExpandDims(grad::ExpandDims(number, -1), -1), inverse);
}

Status DeterminantGradient(GradContext& c) {
  c.grads[0] =
      TimesInverse(c.input(0), grad::Mul(c.dy[0], grad::Conj(c.output(0))));
  return OkStatus();
}

// d log det = tr(a^-1 da): its real part changes the logarithm of the
// magnitude, its imaginary part the sign.
Status LogDeterminantGradient(GradContext& c) {
  const DType t = grad::TypeOf(c.input(0));
  if (!IsComplex(t)) {
    if (c.dy[1].valid()) c.grads[0] = TimesInverse(c.input(0), c.dy[1]);
    return OkStatus();
  }
  const DType real = t == DType::kComplex64 ? DType::kFloat : DType::kDouble;
  const Output turn = grad::Mul(c.DyOrZeros(0), grad::Conj(c.output(0)));
  c.grads[0] = TimesInverse(
      c.input(0), Build("Complex",
                        {Build("Real", {c.DyOrZeros(1)}, {{"Tout", real}}),
                         Build("Imag", {turn}, {{"Tout", real}})},
                        {{"Tout", t}}));
  return OkStatus();
}

SLUICE_OP(MatrixDeterminant)
    .Input("input: T")
    .Output("output: T")
    .Attr("T: {half, float, double, complex64, complex128}")
    .Shape(DeterminantShape)
    .Kernel(CpuFor<DeterminantKernel, float, double, complex64, complex128>(
        "T", true))
    .Grad(DeterminantGradient)
    .Sample({{.shape = {2, 2, 2}, .values = {4, 1, 2, 3, 2, -1, 1, 5}}})
    .Doc("Computes the determinants of matrices.")
    .Family("linalg");

SLUICE_OP(LogMatrixDeterminant)
    .Input("input: T")
    .Output("sign: T")
    .Output("log_abs_determinant: T")
    .Attr("T: {half, float, double, complex64, complex128}")
    .Shape(DeterminantShape)
    .Kernel(CpuFor<LogDeterminantKernel, float, double, complex64, complex128>(
        "T", true))
    .Grad(LogDeterminantGradient)
    .Sample({{.shape = {2, 2, 2}, .values = {4, 1, 2, 3, 2, -1, 1, 5}}})
    .Doc(
        "Computes the signs of determinants and the logarithms of their "
        "absolute values.")
    .Family("linalg");

// ---- Systems ----------------------------------------------------------------

template <typename T>
class SolveKernel {
 public:
  explicit SolveKernel(const Node& n) : adjoint_(n.BoolAttr("adjoint")) {}
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Matrices m,
                            SquareMatricesOf(ctx, 0, "matrix"));
    SLUICE_ASSIGN_OR_RETURN(const Matrices b, RightSidesOf(ctx, 1, m));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), ctx.input(1).shape()));
    const T *a = ctx.input(0).raw<T>(), *rhs = ctx.input(1).raw<T>();
    T* out = ctx.output(0).raw<T>();
    const int64_t n = m.rows;
    const double work = Cube(n) * 2 / 3 + static_cast<double>(b.size()) * n * 2;
    return ForEachMatrix(m.count, work, kNotInvertible, [&](int64_t i) {
      return Solve(a + i * n * n, rhs + i * b.size(), n, b.columns, adjoint_,
                   out + i * b.size());
    });
  }

 private:
  const bool adjoint_;
};

Status SolveShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape a, SquareInput(c, 0));
  SLUICE_ASSIGN_OR_RETURN(PartialShape b, c.WithRankAtLeast(1, 2));
  if (!a.rank_known() && !b.rank_known()) return OkStatus();
  if (!b.rank_known()) {
    c.set_output(0,
                 array::JoinShapes(array::SubShape(a, 0, a.rank() - 1), {-1}));
    return OkStatus();
  }
  if (a.rank_known()) {
    const auto rows = array::SubShape(a, 0, a.rank() - 1)
                          .MergeWith(array::SubShape(b, 0, b.rank() - 1));
    if (!rows.ok())
      return InvalidArgument(
          "rhs: expected the batch and rows of the matrices ", a.ToString(),
          ", got ", b.ToString());
    b = array::JoinShapes(*rows, {b.dim(b.rank() - 1)});
  }
  c.set_output(0, b);
  return OkStatus();
}

// For x with op(a) x = b: the gradient of b solves the adjoint system.
void SystemGradient(Output x, Output db, bool adjoint, Output* da) {
  *da = grad::Neg(adjoint ? Product(x, db, false, true)
                          : Product(db, x, false, true));
}

Status SolveGradient(GradContext& c) {
  const bool adjoint = c.op->BoolAttr("adjoint");
  const Output db =
      Build("MatrixSolve", {c.input(0), c.dy[0]}, {{"adjoint", !adjoint}});
  Output da;
  SystemGradient(c.output(0), db, adjoint, &da);
  c.grads[0] = da;
  c.grads[1] = db;
  return OkStatus();
}

SLUICE_OP(MatrixSolve)
    .Input("matrix: T")
    .Input("rhs: T")
    .Output("output: T")
    .Attr("adjoint: bool = false")
    .Attr(kMatrixTypes)
    .Shape(SolveShape)
    .Kernel(CpuStateFor<SolveKernel, float, double, complex64, complex128>(
        "T", true))
    .Grad(SolveGradient)
    .Sample({{.shape = {2, 2, 2}, .values = {4, 1, 2, 3, 2, -1, 1, 5}},
             {.shape = {2, 2, 3}}})
    .Sample({{.shape = {2, 2}, .values = {4, 1, 2, 3}}, {.shape = {2, 1}}},
            {{"adjoint", true}})
    .Doc(
        "Solves systems of linear equations, or those of the adjoint "
        "matrices.")
    .Family("linalg");

// ---- Triangular systems -----------------------------------------------------

template <typename T>
class TriangularSolveKernel {
 public:
  explicit TriangularSolveKernel(const Node& n)
      : lower_(n.AttrOr<bool>("lower", true)),
        adjoint_(n.BoolAttr("adjoint")) {}
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Matrices m,
                            SquareMatricesOf(ctx, 0, "matrix"));
    SLUICE_ASSIGN_OR_RETURN(const Matrices b, MatricesOf(ctx, 1, "rhs"));
    if (b.rows != m.rows)
      return InvalidArgument("rhs: expected as many rows as the matrices, ",
                             m.rows, ", got shape ",
                             ctx.input(1).shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(
        const PartialShape batch,
        BroadcastShapes(PartialShape(array::SpanOf(m.batch)),
                        PartialShape(array::SpanOf(b.batch))));
    Dims dims = batch.dims();
    dims.push_back(b.rows);
    dims.push_back(b.columns);
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), shape));
    if (shape.num_elements() == 0) return OkStatus();
    const T *a = ctx.input(0).raw<T>(), *rhs = ctx.input(1).raw<T>();
    T* out = ctx.output(0).raw<T>();
    const int64_t n = m.rows;
    return ForEachMatrix(shape.num_elements() / b.size(),
                         static_cast<double>(b.size()) * n, "", [&](int64_t i) {
                           SolveTriangular(
                               a + IndexIn(m.batch, batch, i) * n * n,
                               rhs + IndexIn(b.batch, batch, i) * b.size(), n,
                               b.columns, lower_, adjoint_, out + i * b.size());
                           return true;
                         });
  }

 private:
  // The matrix of an input that is broadcast to matrix i of the result.
  static int64_t IndexIn(const Dims& own, const PartialShape& all, int64_t i) {
    int64_t index = 0, step = 1;
    for (int d = all.rank(), k = static_cast<int>(own.size()); k-- > 0;) {
      const int64_t at = i % all.dim(--d), size = own[static_cast<size_t>(k)];
      i /= all.dim(d);
      if (size > 1) index += at * step;
      step *= size;
    }
    return index;
  }

  const bool lower_, adjoint_;
};

Status TriangularSolveShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape a, SquareInput(c, 0));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape b, c.WithRankAtLeast(1, 2));
  if (!a.rank_known() || !b.rank_known()) return OkStatus();
  const Result<int64_t> rows =
      MergeDim(a.dim(a.rank() - 1), b.dim(b.rank() - 2));
  if (!rows.ok())
    return InvalidArgument("rhs: expected as many rows as the matrices ",
                           a.ToString(), ", got ", b.ToString());
  SLUICE_ASSIGN_OR_RETURN(const PartialShape batch,
                          BroadcastShapes(BatchOf(a), BatchOf(b)));
  c.set_output(0, array::JoinShapes(batch, {*rows, b.dim(b.rank() - 1)}));
  return OkStatus();
}

Status TriangularSolveGradient(GradContext& c) {
  const bool adjoint = c.op->BoolAttr("adjoint");
  const bool lower = c.op->AttrOr<bool>("lower", true);
  const Output a = c.input(0), b = c.input(1);
  const Output db = Build("MatrixTriangularSolve", {a, c.dy[0]},
                          {{"lower", lower}, {"adjoint", !adjoint}});
  Output da;
  SystemGradient(c.output(0), db, adjoint, &da);
  da = lower ? LowerTriangle(da) : UpperTriangle(da);
  c.grads[0] = SumRepeated(da, a, b);
  c.grads[1] = SumRepeated(db, b, a);
  return OkStatus();
}

SLUICE_OP(MatrixTriangularSolve)
    .Input("matrix: T")
    .Input("rhs: T")
    .Output("output: T")
    .Attr("lower: bool = true")
    .Attr("adjoint: bool = false")
    .Attr("T: {bfloat16, double, float, half, complex64, complex128}")
    .Shape(TriangularSolveShape)
    .Kernel(CpuStateFor<TriangularSolveKernel, float, double, complex64,
                        complex128>("T", true))
    .Grad(TriangularSolveGradient)
    .Sample({{.shape = {2, 2, 2}, .values = {4, 1, 2, 3, 2, -1, 1, 5}},
             {.shape = {2, 2, 3}}})
    .Sample({{.shape = {2, 2}, .values = {4, 1, 2, 3}}, {.shape = {2, 2, 3}}},
            {{"lower", false}, {"adjoint", true}})
    .Doc(
        "Solves systems with upper or lower triangular matrices, or their "
        "adjoints; batches broadcast.")
    .Family("linalg");

// ---- Tridiagonal systems ----------------------------------------------------

template <typename T>
class TridiagonalSolveKernel {
 public:
  static Result<std::shared_ptr<TridiagonalSolveKernel>> Make(const Node& n) {
    auto made = std::make_shared<TridiagonalSolveKernel>();
    made->options_.partial_pivoting = n.AttrOr<bool>("partial_pivoting", true);
    made->options_.perturb_singular = n.BoolAttr("perturb_singular");
    if (made->options_.perturb_singular && !made->options_.partial_pivoting)
      return InvalidArgument(
          "perturb_singular: expected partial_pivoting with it, got it alone");
    return made;
  }
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Matrices d, MatricesOf(ctx, 0, "diagonals"));
    if (d.rows != 3)
      return InvalidArgument("diagonals: expected three rows, got shape ",
                             ctx.input(0).shape().ToString());
    Matrices square = d;
    square.rows = d.columns;
    SLUICE_ASSIGN_OR_RETURN(const Matrices b, RightSidesOf(ctx, 1, square));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), ctx.input(1).shape()));
    const T *a = ctx.input(0).raw<T>(), *rhs = ctx.input(1).raw<T>();
    T* out = ctx.output(0).raw<T>();
    const int64_t n = d.columns;
    // (As in TensorFlow, a singular matrix is not an error.)
    return ForEachMatrix(
        d.count, 8.0 * static_cast<double>(b.size()), "", [&](int64_t i) {
          const T* upper = a + i * 3 * n;
          T* x = out + i * b.size();
          if (!SolveTridiagonal(upper, upper + n, upper + 2 * n,
                                rhs + i * b.size(), n, b.columns, options_, x))
            std::fill_n(x, b.size(),
                        T(std::numeric_limits<RealOf<T>>::quiet_NaN()));
          return true;
        });
  }

 private:
  TridiagonalOptions options_;
};

Status TridiagonalSolveShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape d, c.WithRankAtLeast(0, 2));
  SLUICE_ASSIGN_OR_RETURN(PartialShape b, c.WithRankAtLeast(1, 2));
  if (!d.rank_known() || !b.rank_known()) {
    c.set_output(0, b);
    return OkStatus();
  }
  const auto batch = BatchOf(d).MergeWith(BatchOf(b));
  const Result<int64_t> rows =
      MergeDim(d.dim(d.rank() - 1), b.dim(b.rank() - 2));
  if (!MergeDim(d.dim(d.rank() - 2), 3).ok() || !batch.ok() || !rows.ok())
    return InvalidArgument(
        "diagonals: expected three rows, as long as rhs, ", b.ToString(),
        ", has, and its batch dimensions, got ", d.ToString());
  c.set_output(0, array::JoinShapes(*batch, {*rows, b.dim(b.rank() - 1)}));
  return OkStatus();
}

// Shifts the rows of x by one, filling with a row of zeros.
Output ShiftRows(Output x, bool down) {
  const Output zeros = grad::ZerosLike(Rows(x, 0, 1));
  return down ? Concat({zeros, Rows(x, 0, -1)}, -2)
              : Concat({Rows(x, 1), zeros}, -2);
}

Output ShiftColumns(Output x, bool right) {
  const Output zeros = grad::ZerosLike(Columns(x, 0, 1));
  return right ? Concat({zeros, Columns(x, 0, -1)}, -1)
               : Concat({Columns(x, 1), zeros}, -1);
}

Status TridiagonalSolveGradient(GradContext& c) {
  const Output d = c.input(0), x = c.output(0);
  // The adjoint's upper diagonal is the lower one, shifted left by one.
  const Output adjoint =
      Concat({ShiftColumns(Rows(d, 2, 3), false), Rows(d, 1, 2),
              ShiftColumns(Rows(d, 0, 1), true)},
             -2);
  const Output db =
      Build("TridiagonalSolve", {grad::Conj(adjoint), c.dy[0]},
            {{"partial_pivoting", c.op->AttrOr<bool>("partial_pivoting", true)},
             {"perturb_singular", c.op->BoolAttr("perturb_singular")}});
  // Only three diagonals of the gradient -db x^H are needed.
  const auto diagonal = [&](Output with) {
    return grad::ExpandDims(
        grad::SumAxes(grad::Mul(db, grad::Conj(with)), {-1}), -2);
  };
  c.grads[0] = grad::Neg(Concat({diagonal(ShiftRows(x, false)), diagonal(x),
                                 diagonal(ShiftRows(x, true))},
                                -2));
  c.grads[1] = db;
  return OkStatus();
}

SLUICE_OP(TridiagonalSolve)
    .Input("diagonals: T")
    .Input("rhs: T")
    .Output("output: T")
    .Attr("partial_pivoting: bool = true")
    .Attr("perturb_singular: bool = false")
    .Attr("T: {double, float, complex64, complex128}")
    .Shape(TridiagonalSolveShape)
    .Kernel(CpuStateFor<TridiagonalSolveKernel, float, double, complex64,
                        complex128>("T", true))
    .Grad(TridiagonalSolveGradient)
    .Sample({{.shape = {3, 4}, .values = {1, 2, -1, 9, 4, 1, 5, 3, 9, 2, 1, 2}},
             {.shape = {4, 2}}})
    .Sample({{.shape = {1, 3, 2}, .values = {1, 9, 4, 3, 9, 2}},
             {.shape = {1, 2, 1}}},
            {{"partial_pivoting", false}})
    .Doc(
        "Solves tridiagonal systems, whose upper, main and lower diagonals "
        "are given as rows.")
    .Family("linalg");

const BatchFormRegistrar solver_batches[] = {
    {"MatrixInverse", PartByPart<2>},
    {"MatrixDeterminant", PartByPart<2>},
    {"MatrixSolve", PartByPart<2>},
    {"MatrixTriangularSolve", BroadcastParts<2>},
};

}  // namespace
}  // namespace sluice::linalg
