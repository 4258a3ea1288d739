// Losses of predictions, weighted and reduced to a number.
//
//   Output loss = SparseSoftmaxCrossEntropy(labels, logits);
//   Output robust = HuberLoss(targets, predictions, {.delta = 2});
//
// Numbers and names are those of tf.compat.v1.losses: weights are a number, or
// a tensor of the rank of the losses with sizes that are 1 or equal to theirs.
// The result has the type of the losses: that of the logits, else float. It is
// added to a collection, of which TotalLoss is the sum:
//
//   Node* train = AdamOptimizer(1e-3).Minimize(TotalLoss());
//
// May be used from any thread that builds the graph.
#ifndef SLUICE_CLIENT_NN_LOSSES_H_
#define SLUICE_CLIENT_NN_LOSSES_H_

#include <string>
#include <vector>

#include "client/variables.h"

namespace sluice {

// The collection of losses.
inline constexpr const char* kLosses = "losses";

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
  Operand delta = 1.0;         // Of HuberLoss.
  Operand epsilon = 1e-7;      // Of LogLoss.
  double label_smoothing = 0;  // Of cross-entropies.
  std::string name = {};  // Of the scope; by default "huber_loss" and so on.
  std::string collection = kLosses;  // "": none.
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
// The cross-entropy of softmax(logits) [..., classes] and the probabilities
// `labels`, through which no gradient flows; one loss per row.
Output SoftmaxCrossEntropy(const Operand& labels, const Operand& logits,
                           const LossOptions& options = {},
                           SourceLoc loc = CallerLoc());
// The same with the numbers of classes, int32 or int64 [...]. A last dimension
// of 1 that they have beyond that is dropped, also of the weights. What is not
// known of the shapes is checked by a step, here and above.
Output SparseSoftmaxCrossEntropy(const Operand& labels, const Operand& logits,
                                 const LossOptions& options = {},
                                 SourceLoc loc = CallerLoc());
// The mean of ((p_i - p_j) - (l_i - l_j))^2 over all pairs of elements i, j of
// an example, summed over the examples: the first dimension. As in TensorFlow,
// weights are of examples, of which those without weight do not count: weights
// of single elements, which fit the labels too, change the number of pairs to
// that of elements with weight, and multiply the whole example's mean, so that
// also elements without weight have an influence. `reduction` is not used.
Output MeanPairwiseSquaredError(const Operand& labels,
                                const Operand& predictions,
                                const LossOptions& options = {},
                                SourceLoc loc = CallerLoc());

// The losses of the ambient graph, in the order of their creation; with a
// scope, only those whose names begin with it, followed by "/".
std::vector<Output> Losses(const std::string& scope = {},
                           const std::string& collection = kLosses);
// Their sum, named `name`, with RegularizationLosses() unless that is not
// wanted. InvalidArgument if there are none.
Output TotalLoss(bool with_regularization = true,
                 const std::string& name = "total_loss",
                 SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_LOSSES_H_
