// Training with batches larger than memory: the gradients of several
// micro-batches are averaged before an optimizer applies them.
//
//   AdamOptimizer adam(1e-3);
//   GradientAccumulator accumulator(adam, 4);
//   Node* step = accumulator.Minimize(loss);  // Each fourth run updates.
//
// The loss of each micro-batch should be a mean over its examples: then
// `every` micro-batches have the gradients of one large batch.
#ifndef SLUICE_CLIENT_NN_GRADIENT_ACCUMULATION_H_
#define SLUICE_CLIENT_NN_GRADIENT_ACCUMULATION_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "client/nn/optimizer.h"

namespace sluice {

// Accumulates over steps. The sums are variables, so that they are part of
// checkpoints: "<variable>/GradientAccumulator", of the variable's shape also
// if its gradient is sparse (rows are added in place; the optimizer then gets a
// dense gradient), and the number of micro-batches in them,
// "GradientAccumulator/count". The optimizer must outlive the accumulator.
// Runs of a step must not overlap.
class GradientAccumulator {
 public:
  // InvalidArgument is recorded in the graph if `every` is not positive.
  GradientAccumulator(Optimizer& optimizer, int64_t every)
      : optimizer_(optimizer), every_(every) {}

  // A node that adds the gradients of one micro-batch and, in each `every`th
  // run, applies their mean and starts anew. `options.global_step` counts the
  // updates. Null on error.
  Node* Minimize(Output loss, const MinimizeOptions& options = {},
                 SourceLoc loc = CallerLoc());
  // The second half of it; the first is Optimizer::ComputeGradients.
  Node* ApplyGradients(const std::vector<GradAndVar>& grads,
                       const MinimizeOptions& options = {},
                       SourceLoc loc = CallerLoc());
  // The sum for a variable, and the counter; null before they exist.
  Var Sum(const Var& variable) const;
  Var count() const { return count_; }

 private:
  Optimizer& optimizer_;
  const int64_t every_;
  std::map<std::string, Var> sums_;
  Var count_;
};

struct AccumulatedStep {
  Node* train = nullptr;
  Output loss;  // The mean.
};

// Accumulates within a step: a loop builds and differentiates
// `loss(i)`, a scalar, for i = 0, ..., micro_batches - 1 (an int32 scalar), one
// after the other, and the optimizer applies the mean of the gradients, which
// is zero if there are no micro-batches. Null on error.
AccumulatedStep MinimizeInMicroBatches(
    Optimizer& optimizer, const Operand& micro_batches,
    const std::function<Output(Output i)>& loss,
    const MinimizeOptions& options = {}, SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_GRADIENT_ACCUMULATION_H_
