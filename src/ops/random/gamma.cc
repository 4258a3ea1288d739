// Gamma and Poisson numbers. Each output owns 256 blocks of the stream, whether
// or not it uses them, so that it does not depend on the other outputs.
#include <math.h>

#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "graph/builder.h"
#include "graph/op_def.h"
#include "kernels/random/distributions.h"
#include "ops/common/grad_nodes.h"
#include "ops/random/generator.h"

namespace sluice {
namespace {

using namespace random;  // NOLINT: the vocabulary of this file.

constexpr int64_t kBlocksPerOutput = 256;
constexpr int64_t kGammaGrain = 256;

// Numbers of one distribution from a stream that several of them may share:
// takes one block at a time and returns its numbers from the last to the first.
template <typename Distribution>
class Drawn {
 public:
  explicit Drawn(Philox* gen) : gen_(gen) {}
  auto operator()() {
    if (left_ == 0) {
      numbers_ = distribution_((*gen_)());
      left_ = Distribution::kCount;
    }
    return numbers_[static_cast<size_t>(--left_)];
  }

 private:
  Philox* gen_;
  Distribution distribution_;
  std::array<typename Distribution::Element, Distribution::kCount> numbers_{};
  int left_ = 0;
};

// ---- Gamma ------------------------------------------------------------------

// Marsaglia and Tsang, "A simple method for generating gamma variables".
double DrawGamma(double alpha, Philox gen) {
  Drawn<UniformReal<double>> uniform(&gen);
  Drawn<NormalReal<double>> normal(&gen);
  if (alpha == 1) return -std::log1p(-uniform());
  if (!(alpha > 0) || std::isinf(alpha))
    return alpha >= 0 ? alpha : std::numeric_limits<double>::quiet_NaN();
  // For alpha < 1, draws for alpha + 1 and scales.
  const bool small = alpha < 1;
  const double d = alpha + (small ? 2.0 / 3 : -1.0 / 3);
  const double c = 1.0 / 3 / std::sqrt(d);
  while (true) {
    const double x = normal();
    double v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    const double u = uniform();
    // The first test avoids most of the logarithms.
    if (u < 1 - 0.0331 * (x * x) * (x * x) ||
        std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v)))
      return d * v * (small ? std::pow(uniform(), 1 / alpha) : 1);
  }
}

// ---- Poisson ----------------------------------------------------------------

// Knuth's product of uniforms: for small rates.
double DrawSmallPoisson(double rate, Drawn<UniformReal<double>>& uniform) {
  const double end = std::exp(-rate);
  double product = 1;
  for (double k = 0;; k += 1) {
    product *= uniform();
    if (product <= end) return k;
  }
}

// Hoermann, "The transformed rejection method for generating Poisson random
// variables" (PTRS): for rates of at least 10.
double DrawLargePoisson(double rate, Drawn<UniformReal<double>>& uniform) {
  const double log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * std::sqrt(rate);
  const double a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  while (true) {
    const double u = uniform() - 0.5;
    const double v = uniform();
    const double shifted = 0.5 - std::abs(u);
    const double k = std::floor((2.0 * a / shifted + b) * u + rate + 0.43);
    if (shifted >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2.0)) return k;
    if (k < 0 || (shifted < 0.013 && v > shifted)) continue;
    const double s =
        std::log(v * inverse_alpha / (a / (shifted * shifted) + b));
    int sign;  // std::lgamma would write to a global.
    if (s <= -rate + k * log_rate - ::lgamma_r(k + 1, &sign)) return k;
  }
}

double DrawPoisson(double rate, Philox gen) {
  if (std::isnan(rate) || std::isinf(rate))
    return rate > 0 ? rate : std::numeric_limits<double>::quiet_NaN();
  Drawn<UniformReal<double>> uniform(&gen);
  return rate < 10.0 ? DrawSmallPoisson(rate, uniform)
                     : DrawLargePoisson(rate, uniform);
}

// ---- Kernels ----------------------------------------------------------------

template <typename T>
T Saturated(double v) {
  if constexpr (std::is_integral_v<T>) {
    if (std::isnan(v)) return 0;
    if (v >= static_cast<double>(std::numeric_limits<T>::max()))
      return std::numeric_limits<T>::max();
    return static_cast<T>(v);
  } else {
    return static_cast<T>(v);
  }
}

