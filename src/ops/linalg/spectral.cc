// Eigenvalues, singular values, exponentials.
#include <algorithm>
#include <limits>
#include <vector>

#include "graph/builder.h"
#include "graph/op_def.h"
#include "kernels/linalg/linalg.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/matrix_batches.h"

namespace sluice::linalg {
namespace {

// ---- Eigenvalues ------------------------------------------------------------

template <typename T>
class SelfAdjointEigKernel {
 public:
  explicit SelfAdjointEigKernel(const Node& n)
      : vectors_(n.AttrOr<bool>("compute_v", true)) {}
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Matrices m,
                            SquareMatricesOf(ctx, 0, "input"));
    const int64_t n = m.rows;
    SLUICE_ASSIGN_OR_RETURN(const Shape e_shape, m.BatchOf({n}));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), e_shape));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(
        1, DTypeOf<T>(), vectors_ ? ctx.input(0).shape() : Shape()));
    if (!vectors_) *ctx.output(1).template raw<T>() = T(0);
    const T* a = ctx.input(0).raw<T>();
    T* e = ctx.output(0).raw<T>();
    T* v = vectors_ ? ctx.output(1).raw<T>() : nullptr;
    const double work = 10.0 * static_cast<double>(n * n) * n;
    return ForEachMatrix(
        m.count, work,
        "Self-adjoint eigen decomposition was not successful: expected "
        "matrices whose eigenvalues converge",
        [&](int64_t i) {
          std::vector<RealOf<T>> values(static_cast<size_t>(n));
          if (!SelfAdjointEig(a + i * n * n, n, values.data(),
                              v == nullptr ? nullptr : v + i * n * n))
            return false;
          std::copy(values.begin(), values.end(), e + i * n);
          return true;
        });
  }

 private:
  const bool vectors_;
};

Status SelfAdjointEigShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape s, SquareInput(c, 0));
  if (s.rank_known()) c.set_output(0, array::SubShape(s, 0, s.rank() - 1));
  c.set_output(
      1, c.node().AttrOr<bool>("compute_v", true) ? s : PartialShape::Scalar());
  return OkStatus();
}

// da = v (de + F * (v^H dv)) v^H with F = 1 / (e_j - e_i); the part of the
// upper triangle, which is not read, is added to the lower one.
Status SelfAdjointEigGradient(GradContext& c) {
  const bool vectors = c.op->AttrOr<bool>("compute_v", true);
  const Output e = c.output(0), de = c.DyOrZeros(0);
  Output v = c.output(1), middle = DiagonalMatrix(de);
  if (!vectors) {
    Node* again = BuildNode("SelfAdjointEigV2", {c.input(0)});
    if (again == nullptr) return OkStatus();
    v = Output(again, 1);
  } else if (c.dy[1].valid()) {
    middle = grad::Add(
        middle, grad::Mul(InverseDifferences(e), Product(v, c.dy[1], true)));
  }
  Output da = Product(v, Product(middle, v, false, true));
  da = LowerTriangle(grad::Add(da, Adjoint(da)));
  c.grads[0] = WithDiagonal(da, grad::Mul(Diagonal(da), grad::Number(da, 0.5)));
  return OkStatus();
}

SLUICE_OP(SelfAdjointEigV2)
    .Input("input: T")
    .Output("e: T")
    .Output("v: T")
    .Attr("compute_v: bool = true")
    .Attr(kMatrixTypes)
    .Shape(SelfAdjointEigShape)
    .Kernel(CpuStateFor<SelfAdjointEigKernel, float, double, complex64,
                        complex128>("T", true))
    .Grad(SelfAdjointEigGradient)
    .Sample({{.shape = {2, 2, 2}, .values = {4, 9, 1, 3, 2, 9, -1, 5}}})
    .Sample({{.shape = {3, 3}, .values = {4, 9, 9, 1, 3, 9, 2, -1, 1}}})
    .Sample({{.shape = {2, 2}, .values = {4, 9, 1, 3}}}, {{"compute_v", false}})
    .Doc(
        "The eigenvalues, in ascending order, and the eigenvectors (as "
        "columns) of self-adjoint matrices. Reads only the lower triangle.")
    .Family("linalg");

// ---- Singular values --------------------------------------------------------

