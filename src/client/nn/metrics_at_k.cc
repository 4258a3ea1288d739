#include "client/nn/metrics_at_k.h"

#include <functional>

#include "client/nn/metric_parts.h"
#include "client/operators.h"
#include "client/types_and_shapes.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// Sets of classes of the rows: dense [..., n], or sparse.
struct Classes {
  Output dense;
  SparseOutput sparse;
  bool is_sparse() const { return !dense.valid(); }
  bool valid() const {
    return dense.valid() || (sparse.indices.valid() && sparse.values.valid() &&
                             sparse.dense_shape.valid());
  }
};

// [size(shape)] or, without the last dimension if it has one, with 1 there.
Output RowsWithOne(const Output& shape) {
  const Output rows =
      ops::StridedSlice(shape, {0}, {-1}, {1}, {.begin_mask = 1});
  return ops::ConcatV2({rows, InType(Operand(Tensor::Vector<int32_t>({1})),
                                     RemoveRef(shape.dtype()))},
                       0);
}

// A shape, with a last dimension of 1 if its rank is one less than that of the
// predictions.
Output WithLabelDimension(const Output& shape, const Output& predictions) {
  const Output n = ops::Size(shape), rank = ops::Rank(predictions);
  const Output longer = ops::ConcatV2(
      {shape,
       InType(Operand(Tensor::Vector<int32_t>({1})), RemoveRef(shape.dtype()))},
      0);
  return ops::Slice(longer, {0},
                    ops::Pack({ops::SelectV2(n < rank, n + 1, n)}));
}

// Labels as int64, with a dimension for several of a row.
Classes LabelsOf(const ClassLabels& labels, const Output& predictions) {
  Classes classes;
  if (labels.sparse.has_value()) {
    const SparseOutput& s = *labels.sparse;
    if (!s.indices.valid() || !s.values.valid() || !s.dense_shape.valid())
      return classes;
    const auto made =
        ops::SparseReshape(s.indices, s.dense_shape,
                           WithLabelDimension(s.dense_shape, predictions));
    classes.sparse = {made.output_indices, InType(s.values, DType::kInt64),
                      made.output_shape};
    return classes;
  }
  Output l = InType(labels.dense, DType::kInt64);
  if (!l.valid() || !predictions.valid()) return classes;
  const PartialShape have = l.shape(), want = predictions.shape();
  if (!have.rank_known() || !want.rank_known())
    l = ops::Reshape(l, WithLabelDimension(ops::Shape(l), predictions));
  else if (have.rank() + 1 == want.rank())
    l = ops::ExpandDims(l, -1);
  classes.dense = l;
  return classes;
}

// a op b, of rows. `a` is dense.
SparseOutput SetOf(const Output& a, const Classes& b, const std::string& op) {
  if (b.is_sparse()) {
    const auto set = ops::DenseToSparseSetOperation(
        a, b.sparse.indices, b.sparse.values, b.sparse.dense_shape, op);
    return {set.result_indices, set.result_values, set.result_shape};
  }
  const auto set = ops::DenseToDenseSetOperation(a, b.dense, op);
  return {set.result_indices, set.result_values, set.result_shape};
}
SparseOutput SetOf(const Classes& a, const Classes& b, const std::string& op) {
  if (!a.is_sparse()) return SetOf(a.dense, b, op);
  if (!b.is_sparse())
    return SetOf(b.dense, a, op == "a-b" ? "b-a" : op == "b-a" ? "a-b" : op);
  const auto set = ops::SparseToSparseSetOperation(
      a.sparse.indices, a.sparse.values, a.sparse.dense_shape, b.sparse.indices,
      b.sparse.values, b.sparse.dense_shape, op);
  return {set.result_indices, set.result_values, set.result_shape};
}

