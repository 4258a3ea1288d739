#include "client/nn/metrics.h"

#include "client/nn/metric_parts.h"
#include "client/operators.h"
#include "client/types_and_shapes.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// More would be megabytes of sums per step.
constexpr int64_t kMostClasses = 10000;

Output Floats(const Operand& x) { return InType(x, DType::kFloat); }

// Adds values and their weights, elementwise unless `summed`.
Metric MeanOf(const Output& given, bool summed, const Shape& shape,
              const MetricOptions& options, SourceLoc loc) {
  const std::string suffix = summed ? "" : "_tensor";
  const Var total = SumsOf(options, "total" + suffix, shape),
            count = SumsOf(options, "count" + suffix, shape);
  if (!given.valid() || !total.valid() || !count.valid()) return {};
  Output values = given, n;
  if (CountOnce(options)) {
    n = summed ? ops::Cast(ops::Size(values), DType::kFloat)
               : ops::OnesLike(values);
  } else {
    const Output w = BroadcastWeights(values, options.weights, DType::kFloat);
    values = ops::Mul(values, w, {.name = "Mul"});
    n = summed ? TotalOf(w) : w;
  }
  if (!values.valid() || !n.valid()) return {};
  const Output more = AddedTo(total, summed ? TotalOf(values) : values, loc);
  Output counted;
  {
    const ControlDependencies after({values.node});
    counted = AddedTo(count, n, loc);
  }
  return MetricOf(RatioOf(total, count, "value"),
                  RatioOf(more, counted, "update_op"));
}

// In the scope of a metric.
Metric ScopedMeanOf(const Output& values, const MetricOptions& options,
                    const char* usual, SourceLoc loc) {
  const MetricScope scope(options, usual, loc);
  return MeanOf(Floats(values), true, {}, options, loc);
}

// Labels and predictions without a type of their own are floats.
LabelsAndPredictions PairOf(const Operand& labels, const Operand& predictions) {
  const Output p = FloatUnlessTyped(predictions);
  return {FloatUnlessTyped(labels), p};
}

// Counts, in a scope "true_positives" and so on.
Metric CountIn(Outcome outcome, const LabelsAndPredictions& pair,
               const std::string& name, const MetricOptions& options,
               SourceLoc loc) {
  const MetricScope scope(name, loc);
  const Output holds = WhichAre(outcome, pair.labels, pair.predictions);
  const Var count = SumsOf(options, "count", {});
  if (!holds.valid() || !count.valid()) return {};
  Output n = ops::Cast(holds, DType::kFloat);
  if (!CountOnce(options))
    n = ops::Mul(n, WeightsOf(n, options.weights, DType::kFloat),
                 {.name = "Mul"});
  const Output value = ops::Identity(count.value());
  return MetricOf(value, AddedTo(count, TotalOf(n), loc));
}

LabelsAndPredictions Booleans(const Operand& labels,
                              const Operand& predictions) {
  const Output p = InType(predictions, DType::kBool);
  return {InType(labels, DType::kBool), p};
}

// tp / (tp + other).
Metric PartOf(const Operand& labels, const Operand& predictions, Outcome other,
              const MetricOptions& options, SourceLoc loc) {
  const LabelsAndPredictions pair = Booleans(labels, predictions);
  const Metric hit = CountIn(Outcome::kTruePositive, pair,
                             NameOfCount(Outcome::kTruePositive), options, loc);
  const Metric miss = CountIn(other, pair, NameOfCount(other), options, loc);
  if (hit.update == nullptr || miss.update == nullptr) return {};
  const Output value =
      ops::DivNoNan(hit.value, hit.value + miss.value, {.name = "value"});
  return MetricOf(value, ops::DivNoNan(hit.updated, hit.updated + miss.updated,
                                       {.name = "update_op"}));
}

bool ClassesAreFew(const char* metric, int64_t classes, SourceLoc loc) {
  if (classes >= 1 && classes <= kMostClasses) return true;
  BuildError(InvalidArgument(metric, ": expected classes in [1, ", kMostClasses,
                             "], got ", classes),
             loc);
  return false;
}

}  // namespace

Metric StreamingMean(const Operand& values, const MetricOptions& options,
                     SourceLoc loc) {
  const MetricScope scope(options, "mean", loc);
  return MeanOf(Floats(values), true, {}, options, loc);
}

