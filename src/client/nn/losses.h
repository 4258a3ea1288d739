// Losses of predictions, weighted and reduced to a number.
//
//   Output loss = SparseSoftmaxCrossEntropy(labels, logits);
//   Output robust = HuberLoss(targets, predictions, {.delta = 2});
//
// Numbers are those of tf.compat.v1.losses: weights are a number, or a tensor
// of the rank of the losses with sizes that are 1 or equal to theirs. The
// result has the type of the losses: that of the logits, else float.
#ifndef SLUICE_CLIENT_NN_LOSSES_H_
#define SLUICE_CLIENT_NN_LOSSES_H_

#include <string>

#include "graph/builder.h"

namespace sluice {

// How the losses of all elements become one number.
enum class LossReduction : uint8_t {
  kNone,  // They do not.
  kSum,
  kSumOverBatchSize,     // The sum divided by the number of elements,
  kMean,                 // by the sum of the weights,
  kSumByNonzeroWeights,  // by the number of weights that are not zero.
};

struct LossOptions {
  Operand weights = 1.0;
  LossReduction reduction = LossReduction::kSumByNonzeroWeights;
  double delta = 1;            // Of HuberLoss.
  double epsilon = 1e-7;       // Of LogLoss.
  double label_smoothing = 0;  // Of cross-entropies.
};

// losses * weights, reduced. Zero, not NaN, if the divisor is zero.
Output WeightedLoss(const Operand& losses, const LossOptions& options = {},
                    SourceLoc loc = CallerLoc());

// The losses of elements, of labels and predictions of one shape:
// |prediction - label|.
Output AbsoluteDifference(const Operand& labels, const Operand& predictions,
                          const LossOptions& options = {},
                          SourceLoc loc = CallerLoc());
// (prediction - label)^2.
Output MeanSquaredError(const Operand& labels, const Operand& predictions,
                        const LossOptions& options = {},
                        SourceLoc loc = CallerLoc());
// e^2 / 2 of the error e, and delta (|e| - delta / 2) where |e| > delta.
Output HuberLoss(const Operand& labels, const Operand& predictions,
                 const LossOptions& options = {}, SourceLoc loc = CallerLoc());
// -label log(prediction + epsilon) - (1 - label) log(1 - prediction + epsilon).
Output LogLoss(const Operand& labels, const Operand& predictions,
               const LossOptions& options = {}, SourceLoc loc = CallerLoc());
// max(0, 1 - logit) for label 1, max(0, 1 + logit) for label 0.
Output HingeLoss(const Operand& labels, const Operand& logits,
                 const LossOptions& options = {}, SourceLoc loc = CallerLoc());
// 1 - label . prediction along an axis, of vectors of length 1.
Output CosineDistance(const Operand& labels, const Operand& predictions,
                      int axis, const LossOptions& options = {},
                      SourceLoc loc = CallerLoc());
// The cross-entropy of sigmoid(logits) and labels, elementwise.
Output SigmoidCrossEntropy(const Operand& labels, const Operand& logits,
                           const LossOptions& options = {},
                           SourceLoc loc = CallerLoc());
// The cross-entropy of softmax(logits) [batch, classes] and the probabilities
// `labels`, through which no gradient flows; one loss per row.
Output SoftmaxCrossEntropy(const Operand& labels, const Operand& logits,
                           const LossOptions& options = {},
                           SourceLoc loc = CallerLoc());
// The same with the numbers of classes, int32 or int64 [batch].
Output SparseSoftmaxCrossEntropy(const Operand& labels, const Operand& logits,
                                 const LossOptions& options = {},
                                 SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_LOSSES_H_