// The classes of an id.
Classes Selected(const Classes& classes, const AtKOptions& at) {
  if (!at.class_id.has_value() || !classes.valid()) return classes;
  const Output shape = classes.is_sparse() ? classes.sparse.dense_shape
                                           : ops::Shape(classes.dense);
  const Output wanted =
      ops::Fill(RowsWithOne(shape), Constant(int64_t{*at.class_id}));
  Classes selected;
  selected.sparse = SetOf(wanted, classes, "intersection");
  return selected;
}

std::string NameAtK(const std::string& what, int64_t k, const AtKOptions& at) {
  std::string name = what;
  if (k != 0) absl::StrAppend(&name, "_at_", k);
  if (at.class_id.has_value()) absl::StrAppend(&name, "_class", *at.class_id);
  return name;
}

// The number of classes in sets, before and after this batch.
struct Sum {
  Output before, after;
};
Sum Counted(const std::string& name, const SparseOutput& set,
            const MetricOptions& options, SourceLoc loc) {
  // (The variable has the name of the scope that its nodes are in.)
  const std::string within = CurrentNamePrefix();
  const Var sums = SumsOf(options, name, {}, DType::kDouble);
  if (!sums.valid() || !set.indices.valid()) return {};
  const NameScope scope(within + name + "/");
  Output n = ops::Cast(ops::SetSize(set.indices, set.values, set.dense_shape),
                       DType::kDouble);
  if (!CountOnce(options))
    n = ops::Mul(n, WeightsOf(n, options.weights, DType::kDouble),
                 {.name = "Mul"});
  return {sums, AddedTo(sums, TotalOf(n), loc)};
}

// hits / (hits + others), of what is only among the best (`best_only`) or only
// among the labels.
Metric PartAtK(const ClassLabels& labels, const Output& classes,
               const char* other, bool best_only, int64_t k,
               const AtKOptions& at, const MetricOptions& options,
               const std::string& whole, SourceLoc loc) {
  const Output ids = InType(classes, DType::kInt64);
  if (!ids.valid()) return {};
  const Classes wanted = Selected(LabelsOf(labels, ids), at);
  Classes best;
  best.dense = ids;
  best = Selected(best, at);
  if (!wanted.valid() || !best.valid()) return {};
  const Sum hits = Counted(NameAtK("true_positive", k, at),
                           SetOf(best, wanted, "intersection"), options, loc);
  const Sum rest =
      Counted(NameAtK(other, k, at),
              SetOf(best, wanted, best_only ? "a-b" : "b-a"), options, loc);
  if (!hits.after.valid() || !rest.after.valid()) return {};
  const Output value =
      ops::RealDiv(hits.before, hits.before + rest.before, {.name = whole});
  return MetricOf(value, ops::RealDiv(hits.after, hits.after + rest.after,
                                      {.name = "update"}));
}

// The best k of scores.
Output Best(const Operand& scores, int64_t k, SourceLoc loc) {
  if (k < 1 || k > std::numeric_limits<int32_t>::max())
    return BuildError(
        InvalidArgument("metric: expected k of at least 1, got ", k), loc);
  const Output x = FloatUnlessTyped(scores);
  return x.valid() ? ops::TopKV2(x, Constant(static_cast<int32_t>(k))).indices
                   : x;
}

// Of each row: the mean, over its labels, of the precision at their places.
Output AveragePrecisions(const Classes& given, const Output& best) {
  Output labels = given.dense, relevant;
  if (given.is_sparse()) {
    const SparseOutput& s = given.sparse;
    relevant = ops::SetSize(s.indices, s.values, s.dense_shape);
    // (-1 is not a class.)
    labels =
        ops::SparseToDense(s.indices, s.dense_shape, s.values,
                           Constant(int64_t{-1}), {.validate_indices = false});
  } else {
    // (Negative labels fill rows that have fewer.)
    relevant =
        ops::Sum(ops::Cast(ops::GreaterEqual(labels, Constant(int64_t{0})),
                           DType::kInt32),
                 {-1});
  }
  const Output k = ops::StridedSlice(ops::Shape(best), {-1}, {0}, {1},
                                     {.end_mask = 1, .shrink_axis_mask = 1});
  const Output equal = ops::ExpandDims(best, -1) == ops::ExpandDims(labels, -2);
  const Output found = ops::Cast(ops::Any(equal, {-1}), DType::kDouble);
  const Output places = ops::Cast(ops::Range(1, k + 1, 1), DType::kDouble);
  const Output precisions = ops::Cumsum(found, -1) / places;
  const Output sums = ops::Sum(precisions * found, {-1});
  return sums / ops::Cast(ops::Minimum(relevant, k), DType::kDouble);
}

