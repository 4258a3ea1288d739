// Layers of networks: functions that build what they compute and make their
// variables.
//
//   Output h = Dense(x, 100, {.activation = ops::Relu});  // "dense/kernel"
//   h = Dropout(h, 0.5, /*training=*/true, {.seed = 7});
//   Output logits = Dense(h, 10, {.name = "logits"});     // "logits/kernel"
//
// Variables have TensorFlow's names, shapes and initial values, so that
// checkpoints fit: a layer without a name is called after its kind, "dense",
// then "dense_1" and so on, in the variable scope (client/variable_scope.h)
// that is open. Within a scope that reuses, layers of the same names share
// their variables.
//
// Inputs have a floating type, which is that of the variables. Errors (a rank,
// size or option that a layer does not take) are recorded in the graph with the
// caller's line, and the result is null. Other layers:
// client/nn/convolutions.h, pooling.h, normalization.h, attention.h, rnn.h.
#ifndef SLUICE_CLIENT_NN_LAYERS_H_
#define SLUICE_CLIENT_NN_LAYERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/initializers.h"
#include "client/nn/activation.h"
#include "client/nn/constraints.h"
#include "client/nn/regularizers.h"
#include "client/variables.h"

namespace sluice {

struct DenseOptions {
  Activation activation = nullptr;
  bool use_bias = true;
  InitializerFn kernel_initializer = nullptr;  // The scope's, or Glorot's.
  InitializerFn bias_initializer = init::Zeros();
  Regularizer kernel_regularizer = nullptr;
  Regularizer bias_regularizer = nullptr;
  Constraint kernel_constraint = nullptr;  // After each update.
  Constraint bias_constraint = nullptr;
  bool trainable = true;  // Optimizers update it by default.
  std::string name = "";  // "": "dense".
};

// activation(x kernel + bias) of the last dimension of x, of rank 2 or more,
// whose size must be known. Variables: "kernel" [size, units], "bias" [units].
Output Dense(const Operand& x, int64_t units, const DenseOptions& options = {},
             SourceLoc loc = CallerLoc());

struct DropoutLayerOptions {
  std::optional<int64_t> seed = {};  // See SetRandomSeed.
  // The shape of the random numbers, which is broadcast to that of x: elements
  // along a dimension of size 1 are kept or dropped together. -1: that of x.
  std::vector<int64_t> noise_shape = {};
};

// In training, sets a random fraction `rate`, in [0, 1), of the elements to
// zero and divides the others by 1 - rate; otherwise returns x (Srivastava et
// al., 2014). `training`: true, false, or a bool scalar. Numbers are drawn anew
// in each step.
Output Dropout(const Operand& x, double rate, const Operand& training,
               const DropoutLayerOptions& options = {},
               SourceLoc loc = CallerLoc());

struct EmbeddingLayerOptions {
  InitializerFn initializer = init::RandomUniform(-0.05, 0.05);
  Regularizer regularizer = nullptr;
  DType dtype = DType::kFloat;
  bool trainable = true;
  std::string name = "";  // "": "embedding".
};

// The rows of a table, [..., units], for ids in [0, rows), int32 or int64
// [...]. An id out of range fails the step. The gradient is sparse. Variable:
// "embeddings" [rows, units].
Output Embedding(const Operand& ids, int64_t rows, int64_t units,
                 const EmbeddingLayerOptions& options = {},
                 SourceLoc loc = CallerLoc());

// Where the channels of images are: [batch, ..., channels] or [batch, channels,
// ...].
enum class DataFormat : uint8_t { kChannelsLast, kChannelsFirst };

// [batch, everything else], of any type. Elements are in the order of
// kChannelsLast, whatever the format of x is.
Output Flatten(const Operand& x, DataFormat format = DataFormat::kChannelsLast,
               SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_LAYERS_H_
