#include "client/initializers.h"

#include <algorithm>
#include <cmath>

#include "client/initial_part.h"
#include "client/op_builder.h"
#include "graph/graph.h"

namespace sluice {
namespace {

Output ShapeConstant(const Shape& shape, const char* name, SourceLoc loc) {
  if (!shape.valid()) return BuildError(shape.status(), loc);
  Tensor t(DType::kInt32, Shape({shape.rank()}));
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.dim(i) > INT32_MAX) {  // Such a shape needs 64 bits.
      const auto dims = shape.dims();
      return Constant(Tensor::Vector<int64_t>(dims), name, loc);
    }
    t.raw_flat<int32_t>()[static_cast<size_t>(i)] =
        static_cast<int32_t>(shape.dim(i));
  }
  return Constant(std::move(t), name, loc);
}

Output Number(DType dtype, double v, const char* name, SourceLoc loc) {
  Result<Tensor> t = ScalarTensor(dtype, v);
  return t.ok() ? Constant(*std::move(t), name, loc)
                : BuildError(t.status(), loc);
}

Output Random(const char* op, Output shape, const RandomOptions& options,
              SourceLoc loc) {
  const auto [seed, seed2] = SeedsFor(options.seed);
  return Build(op, {shape},
               {{"dtype", options.dtype}, {"seed", seed}, {"seed2", seed2}}, "",
               loc);
}

// value * scale + offset.
Output Rescaled(Output value, Output scale, Output offset, SourceLoc loc) {
  return Build("AddV2", {Build("Mul", {value, scale}, {}, "", loc), offset}, {},
               "", loc);
}

Output Normal(const char* op, const char* scope_name, const Shape& shape,
              double mean, double stddev, const RandomOptions& options,
              SourceLoc loc) {
  const NameScope scope(scope_name);
  const Output dims = ShapeConstant(shape, "shape", loc);
  const Output offset = Number(options.dtype, mean, "mean", loc);
  const Output scale = Number(options.dtype, stddev, "stddev", loc);
  return Rescaled(Random(op, dims, options, loc), scale, offset, loc);
}

// The fan-in and fan-out of a layer with weights of this shape, or with weights
// of which they are a part.
std::pair<double, double> Fans(const Shape& own) {
  const InitialPart* const part = InitialPart::CurrentOf(own);
  const Shape& shape = part == nullptr ? own : part->whole();
  if (shape.rank() == 0) return {1, 1};
  if (shape.rank() == 1)
    return {static_cast<double>(shape.dim(0)),
            static_cast<double>(shape.dim(0))};
  double field = 1;
  for (int i = 0; i + 2 < shape.rank(); ++i)
    field *= static_cast<double>(shape.dim(i));
  return {field * static_cast<double>(shape.dim(shape.rank() - 2)),
          field * static_cast<double>(shape.dim(shape.rank() - 1))};
}

}  // namespace

void SetRandomSeed(int64_t seed) {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  g.seed = seed;
}

std::pair<int64_t, int64_t> SeedsFor(std::optional<int64_t> op_seed) {
  // The parts of a variable, which have one seed, are not to be alike. (The
  // first one draws the numbers of the seed itself.)
  if (const InitialPart* const part = InitialPart::Current();
      part != nullptr && op_seed.has_value()) {
    auto mixed = static_cast<uint64_t>(*op_seed);
    for (const int64_t at : part->offset())
      mixed += static_cast<uint64_t>(at) * 0x9e3779b97f4a7c15u;
    op_seed = static_cast<int64_t>(mixed);
  }
  // TensorFlow's constants and reductions, so that equal seeds give equal
  // numbers.
  constexpr int64_t kDefaultGraphSeed = 87654321;
  const auto reduced = [](int64_t v) {
    const int64_t r = v % INT32_MAX;
    return r < 0 ? r + INT32_MAX : r;
  };
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  std::pair<int64_t, int64_t> seeds = {0, 0};
  if (g.seed) {
    seeds = {*g.seed, op_seed ? *op_seed : g.seeded_ops++};
  } else if (op_seed) {
    seeds = {kDefaultGraphSeed, *op_seed};
  } else {
    return seeds;
  }
  seeds = {reduced(seeds.first), reduced(seeds.second)};
  // Two zeros would mean "no seed".
  if (seeds.first == 0 && seeds.second == 0) seeds.second = INT32_MAX;
  return seeds;
}

