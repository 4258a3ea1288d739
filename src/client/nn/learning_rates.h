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
// Numbers and names are those of tf.compat.v1.train: the option `name` is that
// of the scope, by default "ExponentialDecay" and so on. Periods (`steps`) must
// be positive: the values are not checked, since they may be computed; zero
// gives an infinite rate or a NaN. May be used from any thread that builds the
// graph.
#ifndef SLUICE_CLIENT_NN_LEARNING_RATES_H_
#define SLUICE_CLIENT_NN_LEARNING_RATES_H_

#include <functional>
#include <string>
#include <vector>

#include "graph/builder.h"

namespace sluice {

struct DecayOptions {
  bool staircase = false;  // Only whole periods count.
  std::string name = {};
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
  Operand end = 0.0001;
  Operand power = 1.0;
  // After `steps`, falls again from (1 - step / period) ^ power of the rate,
  // with the smallest multiple of `steps` that is not yet over as the period.
  bool cycle = false;
  std::string name = {};
};
// (rate - end) * (1 - step / steps) ^ power + end; `end` after `steps`.
Output PolynomialDecay(const Operand& rate, const Operand& step,
                       const Operand& steps,
                       const PolynomialDecayOptions& options = {},
                       SourceLoc loc = CallerLoc());

struct CosineDecayOptions {
  Operand alpha = 0.0;
  std::string name = {};
};
// Half a cosine from `rate` to alpha * rate at `steps`, which then stays
// (Loshchilov and Hutter, 2017).
Output CosineDecay(const Operand& rate, const Operand& step,
                   const Operand& steps, const CosineDecayOptions& options = {},
                   SourceLoc loc = CallerLoc());

struct CosineRestartOptions {
  Operand period_factor = 2.0;  // Each period is so much longer than the last,
  Operand height_factor = 1.0;  // and so much higher.
  Operand alpha = 0.0;          // As in CosineDecay.
  std::string name = {};        // By default "SGDRDecay".
};
// Half cosines that follow each other, the first of `steps` (SGDR: Loshchilov
// and Hutter, 2017).
Output CosineDecayRestarts(const Operand& rate, const Operand& step,
                           const Operand& steps,
                           const CosineRestartOptions& options = {},
                           SourceLoc loc = CallerLoc());

struct LinearCosineOptions {
  Operand periods = 0.5;
  Operand alpha = 0.0;
  Operand beta = 0.001;
  // Of a normal distribution with variance
  // initial_variance / (1 + min(step, steps)) ^ variance_decay.
  bool noisy = false;
  Operand initial_variance = 1.0, variance_decay = 0.55;
  // Makes a sample of the standard normal distribution, of a type; null: one
  // with a random seed.
  std::function<Output(DType)> sample = {};
  std::string name = {};  // By default "LinearCosineDecay", or with "Noisy".
};
// rate * ((alpha + 1 - s + noise) * (1 + cos(2 pi periods s)) / 2 + beta), with
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
                         const std::string& name = {},
                         SourceLoc loc = CallerLoc());

// rate * (start + (1 - start) * min(step / steps, 1)): the rate, which may be
// any schedule, reached linearly (Goyal et al., 2017).
Output WarmUp(const Operand& rate, const Operand& step, const Operand& steps,
              double start = 0, SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_LEARNING_RATES_H_
