// Of losses and metrics: labels that fit predictions, and weights that fit what
// they weight. Internal.
#ifndef SLUICE_CLIENT_NN_FITTING_SHAPES_H_
#define SLUICE_CLIENT_NN_FITTING_SHAPES_H_

#include "client/operators.h"
#include "graph/builder.h"
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
  // (The product alone would take the shape of larger weights.)
  return ops::BroadcastTo(weights, ops::Shape(values));
}

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_FITTING_SHAPES_H_
