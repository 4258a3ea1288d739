#include "client/nn/losses.h"

#include "client/nn/fitting_shapes.h"
#include "client/operators.h"
#include "client/types_and_shapes.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

Output AsFloat(const Operand& x) { return InType(x, DType::kFloat); }

Output AllOf(const Output& x) { return ops::Range(0, ops::Rank(x), 1); }

// Labels and predictions, in floats; an error unless they have one shape.
struct Pair {
  Pair(const Output& l, const Output& p) : labels(l), predictions(p) {
    if (!labels.valid() || !predictions.valid()) return;
    const Status same = labels.shape().MergeWith(predictions.shape()).status();
    if (!same.ok())
      labels = BuildError(InvalidArgument(
          "loss: expected labels and predictions of one shape, got ",
          labels.shape().ToString(), " and ", predictions.shape().ToString()));
  }
  static Pair Floats(const Operand& l, const Operand& p) {
    return {AsFloat(l), AsFloat(p)};
  }
  Output labels, predictions;
};

// Labels in the type of the logits.
Output Like(const Output& logits, const Operand& labels) {
  const DType t = logits.valid() ? RemoveRef(logits.dtype()) : DType::kFloat;
  return InType(labels, t);
}

Output FloatByDefault(const Operand& x) {
  return x.Get(x.weak ? DType::kFloat : DType::kInvalid);
}

}  // namespace

Output WeightedLoss(const Operand& losses, const LossOptions& options,
                    SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("weighted_loss");
  const Output given = FloatByDefault(losses);
  if (!given.valid()) return ops::Identity(given);
  const Output loss = AsFloat(given);
  const Output weights = FittingWeights(AsFloat(options.weights), loss);
  const Output weighted = loss * weights;
  Output result = weighted;
  if (options.reduction != LossReduction::kNone) {
    result = ops::Sum(weighted, AllOf(weighted));
    const auto broadcast = [&](const Output& x) {
      return ops::Sum(ops::OnesLike(loss) * x, AllOf(loss));
    };
    Output count;
    switch (options.reduction) {
      case LossReduction::kNone:
      case LossReduction::kSum:
        break;
      case LossReduction::kSumOverBatchSize:
        count = ops::Cast(ops::Size(loss), DType::kFloat);
        break;
      case LossReduction::kMean:
        count = broadcast(weights);
        break;
      case LossReduction::kSumByNonzeroWeights:
        count = broadcast(ops::Cast(weights != 0, DType::kFloat));
        break;
    }
    if (options.reduction != LossReduction::kSum)
      result = ops::DivNoNan(result, count);
  }
  const DType t = RemoveRef(given.dtype());
  return t == DType::kFloat ? result : ops::Cast(result, t);
}

Output AbsoluteDifference(const Operand& labels, const Operand& predictions,
                          const LossOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("absolute_difference");
  const Pair p = Pair::Floats(labels, predictions);
  return WeightedLoss(ops::Abs(p.predictions - p.labels), options, loc);
}

Output MeanSquaredError(const Operand& labels, const Operand& predictions,
                        const LossOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("mean_squared_error");
  const Pair p = Pair::Floats(labels, predictions);
  return WeightedLoss(ops::SquaredDifference(p.predictions, p.labels), options,
                      loc);
}

Output HuberLoss(const Operand& labels, const Operand& predictions,
                 const LossOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("huber_loss");
  const Pair p = Pair::Floats(labels, predictions);
  const Output error = ops::Abs(p.predictions - p.labels);
  const Output near = ops::Minimum(error, options.delta);
  return WeightedLoss(0.5 * near * near + options.delta * (error - near),
                      options, loc);
}

Output LogLoss(const Operand& labels, const Operand& predictions,
               const LossOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("log_loss");
  const Pair p = Pair::Floats(labels, predictions);
  const double e = options.epsilon;
  return WeightedLoss(-p.labels * ops::Log(p.predictions + e) -
                          (1 - p.labels) * ops::Log(1 - p.predictions + e),
                      options, loc);
}

Output HingeLoss(const Operand& labels, const Operand& logits,
                 const LossOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("hinge_loss");
  const Pair p = Pair::Floats(labels, logits);
  const Output signs = 2 * p.labels - 1;
  return WeightedLoss(ops::Relu(1 - signs * p.predictions), options, loc);
}

Output CosineDistance(const Operand& labels, const Operand& predictions,
                      int axis, const LossOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("cosine_distance_loss");
  const Pair p = Pair::Floats(labels, predictions);
  return WeightedLoss(
      1 - ops::Sum(p.predictions * p.labels, {axis}, {.keep_dims = true}),
      options, loc);
}

Output SigmoidCrossEntropy(const Operand& labels, const Operand& logits,
                           const LossOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("sigmoid_cross_entropy_loss");
  const Output x = FloatByDefault(logits);
  const Pair p(Like(x, labels), x);
  Output z = p.labels;
  const double smoothing = options.label_smoothing;
  if (smoothing > 0) z = z * (1 - smoothing) + 0.5 * smoothing;
  // max(x, 0) - x z + log(1 + exp(-|x|)), which does not overflow. (Selections,
  // because the gradients of Relu and Abs are both 0 at 0.)
  const Output zeros = ops::ZerosLike(x);
  const Output positive = x >= zeros;
  return WeightedLoss(ops::SelectV2(positive, x, zeros) - x * z +
                          ops::Log1p(ops::Exp(ops::SelectV2(positive, -x, x))),
                      options, loc);
}

Output SoftmaxCrossEntropy(const Operand& labels, const Operand& logits,
                           const LossOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("softmax_cross_entropy_loss");
  const Output x = FloatByDefault(logits);
  const Pair p(Like(x, labels), x);
  Output z = p.labels;
  const double smoothing = options.label_smoothing;
  if (smoothing > 0 && x.valid()) {
    const Output classes =
        ops::Cast(ops::StridedSlice(ops::Shape(z), {-1}, {0}, {1},
                                    {.end_mask = 1, .shrink_axis_mask = 1}),
                  RemoveRef(x.dtype()));
    z = z * (1 - smoothing) + smoothing / classes;
  }
  return WeightedLoss(
      ops::SoftmaxCrossEntropyWithLogits(x, ops::StopGradient(z)).loss, options,
      loc);
}

Output SparseSoftmaxCrossEntropy(const Operand& labels, const Operand& logits,
                                 const LossOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("sparse_softmax_cross_entropy_loss");
  return WeightedLoss(
      ops::SparseSoftmaxCrossEntropyWithLogits(FloatByDefault(logits), labels)
          .loss,
      options, loc);
}

}  // namespace sluice
