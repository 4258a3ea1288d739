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