template <typename T>
class SvdKernel {
 public:
  explicit SvdKernel(const Node& n)
      : vectors_(n.AttrOr<bool>("compute_uv", true)),
        full_(n.BoolAttr("full_matrices")) {}
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Matrices m, MatricesOf(ctx, 0, "input"));
    const int64_t least = m.least();
    const int64_t of_u = full_ ? m.rows : least;
    const int64_t of_v = full_ ? m.columns : least;
    SLUICE_ASSIGN_OR_RETURN(const Shape s_shape, m.BatchOf({least}));
    Shape u_shape, v_shape;  // Scalars of zero if not requested.
    if (vectors_) {
      SLUICE_ASSIGN_OR_RETURN(u_shape, m.BatchOf({m.rows, of_u}));
      SLUICE_ASSIGN_OR_RETURN(v_shape, m.BatchOf({m.columns, of_v}));
    }
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), s_shape));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, DTypeOf<T>(), u_shape));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(2, DTypeOf<T>(), v_shape));
    const T* a = ctx.input(0).raw<T>();
    T *s = ctx.output(0).raw<T>(), *u = ctx.output(1).raw<T>(),
      *v = ctx.output(2).raw<T>();
    if (!vectors_) *u = *v = T(0);
    const double work = 12.0 * static_cast<double>(m.size()) * least;
    return ForEachMatrix(m.count, work, "", [&](int64_t i) {
      T* ui = vectors_ ? u + i * m.rows * of_u : nullptr;
      T* vi = vectors_ ? v + i * m.columns * of_v : nullptr;
      std::vector<RealOf<T>> values(static_cast<size_t>(least));
      if (!Svd(a + i * m.size(), m.rows, m.columns, full_, values.data(), ui,
               vi)) {
        // (As in TensorFlow, this is not an error.)
        constexpr auto kNan = std::numeric_limits<RealOf<T>>::quiet_NaN();
        std::fill(values.begin(), values.end(), kNan);
        if (vectors_) {
          std::fill_n(ui, m.rows * of_u, T(kNan));
          std::fill_n(vi, m.columns * of_v, T(kNan));
        }
      }
      std::copy(values.begin(), values.end(), s + i * least);
      return true;
    });
  }

 private:
  const bool vectors_, full_;
};

Status SvdShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRankAtLeast(0, 2));
  const bool vectors = c.node().AttrOr<bool>("compute_uv", true);
  if (!vectors) {
    c.set_output(1, PartialShape::Scalar());
    c.set_output(2, PartialShape::Scalar());
  }
  if (!in.rank_known()) return OkStatus();
  const int64_t m = in.dim(in.rank() - 2), n = in.dim(in.rank() - 1);
  int64_t least = m < 0 || n < 0 ? -1 : std::min(m, n);
  if (m == 0 || n == 0) least = 0;
  const PartialShape batch = BatchOf(in);
  c.set_output(0, array::JoinShapes(batch, {least}));
  if (!vectors) return OkStatus();
  const bool full = c.node().BoolAttr("full_matrices");
  c.set_output(1, array::JoinShapes(batch, {m, full ? m : least}));
  c.set_output(2, array::JoinShapes(batch, {n, full ? n : least}));
  return OkStatus();
}

// The gradient of a = u diag(s) v^H, m rows and n >= m columns (Townsend 2016).
struct SvdParts {
  Output s, u, v, ds, du, dv;
  int m, n;
  bool full;
};

Output WideSvdGradient(const SvdParts& p) {
  const Output f = InverseDifferences(grad::Square(p.s));
  const Output s = DiagonalMatrix(p.s), by_s = DiagonalMatrix(SafeInverse(p.s));
  const Output v1 = Columns(p.v, 0, p.m), dv1 = Columns(p.dv, 0, p.m);
  const Output v_dv = Product(v1, dv1, true);
  const auto twice = [](Output x) { return grad::Add(x, Adjoint(x)); };
  Output middle = grad::Add(
      DiagonalMatrix(p.ds),
      grad::Add(Product(twice(grad::Mul(f, Product(p.u, p.du, true))), s),
                Product(s, twice(grad::Mul(f, v_dv)))));
  if (IsComplex(grad::TypeOf(p.s))) {
    // Each pair of columns may be rotated in the complex plane.
    const Output d = Diagonal(v_dv);
    middle = grad::Add(
        middle,
        Product(by_s, DiagonalMatrix(grad::Mul(grad::Sub(grad::Conj(d), d),
                                               grad::Number(d, 0.5)))));
  }
  Output da = Product(p.u, Product(middle, v1, false, true));
  if (p.m == p.n) return da;
  // The part that moves v out of the span of its first columns.
  Output out = grad::Sub(Adjoint(dv1), Product(Adjoint(v_dv), v1, false, true));
  if (p.full) {
    const Output v2 = Columns(p.v, p.m), dv2 = Columns(p.dv, p.m);
    out = grad::Sub(out, Product(Product(v1, dv2, true), v2, false, true));
  }
  return grad::Add(da, Product(Product(p.u, by_s), out));
}