Metric StreamingMeanTensor(const Operand& values, const MetricOptions& options,
                           SourceLoc loc) {
  const MetricScope scope(options, "mean", loc);
  const Output x = Floats(values);
  if (!x.valid()) return {};
  const Result<Shape> shape = x.shape().ToShape();
  if (!shape.ok()) {
    BuildError(InvalidArgument("metric: expected values of a known shape, got ",
                               x.shape().ToString()),
               loc);
    return {};
  }
  return MeanOf(x, false, *shape, options, loc);
}

Metric PercentageBelow(const Operand& values, const Operand& threshold,
                       const MetricOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const Output below = ops::Less(FloatUnlessTyped(values), threshold);
  return ScopedMeanOf(ops::Cast(below, DType::kFloat), options,
                      "percentage_below_threshold", loc);
}

Metric StreamingMeanAbsoluteError(const Operand& labels,
                                  const Operand& predictions,
                                  const MetricOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const LabelsAndPredictions pair = PairOf(labels, predictions);
  return ScopedMeanOf(ops::Abs(pair.predictions - pair.labels), options,
                      "mean_absolute_error", loc);
}

Metric StreamingMeanSquaredError(const Operand& labels,
                                 const Operand& predictions,
                                 const MetricOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const LabelsAndPredictions pair = PairOf(labels, predictions);
  return ScopedMeanOf(ops::SquaredDifference(pair.predictions, pair.labels),
                      options, "mean_squared_error", loc);
}

Metric StreamingRootMeanSquaredError(const Operand& labels,
                                     const Operand& predictions,
                                     const MetricOptions& options,
                                     SourceLoc loc) {
  const AtLine at(loc);
  MetricOptions how = options;
  if (how.name.empty()) how.name = "root_mean_squared_error";
  const Metric squares =
      StreamingMeanSquaredError(labels, predictions, how, loc);
  if (squares.update == nullptr) return {};
  const Output value = ops::Sqrt(squares.value);
  return MetricOf(value, ops::Sqrt(squares.updated));
}

Metric StreamingMeanRelativeError(const Operand& labels,
                                  const Operand& predictions,
                                  const Operand& normalizer,
                                  const MetricOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const LabelsAndPredictions pair = PairOf(labels, predictions);
  const LabelsAndPredictions by(FloatUnlessTyped(normalizer), pair.predictions);
  return ScopedMeanOf(
      ops::DivNoNan(ops::Abs(pair.labels - pair.predictions), by.labels),
      options, "mean_relative_error", loc);
}

Metric StreamingMeanCosineDistance(const Operand& labels,
                                   const Operand& predictions, int axis,
                                   const MetricOptions& options,
                                   SourceLoc loc) {
  const AtLine at(loc);
  const LabelsAndPredictions pair = PairOf(labels, predictions);
  const Output products = ops::Mul(pair.predictions, pair.labels);
  const Metric mean =
      ScopedMeanOf(ops::Sum(products, {axis}, {.keep_dims = true}), options,
                   "mean_cosine_distance", loc);
  if (mean.update == nullptr) return {};
  const Output value = ops::Sub(1.0, mean.value, {.name = "Sub"});
  return MetricOf(value, ops::Sub(1.0, mean.updated, {.name = "Sub"}));
}

Metric Accuracy(const Operand& labels, const Operand& predictions,
                const MetricOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  Output l = labels.Get(), p = predictions.Get();
  if (l.valid() && p.valid() && RemoveRef(l.dtype()) != RemoveRef(p.dtype())) {
    if (IsInteger(RemoveRef(l.dtype())) && IsInteger(RemoveRef(p.dtype()))) {
      l = InType(l, DType::kInt64);
      p = InType(p, DType::kInt64);
    } else {
      p = InType(p, RemoveRef(l.dtype()));
    }
  }
  const LabelsAndPredictions pair(l, p);
  return ScopedMeanOf(ops::Cast(pair.predictions == pair.labels, DType::kFloat),
                      options, "accuracy", loc);
}

