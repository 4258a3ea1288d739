// Normalisation over the batch and over features.
//
//   Output h = BatchNorm(Conv2D(images, 32, 3), /*training=*/true);
//   h = LayerNorm(Flatten(h));
//   // The moving averages follow when a step runs the nodes of kUpdateOps:
//   Output loss = MeanSquaredError(targets, h);
//   AdamOptimizer adam(1e-3);
//   Node* train = Group({adam.Minimize(loss), Group(UpdateOps())});
//
// As in client/nn/layers.h, variables have TensorFlow's names and shapes; for
// inputs of 16 bits they are floats.
#ifndef SLUICE_CLIENT_NN_NORMALIZATION_H_
#define SLUICE_CLIENT_NN_NORMALIZATION_H_

#include <optional>
#include <string>

#include "client/nn/layers.h"

namespace sluice {

// Batch renormalisation (Ioffe, 2017): what training computes with a batch's
// mean and standard deviation is corrected towards what inference computes, so
// that small batches train as large ones do. The correction x r + d is a
// constant for gradients: r is the batch's deviation divided by the average
// one, d the difference of the means divided by that. Averages are TensorFlow
// 1's: those of early batches are mixed with the batch by how much they lack.
struct RenormOptions {
  double momentum = 0.99;  // The decay of the averages that correct.
  // The limits of r, and of the size of d; none: not limited. (In the paper
  // they begin at 1, 1 and 0, which is batch normalisation, and are relaxed.)
  std::optional<double> min_r = {}, max_r = {}, max_d = {};
};

struct BatchNormOptions {
  // The dimension of the features; from the end if negative.
  int axis = -1;
  double momentum = 0.99;            // The decay of the moving averages.
  double epsilon = 1e-3;             // Added to the variance.
  bool center = true, scale = true;  // Whether there is a beta, a gamma.
  InitializerFn beta_initializer = init::Zeros();
  InitializerFn gamma_initializer = init::Ones();
  Regularizer beta_regularizer = nullptr;
  Regularizer gamma_regularizer = nullptr;
  Constraint beta_constraint = nullptr;  // After each update.
  Constraint gamma_constraint = nullptr;
  std::optional<RenormOptions> renorm = {};
  bool trainable = true;
  std::string name = "";  // "": "batch_normalization".
};

// gamma (x - mean) / sqrt(variance + epsilon) + beta, for each feature, of x of
// rank 2 or more (Ioffe and Szegedy, 2015). In training, mean and variance are
// those of all other dimensions of x, and nodes of kUpdateOps move the averages
// towards them; otherwise they are the averages. In a function's body, a branch
// or a loop, whose nodes no step can run by themselves, the averages move
// whenever the result is computed, in each iteration. `training`: true, false,
// or a bool scalar. Images (rank 4, with features in dimension 1 or 3, not of
// doubles) take one op, whose estimate of the variance for the averages is
// unbiased. Variables: "gamma", "beta", "moving_mean", "moving_variance"
// [features]; for renormalisation also "renorm_mean", "renorm_stddev"
// [features], "renorm_mean_weight" and "renorm_stddev_weight" [].
Output BatchNorm(const Operand& x, const Operand& training,
                 const BatchNormOptions& options = {},
                 SourceLoc loc = CallerLoc());

struct LayerNormOptions {
  // The first of the dimensions that are normalised, up to the last; from the
  // end if negative. Their sizes must be known.
  int first_axis = -1;
  double epsilon = 1e-3;
  bool center = true, scale = true;
  InitializerFn beta_initializer = init::Zeros();
  InitializerFn gamma_initializer = init::Ones();
  Regularizer beta_regularizer = nullptr;
  Regularizer gamma_regularizer = nullptr;
  bool trainable = true;
  // Whether one op (ops::LayerNorm) computes it, with a gradient in one op as
  // well: faster, and x is stored once for the gradient. TensorFlow has no such
  // op: graphs that it is to load take false, and are built of its ops. Layers
  // of doubles always are: the op's epsilon is a float.
  bool fused = true;
  std::string name = "";  // "": "layer_normalization".
};

// gamma (x - mean) / sqrt(variance + epsilon) + beta, elementwise, with the
// mean and variance over the last dimensions (Ba, Kiros and Hinton, 2016).
// Variables: "gamma", "beta", of the shape of these dimensions.
Output LayerNorm(const Operand& x, const LayerNormOptions& options = {},
                 SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_NORMALIZATION_H_
