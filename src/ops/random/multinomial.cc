// Drawing classes by their unnormalised log-probabilities.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "graph/op_def.h"
#include "kernels/random/distributions.h"
#include "ops/random/generator.h"

namespace sluice {
namespace {

using namespace random;  // NOLINT: the vocabulary of this file.

// Terms of sums for which another thread starts.
constexpr int64_t kTermsPerThread = 1024;

// One row of samples: the first class whose cumulative probability exceeds a
// uniform number in [0, total).
template <typename T, typename Out>
void SampleRow(const T* logits, int64_t classes, SingleSamples& next,
               std::vector<double>* cdf, Out* out, int64_t samples) {
  double largest = std::numeric_limits<double>::lowest();
  for (int64_t j = 0; j < classes; ++j) {
    const auto x = static_cast<double>(logits[j]);
    if (std::isfinite(x)) largest = std::max(largest, x);
  }
  double total = 0;
  for (int64_t j = 0; j < classes; ++j) {
    const auto x = static_cast<double>(logits[j]);
    if (std::isfinite(x)) total += std::exp(x - largest);
    (*cdf)[static_cast<size_t>(j)] = total;
  }
  for (int64_t k = 0; k < samples; ++k) {
    const uint32_t hi = next(), lo = next();
    const double at = UniformDouble(hi, lo) * total;
    out[k] = static_cast<Out>(std::upper_bound(cdf->begin(), cdf->end(), at) -
                              cdf->begin());
  }
}

// `reserve(n)` returns a stream that is sufficient for n outputs.
template <typename T, typename Out, typename Reserve>
Status DrawClasses(KernelContext& ctx, Reserve&& reserve) {
  const Tensor& logits = ctx.input(0);
  if (logits.rank() != 2)
    return InvalidArgument("logits: expected a matrix, got shape ",
                           logits.shape().ToString());
  SLUICE_RETURN_IF_ERROR(ScalarInputs(ctx, 1, 2));
  const int64_t samples = ctx.input(1).raw_scalar<int32_t>();
  if (samples < 0)
    return InvalidArgument("num_samples: expected at least 0, got ", samples);
  const int64_t batch = logits.dim(0), classes = logits.dim(1);
  if (classes <= 0)
    return InvalidArgument("num_classes should be positive, got ", classes);
  SLUICE_RETURN_IF_ERROR(
      ctx.Allocate(0, DTypeOf<Out>(), Shape({batch, samples})));
  if (batch == 0 || samples == 0) return OkStatus();
  // A double takes two words; rows are counted in whole blocks.
  const int64_t rounded = (samples + 3) / 4 * 4 * 2;
  SLUICE_ASSIGN_OR_RETURN(Philox gen, reserve(batch * rounded));
  Out* const out = ctx.output(0).raw<Out>();
  ParallelFor(batch, std::max<int64_t>(1, kTermsPerThread / classes),
              [&](int64_t begin, int64_t end) {
                Philox from = gen;
                SingleSamples next(&from);
                next.Skip(static_cast<uint64_t>(begin * samples * 2));
                std::vector<double> cdf(static_cast<size_t>(classes));
                for (int64_t b = begin; b < end; ++b)
                  SampleRow(logits.raw<T>() + b * classes, classes, next, &cdf,
                            out + b * samples, samples);
              });
  return OkStatus();
}

template <typename Out>
struct Stateful {
  template <typename T>
  struct For {
    static Status Run(KernelContext& ctx) {
      return DrawClasses<T, Out>(ctx, [&ctx](int64_t n) -> Result<Philox> {
        return ctx.state<SeededKernel>().generator().ReserveOutputs(n);
      });
    }
  };
};
template <typename Out>
struct Stateless {
  template <typename T>
  struct For {
    static Status Run(KernelContext& ctx) {
      return DrawClasses<T, Out>(ctx,
                                 [&ctx](int64_t) { return SeedInput(ctx, 2); });
    }
  };
};

template <template <typename> class K>
Status MakeFor(const Node& n, Kernel* k) {
  return CpuFor<K, float, double, half, bfloat16, int8_t, int16_t, int32_t,
                int64_t, uint8_t, uint16_t, uint32_t, uint64_t>("T", true)(n,
                                                                           k);
}

Status MakeMultinomial(const Node& n, Kernel* k) {
  k->state = std::make_shared<SeededKernel>(n);
  return n.TypeAttr("output_dtype") == DType::kInt32
             ? MakeFor<Stateful<int32_t>::For>(n, k)
             : MakeFor<Stateful<int64_t>::For>(n, k);
}
Status MakeStatelessMultinomial(const Node& n, Kernel* k) {
  return n.TypeAttr("output_dtype") == DType::kInt32
             ? MakeFor<Stateless<int32_t>::For>(n, k)
             : MakeFor<Stateless<int64_t>::For>(n, k);
}

Status MultinomialShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape logits, c.WithRank(0, 2));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  const int64_t samples = c.ConstantInt(1).value_or(-1);
  c.set_output(0, PartialShape({logits.dim(0), samples < 0 ? -1 : samples}));
  return OkStatus();
}

SLUICE_OP(Multinomial)
    .Input("logits: T")
    .Input("num_samples: int32")
    .Output("output: output_dtype")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("T: realnumbertype")
    .Attr("output_dtype: {int32, int64} = DT_INT64")
    .HostInput("num_samples")
    .Stateful(kOwnsState)
    .Family("random")
    .Shape(MultinomialShape)
    .Kernel(MakeMultinomial)
    .NoGradient(kNoGradient)
    .Sample({{.shape = {2, 3}}, {.values = {4}}}, {{"seed", 7}})
    .Doc("Draws classes for each row from unnormalised log-probabilities.");

SLUICE_OP(StatelessMultinomial)
    .Input("logits: T")
    .Input("num_samples: int32")
    .Input("seed: Tseed")
    .Output("output: output_dtype")
    .Attr("T: realnumbertype")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Attr("output_dtype: {int32, int64} = DT_INT64")
    .Family("random")
    .Shape(MultinomialShape)
    .Kernel(MakeStatelessMultinomial)
    .NoGradient(kNoGradient)
    .Sample({{.shape = {2, 3}},
             {.values = {4}},
             {.shape = {2}, .values = {1, 2}, .dtype = DType::kInt64}})
    .Doc(
        "Draws classes for each row from unnormalised log-probabilities, "
        "determined by the seed.");

}  // namespace
}  // namespace sluice