Status SvdGradient(GradContext& c) {
  const Output a = c.input(0);
  Output ds = c.DyOrZeros(0);
  const DType type = grad::TypeOf(ds);
  if (IsComplex(type))  // Singular values are real, whatever their type.
    ds = grad::Cast(
        Build("Real", {ds},
              {{"Tout",
                type == DType::kComplex64 ? DType::kFloat : DType::kDouble}}),
        type);
  if (!c.op->AttrOr<bool>("compute_uv", true)) {
    Node* again = BuildNode("Svd", {a}, {{"compute_uv", true}});
    if (again == nullptr) return OkStatus();
    c.grads[0] =
        Product(Output(again, 1),
                Product(DiagonalMatrix(ds), Output(again, 2), false, true));
    return OkStatus();
  }
  const PartialShape& shape = a.shape();
  const int rank = shape.rank();
  if (!shape.rank_known() || shape.dim(rank - 2) < 0 || shape.dim(rank - 1) < 0)
    return Unimplemented(
        "gradient of Svd: expected matrices of known size, got shape ",
        shape.ToString());
  SvdParts p{c.output(0),
             c.output(1),
             c.output(2),
             ds,
             c.DyOrZeros(1),
             c.DyOrZeros(2),
             0,
             0,
             c.op->BoolAttr("full_matrices")};
  p.m = static_cast<int>(shape.dim(rank - 2));
  p.n = static_cast<int>(shape.dim(rank - 1));
  if (p.full && std::abs(p.m - p.n) > 1)
    return Unimplemented(
        "gradient of Svd with full_matrices: expected sizes that differ by at "
        "most 1, got shape ",
        shape.ToString());
  const bool tall = p.m > p.n;
  if (tall) {
    std::swap(p.m, p.n);
    std::swap(p.u, p.v);
    std::swap(p.du, p.dv);
  }
  const Output da = WideSvdGradient(p);
  c.grads[0] = tall ? Adjoint(da) : da;
  return OkStatus();
}

SLUICE_OP(Svd)
    .Input("input: T")
    .Output("s: T")
    .Output("u: T")
    .Output("v: T")
    .Attr("compute_uv: bool = true")
    .Attr("full_matrices: bool = false")
    .Attr(kMatrixTypes)
    .Shape(SvdShape)
    .Kernel(CpuStateFor<SvdKernel, float, double, complex64, complex128>("T",
                                                                         true))
    .Grad(SvdGradient)
    .Sample({{.shape = {2, 2, 2}, .values = {4, 1, 2, 3, 2, -1, 1, 5}}})
    .Sample({{.shape = {2, 3}, .values = {4, 1, 2, 3, 2, -1}}})
    .Sample({{.shape = {3, 2}, .values = {4, 1, 2, 3, 2, -1}}},
            {{"full_matrices", true}})
    .Sample({{.shape = {3, 2}, .values = {4, 1, 2, 3, 2, -1}}},
            {{"compute_uv", false}})
    .Doc(
        "The singular value decomposition input = u diag(s) v^H: the singular "
        "values in descending order, and the singular vectors as columns.")
    .Family("linalg");

// ---- Exponential ------------------------------------------------------------

template <typename T>
struct ExponentialKernel {
  static Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const Matrices m,
                            SquareMatricesOf(ctx, 0, "input"));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), ctx.input(0).shape()));
    const T* a = ctx.input(0).raw<T>();
    T* out = ctx.output(0).raw<T>();
    const int64_t n = m.rows, size = n * n;
    return ForEachMatrix(
        m.count, 20.0 * static_cast<double>(size) * n, "", [&](int64_t i) {
          if (!Exponential(a + i * size, n, out + i * size))
            std::fill_n(out + i * size, size,
                        T(std::numeric_limits<RealOf<T>>::quiet_NaN()));
          return true;
        });
  }
};

// exp [[a^H, dy], [0, a^H]] has da in its upper right block (Najfeld and Havel
// 1995).
Status ExponentialGradient(GradContext& c) {
  const Output a = Adjoint(c.input(0));
  const Output both = Build(
      "MatrixExponential",
      {Concat({Concat({a, c.dy[0]}, -1), Concat({grad::ZerosLike(a), a}, -1)},
              -2)});
  const Output n = Build("StridedSlice", {grad::ShapeOf(a), IntVector({-1}),
                                          IntVector({kToEnd}), IntVector({1})});
  const Output zero = IntVector({0});
  c.grads[0] =
      Build("StridedSlice",
            {both, Concat({zero, zero, n}, 0),
             Concat({zero, n, grad::Add(n, n)}, 0), IntVector({1, 1, 1})},
            {{"ellipsis_mask", int64_t{1}}});
  return OkStatus();
}

SLUICE_OP(MatrixExponential)
    .Input("input: T")
    .Output("output: T")
    .Attr(kMatrixTypes)
    .Shape(SquareShape)
    .Kernel(CpuFor<ExponentialKernel, float, double, complex64, complex128>(
        "T", true))
    .Grad(ExponentialGradient)
    .Sample({{.shape = {2, 2, 2}}})
    .Sample({{.shape = {3, 3}, .low = -6, .high = 6}})
    .Doc("Computes matrix exponentials.")
    .Family("linalg");

}  // namespace
}  // namespace sluice::linalg
