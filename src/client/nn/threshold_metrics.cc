#include "client/nn/threshold_metrics.h"

#include <algorithm>
#include <array>

#include "client/nn/metric_parts.h"
#include "client/operators.h"
#include "client/reductions.h"
#include "client/types_and_shapes.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// More would be megabytes of sums per step.
constexpr size_t kMostThresholds = 1000000;
// Thresholds are so far beyond 0 and 1 that all predictions are between them;
// also what keeps divisors from being 0.
constexpr double kBeyond = 1e-7;

// Of each outcome, in the order of the enumeration; null: not counted.
using Counts = std::array<Output, 4>;
struct CountsAtThresholds {
  bool ok = false;
  Counts before, after;  // This batch.
};

constexpr Outcome kOutcomes[] = {
    Outcome::kTruePositive, Outcome::kFalseNegative, Outcome::kTrueNegative,
    Outcome::kFalsePositive};

const Output& Of(const Counts& counts, Outcome outcome) {
  return counts[static_cast<size_t>(outcome)];
}

// The predictions, once it is known that they are in [0, 1].
Output Checked(const Output& p) {
  if (!p.valid()) return p;
  const NameScope scope("assert_in_range");
  const Output fits = ops::All(p >= 0 && p <= 1, AllAxes(p));
  Node* const check =
      ops::Assert(fits, {Constant(Tensor::Scalar<std::string>(
                             "predictions must be in [0, 1], got")),
                         p});
  if (check == nullptr) return CurrentGraph().Failure();
  const ControlDependencies after({check});
  return ops::Identity(p);
}

CountsAtThresholds CountAll(const Operand& labels, const Operand& predictions,
                            const std::vector<double>& thresholds,
                            const std::vector<Outcome>& which,
                            const MetricOptions& options, SourceLoc loc) {
  CountsAtThresholds counts;
  if (thresholds.empty() || thresholds.size() > kMostThresholds) {
    BuildError(
        InvalidArgument("metric: expected a number of thresholds in [1, ",
                        kMostThresholds, "], got ", thresholds.size()),
        loc);
    return counts;
  }
  std::vector<float> at(thresholds.begin(), thresholds.end());
  const Output given = Checked(InType(predictions, DType::kFloat));
  const LabelsAndPredictions pair(InType(labels, DType::kBool), given);
  const Output& p = pair.predictions;
  if (!pair.labels.valid() || !p.valid()) return counts;
  const Output bounds = ops::ExpandDims(Constant(Tensor::Vector<float>(at)), 1);
  const Output positive = ops::Reshape(p, {1, -1}) > bounds;
  const Output label = ops::Reshape(pair.labels, {1, -1});
  Output w;
  if (!CountOnce(options))
    w = ops::Reshape(BroadcastWeights(p, options.weights, DType::kFloat),
                     {1, -1});
  const Shape shape({static_cast<int64_t>(at.size())});
  for (const Outcome outcome : which) {
    const auto i = static_cast<size_t>(outcome);
    const Var sums = SumsOf(options, NameOfCount(outcome), shape);
    Output n = ops::Cast(WhichAre(outcome, label, positive), DType::kFloat);
    if (!CountOnce(options)) n = n * w;
    if (!sums.valid()) return counts;
    counts.before[i] = sums;
    counts.after[i] = AddedTo(sums, ops::Sum(n, {1}), loc);
    if (!counts.after[i].valid()) return counts;
  }
  counts.ok = true;
  return counts;
}

std::vector<Outcome> All() {
  return {std::begin(kOutcomes), std::end(kOutcomes)};
}

// The metric that `compute` makes of counts, as a node of a name.
template <typename Compute>
Metric MetricOfCounts(const CountsAtThresholds& counts,
                      const Compute& compute) {
  if (!counts.ok) return {};
  const Output value = compute(counts.before, "value");
  return MetricOf(value, compute(counts.after, "update_op"));
}

// `points` thresholds, from just below 0 to `last`.
std::vector<double> Even(int64_t points, double last) {
  std::vector<double> at(static_cast<size_t>(points));
  for (size_t i = 0; i < at.size(); ++i)
    at[i] = static_cast<double>(i) / static_cast<double>(points - 1);
  at.front() = -kBeyond;
  at.back() = last;
  return at;
}

bool PointsAreFew(const char* what, int64_t points, SourceLoc loc) {
  if (points >= 2 && points <= static_cast<int64_t>(kMostThresholds))
    return true;
  BuildError(InvalidArgument(what, ": expected thresholds in [2, ",
                             kMostThresholds, "], got ", points),
             loc);
  return false;
}

