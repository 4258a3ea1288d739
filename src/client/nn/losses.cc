#include "client/nn/losses.h"

#include <functional>

#include "client/nn/fitting_shapes.h"
#include "client/operators.h"
#include "client/reductions.h"
#include "client/tensorflow_names.h"
#include "client/types_and_shapes.h"
#include "client/variable_scope.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

Output AsFloat(const Operand& x) { return InType(x, DType::kFloat); }

Output FloatByDefault(const Operand& x) {
  return x.Get(x.weak ? DType::kFloat : DType::kInvalid);
}

// Labels in the type of the logits.
Output Like(const Output& logits, const Operand& labels) {
  const DType t = logits.valid() ? RemoveRef(logits.dtype()) : DType::kFloat;
  return InType(labels, t);
}

// Weights without the last dimension, of 1, that they may have beyond that of
// `classes`.
Output WeightsOfRows(const Output& weights, const Output& classes) {
  const PartialShape w = weights.shape(), c = classes.shape();
  if (w.rank_known() && (w.rank() == 0 || c.rank_known()))
    return c.rank_known() && w.rank() == c.rank() + 1
               ? ops::Squeeze(weights, {.squeeze_dims = {-1}})
               : weights;
  const Output shape = ops::Shape(weights), rank = ops::Size(shape);
  const Output more = rank == ops::Rank(classes) + 1;
  return ops::Reshape(
      weights,
      ops::Slice(shape, {0}, ops::Pack({ops::SelectV2(more, rank - 1, rank)})));
}

// A loss while it is built: its scope, and TensorFlow's names within.
class LossScope {
 public:
  LossScope(const LossOptions& options, const char* usual, SourceLoc loc)
      : at_(loc), scope_(options.name.empty() ? usual : options.name) {}

 private:
  const AtLine at_;
  const NameScope scope_;
  const TensorFlowNames names_;
};

// Labels and predictions; an error unless they have one shape.
struct Pair {
  Pair(const Output& l, const Output& p) : labels(l), predictions(p) {
    if (!labels.valid() || !predictions.valid()) return;
    if (!labels.shape().MergeWith(predictions.shape()).ok())
      labels = UnequalShapes("loss", labels, predictions);
  }
  // In floats. (The predictions come first, which decides the nodes' names.)
  static Pair Floats(const Operand& l, const Operand& p) {
    const Output predictions = AsFloat(p);
    return {AsFloat(l), predictions};
  }
  Output labels, predictions;
};

// The sum of all elements, a scalar also where the rank of x is not known.
Output WholeSum(const Output& x, const std::string& name = "Sum") {
  return Shaped(ops::Sum(x, AllAxes(x), {.name = name}), PartialShape::Scalar(),
                {});
}

// Along axes, of which sizes of 1 remain.
Output SumAlong(const Output& x, const Operand& axes,
                const std::string& name = "Sum") {
  return ops::Sum(x, axes, {.keep_dims = true, .name = name});
}

// The number of losses whose weight is not zero: in all, or (with sizes of 1)
// in each example.
Output NumPresent(const Output& losses, const Output& weights,
                  bool per_example = false) {
  const NameScope scope("num_present");
  const Output present = ops::Cast(weights != 0.0, DType::kFloat);
  const Output all = present * ops::OnesLike(losses);
  const std::string whole = scope.prefix() + "/";
  return per_example ? SumAlong(all, ops::Range(1, ops::Rank(all), 1), whole)
                     : WholeSum(all, whole);
}

Output Collected(const Output& loss, const LossOptions& options) {
  if (!loss.valid() || options.collection.empty()) return loss;
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  g.collections()[options.collection].push_back(loss);
  return loss;
}

