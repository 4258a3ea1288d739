#include "client/nn/metrics.h"

#include <vector>

#include "client/nn/fitting_shapes.h"
#include "client/operators.h"
#include "client/types_and_shapes.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// More would be megabytes of sums per step.
constexpr int64_t kMostThresholds = 1000000, kMostClasses = 10000;

Var Sums(const std::string& name, const Shape& shape, DType t = DType::kFloat) {
  VarOptions options;
  options.trainable = false;
  options.collections = {kLocalVariables, kMetricVariables};
  const NoControlDependencies initialisers_run_alone;
  return Var(Zeros(shape, t, {}), name, options, {});
}

Output Total(const Output& x) {
  return ops::Sum(x, ops::Range(0, ops::Rank(x), 1));
}

std::string NameOf(const MetricOptions& options, const char* usual) {
  return options.name.empty() ? usual : options.name;
}

// Of `update` nodes; none if one of them failed.
Metric Made(const Output& value, const std::vector<Node*>& updates,
            SourceLoc loc) {
  Metric m;
  m.value = value;
  for (Node* n : updates)
    if (n == nullptr) return {};
  m.update = Group(updates, "update_op", loc);
  return m;
}

// x without its last dimension, if that is 1 and x has one dimension more than
// `other`.
Output WithoutExtraDimension(const Output& x, const Output& other) {
  if (!x.valid() || !other.valid()) return x;
  const PartialShape shape = x.shape(), fewer = other.shape();
  const bool extra = shape.rank_known() && fewer.rank_known() &&
                     shape.rank() == fewer.rank() + 1 &&
                     shape.dim(shape.rank() - 1) == 1;
  return extra ? ops::Squeeze(x, {.squeeze_dims = {-1}}) : x;
}

// Labels and predictions of one shape; an error unless they have one.
struct LabelsAndPredictions {
  LabelsAndPredictions(const Output& l, const Output& p)
      : labels(WithoutExtraDimension(l, p)),
        predictions(WithoutExtraDimension(p, l)) {
    if (!labels.valid() || !predictions.valid()) return;
    const PartialShape a = labels.shape(), b = predictions.shape();
    if (!a.MergeWith(b).ok())
      labels = BuildError(InvalidArgument(
          "metric: expected labels and predictions of one shape, got ",
          a.ToString(), " and ", b.ToString()));
    else if (!a.fully_known() || !b.fully_known())
      // (Fails in a step with another number of labels.)
      labels = ops::Reshape(labels, ops::Shape(predictions));
  }
  Output labels, predictions;
};

// Weights of values, in a type. As for labels, their last dimension may be 1,
// or missing if that of the values is 1.
Output WeightsOf(const Output& values, const Operand& weights, DType t) {
  Output w = WithoutExtraDimension(InType(weights, t), values);
  if (w.valid() && values.valid() && w.shape().rank() > 0 &&
      w.shape().rank() + 1 == values.shape().rank())
    w = ops::ExpandDims(w, -1);
  return FittingWeights(w, values);
}

Metric MeanOf(const Output& values, const Operand& weights, SourceLoc loc) {
  const Var total = Sums("total", {}), count = Sums("count", {});
  const Output w =
      ops::OnesLike(values) * WeightsOf(values, weights, DType::kFloat);
  return Made(
      ops::DivNoNan(total, count),
      {total.AssignAdd(Total(values * w), loc), count.AssignAdd(Total(w), loc)},
      loc);
}

// tp / (tp + other), where both are sums of weights.
Metric PartOf(const Output& hit, const Output& miss, const char* other,
              const Operand& weights, SourceLoc loc) {
  const Var tp = Sums("true_positives/count", {}), rest = Sums(other, {});
  const Output w = WeightsOf(hit, weights, DType::kFloat);
  const auto sum = [&](const Output& x) {
    return Total(ops::Cast(x, DType::kFloat) * w);
  };
  return Made(ops::DivNoNan(tp, tp + rest),
              {tp.AssignAdd(sum(hit), loc), rest.AssignAdd(sum(miss), loc)},
              loc);
}

}  // namespace

Metric StreamingMean(const Operand& values, const MetricOptions& options,
                     SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope(NameOf(options, "mean"));
  return MeanOf(InType(values, DType::kFloat), options.weights, loc);
}

Metric Accuracy(const Operand& labels, const Operand& predictions,
                const MetricOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope(NameOf(options, "accuracy"));
  Output l = labels.Get(), p = predictions.Get();
  if (l.valid() && p.valid() && RemoveRef(l.dtype()) != RemoveRef(p.dtype()) &&
      IsInteger(RemoveRef(l.dtype())) && IsInteger(RemoveRef(p.dtype()))) {
    l = InType(l, DType::kInt64);
    p = InType(p, DType::kInt64);
  }
  const LabelsAndPredictions pair(l, p);
  return MeanOf(ops::Cast(pair.labels == pair.predictions, DType::kFloat),
                options.weights, loc);
}