Output ButLast(const Output& v) {
  return ops::StridedSlice(v, {0}, {-1}, {1}, {.begin_mask = 1});
}
Output ButFirst(const Output& v) {
  return ops::StridedSlice(v, {1}, {0}, {1}, {.end_mask = 1});
}

// The area below the precision-recall curve. With dTP and dP of a bucket, and
// P linear within, precision integrates to
//   slope * (dTP + intercept * log(P_a / P_b)).
Output CarefulArea(const Counts& counts) {
  const Output &tp = Of(counts, Outcome::kTruePositive),
               &fp = Of(counts, Outcome::kFalsePositive),
               &fn = Of(counts, Outcome::kFalseNegative);
  const Output gained = ButLast(tp) - ButFirst(tp);
  const Output p = tp + fp;
  const Output a = ButLast(p), b = ButFirst(p);
  const Output slope =
      ops::DivNoNan(gained, ops::Maximum(a - b, 0), {.name = "prec_slope"});
  const Output intercept = ButFirst(tp) - slope * b;
  const Output ratio = ops::SelectV2(
      a > 0 && b > 0,
      ops::DivNoNan(a, ops::Maximum(b, 0), {.name = "recall_relative_ratio"}),
      ops::OnesLike(b));
  const Output areas =
      ops::DivNoNan(slope * (gained + intercept * ops::Log(ratio)),
                    ops::Maximum(ButFirst(tp) + ButFirst(fn), 0),
                    {.name = "pr_auc_increment"});
  return ops::Sum(areas, {0}, {.name = "interpolate_pr_auc"});
}

Output Area(const Counts& counts, const AucOptions& how,
            const std::string& name) {
  if (how.summation == AucSummation::kCarefulInterpolation)
    return CarefulArea(counts);
  constexpr double kEpsilon = 1e-6;
  const Output &tp = Of(counts, Outcome::kTruePositive),
               &fn = Of(counts, Outcome::kFalseNegative),
               &tn = Of(counts, Outcome::kTrueNegative),
               &fp = Of(counts, Outcome::kFalsePositive);
  const Output found = (tp + kEpsilon) / (tp + fn + kEpsilon);
  Output x = found, y;
  if (how.curve == AucCurve::kRoc) {
    x = fp / (fp + tn + kEpsilon);
    y = found;
  } else {
    y = (tp + kEpsilon) / (tp + fp + kEpsilon);
  }
  const Output width = ButLast(x) - ButFirst(x);
  const Output left = ButLast(y), right = ButFirst(y);
  const Output height =
      how.summation == AucSummation::kMinoring   ? ops::Minimum(left, right)
      : how.summation == AucSummation::kMajoring ? ops::Maximum(left, right)
                                                 : (left + right) / 2;
  return ops::Sum(width * height, {0}, {.name = name});
}

// Whose share of two outcomes is meant.
struct Share {
  Outcome right, wrong;
  Output Whole(const Counts& c) const {
    return Of(c, right) / (Of(c, right) + Of(c, wrong) + kBeyond);
  }
  Output At(const Counts& c, const Output& index,
            const std::string& name) const {
    const Output hit = ops::GatherV2(Of(c, right), index, 0),
                 miss = ops::GatherV2(Of(c, wrong), index, 0);
    return ops::RealDiv(hit, hit + miss + kBeyond, {.name = name});
  }
};
constexpr Share kSensitivity = {Outcome::kTruePositive,
                                Outcome::kFalseNegative};
constexpr Share kSpecificity = {Outcome::kTrueNegative,
                                Outcome::kFalsePositive};

// `wanted` where `given` is nearest to a target; of equally near thresholds,
// the first or the last one.
Metric BestAt(const char* usual, const Share& wanted, const Share& given,
              const Operand& labels, const Operand& predictions, double target,
              int64_t thresholds, double top, bool last,
              const MetricOptions& options, SourceLoc loc) {
  const MetricScope scope(options, usual, loc);
  if (!(target >= 0 && target <= 1)) {
    BuildError(
        InvalidArgument(usual, ": expected a number in [0, 1], got ", target),
        loc);
    return {};
  }
  if (!PointsAreFew(usual, thresholds, loc)) return {};
  const CountsAtThresholds counts =
      CountAll(labels, predictions, Even(thresholds, top), All(), options, loc);
  return MetricOfCounts(counts, [&](const Counts& c, const char* name) {
    Output away = ops::Abs(given.Whole(c) - target);
    if (last) away = ops::ReverseV2(away, {0});
    Output nearest = ops::ArgMin(away, 0);
    if (last) nearest = Constant(thresholds - 1) - nearest;
    return wanted.At(c, nearest, name);
  });
}

}  // namespace