Metric CountOf(Outcome outcome, const Operand& labels,
               const Operand& predictions, const MetricOptions& options,
               SourceLoc loc) {
  const AtLine at(loc);
  if (!IsOutcome(outcome, loc)) return {};
  const LabelsAndPredictions pair = Booleans(labels, predictions);
  return CountIn(outcome, pair,
                 options.name.empty() ? NameOfCount(outcome) : options.name,
                 options, loc);
}

Metric Precision(const Operand& labels, const Operand& predictions,
                 const MetricOptions& options, SourceLoc loc) {
  const MetricScope scope(options, "precision", loc);
  return PartOf(labels, predictions, Outcome::kFalsePositive, options, loc);
}

Metric Recall(const Operand& labels, const Operand& predictions,
              const MetricOptions& options, SourceLoc loc) {
  const MetricScope scope(options, "recall", loc);
  return PartOf(labels, predictions, Outcome::kFalseNegative, options, loc);
}

Metric MeanIou(const Operand& labels, const Operand& predictions,
               int64_t classes, const MetricOptions& options, SourceLoc loc) {
  const MetricScope scope(options, "mean_iou", loc);
  if (!ClassesAreFew("MeanIou", classes, loc)) return {};
  const Shape shape({classes, classes});
  const Var counts =
      SumsOf(options, "total_confusion_matrix", shape, DType::kDouble);
  const Output p = InType(predictions, DType::kInt64);
  const LabelsAndPredictions pair(InType(labels, DType::kInt64), p);
  if (!counts.valid() || !pair.labels.valid() || !pair.predictions.valid())
    return {};
  const Output w =
      BroadcastWeights(pair.predictions, options.weights, DType::kDouble);
  const Output pairs = ops::Pack(
      {ops::Reshape(pair.labels, {-1}), ops::Reshape(pair.predictions, {-1})},
      {.axis = 1});
  const Output batch =
      ops::ScatterNd(pairs, ops::Reshape(w, {-1}),
                     Constant(Tensor::Vector<int64_t>({classes, classes})));
  const Output updated = AddedTo(counts, batch, loc);
  const Output seen = counts;
  const auto sums = [&](int axis) {
    return ops::Cast(ops::Sum(seen, {axis}), DType::kFloat);
  };
  const Output both = ops::Cast(ops::MatrixDiagPart(seen), DType::kFloat);
  const Output either = sums(0) + sums(1) - both;
  const Output occur = ops::Sum(ops::Cast(either != 0, DType::kFloat), {0});
  const Output each = ops::DivNoNan(both, either, {.name = "div_no_nan"});
  return MetricOf(ops::DivNoNan(ops::Sum(each, {0}, {.name = "mean_iou"}),
                                occur, {.name = "div_no_nan"}),
                  updated);
}

Metric MeanPerClassAccuracy(const Operand& labels, const Operand& predictions,
                            int64_t classes, const MetricOptions& options,
                            SourceLoc loc) {
  const MetricScope scope(options, "mean_accuracy", loc);
  if (!ClassesAreFew("MeanPerClassAccuracy", classes, loc)) return {};
  const LabelsAndPredictions pair(InType(labels, DType::kInt64),
                                  InType(predictions, DType::kInt64));
  const Var total = SumsOf(options, "total", Shape({classes})),
            count = SumsOf(options, "count", Shape({classes}));
  const Output& l = pair.labels;
  if (!l.valid() || !total.valid() || !count.valid()) return {};
  Output n = ops::Cast(ops::OnesLike(l), DType::kFloat),
         right = ops::Cast(l == pair.predictions, DType::kFloat);
  if (!CountOnce(options)) {
    n = BroadcastWeights(l, options.weights, DType::kFloat);
    right = right * n;
  }
  const Output rows = ops::Reshape(l, {-1});
  const Output counted = AddedToRows(count, rows, ops::Reshape(n, {-1}), loc);
  const Output more = AddedToRows(total, rows, ops::Reshape(right, {-1}), loc);
  const Output parts = RatioOf(total, count, "value");
  return MetricOf(ops::Mean(parts, {0}, {.name = "mean_accuracy"}),
                  RatioOf(more, counted, "update_op"));
}

Node* MetricsInitializer(SourceLoc loc) {
  return VariablesInitializer(VariablesIn(kMetricVariables), "init_metrics",
                              loc);
}

}  // namespace sluice