Metric Precision(const Operand& labels, const Operand& predictions,
                 const MetricOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope(NameOf(options, "precision"));
  const LabelsAndPredictions pair(InType(labels, DType::kBool),
                                  InType(predictions, DType::kBool));
  const Output &l = pair.labels, &p = pair.predictions;
  return PartOf(l && p, !l && p, "false_positives/count", options.weights, loc);
}

Metric Recall(const Operand& labels, const Operand& predictions,
              const MetricOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope(NameOf(options, "recall"));
  const LabelsAndPredictions pair(InType(labels, DType::kBool),
                                  InType(predictions, DType::kBool));
  const Output &l = pair.labels, &p = pair.predictions;
  return PartOf(l && p, l && !p, "false_negatives/count", options.weights, loc);
}

Metric Auc(const Operand& labels, const Operand& predictions,
           int64_t thresholds, const MetricOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope(NameOf(options, "auc"));
  if (thresholds < 2 || thresholds > kMostThresholds) {
    BuildError(InvalidArgument("Auc: expected thresholds in [2, ",
                               kMostThresholds, "], got ", thresholds),
               loc);
    return {};
  }
  // A little beyond 0 and 1, so that all predictions are between them.
  constexpr double kBeyond = 1e-7, kEpsilon = 1e-6;
  std::vector<float> points(static_cast<size_t>(thresholds));
  for (size_t i = 0; i < points.size(); ++i)
    points[i] = static_cast<float>(static_cast<double>(i) /
                                   static_cast<double>(thresholds - 1));
  points.front() = static_cast<float>(-kBeyond);
  points.back() = static_cast<float>(1 + kBeyond);
  const Output bounds =
      ops::ExpandDims(Constant(Tensor::Vector<float>(points)), 1);
  const LabelsAndPredictions pair(InType(labels, DType::kBool),
                                  InType(predictions, DType::kFloat));
  const Output l = ops::Reshape(pair.labels, {1, -1});
  const Output& p = pair.predictions;
  const Output w = ops::Reshape(
      ops::OnesLike(p) * WeightsOf(p, options.weights, DType::kFloat), {1, -1});
  const Output positive = ops::Reshape(p, {1, -1}) > bounds;
  const Shape shape({thresholds});
  const Var tp = Sums("true_positives", shape),
            fn = Sums("false_negatives", shape),
            tn = Sums("true_negatives", shape),
            fp = Sums("false_positives", shape);
  const auto add = [&](const Var& sum, const Output& which) {
    return sum.AssignAdd(ops::Sum(ops::Cast(which, DType::kFloat) * w, 1), loc);
  };
  const Output x = fp / (fp + tn + kEpsilon);
  const Output y = (tp + kEpsilon) / (tp + fn + kEpsilon);
  const auto but_last = [&](const Output& v) {
    return ops::StridedSlice(v, {0}, {-1}, {1}, {.begin_mask = 1});
  };
  const auto but_first = [](const Output& v) {
    return ops::StridedSlice(v, {1}, {0}, {1}, {.end_mask = 1});
  };
  const Output area = ops::Sum(
      (but_last(x) - but_first(x)) * ((but_last(y) + but_first(y)) / 2), 0);
  return Made(area,
              {add(tp, l && positive), add(fn, l && !positive),
               add(tn, !l && !positive), add(fp, !l && positive)},
              loc);
}

Metric MeanIou(const Operand& labels, const Operand& predictions,
               int64_t classes, const MetricOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope(NameOf(options, "mean_iou"));
  if (classes < 1 || classes > kMostClasses) {
    BuildError(InvalidArgument("MeanIou: expected classes in [1, ",
                               kMostClasses, "], got ", classes),
               loc);
    return {};
  }
  const Shape shape({classes, classes});
  const Var counts = Sums("total_confusion_matrix", shape, DType::kDouble);
  const LabelsAndPredictions pair(InType(labels, DType::kInt64),
                                  InType(predictions, DType::kInt64));
  const Output &l = pair.labels, &p = pair.predictions;
  const Output w = ops::Cast(ops::OnesLike(p), DType::kDouble) *
                   WeightsOf(p, options.weights, DType::kDouble);
  const Output pairs =
      ops::Pack({ops::Reshape(l, {-1}), ops::Reshape(p, {-1})}, {.axis = 1});
  const Output batch =
      ops::ScatterNd(pairs, ops::Reshape(w, {-1}),
                     Constant(Tensor::Vector<int64_t>({classes, classes})));
  const Output seen = ops::Cast(counts, DType::kFloat);
  const Output both = ops::MatrixDiagPart(seen);
  const Output either = ops::Sum(seen, 0) + ops::Sum(seen, 1) - both;
  const Output occur = ops::Sum(ops::Cast(either != 0, DType::kFloat), 0);
  return Made(ops::DivNoNan(ops::Sum(ops::DivNoNan(both, either), 0), occur),
              {counts.AssignAdd(batch, loc)}, loc);
}

Node* MetricsInitializer(SourceLoc loc) {
  return VariablesInitializer(VariablesIn(kMetricVariables), "init_metrics",
                              loc);
}

}  // namespace sluice
