// The loss of a softmax over very many classes, estimated from a sample of
// them.
//
//   Output loss = ops::Mean(SampledSoftmaxLoss(w, b, words, h, 512), 0);
#ifndef SLUICE_CLIENT_NN_SAMPLED_SOFTMAX_H_
#define SLUICE_CLIENT_NN_SAMPLED_SOFTMAX_H_

#include <optional>

#include "client/variables.h"
#include "graph/builder.h"

namespace sluice {

struct SampledSoftmaxOptions {
  // Ignores a sampled class that is the true class of the example.
  bool remove_accidental_hits = true;
  std::optional<int64_t> seed = {};
};

// For training: one loss per row of `inputs` [batch, depth], whose true class
// is in `labels` (int64 [batch]). The loss is the softmax cross-entropy between
// that class and `sampled` other classes, drawn once per step for the whole
// batch from the log-uniform distribution, which favours classes with low
// numbers (frequent words); the scores are corrected for it. `weights`
// [classes, depth] and `biases` [classes] are read row by row, and their
// gradients are sparse, with the rows that were drawn. Equivalent to
// TensorFlow's sampled_softmax_loss with one true class.
Output SampledSoftmaxLoss(const Var& weights, const Var& biases,
                          const Operand& labels, const Operand& inputs,
                          int64_t sampled,
                          const SampledSoftmaxOptions& options = {},
                          SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_SAMPLED_SOFTMAX_H_