Output Zeros(const Shape& shape, DType dtype, SourceLoc loc) {
  const NameScope scope("zeros");
  return Build(
      "Fill",
      {ShapeConstant(shape, "shape", loc), Number(dtype, 0, "Const", loc)}, {},
      "", loc);
}

Output Ones(const Shape& shape, DType dtype, SourceLoc loc) {
  const NameScope scope("ones");
  return Build(
      "Fill",
      {ShapeConstant(shape, "shape", loc), Number(dtype, 1, "Const", loc)}, {},
      "", loc);
}

Output Filled(const Shape& shape, const Operand& value, SourceLoc loc) {
  return OpCall("Fill", "", loc)
      .In(ShapeConstant(shape, "shape", loc))
      .In(value)
      .Out();
}

Output RandomUniform(const Shape& shape, double low, double high,
                     const RandomOptions& options, SourceLoc loc) {
  const NameScope scope("random_uniform");
  const Output dims = ShapeConstant(shape, "shape", loc);
  if (low == 0 && high == 1 && !IsInteger(options.dtype))
    return Random("RandomUniform", dims, options, loc);
  const Output min = Number(options.dtype, low, "min", loc);
  const Output max = Number(options.dtype, high, "max", loc);
  if (IsInteger(options.dtype)) {
    const auto [seed, seed2] = SeedsFor(options.seed);
    return Build("RandomUniformInt", {dims, min, max},
                 {{"seed", seed}, {"seed2", seed2}}, "", loc);
  }
  const Output drawn = Random("RandomUniform", dims, options, loc);
  const Output width = Build("Sub", {max, min}, {}, "", loc);
  return Rescaled(drawn, width, min, loc);
}

Output RandomNormal(const Shape& shape, double mean, double stddev,
                    const RandomOptions& options, SourceLoc loc) {
  return Normal("RandomStandardNormal", "random_normal", shape, mean, stddev,
                options, loc);
}

Output TruncatedNormal(const Shape& shape, double mean, double stddev,
                       const RandomOptions& options, SourceLoc loc) {
  return Normal("TruncatedNormal", "truncated_normal", shape, mean, stddev,
                options, loc);
}

