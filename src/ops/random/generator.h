// Shared by the random ops: shapes given as tensors, and generators that live
// as long as their node.
#ifndef SLUICE_OPS_RANDOM_GENERATOR_H_
#define SLUICE_OPS_RANDOM_GENERATOR_H_

#include "exec/core/kernel.h"
#include "graph/shape_context.h"
#include "kernels/random/philox.h"

namespace sluice::random {

inline constexpr const char* kNoGradient =
    "a sample does not depend on its inputs smoothly";

// Base of the state of a stateful random op: the stream of one node, from its
// seeds. Shared by all steps; thread-safe.
class SeededKernel {
 public:
  explicit SeededKernel(const Node& n)
      : generator_(n.IntAttr("seed"), n.IntAttr("seed2")) {}
  GuardedPhilox& generator() { return generator_; }

 private:
  GuardedPhilox generator_;
};

// Input i, a vector of int32 or int64, as a shape.
Result<Shape> ShapeInput(const KernelContext& ctx, int i);

// The two seeds in input i.
Result<Philox> SeedInput(const KernelContext& ctx, int i);

// The generator from inputs key [1] and counter [>= 2] at i and i + 1 and the
// algorithm at i + 2.
Result<Philox> KeyCounterInput(const KernelContext& ctx, int i);

// InvalidArgument unless inputs [begin, end) are scalars.
Status ScalarInputs(const KernelContext& ctx, int begin, int end);

// Output 0 has the shape given by input 0.
Status ShapeFromInput0(ShapeContext& c);

}  // namespace sluice::random

#endif  // SLUICE_OPS_RANDOM_GENERATOR_H_