// Output [shape of input 0, shape of input 1]: one column of samples per
// parameter. draw(parameter, stream) -> one number.
template <typename In, typename Out, typename Draw>
Status RunSamples(KernelContext& ctx, Draw&& draw) {
  const Tensor& parameters = ctx.input(1);
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, ShapeInput(ctx, 0));
  const int64_t samples = shape.num_elements();
  Dims dims(shape.dims().begin(), shape.dims().end());
  dims.insert(dims.end(), parameters.shape().dims().begin(),
              parameters.shape().dims().end());
  SLUICE_ASSIGN_OR_RETURN(const Shape full,
                          Shape::Make({dims.data(), dims.size()}));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<Out>(), full));
  const int64_t count = full.num_elements();
  if (count == 0) return OkStatus();
  const Philox stream =
      ctx.state<SeededKernel>().generator().ReserveOutputs(count);
  const int64_t columns = parameters.num_elements();
  const In* in = parameters.raw<In>();
  Out* out = ctx.output(0).raw<Out>();
  ParallelFor(count, kGammaGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Philox gen = stream;
      gen.Skip(static_cast<uint64_t>(i * kBlocksPerOutput));
      const int64_t column = i / samples, row = i % samples;
      out[row * columns + column] =
          Saturated<Out>(static_cast<double>(draw(in[column], gen)));
    }
  });
  return OkStatus();
}

template <typename T>
struct GammaKernel {
  static Status Run(KernelContext& ctx) {
    return RunSamples<T, T>(ctx, [](T alpha, const Philox& gen) {
      return DrawGamma(static_cast<double>(alpha), gen);
    });
  }
};

Status MakeGamma(const Node& n, Kernel* k) {
  k->state = std::make_shared<SeededKernel>(n);
  return CpuFor<GammaKernel, half, float, double>("T", true)(n, k);
}

template <typename Out>
struct PoissonTo {
  template <typename R>
  struct For {
    static Status Run(KernelContext& ctx) {
      return RunSamples<R, Out>(ctx, [](R rate, const Philox& gen) {
        return DrawPoisson(static_cast<double>(rate), gen);
      });
    }
  };
};

template <typename Out>
Status MakePoissonTo(const Node& n, Kernel* k) {
  return CpuFor<PoissonTo<Out>::template For, half, float, double, int32_t,
                int64_t>("R", true)(n, k);
}

Status MakePoisson(const Node& n, Kernel* k) {
  k->state = std::make_shared<SeededKernel>(n);
  switch (n.TypeAttr("dtype")) {
    case DType::kHalf:
      return MakePoissonTo<half>(n, k);
    case DType::kFloat:
      return MakePoissonTo<float>(n, k);
    case DType::kDouble:
      return MakePoissonTo<double>(n, k);
    case DType::kInt32:
      return MakePoissonTo<int32_t>(n, k);
    case DType::kInt64:
      return MakePoissonTo<int64_t>(n, k);
    default:
      return NoKernelFor(n, n.TypeAttr("dtype"));
  }
}

Status SamplesShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  SLUICE_ASSIGN_OR_RETURN(PartialShape s, c.InputAsShape(0));
  const PartialShape& parameters = c.input(1);
  if (!s.rank_known() || !parameters.rank_known()) return OkStatus();
  for (int64_t d : parameters.dims()) s.add_dim(d);
  c.set_output(0, std::move(s));
  return OkStatus();
}

// The derivative of each sample by its alpha is RandomGammaGrad (Figurnov,
// Mohamed and Mnih, "Implicit reparameterization gradients"); the samples of
// one alpha are along the leading dimensions, given by `shape`.
Status GammaGradient(GradContext& c) {
  const Output moves = Build("RandomGammaGrad", {c.input(1), c.output(0)});
  const Output axes = Build(
      "Range",
      {Constant(int32_t{0}), grad::SizeOf(c.input(0)), Constant(int32_t{1})});
  c.grads[1] = grad::SumOver(grad::Mul(moves, c.dy[0]), axes);
  return OkStatus();
}

SLUICE_OP(RandomGamma)
    .Input("shape: S")
    .Input("alpha: T")
    .Output("output: T")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("S: {int32, int64}")
    .Attr("T: {half, float, double}")
    .Stateful(kOwnsState)
    .Family("random")
    .Shape(SamplesShape)
    .Kernel(MakeGamma)
    .Grad(GammaGradient)
    .Sample({{.shape = {1}, .values = {4}, .dtype = DType::kInt32},
             {.shape = {3}, .low = 0.1, .high = 5}},
            {{"seed", 7}})
    .Doc("Draws from gamma distributions with rate 1, for each alpha.");

SLUICE_OP(RandomPoissonV2)
    .Input("shape: S")
    .Input("rate: R")
    .Output("output: dtype")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("S: {int32, int64}")
    .Attr("R: {half, float, double, int32, int64} = DT_DOUBLE")
    .Attr("dtype: {half, float, double, int32, int64} = DT_INT64")
    .Stateful(kOwnsState)
    .Family("random")
    .Shape(SamplesShape)
    .Kernel(MakePoisson)
    .NoGradient(kNoGradient)
    .Sample({{.shape = {1}, .values = {4}, .dtype = DType::kInt32},
             {.shape = {3}, .low = 1, .high = 30}},
            {{"seed", 7}})
    .Doc("Draws from Poisson distributions, for each rate.");

}  // namespace
}  // namespace sluice
