// Learning rates that change with the step, for any optimizer.
//
//   Var step(Constant(Tensor::Scalar<int64_t>(0)), "global_step",
//            {.trainable = false});
//   Output rate = WarmUp(CosineDecay(0.1, step, 10000), step, 500);
//   Node* train =
//       MomentumOptimizer(rate, 0.9).Minimize(loss, {.global_step = step});
//
// Each function takes the rate at the start (a number is a float) and the step
// (an integer or floating scalar), and returns a scalar of the rate's type.
// Numbers are those of tf.compat.v1.train. Periods (`steps`) must be positive:
// the values are not checked, since they may be computed; zero gives an
// infinite rate or a NaN. May be used from any thread that builds the graph.
#ifndef SLUICE_CLIENT_NN_LEARNING_RATES_H_
#define SLUICE_CLIENT_NN_LEARNING_RATES_H_

#include <vector>

#include "graph/builder.h"

namespace sluice {

struct DecayOptions {
  bool staircase = false;  // Only whole periods count.
};

// rate * decay ^ (step / steps).
Output ExponentialDecay(const Operand& rate, const Operand& step,
                        const Operand& steps, const Operand& decay,
                        const DecayOptions& options = {},
                        SourceLoc loc = CallerLoc());
// rate * exp(-decay * step / steps).
Output NaturalExpDecay(const Operand& rate, const Operand& step,
                       const Operand& steps, const Operand& decay,
                       const DecayOptions& options = {},
                       SourceLoc loc = CallerLoc());
// rate / (1 + decay * step / steps).
Output InverseTimeDecay(const Operand& rate, const Operand& step,
                        const Operand& steps, const Operand& decay,
                        const DecayOptions& options = {},
                        SourceLoc loc = CallerLoc());

struct PolynomialDecayOptions {
  double end = 0.0001;
  double power = 1;
  // After `steps`, falls again from (1 - step / period) ^ power of the rate,
  // with the smallest multiple of `steps` that is not yet over as the period.
  bool cycle = false;
};
// (rate - end) * (1 - step / steps) ^ power + end; `end` after `steps`.
Output PolynomialDecay(const Operand& rate, const Operand& step,
                       const Operand& steps,
                       const PolynomialDecayOptions& options = {},
                       SourceLoc loc = CallerLoc());

// Half a cosine from `rate` to alpha * rate at `steps`, which then stays
// (Loshchilov and Hutter, 2017).
Output CosineDecay(const Operand& rate, const Operand& step,
                   const Operand& steps, double alpha = 0,
                   SourceLoc loc = CallerLoc());

struct CosineRestartOptions {
  double period_factor = 2;  // Each period is so much longer than the last,
  double height_factor = 1;  // and so much higher.
  double alpha = 0;          // As in CosineDecay.
};
// Half cosines that follow each other, the first of `steps` (SGDR: Loshchilov
// and Hutter, 2017).
Output CosineDecayRestarts(const Operand& rate, const Operand& step,
                           const Operand& steps,
                           const CosineRestartOptions& options = {},
                           SourceLoc loc = CallerLoc());

struct LinearCosineOptions {
  double periods = 0.5;
  double alpha = 0;
  double beta = 0.001;
};
// rate * ((alpha + 1 - s) * (1 + cos(2 pi periods s)) / 2 + beta), with
// s = min(step / steps, 1) (Bello et al., 2017).
Output LinearCosineDecay(const Operand& rate, const Operand& step,
                         const Operand& steps,
                         const LinearCosineOptions& options = {},
                         SourceLoc loc = CallerLoc());

// values[i] for boundaries[i - 1] < step <= boundaries[i]; the last one above
// all boundaries. InvalidArgument unless there is one value more than there are
// boundaries.
Output PiecewiseConstant(const Operand& step,
                         const std::vector<Operand>& boundaries,
                         const std::vector<Operand>& values,
                         SourceLoc loc = CallerLoc());

// rate * (start + (1 - start) * min(step / steps, 1)): the rate, which may be
// any schedule, reached linearly (Goyal et al., 2017).
Output WarmUp(const Operand& rate, const Operand& step, const Operand& steps,
              double start = 0, SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_LEARNING_RATES_H_