namespace init {

InitializerFn Zeros() {
  return [](const Shape& shape, DType dtype) {
    return sluice::Zeros(shape, dtype);
  };
}
InitializerFn Ones() {
  return [](const Shape& shape, DType dtype) {
    return sluice::Ones(shape, dtype);
  };
}
InitializerFn Constant(double value) {
  return [value](const Shape& shape, DType dtype) {
    return Filled(shape, ScalarOf(dtype, value));
  };
}
InitializerFn RandomUniform(double low, double high,
                            std::optional<int64_t> seed) {
  return [=](const Shape& shape, DType dtype) {
    return sluice::RandomUniform(shape, low, high, {dtype, seed});
  };
}
InitializerFn RandomNormal(double mean, double stddev,
                           std::optional<int64_t> seed) {
  return [=](const Shape& shape, DType dtype) {
    return sluice::RandomNormal(shape, mean, stddev, {dtype, seed});
  };
}
InitializerFn TruncatedNormal(double mean, double stddev,
                              std::optional<int64_t> seed) {
  return [=](const Shape& shape, DType dtype) {
    return sluice::TruncatedNormal(shape, mean, stddev, {dtype, seed});
  };
}
InitializerFn GlorotNormal(std::optional<int64_t> seed) {
  return VarianceScaling(1, Fan::kAverage, Distribution::kTruncatedNormal,
                         seed);
}
InitializerFn HeUniform(std::optional<int64_t> seed) {
  return VarianceScaling(2, Fan::kIn, Distribution::kUniform, seed);
}
InitializerFn HeNormal(std::optional<int64_t> seed) {
  return VarianceScaling(2, Fan::kIn, Distribution::kTruncatedNormal, seed);
}
InitializerFn LecunUniform(std::optional<int64_t> seed) {
  return VarianceScaling(1, Fan::kIn, Distribution::kUniform, seed);
}
InitializerFn LecunNormal(std::optional<int64_t> seed) {
  return VarianceScaling(1, Fan::kIn, Distribution::kTruncatedNormal, seed);
}

InitializerFn VarianceScaling(double scale, Fan fan, Distribution distribution,
                              std::optional<int64_t> seed) {
  return [=](const Shape& shape, DType dtype) {
    if (!(scale > 0) || !std::isfinite(scale))
      return BuildError(InvalidArgument(
          "VarianceScaling: expected a positive scale, got ", scale));
    const auto [in, out] = Fans(shape);
    const double size = fan == Fan::kIn    ? in
                        : fan == Fan::kOut ? out
                                           : (in + out) / 2;
    const double variance = scale / std::max(1.0, size);
    // The standard deviation of a normal that is truncated at two of its own.
    constexpr double kTruncated = .87962566103423978;
    switch (distribution) {
      case Distribution::kTruncatedNormal:
        return sluice::TruncatedNormal(
            shape, 0, std::sqrt(variance) / kTruncated, {dtype, seed});
      case Distribution::kNormal:
        return sluice::RandomNormal(shape, 0, std::sqrt(variance),
                                    {dtype, seed});
      case Distribution::kUniform:
        break;
    }
    const double limit = std::sqrt(3 * variance);
    return sluice::RandomUniform(shape, -limit, limit, {dtype, seed});
  };
}

InitializerFn Orthogonal(double gain, std::optional<int64_t> seed) {
  return [=](const Shape& shape, DType dtype) -> Output {
    if (!shape.valid() || shape.rank() < 2)
      return BuildError(InvalidArgument(
          "Orthogonal: expected a shape of rank 2 or more, got ",
          shape.ToString()));
    const int64_t columns = shape.dim(shape.rank() - 1);
    const int64_t rows = columns == 0 ? 0 : shape.num_elements() / columns;
    if (rows == 0) return sluice::Zeros(shape, dtype);
    const bool wide = rows < columns;
    const Output drawn =
        sluice::RandomNormal({std::max(rows, columns), std::min(rows, columns)},
                             0, 1, {dtype, seed});
    Node* const qr = BuildNode("Qr", {drawn}, {{"full_matrices", false}});
    const Output q(qr, 0), r(qr, 1);
    if (qr == nullptr) return OrFailure(qr);
    // A uniform distribution needs the signs of r's diagonal.
    const Output signs =
        Build("Sign", {Build("MatrixDiagPart", {r}, {}, "", {})}, {}, "", {});
    Output unit = Build("Mul", {q, signs}, {}, "", {});
    if (wide) unit = Build("Transpose", {unit, IntVector({1, 0})}, {}, "", {});
    return Build("Mul",
                 {ScalarOf(dtype, gain),
                  Build("Reshape", {unit, ShapeConstant(shape, "shape", {})},
                        {}, "", {})},
                 {}, "", {});
  };
}

InitializerFn Identity(double gain) {
  return [=](const Shape& shape, DType dtype) -> Output {
    if (!shape.valid() || shape.rank() != 2)
      return BuildError(InvalidArgument(
          "Identity: expected a shape of rank 2, got ", shape.ToString()));
    if (const InitialPart* const part = InitialPart::CurrentOf(shape);
        part != nullptr) {
      // Its rows of the whole's diagonal, which may lie beside its columns.
      const auto first =
          static_cast<int32_t>(part->offset(0) - part->offset(1));
      const Output diagonal =
          Build("Range",
                {sluice::Constant(first),
                 sluice::Constant(first + static_cast<int32_t>(shape.dim(0))),
                 sluice::Constant(1)},
                {}, "", {});
      return Build(
          "OneHot",
          {diagonal, sluice::Constant(static_cast<int32_t>(shape.dim(1))),
           ScalarOf(dtype, gain), ScalarOf(dtype, 0)},
          {}, "", {});
    }
    const int64_t size = std::min(shape.dim(0), shape.dim(1));
    return Build(
        "MatrixSetDiag",
        {sluice::Zeros(shape, dtype), Filled({size}, ScalarOf(dtype, gain))},
        {}, "", {});
  };
}

InitializerFn GlorotUniform(std::optional<int64_t> seed) {
  return [=](const Shape& shape, DType dtype) {
    const auto [in, out] = Fans(shape);
    const double limit = std::sqrt(6 / std::max(1.0, in + out));
    return sluice::RandomUniform(shape, -limit, limit, {dtype, seed});
  };
}

}  // namespace init
}  // namespace sluice
