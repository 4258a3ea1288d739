#include "client/nn/metric_parts.h"

#include "client/nn/fitting_shapes.h"
#include "client/operators.h"
#include "client/reductions.h"
#include "client/types_and_shapes.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {

Var SumsOf(const MetricOptions& options, const std::string& name,
           const Shape& shape, DType dtype) {
  if (options.variable) return options.variable(name, shape, dtype);
  VarOptions how;
  how.trainable = false;
  how.collections = {kLocalVariables, kMetricVariables};
  const NoControlDependencies initialisers_run_alone;
  return Var(Zeros(shape, dtype, {}), name, how, {});
}

namespace {

Output ValueAfter(const Var& sums, Node* update, SourceLoc loc) {
  if (update == nullptr) return CurrentGraph().Failure();
  if (sums.is_reference()) return Output(update);
  const ControlDependencies after({update});
  return sums.Read(loc);
}

}  // namespace

Output AddedTo(const Var& sums, const Output& delta, SourceLoc loc) {
  return ValueAfter(sums, sums.AssignAdd(delta, loc), loc);
}

Output AddedToRows(const Var& sums, const Output& rows, const Output& delta,
                   SourceLoc loc) {
  if (!sums.valid() || !rows.valid() || !delta.valid())
    return CurrentGraph().Failure();
  if (sums.is_reference()) return ops::ScatterAdd(sums.handle(), rows, delta);
  return ValueAfter(sums, ops::ResourceScatterAdd(sums.handle(), rows, delta),
                    loc);
}

Metric MetricOf(const Output& value, const Output& updated) {
  if (!value.valid() || !updated.valid()) return {};
  return {value, updated, updated.node};
}

Output TotalOf(const Output& x) {
  return Shaped(ops::Sum(x, AllAxes(x), {.name = "Sum"}),
                PartialShape::Scalar(), {});
}

Output FloatUnlessTyped(const Operand& x) {
  return x.Get(x.weak ? DType::kFloat : DType::kInvalid);
}

Output RatioOf(const Output& total, const Output& count,
               const std::string& name) {
  return ops::DivNoNan(total, ops::Maximum(count, 0), {.name = name});
}

Output WithoutExtraDimension(const Output& x, const Output& other) {
  if (!x.valid() || !other.valid()) return x;
  const PartialShape shape = x.shape(), fewer = other.shape();
  if (!shape.rank_known() || !fewer.rank_known() ||
      shape.rank() != fewer.rank() + 1)
    return x;
  const int64_t last = shape.dim(shape.rank() - 1);
  return last == 1 || last < 0 ? ops::Squeeze(x, {.squeeze_dims = {-1}}) : x;
}

LabelsAndPredictions::LabelsAndPredictions(const Output& l, const Output& p)
    : labels(WithoutExtraDimension(l, p)),
      predictions(WithoutExtraDimension(p, l)) {
  if (!labels.valid() || !predictions.valid()) return;
  const PartialShape a = labels.shape(), b = predictions.shape();
  if (!a.MergeWith(b).ok())
    labels = UnequalShapes("metric", labels, predictions);
  else if (!a.fully_known() || !b.fully_known())
    labels =
        FittingLabels(predictions, labels, !a.rank_known() || !b.rank_known());
}

bool IsOutcome(Outcome outcome, SourceLoc loc) {
  const int number = static_cast<int>(outcome);
  if (number <= static_cast<int>(Outcome::kFalsePositive)) return true;
  BuildError(
      InvalidArgument("metric: expected an Outcome, got the number ", number),
      loc);
  return false;
}

Output WhichAre(Outcome outcome, const Output& l, const Output& p) {
  switch (outcome) {
    case Outcome::kTruePositive:
      return l && p;
    case Outcome::kFalseNegative:
      return l && !p;
    case Outcome::kTrueNegative:
      return !(l || p);
    case Outcome::kFalsePositive:
      return !l && p;
  }
  return {};
}

const char* NameOfCount(Outcome outcome) {
  switch (outcome) {
    case Outcome::kTruePositive:
      return "true_positives";
    case Outcome::kFalseNegative:
      return "false_negatives";
    case Outcome::kTrueNegative:
      return "true_negatives";
    case Outcome::kFalsePositive:
      return "false_positives";
  }
  return "";
}

bool CountOnce(const MetricOptions& options) {
  const Operand& w = options.weights;
  return !w.output.valid() && w.weak && w.literal.valid() &&
         w.literal.rank() == 0 && w.literal.dtype() == DType::kDouble &&
         w.literal.scalar<double>() == 1;
}

Output WeightsOf(const Output& values, const Operand& weights, DType t) {
  Output w = InType(weights, t);
  if (!w.valid() || !values.valid()) return FittingWeights(w, values);
  const PartialShape have = w.shape(), want = values.shape();
  if (have.rank() == 0) return w;
  if (!have.rank_known() || !want.rank_known())
    return FittingWeights(InRank(w, ops::Rank(values)), values);
  w = WithoutExtraDimension(w, values);
  if (w.valid() && have.rank() + 1 == want.rank()) w = ops::ExpandDims(w, -1);
  return FittingWeights(w, values);
}

Output BroadcastWeights(const Output& values, const Operand& weights, DType t) {
  const Output w = WeightsOf(values, weights, t);
  if (!w.valid() || !values.valid()) return w;
  const PartialShape have = w.shape(), want = values.shape();
  if (have.fully_known() && want.fully_known() && have == want) return w;
  return w * ops::Cast(ops::OnesLike(values), t);
}

}  // namespace sluice
