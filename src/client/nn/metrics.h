// Streaming metrics: figures over all batches since they were last reset.
//
//   Metric accuracy = Accuracy(labels, ops::ArgMax(logits, 1));
//   Node* reset = MetricsInitializer();  // Run before each evaluation,
//   Node* update = accuracy.update;      // once per batch,
//   Output figure = accuracy.value;      // and at the end.
//
// Each metric keeps sums in variables that are not trained, of the collections
// "local_variables" and "metric_variables", with TensorFlow's names below the
// metric's name. Numbers are those of tf.compat.v1.metrics. A step may update
// and read a metric; to read the value after the update, fetch `updated`.
// Labels and predictions have one shape, except for a last dimension of 1 that
// only one of them has. May be used from any thread that builds the graph.
//
// client/nn/threshold_metrics.h has those of predictions above thresholds,
// client/nn/metrics_at_k.h those of the best k predictions.
#ifndef SLUICE_CLIENT_NN_METRICS_H_
#define SLUICE_CLIENT_NN_METRICS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "client/variables.h"

namespace sluice {

// The collection of the variables of metrics.
inline constexpr const char* kMetricVariables = "metric_variables";

struct Metric {
  Output value;            // Of the batches before; 0 if there are none.
  Output updated;          // Of this batch too, which it adds.
  Node* update = nullptr;  // Adds a batch: the node of `updated`.
};

struct MetricOptions {
  // Of the elements: a number, or a tensor of their rank with sizes that are 1
  // or equal to theirs; a last dimension of 1 may be missing or added.
  Operand weights = 1.0;
  std::string name = {};  // Of the scope; by default "mean", "accuracy", ...
  // Makes a variable of zeros for the sums; null: as above.
  std::function<Var(const std::string& name, const Shape& shape, DType dtype)>
      variable = nullptr;
};

// The weighted mean of all elements.
Metric StreamingMean(const Operand& values, const MetricOptions& options = {},
                     SourceLoc loc = CallerLoc());
// The weighted mean of each element, of a shape that is known. `value` has that
// shape.
Metric StreamingMeanTensor(const Operand& values,
                           const MetricOptions& options = {},
                           SourceLoc loc = CallerLoc());
// The part of the values that are below a threshold.
Metric PercentageBelow(const Operand& values, const Operand& threshold,
                       const MetricOptions& options = {},
                       SourceLoc loc = CallerLoc());

// Means of |prediction - label|, of (prediction - label)^2, the root of the
// latter, and of |prediction - label| / normalizer (0 where that is 0).
Metric StreamingMeanAbsoluteError(const Operand& labels,
                                  const Operand& predictions,
                                  const MetricOptions& options = {},
                                  SourceLoc loc = CallerLoc());
Metric StreamingMeanSquaredError(const Operand& labels,
                                 const Operand& predictions,
                                 const MetricOptions& options = {},
                                 SourceLoc loc = CallerLoc());
Metric StreamingRootMeanSquaredError(const Operand& labels,
                                     const Operand& predictions,
                                     const MetricOptions& options = {},
                                     SourceLoc loc = CallerLoc());
Metric StreamingMeanRelativeError(const Operand& labels,
                                  const Operand& predictions,
                                  const Operand& normalizer,
                                  const MetricOptions& options = {},
                                  SourceLoc loc = CallerLoc());
// 1 - the mean of label . prediction along an axis, of vectors of length 1. (So
// it is 1 before any update.)
Metric StreamingMeanCosineDistance(const Operand& labels,
                                   const Operand& predictions, int axis,
                                   const MetricOptions& options = {},
                                   SourceLoc loc = CallerLoc());

// The part of the elements of `predictions` that equal the label. (Integers of
// different types are compared as int64; otherwise predictions are cast to the
// type of the labels.)
Metric Accuracy(const Operand& labels, const Operand& predictions,
                const MetricOptions& options = {}, SourceLoc loc = CallerLoc());

// What a prediction may be, of booleans.
enum class Outcome : uint8_t {
  kTruePositive,   // Predicted, and so labelled.
  kFalseNegative,  // Not predicted, but labelled.
  kTrueNegative,   // Neither.
  kFalsePositive,  // Predicted, but not labelled.
};
// The number, or the sum of the weights, of predictions of one kind. Of
// booleans, or of numbers, of which 0 is false.
Metric CountOf(Outcome outcome, const Operand& labels,
               const Operand& predictions, const MetricOptions& options = {},
               SourceLoc loc = CallerLoc());
// The part of the positive predictions whose label is true, and the part of the
// true labels that are predicted. 0 if there are none.
Metric Precision(const Operand& labels, const Operand& predictions,
                 const MetricOptions& options = {},
                 SourceLoc loc = CallerLoc());
Metric Recall(const Operand& labels, const Operand& predictions,
              const MetricOptions& options = {}, SourceLoc loc = CallerLoc());

// The mean, over the classes that occur, of intersection over union of labels
// and predictions, both of them integers in [0, classes). `updated` is the
// confusion matrix, double [classes, classes]: rows are labels.
Metric MeanIou(const Operand& labels, const Operand& predictions,
               int64_t classes, const MetricOptions& options = {},
               SourceLoc loc = CallerLoc());
// The mean, over all classes, of the part of the labels of a class that are
// predicted. `updated` has these parts, [classes].
Metric MeanPerClassAccuracy(const Operand& labels, const Operand& predictions,
                            int64_t classes, const MetricOptions& options = {},
                            SourceLoc loc = CallerLoc());

// Resets all metrics that exist so far.
Node* MetricsInitializer(SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_METRICS_H_