// losses * weights, reduced, in the scope of the loss.
Output Weighted(const Output& given, const LossOptions& options) {
  if (!given.valid()) return ops::Identity(given);
  const Output loss = AsFloat(given);
  const Output weights = FittingWeights(AsFloat(options.weights), loss);
  Output result = ops::Mul(loss, weights, {.name = "Mul"});
  const Output weighted = result;
  if (options.reduction != LossReduction::kNone) result = WholeSum(weighted);
  Output count;
  switch (options.reduction) {
    case LossReduction::kNone:
    case LossReduction::kSum:
      break;
    case LossReduction::kSumOverBatchSize:
      count = ops::Cast(ops::Size(loss), DType::kFloat);
      break;
    case LossReduction::kMean: {
      const Output each = ops::OnesLike(loss) * weights;
      count = WholeSum(each);
      break;
    }
    case LossReduction::kSumByNonzeroWeights:
      count = NumPresent(loss, weights);
      break;
  }
  if (count.valid()) result = ops::DivNoNan(result, count, {.name = "value"});
  const DType t = RemoveRef(given.dtype());
  return Collected(t == DType::kFloat ? result : ops::Cast(result, t), options);
}

// [...] losses of [..., classes] logits: `of_rows` takes [n, classes] and gives
// [n], both named by the scope that it is given.
Output LossOfRows(
    const Output& logits,
    const std::function<Output(const Output& rows, const std::string& name)>&
        of_rows) {
  if (!logits.valid()) return logits;
  const NameScope scope("xentropy");
  const std::string whole = scope.prefix() + "/";
  const PartialShape known = logits.shape();
  if (known.rank() == 2) return of_rows(logits, whole);
  if (known.rank() == 0)
    return BuildError(InvalidArgument(
        "loss: expected logits with a dimension of classes, got a scalar"));
  const Output shape = ops::Shape(logits);
  const Output classes = ops::StridedSlice(
      shape, {-1}, {0}, {1}, {.end_mask = 1, .shrink_axis_mask = 1});
  const Output rows = ops::Reshape(
      logits, ops::Pack({Constant(int32_t{-1}), classes}, {.axis = 0}));
  const Output outer =
      ops::StridedSlice(shape, {0}, {-1}, {1}, {.begin_mask = 1});
  const Output losses =
      ops::Reshape(of_rows(rows, "xentropy"), outer, {.name = whole});
  if (!known.rank_known()) return losses;
  const auto dims = known.dims();
  return Shaped(losses, PartialShape(Dims(dims.begin(), dims.end() - 1)), {});
}

}  // namespace

Output WeightedLoss(const Operand& losses, const LossOptions& options,
                    SourceLoc loc) {
  const LossScope scope(options, "weighted_loss", loc);
  return Weighted(FloatByDefault(losses), options);
}

Output AbsoluteDifference(const Operand& labels, const Operand& predictions,
                          const LossOptions& options, SourceLoc loc) {
  const LossScope scope(options, "absolute_difference", loc);
  const Pair p = Pair::Floats(labels, predictions);
  const Output error = ops::Sub(p.predictions, p.labels, {.name = "Sub"});
  return Weighted(ops::Abs(error), options);
}

Output MeanSquaredError(const Operand& labels, const Operand& predictions,
                        const LossOptions& options, SourceLoc loc) {
  const LossScope scope(options, "mean_squared_error", loc);
  const Pair p = Pair::Floats(labels, predictions);
  return Weighted(ops::SquaredDifference(p.predictions, p.labels), options);
}

Output HuberLoss(const Operand& labels, const Operand& predictions,
                 const LossOptions& options, SourceLoc loc) {
  const LossScope scope(options, "huber_loss", loc);
  const Pair p = Pair::Floats(labels, predictions);
  const Output error = ops::Abs(p.predictions - p.labels);
  const Output near = ops::Minimum(error, options.delta);
  const Output quadratic = 0.5 * near * near;
  const Output far = error - near;
  return Weighted(quadratic + options.delta * far, options);
}

Output LogLoss(const Operand& labels, const Operand& predictions,
               const LossOptions& options, SourceLoc loc) {
  const LossScope scope(options, "log_loss", loc);
  const Pair p = Pair::Floats(labels, predictions);
  const Operand& e = options.epsilon;
  const Output of_true = -p.labels * ops::Log(p.predictions + e);
  const Output others = 1 - p.labels;
  const Output of_false = others * ops::Log(1 - p.predictions + e);
  return Weighted(of_true - of_false, options);
}

