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
// and read a metric; to read the value after the update, read it in a later
// step or after a control dependency. Labels and predictions have one shape,
// except for a last dimension of 1 that only one of them has.
#ifndef SLUICE_CLIENT_NN_METRICS_H_
#define SLUICE_CLIENT_NN_METRICS_H_

#include <cstdint>
#include <string>

#include "client/variables.h"

namespace sluice {

// The collection of the variables of metrics.
inline constexpr const char* kMetricVariables = "metric_variables";

struct Metric {
  Output value;            // A float scalar, 0 before any update.
  Node* update = nullptr;  // Adds a batch.
};

struct MetricOptions {
  // Of the elements: a number, or a tensor of their rank with sizes that are 1
  // or equal to theirs; a last dimension of 1 may be missing or added.
  Operand weights = 1.0;
  std::string name = "";  // By default "mean", "accuracy", ...
};

// The weighted mean of all elements.
Metric StreamingMean(const Operand& values, const MetricOptions& options = {},
                     SourceLoc loc = CallerLoc());
// The part of the elements of `predictions` that equal the label. (Integers of
// different types are compared as int64.)
Metric Accuracy(const Operand& labels, const Operand& predictions,
                const MetricOptions& options = {}, SourceLoc loc = CallerLoc());
// Of booleans, or of numbers, of which 0 is false: the part of the positive
// predictions whose label is true, and the part of the true labels that are
// predicted. 0 if there are none.
Metric Precision(const Operand& labels, const Operand& predictions,
                 const MetricOptions& options = {},
                 SourceLoc loc = CallerLoc());
Metric Recall(const Operand& labels, const Operand& predictions,
              const MetricOptions& options = {}, SourceLoc loc = CallerLoc());
// The area below the receiver operating characteristic of predictions in
// [0, 1], by the trapezoidal rule between `thresholds` evenly spaced points, of
// which there must be at least two.
Metric Auc(const Operand& labels, const Operand& predictions,
           int64_t thresholds = 200, const MetricOptions& options = {},
           SourceLoc loc = CallerLoc());
// The mean, over the classes that occur, of intersection over union of labels
// and predictions, both of them integers in [0, classes).
Metric MeanIou(const Operand& labels, const Operand& predictions,
               int64_t classes, const MetricOptions& options = {},
               SourceLoc loc = CallerLoc());

// Resets all metrics that exist so far.
Node* MetricsInitializer(SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_METRICS_H_