Metric AverageOfBest(const ClassLabels& labels, const Output& classes,
                     const MetricOptions& options, const std::string& whole,
                     SourceLoc loc) {
  const Output best = InType(classes, DType::kInt64);
  if (!best.valid()) return {};
  const Classes wanted = LabelsOf(labels, best);
  if (!wanted.valid()) return {};
  Output average = AveragePrecisions(wanted, best), n;
  if (CountOnce(options)) {
    n = ops::Cast(ops::Size(average), DType::kDouble);
  } else {
    const Output w = BroadcastWeights(average, options.weights, DType::kDouble);
    average = ops::Mul(average, w, {.name = "Mul"});
    n = TotalOf(w);
  }
  const Var max = SumsOf(options, "max", {}, DType::kDouble),
            total = SumsOf(options, "total", {}, DType::kDouble);
  if (!max.valid() || !total.valid() || !n.valid()) return {};
  const Output more = AddedTo(total, TotalOf(average), loc),
               counted = AddedTo(max, n, loc);
  return MetricOf(ops::DivNoNan(total, max, {.name = "mean"}),
                  ops::DivNoNan(more, counted, {.name = whole}));
}

}  // namespace

Metric PrecisionAtTopK(const ClassLabels& labels, const Operand& classes,
                       int64_t k, const AtKOptions& at,
                       const MetricOptions& options, SourceLoc loc) {
  const MetricScope scope(options, NameAtK("precision", k, at), loc);
  return PartAtK(labels, classes.Get(), "false_positive", true, k, at, options,
                 scope.Whole(), loc);
}

Metric RecallAtTopK(const ClassLabels& labels, const Operand& classes,
                    int64_t k, const AtKOptions& at,
                    const MetricOptions& options, SourceLoc loc) {
  const MetricScope scope(options, NameAtK("recall", k, at), loc);
  return PartAtK(labels, classes.Get(), "false_negative", false, k, at, options,
                 scope.Whole(), loc);
}

Metric PrecisionAtK(const ClassLabels& labels, const Operand& scores, int64_t k,
                    const AtKOptions& at, const MetricOptions& options,
                    SourceLoc loc) {
  const MetricScope scope(options, NameAtK("precision", k, at), loc);
  return PartAtK(labels, Best(scores, k, loc), "false_positive", true, k, at,
                 options, scope.Whole(), loc);
}

Metric RecallAtK(const ClassLabels& labels, const Operand& scores, int64_t k,
                 const AtKOptions& at, const MetricOptions& options,
                 SourceLoc loc) {
  const MetricScope scope(options, NameAtK("recall", k, at), loc);
  return PartAtK(labels, Best(scores, k, loc), "false_negative", false, k, at,
                 options, scope.Whole(), loc);
}

Metric AveragePrecisionAtK(const ClassLabels& labels, const Operand& scores,
                           int64_t k, const MetricOptions& options,
                           SourceLoc loc) {
  const MetricScope scope(options, NameAtK("average_precision", k, {}), loc);
  return AverageOfBest(labels, Best(scores, k, loc), options, scope.Whole(),
                       loc);
}

Metric AveragePrecisionAtTopK(const ClassLabels& labels, const Operand& classes,
                              const MetricOptions& options, SourceLoc loc) {
  const MetricScope scope(options, "average_precision_at_top_k", loc);
  return AverageOfBest(labels, classes.Get(), options, scope.Whole(), loc);
}

}  // namespace sluice
