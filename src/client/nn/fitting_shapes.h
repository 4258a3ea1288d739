// Of losses and metrics: labels that fit predictions, and weights that fit what
// they weight. Internal.
#ifndef SLUICE_CLIENT_NN_FITTING_SHAPES_H_
#define SLUICE_CLIENT_NN_FITTING_SHAPES_H_

#include <string>

#include "client/operators.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {

// The error of labels and predictions that cannot have one shape, with the
// lines where both were made; recorded.
inline Output UnequalShapes(const char* what, const Output& labels,
                            const Output& predictions) {
  return BuildError(InvalidArgument(
      what, ": expected labels and predictions of one shape, got ",
      labels.shape().ToString(), " and ", predictions.shape().ToString(),
      "; labels: ", labels.node->Describe(),
      "; predictions: ", predictions.node->Describe()));
}

// `value`, once a step has found that the condition holds; it fails with the
// message and the data if not. The assertion is in the scope of the caller.
inline Output Asserted(const Output& value, const Output& condition,
                       const std::string& message, const Output& have,
                       const Output& want) {
  Node* const check =
      ops::Assert(condition,
                  {Constant(Tensor::Scalar<std::string>(message)), have,
                   Constant(Tensor::Scalar<std::string>("and")), want},
                  {.summarize = 16});
  if (check == nullptr) return CurrentGraph().Failure();
  const ControlDependencies after({check});
  return ops::Identity(value);
}

// `x`, with a last dimension of 1 more or less where a step finds that this
// gives it the wanted rank.
inline Output InRank(const Output& x, const Output& want) {
  const Output shape = ops::Shape(x), have = ops::Rank(x);
  const Output near = ops::Abs(have - want) <= 1;
  const Output size = ops::SelectV2(near, want, have);
  const Output longer =
      ops::ConcatV2({shape, Constant(Tensor::Vector<int32_t>({1}))}, 0);
  return ops::Reshape(x, ops::Slice(longer, {0}, ops::Pack({size})));
}

// `labels` in the shape of `predictions`, without its last dimension if they
// are of `rows`: a step fails unless they have it. With `any_rank`, a last
// dimension of 1 that one of the two lacks is added or dropped. (A reshape
// alone would pair elements of [2, 3] with those of [3, 2].)
inline Output FittingLabels(const Output& predictions, const Output& labels,
                            bool any_rank, bool rows = false) {
  const NameScope scope("assert_equal_shapes");
  const char* const message =
      rows ? "expected labels of the shape of the logits without their last "
             "dimension, got"
           : "expected labels of the shape of the predictions, got";
  Output want = ops::Shape(predictions);
  if (rows) want = ops::StridedSlice(want, {0}, {-1}, {1}, {.begin_mask = 1});
  Output x = any_rank ? InRank(labels, ops::Size(want)) : labels;
  const Output have = ops::Shape(x);
  // (Sizes can be compared only if there are as many; one would be repeated.)
  const Output sizes =
      Asserted(have, ops::Size(have) == ops::Size(want), message, have, want);
  x = Asserted(x, ops::All(sizes == want, {0}), message, have, want);
  // (Which says what is known of the shape.)
  return ops::Reshape(x, want);
}

// `weights`, which are a number or have the rank of `values` and sizes that are
// 1 or equal to theirs, so that a product with them has the shape of `values`.
// Null, with the error recorded, if they do not; what is not known of the
// shapes is checked by a step.
inline Output FittingWeights(const Output& weights, const Output& values) {
  if (!weights.valid() || !values.valid()) return weights;
  const PartialShape w = weights.shape(), v = values.shape();
  if (w.rank() == 0) return weights;
  if (w.rank_known() && v.rank_known()) {
    bool fits = w.rank() == v.rank(), certain = fits;
    for (int i = 0; fits && i < w.rank(); ++i) {
      const int64_t have = w.dim(i), want = v.dim(i);
      if (have == 1 || (have == want && have >= 0)) continue;
      certain = false;
      fits = have < 0 || want < 0;
    }
    if (!fits)
      return BuildError(InvalidArgument(
          "weights: expected a number, or a tensor with the rank of the values "
          "and sizes that are 1 or equal to theirs, got ",
          w.ToString(), " for values ", v.ToString()));
    if (certain) return weights;
  }
  Output checked = weights;
  if (!w.rank_known() || !v.rank_known()) {
    // (Weights of fewer dimensions would be broadcast along the last ones.)
    const NameScope scope("assert_broadcastable");
    const Output have = ops::Rank(weights), want = ops::Rank(values);
    checked = Asserted(weights, have == 0 || have == want,
                       "weights can not be broadcast to values: expected a "
                       "number or a tensor with their rank, got ranks",
                       have, want);
  }
  // (The product alone would take the shape of larger weights.)
  return ops::BroadcastTo(checked, ops::Shape(values));
}

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_FITTING_SHAPES_H_