Output HingeLoss(const Operand& labels, const Operand& logits,
                 const LossOptions& options, SourceLoc loc) {
  const LossScope scope(options, "hinge_loss", loc);
  const Pair p = Pair::Floats(labels, logits);
  const Output signs = 2 * p.labels - 1;
  return Weighted(ops::Relu(1 - signs * p.predictions), options);
}

Output CosineDistance(const Operand& labels, const Operand& predictions,
                      int axis, const LossOptions& options, SourceLoc loc) {
  const LossScope scope(options, "cosine_distance_loss", loc);
  const Pair p = Pair::Floats(labels, predictions);
  const Output products = ops::Mul(p.predictions, p.labels, {.name = "Mul"});
  return Weighted(1 - SumAlong(products, {axis}), options);
}

Output SigmoidCrossEntropy(const Operand& labels, const Operand& logits,
                           const LossOptions& options, SourceLoc loc) {
  const LossScope scope(options, "sigmoid_cross_entropy_loss", loc);
  const Output x = FloatByDefault(logits);
  const Pair p(Like(x, labels), x);
  Output z = p.labels;
  const double smoothing = options.label_smoothing;
  if (smoothing > 0) z = z * (1 - smoothing) + 0.5 * smoothing;
  const auto losses = [&] {
    const NameScope xentropy("xentropy");
    // max(x, 0) - x z + log(1 + exp(-|x|)), which does not overflow.
    // (Selections, because the gradients of Relu and Abs are both 0 at 0.)
    const Output zeros = ops::ZerosLike(x, {.name = "zeros_like"});
    const Output positive = x >= zeros;
    const Output relu = ops::SelectV2(positive, x, zeros, {.name = "Select"});
    const Output negative = -x;
    const Output minus_abs =
        ops::SelectV2(positive, negative, x, {.name = "Select"});
    const Output linear = relu - x * z;
    return ops::AddV2(linear, ops::Log1p(ops::Exp(minus_abs)),
                      {.name = xentropy.prefix() + "/"});
  };
  return Weighted(losses(), options);
}

Output SoftmaxCrossEntropy(const Operand& labels, const Operand& logits,
                           const LossOptions& options, SourceLoc loc) {
  const LossScope scope(options, "softmax_cross_entropy_loss", loc);
  const Output x = FloatByDefault(logits);
  const Pair p(Like(x, labels), x);
  Output z = p.labels;
  const double smoothing = options.label_smoothing;
  if (smoothing > 0 && x.valid() && z.valid()) {
    const Output count = ops::StridedSlice(
        ops::Shape(z), {-1}, {0}, {1},
        {.end_mask = 1, .shrink_axis_mask = 1, .name = "strided_slice"});
    const Output classes = ops::Cast(count, RemoveRef(x.dtype()));
    z = z * (1 - smoothing) + smoothing / classes;
  }
  z = ops::StopGradient(z, {.name = "labels_stop_gradient"});
  const bool in_rows = x.valid() && x.shape().rank() == 2;
  if (!in_rows && x.valid() && z.valid() &&
      !(x.shape().fully_known() && z.shape().fully_known()))
    z = FittingLabels(x, z, /*any_rank=*/false);
  const auto of_rows = [&](const Output& rows, const std::string& name) {
    const Output parts = rows.SameAs(x) ? z : ops::Reshape(z, ops::Shape(rows));
    return ops::SoftmaxCrossEntropyWithLogits(rows, parts, {.name = name}).loss;
  };
  return Weighted(LossOfRows(x, of_rows), options);
}

