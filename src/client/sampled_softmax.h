// The loss of a softmax over very many classes, estimated from a few of them.
//
//   Output loss = ops::Mean(SampledSoftmaxLoss(w, b, words, h, 512), 0);
#ifndef SLUICE_CLIENT_SAMPLED_SOFTMAX_H_
#define SLUICE_CLIENT_SAMPLED_SOFTMAX_H_

#include <optional>

#include "client/variables.h"
#include "graph/builder.h"

namespace sluice {

struct SampledSoftmaxOptions {
  // A sampled class that is an example's own does not count against it.
  bool remove_accidental_hits = true;
  std::optional<int64_t> seed = {};
};

// For training, one loss per row of `inputs` [batch, depth], whose class is
// `labels` (int64 [batch]): softmax cross-entropy between that class and
// `sampled` others, drawn once a step for the whole batch, classes of low
// numbers (frequent words) more often: the log-uniform distribution, for which
// the scores are corrected. `weights` [classes, depth] and `biases` [classes]
// are read row by row, and their gradients are sparse: rows of what was drawn.
// As TensorFlow's sampled_softmax_loss of one true class.
Output SampledSoftmaxLoss(const Var& weights, const Var& biases,
                          const Operand& labels, const Operand& inputs,
                          int64_t sampled,
                          const SampledSoftmaxOptions& options = {},
                          SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_SAMPLED_SOFTMAX_H_
