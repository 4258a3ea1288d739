// Initial values of variables, and the seeds of random ops.
//
//   Var b(Zeros({100}), "b");
//   Var w = GetVariable("w", {784, 100}, init::GlorotUniform());
#ifndef SLUICE_CLIENT_INITIALIZERS_H_
#define SLUICE_CLIENT_INITIALIZERS_H_

#include <functional>
#include <optional>
#include <utility>

#include "graph/builder.h"

namespace sluice {

// Builds a tensor of the given shape and type in the ambient graph.
using InitializerFn = std::function<Output(const Shape& shape, DType dtype)>;

struct RandomOptions {
  DType dtype = DType::kFloat;
  // Equal seeds give equal numbers; see SetRandomSeed.
  std::optional<int64_t> seed = {};
};

// Tensors of a known shape.
Output Zeros(const Shape& shape, DType dtype = DType::kFloat,
             SourceLoc loc = CallerLoc());
Output Ones(const Shape& shape, DType dtype = DType::kFloat,
            SourceLoc loc = CallerLoc());
// A tensor whose elements are all `value`.
Output Filled(const Shape& shape, const Operand& value,
              SourceLoc loc = CallerLoc());
// Uniform in [low, high); also for integers (then `high` is required).
Output RandomUniform(const Shape& shape, double low = 0, double high = 1,
                     const RandomOptions& options = {},
                     SourceLoc loc = CallerLoc());
// Normal with the given mean and standard deviation.
Output RandomNormal(const Shape& shape, double mean = 0, double stddev = 1,
                    const RandomOptions& options = {},
                    SourceLoc loc = CallerLoc());
// Normal; values more than two standard deviations from the mean are redrawn.
Output TruncatedNormal(const Shape& shape, double mean = 0, double stddev = 1,
                       const RandomOptions& options = {},
                       SourceLoc loc = CallerLoc());

// The same as functions of a shape, for GetVariable.
namespace init {
InitializerFn Zeros();
InitializerFn Ones();
InitializerFn Constant(double value);
InitializerFn RandomUniform(double low = -0.05, double high = 0.05,
                            std::optional<int64_t> seed = {});
InitializerFn RandomNormal(double mean = 0, double stddev = 0.05,
                           std::optional<int64_t> seed = {});
InitializerFn TruncatedNormal(double mean = 0, double stddev = 0.05,
                              std::optional<int64_t> seed = {});
// Uniform in +-sqrt(6 / (fan_in + fan_out)), after Glorot and Bengio (2010).
// Filters [h, w, in, out] have fans h * w * in and h * w * out.
InitializerFn GlorotUniform(std::optional<int64_t> seed = {});
// A truncated normal with the same variance.
InitializerFn GlorotNormal(std::optional<int64_t> seed = {});
// Variance 2 / fan_in, for layers with a ReLU (He et al., 2015).
InitializerFn HeUniform(std::optional<int64_t> seed = {});
InitializerFn HeNormal(std::optional<int64_t> seed = {});
// Variance 1 / fan_in (LeCun et al., 1998).
InitializerFn LecunUniform(std::optional<int64_t> seed = {});
InitializerFn LecunNormal(std::optional<int64_t> seed = {});

enum class Fan : uint8_t { kIn, kOut, kAverage };
enum class Distribution : uint8_t {
  kTruncatedNormal,  // With the variance that is asked for after truncation.
  kNormal,
  kUniform,
};
// Mean 0 and variance scale / fan, of which the above are cases. The numbers of
// a seed are TensorFlow's. InvalidArgument unless scale is positive.
InitializerFn VarianceScaling(
    double scale = 1, Fan fan = Fan::kIn,
    Distribution distribution = Distribution::kTruncatedNormal,
    std::optional<int64_t> seed = {});
// A matrix with orthonormal rows or columns, whichever are fewer, times gain;
// dimensions before the last count as one (Saxe, McClelland and Ganguli, 2014).
// InvalidArgument for shapes of rank below 2.
InitializerFn Orthogonal(double gain = 1, std::optional<int64_t> seed = {});
// gain on the diagonal of a matrix. InvalidArgument for other ranks.
InitializerFn Identity(double gain = 1);
}  // namespace init

// Sets the seed of the ambient graph. A random op without a seed of its own
// derives one from it and from the number of such ops before it. Without either
// seed, every session draws different values.
void SetRandomSeed(int64_t seed);
// The attributes seed and seed2 of a random op, given its optional op-level
// seed.
std::pair<int64_t, int64_t> SeedsFor(std::optional<int64_t> op_seed);

}  // namespace sluice

#endif  // SLUICE_CLIENT_INITIALIZERS_H_