Output SparseSoftmaxCrossEntropy(const Operand& labels, const Operand& logits,
                                 const LossOptions& options, SourceLoc loc) {
  const LossScope scope(options, "sparse_softmax_cross_entropy_loss", loc);
  const Output x = FloatByDefault(logits);
  Output classes = labels.Get();
  LossOptions how = options;
  if (classes.valid() && x.valid()) {
    const PartialShape l = classes.shape(), whole = x.shape();
    const bool known = l.rank_known() && whole.rank_known();
    if (known && l.rank() == whole.rank() && l.rank() > 0)
      classes = ops::Squeeze(classes, {.squeeze_dims = {-1}});
    PartialShape rows;
    if (whole.rank() > 0) {
      const auto dims = whole.dims();
      rows = PartialShape(Dims(dims.begin(), dims.end() - 1));
    }
    if (classes.valid() && whole.rank() != 0) {
      const PartialShape c = classes.shape();
      if (!c.MergeWith(rows).ok())
        return BuildError(InvalidArgument(
            "loss: expected labels of the shape of the logits without their "
            "last dimension, got ",
            l.ToString(), " and ", whole.ToString(), "; labels: ",
            classes.node->Describe(), "; logits: ", x.node->Describe()));
      // (Of rows in one dimension, the op counts the labels.)
      if (whole.rank() == 2 ? !c.rank_known()
                            : !c.fully_known() || !rows.fully_known())
        classes = FittingLabels(x, classes, /*any_rank=*/!known, /*rows=*/true);
    }
    const Output weights = options.weights.Get(DType::kFloat);
    if (weights.valid() && classes.valid())
      how.weights = WeightsOfRows(weights, classes);
  }
  const auto of_rows = [&](const Output& rows, const std::string& name) {
    const Output flat = rows.SameAs(x) ? classes : ops::Reshape(classes, {-1});
    return ops::SparseSoftmaxCrossEntropyWithLogits(rows, flat, {.name = name})
        .loss;
  };
  return Weighted(LossOfRows(x, of_rows), how);
}

Output MeanPairwiseSquaredError(const Operand& labels,
                                const Operand& predictions,
                                const LossOptions& options, SourceLoc loc) {
  const LossScope scope(options, "mean_pairwise_squared_error", loc);
  const Pair p = Pair::Floats(labels, predictions);
  Output weights = AsFloat(options.weights);
  const Output fitting = FittingWeights(weights, p.labels);
  if (!fitting.valid()) return ops::Identity(fitting);
  if (!fitting.SameAs(weights)) {
    // (Weights of examples are not to be repeated for each element.)
    const ControlDependencies checked({fitting.node});
    weights = ops::Identity(weights);
  }
  const Output error = ops::Sub(p.predictions, p.labels, {.name = "Sub"});
  const Output elements = ops::Range(1, ops::Rank(error), 1);
  const Output present = NumPresent(error, weights, /*per_example=*/true);
  const Output others = ops::Maximum(present - 1, 0);
  const Output squares = SumAlong(ops::Square(error), elements);
  const Output total = SumAlong(error, elements);
  const Output first = 2 * ops::DivNoNan(squares, others, {.name = "value"});
  const Output second = 2 * ops::DivNoNan(ops::Square(total), present * others,
                                          {.name = "value"});
  const Output weighted = (first - second) * weights;
  const Output loss = WholeSum(weighted);
  const Output some = WholeSum(present) > 0;
  return Collected(
      ops::SelectV2(some, loss, ops::ZerosLike(loss), {.name = "value"}),
      options);
}

std::vector<Output> Losses(const std::string& scope,
                           const std::string& collection) {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  std::vector<Output> losses;
  const auto it = g.collections().find(collection);
  if (it == g.collections().end()) return losses;
  for (const Output& loss : it->second)
    if (scope.empty() || loss.node->name().starts_with(scope + "/"))
      losses.push_back(loss);
  return losses;
}

Output TotalLoss(bool with_regularization, const std::string& name,
                 SourceLoc loc) {
  const AtLine at(loc);
  std::vector<Output> losses = Losses();
  if (with_regularization)
    for (const Output& loss : RegularizationLosses()) losses.push_back(loss);
  if (losses.empty())
    return BuildError(InvalidArgument("TotalLoss: expected losses, got none"));
  return ops::AddN(losses, {.name = name});
}

}  // namespace sluice
