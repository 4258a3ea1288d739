// Ops on matrices and Fourier transforms: TensorFlow's recorded results, and
// gradients that the conformance tests cannot check (they use real numbers).
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "client/autodiff/gradients.h"
#include "ops/array/test_util.h"
#include "session/session.h"

namespace sluice {
namespace {

constexpr uint32_t kLinalgOpsSeed = 20210609;

// ---- Shapes
// -------------------------------------------------------------------

Output FedMatrix(const PartialShape& shape, DType dtype = DType::kFloat) {
  return Build("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
}

TEST(MatrixDiagShape, FollowsFromTheKnownSize) {
  Graph g;
  WithGraph use(g);
  const Output fed = FedMatrix(PartialShape(Dims{}), DType::kInt32);
  const auto diag = [&](int32_t k, const Output& rows, const Output& columns) {
    return Build("MatrixDiagV3", {FedMatrix({-1, 3}), Constant(k), rows,
                                  columns, Constant(0.0f)})
        .shape()
        .ToString();
  };
  // (The diagonal above the main one has 3 elements: from 3 rows, or 4
  // columns.)
  EXPECT_EQ(diag(1, fed, Constant(int32_t{9})), "[?,3,9]");
  EXPECT_EQ(diag(1, Constant(int32_t{7}), fed), "[?,7,4]");
  EXPECT_EQ(diag(-1, Constant(int32_t{7}), fed), "[?,7,3]");
  // The minimum size does not determine the other one.
  EXPECT_EQ(diag(1, fed, Constant(int32_t{4})), "[?,?,4]");
  EXPECT_EQ(diag(1, Constant(int32_t{3}), fed), "[?,3,?]");
  EXPECT_EQ(diag(1, Constant(int32_t{-1}), fed), "[?,?,?]");
  EXPECT_EQ(diag(1, fed, fed), "[?,?,?]");
  ASSERT_TRUE(g.status().ok()) << g.status();
  diag(1, fed, Constant(int32_t{2}));
  EXPECT_EQ(g.status().code(), StatusCode::kInvalidArgument);
}

TEST(MatrixSetDiagShape, TakesBatchesFromTheDiagonal) {
  Graph g;
  WithGraph use(g);
  const auto set = [&](const PartialShape& in, const PartialShape& diagonal,
                       const Output& k) {
    return Build("MatrixSetDiagV3", {FedMatrix(in), FedMatrix(diagonal), k})
        .shape()
        .ToString();
  };
  const Output main = Constant(int32_t{0}), three = IntVector({-1, 1});
  EXPECT_EQ(set({-1, 2, -1}, {4, -1}, main), "[4,2,?]");
  EXPECT_EQ(set(PartialShape(), {4, 3, 3}, three), "[4,?,?]");
  EXPECT_EQ(set(PartialShape(), {4, 3, 3}, main), "[4,3,?,?]");
  EXPECT_EQ(set({-1, 3, 3}, PartialShape(), main), "[?,3,3]");
  EXPECT_EQ(Build("MatrixSetDiag", {FedMatrix({-1, 3, 3}), FedMatrix({4, 3})})
                .shape()
                .ToString(),
            "[4,3,3]");
  ASSERT_TRUE(g.status().ok()) << g.status();
  set({2, 3, 3}, {4, 3}, main);
  EXPECT_EQ(g.status().code(), StatusCode::kInvalidArgument);
}

// ---- Recorded ---------------------------------------------------------------

std::vector<complex128> WidenTensor(const Tensor& t) {
  std::vector<complex128> out;
  array::ByNumber(t.dtype(), [&]<typename T>(array::Tag<T>) {
    for (const T& v : t.flat<T>()) {
      if constexpr (std::is_same_v<T, complex64> ||
                    std::is_same_v<T, complex128>)
        out.push_back(complex128(v));
      else
        out.push_back(complex128(static_cast<double>(v)));
    }
  });
  return out;
}

// Compares one part: NaN, a signed infinity, or a number within the tolerance.
bool NearPart(double want, double got, double tolerance) {
  if (std::isnan(want) || std::isnan(got))
    return std::isnan(want) && std::isnan(got);
  return want == got || std::abs(want - got) <= tolerance;
}

// Equal within a fraction of the largest element.
bool NearTensor(const Tensor& want, const Tensor& got) {
  if (want.dtype() != got.dtype() || !(want.shape() == got.shape()))
    return false;
  const bool wide =
      want.dtype() == DType::kDouble || want.dtype() == DType::kComplex128;
  const std::vector<complex128> w = WidenTensor(want), g = WidenTensor(got);
  double largest = 0;
  for (const complex128& v : w)
    if (std::isfinite(std::abs(v))) largest = std::max(largest, std::abs(v));
  const double tolerance = (wide                           ? 2e-12
                            : want.dtype() == DType::kHalf ? 2e-2
                                                           : 1e-4) *
                           largest;
  for (size_t i = 0; i < w.size(); ++i)
    if (!NearPart(w[i].real(), g[i].real(), tolerance) ||
        !NearPart(w[i].imag(), g[i].imag(), tolerance))
      return false;
  return true;
}

// u and v of Svd, with all dimensions of one matrix, up to the freedom of
// choice: a phase of each pair of columns, the same in both (for complex ones,
// and for sizes that TensorFlow solves by another method), and the columns
// beyond the singular values.
bool NearVectors(const std::vector<Tensor>& want,
                 const std::vector<Tensor>& got) {
  const int64_t least = want[0].num_elements();
  std::vector<complex128> phase(static_cast<size_t>(least));
  for (size_t o : {1, 2}) {
    if (!(want[o].shape() == got[o].shape()) || want[o].rank() != 2)
      return false;
    const auto w = WidenTensor(want[o]), g = WidenTensor(got[o]);
    const int64_t columns = want[o].dim(1);
    for (int64_t j = 0; j < least; ++j) {
      complex128 product(0);
      for (int64_t i = 0; i < want[o].dim(0); ++i) {
        const auto at = static_cast<size_t>(i * columns + j);
        product += std::conj(w[at]) * g[at];
      }
      if (std::abs(std::abs(product) - 1) > 1e-5) return false;
      complex128& first = phase[static_cast<size_t>(j)];
      if (o == 1) first = product;
      if (std::abs(first - product) > 1e-5) return false;
    }
  }
  return true;
}

TEST(LinalgOps, MatchTensorFlow) {
  const std::string path = "tests/cases/linalg_ops.txt";
  const std::vector<RecordedCase> cases = ReadCases(path);
  ASSERT_GT(cases.size(), 1190u);
  for (const RecordedCase& c : cases) {
    const std::string where = absl::StrCat(path, ":", c.line, ": ", c.op);
    const Result<std::vector<Tensor>> got =
        RunRecorded(c.op, c.inputs, c.attrs);
    if (c.error) {
      EXPECT_EQ(got.status().code(), StatusCode::kInvalidArgument)
          << where << ": TensorFlow refuses this: " << got.status();
      continue;
    }
    if (!got.ok()) {
      ADD_FAILURE() << where << ": " << got.status();
      continue;
    }
    ASSERT_EQ(got->size(), c.outputs.size()) << where;
    const bool free = c.op == "Svd" && c.outputs[0].rank() == 1 &&
                      (IsComplex(c.outputs[0].dtype()) ||
                       c.outputs[0].num_elements() >= 16) &&
                      NearVectors(c.outputs, *got);
    for (size_t i = 0; i < (free ? 1 : got->size()); ++i)
      // (An output that was not requested is a scalar, without a value in
      // TensorFlow.)
      EXPECT_TRUE(NearTensor(c.outputs[i], (*got)[i]) ||
                  (i > 0 && (*got)[i].rank() == 0 && c.outputs[i].rank() == 0))
          << where << ": output " << i << ": expected "
          << c.outputs[i].ToString(40) << ", got " << (*got)[i].ToString(40);
  }
}

TEST(LinalgOps, RejectMatricesThatAreNotPositiveDefinite) {
  const auto root = RunRecorded(
      "Cholesky",
      {Tensor::Of<double>(Shape({2, 2, 2}), {4, 0, 2, 2, 1, 2, 2, 4})});
  ASSERT_TRUE(root.ok()) << root.status();
  const std::vector<double> v = (*root)[0].ToVector<double>();
  EXPECT_EQ(v[0], 2);
  EXPECT_EQ(v[2], 1);
  EXPECT_EQ(v[3], 1);
  for (size_t i : {4, 6, 7}) EXPECT_TRUE(std::isnan(v[i])) << i;
  EXPECT_EQ(v[5], 0);
}

// ---- Gradients --------------------------------------------------------------

// The numbers of a double or complex128 tensor, one after the other.
std::span<double> Parts(Tensor* t) {
  const int64_t n = t->num_elements() * (IsComplex(t->dtype()) ? 2 : 1);
  return {static_cast<double*>(t->raw()), static_cast<size_t>(n)};
}

Tensor DrawTensor(DType type, const Shape& shape, std::mt19937* rng) {
  Tensor t(type, shape);
  std::uniform_real_distribution<double> draw(-1, 1);
  for (double& v : Parts(&t)) v = draw(*rng);
  return t;
}

// A gradient check for an op whose input 0 varies (and input 1 unless it is an
// integer).
struct GradientCase {
  std::string op;
  std::vector<Tensor> inputs;
  AttrMap attrs = {};
  bool self_adjoint = false;  // Input 0 varies with its mirror image.
  bool known_shapes = true;
  int output = -1;  // The only output in the loss; -1: all.
};

// L = Re(sum conj(w) y), so that dL = Re(sum conj(gradient) dx): each real and
// imaginary part of x against central differences.
void CheckLinalgGradient(const GradientCase& c) {
  SCOPED_TRACE(c.op);
  std::mt19937 rng(kLinalgOpsSeed);
  Graph g;
  WithGraph use(g);
  std::vector<Output> inputs;
  std::vector<GradTarget> xs;
  Feeds feeds;
  for (const Tensor& t : c.inputs) {
    const bool data = !IsInteger(t.dtype());
    AttrMap attrs = {{"dtype", t.dtype()}};
    if (c.known_shapes) attrs["shape"] = PartialShape(t.shape());
    inputs.push_back(data ? Build("Placeholder", {}, attrs) : Constant(t));
    if (!data) continue;
    feeds.emplace_back(inputs.back(), t);
    xs.emplace_back(inputs.back());
  }
  Node* n = BuildNode(c.op, inputs, c.attrs);
  ASSERT_NE(n, nullptr) << g.status();
  const Result<std::vector<Tensor>> out = RunKernel(*n, c.inputs);
  ASSERT_TRUE(out.ok()) << out.status();
  std::vector<Output> ys;
  std::vector<Tensor> weights(out->size());
  GradientOptions options;
  for (size_t i = 0; i < out->size(); ++i) {
    if (c.output >= 0 && static_cast<int>(i) != c.output) continue;
    weights[i] = DrawTensor((*out)[i].dtype(), (*out)[i].shape(), &rng);
    ys.emplace_back(n, static_cast<int>(i));
    options.grad_ys.push_back(Constant(weights[i]));
  }
  const Result<std::vector<Gradient>> grads = Gradients(ys, xs, options);
  ASSERT_TRUE(grads.ok()) << grads.status();
  Session session(g);
  const auto loss = [&](const std::vector<Tensor>& at) {
    Result<std::vector<Tensor>> y = RunKernel(*n, at);
    EXPECT_TRUE(y.ok()) << y.status();
    double sum = 0;
    for (size_t i = 0; y.ok() && i < y->size(); ++i) {
      if (!weights[i].valid()) continue;
      const auto got = Parts(&(*y)[i]), w = Parts(&weights[i]);
      for (size_t k = 0; k < w.size(); ++k) sum += got[k] * w[k];
    }
    return sum;
  };
  for (size_t x = 0; x < xs.size(); ++x) {
    ASSERT_TRUE((*grads)[x].dense.valid()) << g.status();
    Result<Tensor> got = session.Run(feeds, (*grads)[x].dense);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->shape(), c.inputs[x].shape());
    const bool mirrored = x == 0 && c.self_adjoint;
    const int64_t size =
        c.inputs[x].rank() > 0 ? c.inputs[x].dim(c.inputs[x].rank() - 1) : 1;
    const size_t parts = IsComplex(c.inputs[x].dtype()) ? 2 : 1;
    const size_t count = Parts(&*got).size();
    for (size_t k = 0; k < count; ++k) {
      // The part's mirror image, with its sign; itself on the diagonal.
      size_t mirror = k;
      double sign = 1;
      if (mirrored) {
        const size_t s = static_cast<size_t>(size), e = k / parts % (s * s);
        const size_t row = e / s, column = e % s;
        if (row == column && k % parts == 1) continue;  // Real.
        mirror = k + (column * s + row - e) * parts;
        if (k % parts == 1) sign = -1;
      }
      double side[2];
      const double h = 1e-5;
      for (int d = 0; d < 2; ++d) {
        std::vector<Tensor> moved = c.inputs;
        moved[x] = *moved[x].Clone();
        const double by = d == 0 ? h : -h;
        Parts(&moved[x])[k] += by;
        if (mirror != k) Parts(&moved[x])[mirror] += sign * by;
        side[d] = loss(moved);
      }
      const double want = (side[0] - side[1]) / (2 * h);
      double sum = Parts(&*got)[k];
      if (mirror != k) sum += sign * Parts(&*got)[mirror];
      EXPECT_NEAR(sum, want, 2e-6 * std::max(1.0, std::abs(want)))
          << "input " << x << ", part " << k;
    }
  }
}

// Draws well-conditioned square matrices.
Tensor DrawRegular(DType type, const Shape& shape, std::mt19937* rng) {
  Tensor t = DrawTensor(type, shape, rng);
  const int64_t n = shape.dim(shape.rank() - 1);
  const size_t parts = IsComplex(type) ? 2 : 1;
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (i / n % n == i % n)
      Parts(&t)[static_cast<size_t>(i) * parts] +=
          3 + static_cast<double>(i % n);
  return t;
}

Tensor DrawSelfAdjoint(DType type, const Shape& shape, std::mt19937* rng) {
  Tensor t = DrawRegular(type, shape, rng);
  const int64_t n = shape.dim(shape.rank() - 1);
  const size_t parts = IsComplex(type) ? 2 : 1;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const int64_t row = i / n % n, column = i % n;
    const auto p = Parts(&t);
    const size_t from =
        static_cast<size_t>(i + (column - row) * (n - 1)) * parts;
    const size_t at = static_cast<size_t>(i) * parts;
    if (row == column && parts == 2) p[at + 1] = 0;
    if (row >= column) continue;
    p[at] = p[from];
    if (parts == 2) p[at + 1] = -p[from + 1];
  }
  return t;
}

TEST(LinalgGradients, CholeskyGradientIsSelfAdjoint) {
  std::mt19937 rng(kLinalgOpsSeed);
  for (DType t : {DType::kDouble, DType::kComplex128})
    for (bool known : {true, false})
      CheckLinalgGradient(
          {.op = "Cholesky",
           .inputs = {DrawSelfAdjoint(t, Shape({2, 3, 3}), &rng)},
           .self_adjoint = true,
           .known_shapes = known});
}

TEST(LinalgGradients, ComplexGradientsMatchDifferences) {
  std::mt19937 rng(kLinalgOpsSeed);
  const DType t = DType::kComplex128;
  const auto square = [&] { return DrawRegular(t, Shape({2, 3, 3}), &rng); };
  const auto right = [&] { return DrawTensor(t, Shape({2, 3, 2}), &rng); };
  for (bool known : {true, false}) {
    for (const char* op : {"MatrixDeterminant", "LogMatrixDeterminant",
                           "MatrixExponential", "MatrixInverse"})
      CheckLinalgGradient(
          {.op = op, .inputs = {square()}, .known_shapes = known});
    for (bool adjoint : {false, true}) {
      CheckLinalgGradient({.op = "MatrixInverse",
                           .inputs = {square()},
                           .attrs = {{"adjoint", adjoint}},
                           .known_shapes = known});
      CheckLinalgGradient({.op = "MatrixSolve",
                           .inputs = {square(), right()},
                           .attrs = {{"adjoint", adjoint}},
                           .known_shapes = known});
      for (bool lower : {false, true})
        CheckLinalgGradient(
            {.op = "MatrixTriangularSolve",
             .inputs = {square(), DrawTensor(t, Shape({3, 2}), &rng)},
             .attrs = {{"adjoint", adjoint}, {"lower", lower}},
             .known_shapes = known});
    }
    Tensor d = DrawTensor(t, Shape({2, 3, 4}), &rng);
    for (size_t i = 0; i < 4; ++i)
      for (size_t b : {0, 1}) Parts(&d)[b * 24 + 8 + 2 * i] += 4;
    CheckLinalgGradient({.op = "TridiagonalSolve",
                         .inputs = {d, DrawTensor(t, Shape({2, 4, 2}), &rng)},
                         .known_shapes = known});
    CheckLinalgGradient({.op = "SelfAdjointEigV2",
                         .inputs = {DrawSelfAdjoint(t, Shape({2, 3, 3}), &rng)},
                         .attrs = {{"compute_v", false}},
                         .self_adjoint = true,
                         .known_shapes = known,
                         .output = 0});
  }
  CheckLinalgGradient({.op = "Qr", .inputs = {square()}});
  CheckLinalgGradient(
      {.op = "Qr", .inputs = {DrawTensor(t, Shape({4, 2}), &rng)}});
  CheckLinalgGradient(
      {.op = "Qr", .inputs = {DrawTensor(t, Shape({2, 4}), &rng)}});
  // (Singular vectors may be rotated in the complex plane, singular values
  // not.)
  CheckLinalgGradient({.op = "Svd",
                       .inputs = {DrawTensor(t, Shape({2, 3, 4}), &rng)},
                       .output = 0});
}

TEST(LinalgGradients, LeastSquaresGradientsMatchDifferences) {
  std::mt19937 rng(kLinalgOpsSeed);
  for (DType t : {DType::kDouble, DType::kComplex128})
    for (const Shape& s : {Shape({2, 4, 2}), Shape({2, 2, 4})})
      for (double l2 : {-1.0, 0.0, 0.7}) {
        const bool known = l2 >= 0;  // Else: sizes are not.
        l2 = std::max(l2, 0.0);
        Graph g;
        WithGraph use(g);
        const Tensor a = DrawTensor(t, s, &rng);
        const Tensor b = DrawTensor(t, Shape({2, s.dim(1), 3}), &rng);
        const Tensor w = DrawTensor(t, Shape({2, s.dim(2), 3}), &rng);
        const auto input = [&](const Tensor& x) {
          AttrMap attrs = {{"dtype", x.dtype()}};
          if (known) attrs["shape"] = PartialShape(x.shape());
          return Build("Placeholder", {}, attrs);
        };
        const Output pa = input(a), pb = input(b);
        const Output l2_in = Constant(Tensor::Scalar<double>(l2));
        const Output x = Build("MatrixSolveLs", {pa, pb, l2_in});
        GradientOptions options;
        options.grad_ys = {Constant(w)};
        const auto grads =
            Gradients({x}, {GradTarget(pa), GradTarget(pb)}, options);
        ASSERT_TRUE(grads.ok()) << grads.status();
        Session session(g);
        for (size_t i = 0; i < 2; ++i) {
          Result<Tensor> got =
              session.Run({{pa, a}, {pb, b}}, (*grads)[i].dense);
          ASSERT_TRUE(got.ok()) << got.status();
          for (size_t k = 0; k < Parts(&*got).size(); ++k) {
            double side[2];
            for (int d = 0; d < 2; ++d) {
              std::vector<Tensor> at = {a, b};
              at[i] = *at[i].Clone();
              Parts(&at[i])[k] += d == 0 ? 1e-5 : -1e-5;
              Result<Tensor> y = session.Run({{pa, at[0]}, {pb, at[1]}}, x);
              ASSERT_TRUE(y.ok()) << y.status();
              Tensor weights = w;
              side[d] = 0;
              for (size_t p = 0; p < Parts(&weights).size(); ++p)
                side[d] += Parts(&*y)[p] * Parts(&weights)[p];
            }
            const double want = (side[0] - side[1]) / 2e-5;
            EXPECT_NEAR(Parts(&*got)[k], want,
                        1e-5 * std::max(1.0, std::abs(want)))
                << "input " << i << ", part " << k << ", l2 " << l2;
          }
        }
      }
}

TEST(LinalgGradients, FourierGradientsMatchDifferences) {
  std::mt19937 rng(kLinalgOpsSeed);
  const DType z = DType::kComplex128, r = DType::kDouble;
  const AttrMap wide = {{"Treal", r}, {"Tcomplex", z}};
  const auto lengths = [](std::initializer_list<int32_t> v) {
    return Tensor::Vector<int32_t>(v);
  };
  for (bool known : {true, false}) {
    for (const char* op : {"FFT", "IFFT", "FFT2D", "IFFT2D", "FFT3D", "IFFT3D"})
      CheckLinalgGradient({.op = op,
                           .inputs = {DrawTensor(z, Shape({2, 3, 4}), &rng)},
                           .known_shapes = known});
    // Lines that are read fully and partially, of even and odd length.
    for (int32_t n : {1, 2, 5, 6}) {
      CheckLinalgGradient(
          {.op = "RFFT",
           .inputs = {DrawTensor(r, Shape({2, 6}), &rng), lengths({n})},
           .attrs = wide,
           .known_shapes = known});
      CheckLinalgGradient(
          {.op = "IRFFT",
           .inputs = {DrawTensor(z, Shape({2, 4}), &rng), lengths({n})},
           .attrs = wide,
           .known_shapes = known});
      CheckLinalgGradient(
          {.op = "RFFT2D",
           .inputs = {DrawTensor(r, Shape({2, 4, 6}), &rng), lengths({3, n})},
           .attrs = wide,
           .known_shapes = known});
      CheckLinalgGradient(
          {.op = "IRFFT2D",
           .inputs = {DrawTensor(z, Shape({2, 4, 4}), &rng), lengths({4, n})},
           .attrs = wide,
           .known_shapes = known});
    }
    CheckLinalgGradient(
        {.op = "RFFT3D",
         .inputs = {DrawTensor(r, Shape({2, 3, 4}), &rng), lengths({2, 3, 4})},
         .attrs = wide,
         .known_shapes = known});
    CheckLinalgGradient(
        {.op = "IRFFT3D",
         .inputs = {DrawTensor(z, Shape({2, 3, 4}), &rng), lengths({2, 2, 6})},
         .attrs = wide,
         .known_shapes = known});
  }
}

}  // namespace
}  // namespace sluice
