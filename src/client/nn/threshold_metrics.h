// Streaming metrics of predictions in [0, 1], which count as positive above a
// threshold. See client/nn/metrics.h for what all metrics have in common.
//
//   Metric area = Auc(labels, probabilities);
//   Metric precision = PrecisionAtThresholds(labels, probabilities, {0.5,
//   0.9});
//
// A step fails with InvalidArgument if a prediction is not in [0, 1]. Labels
// are booleans, or numbers, of which 0 is false.
#ifndef SLUICE_CLIENT_NN_THRESHOLD_METRICS_H_
#define SLUICE_CLIENT_NN_THRESHOLD_METRICS_H_

#include <cstdint>
#include <vector>

#include "client/nn/metrics.h"

namespace sluice {

// The number, or the sum of the weights, of predictions of one kind at each
// threshold: [thresholds].
Metric CountAtThresholds(Outcome outcome, const Operand& labels,
                         const Operand& predictions,
                         const std::vector<double>& thresholds,
                         const MetricOptions& options = {},
                         SourceLoc loc = CallerLoc());
// Of the positive predictions, the part whose label is true, and of the true
// labels, the part that are predicted, at each threshold: [thresholds].
Metric PrecisionAtThresholds(const Operand& labels, const Operand& predictions,
                             const std::vector<double>& thresholds,
                             const MetricOptions& options = {},
                             SourceLoc loc = CallerLoc());
Metric RecallAtThresholds(const Operand& labels, const Operand& predictions,
                          const std::vector<double>& thresholds,
                          const MetricOptions& options = {},
                          SourceLoc loc = CallerLoc());

enum class AucCurve : uint8_t {
  kRoc,  // True positive rate over false positive rate.
  kPr,   // Precision over recall.
};
// The height of the curve between two points: the mean, the smaller and the
// larger of theirs; or, for kPr only, as Davis and Goadrich (2006) interpolate,
// since precision is not linear between points.
enum class AucSummation : uint8_t {
  kTrapezoidal,
  kMinoring,
  kMajoring,
  kCarefulInterpolation,
};
struct AucOptions {
  AucCurve curve = AucCurve::kRoc;
  AucSummation summation = AucSummation::kTrapezoidal;
  // The number of points, at evenly spaced thresholds: at least two.
  int64_t points = 200;
  // Thresholds in [0, 1] in place of these; 0 and 1 are added.
  std::vector<double> thresholds = {};
};
// The area below a curve.
Metric Auc(const Operand& labels, const Operand& predictions,
           const AucOptions& how, const MetricOptions& options = {},
           SourceLoc loc = CallerLoc());
// That of the receiver operating characteristic.
Metric Auc(const Operand& labels, const Operand& predictions,
           int64_t points = 200, const MetricOptions& options = {},
           SourceLoc loc = CallerLoc());

// The sensitivity, tp / (tp + fn), at the threshold of evenly spaced ones where
// the specificity, tn / (tn + fp), is nearest to the given one; and the other
// way round. Both are in [0, 1].
Metric SensitivityAtSpecificity(const Operand& labels,
                                const Operand& predictions, double specificity,
                                int64_t thresholds = 200,
                                const MetricOptions& options = {},
                                SourceLoc loc = CallerLoc());
Metric SpecificityAtSensitivity(const Operand& labels,
                                const Operand& predictions, double sensitivity,
                                int64_t thresholds = 200,
                                const MetricOptions& options = {},
                                SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_THRESHOLD_METRICS_H_
