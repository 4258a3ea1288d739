// Loss scaling: training with gradients in half precision (Micikevicius et al.,
// "Mixed Precision Training", 2018). Gradients below 6e-8 would be zero as
// halves. They are computed for a multiple of the loss, and divided by it
// before they are applied.
//
//   AdamOptimizer adam(1e-3);
//   LossScaling scaling;
//   Node* train = scaling.Minimize(adam, loss);
#ifndef SLUICE_CLIENT_NN_LOSS_SCALING_H_
#define SLUICE_CLIENT_NN_LOSS_SCALING_H_

#include <cstdint>
#include <vector>

#include "client/nn/optimizer.h"

namespace sluice {

struct LossScalingOptions {
  double initial = 32768;
  // Whether the scale changes: it is divided by `factor` (but at least 1) when
  // a gradient is not finite, and multiplied by it after `growth_steps` steps
  // without such a gradient. Defaults and rule are TensorFlow's.
  bool dynamic = true;
  int64_t growth_steps = 2000;
  double factor = 2;
};

// A step whose gradients are not all finite is skipped, whether or not the
// scale is dynamic: variables, slots and the global step keep their values.
//
// The scale is the variable "current_loss_scale" (a float), the number of steps
// since it changed "good_steps" (an int64), made when first used. Belongs to
// the thread that builds the graph. Steps must not overlap.
class LossScaling {
 public:
  explicit LossScaling(const LossScalingOptions& options = {})
      : options_(options) {}

  // A node that runs one training step. Null on error.
  Node* Minimize(Optimizer& optimizer, Output loss,
                 const MinimizeOptions& options = {},
                 SourceLoc loc = CallerLoc());

  // The two halves of it: gradients of the scaled loss, divided by the scale
  // (clip these); and their application. Which of them are finite is a part of
  // what the second half checks.
  Result<std::vector<GradAndVar>> ComputeGradients(
      Optimizer& optimizer, Output loss, const MinimizeOptions& options = {},
      SourceLoc loc = CallerLoc());
  Node* ApplyGradients(Optimizer& optimizer,
                       const std::vector<GradAndVar>& grads,
                       const MinimizeOptions& options = {},
                       SourceLoc loc = CallerLoc());

  // Null before the first use.
  Var scale() const { return scale_; }
  Var good_steps() const { return good_steps_; }

 private:
  // InvalidArgument if the options are wrong.
  Status MakeVariables(SourceLoc loc);

  const LossScalingOptions options_;
  Var scale_, good_steps_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_LOSS_SCALING_H_