Metric CountAtThresholds(Outcome outcome, const Operand& labels,
                         const Operand& predictions,
                         const std::vector<double>& thresholds,
                         const MetricOptions& options, SourceLoc loc) {
  if (!IsOutcome(outcome, loc)) return {};
  const MetricScope scope(options, NameOfCount(outcome), loc);
  const CountsAtThresholds counts =
      CountAll(labels, predictions, thresholds, {outcome}, options, loc);
  if (!counts.ok) return {};
  return MetricOf(ops::Identity(Of(counts.before, outcome)),
                  Of(counts.after, outcome));
}

Metric PrecisionAtThresholds(const Operand& labels, const Operand& predictions,
                             const std::vector<double>& thresholds,
                             const MetricOptions& options, SourceLoc loc) {
  const MetricScope scope(options, "precision_at_thresholds", loc);
  const CountsAtThresholds counts =
      CountAll(labels, predictions, thresholds,
               {Outcome::kTruePositive, Outcome::kFalsePositive}, options, loc);
  return MetricOfCounts(counts, [](const Counts& c, const std::string& name) {
    const Output& tp = Of(c, Outcome::kTruePositive);
    return ops::RealDiv(tp, kBeyond + tp + Of(c, Outcome::kFalsePositive),
                        {.name = "precision_" + name});
  });
}

Metric RecallAtThresholds(const Operand& labels, const Operand& predictions,
                          const std::vector<double>& thresholds,
                          const MetricOptions& options, SourceLoc loc) {
  const MetricScope scope(options, "recall_at_thresholds", loc);
  const CountsAtThresholds counts =
      CountAll(labels, predictions, thresholds,
               {Outcome::kTruePositive, Outcome::kFalseNegative}, options, loc);
  return MetricOfCounts(counts, [](const Counts& c, const std::string& name) {
    const Output& tp = Of(c, Outcome::kTruePositive);
    return ops::RealDiv(tp, kBeyond + tp + Of(c, Outcome::kFalseNegative),
                        {.name = "recall_" + name});
  });
}

Metric Auc(const Operand& labels, const Operand& predictions,
           const AucOptions& how, const MetricOptions& options, SourceLoc loc) {
  const MetricScope scope(options, "auc", loc);
  if (how.summation == AucSummation::kCarefulInterpolation &&
      how.curve != AucCurve::kPr) {
    BuildError(InvalidArgument("Auc: expected careful interpolation for a "
                               "precision-recall curve, got it for another"),
               loc);
    return {};
  }
  std::vector<double> at = how.thresholds;
  if (at.empty()) {
    if (!PointsAreFew("Auc", how.points, loc)) return {};
    at = Even(how.points, 1 + kBeyond);
  } else {
    std::sort(at.begin(), at.end());
    at.insert(at.begin(), -kBeyond);
    at.push_back(1 + kBeyond);
  }
  const CountsAtThresholds counts =
      CountAll(labels, predictions, at, All(), options, loc);
  return MetricOfCounts(counts, [&](const Counts& c, const char* name) {
    return Area(c, how, name);
  });
}

Metric Auc(const Operand& labels, const Operand& predictions, int64_t points,
           const MetricOptions& options, SourceLoc loc) {
  return Auc(labels, predictions, AucOptions{.points = points}, options, loc);
}

Metric SensitivityAtSpecificity(const Operand& labels,
                                const Operand& predictions, double specificity,
                                int64_t thresholds,
                                const MetricOptions& options, SourceLoc loc) {
  return BestAt("sensitivity_at_specificity", kSensitivity, kSpecificity,
                labels, predictions, specificity, thresholds, 1 + kBeyond,
                /*last=*/false, options, loc);
}

Metric SpecificityAtSensitivity(const Operand& labels,
                                const Operand& predictions, double sensitivity,
                                int64_t thresholds,
                                const MetricOptions& options, SourceLoc loc) {
  // (As in TensorFlow, whose highest threshold is below 1 here.)
  return BestAt("specificity_at_sensitivity", kSpecificity, kSensitivity,
                labels, predictions, sensitivity, thresholds, 1 - kBeyond,
                /*last=*/true, options, loc);
}

}  // namespace sluice
